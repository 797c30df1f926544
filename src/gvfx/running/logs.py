"""Answers from a log: a table of transitions recorded earlier under any behaviour.

States are counted and the questions answered by certainty equivalence, with intervals (`gvfx.evidence`); continuous observations
are answered in features (`gvfx.learners.linear`).  The result
reports the limits of the log: `support` is the share of a question's choices that were ever tried, `effective` the effective
share of the log for it (given behaviour probabilities), and `collect` lists the choices where one more sample would reduce
the error most.  Where nothing was tried that a question's policy does, its answer is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gvfx.behaviours.optimal import OptimalDesign
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, empirical, no_outcomes, widened
from gvfx.evidence.transitions import Transitions, cell_model
from gvfx.evidence.uncertainty import standard_errors, start_values
from gvfx.features.cells import Cells
from gvfx.features.scaling import Origin
from gvfx.files import check_writable
from gvfx.learners.half_samples import Doubt, Fit, outside, start_answers, start_joint
from gvfx.learners.linear import Choice, LinearCertaintyEquivalence, left_out, unresolved
from gvfx.questions.gvf import GVF, Stacked, comparable, expand, of_components, question_names, stack
from gvfx.questions.policies import OwnPolicy
from gvfx.questions.reader import Reader, Targets, policies_only
from gvfx.questions.where import EVERYWHERE, Where, WhereLike, counted
from gvfx.running.checkpoint import of_questions
from gvfx.running.comparing import contests_note
from gvfx.running.log_table import ActionValues, Checked, LogLike, Signals, as_log, audited_log, components, signals
from gvfx.running.log_table import Log as Log
from gvfx.running.predictor import LinearPredictor, action_values
from gvfx.running.record import Record
from gvfx.running.result import Result, gather
from gvfx.running.saved import keep
from gvfx.running.schema import EMPTY, Measurement
from gvfx.running.streams.gym_stream import POINTS
from gvfx.running.streams.linear_gym import nearest, observations_where
from gvfx.running.streams.linear_runs import without_states
from gvfx.running.summary import seen_in
from gvfx.theory.exact import DENSE_BELOW
from gvfx.threads import one_thread
from gvfx.types import Described
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import BoxSpec, DiscreteSpec, skeleton_mdp

# --- What to collect next: the choices of which one more sample would reduce the error of a log's answers most ------


MOST = 100  # choices that are listed
CELLS, PER_PAIR = 100, 10  # most cells of continuous observations, and least transitions per cell and action


def worth_collecting(known: Empirical, design: OptimalDesign, label: Callable[[int], object]) -> list[Described]:
    """The choices with the largest gain G / n - G / (n + 1), most useful first; `label` names a row.

    Each counts as tried once more than it was, so that the gain of those never tried is finite.
    """
    smoothed, need = design.needs(known)
    n = smoothed.visits + 1.0
    gain = need / n / (n + 1)
    gain[~smoothed.model.going] = 0.0
    best = np.argsort(gain, axis=None)[::-1][:MOST]
    rows, actions = np.unravel_index(best, gain.shape)
    return [
        {"observation": label(s), "action": a, "seen": int(smoothed.visits[s, a]), "gain": float(gain[s, a])}
        for s, a in zip(rows.tolist(), actions.tolist(), strict=True)
        if gain[s, a] > 0
    ]


def worth_collecting_around(
    data: Transitions,
    reader: Reader,
    learner: LinearCertaintyEquivalence,
    choice: Choice,
    where: Where,
    asked_at: np.ndarray,
    origin: Origin,
) -> list[Described]:
    """The same with continuous observations, in cells of them that are named by the mean of their observations."""
    cells = Cells.of(data.observation, max(1, min(CELLS, len(data) // (PER_PAIR * data.actions))))
    asked = without_states(reader.questions, reader.names, skeleton_mdp(cells.size, data.actions))
    asked = asked._replace(where=counted(cells(origin.relative(asked_at))) if where.kind == "observations" else where)
    errors = learner.fit(data, choice, halved=True).errors(data)
    varying = any(callable(q.discount) for q in reader.questions)
    model = cell_model(data, cells, asked, cells.size, None, varying, errors)
    here = cells(data.observation)
    count = np.maximum(1, np.bincount(here, minlength=cells.size))
    middle = np.stack([np.bincount(here, column, cells.size) / count for column in data.observation.T], axis=1)
    named = [origin.absolute(np.array([float(f"{x:.3g}") for x in row])).tolist() for row in middle]
    own = worth_collecting(model, OptimalDesign().on_cells(), lambda s: named[s] if s in here else None)
    return [row for row in own if row["observation"] is not None]


# --- Answers from a log with continuous observations: the same features, fits and error bars as in a run ------------


def _answered_from_box(log: Checked, questions: Sequence[GVF], where: WhereLike) -> Result:
    """The result of a log with observations [n, o]."""
    if any(isinstance(q.policy, OwnPolicy) for q in expand(questions)):
        raise InputError("policy: own_greedy and own_softmax need Discrete observations; give known policies.")
    if log.observation.shape != log.next_observation.shape:
        raise InputError("next_observation: its shape differs from that of observation; give as many numbers in each.")
    n, size = len(log.action), log.observation.shape[1]
    reader, targets, origin = Reader(questions), Targets(questions, log.actions), Origin.of(log.observation)
    read, learner = signals(log, reader, *_rows(log)), LinearCertaintyEquivalence()
    data = Transitions(
        observation=origin.relative(log.observation).astype(np.float32),
        action=log.action,
        following=origin.relative(log.next_observation).astype(np.float32),
        cumulant=read.c,
        discount=read.gamma,
        episode=read.episode,
        first=read.begins,
        terminated=log.terminated,
        pi=np.stack(targets.each(log.next_observation), axis=-1),
        member=targets.member,
    )

    def policies(vectors: np.ndarray) -> np.ndarray:
        return targets(origin.absolute(vectors))

    def action_values(fit: Fit) -> ActionValues:
        return lambda observations: fit.action_values(origin.relative(observations))

    def without(rows: np.ndarray) -> ActionValues:
        part = data.part(~rows)
        return action_values(learner.fit(part, learner.choose(part)))

    choice = learner.choose(data)
    answers = learner.answers(learner.rows(data, choice))
    here = np.stack(targets.each(log.observation), axis=-1)
    doubt = Doubt.of(data, here, answers.fit.within.width)
    answers = replace(answers, doubt=doubt, origin=origin.at)
    points = data.observation[np.sort(np.random.default_rng(7).choice(n, min(POINTS, n), replace=False))]
    values, errors = answers.values(points, policies(points))
    visits = np.zeros((len(points), log.actions), np.int64)
    np.add.at(visits, (nearest(data.observation, points), data.action), 1)
    spec = BoxSpec(None, "log", 0, log.actions, 1, Box(-np.inf, np.inf, (size,), np.float32), size)
    asked, asked_at = observations_where(where, spec)
    experiment = _noted(log, questions, asked, here[np.arange(n), data.action][:, targets.member]) | {"learner": repr(learner)}
    experiment["support"] = dict(zip(reader.names, doubt.support.tolist(), strict=True))
    notes = {
        "not_resolved": unresolved(data, choice, reader.names),
        "inputs": left_out(choice, size),
        "starts": outside(answers, data),
    }
    experiment |= {name: note for name, note in notes.items() if note}
    experiment["collect"] = worth_collecting_around(data, reader, learner, choice, asked, asked_at, origin)
    start = start_answers(answers, data, policies)
    tried = visits / np.maximum(1, visits.sum(axis=1, keepdims=True))
    audits = EMPTY
    if log.policy is not None:
        audits = audited_log(log, questions, read, targets, action_values(answers.fit), without)
    record = Record(len(reader.names))
    tables = Measurement(values=values, visits=visits, behaviour=tried, standard_errors=errors)
    record.measured([n], int(read.begins.sum()), tables)
    record.shown([n], tables)
    part = record.part(
        None,
        0.0,
        audit=audits,
        differences=start_joint(answers, data, policies).known,
        start=np.column_stack([start, np.full(len(start), np.nan)]),
    )
    predictor = LinearPredictor((answers,), origin.absolute(points), spec, targets)
    return gather(reader.names, np.array([q.weight for q in reader.questions], float), (0,), [part], experiment, predictor)


@one_thread()
def evaluate_log(
    log: LogLike,
    questions: Sequence[GVF],
    *,
    where: WhereLike = None,
    audit: bool = True,
    save: str | Path | None = None,
) -> Result:
    """Answer questions from a log of transitions; `save` is a file for the result.

    log: a `gvfx.Log`, a mapping of its columns, a data frame, or a list of rows or of episodes (`gvfx.running.log_columns`).
         Whole numbers as observations are states; anything else is answered by `LinearCertaintyEquivalence`.
    where: where errors count, as in `gvfx.evaluate`; it decides what is worth collecting next.
    audit: whether episodes whose column `policy` names a question's policy check its value at the start (docs/audits.md#logs).
    """
    if not isinstance(audit, bool | np.bool_):
        raise InputError(
            f"audit: {audit!r:.40} is not True or False; the column 'policy' says which episodes of a log are audits."
        )
    if save is not None:
        save = check_writable(save, "save")
    checked: Checked = as_log(log, questions)
    if checked.actions is None:
        raise InputError("action: holds rows of numbers; Box actions need gvfx.evaluate with their environment and log=.")
    questions = of_components(questions, components(checked))
    if not audit:
        checked = checked._replace(policy=None)
    tables = checked.observation.ndim == 1
    result = _answered(checked, questions, where) if tables else _answered_from_box(checked, questions, where)
    result = Result(replace(result.details, made_of=of_questions(questions).plain))
    if save is not None:
        keep(result, save)
    return result


def _answered(log: Checked, questions: Sequence[GVF], where: WhereLike) -> Result:
    spec = DiscreteSpec(None, "log", 0, 0, 1, skeleton_mdp(log.states or 0, log.actions or 0))
    asked = stack(policies_only(questions, spec), spec.skeleton, where=where)
    reader = Reader(questions, spec)
    read = signals(log, reader, *_rows(log))
    varying = any(callable(q.discount) for q in reader.questions)

    def counted(rows: np.ndarray | slice) -> Empirical:
        part = log._replace(**{name: getattr(log, name)[rows] for name in Log._fields[:4]})
        return _counted(part, Signals(*(each[rows] for each in read)), spec.skeleton, widened(asked), varying)

    def answers_of(model: Empirical) -> ActionValues:
        table = action_values(model, model.values)
        return lambda observations: table[observations]

    known = counted(slice(None))
    known = replace(known, asked=known.asked._replace(pi=known.converged_policies()), closed=False)
    _check_endings(known, asked)
    states = spec.skeleton.states
    values = known.values[:, :states]
    errors = standard_errors(known)[:, :states] if states < DENSE_BELOW else None
    pi = np.broadcast_to(known.asked.pi, (states + 1, *asked.pi.shape[1:]))[:states]
    visits = known.visits[:states]
    tried = visits / np.maximum(1, visits.sum(axis=1, keepdims=True))
    experiment = _noted(log, questions, asked.where, pi[log.observation, log.action]) | {"learner": "CertaintyEquivalence()"}
    experiment["support"] = dict(zip(asked.names, _support(visits, pi), strict=True))
    experiment["collect"] = worth_collecting(known, OptimalDesign(), int)
    experiment |= seen_in([known])
    untried = np.einsum("sa,sai->is", visits > 0, pi) <= 0  # nothing that the question's policy does was ever tried there
    start = start_values(known)
    start[untried @ known.world.start[:states] > 0, 0] = np.nan
    audits = EMPTY
    if log.policy is not None:
        answers = answers_of(known), lambda rows: answers_of(counted(~rows))
        audits = audited_log(log, questions, read, lambda s: pi[s], *answers)
    record = Record(len(asked.names))
    tables = Measurement(
        values=values,
        visits=visits,
        behaviour=tried,
        standard_errors=EMPTY if errors is None else errors,
        policies=np.moveaxis(pi, 2, 0).copy() if asked.own else EMPTY,
        untried=untried,
    )
    record.measured([len(log.action)], int(log.terminated.sum()), tables)
    record.shown([len(log.action)], tables)
    part = record.part(None, 0.0, audit=audits, start=start, model=known)
    return gather(asked.names, asked.weights, (0,), [part], experiment)


def _rows(log: Checked) -> tuple[Any, Any, Any]:
    """Observations, actions and next observations one by one."""
    return tuple(c.tolist() if c.ndim == 1 else c for c in (log.observation, log.action, log.next_observation))


def _noted(log: Checked, questions: Sequence[GVF], where: Where, taken: np.ndarray) -> dict[str, Any]:
    """What is noted of any log; taken: the probabilities with which the questions' policies take the logged actions [n, gvf]."""
    noted: dict[str, Any] = {"environment": "a log", "steps": len(log.action), **contests_note(comparable(questions))}
    if where != EVERYWHERE:
        noted["where"] = str(where)
    if log.behaviour_prob is not None:
        ratio = taken / log.behaviour_prob[:, None]
        share = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300) / len(ratio)
        noted["effective"] = dict(zip(question_names(expand(questions)), share.tolist(), strict=True))
    return noted


def _counted(log: Checked, read: Signals, skeleton: MDP, asked: Stacked, varying: bool) -> Empirical:
    """The log's outcomes, counted."""
    key = (log.observation * skeleton.actions + log.action) * (skeleton.states + 1) + np.where(
        log.terminated, skeleton.states, log.next_observation
    )
    outcomes, which, counts = np.unique(key, return_inverse=True, return_counts=True)
    met = no_outcomes(skeleton.states, skeleton.actions, read.c.shape[1], (), capacity=len(outcomes))
    met.pair[:], met.following[:] = np.divmod(outcomes, skeleton.states + 1)
    met.used[0] = len(outcomes)
    met.evidence.counts[:, 0] = counts
    for total, amount in ((met.evidence.sums, read.c), (met.evidence.squares, read.c**2), (met.discounts, read.gamma)):
        np.add.at(total, which, amount)
    np.add.at(met.evidence.starts, log.observation[read.begins], 1)
    reached = np.stack([log.observation, log.next_observation], axis=1).ravel()
    states, first = np.unique(reached, return_index=True)
    met.evidence.found[states] = 1 + (first + 1) // 2
    return empirical(met, skeleton, asked, varying)


def _check_endings(known: Empirical, asked: Stacked) -> None:
    """Refuse sums that do not terminate in the log."""
    acted = known.visits.sum(axis=1) > 0
    for i, name in enumerate(asked.names):
        if known.asked.gamma[:, i].max() >= 1 and (known.solver(i, 1)(np.ones(len(acted)))[acted] == 0).any():
            raise InputError(
                f"discount: the values of {name!r} do not converge in this log; use less than 1, or log terminations."
            )


def _support(visits: np.ndarray, pi: np.ndarray) -> list[float]:
    """The share of each question's choices, over the states of the log, that were ever tried."""
    seen = visits.sum(axis=1)
    return np.einsum("s,sa,sai->i", seen / seen.sum(), 1.0 * (visits > 0), pi).tolist()
