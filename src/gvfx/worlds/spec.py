"""Specs: what a Gymnasium environment looks like to a learner, and the translation between the two.

Learners see states as numbers from 0 or vectors of floats, actions as numbers from 0 or vectors in [-1, 1].  The copies of a
vector environment are called lanes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten, unflatten
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from gvfx.errors import InputError, RunError
from gvfx.features.scaling import Origin, compact
from gvfx.inputs import shown
from gvfx.types import Environment
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spaces import (
    MOST_ACTIONS,
    BadObservation,
    Key,
    batched,
    count_of,
    countable,
    elements_of,
    fits,
    key_of,
    random_element,
    readable,
    reduced,
)


def is_environment(world: Any) -> bool:
    """Whether an object has the interface of a Gymnasium environment, plain or vector."""
    parts = ("step", "reset", "observation_space", "action_space")
    return not isinstance(world, type) and all(hasattr(world, part) for part in parts)


def _lanes(env: Any) -> int:
    """Environments stepped together; 1 for a plain one."""
    return int(getattr(env, "num_envs", 1))


def spaces_of(env: Any) -> tuple[Any, Any]:
    """The observation space and the action space of one lane."""
    if hasattr(env, "num_envs"):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def numbered_actions(env: Any) -> tuple[int, int, tuple[Any, ...]]:
    """The number of actions; the first Discrete action and none, or 0 and all actions of another small space, in order."""
    moves = spaces_of(env)[1]
    kind = type(moves).__name__
    if kind == "Discrete":
        return int(moves.n), int(moves.start), ()
    count = count_of(moves)
    if count is None:
        raise InputError(f"action_space: {kind} is neither Discrete nor Box; provide one of them with a wrapper.")
    if not 0 < count <= MOST_ACTIONS:
        raise InputError(
            f"action_space: {kind} has {count:,} actions, more than the {MOST_ACTIONS:,} that are numbered; provide fewer, or "
            "Box actions, with a wrapper."
        )
    return count, 0, tuple(elements_of(moves))


def actions_of(env: Environment) -> list[object]:
    """The environment's actions in the order in which policies give their probabilities; the last number changes fastest."""
    if not is_environment(env):
        raise InputError(f"env: {shown(env)} is not a Gymnasium environment; give one.")
    count, first, listed = numbered_actions(env)
    return list(listed) or [first + a for a in range(count)]


def stacked_actions(space: Any, actions: list[Any]) -> Any:
    """Actions of several copies as the argument of a vector environment's `step`."""
    room: Any = create_empty_array(space, len(actions))
    return concatenate(space, actions, room)


class _Spec:
    """What all specs share."""

    env: Any
    space: Any  # the observation space of one lane, as far as it is read
    first_action: int  # the environment's number of the learner's action 0
    listed: tuple[Any, ...]  # other actions that are numbered
    left_out: tuple[str, ...] = ()  # entries of an observation that hold no numbers
    fixed: ClassVar[bool] = False  # whether the states are known from the beginning

    def anew(self) -> Self:
        """The same spec for another run, before its first observation."""
        return self

    def state(self) -> dict[str, np.ndarray]:
        """What was learned about observations, for a checkpoint."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` returned."""

    @property
    def single(self) -> bool:
        """Whether it is a plain environment, not a vector of them."""
        return not hasattr(self.env, "num_envs")

    def to_env(self, action: Any) -> Any:
        """The argument of `env.step` for an action that a learner chose."""
        return copy.deepcopy(self.listed[int(action)]) if self.listed else int(action) + self.first_action

    def to_env_batch(self, actions: np.ndarray) -> Any:
        """The argument of a vector environment's `step` for one action per lane, [lane, ...]."""
        if not self.listed:
            return actions + self.first_action
        return stacked_actions(self.env.single_action_space, [self.listed[a] for a in actions.tolist()])

    def split(self, observations: Any) -> list[Any]:
        """The observations of a vector environment as a list of copies, one per lane, in the form of a single observation."""
        return [copy.deepcopy(observation) for observation in iterate(self.env.observation_space, observations)]

    def together(self, observations: Sequence[Any]) -> Any:
        """A list of single observations as the batch that policies take: one array if they are arrays, else a list."""
        return np.array(observations) if self.space.shape is not None else list(observations)

    def number_of(self, action: Any) -> int:
        """The number of an action of the environment, counted from 0."""
        return self._numbers[key_of(spaces_of(self.env)[1], action)] if self.listed else int(action) - self.first_action

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        space = spaces_of(self.env)[1]
        return {key_of(space, action): a for a, action in enumerate(self.listed)}


@dataclass(frozen=True, eq=False)
class DiscreteSpec(_Spec):
    """An environment with Discrete observations and actions; learners count both from 0."""

    env: Any
    name: str
    first_state: int  # what the environment calls state 0: the `start` of Discrete(n, start)
    first_action: int
    lanes: int  # environments stepped together; 1 for a plain one
    skeleton: MDP  # has the right sizes and time limit; its transitions stand for unknown ones
    listed: tuple[Any, ...] = ()
    fixed: ClassVar[bool] = True

    @property
    def actions(self) -> int:
        return self.skeleton.actions

    def seen(self, observation: Any) -> int:
        """The number of the observed state, counted from 0; raises BadObservation if the observation is not in the space."""
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
        states = np.asarray(observations)
        if states.shape != (self.lanes,) or states.dtype.kind not in "iu":
            raise BadObservation(f"the observations have shape {list(states.shape)}, not one whole number per environment.")
        return states.tolist()


def discrete_spec(env: Any) -> DiscreteSpec:
    """The spec for tables; raises InputError unless observations are Discrete and actions can be numbered."""
    seen = spaces_of(env)[0]
    if type(seen).__name__ != "Discrete":
        raise InputError(
            f"observation_space: {type(seen).__name__} is not Discrete, as tables need; group observations into Discrete states "
            "with a wrapper."
        )
    actions, first, listed = numbered_actions(env)
    skeleton = _skeleton(env, int(seen.n), actions)
    return DiscreteSpec(env, environment_name(env), int(seen.start), first, _lanes(env), skeleton, listed)


def _skeleton(env: Any, states: int, actions: int) -> MDP:
    """The sizes and the time limit of an environment; of an MDP behind it (`gvfx.worlds.conversion`) the names of places too."""
    world, skeleton = getattr(getattr(env, "unwrapped", env), "world", None), skeleton_mdp(states, actions, time_limit(env))
    return replace(skeleton, places=world.places, layout=world.layout) if isinstance(world, MDP) else skeleton


@dataclass(frozen=True, eq=False)
class BoxSpec(_Spec):
    """An environment with Discrete actions and observations that networks read as one vector of `size` numbers."""

    env: Any
    name: str
    first_action: int
    actions: int
    lanes: int  # environments stepped together; 1 for a plain one
    space: Any  # the observation space of one lane, without the entries that are left out
    size: int  # length of a flattened observation
    listed: tuple[Any, ...] = ()
    left_out: tuple[str, ...] = ()  # entries of an observation that hold no numbers
    latest: list[Any] = field(default_factory=list)  # if there are any: the last observation seen
    origin: Origin = field(default_factory=Origin)  # what is subtracted from observations

    @cached_property
    def box(self) -> bool:
        return type(self.space).__name__ == "Box"

    def anew(self) -> Self:
        return replace(self, origin=Origin())

    def state(self) -> dict[str, np.ndarray]:
        return self.origin.arrays()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.origin.restore(arrays)

    def seen(self, observation: Any) -> np.ndarray:
        """The observation as learners see it, relative to the first one if that is far from 0, float32 [size]."""
        vector, origin = self.flat(observation), self.origin
        return _finite(origin.seen(vector) if origin.open or origin.at is not None else vector.astype(np.float32))

    def flat(self, observation: Any) -> np.ndarray:
        """The observation as one absolute vector, in its own type [size]; raises BadObservation if it is not in the space."""
        if self.box and isinstance(observation, np.ndarray) and observation.dtype.kind not in "fiub":
            raise BadObservation(f"the observation holds {observation.dtype}, not numbers; return those of its space.")
        if self.box and isinstance(observation, np.ndarray) and observation.shape == self.space.shape:
            return observation.ravel()
        if self.left_out:
            self.latest[:] = [observation]
        try:
            out = np.asarray(flatten(self.space, reduced(self.space, observation)))
            out = out.astype(float) if out.dtype.kind not in "fiub" else out
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            out = np.empty(0)
        if out.shape != (self.size,):
            shape = list(np.shape(observation)) if not isinstance(observation, dict) else sorted(observation)
            raise BadObservation(
                f"the observation ({type(observation).__name__} of {shape}) does not fit its space, {self.space}."
            )
        return out

    def batch(self, observations: Any) -> tuple[Any, np.ndarray, bool]:
        """A user's observations, one or several: a batch for policies, absolute vectors [batch, size], and whether it was one."""
        rows, alone = batched(self.space, observations)
        batch = [np.asarray(o) if self.box else o for o in rows]
        try:
            vectors = np.array([self.flat(o) for o in batch])
            _finite(vectors.astype(np.float32))
            return self.together(batch), compact(vectors), alone
        except BadObservation as error:
            raise InputError(f"observation: {error}") from None

    def whole(self, vector: np.ndarray) -> Any:
        """The observation whose absolute vector this is; entries that were left out are those last seen."""
        own = unflatten(self.space, vector)
        if self.latest and isinstance(own, dict):
            return {**self.latest[0], **own}
        return own


def _finite(vectors: np.ndarray) -> np.ndarray:
    if np.count_nonzero(np.isfinite(vectors)) < vectors.size:
        raise BadObservation("the observation holds nan or infinity; return finite numbers.")
    return vectors


def observed(env: Any) -> tuple[Any, int, tuple[str, ...]]:
    """The space of a single observation that learners read, its length when flattened, and the entries that are left out."""
    space, left_out = readable(spaces_of(env)[0])
    return space, int(flatdim(space)), left_out


def box_spec(env: Any) -> BoxSpec:
    """The spec for networks with numbered actions; raises InputError if the actions or observations are not supported."""
    actions, first, listed = numbered_actions(env)
    space, size, left_out = observed(env)
    return BoxSpec(env, environment_name(env), first, actions, _lanes(env), space, size, listed, left_out)


def skeleton_mdp(states: int, actions: int, horizon: int | None = None) -> MDP:
    """An MDP of given sizes whose transitions are placeholders: every state leads to itself."""
    itself = np.broadcast_to(np.arange(states, dtype=np.int32)[:, None, None], (states, actions, 1))
    return MDP(itself, np.ones(itself.shape), np.full(states, 1 / states), np.zeros(states, bool), horizon)


def environment_name(env: Any) -> str:
    """The registered id of an environment, or the name of its class."""
    spec = getattr(env, "spec", None)
    return getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__


def layers(env: Any) -> list[Any]:
    """The wrappers of an environment, outermost first, then the environment inside."""
    out = [env]
    while hasattr(out[-1], "env") and out[-1] is not getattr(out[-1], "unwrapped", None):
        out.append(out[-1].env)
    return out


def time_limit(env: Any) -> int | None:
    """Steps after which the environment's TimeLimit truncates an episode; None without one."""
    limits = [layer._max_episode_steps for layer in layers(env) if type(layer).__name__ == "TimeLimit"]
    declared = getattr(getattr(env, "spec", None), "max_episode_steps", None) if hasattr(env, "num_envs") else None
    return min(limits) if limits else declared


@dataclass(frozen=True, eq=False)
class BoxActionSpec(BoxSpec):
    """An environment with Box actions, which learners see as vectors in [-1, 1] with `actions` numbers."""

    moves: Any = None  # the action space of one lane

    @cached_property
    def middle(self) -> np.ndarray:
        """The centre of the action space, [*shape]."""
        return (self.moves.low.astype(float) + self.moves.high) / 2

    @cached_property
    def half(self) -> np.ndarray:
        """Half the width of the action space, [*shape]."""
        return (self.moves.high.astype(float) - self.moves.low) / 2

    def to_env(self, action: Any) -> np.ndarray:
        return self.to_env_batch(action[None])[0]

    def to_env_batch(self, actions: np.ndarray) -> np.ndarray:
        own = self.middle + self.half * actions.reshape(len(actions), *self.moves.shape)
        return own.clip(self.moves.low, self.moves.high).astype(self.moves.dtype)

    def scaled(self, actions: np.ndarray) -> np.ndarray:
        """The inverse of `to_env_batch`: the environment's actions [batch, *shape] as learners see them, [batch, action]."""
        return ((actions - self.middle) / self.half).reshape(len(actions), -1).astype(np.float32)

    def given(self, actions: Any, count: int) -> np.ndarray:
        """A user's actions, one for all of `count` observations or one each, as learners see them, [count, action]."""
        try:
            own = np.broadcast_to(np.asarray(actions, float), (count, *self.moves.shape))
        except (TypeError, ValueError):
            own = np.full((count, *self.moves.shape), np.nan)
        if not ((own >= self.moves.low) & (own <= self.moves.high)).all():
            raise InputError(f"action: {actions!r:.60} does not lie in {self.moves}; give one action, or one per observation.")
        return self.scaled(own)


def has_box_actions(env: Any) -> bool:
    """Whether an environment, plain or vector, has Box actions that are not numbered."""
    moves = spaces_of(env)[1]
    return type(moves).__name__ == "Box" and (moves.dtype.kind == "f" or (count_of(moves) or 0) > MOST_ACTIONS)


def box_action_spec(env: Any) -> BoxActionSpec:
    """The spec for Box actions; raises InputError unless they are bounded floats."""
    space, size, left_out = observed(env)
    _, moves = spaces_of(env)
    if moves.dtype.kind != "f":
        raise InputError(
            f"action_space: a Box of {moves.dtype} with more than {MOST_ACTIONS:,} actions is not supported; use Discrete, or a "
            "Box of floats."
        )
    for what, bad in (("is unbounded", ~np.isfinite(moves.high - moves.low)), ("is empty", moves.high <= moves.low)):
        if bad.any():
            raise InputError(
                f"action_space: {moves} {what} in dimension {int(np.argmax(bad))}; give the Box finite bounds, low below high, "
                "for example with gymnasium.wrappers.TransformAction."
            )
    return BoxActionSpec(
        env, environment_name(env), 0, int(np.prod(moves.shape)), _lanes(env), space, size, (), left_out, moves=moves
    )


def network_spec(env: Any) -> BoxSpec:
    """The spec for networks: `BoxActionSpec` for Box actions, else `BoxSpec`, also for Discrete observations."""
    return box_action_spec(env) if has_box_actions(env) else box_spec(env)


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """A uniformly random action of a Discrete or Box space, or of one whose actions are numbered."""
    if hasattr(space, "n") and hasattr(space, "start"):
        return int(space.start + rng.integers(space.n))
    if type(space).__name__ == "Box" and space.dtype.kind == "f":
        return rng.uniform(space.low, space.high).astype(space.dtype)
    return random_element(space, rng)


# --- Numbering of observations: one of a few whole numbers gets the next free number when it is first met -----------
# The numbers mean nothing outside a run; results name states by the observations themselves.


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
        if key is not None and (known := self.number.get(key)) is not None:
            return known
        if key is None or not fits(self.space, observation):
            raise BadObservation(f"the observation {observation!r:.60} does not fit its space, {self.space!s:.80}.")
        number = len(self.keys)
        if number == MOST_STATES or (self.looked > SAMPLE and number > NEW * self.looked):
            raise Uncountable(f"{number:,} different observations were met in {self.looked:,} steps")
        self.keys.append(key)
        self.number[key] = number
        self.met(number, observation)
        return number

    def arrays(self) -> dict[str, np.ndarray]:
        return {"numbering:keys": np.array(self.keys, np.int64), "numbering:looked": np.array(self.looked)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.keys = [tuple(key) for key in arrays["numbering:keys"].tolist()]
        self.number = {key: n for n, key in enumerate(self.keys)}
        self.looked = int(arrays["numbering:looked"])


@dataclass(frozen=True, eq=False)
class CountedSpec(DiscreteSpec):
    """An environment whose observations are numbered as they are met; `skeleton` has room for more of them than were met."""

    numbering: Numbering = field(default_factory=lambda: Numbering(None))
    left_out: tuple[str, ...] = ()  # entries of an observation that hold no numbers
    fixed: ClassVar[bool] = False

    @property
    def space(self) -> Any:
        return self.numbering.space

    def seen(self, observation: Any) -> int:
        return self.numbering(observation)

    def split(self, observations: Any) -> list[Any]:
        return _Spec.split(self, observations)

    def anew(self) -> CountedSpec:
        return replace(self.sized(max(self.skeleton.states, 8 * self.lanes)), numbering=Numbering(self.numbering.space))

    def state(self) -> dict[str, np.ndarray]:
        return self.numbering.arrays()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.numbering.restore(arrays)

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
    actions, first, listed = numbered_actions(env)
    space, left_out = readable(spaces_of(env)[0])
    skeleton = skeleton_mdp(states, actions, time_limit(env))
    return CountedSpec(env, environment_name(env), 0, first, _lanes(env), skeleton, listed, Numbering(space), left_out)


def spec_of(env: Any) -> DiscreteSpec | BoxSpec:
    """The spec of an environment: `DiscreteSpec` or `CountedSpec` where tables apply, else `BoxActionSpec` or `BoxSpec`."""
    if is_counted(env):
        return counted_spec(env, 64)
    discrete = type(spaces_of(env)[0]).__name__ == "Discrete"
    return discrete_spec(env) if discrete and not has_box_actions(env) else network_spec(env)


# --- Environments by the names under which they are registered with Gymnasium ---------------------------------------


def registered(name: str, field: str = "world") -> Any:
    """The environment of a registered name, newly made; an InputError if Gymnasium cannot make it."""
    try:
        return gymnasium.make(name)
    except Exception as error:  # whatever the environment raises when it is made
        why = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{field}: Gymnasium cannot make {name!r} ({why}); give an environment or a registered name.") from None


# --- Wrappers that carry something from step to step or from episode to episode, and what that does to answers ------


NORMALISED = (
    "its mean and scale change during the run, so that the same observation means different states early and late; freeze it "
    "after a warm-up (wrapper.update_running_mean = False), or leave it out, because gvfx scales observations itself"
)
REWARD = (
    "its scale changes during the run, so that answers about the reward are in no fixed unit; freeze it after a warm-up "
    "(wrapper.update_running_mean = False), or leave it out"
)
STACKED = "an observation is the last frames together, so that answers hold for those frames and result.predict needs all of them"
HIDDEN = "the observation does not show it, so that answers are averages over what it may be"
STATEFUL = {  # by the name of the class
    "NormalizeObservation": NORMALISED,
    "NormalizeReward": REWARD,
    "MONormalizeReward": REWARD,
    "FrameStackObservation": STACKED,
    "FrameStack": STACKED,
    "StickyAction": f"repeats the last action by chance: {HIDDEN}",
    "RepeatAction": f"repeats actions: {HIDDEN}",
    "DelayObservation": f"shows an old observation; what happened since then is hidden: {HIDDEN}",
}


def around(env: Any) -> list[Any]:
    """The wrappers of an environment, outermost first, and the environment; then those of a vector environment's first copy."""
    out = layers(env)
    copies = getattr(out[-1], "envs", None)  # of a vector environment in this process
    return out + (layers(copies[0]) if copies else [])


def stateful(env: Any) -> dict[str, str]:
    """The wrappers with a state of their own, and what each does to the answers; those that were frozen are left out."""
    names = [type(layer).__name__ for layer in around(env) if getattr(layer, "update_running_mean", None) is not False]
    return {name: STATEFUL[name] for name in names if name in STATEFUL}


def drifting(env: Any) -> dict[str, str]:
    """The wrappers whose statistics go on changing over episodes and resets."""
    return {name: effect for name, effect in stateful(env).items() if effect in (NORMALISED, REWARD)}
