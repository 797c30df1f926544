"""When does it pay? Start values by gvfx's defaults beside plain rollouts with the same number of steps.

Worlds are named ones and drawn ones (`benchmarks.common.start_worlds`); those drawn with numbers below 200 are for development,
and what is reported uses numbers from 200 on.  Rollouts follow every policy with an equal share of the steps, to the end of an
episode or until what follows counts less than 0.1 %, and their intervals are Student's t over returns.  The truth is by Monte
Carlo.  Errors and half-widths are in units of the standard deviation of a return, as root mean squares over questions and seeds
and as medians.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from rich.table import Table

import gvfx
from benchmarks.common.box_worlds import BoxWorld, returns_from
from benchmarks.common.start_worlds import KINDS, NAMED, drawn
from benchmarks.study import Found, Part, Row, Study, at_end, at_most, seeds_from, share_within, table

FIRST_SEED = 1000  # of runs that nothing was chosen on
FRESH = 200  # the number of the drawn worlds that are reported
SEEDS, STEPS = 20, (2_000, 5_000, 20_000)
LONGEST = 100_000  # steps times policies
EPISODES = 5_000  # of the truth, for every seed
LEAST = 1e-3  # what follows counts less where a rollout is cut
HIDDEN = ("CartPole, speeds hidden", "queues, mode hidden", f"partly seen {FRESH}")


def worlds(number: int = FRESH) -> dict[str, BoxWorld]:
    """The drawn worlds with this number, by name."""
    return {f"{kind} {number}": drawn(kind, number) for kind in KINDS}


def by_gvfx(world: BoxWorld, steps: int, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = gvfx.evaluate(world.make(), world.questions(), **at_end(steps, seed=seed, where="start"))
    seconds = time.process_time() - begun
    found = result.value().values()
    flagged = "observation" in result.details.experiment
    return {"value": [v.value for v in found], "half": [v.half for v in found], "flagged": flagged, "seconds": seconds}


def by_rollouts(world: BoxWorld, steps: int, seed: int) -> dict[str, Any]:
    begun, rng = time.process_time(), np.random.default_rng([seed, 1])
    value, half = [], []
    for policy in world.policies.values():
        left = steps // len(world.policies)
        returns, lengths = np.empty((len(world.signals), 0)), np.zeros(0)
        while lengths.sum() < left:
            more = returns_from(world, world.begin(rng, max(4, left // 40)), policy, rng, LEAST)
            returns, lengths = (np.concatenate([a, b], axis=-1) for a, b in zip((returns, lengths), more, strict=True))
        own = returns[:, : max(1, int((lengths.cumsum() <= left).sum()))]
        n = own.shape[1]
        wide = own.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(own), np.inf)
        value += own.mean(axis=1).tolist()
        half += (-scipy.special.stdtrit(max(1, n - 1), 0.025) * wide).tolist()
    return {"value": value, "half": half, "flagged": False, "seconds": time.process_time() - begun}


def by_truth(world: BoxWorld, steps: int, seed: int) -> dict[str, Any]:
    return _truth(world, seed)


@cache
def _truth(world: BoxWorld, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 2])
    each = np.concatenate([returns_from(world, world.begin(rng, EPISODES), p, rng)[0] for p in world.policies.values()])
    return {"value": each.mean(axis=1), "spread": each.std(axis=1)}


METHODS = {"truth": by_truth, "rollouts": by_rollouts, "gvfx": by_gvfx}


class Line(NamedTuple):
    """One world with one number of steps."""

    ratio: float  # of root mean squared errors, gvfx over rollouts
    error: float  # of gvfx
    widths: float  # ratio of median half-widths
    held: float  # share of intervals
    rollouts_held: float
    flagged: float  # share of runs
    cost: float  # milliseconds a step


def line(found: Mapping[str, Sequence[Mapping[str, Any]]], truth: Sequence[Mapping[str, Any]], steps: int) -> Line:
    """What the runs of one case say."""
    known, spread = (np.mean([one[key] for one in truth], axis=0) for key in ("value", "spread"))
    spread = np.where(spread > 0, spread, 1.0)
    off, half = {}, {}
    for name in ("rollouts", "gvfx"):
        value, half[name] = (np.array([one[key] for one in found[name]]) for key in ("value", "half"))
        off[name] = np.abs(value - known)
    error = {name: float(np.sqrt(((each / spread) ** 2).mean())) for name, each in off.items()}
    held = {name: float((off[name] <= half[name]).mean()) for name in off}
    wide = {name: float(np.median(half[name] / spread)) for name in off}
    seconds = float(np.mean([one["seconds"] for one in found["gvfx"]]))
    return Line(
        error["gvfx"] / max(error["rollouts"], 1e-12),
        error["gvfx"],
        wide["gvfx"] / max(wide["rollouts"], 1e-12),
        held["gvfx"],
        held["rollouts"],
        float(np.mean([bool(one["flagged"]) for one in found["gvfx"]])),
        seconds / steps * 1e3,
    )


def paying(chosen: Mapping[str, BoxWorld], sizes: Sequence[int], seeds: int) -> Study:
    """Every world with every number of steps."""
    cases = {
        f"{name}, {steps:,} steps": (world, steps)
        for steps in sizes
        for name, world in chosen.items()
        if steps * len(world.policies) <= LONGEST
    }

    def measure(of: tuple[BoxWorld, int], method: Any, seed: int) -> dict[str, Any]:
        return dict(method(*of, seed))

    def lines(found: Found) -> dict[tuple[str, int], Line]:
        return {(world.name, steps): line(found[case], found[case]["truth"], steps) for case, (world, steps) in cases.items()}

    def shows(found: Found) -> Iterator[Table]:
        heads = ("error, gvfx : rollouts", "error", "half-width, gvfx : rollouts", "intervals that hold", "rollouts' that hold")
        rows = (
            (name, steps, of.ratio, of.error, of.widths, *(f"{x:.0%}" for x in (of.held, of.rollouts_held, of.flagged)), of.cost)
            for (name, steps), of in lines(found).items()
        )
        yield table(f"start values, {seeds} seeds", ("world", "steps", *heads, "observation refused", "ms a step"), rows)

    def bars(found: Found) -> Iterator[Row]:
        every = lines(found)
        note = f"{len(chosen)} worlds, {seeds} seeds"
        ratios = np.array([of.ratio for of in every.values()])
        yield at_most("errors beside rollouts, worst", float(ratios.max()), 1.1, "x", note)
        yield at_most("errors beside rollouts, geometric mean", float(np.exp(np.log(ratios).mean())), 0.6, "x", note)
        yield at_most("half-widths beside rollouts', worst", max(of.widths for of in every.values()), 1.1, "x", note)
        yield share_within("intervals that hold", float(np.mean([of.held for of in every.values()])), 0.93, 0.97, note)
        for name in chosen:
            own = [of for (world, _), of in every.items() if world == name]
            yield share_within(f"{name}: intervals that hold", float(np.mean([of.held for of in own])), 0.88, 1.0, note)
        at = {name: np.mean([of.flagged for (world, k), of in every.items() if world == name and k == 5_000]) for name in chosen}
        hidden, seen = ([share for name, share in at.items() if (name in HIDDEN) == which] for which in (True, False))
        if hidden and seen and 5_000 in sizes:
            yield share_within("partly observed, refused at 5,000 steps", float(np.mean(hidden)), 0.9, 1.0, note)
            yield at_most("observed, refused at 5,000 steps", float(np.mean(seen)), 0.05, "", note)

    return Study(cases, measure, bars, methods=METHODS, seeds=seeds_from(FIRST_SEED, seeds), shows=shows, stays=True)


def part(chosen: Mapping[str, BoxWorld]) -> Part:
    return lambda quick: paying(chosen, (1_000,) if quick else STEPS, 2 if quick else SEEDS)


PARTS: dict[str, Part] = {"named": part(NAMED), "drawn": part(worlds())}
