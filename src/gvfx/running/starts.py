"""The value at the start in a result: per question, over seeds, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gvfx.errors import InputError, printable
from gvfx.evidence.betting import bounds_of_runs
from gvfx.evidence.decisions import quantiles
from gvfx.evidence.episodes import over_seeds
from gvfx.inputs import check_level
from gvfx.types import Described

if TYPE_CHECKING:
    from gvfx.running.result import Details

NOT_AUDITED = "audit: this run was not audited; run it with audit=0.15, or give a log the column 'policy'."
UNKNOWN = "not known: nothing was tried that its policy does"
NOT_KEPT = "value: this run did not keep the starts of its episodes; run it with where='start'."


class Value(NamedTuple):
    """One question's value at the start, the mean over seeds; NaN where something is not known."""

    value: float
    low: float  # of its interval; infinite if it may rest on what was never seen or tried
    high: float
    truth: float  # NaN where the truth is not known
    spread: float  # of networks' heads, which have no intervals

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        if np.isnan(self.value):
            return UNKNOWN
        if np.isnan(self.low):
            return f"{self.value:.4g}" + ("" if np.isnan(self.spread) else f", spread {self.spread:.2g}")
        return f"{self.value:.4g} ± {self.half:.2g}" if np.isfinite(self.half) else f"{self.value:.4g} (not sure yet)"


class Check(NamedTuple):
    """What audits say about one question's value at the start; low and high are infinite without enough rollouts."""

    value: float  # by the audits, the mean over seeds
    low: float
    high: float
    answer: float  # what the run answered in the end
    rollouts: int
    steps: int
    cut: int  # rollouts that a time limit (in vector environments the end of the run, too) cut where the rest counts

    @property
    def off(self) -> float:
        """The answer minus the audited value."""
        return self.answer - self.value

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        many = f"({self.rollouts:,} rollouts, {self.steps:,} steps{f', {self.cut:,} cut short' if self.cut else ''})"
        if not np.isfinite(self.half):
            return f"audited at the start: too few rollouts {many}"
        return f"audited at the start: off by {self.off:.2g} ± {self.half:.2g} {many}"


def checks_at_start(details: Details, level: float = 0.95) -> dict[str, Check]:
    """What the audits of a run say of every question."""
    check_level(level)
    starts, audits, bounds = details.starts, details.audits, details.audit_bounds
    if audits is None or starts is None:
        raise InputError(NOT_AUDITED)
    out: dict[str, Check] = {}
    within = None if bounds is None else bounds_of_runs(bounds, level)
    for name, answer, row in zip(details.names, starts[:, :, 0].mean(axis=0), over_seeds(audits), strict=True):
        value, error, freedom, *counts = row.tolist()
        half = float(quantiles((1 - level) / 2, np.array(freedom))) * error if np.isfinite(error) else np.inf
        low, high = (value - half, value + half) if np.isfinite(half) else (-np.inf, np.inf)
        if within is not None and not np.isnan(within[len(out)]).any():
            low, high = within[len(out)].tolist()
        out[name] = Check(value, low, high, float(answer), *map(int, counts))
    return out


def values_at_start(details: Details, level: float = 0.95) -> dict[str, Value]:
    """The value of every question at the start.

    Of 5 columns of `starts` the last are the standard errors towards lower and higher values, where the two sides differ.  In a
    run with audits, value and interval are theirs, unless the answer is made of them, too (`blended`) and no range is known; in a
    log of states, only where there is no finite other.
    """
    check_level(level)
    starts, predictor = details.starts, details.predictor
    if starts is None:
        raise InputError(NOT_KEPT)
    value, truth = starts[:, :, 0].mean(axis=0), starts[:, :, 2].mean(axis=0)
    sides = starts[:, :, [3, 4]] if starts.shape[2] > 3 else starts[:, :, [1, 1]]
    errors = np.sqrt((sides**2).sum(axis=0)) / len(starts)
    spread = np.full(len(value), np.nan)
    if predictor.bars.kind == "spread":
        errors, spread = np.full(errors.shape, np.nan), np.sqrt((starts[:, :, 1] ** 2).mean(axis=0))
    below, above = predictor.quantile((1 - level) / 2) * errors.T
    known = ~np.isnan(value) | ~np.isinf(below)  # if nothing was tried, the value is NaN and the interval infinite
    low, high = np.where(known, value - below, -np.inf), np.where(known, value + above, np.inf)
    columns = zip(value, low, high, truth, spread, strict=True)
    out = {name: Value(*map(float, row)) for name, row in zip(details.names, columns, strict=True)}
    if details.audits is not None:
        own = "audit" not in details.experiment and details.error_bars in ("posterior", "asymptotic")
        bounds = details.audit_bounds
        for i, (name, check) in enumerate(checks_at_start(details, level).items()):
            blended = "blended" in details.experiment and (bounds is None or np.isnan(bounds[:, i]).any())
            if (own or blended) and np.isfinite(out[name].half):
                continue
            if np.isfinite(check.half):
                out[name] = out[name]._replace(value=check.value, low=check.low, high=check.high)
            elif np.isnan(out[name].low):  # no other ground
                out[name] = out[name]._replace(low=-np.inf, high=np.inf)
    return out


def start_rows(values: dict[str, Value]) -> list[Described]:
    """Rows of a result about the start."""
    return [
        {
            "question": name,
            "observation": "start",
            "prediction": v.value,
            "standard_error": None,
            "low": v.low if np.isfinite(v.low) else None,
            "high": v.high if np.isfinite(v.high) else None,
            "truth": None if np.isnan(v.truth) else v.truth,
            "visits": None,
            **({} if np.isnan(v.spread) else {"spread": v.spread}),
        }
        for name, v in values.items()
    ]


def start_lines(values: dict[str, Value], checks: dict[str, Check] | None = None) -> list[str]:
    """Lines of a summary about the start, one per question, with what audits found."""
    shown = {name: printable(name) for name in values}
    width = max(map(len, shown.values()))
    truths = {name: "" if np.isnan(v.truth) else f", truth {v.truth:.4g}" for name, v in values.items()}
    found = {name: f", {checks[name]}" if checks is not None and checks[name].rollouts else "" for name in values}
    return [f"{shown[name]:<{width}}  value at the start {v}{truths[name]}{found[name]}" for name, v in values.items()]
