"""A log from which a run starts: its transitions as the environment's learner sees them.

The log's transitions are evidence like those of the run, and come before them: plans are renewed as if the run had made them,
so that a behaviour that plans chooses what to add.  They are no steps of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.spaces.utils import unflatten

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.counts import grown
from gvfx.features.scaling import Origin
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.running.log_table import Checked, apart, ended, signals
from gvfx.worlds.spec import BoxSpec, DiscreteSpec

NOT_HERE = (
    "log: {} cannot start from a log; use gvfx.evaluate_log, or a Gymnasium environment with Discrete actions and tables or "
    "linear features."
)


@dataclass(frozen=True, eq=False)
class Earlier:
    """The transitions of a log; n of them."""

    state: np.ndarray  # int64 [n], or float32 [n, o]
    action: np.ndarray  # int64 [n], from 0
    following: np.ndarray  # as `state`
    terminated: np.ndarray  # bool [n]
    last: np.ndarray  # bool [n]: whether the next row does not continue from it
    starts: np.ndarray  # bool [n]: whether an episode is known to begin with it
    episode: np.ndarray  # int64 [n]
    c: np.ndarray  # [n, gvf]
    gamma: np.ndarray  # [n, gvf]; 0 on termination
    origin: Mapping[str, np.ndarray]  # what was subtracted from observations, if anything was

    def __len__(self) -> int:
        return len(self.action)

    @property
    def digest(self) -> str:
        """Identifies the transitions."""
        parts = (self.state, self.action, self.following, self.last, self.starts, self.c, self.gamma, *self.origin.values())
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def later(stops: Callable[[int], Iterable[int]], before: int, steps: int) -> frozenset[int]:
    """The times of a run at which something is due when the data, `before` of them from a log, have reached given sizes.

    stops(n): those sizes, up to n.  0 is included if some were reached before.
    """
    sizes = list(stops(before + steps))
    return frozenset(size - before for size in sizes if size > before) | ({0} if any(s <= before for s in sizes) else set())


def check_start(kind: str, behaviour: Behaviour, learner: Any) -> None:
    """Refuse a method that cannot start from a log."""
    if kind not in ("tables", "linear"):
        raise InputError(NOT_HERE.format("networks" if kind == "networks" else "Box actions"))
    if kind == "tables" and not learner.needs_evidence:
        raise InputError(f"log: {type(learner).__name__} learns from its own steps alone; use gvfx.CertaintyEquivalence().")
    if behaviour.by_episode:
        raise InputError(f"log: {type(behaviour).__name__} learns from its own actions alone; use gvfx.OptimalDesign().")


def earlier_states(log: Checked, questions: Sequence[GVF], spec: DiscreteSpec) -> Earlier:
    """The log of an environment with numbered states."""
    if log.observation.ndim != 1:
        raise InputError(f"log: its observations are rows of numbers and those of {spec.name} are states; give their numbers.")
    own = log._replace(observation=log.observation - spec.first_state, next_observation=log.next_observation - spec.first_state)
    states = spec.skeleton.states
    for name in ("observation", "next_observation"):
        _check_within(getattr(own, name), states, spec.first_state, name, spec.name)
    return _earlier(own, _actions(log, spec, spec.skeleton.actions), signals(log, Reader(questions, spec)))


def earlier_vectors(log: Checked, questions: Sequence[GVF], spec: BoxSpec, learner: LinearCertaintyEquivalence) -> Earlier:
    """The log of an environment whose observations are vectors."""
    columns = {name: getattr(log, name).reshape(len(log.action), -1) for name in ("observation", "next_observation")}
    for name, column in columns.items():
        if column.shape[1] != spec.size:
            raise InputError(
                f"log: {name} has {column.shape[1]} numbers and those of {spec.name} have {spec.size}; give as many."
            )
    if len(log.action) >= learner.capacity:
        raise InputError(
            f"log: has {len(log.action):,} transitions and {type(learner).__name__} keeps {learner.capacity:,}; give it a larger "
            "capacity, or a part of the log."
        )
    seen = log._replace(**{name: _unflattened(spec, column) for name, column in columns.items()})
    origin = Origin.of(columns["observation"])
    own = log._replace(**{name: origin.relative(column).astype(np.float32) for name, column in columns.items()})
    return _earlier(own, _actions(log, spec, spec.actions), signals(seen, Reader(questions)), origin.arrays())


def _unflattened(spec: BoxSpec, rows: np.ndarray) -> np.ndarray:
    """Observations as the environment returns them, [n] objects or arrays."""
    if spec.box:
        return rows.astype(spec.space.dtype).reshape(len(rows), *spec.space.shape)
    out = np.empty(len(rows), object)
    out[:] = [unflatten(spec.space, row) for row in rows]
    return out


def _actions(log: Checked, spec: Any, actions: int) -> np.ndarray:
    own = np.asarray(log.action - spec.first_action)
    _check_within(own, actions, spec.first_action, "action", spec.name)
    return own


def _check_within(column: np.ndarray, count: int, first: int, name: str, env: str) -> None:
    bad = np.flatnonzero((column < 0) | (column >= count))
    if len(bad):
        raise InputError(
            f"log: {name} is {column[bad[0]] + first} in row {bad[0]} and {env} has {first} to {first + count - 1}; give a log "
            "of this environment."
        )


def _earlier(log: Checked, action: np.ndarray, read: Any, origin: Mapping[str, np.ndarray] = MappingProxyType({})) -> Earlier:
    over = ended(log)
    jumps = apart(log) & ~over[:-1]
    last = np.append(over[:-1] | jumps, True)
    # rows in any order say nothing about where episodes begin
    starts = np.zeros(len(action), bool) if jumps.any() else read.begins
    return Earlier(
        state=log.observation,
        action=action,
        following=log.next_observation,
        terminated=log.terminated,
        last=last,
        starts=starts,
        episode=np.cumsum(read.begins) - 1,
        c=read.c,
        gamma=read.gamma,
        origin=origin,
    )


def replayed(log: Earlier, agent: Any, learn: Callable[[Any], None]) -> Any:
    """A table's agent after it has learned from a log of states, one transition after another, in its first lane."""
    starts, found = agent.outcomes.evidence.starts, agent.outcomes.evidence.found
    constant = agent.c.copy(), agent.gamma.copy()
    agent.counts[1:] = False
    agent.mu[0] = 1 / agent.mu.shape[1]
    rows = zip(log.state.tolist(), log.action.tolist(), log.following.tolist(), strict=True)
    for t, (s, a, following) in enumerate(rows):
        starts[s] += log.starts[t]
        found[s] = found[s] or t + 1
        agent.state[0], agent.action[0], agent.following[0] = s, a, following
        agent.alive[0], agent.ended[0] = not log.terminated[t], log.last[t]
        agent.c[0], agent.gamma[0] = log.c[t], log.gamma[t]
        learn(agent)
        if agent.outcomes.used[0] > len(agent.outcomes.pair) - len(agent.state):
            agent = agent._replace(outcomes=grown(agent.outcomes))
            starts, found = agent.outcomes.evidence.starts, agent.outcomes.evidence.found
    agent.counts[:] = True
    agent.c[:], agent.gamma[:] = constant
    return agent


def plan_first(stream: Any) -> None:
    """Plan what to add to a log before the first step of a table's stream.

    If the log does not tell where episodes start, the present states count as starts meanwhile.
    """
    starts = stream.at.outcomes.evidence.starts
    here = np.bincount(stream.at.state, minlength=len(starts)) * (not starts.any())
    starts += here
    stream.pause(0)
    starts -= here
    stream.weigh(stream.asked.weights)  # forget the model with those starts
