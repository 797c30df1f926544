"""The measurements of a run, and one seed's part of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import StoreError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.decisions import Verdict
from gvfx.questions.gvf import calibrated_weights
from gvfx.tensors import fit, misfit

EMPTY = np.empty(0)


class Measurement(NamedTuple):
    """One measurement of a seed.  Curves need the error or its estimate, snapshots the tables; EMPTY if not measured.

    A state is a state of a table, or a point at which networks are evaluated.
    """

    mse: np.ndarray = EMPTY  # [gvf] where the truth is known
    mse_outside: np.ndarray = EMPTY  # [gvf] continuous grid: without the goals' discs
    expected: np.ndarray = EMPTY  # [gvf] estimated squared error where the truth is not known
    levels: np.ndarray = EMPTY  # [gvf] drifting cumulants
    values: np.ndarray = EMPTY  # [gvf, state]
    variances: np.ndarray = EMPTY  # [gvf, state]
    visits: np.ndarray = EMPTY  # [state, action]
    behaviour: np.ndarray = EMPTY  # [state, action]
    standard_errors: np.ndarray = EMPTY  # [gvf, state]
    policies: np.ndarray = EMPTY  # [gvf, state, action] if some were found during the run


CURVES = ("mse", "mse_outside", "expected", "levels")
TABLES = ("values", "variances", "visits", "behaviour", "levels", "standard_errors", "policies")


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


@dataclass(frozen=True, eq=False)
class Part:
    """One seed's part of a result, as plain arrays."""

    steps: np.ndarray  # [t] evaluation times
    mse: np.ndarray  # [t, gvf]
    levels: np.ndarray  # [t, gvf]
    episodes: np.ndarray  # [t]
    snapshot_steps: np.ndarray  # [k]
    values: np.ndarray  # [k, gvf, state]
    variances: np.ndarray  # [k, gvf, state], or empty if the learner keeps none
    visits: np.ndarray  # [k, state, action]
    behaviour: np.ndarray  # [k, state, action]
    snapshot_levels: np.ndarray  # [k, gvf]
    truth: np.ndarray  # [gvf, state] at the end
    mse_outside: np.ndarray = field(default_factory=lambda: EMPTY)  # [t, gvf] continuous grid: without the goals' discs
    standard_errors: np.ndarray = field(default_factory=lambda: EMPTY)  # [k, gvf, state] if the learner has them
    policies: np.ndarray = field(default_factory=lambda: EMPTY)  # [k, gvf, state, action] if some were found during the run
    expected: np.ndarray = field(default_factory=lambda: EMPTY)  # [t, gvf] estimated squared error, truth unknown
    actor: np.ndarray = field(default_factory=lambda: EMPTY)  # [weight] continuous actions: the actor at the end
    critics: np.ndarray = field(default_factory=lambda: EMPTY)  # [weight] likewise: M's twins, if it chooses by them
    seconds: float = 0.0
    network: Any = None  # networks in an environment: the Q network at the end (`gvfx.running.predictor`)
    model: Empirical | None = None  # the evidence at the end, if the run kept it
    start: np.ndarray = field(default_factory=lambda: EMPTY)  # [gvf, 3 or 5] see `values_at_start` (not stored)
    differences: np.ndarray = field(default_factory=lambda: EMPTY)  # [gvf, gvf] standard errors of differences (not stored)
    audit: np.ndarray = field(default_factory=lambda: EMPTY)  # [gvf, 6] as `gvfx.evidence.audits.Audit` (not stored)
    audit_differences: np.ndarray = field(default_factory=lambda: EMPTY)  # [gvf, gvf, 2] error and freedom (not stored)
    audit_bounds: np.ndarray = field(default_factory=lambda: EMPTY)  # [gvf, level, 2] of known ranges (not stored)
    stopped: int = 0  # steps done, with a stopping rule; 0 without
    bound: float = np.inf  # the rule's upper bound on the error at the end
    reached: bool = False  # whether it was below the target
    verdicts: tuple[Verdict, ...] = ()  # what a rule that decides between policies found

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store, tables in single precision."""
        small = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
        tables = ("values", "variances", "visits", "behaviour", "truth", "standard_errors", "policies")
        kept = {f.name: array for f in fields(self) if isinstance(array := getattr(self, f.name), np.ndarray)}
        for name in (
            "mse_outside",
            "standard_errors",
            "policies",
            "expected",
            "actor",
            "critics",
            "start",
            "differences",
            "audit",
            "audit_differences",
            "audit_bounds",
        ):
            if name in ("start", "differences") or name.startswith("audit") or not kept[name].size:
                del kept[name]
        return {name: array.astype(small[array.dtype]) if name in tables else array for name, array in kept.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], name: str = "result") -> Part:
        """The part that `arrays` gave; raises CorruptFile, which names the file, if they are others or do not fit together."""
        wanted = {k: v for k, v in STORED.items() if k != "variances" or "variances" not in arrays or arrays[k].ndim != 2}
        sizes = fit(arrays, wanted, name, OPTIONAL)
        if "variances" not in wanted and arrays["variances"].shape != (sizes["k"], 0):
            raise misfit(name, f"variances has shape {arrays['variances'].shape}")
        if odd := sorted({*arrays} - {*STORED}):
            raise misfit(name, f"{odd[0]} does not belong to a result")
        return cls(**arrays)

    def is_like(self, other: Part) -> bool:
        """Whether all arrays have the shapes of another part's."""
        return all(getattr(self, name).shape == getattr(other, name).shape for name in STORED)

    def diverged(self) -> Part:
        """A part of the same shape for a seed whose run diverged: every number is NaN, every count 0."""
        kept = {f.name: array for f in fields(self) if isinstance(array := getattr(self, f.name), np.ndarray)}
        none: dict[str, Any] = {
            name: np.full(array.shape, np.nan if np.issubdtype(array.dtype, np.floating) else 0, array.dtype)
            for name, array in kept.items()
            if name not in ("steps", "snapshot_steps")
        }
        return replace(self, **none, network=None, model=None)

    def cut(self, measurements: int) -> Part:
        """Only the first measurements and the last snapshot."""
        curves = ("steps", "mse", "levels", "episodes", "expected", "mse_outside")
        tables = (
            "snapshot_steps",
            "values",
            "variances",
            "visits",
            "behaviour",
            "snapshot_levels",
            "standard_errors",
            "policies",
        )
        first = {name: getattr(self, name)[:measurements] for name in curves}
        return replace(self, **first, **{name: getattr(self, name)[-1:] for name in tables})


STORED = {  # of each stored array the type and the axes (`gvfx.tensors.fit`)
    "steps": "int64 t",
    "mse": "float64 t gvf",
    "levels": "float64 t gvf",
    "episodes": "int64 t",
    "snapshot_steps": "int64 k",
    "values": "float32 k gvf state",
    "variances": "float32 k gvf state",  # or [k, 0]
    "visits": "int32 k state choice",
    "behaviour": "float32 k state action",
    "snapshot_levels": "float64 k gvf",
    "truth": "float32 gvf state",
    "mse_outside": "float64 t gvf",
    "standard_errors": "float32 k gvf state",
    "policies": "float32 k gvf state choice",
    "expected": "float64 t gvf",
    "actor": "float32 weight",
    "critics": "float32 twin",
}
OPTIONAL = ("mse_outside", "standard_errors", "policies", "expected", "actor", "critics")

STATE_AXIS = {"values": 2, "variances": 2, "visits": 1, "behaviour": 1, "standard_errors": 2, "policies": 2}  # of a part's tables


def reordered(part: Part, at: np.ndarray, states: int) -> Part:
    """The part with its s-th state in place at[s] of `states`; the others have value 0, no visits and infinite errors."""

    def moved(array: np.ndarray, axis: int, nothing: float) -> np.ndarray:
        out = np.full((*array.shape[:axis], states, *array.shape[axis + 1 :]), nothing, array.dtype)
        out[(slice(None),) * axis + (at,)] = array
        return out

    arrays = {name: getattr(part, name) for name in STATE_AXIS}
    new: dict[str, Any] = {
        name: moved(array, STATE_AXIS[name], np.inf if name == "standard_errors" else 0)
        for name, array in arrays.items()
        if array.size
    }
    return replace(part, **new, truth=moved(part.truth, 1, np.nan))


def evened(name: str, rows: list[Any]) -> list[Any]:
    """Tables of several snapshots, those with fewer states filled up to the most; none if one of them has none."""
    axis = STATE_AXIS.get(name, 0) - 1
    if axis < 0 or len({np.shape(row) for row in rows}) < 2:
        return rows
    if not all(row.size for row in rows):
        return [EMPTY] * len(rows)
    most = max(row.shape[axis] for row in rows)
    nothing = np.inf if name == "standard_errors" else 0
    widths = [[(0, most - row.shape[axis] if k == axis else 0) for k in range(row.ndim)] for row in rows]
    return [np.pad(row, width, constant_values=nothing) for row, width in zip(rows, widths, strict=True)]


def no_part(times: Sequence[int], shown: Sequence[int], gvfs: int) -> Part:
    """A part without tables, for runs of which none has finished: all errors at the times of measurement are NaN."""
    curve, table = np.full((len(times), gvfs), np.nan), np.full((len(shown), gvfs, 0), np.nan)
    return Part(
        steps=np.array(times, np.int64),
        mse=curve,
        levels=curve,
        episodes=np.zeros(len(times), np.int64),
        snapshot_steps=np.array(shown, np.int64),
        values=table,
        variances=table,
        visits=np.zeros((len(shown), 0, 0), np.int64),
        behaviour=np.zeros((len(shown), 0, 0)),
        snapshot_levels=np.full((len(shown), gvfs), np.nan),
        truth=table[0],
        mse_outside=curve,
    )


def alike(parts: Sequence[Part]) -> list[Part]:
    """Parts of which one ended early, cut to the measurements that all of them have, each with its last snapshot."""
    reached = min(len(part.steps) for part in parts)
    return [part.cut(reached) for part in parts]


INTEGERS = (".steps", ".episodes", ".visits")  # the other arrays of a checkpoint are numbers with fractions
AXES: dict[str, tuple[str, ...]] = {f"curve.{name}": ("t", "gvf") for name in CURVES} | {
    f"curve.{name}": ("t",) for name in ("steps", "episodes")
}
AXES |= {f"table.{name}": tuple(STORED[name].split()[1:]) for name in TABLES if name != "levels"}
AXES |= {"table.levels": ("k", "gvf"), "table.steps": ("k",)}
TABLED = {name for name in AXES if name.startswith("table.")}


class Record:
    """A seed's measurements so far."""

    def __init__(self, gvfs: int) -> None:
        self.gvfs = gvfs
        self.columns: dict[str, list[Any]] = {name: [] for name in ("steps", "episodes", *CURVES)}
        self.tables: dict[str, list[Any]] = {name: [] for name in ("steps", *TABLES)}

    def measured(self, times: Sequence[int], episodes: int, m: Measurement) -> None:
        """Add a measurement for these times (several if a run ended early)."""
        for t in times:
            self.columns["steps"].append(t)
            self.columns["episodes"].append(episodes)
            for name in CURVES:
                if self.columns[name] and np.shape(self.columns[name][-1]) != np.shape(getattr(m, name)):
                    raise StoreError(f"checkpoint: {name} does not fit this run; delete the checkpoint to start again.")
                self.columns[name].append(getattr(m, name))

    def shown(self, times: Sequence[int], m: Measurement) -> None:
        """Add a snapshot for these times."""
        for t in times:
            self.tables["steps"].append(t)
            for name in TABLES:
                self.tables[name].append(getattr(m, name))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays for a checkpoint, without empty columns."""
        both = {"curve": self.columns, "table": self.tables}
        return {
            f"{kind}.{name}": np.array(evened(name, rows) if kind == "table" else rows)
            for kind, part in both.items()
            for name, rows in part.items()
            if rows
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from arrays that `arrays` returned; raises ValueError if they are of another type or shape."""
        sizes = {"gvf": self.gvfs}
        for name, array in arrays.items():
            axes = AXES[name][: 1 if array.shape[1:] == (0,) else None]  # a column that was not measured is empty
            if array.dtype != ("int64" if name.endswith(INTEGERS) else "float64") or len(array.shape) < len(axes):
                raise ValueError(name)
            if array.shape[len(axes) :] not in ((), (0,)) or any(sizes.setdefault(a, n) != n for a, n in zip(axes, array.shape)):
                raise ValueError(name)
        if any({*arrays} & group not in (set(), group) for group in ({*AXES} - TABLED, TABLED)):
            raise ValueError("columns")
        for kind, part in (("curve", self.columns), ("table", self.tables)):
            for name in part:
                part[name] = list(arrays.get(f"{kind}.{name}", ()))

    def part(self, truth: np.ndarray | None, seconds: float, **more: Any) -> Part:
        """One seed's part of the result; truth [gvf, state], or None if it is not known."""
        c, shape = self.columns, (len(self.columns["steps"]), self.gvfs)
        tables: dict[str, Any] = {name: np.array(evened(name, rows)) for name, rows in self.tables.items()}
        nothing, levels = np.zeros(shape), tables.pop("levels")

        def curve(name: str, default: np.ndarray) -> np.ndarray:
            rows = np.array(c[name])
            return rows.reshape(shape) if rows.size else default

        return Part(
            steps=np.array(c["steps"], dtype=np.int64),
            mse=curve("mse", np.full(shape, np.nan)),
            levels=curve("levels", nothing),
            episodes=np.array(c["episodes"], dtype=np.int64),
            snapshot_steps=tables.pop("steps").astype(np.int64),
            snapshot_levels=levels if levels.size else np.zeros((len(levels), self.gvfs)),
            truth=np.full(tables["values"].shape[1:], np.nan) if truth is None else truth,
            mse_outside=curve("mse_outside", EMPTY),
            expected=curve("expected", EMPTY) if truth is None else EMPTY,
            seconds=seconds,
            **tables,
            **more,
        )
