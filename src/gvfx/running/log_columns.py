"""Logs in the forms that people have them: columns, data frames, files, rows, and episodes with one more observation."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.files import opened, read_whole

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
    once(names)
    for k, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"log: line {k + 2} of {path} has {len(row)} entries and the first has {len(names)}; give as many.")
    return {name: _typed(list(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def once(names: Iterable[str]) -> None:
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
        once(str(name) for name in getattr(table, "column_names", getattr(table, "columns", ())))
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
    once(names.get(name, name) for name in table)
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
