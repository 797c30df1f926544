"""Logs in files: CSV, and Parquet with pandas or polars."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.files import opened, read_whole

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
    for k, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"log: line {k + 2} of {path} has {len(row)} entries and the first has {len(names)}; give as many.")
    return {name: _typed(list(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _typed(column: list[str]) -> np.ndarray:
    """A column of text as truth values, whole numbers or numbers if all its entries are; empty ones are NaN or None."""
    text = [entry.strip() for entry in column]
    low = [entry.lower() for entry in text]
    if all(entry in TRUTHS for entry in low):
        return np.array([TRUTHS[entry] for entry in low])
    empty = [entry in NOTHING for entry in low]
    for kind in (int, float):
        try:
            return np.array(
                [np.nan if none else kind(entry) for entry, none in zip(text, empty, strict=True)], float if any(empty) else None
            )
        except (ValueError, OverflowError):
            continue
    return np.array([None if none else entry for entry, none in zip(text, empty, strict=True)], object)


def _parquet(path: Path) -> Any:
    """A Parquet file as a data frame of the first package that is installed."""
    for read in (_with_polars, _with_pyarrow, _with_pandas):
        try:
            return read(path)
        except ImportError:
            continue
        except OSError:
            raise
        except Exception as error:
            raise InputError(f"log: cannot read {path} as Parquet ({str(error).splitlines()[0]:.80}); write it again.") from None
    raise InputError("log: a Parquet file needs a package that reads it; run pip install polars, or pip install pandas pyarrow.")


def _with_polars(path: Path) -> Any:
    import polars

    return polars.read_parquet(path)


def _with_pyarrow(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def _with_pandas(path: Path) -> Any:
    import pandas

    return pandas.read_parquet(path)
