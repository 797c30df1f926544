"""Answers from a log: a table of transitions that were made before, by whatever behaviour.

Expected-Sarsa sweeps over the whole log: every action value becomes the mean of its targets c + gamma * V(s') (Eq. 5),
again and again until nothing moves.  What the log cannot tell is said: `support` is the share of a question's choices
that were ever tried, and with behaviour probabilities the effective share of the log that speaks about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.gvf import GVF, stack
from gvfx.running.result import Result, Snapshot
from gvfx.worlds.asking import Reader, Stage, asked_of, outline

SWEEPS, STILL = 20_000, 1e-10


class Log(NamedTuple):
    """Transitions, one entry each; states and actions are whole numbers from 0."""

    observation: Any
    action: Any
    next_observation: Any
    terminated: Any
    reward: Any = None
    behaviour_prob: Any = None  # the probability with which the action was taken
    info: Mapping[str, Any] | None = None  # further columns, for Info("column")
    states: int | None = None  # how many there are, where the log may not show all
    actions: int | None = None


def as_log(table: Any) -> Log:
    """A log from one, or from a mapping of columns; every column is checked."""
    if not isinstance(table, Log):
        known = {name: table[name] for name in Log._fields if name in table}
        missing = [name for name in Log._fields[:4] if name not in known]
        if missing:
            raise InputError(f"log: has no column {missing[0]!r}; its columns must include {', '.join(Log._fields[:4])}.")
        further = {name: column for name, column in table.items() if name not in Log._fields}
        table = Log(**{**known, "info": {**further, **(known.get("info") or {})}})
    columns: dict[str, Any] = {"info": {name: np.asarray(column) for name, column in (table.info or {}).items()}}
    size = len(table.observation)
    for name in ("observation", "action", "next_observation"):
        columns[name] = np.asarray(getattr(table, name))
        if columns[name].ndim != 1 or columns[name].dtype.kind not in "iu" or (columns[name] < 0).any():
            raise InputError(f"{name}: give one whole number of at least 0 per transition.")
    columns["terminated"] = np.asarray(table.terminated, dtype=bool)
    for name in ("reward", "behaviour_prob"):
        value = getattr(table, name)
        columns[name] = None if value is None else np.asarray(value, dtype=float)
    for name, column in (*columns.items(), *columns["info"].items()):
        if isinstance(column, np.ndarray) and (len(column) != size or (column.dtype.kind == "f" and np.isnan(column).any())):
            raise InputError(f"{name}: has {len(column)} entries or NaN; give one number for each of {size} transitions.")
    if not size:
        raise InputError("log: holds no transition; give at least one.")
    prob = columns["behaviour_prob"]
    if prob is not None and not ((prob > 0) & (prob <= 1)).all():
        raise InputError("behaviour_prob: holds a number outside (0, 1]; an action that was taken had some probability.")
    seen = 1 + int(max(columns["observation"].max(), columns["next_observation"].max()))
    columns["states"], columns["actions"] = table.states or seen, table.actions or 1 + int(columns["action"].max())
    if seen > columns["states"] or columns["action"].max() >= columns["actions"]:
        raise InputError("states: the log holds a state or action beyond the number given; raise it.")
    return Log(**columns)


def evaluate_log(table: Any, questions: Sequence[GVF]) -> Result:
    """Answer questions from a log alone."""
    log = as_log(table)
    here = Stage(None, "log", 0, 0, 1, outline(log.states or 0, log.actions or 0))
    asked = stack(asked_of(questions, here), here.shell)
    c, gamma = _signals(log, Reader(questions, here))
    pi = np.broadcast_to(asked.pi, (here.shell.states, *asked.pi.shape[1:]))
    pair = log.observation * here.shell.actions + log.action
    size = here.shell.states * here.shell.actions
    count = np.bincount(pair, minlength=size)
    values = np.stack([_swept(log, pair, count, c[:, i], gamma[:, i], pi[:, :, i]) for i in range(len(asked.names))])
    visits = count.reshape(here.shell.states, here.shell.actions)
    tried = visits / np.maximum(1, visits.sum(axis=1, keepdims=True))
    experiment: dict[str, Any] = {"environment": "a log", "learner": "Expected-Sarsa sweeps", "steps": len(pair)}
    experiment["support"] = dict(zip(asked.names, _support(visits, pi), strict=True))
    if log.behaviour_prob is not None:
        ratio = pi[log.observation, log.action] / log.behaviour_prob[:, None]
        share = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300) / len(ratio)
        experiment["effective"] = dict(zip(asked.names, share.tolist(), strict=True))
    nothing, gvfs = np.zeros((1, len(asked.names))), len(asked.names)
    return Result(
        names=asked.names,
        weights=asked.weights,
        seeds=(0,),
        steps=np.array([len(pair)]),
        mse=np.full((1, 1, gvfs), np.nan),
        levels=nothing[None],
        episodes=np.array([[int(log.terminated.sum())]]),
        snapshots=(Snapshot(len(pair), values[None], None, visits[None], tried[None], nothing),),
        truth=np.full((1, gvfs, here.shell.states), np.nan),
        seconds=np.zeros(1),
        experiment=experiment,
    )


def _signals(log: Log, reader: Reader) -> tuple[np.ndarray, np.ndarray]:
    """Cumulants and discounts [transition, gvf]; discounts are 0 on termination."""
    c, gamma = reader.begin(len(log.observation))
    reward = np.full(len(c), np.nan) if log.reward is None else log.reward
    rows = zip(log.observation.tolist(), log.action.tolist(), reward.tolist(), log.next_observation.tolist(), strict=True)
    info = log.info or {}
    for t, (s, a, r, s_next) in enumerate(rows):
        reader.read(s, a, r, s_next, {name: column[t] for name, column in info.items()}, c[t], gamma[t])
    return c, gamma * ~log.terminated[:, None]


def _swept(log: Log, pair: np.ndarray, count: np.ndarray, c: np.ndarray, gamma: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """V [state] of one question; choices never tried count as nothing to come."""
    share = 1 / np.maximum(1, count)
    v = np.zeros(len(pi))
    for _ in range(SWEEPS):
        q = share * np.bincount(pair, c + gamma * v[log.next_observation], len(count))  # Eq. 5 (eq:sarsa-q-update), averaged
        moved, v = v, (pi * q.reshape(pi.shape)).sum(axis=1)
        if np.abs(v - moved).max() <= STILL * (1 + np.abs(v).max()):
            return v
    raise InputError("discount: the log's values do not settle; use a discount below 1, or log the ends of episodes.")


def _support(visits: np.ndarray, pi: np.ndarray) -> list[float]:
    """The share of each question's choices, over the states of the log, that were ever tried."""
    seen = visits.sum(axis=1)
    return np.einsum("s,sa,sai->i", seen / seen.sum(), 1.0 * (visits > 0), pi).tolist()
