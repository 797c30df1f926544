"""Where exhibits come from: stored results, and the making of one item's tables and figures."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from gvfx.experiments.store import Store
from gvfx.experiments.sweep import stored_result
from gvfx.report import statistics
from gvfx.report.page import Curves, DataTable, Maps, Panel, Pictures, Provenance, Series
from gvfx.reproduce.items import AnyCurve, Item, Tuned
from gvfx.running.result import Result
from gvfx.worlds.mdp import MDP

Exhibit = Curves | Maps | DataTable | Pictures


@dataclass(frozen=True)
class Source:
    """Where exhibits take their results from: a store, a number of seeds (None: each item's own), tuned rates."""

    store: Store
    seeds: int | None
    tuned: Tuned

    def result(self, curve: AnyCurve, item: Item) -> Result:
        return stored_result(self.store, curve.experiment, self.seeds or item.seeds)

    def provenance(self, item: Item, curves: Iterable[AnyCurve]) -> Provenance:
        asked = f" --seeds {self.seeds}" if self.seeds else ""
        return Provenance(
            command=f"gvfx reproduce {item.name}{asked}",
            seeds=f"{self.seeds or item.seeds} (0 to {(self.seeds or item.seeds) - 1})",
            versions=VERSIONS,
            hash=" ".join(dict.fromkeys(c.experiment.hash for c in curves)) or "none",
        )


VERSIONS = f"gvfx {version('gvfx')}, numba {version('numba')}, numpy {version('numpy')}, Python {platform.python_version()}"


@dataclass(frozen=True)
class Build:
    """One item in the making."""

    source: Source
    item: Item

    @cached_property
    def provenance(self) -> Provenance:
        return self.source.provenance(self.item, self.item.needs(self.source.tuned))

    def result(self, curve: AnyCurve) -> Result:
        return self.source.result(curve, self.item)

    def series(self, name: str, samples: np.ndarray, hue: str, dashed: bool = False) -> Series:
        middle, low, high = statistics.mean_curve(samples)
        return Series(name, middle, low, high, hue, dashed)

    def curves(
        self, key: str, title: str, steps: np.ndarray, series: Sequence[Series], y_label: str, note: str = "", **more: Any
    ) -> Curves:
        return Curves(key, title, self.item.label, steps, series, y_label, self.provenance, note, **more)

    def table(
        self, key: str, title: str, columns: list[str], rows: list[list[str]], note: str = "", best: list | None = None
    ) -> DataTable:
        return DataTable(key, title, self.item.label, columns, rows, best=best, provenance=self.provenance, note=note)

    def maps(
        self, key: str, title: str, world: MDP, times: Sequence[int], panels: list[Panel], unit: str, log: bool = True
    ) -> Maps:
        layout = world.layout
        assert layout is not None
        walls = np.flatnonzero(layout.walls.ravel()).tolist()
        goals = list(layout.goals.values())
        return Maps(
            key, title, self.item.label, layout.height, layout.width, walls, goals, times, panels, log, unit, self.provenance
        )
