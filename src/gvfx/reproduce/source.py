"""Where the report takes its numbers from: the results in a store, with the seeds and rates to use."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version

from gvfx import __version__
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import stored_result
from gvfx.report.page import Provenance
from gvfx.reproduce.curves import AnyCurve, Tuned, seeds_of
from gvfx.running.result import Result

VERSIONS = f"gvfx {__version__}, numba {version('numba')}, numpy {version('numpy')}, Python {platform.python_version()}"


@dataclass(frozen=True)
class Source:
    """A store, the number of seeds (None: each item's own) and the rates that a sweep chose.

    The methods take an item's own number of seeds, which `seeds` replaces.
    """

    store: Store
    seeds: int | None
    tuned: Tuned

    def has(self, curves: Iterable[AnyCurve], own_seeds: int) -> bool:
        """Whether the store has every seed of every curve."""
        count = self.seeds or own_seeds
        return all(self.store.path(curve.experiment, seed).exists() for curve in curves for seed in seeds_of(curve, count))

    def result(self, curve: AnyCurve, own_seeds: int) -> Result:
        """The stored result of a curve; ask `has` first."""
        return stored_result(self.store, curve.experiment, seeds_of(curve, self.seeds or own_seeds))

    def provenance(self, name: str, curves: Iterable[AnyCurve], own_seeds: int) -> Provenance:
        """How the item of this name was made from these curves."""
        count, curves = self.seeds or own_seeds, list(curves)
        used = sorted({seed for curve in curves for seed in seeds_of(curve, count)}) or range(count)
        return Provenance(
            command=f"gvfx reproduce {name}" + (f" --seeds {self.seeds}" if self.seeds else ""),
            seeds=f"{count} ({used[0]} to {used[-1]})",
            versions=VERSIONS,
            hash=" ".join(dict.fromkeys(c.experiment.hash for c in curves)) or "none",
        )
