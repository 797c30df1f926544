"""Questions asked of a Gymnasium environment: what it looks like to a learner, its signals and the targets' choices.

`Stage` is the environment's outline (how many states and actions, how long an episode), `Reader` gives every
transition's cumulants [gvf] and discounts [gvf] (0 on termination, unchanged on truncation), and `Targets` gives
pi [batch, action, gvf] with every distinct policy asked once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

import numpy as np

from gvfx.cumulants import Constant, Drifter
from gvfx.errors import InputError
from gvfx.gvf import GVF, expand, question_names
from gvfx.policies import CallablePolicy, ContinuousPolicy, DeterministicPolicy, MixturePolicy, Policy
from gvfx.signals import Measured, SignalFailed, TransitionFunction, number, of_transition
from gvfx.worlds.mdp import MDP


def is_environment(world: Any) -> bool:
    """Whether something is a Gymnasium environment, vector environments included."""
    parts = ("step", "reset", "observation_space", "action_space")
    return not isinstance(world, type) and all(hasattr(world, part) for part in parts)


class Misfit(ValueError):
    """An observation that is not what its space says."""


class _Numbered:
    """An environment whose actions are whole numbers."""

    first_action: int

    def deed(self, action: Any) -> Any:
        """An action as the environment counts it, from what an agent chose."""
        return int(action) + self.first_action

    def deeds(self, actions: np.ndarray) -> np.ndarray:
        """The same for a vector environment, [lane, ...]."""
        return actions + self.first_action


@dataclass(frozen=True, eq=False)
class Stage(_Numbered):
    """A Gymnasium environment with Discrete observations and actions as learners see it."""

    env: Any
    name: str
    first_state: int  # Discrete(n, start): observations are first_state, first_state + 1, ...
    first_action: int
    lanes: int  # environments stepped together; 1 for a plain one
    shell: MDP  # its sizes and time limit; the transitions are not known, so every state leads to itself

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
            raise Misfit(f"the observation {what} is not one whole number, as its space says.") from None
        if not 0 <= s < self.shell.states:
            raise Misfit(f"the observation {observation} lies outside its space of {self.shell.states} states.")
        return s

    def split(self, observations: Any) -> list[int]:
        """A vector environment's observations, one by one."""
        states = np.asarray(observations)
        if states.shape != (self.lanes,) or states.dtype.kind not in "iu":
            raise Misfit(f"the observations have shape {list(states.shape)}, not one whole number per environment.")
        return states.tolist()


def stage(env: Any) -> Stage:
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
    return Stage(
        env=env,
        name=environment_name(env),
        first_state=int(seen.start),
        first_action=int(moves.start),
        lanes=int(env.num_envs) if many else 1,
        shell=outline(int(seen.n), int(moves.n), time_limit(env)),
    )


@dataclass(frozen=True, eq=False)
class Sight(_Numbered):
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
            from gymnasium.spaces.utils import flatten

            try:
                out = np.asarray(flatten(self.space, observation), np.float32)
            except (TypeError, ValueError, KeyError, AttributeError, IndexError):
                out = np.empty(0, np.float32)
            if out.shape != (self.size,):
                shape = list(np.shape(observation)) if not isinstance(observation, dict) else sorted(observation)
                raise Misfit(f"the observation ({type(observation).__name__} of {shape}) does not fit its space, {self.space}.")
        if np.count_nonzero(np.isfinite(out)) < out.size:
            raise Misfit("the observation holds nan or infinity; return finite numbers.")
        return out

    def split(self, observations: Any) -> list[Any]:
        """A vector environment's observations, one by one."""
        from gymnasium.vector.utils import iterate

        batch = self.env.observation_space
        return [copy.deepcopy(observation) for observation in iterate(batch, observations)]

    def batch(self, observations: Any) -> tuple[Any, np.ndarray, bool]:
        """One observation or several as a batch for policies, as vectors [batch, size], and whether it was only one."""
        alone = isinstance(observations, dict) or (self.space.shape is not None and np.shape(observations) == self.space.shape)
        batch = [np.asarray(o) if self.box else o for o in ([observations] if alone else observations)]
        try:
            return self.together(batch), np.array([self.seen(o) for o in batch]), alone
        except Misfit as error:
            raise InputError(f"observation: {error}") from None

    def together(self, observations: Any) -> Any:
        """Observations one by one as policies like them: an array where they are arrays, else a list."""
        return np.array(observations) if self.space.shape is not None else list(observations)


def observed(env: Any) -> tuple[Any, int]:
    """The space of one observation and how many numbers it has when flattened."""
    from gymnasium.spaces.utils import flatdim

    space = env.single_observation_space if hasattr(env, "num_envs") else env.observation_space
    try:
        return space, int(flatdim(space))
    except (NotImplementedError, ValueError):
        raise InputError(f"observation_space: {space} cannot be flattened; offer Box or Dict observations.") from None


def sight(env: Any) -> Sight:
    """The outline of an environment for networks, or a sentence that says why it has none."""
    many = hasattr(env, "num_envs")
    moves = env.single_action_space if many else env.action_space
    if type(moves).__name__ != "Discrete":
        raise InputError(f"action_space: {type(moves).__name__} is neither Discrete nor Box; offer one of them with a wrapper.")
    space, size = observed(env)
    return Sight(env, environment_name(env), int(moves.start), int(moves.n), int(env.num_envs) if many else 1, space, size)


def outline(states: int, actions: int, horizon: int | None = None) -> MDP:
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


@dataclass(frozen=True)
class _Wanted:
    """Which questions want a number, and the field to name if it is bad."""

    field: str
    gvfs: list[int] = dataclass_field(default_factory=list)

    @property
    def place(self) -> Any:
        """Where to write it: an index, or several."""
        return self.gvfs[0] if len(self.gvfs) == 1 else np.array(self.gvfs)


class Reader:
    """The questions' cumulants and discounts at a transition; what several questions share is read once.

    here: the environment's outline, needed where a cumulant is given by state (`Constant(1, at=3)`, a table).
    """

    def __init__(self, questions: Sequence[GVF], here: Stage | None = None, seed: int = 0) -> None:
        self.questions = expand(questions)
        if not self.questions:
            raise InputError("questions: the list is empty; ask at least one GVF.")
        self.names = question_names(self.questions)
        self.cumulants = np.zeros(len(self.names))  # the constant part
        self.discounts = np.ones(len(self.names))
        self._noise = np.random.default_rng([seed, 0x6E6F6973])
        signals: dict[Any, tuple[TransitionFunction, dict[int | None, _Wanted]]] = {}
        ends: dict[Any, _Wanted] = {}
        for i, (name, q) in enumerate(zip(self.names, self.questions, strict=True)):
            if isinstance(q.cumulant, Measured):
                components = signals.setdefault(q.cumulant.source, (q.cumulant.reader(), {}))[1]
                components.setdefault(q.cumulant.index, _Wanted(f"{name}.cumulant")).gvfs.append(i)
            elif isinstance(q.cumulant, Constant) and q.cumulant.at is None:
                self.cumulants[i] = q.cumulant.value
            else:
                signals[i] = self._from_table(q, here, name), {None: _Wanted(f"{name}.cumulant", [i])}
            if callable(q.discount):
                ends.setdefault(q.discount, _Wanted(f"{name}.discount")).gvfs.append(i)
            else:
                self.discounts[i] = q.discount
        self._signals = [
            (read, [(wanted.place, index, wanted.field) for index, wanted in components.items()])
            for read, components in signals.values()
        ]
        self._ends = [(of_transition(f, wanted.field), wanted.place, wanted.field) for f, wanted in ends.items()]
        self.reads_info = bool(self._ends) or any(isinstance(q.cumulant, Measured) for q in self.questions)

    def _from_table(self, q: GVF, here: Stage | None, name: str) -> TransitionFunction:
        """A cumulant by state and action: its mean plus its own noise."""
        if here is None or isinstance(q.cumulant, Drifter):
            raise InputError(
                f"{name}.cumulant: {type(q.cumulant).__name__} cannot be read from this environment; "
                "use Reward, Info or a function of the transition."
            )
        shape = (here.shell.states, here.shell.actions)
        mean, sd = (np.broadcast_to(t[:, :, 0], shape).tolist() for t in q.cumulant.tables(here.shell)[:2])
        first, first_action, draw = here.first_state, here.first_action, self._noise.standard_normal

        def read(observation: Any, action: int, reward: float, following: Any, info: dict) -> float:
            s, a = observation - first, action - first_action
            return mean[s][a] + (sd[s][a] * draw() if sd[s][a] else 0.0)

        return read

    def begin(self, lanes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Arrays [lane, gvf] for cumulants and discounts, constants filled in; `read` changes the rest."""
        return np.tile(self.cumulants, (lanes, 1)), np.tile(self.discounts, (lanes, 1))

    def read(
        self, observation: Any, action: Any, reward: float, following: Any, info: dict, c: np.ndarray, gamma: np.ndarray
    ) -> None:
        """Write a transition's cumulants c [gvf] and discounts gamma [gvf] (termination is not looked at)."""
        for read, wanted in self._signals:
            value = read(observation, action, reward, following, info)
            for place, index, field in wanted:
                try:
                    x = float(value) if index is None else float(value[index])
                except (TypeError, ValueError, IndexError, KeyError):
                    x = number(value, index, field)
                if not math.isfinite(x):
                    raise SignalFailed(f"{field}: is {x}; return finite numbers only.")
                c[place] = x
        for read, place, field in self._ends:
            x = number(read(observation, action, reward, following, info), None, field)
            if not 0 <= x <= 1:
                raise SignalFailed(f"{field}: {x!r} lies outside [0, 1]; return a number between 0 and 1.")
            gamma[place] = x

    def transition(
        self, observation: Any, action: Any, reward: float, following: Any, terminated: bool, info: dict
    ) -> tuple[np.ndarray, np.ndarray]:
        """A transition's cumulants [gvf] and discounts [gvf]: 0 on termination, unchanged on truncation."""
        (c,), (gamma,) = self.begin()
        self.read(observation, action, reward, following, info, c, gamma)
        return c, gamma * (not terminated)


class Targets:
    """The questions' policies, pi [batch, action, gvf]; equal policies are asked once, Discrete states only ever once."""

    def __init__(self, questions: Sequence[GVF], actions: int, states: int | None = None, first_state: int = 0) -> None:
        questions = expand(questions)
        self.actions, self.states, self.first = actions, states, first_state
        self.names = question_names(questions)
        self.distinct: dict[Policy, str] = {}
        for name, q in zip(self.names, questions, strict=True):
            self.distinct.setdefault(q.policy, f"{name}.policy")
            if isinstance(q.policy, ContinuousPolicy):
                q.policy.table(0, actions, f"{name}.policy")  # which refuses
        order = list(self.distinct)
        self.member = np.array([order.index(q.policy) for q in questions])
        self.tables = None
        self.settled: list[Policy] = []
        if states is not None:
            self.tables = [
                np.broadcast_to(shifted(p, first_state).table(states, actions, field), (states, actions))
                for p, field in self.distinct.items()
            ]

    def each(self, observations: Any) -> list[np.ndarray]:
        """Every distinct policy's probabilities [batch, action]."""
        if self.tables is not None:
            return [table[np.asarray(observations) - self.first] for table in self.tables]
        if not self.settled and len(observations):
            self.settled = [policy.settled(observations, self.actions) for policy in self.distinct]
        fields = self.distinct.values()
        return [policy.at(observations, self.actions, field) for policy, field in zip(self.settled, fields, strict=True)]

    def __call__(self, observations: Any) -> np.ndarray:
        """pi [batch, action, gvf] at a batch of observations."""
        return np.stack(self.each(observations), axis=-1)[:, :, self.member]


def shifted(policy: Policy, first: int) -> Policy:
    """A policy of states counted from 0, given one whose functions count from `first`."""
    if first == 0:
        return policy
    if isinstance(policy, MixturePolicy):
        return replace(policy, parts=tuple(shifted(part, first) for part in policy.parts))
    if isinstance(policy, CallablePolicy):
        own = policy.function
        return replace(policy, function=lambda states: own(states + first))
    if isinstance(policy, DeterministicPolicy) and callable(policy.choice):
        choice = policy.choice
        return replace(policy, choice=lambda states: choice(states + first))
    return policy


def asked_of(questions: Sequence[GVF], here: Stage) -> list[GVF]:
    """The questions as far as tables know them: policies by state; cumulants and discounts come with each transition."""
    return [
        replace(
            q,
            policy=shifted(q.policy, here.first_state),
            cumulant=Constant(0.0),
            discount=1.0 if callable(q.discount) else q.discount,
            name=name,
        )
        for name, q in zip(question_names(expand(questions)), expand(questions), strict=True)
    ]
