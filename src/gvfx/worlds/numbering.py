"""Numbering of observations: an observation of a few whole numbers gets the next free number when it is first met.

The numbers mean nothing outside a run: checkpoints hold the observations in the order of their numbers, and results name states
by the observations themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector.utils import iterate

from gvfx.errors import InputError, RunError
from gvfx.worlds.spaces import BadObservation, Key, countable, fits, key_of, readable
from gvfx.worlds.spec import (
    BoxSpec,
    DiscreteSpec,
    discrete_spec,
    environment_name,
    has_box_actions,
    network_spec,
    numbered_actions,
    skeleton_mdp,
    spaces_of,
    time_limit,
)

MOST_STATES = 20_000  # different observations that are answered from tables
SAMPLE, NEW = 2_000, 0.5  # observations after which the share of new ones must not be larger


class Uncountable(RunError):
    """Too many different observations were met for tables; `what` says how many."""

    def __init__(self, what: str) -> None:
        fix = "give learner=gvfx.LinearCertaintyEquivalence() or gvfx.Deep()"
        super().__init__(f"observation_space: {what}, too many for tables; {fix}.")
        self.what = what


class Numbering:
    """The observations met so far."""

    def __init__(self, space: Any) -> None:
        self.space = space
        self.keys: list[Key] = []  # in the order of their numbers
        self.number: dict[Key, int] = {}
        self.looked = 0  # observations numbered, new or not
        self.met: Callable[[int, Any], None] = lambda number, observation: None  # called with each new one

    def __call__(self, observation: Any) -> int:
        """The number of an observation; a new one must have the form of the space, but may lie outside its bounds."""
        try:
            key = key_of(self.space, observation)
        except (TypeError, ValueError, LookupError, AttributeError):
            key = None
        self.looked += 1
        known = None if key is None else self.number.get(key)
        if known is not None:
            return known
        if key is None or not fits(self.space, observation):
            raise BadObservation(f"the observation {observation!r:.60} does not fit its space, {self.space!s:.80}.")
        return self._new(key, observation)

    def _new(self, key: Key, observation: Any) -> int:
        number = len(self.keys)
        if number == MOST_STATES or (self.looked > SAMPLE and number > NEW * self.looked):
            raise Uncountable(f"{number:,} different observations were met in {self.looked:,} steps")
        self.keys.append(key)
        self.number[key] = number
        self.met(number, observation)
        return number

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as named arrays, for a checkpoint."""
        return {"keys": np.array(self.keys, np.int64), "looked": np.array(self.looked)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from what `arrays` returned."""
        self.keys = [tuple(key) for key in arrays["keys"].tolist()]
        self.number = {key: n for n, key in enumerate(self.keys)}
        self.looked = int(arrays["looked"])


@dataclass(frozen=True, eq=False)
class CountedSpec(DiscreteSpec):
    """An environment whose observations are numbered as they are met; `skeleton` has room for more of them than were met."""

    numbering: Numbering = field(default_factory=lambda: Numbering(None))
    left_out: tuple[str, ...] = ()  # entries of an observation that hold no numbers
    fixed: ClassVar[bool] = False

    def seen(self, observation: Any) -> int:
        return self.numbering(observation)

    def split(self, observations: Any) -> list[Any]:
        return [copy.deepcopy(observation) for observation in iterate(self.env.observation_space, observations)]

    def together(self, observations: Sequence[Any]) -> Any:
        """A list of single observations as the batch that policies take: one array if they are arrays, else a list."""
        return np.array(observations) if spaces_of(self.env)[0].shape is not None else list(observations)

    def fresh(self, states: int) -> CountedSpec:
        """The same environment with nothing numbered and room for some states."""
        return replace(self.sized(states), numbering=Numbering(self.numbering.space))

    def sized(self, states: int) -> CountedSpec:
        """The same numbers with room for more states."""
        return replace(self, skeleton=skeleton_mdp(states, self.skeleton.actions, self.skeleton.horizon))


def is_counted(env: Any) -> bool:
    """Whether observations are not Discrete but can be numbered as they are met, and actions are numbered."""
    seen, _ = spaces_of(env)
    if type(seen).__name__ == "Discrete":
        return False
    try:
        numbered_actions(env)
        return countable(readable(seen)[0])
    except InputError:
        return False


def counted_spec(env: Any, states: int) -> CountedSpec:
    """The spec for tables whose states are observations as they are met; room for `states` at first."""
    first, listed = numbered_actions(env)
    actions = len(listed) or int(spaces_of(env)[1].n)
    space, left_out = readable(spaces_of(env)[0])
    skeleton = skeleton_mdp(states, actions, time_limit(env))
    lanes = int(getattr(env, "num_envs", 1))
    return CountedSpec(env, environment_name(env), 0, first, lanes, skeleton, listed, Numbering(space), left_out)


def spec_of(env: Any) -> DiscreteSpec | BoxSpec:
    """The spec of an environment: `DiscreteSpec` or `CountedSpec` where tables apply, else `BoxActionSpec` or `BoxSpec`."""
    if is_counted(env):
        return counted_spec(env, 64)
    discrete = type(spaces_of(env)[0]).__name__ == "Discrete"
    return discrete_spec(env) if discrete and not has_box_actions(env) else network_spec(env)
