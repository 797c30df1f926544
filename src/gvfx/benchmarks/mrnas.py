"""MR-NaS's published experiment: the largest error of three policies' values in four worlds of three sizes.

A number is the mean over seeds of max |V^ - V| over questions and states; every seed draws its own policies and rewards
(`common/river_worlds.py`), as published runs did.  The published numbers were read off the paper's figures.  Other
behaviours run with our learner, and two of them also with an estimator like the authors', which counts every state once
as a successor of every pair before it has seen anything: so the learner's share in a difference is seen apart from the
behaviour's.  Run it with `gvfx bench mrnas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.river_worlds import instance
from gvfx.benchmarks.common.rows import Row, as_table, at_most
from gvfx.evidence.counts import Empirical

OURS = "OptimalDesign"
BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    OURS: gvfx.OptimalDesign,
    "CharacteristicTime": gvfx.CharacteristicTime,  # our reading of MR-NaS's design
    "GVFExplorer": lambda: gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())),
    "SuccessorRepresentation": gvfx.SuccessorRepresentation,
    "Mixture": lambda: gvfx.Floor(gvfx.Epsilon(gvfx.Mixture())),
    "Uniform": gvfx.Uniform,
}
PSEUDO = (OURS, "CharacteristicTime")  # also answered with an estimator like theirs
TIMES = (100_000, 1_000_000)
FIRST_SEED = 9000
FULL, QUICK = (30, TIMES), (5, TIMES[:1])  # seeds, times of measurement
BEYOND = 2.0  # standard errors


@dataclass(frozen=True)
class Published:
    """Errors read off the figures of Russo & Pacchiano (2025): three policies, one reward each, 30 seeds."""

    mr_nas: tuple[float, float]  # at TIMES
    sf_nr: float  # at 1 M steps, as the next
    gvf_explorer: float


PUBLISHED: dict[tuple[str, int], Published] = {
    ("RiverSwim", 15): Published((0.031, 0.0068), 0.046, 0.356),
    ("RiverSwim", 20): Published((0.056, 0.0079), 0.106, 0.734),
    ("RiverSwim", 30): Published((0.135, 0.0181), 0.673, 1.00),
    ("ForkedRiverSwim", 8): Published((0.024, 0.0055), 0.0099, 0.083),
    ("ForkedRiverSwim", 10): Published((0.042, 0.0079), 0.0161, 0.160),
    ("ForkedRiverSwim", 15): Published((0.101, 0.0127), 0.070, 0.346),
    ("DoubleChain", 8): Published((0.043, 0.0072), 0.027, 0.660),
    ("DoubleChain", 10): Published((0.054, 0.0079), 0.062, 0.689),
    ("DoubleChain", 15): Published((0.162, 0.0168), 0.429, 0.889),
    ("NArms", 15): Published((0.182, 0.045), 0.20, 0.076),
    ("NArms", 20): Published((0.426, 0.055), 0.39, 0.119),
    ("NArms", 30): Published((1.40, 0.115), 1.2, 0.255),
}


@dataclass(frozen=True, eq=False)
class Errors:
    """The largest errors in one setting, per behaviour [seed, time]; with an estimator like theirs, at the end [seed]."""

    ours: dict[str, np.ndarray]
    pseudo: dict[str, np.ndarray]


def pseudo_counted(data: Empirical, questions: Sequence[gvfx.GVF]) -> np.ndarray:
    """Values [gvf, state] of a model that counts each state once more as a successor of each pair; cumulants are known."""
    world = data.world
    P = np.ones((world.states, world.actions, world.states))
    s, a = np.ogrid[: world.states, : world.actions]
    np.add.at(P, (s[..., None], a[..., None], world.next), data.counts)
    return gvfx.exact.values(gvfx.MDP.from_matrix(P / P.sum(axis=2, keepdims=True), start=world.start), questions)


def measured(name: str, size: int, seeds: int, times: Sequence[int]) -> Errors:
    """Every behaviour in one setting; each seed draws its questions."""
    ours: dict[str, list[list[float]]] = {behaviour: [] for behaviour in BEHAVIOURS}
    pseudo: dict[str, list[float]] = {behaviour: [] for behaviour in PSEUDO}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        world, questions = instance(name, size, seed)
        truth = gvfx.exact.values(world, questions)
        for behaviour, make in BEHAVIOURS.items():
            learner, steps = gvfx.CertaintyEquivalence(), times[-1]
            r = gvfx.evaluate(world, questions, make(), learner, steps=steps, snapshots=times, evaluate_every=steps, seed=seed)
            ours[behaviour].append([float(np.abs(each.values[0] - truth).max()) for each in r.snapshots])
            if behaviour in PSEUDO:
                pseudo[behaviour].append(float(np.abs(pseudo_counted(r.models[0], questions) - truth).max()))
    return Errors({k: np.array(v) for k, v in ours.items()}, {k: np.array(v) for k, v in pseudo.items()})


def standard_error(x: np.ndarray) -> float:
    """Of the mean over seeds."""
    return float(x.std(ddof=1) / np.sqrt(len(x)))


def _row(setting: str, errors: np.ndarray, theirs: float, time: int) -> Row:
    """Ours plus 2 standard errors should be below theirs."""
    mean, spread = float(errors.mean()), standard_error(errors)
    note = f"{mean:.3g} ± {spread:.2g}, {mean / theirs:.2g} of the published {theirs:g}; the bar is for mean + 2 standard errors"
    return at_most(f"{setting} at {time:,}", mean + BEYOND * spread, theirs, "", note)


def _tables(found: dict[tuple[str, int], Errors], times: Sequence[int], seeds: int) -> Iterator[Table]:
    """Ours and the published numbers after each time, and what the estimator changes at the end."""
    for k, time in enumerate(times):
        last = time == TIMES[-1]
        title = f"Largest error after {time:,} steps, mean of {seeds} seeds; then as published"
        heads = ("MR-NaS", "SF-NR", "their GVFExplorer") if last else ("MR-NaS",)
        table = Table("setting", *BEHAVIOURS, *heads, title=title, title_justify="left")
        for (name, size), errors in found.items():
            published = PUBLISHED[name, size]
            theirs = [published.mr_nas[k], *([published.sf_nr, published.gvf_explorer] if last else [])]
            ours = [float(e[:, k].mean()) for e in errors.ours.values()]
            table.add_row(f"{name} {size}", *(f"{x:.3g}" for x in ours + theirs))
        yield table
    answered = [f"{behaviour}, {estimator}" for behaviour in PSEUDO for estimator in ("ours", "pseudo-counts")]
    title = f"The estimator's share after {times[-1]:,} steps: the same runs, answered by two estimators"
    table = Table("setting", *answered, title=title, title_justify="left")
    for (name, size), errors in found.items():
        pairs = ((errors.ours[b][:, -1].mean(), errors.pseudo[b].mean()) for b in PSEUDO)
        table.add_row(f"{name} {size}", *(f"{x:.3g}" for pair in pairs for x in pair))
    yield table


def run(console: Console, quick: bool = False) -> list[Row]:
    """All settings."""
    seeds, times = QUICK if quick else FULL
    found, rows = {}, []
    for (name, size), published in PUBLISHED.items():
        errors = found[name, size] = measured(name, size, seeds, times)
        settled = [_row(f"{name} {size}", errors.ours[OURS][:, k], published.mr_nas[k], t) for k, t in enumerate(times)]
        console.print(*(f"{row.case}: {row.note}" for row in settled), sep="\n", highlight=False)
        rows += settled
    for table in _tables(found, times, seeds):
        console.print(table)
    console.print(as_table(rows))
    return rows
