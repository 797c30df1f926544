"""What an environment looks like to a learner: its observations, its actions, its time limit.

`DiscreteSpec` is for tables (Discrete observations and actions), `BoxSpec` for networks (any observations that can be
flattened, Discrete actions), `BoxActionSpec` for Box actions, which agents see flattened and scaled to [-1, 1].
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.spaces.utils import flatdim, flatten
from gymnasium.vector.utils import iterate

from gvfx.errors import InputError
from gvfx.worlds.mdp import MDP


def is_environment(world: Any) -> bool:
    """Whether something is a Gymnasium environment, vector environments included."""
    parts = ("step", "reset", "observation_space", "action_space")
    return not isinstance(world, type) and all(hasattr(world, part) for part in parts)


class BadObservation(ValueError):
    """An observation that is not what its space says."""


class _Numbered:
    """An environment whose actions are whole numbers."""

    first_action: int

    def to_env(self, action: Any) -> Any:
        """An action as the environment counts it, from what an agent chose."""
        return int(action) + self.first_action

    def to_env_batch(self, actions: np.ndarray) -> np.ndarray:
        """The same for a vector environment, [lane, ...]."""
        return actions + self.first_action


@dataclass(frozen=True, eq=False)
class DiscreteSpec(_Numbered):
    """A Gymnasium environment with Discrete observations and actions as learners see it."""

    env: Any
    name: str
    first_state: int  # Discrete(n, start): observations are first_state, first_state + 1, ...
    first_action: int
    lanes: int  # environments stepped together; 1 for a plain one
    skeleton: MDP  # its sizes and time limit; the transitions are not known, so every state leads to itself

    @property
    def single(self) -> bool:
        """Whether it is a plain environment, not a vector of them."""
        return not hasattr(self.env, "num_envs")

    def seen(self, observation: Any) -> int:
        """The state's number, counted from 0; anything that is none is a Misfit."""
        try:
            s = observation.__index__() - self.first_state
        except (AttributeError, TypeError):
            shape = np.shape(observation)
            what = f"of shape {list(shape)}" if shape else repr(observation)[:40]
            raise BadObservation(f"the observation {what} is not one whole number, as its space says.") from None
        if not 0 <= s < self.skeleton.states:
            raise BadObservation(f"the observation {observation} lies outside its space of {self.skeleton.states} states.")
        return s

    def split(self, observations: Any) -> list[int]:
        """A vector environment's observations, one by one."""
        states = np.asarray(observations)
        if states.shape != (self.lanes,) or states.dtype.kind not in "iu":
            raise BadObservation(f"the observations have shape {list(states.shape)}, not one whole number per environment.")
        return states.tolist()


def discrete_spec(env: Any) -> DiscreteSpec:
    """The outline of an environment, or a sentence that says why it cannot be answered with tables."""
    many = hasattr(env, "num_envs")
    spaces = {
        "observation_space": env.single_observation_space if many else env.observation_space,
        "action_space": env.single_action_space if many else env.action_space,
    }
    for field, space in spaces.items():
        if type(space).__name__ != "Discrete":
            fix = "group observations into numbered states" if field == "observation_space" else "offer numbered actions"
            raise InputError(f"{field}: {type(space).__name__} is not Discrete, as tables need; {fix} with a wrapper.")
    seen, moves = spaces["observation_space"], spaces["action_space"]
    return DiscreteSpec(
        env=env,
        name=environment_name(env),
        first_state=int(seen.start),
        first_action=int(moves.start),
        lanes=int(env.num_envs) if many else 1,
        skeleton=skeleton_mdp(int(seen.n), int(moves.n), time_limit(env)),
    )


@dataclass(frozen=True, eq=False)
class BoxSpec(_Numbered):
    """A Gymnasium environment with Discrete actions and any observations that can be flattened, as networks see it."""

    env: Any
    name: str
    first_action: int
    actions: int
    lanes: int  # environments stepped together; 1 for a plain one
    space: Any  # of one observation
    size: int  # numbers in an observation

    @property
    def single(self) -> bool:
        """Whether it is a plain environment, not a vector of them."""
        return not hasattr(self.env, "num_envs")

    @cached_property
    def box(self) -> bool:
        return type(self.space).__name__ == "Box"

    def seen(self, observation: Any) -> np.ndarray:
        """The observation as one vector of finite numbers, [size]; anything else is a Misfit."""
        if self.box and isinstance(observation, np.ndarray) and observation.shape == self.space.shape:
            out = observation.astype(np.float32).ravel()
        else:
            try:
                out = np.asarray(flatten(self.space, observation), np.float32)
            except (TypeError, ValueError, KeyError, AttributeError, IndexError):
                out = np.empty(0, np.float32)
            if out.shape != (self.size,):
                shape = list(np.shape(observation)) if not isinstance(observation, dict) else sorted(observation)
                raise BadObservation(
                    f"the observation ({type(observation).__name__} of {shape}) does not fit its space, {self.space}."
                )
        if np.count_nonzero(np.isfinite(out)) < out.size:
            raise BadObservation("the observation holds nan or infinity; return finite numbers.")
        return out

    def split(self, observations: Any) -> list[Any]:
        """A vector environment's observations, one by one."""
        batch = self.env.observation_space
        return [copy.deepcopy(observation) for observation in iterate(batch, observations)]

    def batch(self, observations: Any) -> tuple[Any, np.ndarray, bool]:
        """One observation or several as a batch for policies, as vectors [batch, size], and whether it was only one."""
        alone = isinstance(observations, dict) or (self.space.shape is not None and np.shape(observations) == self.space.shape)
        batch = [np.asarray(o) if self.box else o for o in ([observations] if alone else observations)]
        try:
            return self.together(batch), np.array([self.seen(o) for o in batch]), alone
        except BadObservation as error:
            raise InputError(f"observation: {error}") from None

    def together(self, observations: Any) -> Any:
        """Observations one by one as policies like them: an array where they are arrays, else a list."""
        return np.array(observations) if self.space.shape is not None else list(observations)


def observed(env: Any) -> tuple[Any, int]:
    """The space of one observation and how many numbers it has when flattened."""
    space = env.single_observation_space if hasattr(env, "num_envs") else env.observation_space
    try:
        return space, int(flatdim(space))
    except (NotImplementedError, ValueError):
        raise InputError(f"observation_space: {space} cannot be flattened; offer Box or Dict observations.") from None


def box_spec(env: Any) -> BoxSpec:
    """The outline of an environment for networks, or a sentence that says why it has none."""
    many = hasattr(env, "num_envs")
    moves = env.single_action_space if many else env.action_space
    if type(moves).__name__ != "Discrete":
        raise InputError(f"action_space: {type(moves).__name__} is neither Discrete nor Box; offer one of them with a wrapper.")
    space, size = observed(env)
    return BoxSpec(env, environment_name(env), int(moves.start), int(moves.n), int(env.num_envs) if many else 1, space, size)


def skeleton_mdp(states: int, actions: int, horizon: int | None = None) -> MDP:
    """Sizes alone, as an MDP whose every state leads to itself."""
    itself = np.broadcast_to(np.arange(states, dtype=np.int32)[:, None, None], (states, actions, 1))
    return MDP(itself, np.ones(itself.shape), np.full(states, 1 / states), np.zeros(states, bool), horizon)


def environment_name(env: Any) -> str:
    """The registered name, or the class."""
    spec = getattr(env, "spec", None)
    return getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__


def layers(env: Any) -> list[Any]:
    """The wrappers of an environment, outermost first, and the environment itself."""
    out = [env]
    while hasattr(out[-1], "env") and out[-1] is not getattr(out[-1], "unwrapped", None):
        out.append(out[-1].env)
    return out


def time_limit(env: Any) -> int | None:
    """Steps after which the environment's TimeLimit cuts an episode."""
    limits = [layer._max_episode_steps for layer in layers(env) if type(layer).__name__ == "TimeLimit"]
    declared = getattr(getattr(env, "spec", None), "max_episode_steps", None) if hasattr(env, "num_envs") else None
    return min(limits) if limits else declared


@dataclass(frozen=True, eq=False)
class BoxActionSpec(BoxSpec):
    """A Gymnasium environment with Box actions; `actions` is how many numbers an action has."""

    moves: Any  # the space of one action

    @cached_property
    def middle(self) -> np.ndarray:
        return (self.moves.low.astype(float) + self.moves.high) / 2

    @cached_property
    def half(self) -> np.ndarray:
        return (self.moves.high.astype(float) - self.moves.low) / 2

    def to_env(self, action: Any) -> np.ndarray:
        return self.to_env_batch(action[None])[0]

    def to_env_batch(self, actions: np.ndarray) -> np.ndarray:
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


def box_action_spec(env: Any) -> BoxActionSpec:
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
    return BoxActionSpec(env, environment_name(env), 0, int(np.prod(moves.shape)), lanes, space, size, moves)


def network_spec(env: Any) -> BoxSpec:
    """The outline of an environment for networks, whichever actions it has."""
    return box_action_spec(env) if has_box_actions(env) else box_spec(env)


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """Any action of a Discrete or Box space alike."""
    if hasattr(space, "n"):
        return int(space.start + rng.integers(space.n))
    return rng.uniform(space.low, space.high).astype(space.dtype)
