"""Worlds for the question whether gvfx pays beside plain rollouts: named ones, and any number that are drawn from a seed.

`drawn(kind, seed)` draws a world of a kind of `KINDS`: its dynamics, starts, policies and signals.  A kind says what matters
to the comparison: noise, what is hidden, how many policies and inputs there are, how seldom something is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.common.box_worlds import ACROBOT, CARTPOLE, MASSES, TANKS, Batch, BoxWorld, Rng, chances

# --- named -----------------------------------------------------------------------------------------------------------


def _car(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    speed = np.clip(s[:, 1] + 0.001 * (action - 1.0) - 0.0025 * np.cos(3 * s[:, 0]), -0.07, 0.07)
    at = np.clip(s[:, 0] + speed, -1.2, 0.6)
    return np.stack([at, np.where((at <= -1.2) & (speed < 0), 0.0, speed)], axis=1), at >= 0.5


MOUNTAIN_CAR = BoxWorld(
    "MountainCar",
    2,
    3,
    begin=lambda rng, n: np.stack([rng.uniform(-0.6, -0.4, n), np.zeros(n)], axis=1),
    step=_car,
    policies={
        "pumping": lambda o: chances(np.where(o[..., 1] >= 0, 2, 0), 0.9, 3),
        "lazy": lambda o: chances(np.where(o[..., 1] >= 0, 2, 0), 0.6, 3),
    },
    signals={"time": lambda o: -np.ones(o.shape[:-1])},
    discount=0.98,
)


def _queues(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    burst = np.where(rng.random(len(s)) < 0.1, 1 - s[:, 2], s[:, 2])  # the mode of arrivals
    arrivals = rng.poisson(np.where(burst > 0.5, 1.2, 0.4)[:, None] * [1.0, 0.6])
    served = np.stack([action == 0, action == 1], axis=1) * rng.poisson(1.8, len(s))[:, None]
    return np.column_stack([np.clip(s[:, :2] + arrivals - served, 0, 20), burst]), np.zeros(len(s), bool)


QUEUES = BoxWorld(
    "queues",
    3,
    2,
    begin=lambda rng, n: np.column_stack([rng.integers(0, 5, (n, 2)), rng.integers(0, 2, n)]).astype(float),
    step=_queues,
    policies={
        "longest first": lambda o: chances((o[..., 1] > o[..., 0]).astype(int), 0.95, 2),
        "first first": lambda o: chances((o[..., 0] < 0.5).astype(int), 0.95, 2),
    },
    signals={"waiting": lambda o: -(o[..., 0] + o[..., 1]) / 10},
    discount=0.97,
)


def _some(world: BoxWorld, **changes: Any) -> BoxWorld:
    """The world with two of its policies and one of its signals, unless others are given."""
    few = {"policies": dict([*world.policies.items()][-2:]), "signals": dict([*world.signals.items()][:1])}
    return replace(world, **(few | changes))


NAMED = {
    world.name: world
    for world in (
        _some(CARTPOLE),
        _some(CARTPOLE, name="CartPole, speeds hidden", numbers=2, observe=lambda s: s[:, [0, 2]], own=None,
              policies={"by angle": lambda o: chances(o[..., 1] >= 0, 0.9, 2),
                        "careless": lambda o: chances(o[..., 1] >= 0.02, 0.7, 2)}),
        _some(ACROBOT, discount=0.98),
        MOUNTAIN_CAR,
        QUEUES,
        replace(QUEUES, name="queues, mode hidden", numbers=2, observe=lambda s: s[:, :2]),
        _some(TANKS),
        _some(MASSES),
    )
}  # fmt: skip


# --- drawn -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What worlds of a kind have in common."""

    numbers: int = 4  # of the state
    seen: int = 4  # of them that an observation has
    noise: float = 0.0
    policies: int = 2
    actions: int = 3
    ends: bool = False  # whether episodes end where the first number is large
    seldom: bool = False  # whether the signal is paid in a small part of the states alone
    discount: float = 0.95


KINDS = {
    "deterministic": Kind(),
    "noisy": Kind(noise=0.3),
    "ending": Kind(noise=0.1, ends=True),
    "partly seen": Kind(noise=0.1, seen=2),
    "seldom paid": Kind(noise=0.2, seldom=True),
    "20 policies": Kind(noise=0.1, policies=20),
    "12 inputs": Kind(numbers=12, seen=12, noise=0.2),
}


def drawn(kind: str, seed: int) -> BoxWorld:
    """A world of a kind: damped coupled motion that the actions push, with random policies (softmax of a linear function)."""
    of, rng = KINDS[kind], np.random.default_rng([sum(map(ord, kind)), seed])
    n = of.numbers
    turn, _ = np.linalg.qr(rng.normal(size=(n, n)))
    keep = turn * rng.uniform(0.85, 0.98)
    push, bend = rng.normal(size=(of.actions, n)) * 0.3, rng.normal(size=(n, n)) / np.sqrt(n)
    wide = rng.uniform(0.3, 1.0)

    def begin(rng: Rng, many: int) -> Batch:
        return rng.normal(scale=wide, size=(many, n))

    def step(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
        after = s @ keep.T + 0.3 * np.tanh(s @ bend.T) + push[action]
        after = 3 * np.tanh(after / 3) + of.noise * rng.normal(size=s.shape)
        return after, (np.abs(after[:, 0]) > 2.0) if of.ends else np.zeros(len(s), bool)

    def policy() -> Callable[[np.ndarray], np.ndarray]:
        slopes = rng.normal(size=(of.actions, of.seen)) * 1.5 / np.sqrt(of.seen)

        def at(o: np.ndarray) -> np.ndarray:
            logits = o @ slopes.T
            p = np.exp(logits - logits.max(axis=-1, keepdims=True))
            return np.asarray(p / p.sum(axis=-1, keepdims=True))

        return at

    toward = rng.normal(size=of.seen)
    toward /= np.linalg.norm(toward)
    level = 1.5 if of.seldom else 0.0

    def signal(o: np.ndarray) -> np.ndarray:
        return (o @ toward > level).astype(float) if of.seldom else np.tanh(o @ toward)

    return BoxWorld(
        f"{kind} {seed}",
        of.seen,
        of.actions,
        begin,
        step,
        {f"policy {k}": policy() for k in range(of.policies)},
        {"seldom" if of.seldom else "level": signal},
        observe=lambda s: s[:, : of.seen],
        discount=of.discount,
    )
