"""Logs in the forms that people have them: columns, data frames, lists of rows, and episodes with one more observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gvfx.errors import InputError

RENAMED = {  # the names of Minari and of other collections of episodes
    "observations": "observation",
    "actions": "action",
    "rewards": "reward",
    "terminations": "terminated",
    "truncations": "truncated",
    "next_observations": "next_observation",
}


def as_columns(table: Any) -> Mapping[str, Any]:
    """A mapping of columns from a mapping, a data frame, a list of rows (mappings), or a list of episodes.

    An episode is a mapping, or an object with fields, that has observations, actions, rewards and terminations; its
    observations may be one more than its actions, the last one being what followed the last action.
    """
    if isinstance(table, list | tuple) and table:
        if isinstance(table[0], Mapping) and np.ndim(table[0].get("action", table[0].get("actions", ()))) == 0:
            return {name: _stacked([row[name] for row in table], name) for name in table[0]}
        episodes = [_transitions(_fields(episode)) for episode in table]
        return {name: np.concatenate([np.asarray(e[name]) for e in episodes]) for name in episodes[0]}
    if hasattr(table, "columns") and hasattr(table, "items"):  # a data frame
        return {str(name): _stacked(list(column), str(name)) for name, column in table.items()}
    if not isinstance(table, Mapping) and hasattr(table, "observations"):
        table = _fields(table)
    if not isinstance(table, Mapping):
        raise InputError(f"log: {type(table).__name__} is not a log; give a mapping of columns, a data frame or a list of rows.")
    return _transitions(table)


def _fields(episode: Any) -> Mapping[str, Any]:
    """An episode's columns."""
    if isinstance(episode, Mapping):
        return episode
    return {name: getattr(episode, name) for name in RENAMED if getattr(episode, name, None) is not None}


def _transitions(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns with one entry per transition, under their names here."""
    if not any(name in table for name in RENAMED) or "observation" in table:
        return table
    out = {RENAMED.get(name, name): column for name, column in table.items() if column is not None}
    seen = np.asarray(out.get("observation", ()))
    if "next_observation" not in out and len(seen) == len(out.get("action", ())) + 1:
        out |= {"observation": seen[:-1], "next_observation": seen[1:]}
    return out


def _stacked(column: list[Any], name: str) -> np.ndarray:
    try:
        return np.stack([np.asarray(entry) for entry in column])
    except ValueError:
        raise InputError(f"{name}: its entries have different shapes; give the same number of values in each row.") from None
