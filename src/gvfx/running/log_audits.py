"""Audits of a log whose column `policy` says which episodes followed which target policy.

Episodes are divided into folds, and the answers are fitted once for each fold, without its episodes.  The episodes of a
question's policy are scored against the answers of their fold (`gvfx.evidence.cross_fitting`); all others show where episodes
begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.audits import rollout_score
from gvfx.evidence.cross_fitting import Episodes, cross_fitted, surprises
from gvfx.questions.comparable import comparable
from gvfx.questions.gvf import GVF, expand, question_names
from gvfx.questions.own import OwnPolicy

FOLDS = 5  # at most

ActionValues = Callable[[np.ndarray], np.ndarray]  # Q or probabilities [n, action, gvf] at observations [n, ...]


class Signals(NamedTuple):
    """What questions read in a log."""

    c: np.ndarray  # [n, gvf] cumulants
    gamma: np.ndarray  # [n, gvf] discounts; 0 on termination
    begins: np.ndarray  # bool [n]: whether an episode begins with the row

    @property
    def episode(self) -> np.ndarray:
        """The number of each row's episode, int [n]."""
        return np.cumsum(self.begins) - 1


def audited_log(
    log: Any,
    questions: Sequence[GVF],
    signals: Signals,
    policies: ActionValues,
    whole: ActionValues,
    without: Callable[[np.ndarray], ActionValues],
) -> np.ndarray:
    """What the episodes that followed target policies say about the start, [1, gvf, 6] as `gvfx.evidence.audits.Audit`.

    policies: each question's policy at observations [n, ...], [n, action, gvf].
    whole:    answers fitted to the whole log, whose errors say how rare surprises are.
    without:  answers fitted without the rows of a mask [n].
    """
    own, episode = followed(log.policy, questions, signals.begins), signals.episode
    _check_actions(log, own[episode], policies)
    first = np.flatnonzero(signals.begins)
    past = np.append(first[1:], len(episode))
    weight = [_weights(signals.gamma[begin:end]) for begin, end in zip(first, past, strict=True)]
    cut = ~log.terminated[past - 1]
    _check_ends(questions, own, cut, weight, first)
    fold = folds(own)
    start, gain, length = np.zeros(own.shape), *np.where(own, 0.0, np.full((2, *own.shape), np.nan))
    level = np.zeros((fold.max() + 1, own.shape[1]))
    for k in range(len(level) if len(fold) > 1 else 0):
        inside = fold[episode] == k
        q = without(inside)
        v, taken = _both(q, policies, log.observation[inside], log.action[inside])[:2]
        arrived = _both(q, policies, log.next_observation[inside], log.action[inside])[0]
        level[k] = _both(q, policies, log.observation[first], log.action[first])[0].mean(axis=0)
        c, gamma = signals.c[inside], signals.gamma[inside]
        begins = np.flatnonzero(signals.begins[inside])
        for j, rows in zip(np.flatnonzero(fold == k), map(slice, begins, [*begins[1:], len(c)]), strict=True):
            start[j] = v[rows.start]
            if own[j].any():
                met = np.vstack([v[rows.start], arrived[rows]]), taken[rows], c[rows], gamma[rows]
                found = rollout_score(*met, np.ones(len(c[rows]))).gain  # Eq. A3
                gain[j, own[j]], length[j, own[j]] = found[own[j]], (weight[j][:-1] ** 2).sum(axis=0)[own[j]]
    audit = cross_fitted(
        Episodes(fold, past - first, cut, start, gain, length, level, *_surprises(log, signals, policies, whole))
    )
    audit.error[(signals.c == 0).all(axis=0)] = np.inf  # a signal that was never met
    return audit.columns[None]


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


def _weights(gamma: np.ndarray) -> np.ndarray:
    """The product of the discounts before each step of an episode and after the last, [step + 1, gvf]."""
    return np.cumprod(np.vstack([np.ones((1, gamma.shape[1])), gamma]), axis=0)


def _both(q: ActionValues, policies: ActionValues, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """V, Q of the actions, and the probabilities with which policies take them, each [n, gvf]."""
    values, pi, rows = q(observations), policies(observations), np.arange(len(actions))
    v = np.einsum("nai,nai->ni", values, pi / pi.sum(axis=1, keepdims=True))
    return v, values[rows, actions], pi[rows, actions]


def _check_actions(log: Any, own: np.ndarray, policies: ActionValues) -> None:
    """Refuse actions that the policy of their episode never takes; own: the questions whose policy a row followed [n, gvf]."""
    rows = np.flatnonzero(own.any(axis=1))
    taken = policies(log.observation[rows])[np.arange(len(rows)), log.action[rows]]
    never = np.argwhere(own[rows] & (taken <= 0))
    if len(never):
        row = int(rows[never[0, 0]])
        raise InputError(
            f"policy: in row {row} {str(log.policy[row])!r} never takes action {int(log.action[row])}; leave the column empty in "
            "episodes that did not follow it."
        )


def _check_ends(
    questions: Sequence[GVF], own: np.ndarray, cut: np.ndarray, weight: Sequence[np.ndarray], first: np.ndarray
) -> None:
    """Refuse undiscounted sums over episodes that did not terminate."""
    names = question_names(expand(questions))
    for j in np.flatnonzero(cut & own.any(axis=1)).tolist():
        for i in np.flatnonzero(own[j] & (weight[j][-1] >= 1)):
            raise InputError(
                f"discount: that of {names[i]!r} is 1, and its episode from row {first[j]} on did not terminate; use less than "
                "1, leave the column 'policy' empty there, or give audit=False."
            )


def _surprises(log: Any, signals: Signals, policies: ActionValues, q: ActionValues) -> tuple[np.ndarray, np.ndarray]:
    """`gvfx.evidence.cross_fitting.surprises` in the log, over actions that a question's policy takes."""
    _, taken, chance = _both(q, policies, log.observation, log.action)
    errors = signals.c + signals.gamma * _both(q, policies, log.next_observation, log.action)[0] - taken
    each = [surprises(errors[chance[:, i] > 0, i, None]) for i in range(errors.shape[1])]
    surprise, common = np.hstack(each)
    return surprise, common
