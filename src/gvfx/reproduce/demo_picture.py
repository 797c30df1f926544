"""The picture of `gvfx demo`: gvfx's default method, run now, beside the stored errors of the README's picture.

Networks, rollouts and the limit take minutes (`gvfx reproduce headline`), so their errors come with the package, in
`data/headline.json`; `tools/headline_errors.py` writes them from the stored runs of that command.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from gvfx.experiments.settings.limit_continuous import LinearCurve
from gvfx.files import write_whole
from gvfx.report.page import UNKNOWN, Curves
from gvfx.report.statistics import short
from gvfx.reproduce.grid import outside_goals
from gvfx.reproduce.headline import COMPUTED, GVFX, MEASURE, TIMES, TITLE, Errors
from gvfx.running.evaluate import evaluate

STORED = Path(__file__).parent / "data" / "headline.json"
NOW = (20_000, 40_000, 100_000)  # of TIMES, at which the runs of the demo are measured
EVERY = 20_000
DIGITS = 6  # of stored numbers


def write_errors(found: Errors, versions: str, path: Path = STORED) -> None:
    """Write the errors of the README's picture, rounded."""
    rounded = {
        name: np.vectorize(lambda x: float(f"{x:.{DIGITS}g}"))(values).tolist() for name, values in found._asdict().items()
    }
    text = json.dumps({"command": "gvfx reproduce headline", "versions": versions, "times": TIMES, **rounded}, indent=1)
    write_whole(path, (text + "\n").encode())


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"))(values)


def stored_errors() -> Errors:
    """The errors of the README's picture at all of its times."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))
    return Errors(**{name: np.array(kept[name]) for name in Errors._fields})


def run_now(seeds: int, workers: int = 1, progress: Callable[[int, int, float], None] | None = None) -> np.ndarray:
    """Errors [seed, time] of gvfx's default method at the times NOW."""
    e = LinearCurve(steps=NOW[-1]).experiment
    r = evaluate(
        e.world,
        e.questions,
        e.behaviour,
        e.learner,
        steps=NOW[-1],
        seeds=seeds,
        evaluate_every=EVERY,
        workers=workers,
        progress=progress,
    )
    return outside_goals(r)[:, np.searchsorted(r.steps, NOW)]


def beside_stored(runs: np.ndarray) -> Errors:
    """The runs [seed, time] in the place of gvfx's stored ones, all at the times NOW."""
    at = np.searchsorted(TIMES, NOW)
    return Errors(*(found[..., at] for found in stored_errors()))._replace(gvfx=runs)


def rows(runs: np.ndarray) -> list[list[str]]:
    """The errors as a table, one row per method; of gvfx the mean and the range of its runs."""
    out = beside_stored(runs).rows()
    found = zip(runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0), strict=True)
    out[3] = [f"{GVFX}, just now", *(f"{short(mean)} [{short(low)}, {short(high)}]" for mean, low, high in found)]
    return out


def picture(runs: np.ndarray) -> Curves:
    """The README's picture as far as the runs go; the band of gvfx is the range of its runs."""
    lines = beside_stored(runs).lines()
    name, band = f"{GVFX}, just now", {"low": runs.min(axis=0), "high": runs.max(axis=0)}
    lines[3] = replace(lines[3], name=name, mean=runs.mean(axis=0), **band)
    count = len(stored_errors().networks)
    note = (
        f"{MEASURE}. gvfx: {len(runs)} runs of this demo, the band is their range. Networks: {count} stored runs of "
        f"`gvfx reproduce headline`, bands are bootstrap 95 % intervals. {COMPUTED}"
    )
    return Curves("headline", TITLE, "ours", np.array(NOW), lines, "mean squared error", UNKNOWN, note, highlight=lines[3].name)


def verdict(runs: np.ndarray) -> str:
    """How the runs compare with the others at the end, in one sentence."""
    found = beside_stored(runs)
    ours = runs[:, -1].mean()
    others = {"the paper's method has": found.paper, "plain Monte Carlo": found.rollouts, "networks": found.networks}
    first, *more = (f"{name} {np.mean(values[..., -1]) / ours:,.0f} times" for name, values in others.items())
    limit = f"After {NOW[-1]:,} steps the error of gvfx is {ours / found.limit[-1]:.1f} times the statistical limit"
    return f"{limit}; {first} the error of gvfx, {', '.join(more)}."
