"""Whether intervals, the stopping rule and plans know what was never seen: hard worlds, ordinary ones, and pilots.

A promise is broken if a run stopped by `error_below` has a larger error than its target; coverage is the share of finite 95 %
intervals that hold the truth.  "Own variance": the same theory without what pairs share and without the unseen.  Constants were
chosen on seeds below 1,000.  At full size it takes about an hour on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import gvfx
from benchmarks.common.published_worlds import ROS_ERRORS
from benchmarks.common.worlds import HARD, UNDETECTABLE, frozen_lake, garnet, jackpots, paper_setting, random_world
from benchmarks.exploring import by_counts
from benchmarks.study import (
    Asked,
    Found,
    Part,
    Row,
    Study,
    answered,
    at_end,
    at_most,
    quietly,
    seeds_from,
    sized,
    sized_rows,
    table,
)
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.evidence.uncertainty import ErrorBelow, ErrorModel, error_model, standard_errors
from gvfx.theory.design import variances
from gvfx.worlds.conversion import SteppedMDP
from gvfx_paper import paper

FIRST_SEED = 5000
TIMES = (3_000, 10_000, 30_000, 100_000)
TARGETS = (0.02, 0.002)  # of the mean square true value
PILOT, LARGE = 10_000, 100_000  # steps of pilots; of those in the paper's settings, which have 400 states
FACTORS = (1.0, 1.3, 2.0)  # of the width, on FrozenLake 8x8
GRID_BARS = {237: 5.6e-4, 951: 6e-5, 3805: 7e-6}  # relative squared errors in the small grid of ROS, by steps
Worlds = Mapping[str, Callable[[], Asked]]


def _lake(size: str) -> Asked:
    return frozen_lake(0.95, {"uniform": [0.25] * 4, "down and right": [0.1, 0.4, 0.4, 0.1]}, size)


def _garnet(number: int) -> Asked:
    rng, sizes = np.random.default_rng(1000 + number), (20, 3)
    P, questions = garnet(rng, *sizes, 4), []
    for i in range(2):
        policy = 0.9 * rng.dirichlet(np.ones(3), size=20) + 0.1 / 3
        paid = gvfx.table_cumulant(rng.normal(size=sizes), np.full(sizes, 0.5))
        questions.append(gvfx.GVF(policy, paid, 0.9, name=f"question {i}"))
    return gvfx.MDP.from_matrix(P, horizon=100), questions


ORDINARY: Worlds = {
    **{name: partial(paper_setting, name) for name in ("same", "distinct", "semi-greedy")},
    "FrozenLake 4x4": partial(_lake, "4x4"),
    "Garnet 1": partial(_garnet, 1),
    "Garnet 2": partial(_garnet, 2),
}
FEW_COUNTS: Worlds = {
    "FrozenLake 8x8": partial(_lake, "8x8"),
    "jackpots": jackpots,
    **{f"random world {k}": partial(random_world, k) for k in (3, 4, 6, 7)},
}

# --- rules that watch ------------------------------------------------------------------------------------------------


@dataclass
class Stops:
    """One run: the steps after which each rule would have stopped it (0: never), and the mean squared error at that time."""

    steps: list[int]
    errors: list[float]
    looks: list[int]
    last: int = 0


@dataclass(frozen=True)
class Recording(ErrorBelow):
    """A rule that never stops a run and notes when others would have; runs must come one after the other.

    rules: in pairs, a larger target and a smaller one, which is asked once the first has been met.
    """

    rules: Sequence[ErrorBelow] = ()
    truth: np.ndarray = field(default_factory=lambda: np.zeros(0))  # [gvf, state]
    runs: list[Stops] = field(default_factory=list)

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        steps, states = int(data.visits.sum()), self.truth.shape[1]
        if not self.runs or steps <= self.runs[-1].last:
            self.runs.append(Stops(*([0 for _ in self.rules] for _ in range(3))))  # type: ignore[arg-type]
        run = self.runs[-1]
        run.last = steps
        for k, rule in enumerate(self.rules):
            if run.steps[k] or (k % 2 and not run.steps[k - 1]):
                continue
            bound, counted = rule.bound(data, run.looks[k])
            run.looks[k] += counted
            if bound < rule.target:
                away = (data.values[:, :states] - self.truth)[:, data.world.live[:states]]
                run.steps[k], run.errors[k] = steps, float((away**2).mean())
        return np.inf, False


@dataclass(frozen=True)
class OwnVariance(ErrorBelow):
    """The rule without what pairs share and without the unseen, for comparison."""

    def bound(self, data: Empirical, looks: int) -> tuple[float, bool]:
        parts = own_parts(data)
        unknown = parts.unknown[:, data.world.live].any()
        return (np.inf, False) if unknown else self.bound_with(data, parts, looks)


def own_parts(data: Empirical) -> ErrorModel:
    """What the error theory reads from the data, with each pair's own variance as its noise."""
    n = data.visits[:, :, None].astype(float)
    mean, variance = data.moments(data.values)
    noise = smoothed_noise(mean, variance, variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0), n)
    return replace(error_model(data), noise=noise)


def own_errors(data: Empirical) -> np.ndarray:
    """Standard errors with each pair's own variance; infinite only where something was never tried, [gvf, state]."""
    p = own_parts(data)
    return np.where(p.unknown, np.inf, np.sqrt(variances(p.model, p.pi, p.gamma, p.noise, data.visits)))


# --- measurements ----------------------------------------------------------------------------------------------------


def outcome(source: Any, asked: Asked, runs: int, times: Sequence[int], compare: bool = False) -> dict[str, Any]:
    """One run per seed with all rules watching; compare: also with the rule and the intervals with own variances.

    cover, finite [time]: shares of the finite intervals that contain the truth, and of the finite.  broken, stopped [target]:
    runs with a larger error than promised, and that stopped.  With `compare`: newly, the share that is infinite and would be
    finite with own variances; width, over that with own variances where both are finite; slower, the median over runs and targets
    of the steps over those of the rule with own variances, where that kept its word.
    """
    world, questions = asked
    truth = gvfx.exact.values(world, questions)
    scale = float((truth[:, world.live] ** 2).mean())
    rules: list[ErrorBelow] = [gvfx.error_below(share * scale) for share in TARGETS]
    rules += [OwnVariance(share * scale) for share in TARGETS] * compare
    watch = Recording(1.0, rules=rules, truth=truth)
    options = at_end(times[-1], seeds=seeds_from(FIRST_SEED, runs), snapshots=times, until=watch)
    with quietly():
        r = gvfx.evaluate(source, questions, **options)
    cover, finite = [], []
    for snapshot in r.details.snapshots:
        acted = snapshot.visits.sum(axis=2) > 0  # [seed, state]
        where = acted if isinstance(source, SteppedMDP) else np.broadcast_to(world.live, acted.shape)
        counted = np.broadcast_to(where[:, None], snapshot.values.shape)
        errors, missed = np.asarray(snapshot.standard_errors), np.abs(snapshot.values - truth)
        sure = np.isfinite(errors) & counted
        finite.append(sure.sum() / counted.sum())
        cover.append((missed <= 1.96 * errors + 1e-12)[sure].mean() if sure.any() else np.nan)
    stops, errs = (np.array([getattr(run, name) for run in watch.runs]) for name in ("steps", "errors"))
    targets = np.array([rule.target for rule in rules[:2]])
    met = stops > 0
    broken = (met[:, :2] & (errs[:, :2] > targets)).sum(axis=0)
    out = {"cover": np.array(cover), "finite": np.array(finite), "broken": broken, "stopped": met[:, :2].sum(axis=0)}
    if not compare:
        return out
    before = np.stack([own_errors(m)[:, : errors.shape[2]] for m in r.details.models])
    both = np.isfinite(before) & sure & (before > 0)
    kept = met[:, :2] & met[:, 2:] & (errs[:, 2:] <= targets)
    later = (stops[:, :2] / np.maximum(stops[:, 2:], 1))[kept]
    return out | {
        "newly": (np.isfinite(before) & counted & ~sure).sum() / counted.sum(),
        "width": float(errors[both].mean() / before[both].mean()) if both.any() else np.nan,
        "slower": float(np.median(later)) if later.size else np.nan,
    }


def pilots(source: Any, asked: Asked, runs: int, steps: int) -> dict[str, Any]:
    """How many pilots were refused, and the others' forecast for the optimum over that of the known world."""
    world, questions = asked
    error = 0.002 * float((gvfx.exact.values(world, questions)[:, world.live] ** 2).mean())
    known = gvfx.plan(world, questions, error, draws=20)["optimum"].steps
    refused, ratios = 0, []
    for seed in seeds_from(FIRST_SEED, runs):
        try:
            ratios.append(gvfx.plan(source, questions, error, pilot=steps, seed=seed, draws=20)["optimum"].steps / known)
        except gvfx.InputError:
            refused += 1
    return {"refused": refused, "ratios": sorted(ratios)}


def _percent(x: float) -> str:
    return "-" if np.isnan(x) else f"{x:.0%}"


def _cells(o: Mapping[str, Any]) -> list[str]:
    return [f"{_percent(c)} ({_percent(f)})" for c, f in zip(o["cover"], o["finite"], strict=True)]


def _range(ratios: Sequence[float]) -> str:
    return f"{ratios[0]:.2g} to {ratios[-1]:.2g}" if len(ratios) else "-"


# --- studies ---------------------------------------------------------------------------------------------------------


def hard(runs: int, times: Sequence[int]) -> Study:
    """Hard worlds in both forms; one that cannot be detected is shown, without a bar."""
    some = min(runs, 20)

    def measure(make: Callable[[], Asked], form: Callable[[gvfx.MDP], Any]) -> dict[str, Any]:
        asked = make()
        source = form(asked[0])
        return outcome(source, asked, runs, times) | pilots(source, asked, some, PILOT)

    def shows(found: Found) -> Iterator[Table]:
        lines = [(world, form, o) for world, forms in found.items() for form, o in forms.items()]
        title = f"Hard worlds, {runs} runs: coverage (share of finite intervals), and broken promises of `error_below`"
        heads = (*(f"{t:,} steps" for t in times), *(f"{x:g}: broken, of stopped" for x in TARGETS))
        kept = ([f"{b} of {n}" for b, n in zip(o["broken"], o["stopped"], strict=True)] for *_, o in lines)
        rows = ((*line, *_cells(o), *promises) for (*line, o), promises in zip(lines, kept, strict=True))
        yield table(title, ("world", "form", *heads), rows)
        given = ((*line, f"{o['refused']} of {some}", _range(o["ratios"])) for *line, o in lines)
        heads = ("world", "form", "refused", "given: forecast over truth")
        yield table(f"Pilots of {PILOT:,} steps in hard worlds", heads, given)

    def bars(found: Found) -> Iterator[Row]:
        of = {f"{world}, {form}": o for world in HARD for form, o in found[world].items()}
        broken, stopped = (sum(int(o[what].sum()) for o in of.values()) for what in ("broken", "stopped"))
        yield at_most("broken promises", 100 * broken / max(1, stopped), 5, " %", f"{broken} of {stopped} runs that stopped")
        missed = {f"{name}, {t:,} steps": 100 * (1 - c) for name, o in of.items() for c, t in zip(o["cover"], times, strict=True)}
        missed = {name: m for name, m in missed.items() if not np.isnan(m)}
        case = "intervals that miss, mean over worlds, forms and times"
        yield at_most(case, float(np.mean(list(missed.values()))), 10, " %", "finite ones")
        worst = max(missed, key=lambda name: (missed[name], name))
        low = sum(m > 100 * (1 - 0.9) for m in missed.values())
        note = f"{worst}; above 10 % in {low} of {len(missed)} cases"
        yield at_most("intervals that miss, worst", missed[worst], 10, " %", note)
        wrong, tried = sum(not 0.5 <= x <= 2 for o in of.values() for x in o["ratios"]), some * len(of)
        note = f"{wrong} of {tried}"
        yield at_most("pilots given in hard worlds and wrong by more than 2x", 100 * wrong / tried, 10, " %", note)

    return Study({**HARD, **UNDETECTABLE}, measure, bars, shows, {"MDP": lambda world: world, "Gymnasium": SteppedMDP})


def easy(title: str, worlds: Worlds, wide: float, runs: int, times: Sequence[int]) -> Study:
    """Worlds in which intervals should not be wider than with own variances by more than `wide`."""

    def sizes(name: str) -> tuple[int, int, int]:
        """Steps of a pilot, pilots and runs."""
        return (LARGE, min(runs, 10), min(runs, 20)) if name in paper else (PILOT, min(runs, 20), runs)

    def measure(name: str) -> dict[str, Any]:
        asked, (steps, some, each) = worlds[name](), sizes(name)
        return outcome(asked[0], asked, each, times, compare=True) | pilots(asked[0], asked, some, steps)

    def texts(name: str, o: Mapping[str, Any]) -> tuple[str, str]:
        steps, some, _ = sizes(name)
        return "-" if np.isnan(o["slower"]) else f"{o['slower']:.2f}x", f"{some - o['refused']} of {some}, {steps:,} steps"

    def shows(found: Found) -> Iterator[Table]:
        heads = ("width", "newly infinite", "stop time", "pilots given", "forecast over truth")
        lines = []
        for name, o in found.items():
            rest = f"{o['width']:.3f}x", _percent(o["newly"]), *texts(name, o), _range(o["ratios"])
            lines.append((name, f"{sizes(name)[2]}", *_cells(o), *rest))
        columns = ("world", "runs", *(f"{t:,} steps" for t in times), *heads)
        yield table(f"{title}: coverage (share of finite ones)", columns, lines)

    def bars(found: Found) -> Iterator[Row]:
        last = f"after {times[-1]:,} steps"
        for name, o in found.items():
            slower, given = texts(name, o)
            note = f"coverage {_percent(o['cover'][-1])}, newly infinite {_percent(o['newly'])}, stop time {slower}"
            yield at_most(f"{name}: width", o["width"], wide, "x", note)
            yield at_most(f"{name}: misses", 100 * (1 - o["cover"][-1]), 7 if wide < 1.1 else 8, " %", last)
            if wide < 1.1:
                yield at_most(f"{name}: newly infinite", 100 * o["newly"], 3, " %", last)
                yield at_most(f"{name}: stop time", o["slower"], 1.3, "x", "median, over that with own variances")
                wrong = o["refused"] + sum(not 2 / 3 <= x <= 1.5 for x in o["ratios"])
                case = f"{name}: pilots refused or wrong by more than 1.5x"
                yield at_most(case, 100 * wrong / sizes(name)[1], 5, " %", given)

    return Study({name: name for name in worlds}, measure, bars, shows)


def lake_sweep(runs: int) -> Study:
    """FrozenLake 8x8: what behaviours that adapt do to intervals."""
    ways = ((gvfx.OptimalDesign(), 100_000), (gvfx.OptimalDesign(), 1_000_000), (gvfx.Uniform(), 1_000_000))

    def measure(way: tuple[gvfx.Behaviour, int]) -> dict[str, Any]:
        world, questions = _lake("8x8")
        truth = gvfx.exact.values(world, questions)[:, world.live]
        r = answered((world, questions), *way, seeds_from(FIRST_SEED, runs))
        errors, away = np.asarray(r.details.snapshots[-1].standard_errors)[:, :, world.live], r.values[:, :, world.live] - truth
        sure = np.isfinite(errors)
        shift = (away[sure & (errors > 0)] / errors[sure & (errors > 0)]).mean()
        cover = [float((np.abs(away) <= k * 1.96 * errors + 1e-12)[sure].mean()) for k in FACTORS]
        return {"cover": cover, "finite": float(sure.mean()), "shift": float(shift)}

    def shows(found: Found) -> Iterator[Table]:
        heads = (*(f"width x {k:g}" for k in FACTORS), "finite", "mean error over standard error")
        title = f"FrozenLake 8x8, {runs} runs: coverage if intervals were wider"
        lines = []
        for name, o in found.items():
            lines.append((*name.split(": "), *map(_percent, (*o["cover"], o["finite"])), f"{o['shift']:.2f}"))
        yield table(title, ("behaviour", "steps", *heads), lines)

    return Study({f"{type(b).__name__}: {steps:,}": (b, steps) for b, steps in ways}, measure, lambda found: (), shows)


def small_grid(runs: int) -> Study:
    """The mean return of ROS's small grid, with a discount of 1."""

    def shows(found: Found) -> Iterator[Table]:
        title = f"Mean return of the small grid (discount 1), {runs} seeds: relative squared error at the start"
        lines = (
            (f"{n:,}", *(f"{x:.2g}" for x in (e.mean(), np.median(e), np.quantile(e, 0.95), ROS_ERRORS[n])))
            for n, e in zip(GRID_BARS, found.values(), strict=True)
        )
        yield table(title, ("steps", "mean", "median", "95 % of runs below", "published (ROS, FQE)"), lines)

    def bars(found: Found) -> Iterator[Row]:
        for (steps, bar), each in zip(GRID_BARS.items(), found.values(), strict=True):
            note = f"median {np.median(each):.2g}"
            yield at_most(f"small grid after {steps:,} steps", float(each.mean()), bar, "", note)

    cases = {f"{steps:,} steps": steps for steps in GRID_BARS}
    return Study(cases, lambda steps: by_counts(None, steps, seeds_from(FIRST_SEED, runs)), bars, shows)


def interval_time(runs: int = 5) -> list[Row]:
    """Processor time of a run in `same` with its intervals, over that with intervals from own variances."""
    begun = time.process_time()
    (data,) = gvfx.evaluate(*paper_setting("same"), **at_end(LARGE, seed=FIRST_SEED)).details.models
    whole, spent = time.process_time() - begun, []
    for made in (own_errors, standard_errors):
        took = []
        for _ in range(runs):
            fresh = replace(data)
            begun = time.process_time()
            made(fresh)
            took.append(time.process_time() - begun)
        spent.append(min(took))
    note = f"intervals {1000 * spent[1]:.0f} ms, with own variances {1000 * spent[0]:.0f}"
    return [at_most("time of a run with intervals", whole / (whole - spent[1] + spent[0]), 1.1, "x", note)]


FEW = (4, TIMES[:2])
PARTS: dict[str, Part] = {
    "hard": sized(hard, (50, TIMES), FEW),
    "ordinary": sized(partial(easy, "Ordinary worlds", ORDINARY, 1.05), (50, (20_000, TIMES[-1])), FEW),
    "few_counts": sized(partial(easy, "Worlds with few counts", FEW_COUNTS, 1.3), (50, (30_000, TIMES[-1])), FEW),
    "lake": sized(lake_sweep, [50], [4]),
    "small_grid": sized(small_grid, [200], [16]),
    "time": sized_rows(interval_time),
}
