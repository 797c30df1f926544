"""What an item of the report is: its runs in a store, the function that builds its exhibits, and its section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import GvfxError
from gvfx.experiments.store import VERSIONS as VERSIONS
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import finished_seeds, stored_error, stored_result
from gvfx.report.page import UNKNOWN, Curves, DataTable, Provenance, Section, Series
from gvfx.running.result import Result
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP
from gvfx_paper.items.curves import SEEDS, TUNING_STEPS, AnyCurve, Tuned, seeds_of
from gvfx_paper.report import statistics
from gvfx_paper.report.maps import Maps, Panel, Pictures
from gvfx_paper.report.style import colour

# --- where numbers come from: the results in a store, with the seeds and rates to use --------------------------------


class AllDiverged(GvfxError):
    """A map or a picture of a method all of whose runs diverged."""


class Errors(NamedTuple):
    """The errors of a curve."""

    steps: np.ndarray  # [t]
    mse: np.ndarray  # [seed, t, gvf], NaN for seeds that diverged
    error: np.ndarray  # [seed, t] their weighted mean


@dataclass(frozen=True)
class Source:
    """A store, the number of seeds (None: each item's own) and the rates that a sweep chose."""

    store: Store
    seeds: int | None
    tuned: Tuned
    own: int = SEEDS  # the item's own number of seeds, which `seeds` replaces
    _errors: dict[tuple[AnyCurve, range], Errors] = field(default_factory=dict, repr=False, compare=False)

    def of(self, item: Item) -> Source:
        """The same store for an item's number of seeds."""
        return replace(self, own=item.seeds)

    def seeds_of(self, curve: AnyCurve) -> range:
        return seeds_of(curve, self.seeds, self.own)

    def has(self, curves: Iterable[AnyCurve]) -> bool:
        """Whether every seed of every curve is finished: a result is stored, or that it diverged."""
        return not any(self.store.unfinished(c.experiment, self.seeds_of(c)) for c in curves)

    def result(self, curve: AnyCurve) -> Result:
        """The stored result of a curve, NaN for seeds that diverged (`report.statistics` counts them); ask `has` first."""
        return stored_result(self.store, curve.experiment, self.seeds_of(curve))

    def errors(self, curve: AnyCurve) -> Errors:
        """Only the errors of a curve's stored result, which are fast to read."""
        seeds = self.seeds_of(curve)
        if (curve, seeds) not in self._errors:
            self._errors[curve, seeds] = Errors(*stored_error(self.store, curve.experiment, seeds))
        return self._errors[curve, seeds]

    def finished(self, curve: AnyCurve) -> Result:
        """The stored result of the seeds that did not diverge, for maps and pictures; the provenance lists the others."""
        good = finished_seeds(self.store, curve.experiment, self.seeds_of(curve))
        if not good:
            raise AllDiverged(f"{curve.method} on {curve.setting}: all of its runs diverged, so there is nothing to show.")
        return stored_result(self.store, curve.experiment, good)

    def diverged(self, curves: Iterable[AnyCurve]) -> str:
        """The seeds that diverged, by curve, in words; empty if none did."""
        sentences = []
        for curve in dict.fromkeys(curves):
            seeds = self.seeds_of(curve)
            lost = sorted({*seeds} - {*finished_seeds(self.store, curve.experiment, seeds)})
            if lost:
                preset = getattr(curve, "preset", "paper")
                whose = f"{curve.method} on {curve.setting}" + (f", {preset}" if preset != "paper" else "")
                sentences.append(f"{len(lost)} of {len(seeds)} of {whose} (seed {', '.join(map(str, lost))})")
        return "; ".join(sentences)

    def provenance(self, name: str, curves: Iterable[AnyCurve]) -> Provenance:
        """How the item of this name was made from these curves."""
        count, curves = self.seeds or self.own, list(curves)
        used = sorted({seed for curve in curves for seed in self.seeds_of(curve)}) or range(count)
        lost = self.diverged(c for c in curves if self.has([c]))
        return Provenance(
            command=f"gvfx reproduce {name}" + (f" --seeds {self.seeds}" if self.seeds else ""),
            seeds=f"{count} ({used[0]} to {used[-1]})" + (f"; diverged: {lost}" if lost else ""),
            versions=VERSIONS,
            hash=" ".join(dict.fromkeys(c.experiment.hash for c in curves)) or "none",
        )


# --- the sections of the report, in their order ------------------------------------------------------------------------


def _section(name: str, title: str, text: str) -> Section:
    return Section(f"section-{name}", title, text)


BANDS = f"{statistics.MEANS}. Click a method to hide it; hover or use the arrow keys for values."
PROTOCOL = f"One protocol for every method: the minimum learning rate with the lowest error after {TUNING_STEPS:,} steps."
REPLAYS = "Q and M are networks with one head per GVF, learned from uniform replay and from prioritised replay (PER)."
TWINS = "Twin Q and M critics and a learned behaviour (Algorithm 2), measured against Monte Carlo values at 50 points."
RATIOS = "MSE times steps, divided by that of the best possible behaviour, for each behaviour and learner; 1 is the limit."
PRINTED_AND_OURS = "Error at the end of each setting: as the paper prints it, and ours in both presets."
WINNERS = _section("summary-tables", "Who wins", PRINTED_AND_OURS)
CURVES = _section("curves", "Learning curves", BANDS)
MAPS = _section("maps", "Where the error lies, and where the behaviours go", "Move the slider to see how learning proceeds.")
EACH = _section("each", "Each question on its own", "The two GVFs of a setting, shown separately.")
TUNING = _section("tuning", "Learning rates", PROTOCOL)
NETWORKS = _section("continuous", "Networks on the continuous grid", REPLAYS)
MUJOCO = _section("control", "Continuous actions: Walker and Cheetah", TWINS)
LIMIT = _section("limit", "How close to the limit", RATIOS)
ABLATIONS = _section("ablations", "Ablations", "What happens when one thing is changed.")
SECTIONS = (WINNERS, CURVES, MAPS, EACH, TUNING, NETWORKS, MUJOCO, LIMIT, ABLATIONS)


# --- items -------------------------------------------------------------------------------------------------------------

Exhibit = Curves | Maps | DataTable | Pictures
Builder = Callable[["Build"], list[Exhibit]]
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
    build: Builder
    section: Section  # of the report, without its contents
    seeds: int = SEEDS
    rank: int = 0  # lower ranks come first in the section; equal ranks keep the order in which items are listed

    def is_complete(self, source: Source) -> bool:
        """Whether everything that building it requires is in the store."""
        return source.of(self).has(self.needs({}))


class Items(list[Item]):
    """The items of a module in the order of their builders, and the group by whose name `gvfx reproduce` makes them."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def add(
        self,
        name: str,
        label: str,
        title: str,
        section: Section,
        needs: Sequence[AnyCurve] | Callable[[Tuned], Sequence[AnyCurve]] = (),
        seeds: int = SEEDS,
        rank: int = 0,
    ) -> Callable[[Builder], Builder]:
        """Makes the function below it the builder of an item; needs: its curves, or a function of the tuned rates."""

        def added(build: Builder) -> Builder:
            curves = needs if callable(needs) else lambda tuned: needs
            self.append(Item(name, label, title, curves, build, section, seeds, rank))
            return build

        return added


@dataclass(frozen=True)
class Build:
    """An item that is being built, from a source for its number of seeds; its methods fill in the label and the provenance."""

    source: Source
    item: Item

    @cached_property
    def provenance(self) -> Provenance:
        return self.source.provenance(self.item.name, self.item.needs(self.source.tuned))

    @cached_property
    def caption(self) -> str:
        """What a figure shows of the runs: its preset, seeds and bands."""
        curves = self.item.needs(self.source.tuned)
        if not curves:
            return ""
        presets = ", ".join(dict.fromkeys(c.preset for c in curves if hasattr(c, "preset")))
        preset = f"Preset {presets}. " if presets else ""
        return f"{preset}Seeds: {self.provenance.seeds}; mean, band: 95 % interval over seeds."

    def series(self, name: str, samples: np.ndarray, hue: str, dashed: bool = False) -> Series:
        """Samples [seed, t] as a line with its band; the name says how many runs diverged, if any."""
        middle, low, high = statistics.mean_curve(samples)
        return Series(f"{name}{statistics.count(samples)}", middle, low, high, hue, dashed)

    def lines(self, results: Mapping[str, Any], of: Callable[[Any], np.ndarray] = lambda r: r.error) -> list[Series]:
        """The error of each result over time (or other samples of it [seed, t]), in the colour of its method, by which its name
        begins; a second line of a method is dashed."""
        hues = [colour(name.partition(", ")[0], k) for k, name in enumerate(results)]
        return [self.series(name, of(r), hues[k], hues[k] in hues[:k]) for k, (name, r) in enumerate(results.items())]

    def curves(
        self, key: str, title: str, x: np.ndarray, series: Sequence[Series], y_label: str = AVERAGE, note: str = "", **axes: Any
    ) -> Curves:
        """Curves of which none hides another: of lines that coincide, the later ones are dashed, and the note says so."""
        series, sentences = uncovered(series)
        note = " ".join(filter(None, (note, sentences, self.caption)))
        return Curves(key, title, self.item.label, x, series, y_label, self.provenance, note, **axes)

    def table(
        self,
        key: str,
        title: str,
        columns: list[str],
        rows: list[list[str]],
        note: str = "",
        best: Sequence[tuple[int, int]] | None = None,
    ) -> DataTable:
        """A table of ready-made strings; a cell that says 'diverged' is never the best."""
        best = [(r, c) for r, c in best or () if rows[r][c] != statistics.DIVERGED] or None
        return DataTable(key, title, self.item.label, columns, rows, best=best, provenance=self.provenance, note=note)

    def maps(
        self, key: str, title: str, world: MDP, times: Sequence[int], panels: list[Panel], unit: str, log: bool = True
    ) -> Maps:
        """Maps over the layout of a grid world."""
        drawn, note = grid_maps(key, title, world, times, panels, unit, log), self.caption.replace(", band: 95 % interval", "")
        return replace(drawn, label=self.item.label, provenance=self.provenance, note=note)


def grid_maps(
    key: str, title: str, world: MDP, times: Sequence[int], panels: Sequence[Panel], unit: str, log: bool = True
) -> Maps:
    """Maps over the layout of a grid world, of no item."""
    layout = world.layout
    assert layout is not None
    walls, goals = np.flatnonzero(layout.walls.ravel()).tolist(), list(layout.goals.values())
    return Maps(key, title, "", layout.height, layout.width, walls, goals, times, panels, log, unit, UNKNOWN)


def on_grid(world: MDP, per_state: np.ndarray) -> np.ndarray:
    """The states [state, ...] that are cells of the grid, without the terminal state."""
    assert world.layout is not None
    return per_state[: world.layout.height * world.layout.width]


def arrows(world: MDP, mu: np.ndarray) -> np.ndarray:
    """The mean move of a behaviour [state, action] in each cell, (right, down)."""
    assert world.layout is not None
    return (on_grid(world, mu) @ np.array(world.layout.arrows, dtype=float))[:, ::-1]


def visited(world: MDP, visits: np.ndarray) -> np.ndarray:
    """The share of the steps in each cell, in percent, of visits [seed, state, action]."""
    counts = visits.sum(axis=2).mean(axis=0)
    return on_grid(world, 100 * counts / counts.sum())


def uncovered(series: Sequence[Series]) -> tuple[list[Series], str]:
    """The lines, those that lie exactly on an earlier one dashed, and a sentence that names them; empty if none does."""
    out: list[Series] = []
    sentences = []
    for line in series:
        means = np.asarray(line.mean, dtype=float)
        below = next((s for s in out if np.array_equal(means, np.asarray(s.mean, dtype=float), equal_nan=True)), None)
        if below is not None and np.isfinite(means).any():
            sentences.append(f"{line.name} lies exactly on {below.name}")
            line = replace(line, dashed=True)
        out.append(line)
    return out, f"{'; '.join(sentences)} (dashed)." if sentences else ""


@one_thread()
def build(item: Item, source: Source) -> list[Exhibit]:
    """The exhibits of an item whose runs are in the store (`item.is_complete`)."""
    return item.build(Build(source.of(item), item))
