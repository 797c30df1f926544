"""What an item of the report is: one record with its runs, the function that builds its exhibits, and its section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gvfx.report import statistics
from gvfx.report.colours import STEPS
from gvfx.report.page import Curves, DataTable, Maps, Panel, Pictures, Provenance, Section, Series
from gvfx.reproduce.curves import SEEDS, AnyCurve, Tuned
from gvfx.reproduce.source import Errors, Source
from gvfx.running.result import Result
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP

Exhibit = Curves | Maps | DataTable | Pictures
AVERAGE = "MSE, averaged over GVFs"  # the vertical axis of most figures


@dataclass(frozen=True)
class Item:
    """A table or figure that `gvfx reproduce` makes and `gvfx report` shows.

    needs(tuned) lists its curves.  Those at tuned rates are optional: an item can be built without them.
    """

    name: str
    label: str  # in the paper; "ours" for our own
    title: str
    needs: Callable[[Tuned], Sequence[AnyCurve]]
    build: Callable[[Build], list[Exhibit]]
    section: Section  # of the report, without its contents
    seeds: int = SEEDS
    rank: int = 0  # lower ranks come first in the section; equal ranks keep the order in which items are listed

    def is_complete(self, source: Source) -> bool:
        """Whether everything that building it requires is in the store."""
        return source.has(self.needs({}), self.seeds)


@dataclass(frozen=True)
class Build:
    """An item that is being built from a source; its methods fill in the label and the provenance."""

    source: Source
    item: Item

    @cached_property
    def provenance(self) -> Provenance:
        return self.source.provenance(self.item.name, self.item.needs(self.source.tuned), self.item.seeds)

    def has(self, curves: Iterable[AnyCurve]) -> bool:
        """Whether optional curves are in the store."""
        return self.source.has(curves, self.item.seeds)

    def result(self, curve: AnyCurve) -> Result:
        return self.source.result(curve, self.item.seeds)

    def errors(self, curve: AnyCurve) -> Errors:
        return self.source.errors(curve, self.item.seeds)

    def finished(self, curve: AnyCurve) -> Result:
        """The result of the seeds that did not diverge, for maps and pictures; the provenance lists the others."""
        return self.source.finished(curve, self.item.seeds)

    def series(self, name: str, samples: np.ndarray, hue: str, dashed: bool = False) -> Series:
        """Samples [seed, t] as a line with its bootstrap band; the name says how many runs diverged, if any."""
        middle, low, high = statistics.mean_curve(samples)
        return Series(f"{name}{statistics.count(samples)}", middle, low, high, hue, dashed)

    def curves(
        self,
        key: str,
        title: str,
        x: np.ndarray,
        series: Sequence[Series],
        y_label: str = AVERAGE,
        note: str = "",
        reference: Sequence[tuple[str, float]] = (),
        x_label: str = STEPS,
        x_ticks: Sequence[float] = (),
    ) -> Curves:
        """Curves of which none hides another: of lines that coincide, the later ones are dashed, and the note says so."""
        series, said = uncovered(series)
        note = " ".join(filter(None, (note, said)))
        return Curves(key, title, self.item.label, x, series, y_label, self.provenance, note, reference, x_label, x_ticks)

    def table(
        self,
        key: str,
        title: str,
        columns: list[str],
        rows: list[list[str]],
        note: str = "",
        best: list[tuple[int, int]] | None = None,
    ) -> DataTable:
        """A table of ready-made strings; a cell that says 'diverged' is never the best."""
        best = None if best is None else [(r, c) for r, c in best if rows[r][c] != statistics.DIVERGED]
        return DataTable(key, title, self.item.label, columns, rows, best=best, provenance=self.provenance, note=note)

    def maps(
        self, key: str, title: str, world: MDP, times: Sequence[int], panels: list[Panel], unit: str, log: bool = True
    ) -> Maps:
        """Maps over the layout of a grid world."""
        layout = world.layout
        assert layout is not None
        walls = np.flatnonzero(layout.walls.ravel()).tolist()
        goals = list(layout.goals.values())
        return Maps(
            key, title, self.item.label, layout.height, layout.width, walls, goals, times, panels, log, unit, self.provenance
        )


def uncovered(series: Sequence[Series]) -> tuple[list[Series], str]:
    """The lines, those that lie exactly on an earlier one dashed, and a sentence that names them; empty if none does."""
    out: list[Series] = []
    said = []
    for line in series:
        means = np.asarray(line.mean, dtype=float)
        drawn = [s for s in out if np.array_equal(means, np.asarray(s.mean, dtype=float), equal_nan=True)]
        below = drawn[0] if drawn and np.isfinite(means).any() else None
        if below is not None:
            said.append(f"{line.name} lies exactly on {below.name}")
        out.append(line if below is None else replace(line, dashed=True))
    return out, f"{'; '.join(said)} (dashed)." if said else ""


@one_thread()
def build(item: Item, source: Source) -> list[Exhibit]:
    """The exhibits of an item whose runs are in the store (`item.is_complete`)."""
    return item.build(Build(source, item))
