"""The tabular curves that figures are made of, and the learning rates that a sweep chose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gvfx.errors import InputError
from gvfx.experiments.specification import Experiment
from gvfx.files import read_text
from gvfx.inputs import is_real
from gvfx_paper.settings.continuous import METHODS as GRID_METHODS
from gvfx_paper.settings.continuous import SR_SEEDS, DeepCurve
from gvfx_paper.settings.domains import MujocoCurve
from gvfx_paper.settings.limit import LimitCurve
from gvfx_paper.settings.limit_continuous import LinearCurve
from gvfx_paper.settings.tabular import MAIN, METHODS, RATES, paper

TUNED = "tuned.json"
SEEDS = 25  # the paper's curves
ABLATION_SEEDS = 10  # the paper's sensitivity and grouping studies
TUNING_STEPS = 800_000  # App. B.3: rates are chosen by the error after this many steps
BASELINES = tuple(m for m in METHODS if m != "GVFExplorer")
Tuned = Mapping[str, Mapping[str, tuple[float, float]]]  # setting -> method -> (rate_q, rate_m) that a sweep chose


@dataclass(frozen=True)
class Curve:
    """One line in one figure: a method on a tabular setting, at the published rates unless others are given."""

    setting: str
    method: str
    preset: str = "paper"
    learner: str = "ExpectedSarsa"
    rate_q: float | None = None
    rate_m: float | None = None
    steps: int | None = None

    @property
    @cache  # noqa: B019
    def experiment(self) -> Experiment:
        tuning = self.steps == TUNING_STEPS
        pictures = 0 if tuning or self.setting not in MAIN else 2 if self.setting == "forty" else 8
        how = self.method, self.preset, self.learner, self.rate_q, self.rate_m, self.steps
        return paper[self.setting].experiment(*how, measurements=8 if tuning else 100, snapshots=pictures)


AnyCurve = Curve | DeepCurve | LimitCurve | LinearCurve | MujocoCurve


def seeds_of(curve: AnyCurve, asked: int | None, own: int = SEEDS) -> range:
    """The seeds of a curve: as many as are asked for, or else an item's own number, of which SR on networks has at most five.

    Runs that choose a learning rate begin at another seed than those that are reported.
    """
    if isinstance(curve, LinearCurve):
        return range(curve.first_seed, curve.first_seed + (asked or curve.seeds))
    deep = curve if isinstance(curve, DeepCurve) else None
    count = asked or (min(own, SR_SEEDS) if deep and deep.method == "SR" else own)
    first = curve.first_seed if isinstance(curve, DeepCurve | MujocoCurve) else 0
    return range(first, first + count)


def methods_on(setting: str) -> tuple[str, ...]:
    """The methods of Table 1 that a setting is run with (the paper has no BPS on forty GVFs)."""
    return tuple(m for m in METHODS if not (setting == "forty" and m == "BPS"))


def main_curves(setting: str, preset: str = "paper") -> list[Curve]:
    """Every method of Table 1 on one setting."""
    return [Curve(setting, m, preset) for m in methods_on(setting)]


def tuned_curves(setting: str, tuned: Tuned) -> list[Curve]:
    """Every method at the rates that our sweep chose for it; empty if there was no sweep."""
    return [Curve(setting, m, "paper", "ExpectedSarsa", *rates) for m, rates in tuned.get(setting, {}).items()]


def sweep_curve(setting: str, method: str, rate_q: float, rate_m: float | None = None) -> Curve:
    """One point of the tuning protocol: a method at given minimum rates, run for TUNING_STEPS."""
    return Curve(setting, method, rate_q=rate_q, rate_m=rate_m, steps=TUNING_STEPS)


def sweep_curves(setting: str) -> list[Curve]:
    """The tuning protocol: six minimum rates for every baseline, six times six for GVFExplorer."""
    single = [sweep_curve(setting, m, q) for m in methods_on(setting) if m in BASELINES for q in RATES]
    return single + [sweep_curve(setting, "GVFExplorer", q, m) for q in RATES for m in RATES]


def load_tuned(folder: Path) -> Tuned:
    """The rates that sweeps in this results folder chose; empty if there was no sweep.  A damaged or odd file is refused."""
    path = folder / TUNED
    try:
        stored = json.loads(read_text(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); delete it, and `gvfx sweep` writes it anew.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: damaged, this is not JSON; delete it, and `gvfx sweep` writes it anew.") from None
    if not isinstance(stored, dict) or not all(isinstance(methods, dict) for methods in stored.values()):
        raise InputError(f"{path}: give the rates as {{setting: {{method: [rate of Q, rate of M]}}}}, or delete it.")
    known = {setting: methods_on(setting) for setting in paper} | {"continuous": GRID_METHODS}
    for setting in stored:
        if setting not in known:
            raise InputError(f"{path}: {setting!r:.40} is not a setting; remove it, or use one of {', '.join(known)}.")
    return {
        setting: {m: _rates(rates, m, known[setting], f"{path}: {setting}") for m, rates in methods.items()}
        for setting, methods in stored.items()
    }


def _rates(rates: object, method: str, methods: Sequence[str], where: str) -> tuple[float, float]:
    """The two rates of a method in a file, checked."""
    if method not in methods:
        raise InputError(f"{where}, {method!r:.40} is not a method; remove it, or use one of {', '.join(methods)}.")
    if not isinstance(rates, list) or len(rates) != 2 or not all(is_real(rate) and 0 < rate <= 1 for rate in rates):
        raise InputError(f"{where}, {method}: {rates!r:.60} are not two learning rates; give numbers above 0 and up to 1.")
    return float(rates[0]), float(rates[1])
