"""Gymnasium environments with Box actions: agents see actions flattened and scaled to [-1, 1].

`Reach` is the environment's outline, `Gaussians` are the questions' policies: their middle actions, and draws from
them that are always the same, for answers that do not depend on chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from gvfx.errors import InputError
from gvfx.gvf import GVF, expand, question_names
from gvfx.policies import ContinuousPolicy
from gvfx.worlds.asking import Sight, environment_name, observed, sight

DRAWS = 32  # of a policy's noise, for its value
FAR = 10.0  # spreads beyond the bounds; a middle action further out is as good as one there


@dataclass(frozen=True, eq=False)
class Reach(Sight):
    """A Gymnasium environment with Box actions; `actions` is how many numbers an action has."""

    moves: Any  # the space of one action

    @cached_property
    def middle(self) -> np.ndarray:
        return (self.moves.low.astype(float) + self.moves.high) / 2

    @cached_property
    def half(self) -> np.ndarray:
        return (self.moves.high.astype(float) - self.moves.low) / 2

    def deed(self, action: Any) -> np.ndarray:
        return self.deeds(action[None])[0]

    def deeds(self, actions: np.ndarray) -> np.ndarray:
        own = self.middle + self.half * actions.reshape(len(actions), *self.moves.shape)
        return own.clip(self.moves.low, self.moves.high).astype(self.moves.dtype)

    def scaled(self, actions: np.ndarray) -> np.ndarray:
        """Actions [batch, *shape] of the environment as agents see them, [batch, action]."""
        return ((actions - self.middle) / self.half).reshape(len(actions), -1).astype(np.float32)

    def given(self, actions: Any, count: int) -> np.ndarray:
        """A user's actions, one for all of `count` observations or one each, as agents see them."""
        try:
            own = np.broadcast_to(np.asarray(actions, float), (count, *self.moves.shape))
        except (TypeError, ValueError):
            own = np.full((count, *self.moves.shape), np.nan)
        if not ((own >= self.moves.low) & (own <= self.moves.high)).all():
            raise InputError(f"action: {actions!r:.60} does not lie in {self.moves}; give one action, or one per observation.")
        return self.scaled(own)


def has_box_actions(env: Any) -> bool:
    """Whether an environment, plain or vector, has Box actions."""
    return type(getattr(env, "single_action_space", None) or env.action_space).__name__ == "Box"


def reach(env: Any) -> Reach:
    """The outline of an environment with Box actions, or a sentence that says why it has none."""
    many = hasattr(env, "num_envs")
    space, size = observed(env)
    moves = env.single_action_space if many else env.action_space
    if moves.dtype.kind != "f":
        raise InputError(f"action_space: a Box of {moves.dtype} holds whole numbers; offer Discrete, or a Box of floats.")
    for what, bad in (("is unbounded", ~np.isfinite(moves.high - moves.low)), ("has no room", moves.high <= moves.low)):
        if bad.any():
            raise InputError(
                f"action_space: {moves} {what} in dimension {int(np.argmax(bad))}; give the Box finite bounds, low below high, "
                "for example with gymnasium.wrappers.TransformAction."
            )
    lanes = int(env.num_envs) if many else 1
    return Reach(env, environment_name(env), 0, int(np.prod(moves.shape)), lanes, space, size, moves)


def outlook(env: Any) -> Sight:
    """The outline of an environment for networks, whichever actions it has."""
    return reach(env) if has_box_actions(env) else sight(env)


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """Any action of a Discrete or Box space alike."""
    if hasattr(space, "n"):
        return int(space.start + rng.integers(space.n))
    return rng.uniform(space.low, space.high).astype(space.dtype)


class Gaussians:
    """The questions' policies of Box actions, as agents see actions; equal policies are asked once."""

    def __init__(self, questions: Sequence[GVF], here: Reach) -> None:
        questions = expand(questions)
        self.here, self.names = here, question_names(questions)
        self.distinct: dict[ContinuousPolicy, str] = {}
        for name, q in zip(self.names, questions, strict=True):
            if not isinstance(q.policy, ContinuousPolicy):
                raise InputError(
                    f"{name}.policy: {type(q.policy).__name__} has numbered actions, the environment a Box of them; "
                    "use gvfx.gaussian_policy(function, sigma)."
                )
            self.distinct.setdefault(q.policy, f"{name}.policy")
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in questions])  # type: ignore[arg-type]
        spreads = [policy.sigmas(here.moves.shape, field) / here.half for policy, field in self.distinct.items()]
        self.spreads = np.array(spreads, np.float32).reshape(len(order), -1)  # [policy, action]
        self.fields = list(self.distinct.values())
        self.settled: list[ContinuousPolicy] = []

    @property
    def sigmas(self) -> np.ndarray:
        """[gvf, action]"""
        return self.spreads[self.member]

    def each(self, observations: Any) -> np.ndarray:
        """Every distinct policy's middle actions [batch, policy, action]."""
        return np.stack([self.one(k, observations) for k in range(len(self.distinct))], axis=1)

    def one(self, k: int, observations: Any) -> np.ndarray:
        """The k-th distinct policy's middle actions [batch, action]."""
        shape = self.here.moves.shape
        if not self.settled:
            for policy, field in self.distinct.items():
                policy.middles(observations[:1], shape, field)  # mistakes are named before anything is compiled
            self.settled = [policy.ready(observations, shape) for policy in self.distinct]
        middles = self.here.scaled(self.settled[k].middles(observations, shape, self.fields[k]))
        return middles.clip(-1 - FAR * self.spreads[k], 1 + FAR * self.spreads[k])

    def __call__(self, observations: Any) -> np.ndarray:
        """The same few draws of every policy, always: actions [batch, draw, gvf, action]."""
        noise = normals(self.here.actions)[:, None]
        drawn = self.each(observations)[:, None] + self.spreads * noise  # [batch, draw, policy, action]
        return drawn.clip(-1, 1).astype(np.float32)[:, :, self.member]

    def sample(self, k: int, observation: Any, rng: np.random.Generator) -> np.ndarray:
        """An action of the k-th distinct policy, in the environment's units."""
        middle = self.one(k, self.here.together([observation]))[0]
        return self.here.deed((middle + self.spreads[k] * rng.standard_normal(middle.shape)).clip(-1, 1))


@lru_cache
def normals(size: int) -> np.ndarray:
    """Standard normal numbers spread evenly in each of their dimensions (a Latin hypercube), [DRAWS, size]."""
    levels = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    rng = np.random.default_rng(size)
    return np.stack([rng.permutation(levels / levels.std()) for _ in range(size)], axis=1).astype(np.float32)
