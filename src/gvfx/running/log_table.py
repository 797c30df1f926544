"""A log of transitions as checked columns, from the forms that people have, and what questions read in them.

Forms are columns, data frames, files, rows, and episodes with one more observation.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.files import opened, read_whole
from gvfx.inputs import shown
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.policies import CallablePolicy, ConstantPolicy, MixturePolicy, Policy, TablePolicy
from gvfx.questions.reader import Reader
from gvfx.questions.signals import SignalFailed
from gvfx.types import Columns, Row

# --- Logs in files: CSV, and Parquet with pandas or polars ----------------------------------------------------------


PARQUET_READERS = {"polars": "read_parquet", "pyarrow.parquet": "read_table", "pandas": "read_parquet"}
CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
TRUTHS = {"true": True, "false": False}
NOTHING = ("", "nan", "none", "null", "<na>", "na", "n/a")  # empty entries, in lower case


def read_table(path: str | Path) -> Any:
    """The columns of a CSV file, or a data frame from a Parquet file."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in CSV + PARQUET:
        raise InputError(f"log: {str(path)!r:.80} is neither a CSV nor a Parquet file; give one that ends in .csv or .parquet.")
    try:
        if kind in CSV:
            return _csv(path)
        with opened(path):
            return _parquet(path)
    except OSError as error:
        raise InputError(f"log: cannot read {path} ({error.strerror or error}); give a file that can be read.") from None


def _csv(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file with a line of names; separated by commas, semicolons or tabs."""
    try:
        text = read_whole(path).decode("utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"log: {path} is not a CSV file ({error}); save it as text in UTF-8.") from None
    lines = [line for line in lines if line]
    if len(lines) < 2:
        raise InputError(f"log: {path} is empty; give a line of names and a line per transition.")
    names, rows = [name.strip() for name in lines[0]], lines[1:]
    check_distinct(names)
    for k, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"log: line {k + 2} of {path} has {len(row)} entries and the first has {len(names)}; give as many.")
    return {name: _typed(list(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def check_distinct(names: Iterable[str]) -> None:
    """Raise InputError if two columns have one name."""
    for name, times in Counter(names).items():
        if name and times > 1:
            raise InputError(f"log: has {times} columns {name!r:.60}; keep one, or give each its own name.")


def _typed(column: list[str]) -> np.ndarray:
    """A column of text as truth values, whole numbers or numbers if all its entries are; empty ones are NaN or None."""
    text = [None if entry.strip().lower() in NOTHING else entry.strip() for entry in column]
    if all(entry is not None and entry.lower() in TRUTHS for entry in text):
        return np.array([TRUTHS[str(entry).lower()] for entry in text])
    for kind in (int, float):
        try:
            return np.array([np.nan if entry is None else kind(entry) for entry in text], float if None in text else None)
        except (ValueError, OverflowError):
            continue
    return np.array(text, object)


def _parquet(path: Path) -> Any:
    """A Parquet file as a data frame of the first package that is installed."""
    for package, reader in PARQUET_READERS.items():
        try:
            return getattr(import_module(package), reader)(path)
        except ImportError:
            continue
        except OSError:
            raise
        except Exception as error:
            raise InputError(f"log: cannot read {path} as Parquet ({str(error).splitlines()[0]:.80}); write it again.") from None
    raise InputError("log: a Parquet file needs a package that reads it; run pip install polars, or pip install pandas pyarrow.")


RENAMED = {  # the names of Minari and of other collections of episodes
    "observations": "observation",
    "actions": "action",
    "rewards": "reward",
    "terminations": "terminated",
    "terminals": "terminated",
    "truncations": "truncated",
    "timeouts": "truncated",
    "next_observations": "next_observation",
}
PROBABILITIES = {"behavior_prob": "behaviour_prob", "propensity": "behaviour_prob"}  # other names of one more column
NEEDED = ("observation", "action", "next_observation", "terminated")  # the columns that every log has
INFOS = "infos"  # of an episode: further columns, with one more entry if the reset's come first
POLICY = "policy"  # which policy an episode followed: a column, or one entry of an episode
NOBODY = ("", "nan", "none", "<na>")  # entries of that column that name none, in lower case
FORMS = "give a mapping of columns, a data frame, a CSV or Parquet file, or a list of rows or episodes"


def as_columns(table: Any) -> Mapping[str, Any]:
    """A mapping of columns from a mapping, a data frame, a file, rows (mappings), or episodes; rows and episodes in any iterable.

    A data frame is one of pandas, polars or pyarrow.  An episode is a mapping, or an object with fields, that has observations,
    actions, rewards and terminations; its observations may be one more than its actions, the last one being what followed the
    last action.  A dataset of Minari is an iterable of episodes that also knows its numbers of states and actions.  Columns
    `observation_0`, `observation_1`, ... are the numbers of an observation.
    """
    if isinstance(table, str | Path):
        table = read_table(table)
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # a frame of polars that is not computed yet
        table = table.collect()
    if (frame := _frame(table)) is not None:
        check_distinct(str(name) for name in getattr(table, "column_names", getattr(table, "columns", ())))
        return _transitions({name: _column(column, name) for name, column in frame})
    if isinstance(table, Mapping):
        return _transitions(table)
    if hasattr(table, "observations"):  # a single episode
        return _transitions(_fields(table))
    if not isinstance(table, Iterable) or isinstance(table, bytes | np.ndarray):
        raise InputError(f"log: {type(table).__name__} is not a log; {FORMS}.")
    return _sizes(table) | _of_parts(list(table))


def _of_parts(parts: list[Any]) -> dict[str, Any]:
    """Columns from rows or episodes."""
    if not parts:
        raise InputError(f"log: is empty; {FORMS}.")
    for k, part in enumerate(parts):
        if not (isinstance(part, Mapping) or hasattr(part, "observations")):
            raise InputError(f"log: entry {k} is {type(part).__name__}, neither a row nor an episode; {FORMS}.")
    if isinstance(parts[0], Mapping) and np.ndim(parts[0].get("action", parts[0].get("actions", ()))) == 0:
        if any(POLICY in row for row in parts):
            parts = [{POLICY: None} | dict(row) for row in parts]
        names = _same_names(parts, "row")
        return dict(_transitions({name: _stacked([row[name] for row in parts], name) for name in names}))
    episodes = [_transitions(_fields(part)) for part in parts]
    if any(POLICY in episode for episode in episodes):
        episodes = [{**each, POLICY: _repeated(each.get(POLICY), len(each.get("action", ())))} for each in episodes]
    out = {}
    for name in _same_names(episodes, "episode"):
        try:
            out[name] = np.concatenate([np.asarray(episode[name]) for episode in episodes])
        except ValueError:
            raise InputError(
                f"{name}: its entries differ in shape between episodes; give the same number of values in each."
            ) from None
    return out


def _sizes(dataset: Any) -> dict[str, int]:
    """The numbers of states and actions of a dataset that knows its spaces."""
    spaces = {"states": "observation_space", "actions": "action_space"}
    found: dict[str, Any] = {name: getattr(dataset, space, None) for name, space in spaces.items()}
    return {name: int(space.start + space.n) for name, space in found.items() if type(space).__name__ == "Discrete"}


def _frame(table: Any) -> Iterator[tuple[str, Any]] | None:
    """The names and columns of a data frame of pandas, polars or pyarrow; None for anything else."""
    items = table.items() if hasattr(table, "columns") and hasattr(table, "items") else None  # pandas
    if hasattr(table, "get_columns"):  # polars
        items = ((column.name, column) for column in table.get_columns())
    elif hasattr(table, "column_names") and hasattr(table, "to_pydict"):  # pyarrow
        items = table.to_pydict().items()
    return None if items is None else ((str(name), column) for name, column in items)


def _column(column: Any, name: str) -> np.ndarray:
    """A column of a data frame as an array, [n] or [n, o]."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else _stacked(list(column), name)
    if values.dtype != object:
        return np.asarray(values)
    entries = list(values)
    if all(entry is None or isinstance(entry, str | bytes | bool | np.bool_) for entry in entries):
        return values
    return _stacked(entries, name)


def policy_names(column: Any, size: int) -> np.ndarray | None:
    """The policy that each of `size` transitions says it followed, str [n], empty for none; None if none says so."""
    if column is None:
        return None
    if np.ndim(column) != 1 or len(column) != size:
        raise InputError(f"{POLICY}: give one name, or None, for each of {size} transitions.")
    texts = [str(entry.decode() if isinstance(entry, bytes) else entry).strip() for entry in list(column)]
    names = np.array(["" if text.lower() in NOBODY else text for text in texts])
    return names if (names != "").any() else None


def _repeated(policy: Any, steps: int) -> np.ndarray:
    """The entry of an episode for all of its steps, unless it has one for each."""
    return np.full(steps, policy, object) if np.ndim(policy) == 0 else np.asarray(policy, object)


def _same_names(parts: Sequence[Mapping[str, Any]], what: str) -> list[str]:
    """The names of the columns, which all parts must have."""
    for k, part in enumerate(parts):
        for name in parts[0]:
            if name not in part:
                raise InputError(f"log: {what} {k} has no {name!r}, which {what} 0 has; give all of them the same columns.")
    return list(parts[0])


def _fields(episode: Any) -> Mapping[str, Any]:
    """An episode's columns."""
    if isinstance(episode, Mapping):
        return episode
    return {name: found for name in (*RENAMED, INFOS, POLICY) if (found := getattr(episode, name, None)) is not None}


def _transitions(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns with one entry per transition, under their names here."""
    for name in table:
        if not isinstance(name, str):
            raise InputError(f"log: the name of column {name!r:.40} is not text; name the columns {', '.join(NEEDED)}.")
    if any(name in table for name in PROBABILITIES):
        table = _renamed(table, PROBABILITIES)
    table = _numbered(table)
    if not any(name in table for name in RENAMED) or "observation" in table:
        return table
    out = _renamed({name: column for name, column in table.items() if column is not None}, RENAMED)
    for name in ("observation", "next_observation"):
        if isinstance(out.get(name), Mapping):
            raise InputError(f"{name}: is a mapping; join its parts into one array with a row per step.")
    steps, seen = len(out.get("action", ())), np.asarray(out.get("observation", ()))
    if "next_observation" not in out and len(seen) == steps + 1:
        out |= {"observation": seen[:-1], "next_observation": seen[1:]}
    infos = out.pop(INFOS, None)
    if isinstance(infos, Mapping):
        own = {PROBABILITIES.get(name) or name: column for name, column in infos.items()}
        columns = {name: column for name, column in own.items() if not isinstance(column, Mapping) and np.ndim(column) > 0}
        out |= {n: np.asarray(c)[-steps:] for n, c in columns.items() if steps > 0 and len(c) in (steps, steps + 1)}
    if "next_observation" not in out and "observation" in out:
        raise InputError(
            f"observations: there are {len(seen)} for {steps} actions; give next_observations, or one more than actions."
        )
    return out


def _renamed(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Columns under other names, of which no two may be the same."""
    check_distinct(names.get(name, name) for name in table)
    return {names.get(name, name): column for name, column in table.items()}


def _numbered(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns, with observation_0, observation_1, ... joined into one."""
    out = dict(table)
    for name in ("observation", "next_observation"):
        own = sorted((int(key.rsplit("_", 1)[1]), key) for key in table if re.fullmatch(rf"{name}_\d+", key))
        if own and name not in table:
            out[name] = np.stack([np.asarray(out.pop(key), float) for _, key in own], axis=1)
    return out if len(out) != len(table) else table


def _stacked(column: list[Any], name: str) -> np.ndarray:
    try:
        return np.stack([np.asarray(entry) for entry in column])
    except ValueError:
        raise InputError(f"{name}: its entries have different shapes; give the same number of values in each row.") from None


# --- A log of checked columns ----------------------------------------------------------------------------------------


class Signals(NamedTuple):
    """What questions read in a log."""

    c: np.ndarray  # [n, gvf] cumulants
    gamma: np.ndarray  # [n, gvf] discounts; 0 on termination
    begins: np.ndarray  # bool [n]: whether an episode begins with the row

    @property
    def episode(self) -> np.ndarray:
        """The number of each row's episode, int [n]."""
        return np.cumsum(self.begins) - 1


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


LogLike = Log | Columns | Iterable[object] | str | Path  # what is accepted as a log (`as_columns`)
Checked = Any  # a Log all of whose columns are arrays


def as_log(table: LogLike, questions: Sequence[GVF] = ()) -> Checked:
    """A Log from any of the forms of a log, with every column checked; `questions` may know of actions that were never taken."""
    given = _named(table)
    size = _size(given)
    if not isinstance(given.info, Mapping | type(None)):
        raise InputError(f"info: {shown(given.info)} is not a mapping; give the columns of further signals by name.")
    names = (*NEEDED, "reward", "behaviour_prob")
    columns: dict[str, Any] = {n: None if (c := getattr(given, n)) is None else _of_length(c, n, size) for n in names}
    columns["info"] = {name: _of_length(column, name, size) for name, column in (given.info or {}).items()}
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


def _of_length(column: Any, name: str, size: int) -> np.ndarray:
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
