"""A log of transitions as checked columns, and what questions read in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.audits import Episodes, cross_fitted, rollout_score, surprises
from gvfx.inputs import shown
from gvfx.questions.gvf import GVF, comparable, expand, question_names
from gvfx.questions.policies import CallablePolicy, ConstantPolicy, MixturePolicy, OwnPolicy, Policy, TablePolicy
from gvfx.questions.reader import Reader
from gvfx.questions.signals import SignalFailed
from gvfx.running.log_columns import NEEDED, as_columns, policy_names
from gvfx.types import Columns, Row

# --- Audits of a log whose column `policy` says which episodes followed which target policy -------------------------
# Episodes are divided into folds, and the answers are fitted once for each fold, without its episodes.  The episodes of a
# question's policy are scored against the answers of their fold (`gvfx.evidence.audits`); all others show where episodes
# begin.


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
    """What the episodes that followed target policies say about the start, [gvf, 6] as `gvfx.evidence.audits.AuditedValues`.

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
    return audit.columns


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
    """`gvfx.evidence.audits.surprises` in the log, over actions that a question's policy takes."""
    _, taken, chance = _both(q, policies, log.observation, log.action)
    errors = signals.c + signals.gamma * _both(q, policies, log.next_observation, log.action)[0] - taken
    each = [surprises(errors[chance[:, i] > 0, i, None]) for i in range(errors.shape[1])]
    surprise, common = np.hstack(each)
    return surprise, common


Column = Row  # one entry per transition
LARGEST = 5_000_000  # states times actions of a table


class Log(NamedTuple):
    """Transitions as columns, one entry per transition.

    Actions are whole numbers from 0, or rows of numbers.  So are states and observations.
    """

    observation: Column
    action: Column
    next_observation: Column
    terminated: Column
    reward: Column | None = None
    behaviour_prob: Column | None = None  # the probability with which the action was taken
    info: Mapping[str, Column] | None = None  # further columns, for Info("column")
    states: int | None = None  # number of states, if the log may not contain all of them
    actions: int | None = None  # likewise; by default what is logged and what the questions' policies know of
    policy: Sequence[str | None] | Column | None = None  # the name of the policy or question that was followed; empty: none


LogLike = Log | Columns | Iterable[object] | str | Path  # what is accepted as a log (`gvfx.running.log_columns`)
Checked = Any  # a Log all of whose columns are arrays


def as_log(table: LogLike, questions: Sequence[GVF] = ()) -> Checked:
    """A Log from any of the forms of a log, with every column checked; `questions` may know of actions that were never taken."""
    given = _named(table)
    size = _size(given)
    if not isinstance(given.info, Mapping | type(None)):
        raise InputError(f"info: {shown(given.info)} is not a mapping; give the columns of further signals by name.")
    names = (*NEEDED, "reward", "behaviour_prob")
    columns: dict[str, Any] = {n: None if (c := getattr(given, n)) is None else _sized(c, n, size) for n in names}
    columns["info"] = {name: _sized(column, name, size) for name, column in (given.info or {}).items()}
    box = columns["observation"].dtype.kind == "f" or columns["observation"].ndim > 1
    moves = columns["action"].ndim > 1 or (columns["action"].dtype.kind == "f" and (columns["action"] % 1 != 0).any())
    for name in names:
        numbers = (box and name.endswith("observation")) or (moves and name == "action")
        check = _numbers if numbers else CHECKS[name]
        columns[name] = None if columns[name] is None else check(columns[name], name)
    if "truncated" in columns["info"]:
        columns["info"]["truncated"] = _truths(columns["info"]["truncated"], "truncated")
    prob = columns["behaviour_prob"]
    if prob is not None and not ((prob > 0) & (prob <= 1)).all():
        raise InputError("behaviour_prob: has a number outside (0, 1]; give the probability of each action that was taken.")
    columns["policy"] = policy_names(given.policy, size)
    if moves:
        return Log(**columns)
    known = [_actions_of(q.policy, columns["observation"][:1]) for q in expand(questions)]
    columns["actions"] = _count(given.actions, "actions") or max([1 + int(columns["action"].max()), *known])
    if columns["action"].max() >= columns["actions"]:
        raise InputError(
            f"actions: the log has action {columns['action'].max()} and {columns['actions']} actions were given; count from 0, "
            "and give at least one more than the largest."
        )
    if not box:
        columns["states"] = _states(given, columns)
    return Log(**columns)


def _named(table: LogLike) -> Log:
    """The columns under their names."""
    if isinstance(table, Log):
        return table
    found = as_columns(table)
    known = {name: found[name] for name in Log._fields if name in found}
    missing = [name for name in NEEDED if name not in known]
    if missing:
        raise InputError(f"log: has no column {missing[0]!r}; its columns must include {', '.join(NEEDED)}.")
    further = {str(name): column for name, column in found.items() if name not in Log._fields}
    info: Any = known.get("info")
    if info is not None and not isinstance(info, Mapping):
        raise InputError("info: is not a mapping of columns; give each entry of info its own column.")
    return Log(**{**known, "info": {**further, **(info or {})}})


def _size(log: Log) -> int:
    """The number of transitions."""
    for name in NEEDED:
        column = getattr(log, name)
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise InputError(f"{name}: {column!r:.40} is not a column; give one entry per transition.")
    if not len(log.observation):
        raise InputError("log: is empty; give at least one transition.")
    return len(log.observation)


def _sized(column: Any, name: str, size: int) -> np.ndarray:
    """The column as an array with an entry per transition."""
    try:
        array = np.asarray(column)
    except ValueError:
        raise InputError(f"{name}: its entries have different shapes; give the same number of values in each row.") from None
    if array.ndim == 0:
        raise InputError(f"{name}: {column!r:.40} is not a column; give one entry per transition.")
    if len(array) != size:
        raise InputError(f"{name}: has {len(array)} entries and observation has {size}; give one for each transition.")
    return array


def _not_numbers(column: np.ndarray, name: str, wanted: str) -> InputError:
    example = column.flat[0] if column.dtype == object else column.flat[0].item()
    return InputError(f"{name}: holds {example!r:.40} ({type(example).__name__}), not numbers; give {wanted}.")


def _finite(column: np.ndarray, name: str) -> np.ndarray:
    """Finite numbers, one per transition; a reward may have several."""
    if column.ndim > (2 if name == "reward" else 1):
        raise InputError(f"{name}: has shape {list(column.shape)}; give one number per transition.")
    if column.dtype.kind not in "fiub":
        raise _not_numbers(column, name, "one number per transition")
    bad = np.flatnonzero(~np.isfinite(column.astype(float)).reshape(len(column), -1).all(axis=1))
    if len(bad):
        raise InputError(f"{name}: is {column[bad[0]]} in row {bad[0]}; give finite numbers, or leave such rows out.")
    return column.astype(float)


def _numbers(column: np.ndarray, name: str) -> np.ndarray:
    """Continuous observations as rows of finite numbers, [n, o]."""
    if column.dtype.kind not in "fiub":
        raise _not_numbers(column, name, "one row of numbers per transition")
    column = column.reshape(len(column), -1).astype(np.int64 if column.dtype.kind in "iub" else float)
    bad = np.flatnonzero(~(np.abs(column) < np.finfo(np.float32).max).all(axis=1))
    if len(bad):
        raise InputError(f"{name}: holds nan, infinity or a number beyond single precision in row {bad[0]}; give finite numbers.")
    return column


def _whole(column: np.ndarray, name: str) -> np.ndarray:
    """One whole number of at least 0 per transition, int64 [n]."""
    wanted = "one whole number of at least 0 per transition"
    if column.ndim != 1:
        raise InputError(f"{name}: has shape {list(column.shape)}; give {wanted}.")
    if column.dtype.kind not in "fiub":
        more = ", or columns observation_0, observation_1, ... for its numbers" if name != "action" else ""
        raise _not_numbers(column, name, wanted + more)
    bad = np.flatnonzero((column < 0) | (column != column // 1) if column.dtype.kind == "f" else column.astype(np.int64) < 0)
    if len(bad):
        raise InputError(f"{name}: is {column[bad[0]]} in row {bad[0]}; give {wanted}.")
    return column.astype(np.int64)


def _truths(column: np.ndarray, name: str) -> np.ndarray:
    """Truth values, or 0 and 1, bool [n]; text is refused, because any of it would count as true."""
    if column.ndim == 1 and column.dtype == object:
        kept = [isinstance(entry, bool | np.bool_ | int | float | np.number) for entry in column]
        column = np.array([float(entry) for entry in column]) if all(kept) else column
    numbers = column.ndim == 1 and column.dtype.kind in "fiub"
    bad = np.flatnonzero((column != 0) & (column != 1)) if numbers else np.zeros(1, int)
    if len(bad):
        found = column[bad[0]].tolist() if hasattr(column[bad[0]], "tolist") else column[bad[0]]
        raise InputError(f"{name}: {found!r:.40} in row {bad[0]} is not True, False, 0 or 1; give one of them.")
    return column.astype(bool)


CHECKS = {"terminated": _truths, "reward": _finite, "behaviour_prob": _finite}
CHECKS |= dict.fromkeys(("observation", "action", "next_observation"), _whole)


def _count(number: Any, name: str) -> int:
    """A number of states or actions that was given, or 0."""
    if number is None:
        return 0
    if np.ndim(number) or isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise InputError(f"{name}: {number!r:.40} is not a number of {name}; give a whole number of at least 1.")
    return int(number)


def _states(given: Log, columns: dict[str, Any]) -> int:
    seen = 1 + int(max(columns["observation"].max(), columns["next_observation"].max()))
    states = _count(given.states, "states") or seen
    if seen > states:
        raise InputError(f"states: the log has state {seen - 1} and {states} states were given; give at least {seen}.")
    if states * columns["actions"] > LARGEST:
        raise InputError(
            f"observation: {states:,} states and {columns['actions']} actions are too many for a table; number the states that "
            "are there from 0, or give observations as rows of numbers."
        )
    return states


def _actions_of(policy: Policy, observations: np.ndarray) -> int:
    """The number of actions that a policy has probabilities for; 0 if it does not say."""
    if isinstance(policy, ConstantPolicy):
        return len(policy.probabilities)
    if isinstance(policy, TablePolicy):
        return len(policy.rows[0])
    if isinstance(policy, MixturePolicy):
        return max(_actions_of(part, observations) for part in policy.parts)
    if isinstance(policy, CallablePolicy):
        one = observations if policy.batched else observations[0] if observations.ndim > 1 else int(observations[0])
        try:
            shape = np.shape(policy.function(one))
        except Exception:  # reported where the policy is evaluated
            return 0
        return shape[-1] if shape else 0
    return 0


def begins(log: Checked) -> np.ndarray:
    """Whether an episode begins with a row, bool [n]: unless it continues from the row before it, which did not end one."""
    out = np.ones(len(log.action), bool)
    out[1:] = ended(log)[:-1] | apart(log)
    return out


def ended(log: Checked) -> np.ndarray:
    """Whether an episode ended with a row, bool [n], by termination or truncation."""
    return np.asarray(log.terminated | log.info["truncated"] if "truncated" in log.info else log.terminated)


def apart(log: Checked) -> np.ndarray:
    """Whether a row does not continue from the row before it, bool [n - 1]."""
    other = log.observation[1:] != log.next_observation[:-1]
    return np.asarray(other if other.ndim == 1 else other.any(axis=1))


def components(log: Checked) -> tuple[str, ...] | None:
    """The numbers of the reward's components; None if it is a single number, or missing."""
    many = 0 if log.reward is None or np.ndim(log.reward) < 2 else np.shape(log.reward)[1]
    return tuple(map(str, range(many))) or None


def signals(log: Checked, reader: Reader, here: Sequence[Any], actions: Sequence[Any], after: Sequence[Any]) -> Signals:
    """The cumulants and discounts of every row; here, actions, after [n]: as the environment has them."""
    c, gamma = reader.begin(len(log.action))
    reward = np.full(len(c), np.nan) if log.reward is None else log.reward
    info = log.info or {}
    for t, (s, a, r, s_next) in enumerate(zip(here, actions, reward.tolist(), after, strict=True)):
        try:
            reader.read(s, a, r, s_next, {name: column[t] for name, column in info.items()}, c[t], gamma[t])
        except SignalFailed as error:
            missing = " (the log has no column 'reward')" if log.reward is None and "nan" in str(error) else ""
            raise SignalFailed(f"{str(error).rstrip('.')}, in row {t} of the log{missing}.") from error
    return Signals(c, gamma * ~log.terminated[:, None], begins(log))
