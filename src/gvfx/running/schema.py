"""The arrays of a run, each named once: measuring, gathering, cutting, storing, restoring and checking them follow from `ARRAYS`.

A run measures some of them for its curves ("t ..."), others for its snapshots ("k ..."), and has others once, at its end.  A
`Part` holds those of one seed, a result those of several seeds, stacked.  What a world measures beyond these it declares
(`declare`); such an array is `extra`: it travels with the others, and a result has it in `details.extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, NamedTuple

import numpy as np

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
        """The place of the states among its axes."""
        axes = self.axes.split()
        return axes.index("state") if "state" in axes else None

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
    def dtype(self) -> str:
        """Of its numbers in the files of a store."""
        return self.kind if self.kind == "bool" else f"{self.kind}{32 if self.single else 64}"

    def nothing(self, sizes: Mapping[str, int]) -> np.ndarray:
        """The array where it was not measured; axes without a size have 0."""
        shape = [sizes.get(axis, 0) for axis in self.axes.split()]
        return np.full(shape, self.unmeasured) if self.kind == "float" else np.zeros(shape, np.int64)


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
        Array("audit", "gvf 6", "what audits say about the start (`AuditedValues`)", stored=False, result="audits"),
        Array("audit_differences", "gvf gvf 2", "standard errors of audited differences, and their freedom", stored=False),
        Array("audit_bounds", "gvf level 2", "intervals by known ranges (`gvfx.evidence.audits.LEVELS`)", stored=False),
    )
}
HOLLOW = "variances"  # files of a store have it of every run; where it was not measured, it is [k, 0]
COLUMNS = {  # of every checkpoint, also if they were not measured; mse_outside is there since 0.1, sides may be missing
    "t": ("steps", "episodes", "mse", "mse_outside", "expected", "levels"),
    "k": tuple(array.measured for array in ARRAYS.values() if array.when == "k" and array.stored and array.name != "sides"),
}
_BY_COLUMN = {(array.when, array.measured): array for array in ARRAYS.values()}
_declared: dict[str, Array] = {}


def declare(name: str, axes: str, about: str = "", single: bool = False) -> None:
    """Add an array of floats that a world measures or has at its end, for its runs and their files."""
    _declared[name] = Array(name, axes, about, single=single, extra=True)


def array(name: str) -> Array:
    """The array of a name in a part; KeyError if there is none."""
    return ARRAYS[name] if name in ARRAYS else declared()[name]


def column(axis: str, name: str) -> Array:
    """The array of a name in a measurement, t for curves and k for snapshots; KeyError if there is none."""
    found = _BY_COLUMN.get((axis, name)) or declared()[name]
    if found.when != axis:
        raise KeyError(name)
    return found


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

    def __getattr__(self, name: str) -> Any:
        found = self.known.get(name)
        if found is None or found.extra:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return self.held.get(name, self._without(found))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name, each in self.known.items() if not each.extra)]

    def _without(self, missing: Array) -> Any:
        """What stands for an array that a run does not have."""
        return EMPTY if missing.axes else missing.unmeasured

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
        return Measurement(**{**self.held, **changes})

    def of_states(self, states: int) -> Measurement:
        """Of the first states alone."""
        first = dict(self.held)
        for name, found in self.held.items():
            axis = self.known[name].state_axis if name in self.known else None
            if axis is not None and found.size:
                first[name] = found[(slice(None),) * (axis - 1) + (slice(states),)]
        return Measurement(**first)


class Snapshot(Named):
    """The tables of a run after `step` steps, of all seeds: [seed, ...]; one that the run does not have is None."""

    known = {each.measured: each for each in ARRAYS.values() if each.when == "k" and each.in_file}

    def __init__(self, step: int, **held: np.ndarray) -> None:
        self.step, self.held = step, held

    def _without(self, missing: Array) -> None:
        return None
