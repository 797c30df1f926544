"""Answers from a log with continuous observations: the same features, fits and error bars as in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gvfx.errors import InputError
from gvfx.evidence.transitions import Transitions
from gvfx.learners.linear import LinearCertaintyEquivalence, left_out, unresolved
from gvfx.learners.linear_starts import start_answers, start_joint
from gvfx.learners.support import Doubt
from gvfx.questions.comparable import comparable
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader, Targets
from gvfx.questions.where import EVERYWHERE, WhereLike
from gvfx.running.comparing import told_of
from gvfx.running.log_audits import ActionValues, Signals, audited_log
from gvfx.running.log_collect import worth_collecting_around
from gvfx.running.predictor import LinearPredictor
from gvfx.running.result import Result, Snapshot
from gvfx.running.streams.linear_gym import POINTS, nearest, observations_where
from gvfx.worlds.spec import BoxSpec


def answered_from_box(log: Any, questions: Sequence[GVF], signals: Signals, where: WhereLike = None) -> Result:
    """The result of a log with observations [n, o]."""
    if log.observation.shape != log.next_observation.shape:
        raise InputError("next_observation: its shape differs from that of observation; give as many numbers in each.")
    n, size = len(log.action), log.observation.shape[1]
    reader, targets = Reader(questions), Targets(questions, log.actions)
    data = Transitions(
        observation=log.observation.astype(np.float32),
        action=log.action,
        following=log.next_observation.astype(np.float32),
        cumulant=signals.c,
        discount=signals.gamma,
        episode=signals.episode,
        first=signals.begins,
        terminated=log.terminated,
        pi=np.stack(targets.each(log.next_observation), axis=-1),
        member=targets.member,
    )
    learner = LinearCertaintyEquivalence()

    def without(rows: np.ndarray) -> ActionValues:
        part = data.part(~rows)
        return learner.fit(part, learner.choose(part)).action_values

    choice = learner.choose(data)
    answers = learner.answers(data, choice)
    here = np.stack(targets.each(log.observation), axis=-1)
    doubt = Doubt.of(data, here, answers.fit.within.width)
    answers = replace(answers, doubt=doubt)
    points = data.observation[np.sort(np.random.default_rng(7).choice(n, min(POINTS, n), replace=False))]
    pi = targets(points)
    values, errors = answers.values(points, pi)
    visits = np.zeros((len(points), log.actions), np.int64)
    np.add.at(visits, (nearest(data.observation, points), data.action), 1)
    experiment: dict[str, Any] = {"environment": "a log", "learner": repr(learner), "steps": n}
    experiment["support"] = dict(zip(reader.names, doubt.support.tolist(), strict=True))
    notes = {"not_resolved": unresolved(data, choice, reader.names), "inputs": left_out(choice, size)}
    experiment |= {name: note for name, note in notes.items() if note}
    if log.behaviour_prob is not None:
        ratio = here[np.arange(n), data.action][:, targets.member] / log.behaviour_prob[:, None]
        share = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300) / n
        experiment["effective"] = dict(zip(reader.names, share.tolist(), strict=True))
    gvfs, nothing = len(reader.names), np.zeros((1, len(reader.names)))
    spec = BoxSpec(None, "log", 0, log.actions, 1, Box(-np.inf, np.inf, (size,), np.float32), size)
    asked, asked_at = observations_where(where, spec)
    experiment["collect"] = worth_collecting_around(data, reader, learner, choice, asked, asked_at)
    experiment |= {} if asked == EVERYWHERE else {"where": str(asked)}
    experiment |= told_of(comparable(questions))
    start = start_answers(answers, data, targets)
    tried = visits / np.maximum(1, visits.sum(axis=1, keepdims=True))
    audits = None
    if log.policy is not None:
        audits = audited_log(log, questions, signals, targets, answers.fit.action_values, without)
    return Result(
        names=reader.names,
        weights=np.array([q.weight for q in reader.questions], dtype=float),
        seeds=(0,),
        steps=np.array([n]),
        mse=np.full((1, 1, gvfs), np.nan),
        levels=nothing[None],
        episodes=np.array([[int(signals.begins.sum())]]),
        snapshots=(Snapshot(n, values[None], None, visits[None], tried[None], nothing, errors[None]),),
        truth=np.full((1, gvfs, len(points)), np.nan),
        seconds=np.zeros(1),
        experiment=experiment,
        predictor=LinearPredictor((answers,), points, spec, targets),
        audits=audits,
        differences=start_joint(answers, data, targets).known[None],
        starts=np.column_stack([start, np.full(gvfs, np.nan)])[None],
    )
