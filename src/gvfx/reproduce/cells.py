"""The value errors of RoundRobin and GVFExplorer compared cell by cell, over a whole map and over parts of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gvfx.report.page import DataTable
from gvfx.reproduce.base import Build
from gvfx.reproduce.measures import OURS

SHOWN = ("RoundRobin", OURS)  # the methods of the maps
ERRORS = {"mean over GVFs": slice(None), "GVF 1 (left goal)": slice(0, 1), "GVF 2 (right goal)": slice(1, 2)}  # GVFs of each
COLUMNS = [f"{OURS} is lower in", *(f"{what} cell, {m}" for what in ("median", "mean") for m in SHOWN)]
Errors = Mapping[str, np.ndarray]  # absolute errors by method, [seed, gvf, cell]


def by_part(b: Build, key: str, title: str, errors: Errors, parts: Mapping[str, np.ndarray], note: str) -> DataTable:
    """Who has the lower error in which parts of a map, and how much of the error lies there; parts[name] is bool [cell]."""
    rows = []
    for which, gvfs in ERRORS.items():
        means, squares = ([(errors[m][:, gvfs] ** power).mean(axis=(0, 1)) for m in SHOWN] for power in (1, 2))
        for part, cells in parts.items():
            shares = [f"{100 * e[cells].sum() / e.sum():.0f} %" for e in (*means, *squares)]
            rows.append([which, part, f"{cells.sum()}", *_beside(means, cells), *shares])
    columns = ["absolute error", "where", "cells", *COLUMNS]
    columns += [f"share of the {what}, {m}" for what in ("absolute error", "squared error") for m in SHOWN]
    return b.table(key, title, columns, rows, f"Means over seeds, as in the maps. {note}")


def over_time(b: Build, key: str, title: str, errors: Mapping[int, Errors]) -> DataTable:
    """Who has the lower error in how many cells of a map, at the steps of its snapshots."""
    rows = []
    for step, found in errors.items():
        means = [found[m].mean(axis=(0, 1)) for m in SHOWN]
        rows.append([f"{step:,}", *_beside(means, np.ones(means[0].shape, dtype=bool))])
    return b.table(key, title, ["steps", *COLUMNS], rows, "Means over seeds and GVFs, as in the maps.")


def _beside(means: list[np.ndarray], cells: np.ndarray) -> list[str]:
    """In how many of some cells GVFExplorer's error is lower, and the median and mean cell of both methods."""
    robin, ours = (e[cells] for e in means)
    numbers = (np.median(robin), np.median(ours), robin.mean(), ours.mean())
    return [f"{100 * (ours < robin).mean():.0f} %", *(f"{v:.3g}" for v in numbers)]
