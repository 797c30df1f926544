"""Answers from a log: a table of transitions recorded earlier under any behaviour.

States are counted and the questions answered by certainty equivalence, with intervals (`gvfx.evidence`); continuous observations
are answered in features (`gvfx.learners.linear`).  The result
reports the limits of the log: `support` is the share of a question's choices that were ever tried, `effective` the effective
share of the log for it (given behaviour probabilities), and `collect` lists the choices where one more sample would reduce
the error most.  Where nothing was tried that a question's policy does, its answer is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.behaviours.optimal import OptimalDesign
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.outcomes import empirical, no_outcomes, widened
from gvfx.evidence.starts import start_values
from gvfx.evidence.uncertainty import standard_errors
from gvfx.files import check_writable
from gvfx.questions.comparable import comparable
from gvfx.questions.gvf import GVF, Stacked, expand, stack
from gvfx.questions.own import OwnPolicy
from gvfx.questions.reader import Reader, policies_only
from gvfx.questions.vector_rewards import of_components
from gvfx.questions.where import EVERYWHERE, WhereLike
from gvfx.running.comparing import told_of
from gvfx.running.frozen import action_values
from gvfx.running.linear_logs import answered_from_box
from gvfx.running.log_audits import ActionValues, audited_log
from gvfx.running.log_collect import worth_collecting
from gvfx.running.log_table import Checked, LogLike, as_log, components, signals
from gvfx.running.log_table import Log as Log
from gvfx.running.result import Result, Snapshot
from gvfx.running.story import seen_in
from gvfx.theory.exact import DENSE_BELOW
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp


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
        check_writable(save, "save")
    checked: Checked = as_log(log, questions)
    questions = of_components(questions, components(checked))
    if not audit:
        checked = checked._replace(policy=None)
    tables = checked.observation.ndim == 1
    result = _answered(checked, questions, where) if tables else _answered_from_box(checked, questions, where)
    if save is not None:
        result.save(save)
    return result


def _answered(log: Checked, questions: Sequence[GVF], where: WhereLike) -> Result:
    spec = DiscreteSpec(None, "log", 0, 0, 1, skeleton_mdp(log.states or 0, log.actions or 0))
    asked = stack(policies_only(questions, spec), spec.skeleton, where=where)
    reader = Reader(questions, spec)
    read = signals(log, reader)
    (c, gamma, begins), varying = read, any(callable(q.discount) for q in reader.questions)

    def counted(rows: np.ndarray | slice) -> Empirical:
        part = log._replace(**{name: getattr(log, name)[rows] for name in Log._fields[:4]})
        return _counted(part, c[rows], gamma[rows], begins[rows], spec.skeleton, widened(asked), varying)

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
    pair = log.observation * spec.skeleton.actions + log.action
    visits = known.visits[:states]
    tried = visits / np.maximum(1, visits.sum(axis=1, keepdims=True))
    experiment: dict[str, Any] = {"environment": "a log", "learner": "CertaintyEquivalence()", "steps": len(pair)}
    experiment["support"] = dict(zip(asked.names, _support(visits, pi), strict=True))
    experiment["collect"] = worth_collecting(known, OptimalDesign(), int)
    experiment |= seen_in([known])
    experiment |= {} if asked.where == EVERYWHERE else {"where": str(asked.where)}
    experiment |= told_of(comparable(questions))
    untried = np.einsum("sa,sai->is", visits > 0, pi) <= 0  # nothing that the question's policy does was ever tried there
    start = start_values(known)
    start[untried @ known.world.start[:states] > 0, 0] = np.nan
    if log.behaviour_prob is not None:
        ratio = pi[log.observation, log.action] / log.behaviour_prob[:, None]
        share = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300) / len(ratio)
        experiment["effective"] = dict(zip(asked.names, share.tolist(), strict=True))
    nothing, gvfs = np.zeros((1, len(asked.names))), len(asked.names)
    audits = None
    if log.policy is not None:
        answers = answers_of(known), lambda rows: answers_of(counted(~rows))
        audits = audited_log(log, questions, read, lambda s: pi[s], *answers)
    return Result(
        names=asked.names,
        weights=asked.weights,
        seeds=(0,),
        steps=np.array([len(pair)]),
        mse=np.full((1, 1, gvfs), np.nan),
        levels=nothing[None],
        episodes=np.array([[int(log.terminated.sum())]]),
        snapshots=(
            Snapshot(
                step=len(pair),
                values=values[None],
                variances=None,
                visits=visits[None],
                behaviour=tried[None],
                levels=nothing,
                standard_errors=errors if errors is None else errors[None],
                policies=np.moveaxis(pi, 2, 0)[None].copy() if asked.own else None,
                untried=untried[None],
            ),
        ),
        truth=np.full((1, gvfs, spec.skeleton.states), np.nan),
        seconds=np.zeros(1),
        experiment=experiment,
        models=(known,),
        audits=audits,
        starts=start[None],
    )


def _answered_from_box(log: Checked, questions: Sequence[GVF], where: WhereLike) -> Result:
    if any(isinstance(q.policy, OwnPolicy) for q in expand(questions)):
        raise InputError("policy: own_greedy and own_softmax need Discrete observations; give known policies.")
    return answered_from_box(log, questions, signals(log, Reader(questions)), where)


def _counted(
    log: Checked, c: np.ndarray, gamma: np.ndarray, begins: np.ndarray, skeleton: MDP, asked: Stacked, varying: bool
) -> Empirical:
    """The log's outcomes, counted; begins: whether an episode begins with a row."""
    ends = log.terminated
    key = (log.observation * skeleton.actions + log.action) * (skeleton.states + 1) + np.where(
        ends, skeleton.states, log.next_observation
    )
    outcomes, which, counts = np.unique(key, return_inverse=True, return_counts=True)
    met = no_outcomes(skeleton.states, skeleton.actions, c.shape[1], (), capacity=len(outcomes))
    met.pair[:], met.following[:] = np.divmod(outcomes, skeleton.states + 1)
    met.used[0] = len(outcomes)
    met.evidence.counts[:, 0] = counts
    for total, amount in ((met.evidence.sums, c), (met.evidence.squares, c**2), (met.discounts, gamma)):
        np.add.at(total, which, amount)
    np.add.at(met.evidence.starts, log.observation[begins], 1)
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
