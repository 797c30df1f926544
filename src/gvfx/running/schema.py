"""The arrays of a run, each named once: measuring, gathering, cutting, storing, restoring and checking them follow from `ARRAYS`.

A run measures some of them for its curves ("t ..."), others for its snapshots ("k ..."), and has others once, at its end.  A
`Record` collects a seed's measurements, a `Part` is what they came to, and a result has those of several seeds, stacked.  What a
world measures beyond these it declares (`declare`); such an array is `extra`: it travels with the others, and a result has it in
`details.extra`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gvfx.errors import StoreError
from gvfx.tensors import CorruptFile, fit, misfit

if TYPE_CHECKING:
    from gvfx.evidence.counts import Empirical
    from gvfx.evidence.decisions import Verdict
    from gvfx.running.predictor import AnswerFunction

EMPTY = np.empty(0)
GROUP = "gvfx.parts"  # entry points of packages that add parts of experiments, and may declare arrays when they are imported
KINDS = {"t": "curve", "k": "table"}  # how the columns of a checkpoint begin


class Array(NamedTuple):
    """One array."""

    name: str  # in a part and in the files of a store
    axes: str  # beginning with t: of every measurement; with k: of every snapshot; else once at the end, "" a single number
    about: str
    kind: str = "float"  # or int, bool
    optional: bool = True  # not of every run
    single: bool = False  # files of a store have it in single precision
    stored: bool = True  # files of a store have it
    unmeasured: float = np.nan  # of every run, but not measured in each: it is filled with this
    missing: float = 0.0  # in states that a seed has not met
    result: str = ""  # its name in a result, if that is another
    extra: bool = False

    @property
    def when(self) -> str:
        """t or k; anything else is once."""
        return self.axes.partition(" ")[0]

    @property
    def measured(self) -> str:
        """Its name in a measurement and in a snapshot."""
        return self.name.removeprefix("snapshot_")

    @property
    def in_result(self) -> str:
        """Its name in a result, or in a snapshot of one."""
        return self.result or self.measured

    @property
    def state_axis(self) -> int | None:
        """The place of the states among its axes, counted from the last, -1."""
        axes = self.axes.split()
        return axes.index("state") - len(axes) if "state" in axes else None

    @property
    def in_store(self) -> str:
        """Its type and axes in the files of a store (`gvfx.tensors.fit`)."""
        return f"{self.dtype} {self.axes}"

    @property
    def in_file(self) -> str:
        """Likewise in the file of a result, of all seeds; empty if it is not kept there.

        Tables may come from a store, in single precision.  What a world has at the end of its runs is in stores alone.
        """
        if self.name == "snapshot_steps" or (self.extra and self.when not in KINDS):
            return ""
        kind = self.kind if self.single else self._replace(single=False).dtype
        return f"{kind} t" if self.name == "steps" else f"{kind} seed {self.axes.removeprefix('k')}"

    @property
    def in_checkpoint(self) -> str:
        """Likewise in a checkpoint."""
        return self._replace(single=False).in_store

    @property
    def dtype(self) -> str:
        """Of its numbers in the files of a store."""
        return self.kind if self.kind == "bool" else f"{self.kind}{32 if self.single else 64}"

    def filled(self, sizes: Mapping[str, int]) -> np.ndarray:
        """The array where it was not measured; axes without a size have 0."""
        shape = [sizes.get(axis, 0) for axis in self.axes.split()]
        return np.full(shape, self.unmeasured) if self.kind == "float" else np.zeros(shape, np.int64)

    def placed(self, found: np.ndarray, at: np.ndarray, states: int) -> np.ndarray:
        """The array with its s-th state in place at[s] of `states`, the others as in states that were not met."""
        assert self.state_axis is not None
        axis = found.ndim + self.state_axis
        out = np.full((*found.shape[:axis], states, *found.shape[axis + 1 :]), self.missing, found.dtype)
        out[(slice(None),) * axis + (at,)] = found
        return out


ARRAYS = {
    array.name: array
    for array in (
        Array("steps", "t", "evaluation times", "int", optional=False),
        Array("episodes", "t", "ended so far", "int", optional=False),
        Array("mse", "t gvf", "mean squared error of every question", optional=False),
        Array("levels", "t gvf", "of drifting cumulants", optional=False, unmeasured=0.0, extra=True),
        Array("expected", "t gvf", "estimated squared error (squared spread), if the truth is not known"),
        Array("snapshot_steps", "k", "times of the snapshots", "int", optional=False),
        Array("values", "k gvf state", "predicted values", optional=False, single=True),
        Array("variances", "k gvf state", "sum_a pi M, if the learner kept M", single=True),
        Array("visits", "k state choice", "how often each action was taken in each state", "int", optional=False, single=True),
        Array("behaviour", "k state action", "the behaviour's probabilities", optional=False, single=True),
        Array("snapshot_levels", "k gvf", "of drifting cumulants", optional=False, unmeasured=0.0, extra=True),
        Array("standard_errors", "k gvf state", "of the values (or their spread)", single=True, missing=np.inf),
        Array("sides", "k gvf state 2", "standard errors towards lower and higher values", single=True, missing=np.inf),
        Array("policies", "k gvf state choice", "target policies, if some were found during the run", single=True),
        Array("untried", "k gvf state", "of a log: nothing that the policy does was tried there", "bool", stored=False),
        Array("truth", "gvf state", "at the end of the run", optional=False, single=True, missing=np.nan),
        Array("seconds", "", "spent in the loop, compilation excluded", optional=False, stored=False, unmeasured=0.0),
        Array("stopped", "", "steps done, with a stopping rule", "int", stored=False),
        Array("bound", "", "the rule's upper bound on the error at the end", stored=False, result="bounds"),
        Array("reached", "", "whether that bound was below the target", "bool", stored=False),
        Array("start", "gvf column", "value at the start, its standard error, and the truth", stored=False, result="starts"),
        Array("differences", "gvf gvf", "standard errors of differences at the start (`gvfx.evidence.decisions`)", stored=False),
        Array("audit", "gvf 6", "what whole episodes say about the start (`Estimate.arrays`)", stored=False, result="audits"),
        Array("audit_differences", "gvf gvf 2", "standard errors of audited differences, and their freedom", stored=False),
        Array("audit_bounds", "gvf level 2", "intervals by known ranges (`gvfx.evidence.betting.LEVELS`)", stored=False),
    )
}
ALWAYS_STORED = "variances"  # files of a store have it of every run: [k, 0] where it was not measured
COLUMNS = {  # of every checkpoint, also if they were not measured; mse_outside is there since 0.1, sides may be missing
    "t": ("steps", "episodes", "mse", "mse_outside", "expected", "levels"),
    "k": tuple(array.measured for array in ARRAYS.values() if array.when == "k" and array.stored and array.name != "sides"),
}
_declared: dict[str, Array] = {}


def declare(name: str, axes: str, about: str = "", single: bool = False) -> None:
    """Add an array of floats that a world measures or has at its end, for its runs and their files."""
    _declared[name] = Array(name, axes, about, single=single, extra=True)


def array(name: str) -> Array:
    """The array of a name in a part; KeyError if there is none."""
    return ARRAYS[name] if name in ARRAYS else declared()[name]


def column(axis: str, name: str) -> Array | None:
    """The array of a name in a measurement, t for curves and k for snapshots; None if that is of the others alone."""
    rows = [row for row in ARRAYS.values() if row.measured == name and row.when in KINDS] or [declared()[name]]
    return next((row for row in rows if row.when == axis), None)


def declared() -> Mapping[str, Array]:
    """The arrays of worlds, also of installed packages that were not imported yet."""
    _import_packages()
    return _declared


@cache
def _import_packages() -> None:
    for point in entry_points(group=GROUP):
        point.load()


class Named:
    """Arrays by name, those of the library as attributes."""

    known: ClassVar[Mapping[str, Array]] = ARRAYS  # the library's, by the names that they have here
    held: dict[str, Any]
    optional: ClassVar[bool] = False  # whether an array that a run does not have is None; else it is empty, or not measured

    def __getattr__(self, name: str) -> Any:
        found = self.known.get(name)
        if found is None or found.extra:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        missing = None if self.optional else EMPTY if found.axes else found.unmeasured
        return self.held.get(name, missing)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name, each in self.known.items() if not each.extra)]

    @property
    def extra(self) -> dict[str, np.ndarray]:
        """The arrays that are not attributes: levels of drifting cumulants, and what the world declares."""
        return {name: found for name, found in self.held.items() if name not in self.known or self.known[name].extra}


class Measurement(Named):
    """One measurement of a seed.  Curves need the error or its estimate, snapshots the tables; what is left out was not measured.

    A state is a state of a table, or a point at which networks are evaluated.
    """

    known = {each.measured: each for each in ARRAYS.values() if each.when in COLUMNS}

    def __init__(self, **held: np.ndarray) -> None:
        self.held = held

    def replaced(self, **changes: np.ndarray) -> Measurement:
        """The measurement with other arrays."""
        return Measurement(**self.held | changes)


class Snapshot(Named):
    """The tables of a run after `step` steps, of all seeds: [seed, ...]; one that the run does not have is None."""

    optional = True
    known = {each.measured: each for each in ARRAYS.values() if each.when == "k" and each.in_file}

    def __init__(self, step: int, **held: np.ndarray) -> None:
        self.step, self.held = step, held


class Part(Named):
    """One seed's part of a result: its arrays, and what is kept beside them."""

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
        self.held = {name: found for name, found in held.items() if not array(name).optional or np.size(found)}
        self.function, self.met, self.model, self.verdicts = function, met, model, verdicts

    def replaced(self, **changes: Any) -> Part:
        """The part with other arrays or fields."""
        beside = {name: getattr(self, name) for name in ("function", "met", "model", "verdicts")}
        return Part(**beside | self.held | changes)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store, tables in single precision."""
        held = {ALWAYS_STORED: np.empty((len(self.snapshot_steps), 0))} | self.held
        stored = {array(name): found for name, found in held.items() if array(name).stored}
        return {row.name: found.astype(row.dtype) if row.single else found for row, found in stored.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], name: str = "result") -> Part:
        """The part that `arrays` gave; raises CorruptFile, which names the file, if they are others or do not fit together."""
        rows = [row for row in ARRAYS.values() if row.stored]
        unknown = sorted({*arrays} - {row.name for row in rows})
        odd = [each for each in unknown if each not in declared()]
        rows += [declared()[each] for each in unknown if each not in odd]
        wanted = {row.name: row.in_store for row in rows}
        if ALWAYS_STORED in arrays and arrays[ALWAYS_STORED].ndim == 2:
            wanted[ALWAYS_STORED] = "float32 k 0"
        fit(arrays, wanted, name, [row.name for row in rows if row.optional and row.name != ALWAYS_STORED])
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

    def reordered(self, at: np.ndarray, states: int) -> Part:
        """The part with its s-th state in place at[s] of `states`; the others have value 0, no visits and infinite errors."""
        rows = [(array(name), found) for name, found in self.held.items() if array(name).state_axis is not None and found.size]
        return self.replaced(**{row.name: row.placed(found, at, states) for row, found in rows})


def empty_part(times: Sequence[int], shown: Sequence[int], gvfs: int) -> Part:
    """A part without tables, for runs of which none has finished: all errors at the times of measurement are NaN."""
    sizes = {"t": len(times), "k": len(shown), "gvf": gvfs}
    rows = [row for row in ARRAYS.values() if row.stored and not row.optional]
    rows += [row for row in declared().values() if row.when == "t"]
    held: dict[str, Any] = {row.name: row._replace(unmeasured=np.nan).filled(sizes) for row in rows}
    return Part(**held | {"steps": np.array(times, np.int64), "snapshot_steps": np.array(shown, np.int64)})


def shortened(parts: Sequence[Part]) -> list[Part]:
    """Parts of which one ended early, cut to the measurements that all of them have, each with its last snapshot."""
    reached = min(len(part.steps) for part in parts)
    return [part.cut(reached) for part in parts]


class Record:
    """A seed's measurements so far."""

    def __init__(self, gvfs: int) -> None:
        self.gvfs = gvfs
        self.rows: dict[str, list[dict[str, Any]]] = {axis: [] for axis in KINDS}  # of each time, its arrays by name

    def measured(self, times: Sequence[int], episodes: int, m: Measurement) -> None:
        """Add a measurement for these times (several if a run ended early)."""
        self._add("t", times, {"episodes": episodes, **m.held})

    def shown(self, times: Sequence[int], m: Measurement) -> None:
        """Add a snapshot for these times."""
        self._add("k", times, m.held)

    @property
    def last_shown(self) -> int:
        """The time of the last snapshot; 0 before the first."""
        return self.rows["k"][-1]["steps"] if self.rows["k"] else 0

    def _add(self, axis: str, times: Sequence[int], held: Mapping[str, Any]) -> None:
        rows = self.rows[axis]
        new = {name: found for name, found in held.items() if np.shape(found) != EMPTY.shape and column(axis, name)}
        for t in times:
            rows.append({"steps": t, **new})
            if axis == "t" and (names := _other_shapes(*rows[-2:])):
                raise StoreError(f"checkpoint: {names[0]} does not fit this run; delete the checkpoint to start again.")

    def _columns(self, axis: str) -> dict[Array, np.ndarray]:
        """The arrays that were measured each time; snapshots with fewer states are filled up to the most."""
        out = {}
        for name in self.rows[axis][0] if self.rows[axis] else ():
            row = column(axis, name)
            if row is None or not all(name in held for held in self.rows[axis]):
                continue
            each = [np.asarray(held[name], np.int64 if row.kind == "int" else None) for held in self.rows[axis]]
            if row.state_axis is not None:
                states = [found.shape[row.state_axis] for found in each]
                each = [row.placed(found, np.arange(n), max(states)) for found, n in zip(each, states, strict=True)]
            out[row] = np.stack(each)
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays for a checkpoint."""
        out: dict[str, np.ndarray] = {}
        for axis, rows in self.rows.items():
            found = {name: np.empty((len(rows), 0)) for name in COLUMNS[axis]}  # what was not measured has no numbers
            found |= {row.measured: stacked for row, stacked in self._columns(axis).items()}
            out |= {f"{KINDS[axis]}.{name}": stacked for name, stacked in found.items() if rows}
        return out

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from arrays that `arrays` returned; raises ValueError if they are of another type or shape."""
        for axis, kind in KINDS.items():
            own = {key.removeprefix(f"{kind}."): found for key, found in arrays.items() if key.startswith(f"{kind}.")}
            measured = {name: found for name, found in own.items() if found.shape[1:] != (0,) or name not in COLUMNS[axis]}
            wanted = dict.fromkeys(COLUMNS[axis] if own else (), f"float64 {axis} 0")
            wanted |= {name: "" if (row := column(axis, name)) is None else row.in_checkpoint for name in measured}
            try:
                sizes = {"gvf": self.gvfs} | fit(own, wanted, "checkpoint")
            except CorruptFile as error:
                raise ValueError(str(error)) from None
            if sizes["gvf"] != self.gvfs:
                raise ValueError("gvf")
            self.rows[axis] = [{name: found[k] for name, found in measured.items()} for k in range(sizes.get(axis, 0))]

    def part(self, truth: np.ndarray | None, seconds: float, **more: Any) -> Part:
        """One seed's part of the result; truth [gvf, state], or None if it is not known."""
        sizes = {axis: len(rows) for axis, rows in self.rows.items()} | {"gvf": self.gvfs}
        rows = [row for row in ARRAYS.values() if row.when in KINDS and not row.optional]
        held: dict[str, Any] = {row.name: row.filled(sizes) for row in rows}
        held |= {row.name: stacked for axis in KINDS for row, stacked in self._columns(axis).items()}
        if truth is not None:
            held.pop("expected", None)
        truth = np.full(held["values"].shape[1:], np.nan) if truth is None else truth
        return Part(**held, truth=truth, seconds=seconds, **more)


def _other_shapes(*rows: Mapping[str, Any]) -> list[str]:
    """The names whose arrays have not the same shape in all rows."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if len({np.shape(row[name]) if name in row else None for row in rows}) > 1]


# --- what is made of measurements ------------------------------------------------------------------------------------


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
