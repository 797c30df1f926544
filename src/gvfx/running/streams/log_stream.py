"""The mover that makes no steps: an actor learns from the transitions of a log, in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from gvfx.errors import InputError
from gvfx.questions.reader import Reader
from gvfx.running.drive import Stream
from gvfx.running.earlier import Earlier
from gvfx.running.log_table import Checked
from gvfx.running.plan import Plan
from gvfx.running.stepping import stepper
from gvfx.running.streams.gym_stream import Actor, GymRun

WIDER = 1e-6  # by how much of their range bounds of logged Box actions lie outside them


class LoggedEnvironment:
    """What a log shows of the environment in which it was recorded: its spaces; it cannot be stepped."""

    def __init__(self, log: Checked) -> None:
        self.unwrapped, self.spec = self, None
        seen = np.concatenate([log.observation, log.next_observation]) if _alike(log) else log.observation
        self.observation_space: Any = spaces.Discrete(log.states) if log.states else _box(seen)
        self.action_space: Any = spaces.Discrete(log.actions) if log.actions else _bounded(log.action)

    def step(self, action: Any) -> Any:
        raise InputError("log: it cannot be stepped; give the environment to gvfx.evaluate, with log=.")

    reset = step


def _alike(log: Checked) -> bool:
    if log.observation.shape != log.next_observation.shape:
        raise InputError("next_observation: its shape differs from that of observation; give as many numbers in each.")
    return True


def _box(rows: np.ndarray) -> spaces.Box:
    """The space of rows of numbers: the range of whole ones, or without bounds."""
    if rows.dtype.kind == "i":
        return spaces.Box(rows.min(axis=0), rows.max(axis=0), dtype=np.int64)
    return spaces.Box(-np.inf, np.inf, rows.shape[1:], np.float64)


def _bounded(actions: np.ndarray) -> spaces.Box:
    """The space of Box actions, as far as the log goes."""
    low, high = actions.min(axis=0), actions.max(axis=0)
    room = WIDER * (high - low) + (high == low)
    return spaces.Box((low - room).astype(np.float32), (high + room).astype(np.float32))


class LogStream(Stream):
    """One seed that learns from a log alone."""

    def __init__(self, run: GymRun, rows: np.ndarray | None = None, seed: int = 0) -> None:
        """rows: a mask [n] of those that are read; all by default."""
        assert run.log is not None
        self.run, self.seeds = run, (seed,)
        self.log: Earlier = run.log if rows is None else run.log.part(rows)
        spec = run.spec.anew()
        source = stepper(spec, Reader(run.questions, spec, seed, run.largest))
        self.agent: Actor = run.actor(seed, source)
        self.agent.stops = frozenset()  # nothing is planned
        source.episode = int(self.log.ended.sum())

    @classmethod
    def opened(cls, run: GymRun) -> LogStream:
        """The stream of a run whose log is all that it learns from."""
        assert run.log is not None
        n = len(run.log)
        run.alone = True
        if hasattr(run, "improvement"):
            run.improvement.at_once = True
        run.plan, run.log = Plan(n, (n,), (n,)), replace(run.log, starts=run.log.begins)
        return cls(run)

    def start(self) -> None: ...

    def advance(self, to: int) -> None:
        self.agent.take_log(self.log)
        self.agent.logged, self.t = 0, len(self.log)

    def episodes(self) -> list[int]:
        return [self.agent.source.episode]

    def outcome(self, k: int) -> dict[str, Any]:
        return self.agent.outcome(k)
