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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.behaviours.fixed import Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.episodes import estimate, scores, surprises
from gvfx.evidence.transitions import cell_model
from gvfx.features.cells import Cells
from gvfx.files import check_writable
from gvfx.learners.base import Learner
from gvfx.learners.linear import Choice
from gvfx.questions.gvf import GVF, Stacked, comparable, expand, of_components, question_names
from gvfx.questions.policies import OwnPolicy
from gvfx.questions.where import EVERYWHERE, Where, WhereLike, counted
from gvfx.running.backends import GymWorld
from gvfx.running.checkpoint import of_questions
from gvfx.running.drive import drive
from gvfx.running.log_table import Checked, LogLike, Signals, as_log, components
from gvfx.running.log_table import Log as Log
from gvfx.running.plan import Method, Options, Plan
from gvfx.running.predictor import action_values
from gvfx.running.result import Result, gather, seen_in
from gvfx.running.saved import keep
from gvfx.running.schema import EMPTY, Part
from gvfx.running.streams.linear import LinearAgent
from gvfx.running.streams.log_stream import LoggedEnvironment, LogStream
from gvfx.running.streams.table_gym import TableGym
from gvfx.threads import one_thread
from gvfx.types import Described
from gvfx.worlds.spec import Uncountable

ActionValues = Callable[[np.ndarray], np.ndarray]  # Q or probabilities [n, action, gvf] at observations [n, ...]
Predicted = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]  # V, Q and how probable they are, each [n, gvf], of
# observations [n, ...] and the actions [n, ...] taken there

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


def worth_collecting_around(agent: Any, choice: Choice) -> list[Described]:
    """The same with continuous observations, in cells of them that are named by the mean of their observations."""
    run, data, reader, origin, where = agent.run, agent.data, agent.reader, agent.spec.origin, agent.run.where
    cells = Cells.of(data.observation, max(1, min(CELLS, len(data) // (PER_PAIR * data.actions))))
    asked = Stacked.of_transitions(reader.questions, cells.size, data.actions)
    asked = asked._replace(where=counted(cells(origin.relative(run.asked_at))) if where.kind == "observations" else where)
    errors = run.learner.fit(data, choice, halved=True).errors(data)
    varying = any(callable(q.discount) for q in reader.questions)
    model = cell_model(data, cells, asked, cells.size, None, varying, errors)
    here = cells(data.observation)
    count = np.maximum(1, np.bincount(here, minlength=cells.size))
    middle = np.stack([np.bincount(here, column, cells.size) / count for column in data.observation.T], axis=1)
    named = [origin.absolute(np.array([float(f"{x:.3g}") for x in row])).tolist() for row in middle]
    own = worth_collecting(model, OptimalDesign().on_cells(), lambda s: named[s] if s in here else None)
    return [row for row in own if row["observation"] is not None]


# --- What a log shows, beside the answers of the learner that has read it -------------------------------------------


class _Tables:
    """A learner of tables that has read a log."""

    def __init__(self, log: Checked, run: TableGym, stream: LogStream) -> None:
        agent: Any = stream.agent
        self.log, self.run, self.stream, self.agent = log, run, stream, agent
        self.known: Empirical = agent.known
        self.visits, pi = agent.at.visits[: agent.met], self.known.asked.pi
        self.pi = np.broadcast_to(pi, (self.known.world.states, *pi.shape[1:]))[: agent.met]
        if run.learner.needs_evidence:
            _check_endings(self.known, self.run.names)

    def number(self, observations: np.ndarray) -> np.ndarray:
        """The states of observations [n, ...]."""
        seen = self.agent.spec.seen
        return observations if self.agent.spec.fixed else np.array([seen(row) for row in observations], int)

    def policies(self, observations: np.ndarray) -> np.ndarray:
        return np.asarray(self.pi[self.number(observations)])

    def predicted(self, stream: LogStream) -> Predicted:
        """What an agent predicts that has read a part of the log."""
        own = _Tables(self.log, self.run, stream)
        table = action_values(own.known, own.agent.values())
        return partial(_both, lambda observations: table[own.number(observations)], self.policies)

    def changes(self, part: Part) -> dict[str, Any]:
        """What becomes of arrays of the part: nothing is said of policies of which nothing was tried."""
        untried = np.einsum("sa,sai->is", self.visits > 0, self.pi) <= 0
        start = part.start.copy()
        if start.size:
            start[untried @ self.known.world.start[: len(self.visits)] > 0, 0] = np.nan
        return {"start": start, "untried": untried[None], "behaviour": _shares_taken(self.visits)[None]}

    def notes(self) -> dict[str, Any]:
        """The shares of the questions' choices that were tried, and what to collect."""
        label = int if self.agent.spec.fixed else lambda s: list(self.agent.spec.numbering.keys[s])
        seen = self.visits.sum(axis=1)
        support = np.einsum("s,sa,sai->i", seen / seen.sum(), 1.0 * (self.visits > 0), self.pi)
        out: dict[str, Any] = {"support": dict(zip(self.run.names, support.tolist(), strict=True))}
        if not self.run.learner.needs_evidence:
            return out
        return out | {"collect": worth_collecting(self.known, OptimalDesign(), label)} | seen_in([self.known], label)


class _Vectors:
    """A learner of rows of numbers that has read a log."""

    def __init__(self, log: Checked, run: Any, stream: LogStream) -> None:
        agent: Any = stream.agent
        self.log, self.run, self.stream, self.agent = log, run, stream, agent

    def policies(self, observations: np.ndarray) -> np.ndarray:
        spec = self.agent.spec
        rows = [spec.whole(row) for row in observations]
        return np.asarray(self.run.policies(rows)[:, :, self.run.targets.member])

    def predicted(self, stream: LogStream) -> Predicted:
        """What an agent predicts that has read a part of the log."""
        agent: Any = stream.agent
        if not self.log.actions:
            return partial(self._of_critics, agent, agent.freeze(), np.random.default_rng(AUDITS))
        values = agent.answers(False, False)[0].fit.action_values if self._linear else agent.freeze().action_values
        return partial(_both, lambda observations: values(agent.spec.origin.relative(observations)), self.policies)

    def _of_critics(
        self, agent: Any, frozen: Any, rng: np.random.Generator, observations: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """The same with Box actions, of which every policy takes all with some probability; V is a mean over fresh draws."""
        spec, member, out = agent.spec, self.run.targets.member, []
        for own in np.array_split(np.arange(len(actions)), max(1, len(actions) // PIECE)):
            middles = self.run.policies([spec.whole(row) for row in observations[own]])
            seen = spec.origin.relative(observations[own]).astype(np.float32)
            taken = spec.given(actions[own].reshape(len(own), *spec.moves.shape), len(own))
            each = np.stack([frozen.at(p, list(zip(seen, middles, strict=True)), None, rng)[0] for p in range(member.max() + 1)])
            v = each[member, :, np.arange(len(member))].T
            out.append((v, frozen.values(seen, taken), np.ones_like(v)))
        return tuple(np.concatenate(parts) for parts in zip(*out, strict=True))

    @property
    def _linear(self) -> bool:
        return isinstance(self.agent, LinearAgent)

    def changes(self, part: Part) -> dict[str, Any]:
        return {"behaviour": _shares_taken(part.visits[0])[None]}

    def notes(self) -> dict[str, Any]:
        """The shares of the questions' choices that were tried, what the features leave out, and what to collect."""
        if not self._linear:
            return {}
        agent, run = self.agent, self.run
        found, choice = agent.answers(True, True)
        out: dict[str, Any] = {"support": dict(zip(run.names, found.doubt.support.tolist(), strict=True))}
        out |= {name: note for name, note in agent.resolution().items() if note}
        return out | {"collect": worth_collecting_around(agent, choice)}


def _shares_taken(visits: np.ndarray) -> np.ndarray:
    """The shares of the actions among those tried, [row, action]."""
    return np.asarray(visits / np.maximum(1, visits.sum(axis=1, keepdims=True)))


@one_thread()
def evaluate_log(
    log: LogLike,
    questions: Sequence[GVF],
    learner: Learner | None = None,
    *,
    where: WhereLike = None,
    calibrate: bool = False,
    audit: bool = True,
    save: str | Path | None = None,
) -> Result:
    """Answer questions from a log of transitions; `save` is a file for the result.

    log: a `gvfx.Log`, a mapping of its columns, a data frame, or a list of rows or of episodes (`gvfx.running.log_table`).
    learner: as in `gvfx.evaluate`; by default the one of an environment with such observations and actions: tables for states
             and for a few whole numbers, linear features, networks, or twin critics where actions are rows of numbers.
    where, calibrate: as in `gvfx.evaluate`; `where` decides what is worth collecting next.
    audit: whether episodes whose column `policy` names a question's policy check its value at the start (docs/audits.md#logs).
    """
    if not isinstance(audit, bool | np.bool_):
        raise InputError(
            f"audit: {audit!r:.40} is not True or False; the column 'policy' says which episodes of a log are audits."
        )
    if save is not None:
        save = check_writable(save, "save")
    checked: Checked = as_log(log, questions)
    questions = of_components(questions, components(checked))
    options = Options(Plan(1, (1,), (1,)), where=where, calibrate=calibrate, log=checked)
    try:
        result = _answered(checked, questions, learner, options, audit)
    except Uncountable:
        if learner is not None:
            raise
        result = _answered(checked, questions, None, replace(options, numbered=False), audit)
    result = Result(replace(result.details, made_of=of_questions(questions).plain))
    if save is not None:
        keep(result, save)
    return result


def _answered(log: Checked, questions: Sequence[GVF], learner: Any, options: Options, audit: bool) -> Result:
    """The result of what a learner makes of the log."""
    run: Any = GymWorld(LoggedEnvironment(log)).open(questions, Method(Uniform(), learner), options)
    stream = LogStream.opened(run)
    (part,) = drive(run, stream)
    seen = _Tables(log, run, stream) if isinstance(run, TableGym) else _Vectors(log, run, stream)
    experiment = _described(log, questions, run.where) | {"learner": repr(run.learner)} | seen.notes()
    changes = seen.changes(part)
    if log.actions:
        pi = seen.policies(log.observation)
        experiment |= _effective(log, run.names, pi)
    if log.policy is not None and audit:
        changes["audit"] = _audits(log, questions, seen, run)
    (part,) = run.aligned([part.replaced(expected=EMPTY, **changes)])
    weights = np.array([q.weight for q in expand(questions)], float)
    return gather(run.names, weights, (0,), [part], experiment, run.predictor([part]))


def _audits(log: Checked, questions: Sequence[GVF], seen: Any, run: Any) -> np.ndarray:
    """What episodes that followed target policies say, [gvf, 6]."""

    def without(rows: np.ndarray) -> Predicted:
        stream = LogStream(run, ~rows)
        stream.advance(len(stream.log))
        return seen.predicted(stream)

    signals = Signals(run.log.c, run.log.gamma, run.log.begins)
    return audited_log(log, questions, signals, seen.predicted(seen.stream), without)


def _effective(log: Checked, names: Sequence[str], pi: np.ndarray) -> dict[str, Any]:
    """The effective share of the log for each question, if it has the behaviour's probabilities; pi [n, action, gvf]."""
    if log.behaviour_prob is None:
        return {}
    ratio = pi[np.arange(len(pi)), log.action] / log.behaviour_prob[:, None]
    share = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300) / len(ratio)
    return {"effective": dict(zip(names, share.tolist(), strict=True))}


def _described(log: Checked, questions: Sequence[GVF], where: Where) -> dict[str, Any]:
    """What is noted of any log."""
    noted: dict[str, Any] = {"environment": "a log", "steps": len(log.action), **comparable(questions).note}
    return noted if where == EVERYWHERE else noted | {"where": str(where)}


def _check_endings(known: Empirical, names: Sequence[str]) -> None:
    """Refuse sums that do not terminate in the log."""
    acted = known.visits.sum(axis=1) > 0
    for i, name in enumerate(names):
        if known.asked.gamma[:, i].max() >= 1 and (known.solver(i, 1)(np.ones(len(acted)))[acted] == 0).any():
            raise InputError(
                f"discount: the values of {name!r} do not converge in this log; use less than 1, or log terminations."
            )


# --- Audits of a log whose column `policy` says which episodes followed which target policy -------------------------
# Episodes are divided into folds, and the answers are fitted once for each fold, without its episodes.  The episodes of a
# question's policy are scored against the answers of their fold (`gvfx.evidence.episodes`); all others show where episodes
# begin.


FOLDS = 5  # at most
PIECE = 2000  # rows for which actions are drawn together
AUDITS = 0x617564  # the seed of these draws


def audited_log(
    log: Any,
    questions: Sequence[GVF],
    signals: Signals,
    whole: Predicted,
    without: Callable[[np.ndarray], Predicted],
) -> np.ndarray:
    """What the episodes that followed target policies say about the start, [gvf, 6] as `gvfx.evidence.episodes.Estimate.arrays`.

    whole:    answers fitted to the whole log, whose errors say how rare surprises are.
    without:  answers fitted without the rows of a mask [n].
    """
    own, episode = followed(log.policy, questions, signals.begins), signals.episode
    _check_actions(log, own[episode], whole)
    first = np.flatnonzero(signals.begins)
    _check_ends(questions, own, log.terminated, signals.gamma, first)
    fold = folds(own)
    start, errors = np.zeros(own.shape), np.zeros(signals.c.shape)
    after, further = np.zeros(own.shape), np.full((fold.max() + 1, *own.shape), np.nan)
    for k in range(len(further) if len(fold) > 1 else 0):
        inside = fold[episode] == k
        q = without(inside)
        v, taken = q(log.observation[inside], log.action[inside])[:2]
        arrived = q(log.next_observation[inside], log.action[inside])[0]
        further[k] = q(log.observation[first], log.action[first])[0]
        errors[inside] = signals.c[inside] + signals.gamma[inside] * arrived - taken
        start[fold == k], after[fold == k] = v[signals.begins[inside]], arrived[np.append(signals.begins[inside][1:], True)]
    asked = [q.policy for q in expand(questions)]
    member, policy = np.array([asked.index(p) for p in asked]), np.where(own.any(axis=1), own.argmax(axis=1), -1)
    along = errors, signals.c, signals.gamma, np.zeros((len(errors), 1))
    of = scores(*along, first, start, after, policy, member, np.arange(len(first)), fold)
    surprise = _surprises(log, signals, whole)
    found = estimate(of, surprise, np.where(own, np.nan, further) if len(fold) > 1 else None)
    found.variance[(signals.c == 0).all(axis=0)] = np.inf  # a signal that was never met
    return found.arrays()["audit"]


def followed(column: np.ndarray, questions: Sequence[GVF], begins: np.ndarray) -> np.ndarray:
    """Whether an episode followed each question's policy, bool [episode, gvf], from names [n] of policies or questions."""
    asked = expand(questions)
    names, called = question_names(asked), comparable(questions, alone=True).policies
    policies = dict(zip(names, (q.policy for q in asked), strict=True))
    policies |= {name: q.policy for name, q in zip(called, asked, strict=True) if name}
    changed = np.flatnonzero((column[1:] != column[:-1]) & ~begins[1:])
    if len(changed):
        raise InputError(
            f"policy: changes within an episode, in row {changed[0] + 1}; name one policy for a whole episode, and mark the "
            "end of the one before in terminated or truncated."
        )
    for name in dict.fromkeys(column[begins].tolist()):
        if name and name not in policies:
            known = ", ".join(dict.fromkeys([*(name for name in called if name), *names]))
            raise InputError(f"policy: the column names {name!r:.60}, which is unknown; choose from {known}, or leave it empty.")
        if name and isinstance(policies[name], OwnPolicy):
            raise InputError(f"policy: that of {name!r} is found from the log, so no episode followed it; leave it empty.")
    each = [policies.get(name) for name in column[begins].tolist()]
    return np.array([[q.policy == policy for q in asked] for policy in each])


def folds(own: np.ndarray) -> np.ndarray:
    """The fold of each episode, int64 [episode]: in turn, among those that followed the same policies; own [episode, gvf]."""
    out = np.empty(len(own), np.int64)
    out[np.lexsort(own.T)] = np.arange(len(own)) % min(FOLDS, len(own))
    return out


def _both(q: ActionValues, policies: ActionValues, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """V, Q of the actions, and the probabilities with which policies take them, each [n, gvf]."""
    values, pi, rows = q(observations), policies(observations), np.arange(len(actions))
    v = np.einsum("nai,nai->ni", values, pi / pi.sum(axis=1, keepdims=True))
    return v, values[rows, actions], pi[rows, actions]


def _check_actions(log: Any, own: np.ndarray, predicted: Predicted) -> None:
    """Refuse actions that the policy of their episode never takes; own: the questions whose policy a row followed [n, gvf]."""
    rows = np.flatnonzero(own.any(axis=1))
    if not len(rows):
        return
    taken = predicted(log.observation[rows], log.action[rows])[2]
    never = np.argwhere(own[rows] & (taken <= 0))
    if len(never):
        row = int(rows[never[0, 0]])
        raise InputError(
            f"policy: in row {row} {str(log.policy[row])!r} never takes action {int(log.action[row])}; leave the column empty in "
            "episodes that did not follow it."
        )


def _check_ends(questions: Sequence[GVF], own: np.ndarray, terminated: np.ndarray, gamma: np.ndarray, first: np.ndarray) -> None:
    """Refuse undiscounted sums over episodes that did not terminate."""
    names, past = question_names(expand(questions)), np.append(first[1:], len(gamma))
    for j in np.flatnonzero(~terminated[past - 1] & own.any(axis=1)).tolist():
        for i in np.flatnonzero(own[j] & (gamma[first[j] : past[j]].prod(axis=0) >= 1)):
            raise InputError(
                f"discount: that of {names[i]!r} is 1, and its episode from row {first[j]} on did not terminate; use less than "
                "1, leave the column 'policy' empty there, or give audit=False."
            )


def _surprises(log: Any, signals: Signals, predicted: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """`gvfx.evidence.episodes.surprises` in the log, over actions that a question's policy takes, [1, gvf] each."""
    _, taken, chance = predicted(log.observation, log.action)
    errors = signals.c + signals.gamma * predicted(log.next_observation, log.action)[0] - taken
    each = [surprises(errors[chance[:, i] > 0, i, None]) for i in range(errors.shape[1])]
    second, size = np.hstack(each)
    return second[None], size[None]
