"""Where the report takes its numbers from: the results in a store, with the seeds and rates to use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gvfx.errors import GvfxError
from gvfx.experiments.divergence import VERSIONS as VERSIONS
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import finished_seeds, stored_error, stored_result
from gvfx.report.page import Provenance
from gvfx.reproduce.curves import AnyCurve, Tuned, seeds_of
from gvfx.running.result import Result


class AllDiverged(GvfxError):
    """A map or a picture of a method all of whose runs diverged."""


class Errors(NamedTuple):
    """The errors of a curve."""

    steps: np.ndarray  # [t]
    mse: np.ndarray  # [seed, t, gvf], NaN for seeds that diverged
    error: np.ndarray  # [seed, t] their weighted mean


@dataclass(frozen=True)
class Source:
    """A store, the number of seeds (None: each item's own) and the rates that a sweep chose.

    The methods take an item's own number of seeds, which `seeds` replaces.
    """

    store: Store
    seeds: int | None
    tuned: Tuned
    _errors: dict[tuple[AnyCurve, range], Errors] = field(default_factory=dict, init=False, repr=False, compare=False)

    def has(self, curves: Iterable[AnyCurve], own_seeds: int) -> bool:
        """Whether every seed of every curve is finished: a result is stored, or that it diverged."""
        return not any(self.store.unfinished(c.experiment, seeds_of(c, self.seeds, own_seeds)) for c in curves)

    def result(self, curve: AnyCurve, own_seeds: int) -> Result:
        """The stored result of a curve, NaN for seeds that diverged (`gvfx.report.statistics` counts them); ask `has` first."""
        return stored_result(self.store, curve.experiment, seeds_of(curve, self.seeds, own_seeds))

    def errors(self, curve: AnyCurve, own_seeds: int) -> Errors:
        """Only the errors of a curve's stored result, which are fast to read."""
        seeds = seeds_of(curve, self.seeds, own_seeds)
        if (curve, seeds) not in self._errors:
            self._errors[curve, seeds] = Errors(*stored_error(self.store, curve.experiment, seeds))
        return self._errors[curve, seeds]

    def finished(self, curve: AnyCurve, own_seeds: int) -> Result:
        """The stored result of the seeds that did not diverge, for maps and pictures."""
        good = finished_seeds(self.store, curve.experiment, seeds_of(curve, self.seeds, own_seeds))
        if not good:
            raise AllDiverged(f"{curve.method} on {curve.setting}: all of its runs diverged, so there is nothing to show.")
        return stored_result(self.store, curve.experiment, good)

    def diverged(self, curves: Iterable[AnyCurve], own_seeds: int) -> str:
        """The seeds that diverged, by curve, in words; empty if none did."""
        said = []
        for curve in dict.fromkeys(curves):
            seeds = seeds_of(curve, self.seeds, own_seeds)
            lost = sorted({*seeds} - {*finished_seeds(self.store, curve.experiment, seeds)})
            if lost:
                preset = getattr(curve, "preset", "paper")
                whose = f"{curve.method} on {curve.setting}" + (f", {preset}" if preset != "paper" else "")
                said.append(f"{len(lost)} of {len(seeds)} of {whose} (seed {', '.join(map(str, lost))})")
        return "; ".join(said)

    def provenance(self, name: str, curves: Iterable[AnyCurve], own_seeds: int) -> Provenance:
        """How the item of this name was made from these curves."""
        count, curves = self.seeds or own_seeds, list(curves)
        used = sorted({seed for curve in curves for seed in seeds_of(curve, self.seeds, own_seeds)}) or range(count)
        lost = self.diverged((c for c in curves if self.has([c], own_seeds)), own_seeds)
        return Provenance(
            command=f"gvfx reproduce {name}" + (f" --seeds {self.seeds}" if self.seeds else ""),
            seeds=f"{count} ({used[0]} to {used[-1]})" + (f"; diverged: {lost}" if lost else ""),
            versions=VERSIONS,
            hash=" ".join(dict.fromkeys(c.experiment.hash for c in curves)) or "none",
        )
