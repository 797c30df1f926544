"""The measurements of a run, and one seed's part of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.errors import StoreError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.decisions import Verdict
from gvfx.questions.gvf import calibrated_weights
from gvfx.running.predictor import AnswerFunction
from gvfx.running.schema import ARRAYS, COLUMNS, EMPTY, HOLLOW, KINDS, Array, Measurement, Named, array, column, declared
from gvfx.tensors import fit, misfit


def expected_error(errors: np.ndarray, gvfs: int) -> np.ndarray:
    """The mean squared standard error per GVF [gvf], over the finite errors [gvf, state]; NaN without any."""
    if not errors.size:
        return np.full(gvfs, np.nan)
    sure = np.isfinite(errors)
    return (np.where(sure, errors, 0.0) ** 2).sum(axis=-1) / np.maximum(sure.sum(axis=-1), 1)


def expected_over(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mean of squared standard errors [gvf, state] per GVF [gvf], over the finite ones; NaN without any."""
    share = np.where(np.isfinite(errors), weights, 0.0)
    total = share.sum(axis=-1)
    mean = (np.where(share > 0, errors, 0.0) ** 2 * share).sum(axis=-1) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, np.nan)


def answered_weights(weights: np.ndarray, answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The weights [gvf] divided by the mean square answers in visited states, where the truth is not known.

    answers: of each seed, values [gvf, state] and visits [state, action].
    """
    values = np.concatenate([values for values, _ in answers], axis=1)
    visited = np.concatenate([visits.sum(axis=1) > 0 for _, visits in answers])
    return weights * calibrated_weights(values, visited / max(1, visited.sum()))


class Part(Named):
    """One seed's part of a result: its arrays (`gvfx.running.schema`), and what is kept beside them."""

    def __init__(
        self,
        *,
        function: AnswerFunction | None = None,
        met: Any = None,
        model: Empirical | None = None,
        verdicts: tuple[Verdict, ...] = (),
        **held: Any,
    ) -> None:
        """function: what answers at vectors at the end: a network, twin critics or linear fits.
        met:      the observations that are its states, if they were numbered as they were met.
        model:    the evidence at the end, if the run kept it.
        verdicts: what a rule that decides between policies found."""
        self.held = {name: found for name, found in held.items() if not array(name).optional or np.ndim(found) == 0 or found.size}
        if HOLLOW in held:
            self.held[HOLLOW] = held[HOLLOW]
        self.function, self.met, self.model, self.verdicts = function, met, model, verdicts

    def replaced(self, **changes: Any) -> Part:
        """The part with other arrays or fields."""
        beside = {name: getattr(self, name) for name in ("function", "met", "model", "verdicts")}
        return Part(**{**beside, **self.held, **changes})

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store, tables in single precision."""
        stored = {name: found for name, found in self.held.items() if array(name).stored}
        return {name: found.astype(array(name).dtype) if array(name).single else found for name, found in stored.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], name: str = "result") -> Part:
        """The part that `arrays` gave; raises CorruptFile, which names the file, if they are others or do not fit together."""
        rows = [row for row in ARRAYS.values() if row.stored]
        unknown = sorted({*arrays} - {row.name for row in rows})
        odd = [each for each in unknown if each not in declared()]
        rows += [declared()[each] for each in unknown if each not in odd]
        hollow = HOLLOW in arrays and arrays[HOLLOW].ndim == 2
        wanted = {row.name: row.in_store for row in rows if row.name != HOLLOW or not hollow}
        sizes = fit(arrays, wanted, name, [row.name for row in rows if row.optional and row.name != HOLLOW])
        if hollow and arrays[HOLLOW].shape != (sizes["k"], 0):
            raise misfit(name, f"{HOLLOW} has shape {arrays[HOLLOW].shape}")
        if odd:
            raise misfit(name, f"{odd[0]} does not belong to a result")
        return cls(**arrays)

    def is_like(self, other: Part) -> bool:
        """Whether all stored arrays have the shapes of another part's."""
        one, two = ({n: a.shape for n, a in part.held.items() if array(n).stored} for part in (self, other))
        return one == two

    def diverged(self) -> Part:
        """A part of the same shape for a seed whose run diverged: every number is NaN, every count 0."""
        lost = {
            name: np.full(found.shape, np.nan if np.issubdtype(found.dtype, np.floating) else 0, found.dtype)
            for name, found in self.held.items()
            if isinstance(found, np.ndarray) and name not in ("steps", "snapshot_steps")
        }
        return self.replaced(**lost, function=None, met=None, model=None)

    def cut(self, measurements: int) -> Part:
        """Only the first measurements and the last snapshot."""
        ends = {"t": slice(measurements), "k": slice(-1, None)}
        return self.replaced(**{n: a[ends[array(n).when]] for n, a in self.held.items() if array(n).when in ends})


def reordered(part: Part, at: np.ndarray, states: int) -> Part:
    """The part with its s-th state in place at[s] of `states`; the others have value 0, no visits and infinite errors."""

    def moved(found: np.ndarray, row: Array, axis: int) -> np.ndarray:
        out = np.full((*found.shape[:axis], states, *found.shape[axis + 1 :]), row.missing, found.dtype)
        out[(slice(None),) * axis + (at,)] = found
        return out

    rows = [(name, found, array(name), array(name).state_axis) for name, found in part.held.items()]
    return part.replaced(**{n: moved(found, row, axis) for n, found, row, axis in rows if axis is not None and found.size})


def equal_states(row: Array, tables: list[Any]) -> list[Any]:
    """Tables of several snapshots, those with fewer states filled up to the most; none if one of them has none."""
    if row.state_axis is None or len({np.shape(table) for table in tables}) < 2:
        return tables
    if not all(table.size for table in tables):
        return [EMPTY] * len(tables)
    axis = row.state_axis - 1
    most = max(table.shape[axis] for table in tables)
    widths = [[(0, most - table.shape[axis] if k == axis else 0) for k in range(table.ndim)] for table in tables]
    return [np.pad(table, width, constant_values=row.missing) for table, width in zip(tables, widths, strict=True)]


def no_part(times: Sequence[int], shown: Sequence[int], gvfs: int) -> Part:
    """A part without tables, for runs of which none has finished: all errors at the times of measurement are NaN."""
    sizes = {"t": len(times), "k": len(shown), "gvf": gvfs}
    rows = [row for row in ARRAYS.values() if (row.stored and not row.optional) or row.name == HOLLOW]
    rows += [row for row in declared().values() if row.when == "t"]
    held: dict[str, Any] = {row.name: row._replace(unmeasured=np.nan).nothing(sizes) for row in rows}
    return Part(**{**held, "steps": np.array(times, np.int64), "snapshot_steps": np.array(shown, np.int64)})


def shortened(parts: Sequence[Part]) -> list[Part]:
    """Parts of which one ended early, cut to the measurements that all of them have, each with its last snapshot."""
    reached = min(len(part.steps) for part in parts)
    return [part.cut(reached) for part in parts]


class Record:
    """A seed's measurements so far."""

    def __init__(self, gvfs: int) -> None:
        self.gvfs = gvfs
        self.columns: dict[str, dict[str, list[Any]]] = {axis: {name: [] for name in names} for axis, names in COLUMNS.items()}

    def measured(self, times: Sequence[int], episodes: int, m: Measurement) -> None:
        """Add a measurement for these times (several if a run ended early)."""
        self._add("t", times, m, episodes=episodes)

    def shown(self, times: Sequence[int], m: Measurement) -> None:
        """Add a snapshot for these times."""
        self._add("k", times, m)

    def _add(self, axis: str, times: Sequence[int], m: Measurement, **own: int) -> None:
        columns = self.columns[axis]
        for name in {*m.held} - {*columns} - {*COLUMNS["t"], *COLUMNS["k"]}:
            if array(name).when == axis:
                columns[name] = [EMPTY] * len(columns["steps"])
        for t in times:
            for name, rows in columns.items():
                new = {"steps": t, **own}.get(name, m.held.get(name, EMPTY))
                if axis == "t" and rows and np.shape(rows[-1]) != np.shape(new):
                    raise StoreError(f"checkpoint: {name} does not fit this run; delete the checkpoint to start again.")
                rows.append(new)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays for a checkpoint, without empty columns."""
        return {
            f"{KINDS[axis]}.{name}": np.array(equal_states(column(axis, name), rows) if axis == "k" else rows)
            for axis, columns in self.columns.items()
            for name, rows in columns.items()
            if rows
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from arrays that `arrays` returned; raises ValueError if they are of another type or shape."""
        sizes = {"gvf": self.gvfs}
        taken: dict[str, dict[str, np.ndarray]] = {axis: {} for axis in COLUMNS}
        for key, found in arrays.items():
            kind, name = key.split(".", 1)
            axis = {kind: axis for axis, kind in KINDS.items()}[kind]
            axes, dtype = [axis], "float64"  # of a column that was not measured
            if found.shape[1:] != (0,) or name not in COLUMNS[axis]:
                row = column(axis, name)
                axes, dtype = row.axes.split(), row._replace(single=False).dtype
            if found.dtype != dtype or found.shape[len(axes) :] not in ((), (0,)) or len(found.shape) < len(axes):
                raise ValueError(key)
            if any(sizes.setdefault(a, n) != n for a, n in zip(axes, found.shape)):
                raise ValueError(key)
            taken[axis][name] = found
        for axis, names in COLUMNS.items():
            if taken[axis] and not {*names} <= {*taken[axis]}:
                raise ValueError("columns")
            self.columns[axis] = {name: list(taken[axis].get(name, ())) for name in dict.fromkeys((*names, *taken[axis]))}

    def part(self, truth: np.ndarray | None, seconds: float, **more: Any) -> Part:
        """One seed's part of the result; truth [gvf, state], or None if it is not known."""
        sizes = {axis: len(columns["steps"]) for axis, columns in self.columns.items()} | {"gvf": self.gvfs}
        held: dict[str, Any] = {}
        for axis, columns in self.columns.items():
            for name, rows in columns.items():
                if not any(np.size(row) for row in rows) and name not in ARRAYS:
                    continue
                row = column(axis, name)
                found = np.array(equal_states(row, rows) if axis == "k" else rows, np.int64 if row.kind == "int" else None)
                hollow = found.shape[1:] in ((), (0,)) and row.axes != axis
                held[row.name] = row.nothing(sizes) if hollow and not row.optional else found
        if truth is not None:
            del held["expected"]
        truth = np.full(held["values"].shape[1:], np.nan) if truth is None else truth
        return Part(**held, truth=truth, seconds=seconds, **more)
