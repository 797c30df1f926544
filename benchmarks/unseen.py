"""Whether intervals, the stopping rule and plans know what was never seen: hard worlds, ordinary ones, and pilots.

A promise is broken if a run stopped by `error_below` has a larger error than its target; coverage is the share of finite 95 %
intervals that hold the truth.  "Own variance": the same theory without what pairs share and without the unseen.  Constants were
chosen on seeds below 1,000.  At full size it takes about an hour and a half on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import gvfx
from benchmarks import study
from benchmarks.common.published_worlds import ROS_ERRORS
from benchmarks.common.worlds import HARD, UNDETECTABLE, frozen_lake, garnet, jackpots, paper_setting, random_world
from benchmarks.exploring import by_counts
from benchmarks.study import Asked, Found, Part, Row, Study, at_end, at_most, each, numbers, seeds_from, sized
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

# --- intervals and the rule with each pair's own variance -------------------------------------------------------------


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


def stops(source: Any, asked: Asked, rule: ErrorBelow, runs: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The steps [run] after which the rule ends each run (0: never), and whether the error is then below its target."""
    world, questions = asked
    with study.quietly():
        r = gvfx.evaluate(source, questions, **at_end(most, seeds=seeds_from(FIRST_SEED, runs), until=rule))
    away = (r.values - gvfx.exact.values(world, questions))[:, :, world.live]
    assert r.stopped is not None and r.reached is not None
    return np.where(r.reached, r.stopped, 0), (away**2).mean(axis=(1, 2)) <= rule.target


def outcome(source: Any, asked: Asked, runs: int, times: Sequence[int], compare: bool = False) -> dict[str, Any]:
    """Runs to the end, and runs that a rule ends; compare: also with the rule and the intervals with own variances.

    cover, finite [time]: shares of the finite intervals that contain the truth, and of the finite.  broken, stopped [target]:
    runs with a larger error than promised, and that stopped.  With `compare`: newly, the share that is infinite and would be
    finite with own variances; width, over that with own variances where both are finite; slower, the median over runs and targets
    of the steps over those of the rule with own variances, where that kept its word.
    """
    world, questions = asked
    truth = gvfx.exact.values(world, questions)
    targets = [share * float((truth[:, world.live] ** 2).mean()) for share in TARGETS]
    with study.quietly():
        r = gvfx.evaluate(source, questions, **at_end(times[-1], seeds=seeds_from(FIRST_SEED, runs), snapshots=times))
    cover, finite = [], []
    for snapshot in r.details.snapshots:
        acted = snapshot.visits.sum(axis=2) > 0  # [seed, state]
        where = acted if isinstance(source, SteppedMDP) else np.broadcast_to(world.live, acted.shape)
        counted = np.broadcast_to(where[:, None], snapshot.values.shape)
        errors, missed = np.asarray(snapshot.standard_errors), np.abs(snapshot.values - truth)
        sure = np.isfinite(errors) & counted
        finite.append(sure.sum() / counted.sum())
        cover.append((missed <= 1.96 * errors + 1e-12)[sure].mean() if sure.any() else np.nan)
    ended = [stops(source, asked, gvfx.error_below(target), runs, times[-1]) for target in targets]
    broken = [((steps > 0) & ~kept).sum() for steps, kept in ended]
    stopped = [(steps > 0).sum() for steps, _ in ended]
    out = {"cover": np.array(cover), "finite": np.array(finite), "broken": np.array(broken), "stopped": np.array(stopped)}
    if not compare:
        return out
    before = np.stack([own_errors(m)[:, : errors.shape[2]] for m in r.details.models])
    both = np.isfinite(before) & sure & (before > 0)
    by_own = [stops(source, asked, OwnVariance(target), runs, times[-1]) for target in targets]
    later = [
        steps / own
        for (steps, _), (own, kept) in zip(ended, by_own, strict=True)
        for steps, own, kept in zip(steps, own, kept)
        if steps and own and kept
    ]
    return out | {
        "newly": (np.isfinite(before) & counted & ~sure).sum() / counted.sum(),
        "width": float(errors[both].mean() / before[both].mean()) if both.any() else np.nan,
        "slower": float(np.median(later)) if later else np.nan,
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


def _covered(o: Mapping[str, Any], times: Sequence[int]) -> dict[str, str]:
    """Coverage and, in brackets, the share of finite intervals at each time."""
    return {f"{t:,} steps": f"{_percent(c)} ({_percent(f)})" for t, c, f in zip(times, o["cover"], o["finite"], strict=True)}


def _range(ratios: Sequence[float]) -> str:
    return f"{ratios[0]:.2g} to {ratios[-1]:.2g}" if len(ratios) else "-"


def _hidden(o: Mapping[str, Any]) -> dict[str, Any]:
    return {f"_{name}": x for name, x in o.items()}


# --- studies ---------------------------------------------------------------------------------------------------------


def hard(runs: int, times: Sequence[int]) -> Study:
    """Hard worlds in both forms; one that cannot be detected is shown, without a bar."""
    some = min(runs, 20)

    def measure(make: Callable[[], Asked], form: Callable[[gvfx.MDP], Any]) -> dict[str, Any]:
        asked = make()
        source = form(asked[0])
        o = outcome(source, asked, runs, times) | pilots(source, asked, some, PILOT)
        promises = zip(TARGETS, o["broken"], o["stopped"], strict=True)
        broken = {f"{x:g}: broken, of stopped": f"{b} of {n}" for x, b, n in promises}
        given = {"pilots refused": f"{o['refused']} of {some}", "forecast over truth": _range(o["ratios"])}
        return _covered(o, times) | broken | given | _hidden(o)

    def bars(found: Found) -> Iterator[Row]:
        of = each({world: found[world] for world in HARD})
        broken, stopped = (int(numbers(of, name).sum()) for name in ("_broken", "_stopped"))
        yield at_most("broken promises", 100 * broken / max(1, stopped), 5, " %", f"{broken} of {stopped} runs that stopped")
        missed = {
            f"{name}, {t:,} steps": 100 * (1 - c) for name, o in of.items() for c, t in zip(o["_cover"], times, strict=True)
        }
        missed = {name: m for name, m in missed.items() if not np.isnan(m)}
        case = "intervals that miss, mean over worlds, forms and times"
        yield at_most(case, float(np.mean(list(missed.values()))), 10, " %", "finite ones")
        worst = max(missed, key=lambda name: (missed[name], name))
        low = sum(m > 100 * (1 - 0.9) for m in missed.values())
        note = f"{worst}; above 10 % in {low} of {len(missed)} cases"
        yield at_most("intervals that miss, worst", missed[worst], 10, " %", note)
        wrong, tried = sum(not 0.5 <= x <= 2 for o in of.values() for x in o["_ratios"]), some * len(of)
        case = "pilots given in hard worlds and wrong by more than 2x"
        yield at_most(case, 100 * wrong / tried, 10, " %", f"{wrong} of {tried}")

    title = (
        f"Hard worlds, {runs} runs: coverage (share of finite intervals), broken promises of `error_below`, pilots of {PILOT:,}"
    )
    forms = {"MDP": lambda world: world, "Gymnasium": SteppedMDP}
    return Study({**HARD, **UNDETECTABLE}, measure, bars, title, ("world", "form"), forms)


def easy(title: str, worlds: Worlds, wide: float, runs: int, times: Sequence[int]) -> Study:
    """Worlds in which intervals should not be wider than with own variances by more than `wide`."""

    def measure(name: str) -> dict[str, Any]:
        asked, large = worlds[name](), name in paper
        steps, some, many = (LARGE, min(runs, 10), min(runs, 20)) if large else (PILOT, min(runs, 20), runs)
        o = outcome(asked[0], asked, many, times, compare=True) | pilots(asked[0], asked, some, steps)
        wrong = o["refused"] + sum(not 2 / 3 <= x <= 1.5 for x in o["ratios"])
        return {
            "runs": many,
            **_covered(o, times),
            "width": f"{o['width']:.3f}x",
            "newly infinite %": o["newly"],
            "stop time": o["slower"],
            "pilots given": f"{some - o['refused']} of {some}, {steps:,} steps",
            "forecast over truth": _range(o["ratios"]),
            **_hidden(o),
            "_wrong": wrong / some,
        }

    def bars(found: Found) -> Iterator[Row]:
        last = f"after {times[-1]:,} steps"
        for name, o in found.items():
            newly, slower = 100 * o["newly infinite %"], o["stop time"]
            note = f"coverage {_percent(o['_cover'][-1])}, newly infinite {newly:.0f}%, stop time {slower:.2f}x"
            yield at_most(f"{name}: width", o["_width"], wide, "x", note)
            yield at_most(f"{name}: misses", 100 * (1 - o["_cover"][-1]), 7 if wide < 1.1 else 8, " %", last)
            if wide < 1.1:
                yield at_most(f"{name}: newly infinite", newly, 3, " %", last)
                yield at_most(f"{name}: stop time", slower, 1.3, "x", "median, over that with own variances")
                case = f"{name}: pilots refused or wrong by more than 1.5x"
                yield at_most(case, 100 * o["_wrong"], 5, " %", o["pilots given"])

    return Study({name: name for name in worlds}, measure, bars, f"{title}: coverage (share of finite ones)", ("world",))


def lake_sweep(runs: int) -> Study:
    """FrozenLake 8x8: what behaviours that adapt do to intervals."""
    ways = ((gvfx.OptimalDesign(), 100_000), (gvfx.OptimalDesign(), 1_000_000), (gvfx.Uniform(), 1_000_000))

    def measure(way: tuple[gvfx.Behaviour, int]) -> dict[str, float]:
        world, questions = _lake("8x8")
        truth = gvfx.exact.values(world, questions)[:, world.live]
        r = study.answered((world, questions), *way, seeds_from(FIRST_SEED, runs))
        errors, away = np.asarray(r.details.snapshots[-1].standard_errors)[:, :, world.live], r.values[:, :, world.live] - truth
        sure = np.isfinite(errors)
        shift = float((away[sure & (errors > 0)] / errors[sure & (errors > 0)]).mean())
        cover = {f"width x {k:g} %": float((np.abs(away) <= k * 1.96 * errors + 1e-12)[sure].mean()) for k in FACTORS}
        return {**cover, "finite %": float(sure.mean()), "mean error over standard error": shift}

    title = f"FrozenLake 8x8, {runs} runs: coverage if intervals were wider"
    cases = {f"{type(b).__name__}: {steps:,}": (b, steps) for b, steps in ways}
    return Study(cases, measure, title=title, names=("behaviour", "steps"))


def small_grid(runs: int) -> Study:
    """The mean return of ROS's small grid, with a discount of 1."""

    def measure(steps: int) -> dict[str, float]:
        e = by_counts(None, steps, seeds_from(FIRST_SEED, runs))
        summary = {"mean": e.mean(), "median": np.median(e), "95 % of runs below": np.quantile(e, 0.95)}
        return summary | {"published (ROS, FQE)": ROS_ERRORS[steps]}

    def bars(found: Found) -> Iterator[Row]:
        for (case, of), bar in zip(found.items(), GRID_BARS.values(), strict=True):
            yield at_most(f"small grid after {case}", of["mean"], bar, "", f"median {of['median']:.2g}")

    title = f"Mean return of the small grid (discount 1), {runs} seeds: relative squared error at the start"
    return Study({f"{steps:,} steps": steps for steps in GRID_BARS}, measure, bars, title, ("steps",))


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
    "time": study.sized_rows(interval_time),
}
