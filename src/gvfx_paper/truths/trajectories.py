"""True values on Walker and Cheetah by Monte Carlo, at fixed state-action points of the targets' trajectories.

Target k of a domain answers about its task k: Q_k(s, a) = E[sum_t gamma^t c_k,t] when a is taken in s and target k is
followed from then on.  Targets act as clip(act(observation) + N(0, sigma^2), -1, 1), which makes episodes differ.

Every point is a state of a trajectory of its own and the action taken there.  The points of a target lie at evenly spaced
times up to the horizon, and each target provides the same number.  Every (GVF, point) has its own random stream and its
own calls of the actor, so values do not depend on the numbers of worlds stepped together and of threads.

The files in `data/` were made by `tools/mujoco_truths.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.threads import one_thread
from gvfx_paper.targets import Target
from gvfx_paper.truths.lattice import SHIPPED, Arrays, check_count, kept, shipped
from gvfx_paper.worlds.mujoco import MUJOCO_VERSION, Domain, Lockstep

AXES = {f"{name}s": f"float64 point {name}" for name in ("state", "observation", "action")}  # of a file
AXES |= dict.fromkeys(("values", "standard_errors"), "float64 point gvf")


@dataclass(frozen=True, eq=False)
class MujocoTruth:
    """True values at the evaluation points, with standard errors."""

    states: np.ndarray  # [point, k], of the simulator
    observations: np.ndarray  # [point, o]
    actions: np.ndarray  # [point, a]
    values: np.ndarray  # [point, gvf]
    standard_errors: np.ndarray  # [point, gvf]

    def mse(self, predicted: np.ndarray) -> np.ndarray:
        """Mean squared error per GVF [gvf] of predictions [point, gvf]."""
        predicted = np.asarray(predicted)
        if predicted.shape != self.values.shape:
            raise InputError(f"predicted: has shape {predicted.shape}; give {self.values.shape}, one row per point.")
        return ((predicted - self.values) ** 2).mean(axis=0)

    @property
    def noise_floor(self) -> np.ndarray:
        """Mean squared standard error per GVF [gvf]: the MSE of a perfect prediction."""
        return (self.standard_errors**2).mean(axis=0)


def mujoco_truth(
    domain: Domain,
    targets: Sequence[Target],
    points: int = 50,
    episodes: int = 100,
    discount: float = 0.99,
    steps: int = 700,
    seed: int = 0,
    cache: Path | None = None,
    worlds: int = 500,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> MujocoTruth:
    """The truth that ships with gvfx, or the one stored in the folder `cache`, or a new one.

    targets:  one for each task of the domain, in their order.
    episodes: per GVF and point, each of `steps` steps.
    worlds:   how many are stepped together (at least the episodes of one point).
    progress: called with (points done, all points).
    """
    asked = describe(domain, targets, points, episodes, discount, steps, seed)
    check_count("worlds", worlds)

    def make() -> Arrays:
        states, observations, actions = choose_points(domain, targets, points, seed)
        how = episodes, discount, steps, seed, worlds, threads, progress or (lambda *_: None)
        return vars(MujocoTruth(states, observations, actions, *simulate(domain, targets, states, actions, *how)))

    sizes = {"point": points, "gvf": len(targets), "observation": domain.observation_size, "action": domain.action_size}
    found = shipped(SHIPPED, asked, AXES, **sizes) or kept(cache, "control", asked, make, AXES, **sizes)
    return MujocoTruth(**found)


def describe(
    domain: Domain, targets: Sequence[Target], points: int, episodes: int, discount: float, steps: int, seed: int
) -> dict[str, Any]:
    """Everything that the truth depends on, as JSON types, after checking it."""
    if len(targets) != len(domain.tasks):
        raise InputError(f"targets: {len(targets)} given; {domain.name} needs one for each of {', '.join(domain.tasks)}.")
    counts = {"points": (points, len(targets)), "episodes": (episodes, 2), "steps": (steps, 1), "seed": (seed, 0)}
    for name, (value, least) in counts.items():
        check_count(name, value, least)
    if points % len(targets):
        raise InputError(f"points: {points} cannot be divided evenly among {len(targets)} targets; give a multiple.")
    if not isinstance(discount, int | float | np.number) or not 0 <= discount < 1:
        raise InputError(f"discount: {discount!r} lies outside [0, 1); give a number below 1.")
    described = {"domain": domain.name, "horizon": domain.horizon, "mujoco": MUJOCO_VERSION, "version": 1}
    described |= {name: int(value) for name, (value, _) in counts.items()}
    return {**described, "discount": float(discount), "targets": [[str(t.digest), float(t.sigma)] for t in targets]}


@one_thread()
def choose_points(domain: Domain, targets: Sequence[Target], points: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(states [point, k], observations [point, o], actions [point, a]), the first target's points first."""
    each = points // len(targets)
    times = ((np.arange(each) + 0.5) * domain.horizon / each).astype(int)  # point k: trajectory k at times[k]
    found: list[tuple[np.ndarray, ...]] = []
    for k, target in enumerate(targets):
        generator = _stream(seed, "points", k)
        trajectories = Lockstep(domain, each)
        observations = trajectories.reset(generator)
        for t in range(times[-1] + 1):
            actions = _act(target, observations, generator.standard_normal((each, domain.action_size)))
            for i in np.flatnonzero(times == t):
                found.append((trajectories.get_state()[i], observations[i], actions[i]))
            observations, _ = trajectories.step(actions)
    states, observed, acted = (np.array(part) for part in zip(*found, strict=True))
    return states, observed, acted


@one_thread()
def simulate(
    domain: Domain,
    targets: Sequence[Target],
    states: np.ndarray,
    actions: np.ndarray,
    episodes: int,
    discount: float,
    steps: int,
    seed: int,
    worlds: int,
    threads: int,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean return and its standard error [point, gvf] over episodes from each state-action point."""
    points, together = len(states), max(1, worlds // episodes)  # points whose episodes are stepped together
    values, errors = np.empty((2, points, len(targets)))
    for first in range(0, points, together):
        chosen = range(first, min(first + together, points))
        batch = Lockstep(domain, len(chosen) * episodes, threads)
        blocks = [slice(i * episodes, (i + 1) * episodes) for i in range(len(chosen))]
        for k, target in enumerate(targets):
            batch.set_state(np.repeat(states[chosen], episodes, axis=0))
            streams = [_stream(seed, "episodes", k, point) for point in chosen]
            taken = np.repeat(actions[chosen], episodes, axis=0)
            returns = np.zeros(len(taken))
            for t in range(steps):
                observations, cumulants = batch.step(taken)
                returns += discount**t * cumulants[:, k]
                for block, stream in zip(blocks, streams, strict=True):
                    taken[block] = _act(target, observations[block], stream.standard_normal((episodes, domain.action_size)))
            split = returns.reshape(len(chosen), episodes)
            values[chosen, k] = split.mean(axis=1)
            errors[chosen, k] = split.std(axis=1, ddof=1) / np.sqrt(episodes)
        progress(chosen.stop, points)
    return values, errors


def _act(target: Target, observations: np.ndarray, normals: np.ndarray) -> np.ndarray:
    return np.clip(np.asarray(target.act(observations), float) + target.sigma * normals, -1.0, 1.0)


def _stream(seed: int, name: str, *index: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()), *index)))
