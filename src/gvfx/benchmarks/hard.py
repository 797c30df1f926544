"""Every behaviour from a cold start in worlds that are hard to explore, errors over the optimum of the error theory.

A number is a run's MSE times steps over the constant of the world's best stationary behaviour (1 is the limit, of long runs),
with certainty equivalence as the learner for every behaviour.  The worlds are those of `common/cold_worlds.py` with numbers
from 100 on; smaller numbers are for development.  Run it with `gvfx bench hard`; every class is printed when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.base import Behaviour
from gvfx.benchmarks.common.cold_worlds import CLASSES
from gvfx.benchmarks.common.hard_worlds import Asked
from gvfx.benchmarks.common.rows import Row, as_table, at_most
from gvfx.benchmarks.random_mdps import BEHAVIOURS as COMMON
from gvfx.theory.design import optimal

OURS = "OptimalDesign"
BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    **COMMON,
    "RoundRobin": gvfx.RoundRobin,
    "CharacteristicTime": gvfx.CharacteristicTime,
    "SecondMoment": gvfx.SecondMoment,
    "RobustSampling": gvfx.RobustSampling,
}
RIVALS = ("Mixture", "Uniform", "CharacteristicTime")  # those that the last bar compares with
TIMES = (3_000, 10_000, 30_000, 100_000)
FIRST_SEED = 7000
FULL, QUICK = ((100, 101), 25, TIMES), ((100,), 4, TIMES[:3])  # numbers of the worlds of a class, seeds, times of measurement
BARS = {30_000: 4.0, 100_000: 2.5}  # each class: mean over its worlds and seeds
WORSE_BAR = 10.0  # % of (world, time)
BEYOND = 2.0  # standard errors of the paired difference: what is beyond them is not noise
SMALLEST = 1e-6  # ratios below it count as equal where logarithms are compared


@dataclass(frozen=True, eq=False)
class Measured:
    """All runs of one world: MSE times steps over the optimum, per behaviour [seed, time]."""

    world: str
    ratios: dict[str, np.ndarray]


def measured(name: str, asked: Asked, seeds: int, times: Sequence[int]) -> Measured:
    """Every behaviour in one world."""
    world, questions = asked
    limit = optimal(world, questions).constant
    out = {}
    for behaviour, make in BEHAVIOURS.items():
        r = gvfx.evaluate(
            world,
            questions,
            make(),
            gvfx.CertaintyEquivalence(),
            steps=times[-1],
            snapshots=times,
            evaluate_every=times[-1],
            seeds=range(FIRST_SEED, FIRST_SEED + seeds),
        )
        missed = [((s.values - r.truth)[:, :, world.live] ** 2).mean(axis=(1, 2)) * s.step / limit for s in r.snapshots]
        out[behaviour] = np.stack(missed, axis=1)
    return Measured(name, out)


def beyond_noise(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether the mean of ours exceeds that of theirs by more than 2 standard errors of the difference, paired by seed."""
    away = ours - theirs
    return bool(away.mean() > BEYOND * away.std(ddof=1) / np.sqrt(len(away)))


def worse_than(found: Measured, k: int) -> str | None:
    """The rival that OptimalDesign is worse than beyond noise at time k, if any.

    It is compared with the best rival twice: by mean errors, which single failed runs decide, and by mean logarithms of errors,
    which the typical run decides.  Being worse by one of them is enough.
    """
    now = {name: r[:, k] for name, r in found.ratios.items()}
    for errors in (now, {name: np.log(np.maximum(x, SMALLEST)) for name, x in now.items()}):
        best = min(RIVALS, key=lambda name: float(errors[name].mean()))
        if beyond_noise(errors[OURS], errors[best]):
            return best
    return None


def _table(name: str, worlds: Sequence[Measured], times: Sequence[int], seeds: int) -> Table:
    title = f"{name}: MSE times steps over the optimum, mean (median) over {seeds} seeds"
    table = Table("world", "behaviour", *(f"{t:,} steps" for t in times), title=title, title_justify="left")
    for w in worlds:
        for behaviour, r in w.ratios.items():
            cells = (f"{x.mean():.3g} ({np.median(x):.3g})" for x in r.T)
            table.add_row(w.world, behaviour, *cells)
    return table


def _bars(name: str, worlds: Sequence[Measured], times: Sequence[int]) -> list[Row]:
    rows = []
    for time, bar in BARS.items():
        if time in times:
            ours = np.stack([w.ratios[OURS][:, times.index(time)] for w in worlds])  # [world, seed]
            note = f"median {np.median(ours):.3g}, worst world {ours.mean(axis=1).max():.3g}, worst run {ours.max():.3g}"
            rows.append(at_most(f"{name} at {time:,}", float(ours.mean()), bar, "x", note))
    return rows


def run(console: Console, quick: bool = False) -> list[Row]:
    """All classes, one after the other; at full size about a quarter of an hour on one core."""
    numbers, seeds, times = QUICK if quick else FULL
    rows: list[Row] = []
    failed, cases = [], 0
    for name, make in CLASSES.items():
        worlds = [measured(f"{name} {number}", make(number), seeds, times) for number in numbers]
        console.print(_table(name, worlds, times, seeds))
        rows += _bars(name, worlds, times)
        for w in worlds:
            for k, time in enumerate(times):
                rival, cases = worse_than(w, k), cases + 1
                if rival is not None:
                    r = (float(w.ratios[each][:, k].mean()) for each in (OURS, rival))
                    failed.append((w.world, f"{time:,}", rival, *(f"{x:.3g}" for x in r)))
    table = Table("world", "steps", "best rival", OURS, "rival", title="Worse than the best rival beyond noise: mean ratios")
    for case in failed:
        table.add_row(*case)
    console.print(table)
    note = f"{len(failed)} of {cases} (world, time): worse than the best of {', '.join(RIVALS)}"
    rows.append(at_most("worse beyond noise", 100 * len(failed) / cases, WORSE_BAR, " %", note))
    console.print(as_table(rows))
    return rows
