"""A log from which a run starts: its transitions as the environment's learner sees them.

The log's transitions are evidence like those of the run, and come before them: plans are renewed as if the run had made them,
so that a behaviour that plans chooses what to add.  They are no steps of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.spaces.utils import flatdim, unflatten

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.features.scaling import Origin
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.running.log_table import Checked, apart, ended, signals
from gvfx.worlds.spec import BoxActionSpec, BoxSpec

MOST_RECORDED = 50_000  # transitions of a run whose observations are numbered that are kept for one without the numbers


@dataclass(frozen=True, eq=False)
class Earlier:
    """The transitions of a log; n of them."""

    here: Sequence[Any]  # [n] observations as the environment returns them
    after: Sequence[Any]  # [n] those that followed
    action: np.ndarray  # [n] or [n, a] as learners see them
    probability: np.ndarray | None  # [n] with which it was chosen, if that is known
    terminated: np.ndarray  # bool [n]
    ended: np.ndarray  # bool [n]: whether an episode is known to end with it
    last: np.ndarray  # bool [n]: whether the next row does not continue from it
    begins: np.ndarray  # bool [n]: whether it does not continue from the row before it
    starts: np.ndarray  # bool [n]: whether an episode is known to begin with it
    c: np.ndarray  # [n, gvf]
    gamma: np.ndarray  # [n, gvf]; 0 on termination
    origin: Mapping[str, np.ndarray]  # what is subtracted from observations, if anything is
    columns: tuple[np.ndarray, ...]  # the observations as numbers

    def part(self, rows: np.ndarray) -> Earlier:
        """The rows of a mask [n]."""
        own: dict[str, Any] = {"columns": tuple(column[rows] for column in self.columns)}
        for name, column in vars(self).items():
            if name not in ("origin", "columns") and column is not None:
                listed = isinstance(column, list)
                own[name] = [x for x, kept in zip(column, rows, strict=True) if kept] if listed else column[rows]
        return replace(self, **own)

    def __len__(self) -> int:
        return len(self.action)

    @property
    def digest(self) -> str:
        """Identifies the transitions."""
        state, following = self.columns
        parts = (state, self.action, following, self.last, self.starts, self.c, self.gamma, *self.origin.values())
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def later(stops: Callable[[int], Iterable[int]], before: int, steps: int) -> frozenset[int]:
    """The times of a run at which something is due when the data, `before` of them from a log, have reached given sizes.

    stops(n): those sizes, up to n.  0 is included if some were reached before.
    """
    sizes = list(stops(before + steps))
    return frozenset(size - before for size in sizes if size > before) | ({0} if any(s <= before for s in sizes) else set())


def check_start(kind: str, behaviour: Behaviour, learner: Any) -> None:
    """Refuse a method whose mathematics needs steps of its own."""
    if kind == "tables" and (learner.needs_next_action or learner.by_episode):
        raise InputError(
            f"log: {type(learner).__name__} learns from its own steps alone, because it weighs the actions that its behaviour "
            "takes next; use gvfx.CertaintyEquivalence()."
        )
    if behaviour.by_episode:
        raise InputError(f"log: {type(behaviour).__name__} learns from its own actions alone; use gvfx.OptimalDesign().")


def earlier(log: Checked, questions: Sequence[GVF], spec: Any) -> Earlier:
    """The log of an environment."""
    columns, origin = _columns(log, spec), Origin()
    here, after = (_as_returned(spec, column) for column in columns)
    if isinstance(spec, BoxSpec):
        origin = Origin.of(columns[0])
        columns = tuple(origin.relative(column).astype(np.float32) for column in columns)
    action = _actions(log, spec)
    read = signals(log, Reader(questions, spec), here, [spec.to_env(a) for a in action], after)
    over, jumps = ended(log), apart(log)
    jumps &= ~over[:-1]
    return Earlier(
        here=here,
        after=after,
        action=action,
        probability=log.behaviour_prob,
        terminated=log.terminated,
        ended=over,
        last=np.append(over[:-1] | jumps, True),
        begins=read.begins,
        # rows in any order say nothing about where episodes begin
        starts=np.zeros(len(log.action), bool) if jumps.any() else read.begins,
        c=read.c,
        gamma=read.gamma,
        origin=origin.arrays(),
        columns=columns,
    )


def _columns(log: Checked, spec: Any) -> tuple[np.ndarray, ...]:
    """The observations as numbers, [n] states counted from 0 or [n, o]."""
    columns = log.observation, log.next_observation
    if spec.fixed:
        if log.observation.ndim != 1:
            raise InputError(
                f"log: its observations are rows of numbers and those of {spec.name} are states; give their numbers."
            )
        states = tuple(column - spec.first_state for column in columns)
        for name, column in zip(NAMES, states, strict=True):
            _check_within(column, spec.skeleton.states, spec.first_state, name, spec.name)
        return states
    size = spec.size if isinstance(spec, BoxSpec) else _numbers_in(spec.space)
    rows = tuple(column.reshape(len(column), -1) for column in columns)
    for name, column in zip(NAMES, rows, strict=True):
        if column.shape[1] != size:
            raise InputError(f"log: {name} has {column.shape[1]} numbers and those of {spec.name} have {size}; give as many.")
    return rows


NAMES = ("observation", "next_observation")


def _numbers_in(space: Any) -> int:
    """The numbers in an observation of a space, as logs have them."""
    return int(np.prod(space.shape)) if space.shape is not None else int(flatdim(space))


def _as_returned(spec: Any, rows: np.ndarray) -> Any:
    """Observations as the environment returns them, from states counted from 0 or rows of numbers."""
    if spec.fixed:
        return (rows + spec.first_state).tolist()
    space = spec.space
    if space.shape is not None and (not isinstance(spec, BoxSpec) or spec.box):
        return rows.astype(space.dtype).reshape(len(rows), *space.shape)
    out = np.empty(len(rows), object)
    out[:] = [unflatten(space, row) for row in rows]
    return out


def _actions(log: Checked, spec: Any) -> np.ndarray:
    """The actions as learners see them."""
    if isinstance(spec, BoxActionSpec):
        return spec.given(log.action.reshape(len(log.action), *spec.moves.shape), len(log.action))
    if log.action.ndim != 1:
        raise InputError(f"log: its actions are rows of numbers and those of {spec.name} are numbered; give their numbers.")
    own = np.asarray(log.action - spec.first_action)
    _check_within(own, spec.actions, spec.first_action, "action", spec.name)
    return own


def _check_within(column: np.ndarray, count: int, first: int, name: str, env: str) -> None:
    bad = np.flatnonzero((column < 0) | (column >= count))
    if len(bad):
        raise InputError(
            f"log: {name} is {column[bad[0]] + first} in row {bad[0]} and {env} has {first} to {first + count - 1}; give a log "
            "of this environment."
        )


class Recorded:
    """The first transitions of a run whose observations are numbered, for one that begins again without the numbers."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def add(self, at: Any) -> None:
        """Note the transitions that an agent's arrays hold."""
        for k in range(len(at.counts)):
            if at.counts[k] and len(self.rows) < MOST_RECORDED:
                made = (at.state.item(k), at.action.item(k), at.following.item(k), at.alive.item(k), at.ended.item(k))
                self.rows.append((k, *made, at.c[k].copy(), at.gamma[k].copy()))

    def log(self, observation: Callable[[int], Any]) -> Earlier:
        """They as a log, one lane after another; observation: by its number."""
        lane, state, action, following, alive, over, c, gamma = (
            np.array(column) for column in zip(*sorted(self.rows, key=lambda row: row[0]), strict=True)
        )
        goes_on = (lane[1:] == lane[:-1]) & ~over[:-1]
        begins = np.append(True, ~goes_on | (state[1:] != following[:-1]))
        return Earlier(
            here=list(map(observation, state.tolist())),
            after=list(map(observation, following.tolist())),
            action=action,
            probability=None,
            terminated=alive == 0,
            ended=over,
            last=np.append(begins[1:], True),
            begins=begins,
            starts=np.append(True, ~goes_on),
            c=c,
            gamma=gamma * alive[:, None],
            origin={},
            columns=(),
        )


def learn_from_log(agent: Any, log: Earlier) -> None:
    """Have an actor learn from a log before its first step, one transition after another, in its first lane."""
    at, source, lanes = agent.at, agent.source, len(agent.at.counts)
    constant = at.c.copy(), at.gamma.copy()
    at.counts[1:] = False
    for t in range(len(log)):
        if at.t[0] >= agent.room:
            at = agent.grow()
        at.state[0], at.following[0] = source.spec.seen(log.here[t]), source.spec.seen(log.after[t])
        at.action[0], at.alive[0], at.ended[0] = log.action[t], not log.terminated[t], log.last[t]
        at.fresh[0], at.c[0], at.gamma[0] = log.starts[t], log.c[t], log.gamma[t]
        source.seen_next = [log.after[t]] * lanes
        agent.heed(at, bool(log.begins[t]), None if log.probability is None else float(log.probability[t]))
        agent.learn(at)
    at = agent.at
    at.counts[:] = True
    at.c[:], at.gamma[:] = constant
    agent.logged, agent.room = agent.logged + len(log), 0


def plan_first(agent: Any) -> None:
    """Plan what to add to a log before the first step of an agent of tables.

    If the log does not tell where episodes start, the present states count as starts meanwhile.
    """
    starts = agent.at.outcomes.evidence.starts
    here = np.bincount(agent.at.state, minlength=len(starts)) * (not starts.any())
    starts += here
    agent.pause(0)
    starts -= here
    agent.weigh(agent.asked.weights)  # forget the model with those starts
