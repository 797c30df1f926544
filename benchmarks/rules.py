"""What each rule earns: the same seeds with all rules, and with one of them switched off.

behaviour: OptimalDesign without one rule of its directed search or of its plans: scores, MSE times steps over the constant of the
best stationary behaviour, without the rule over those with it, as ratios of geometric means over runs (the typical run) and of
means (which single failed runs decide).  intervals, decisions: of the value at the start, from the same data without one rule.
Development worlds have the numbers on which the rules were made, fresh ones numbers that nothing was chosen on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.special
from rich.table import Table

import gvfx
from benchmarks.common.worlds import CLASSES
from benchmarks.exploring import over_optimum
from benchmarks.study import Asked, Found, Part, Row, Study, answered, seeds_from, table
from gvfx.behaviours import optimal
from gvfx.behaviours.directed_search import Rules
from gvfx.behaviours.optimal import PlannedState
from gvfx.evidence import decisions, uncertainty, unseen
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Determinism
from gvfx.evidence.unseen import Unseen
from gvfx.questions.gvf import Stacked
from gvfx.running.result import standard_error
from gvfx.worlds.mdp import TableRows

LISTS = {"development": (1,), "fresh": (300, 301)}  # numbers of worlds of each class
WORLDS = {name: CLASSES[name] for name in ("current", "maze", "lock", "traps", "gate", "door", "deep sea")}
TIMES = (5_000, 20_000, 100_000)
FIRST_SEED, SEEDS = 21_000, 20
BEYOND = 2.6  # standard errors: what the largest of six is above by chance in less than 1 of 40 cases
EVERYTHING = "all rules"
Case = tuple[str, int]


def cases_of(quick: bool) -> dict[str, Case]:
    """The worlds of both lists; quick: the first two."""
    every = {f"{name} {k}": (name, k) for numbers in LISTS.values() for name in WORLDS for k in numbers}
    return dict(list(every.items())[:2]) if quick else every


def by_list(found: Found) -> dict[str, list[Any]]:
    """What was found in each of the development worlds and in each of the fresh ones."""
    lists = {name: [of for world, of in found.items() if int(world.split()[-1]) in LISTS[name]] for name in LISTS}
    return {name: worlds for name, worlds in lists.items() if worlds}


def asked_of(case: Case) -> Asked:
    name, number = case
    return WORLDS[name](number)


# --- OptimalDesign without one rule ----------------------------------------------------------------------------------

SEARCH: dict[str, Callable[[Rules], Rules]] = {
    "search for new states": lambda rules: rules._replace(hope=0.0),
    "levels of tries": lambda rules: rules._replace(levels=1),
    "search for untried pairs": lambda rules: rules._replace(untried=0.0),
    "retries": lambda rules: rules._replace(retries=0.0),
    "retries nearby": lambda rules: rules._replace(nearby=False),
    "guided episodes": lambda rules: rules._replace(slow=np.iinfo(np.int64).max),
}
SEARCHING = "the whole search"
DETERMINISM = "determinism"
PLANS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    DETERMINISM: ((optimal, "determinism", lambda data: Determinism(np.zeros(data.visits.shape), 0.0)),),
}
BEHAVIOUR = (SEARCHING, *SEARCH, DETERMINISM)


@dataclass(frozen=True)
class Without(gvfx.OptimalDesign):
    """OptimalDesign without a rule, one of BEHAVIOUR."""

    switched_off: str = EVERYTHING

    def begin(self, asked: Stacked, world: TableRows) -> PlannedState:
        state = super().begin(asked, world)
        search = state.search
        if self.switched_off in SEARCH:
            search = search._replace(rules=SEARCH[self.switched_off](search.rules))
        return state._replace(search=search)

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        with patched(self.switched_off):
            super().refresh(state, model)


def patched(rule: str) -> ExitStack:
    """Within it the library's functions lack a rule."""
    stack = ExitStack()
    for where, name, other in (PLANS | INTERVALS | DECISIONS).get(rule, ()):
        stack.enter_context(patch.object(where, name, other))
    return stack


def behaviour(quick: bool) -> Study:
    """Runs with all rules and without each."""
    seeds, times = (2, TIMES[:1]) if quick else (SEEDS, TIMES)

    def scores(worlds: Sequence[Any], rule: str) -> np.ndarray:
        return np.moveaxis(np.array([of[rule] for of in worlds]), 2, 0)  # [time, world, seed]

    def ratios(worlds: Sequence[Any], rule: str) -> list[tuple[float, float]]:
        """The typical ratio and that of means at each time, with their standard errors."""
        pairs = zip(scores(worlds, rule), scores(worlds, EVERYTHING), strict=True)
        return [ratio(other, own) for other, own in pairs for ratio in (typical_ratio, mean_ratio)]

    def shows(found: Found) -> Iterator[Table]:
        for name, worlds in by_list(found).items():
            title = f"{name} worlds ({len(worlds)}, {seeds} seeds): scores without a rule over those with all"
            heads = [f"{kind}, {t:,}" for t in times for kind in ("typical", "mean")]
            lines = ([rule, *(with_noise(*r) for r in ratios(worlds, rule))] for rule in BEHAVIOUR)
            yield table(title, ("without", *heads), lines)
        rows = ([name, *map(score, scores(worlds, EVERYTHING))] for name, worlds in by_list(found).items())
        title = "MSE times steps over the optimum with all rules: typical (mean)"
        yield table(title, ("worlds", *(f"{t:,} steps" for t in times)), rows)

    def bars(found: Found) -> Iterator[Row]:
        *_, worlds = by_list(found).values()
        for rule in BEHAVIOUR:
            by_clarity = sorted(ratios(worlds, rule), key=lambda r: (r[0] - 1) / max(r[1], 1e-9))
            (worst, noise), (ratio, error) = by_clarity[0], by_clarity[-1]
            note = f"the clearest of six columns, fresh worlds; the least clear is {with_noise(worst, noise)}"
            passed = bool(ratio - 1 > BEYOND * error)
            yield Row(f"{rule}: earns something", with_noise(ratio, error), f"> 1 by {BEYOND:g} errors", passed, note)

    ways = {name: partial(Without, switched_off=name) for name in (EVERYTHING, *BEHAVIOUR)}
    ways[SEARCHING] = partial(Without, search=0.0)
    measure = over_optimum(asked_of, times, seeds_from(FIRST_SEED, seeds))
    return Study(cases_of(quick), measure, bars, methods=ways, shows=shows, stays=True)


SMALLEST = 1e-3  # scores below it count as equal


def score(x: np.ndarray) -> str:
    return f"{np.exp(np.log(np.maximum(x, SMALLEST)).mean()):.3g} ({x.mean():.3g})"


def typical_ratio(other: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """The ratio of the geometric means of scores [world, seed], paired by seed, and its standard error over seeds."""
    apart = np.log(np.maximum(other, SMALLEST) / np.maximum(own, SMALLEST)).mean(axis=0)  # over worlds
    ratio = float(np.exp(apart.mean()))
    return ratio, ratio * float(standard_error(apart))


def mean_ratio(other: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """The ratio of the means, and its standard error over seeds by the delta method."""
    a, b = other.mean(axis=0), own.mean(axis=0)
    ratio = float(a.mean() / b.mean())
    return ratio, float(standard_error(a - ratio * b)) / float(b.mean())


def with_noise(ratio: float, error: float) -> str:
    return f"{ratio:.3g} ± {error:.1g}"


# --- intervals and decisions without one rule ------------------------------------------------------------------------


DELTA = ((uncertainty, "drawable", lambda data: False), (decisions, "drawable", lambda data: False))
INTERVALS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "draws of the world": DELTA,
    "pairs hardly tried": ((uncertainty, "hardly_tried", lambda data: np.zeros(data.visits.shape)),),
    "the unseen": ((Unseen, "added", lambda unseen, sides, unknown, over=None: np.zeros(sides.shape)),),
    "stakes": ((unseen, "AT_STAKE", np.inf),),
}
UNSHOWN = "outcomes not shown"
DECISIONS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    UNSHOWN: ((decisions, "stakes", lambda data, at: np.zeros(len(data.values))),),
    "draws of the world": DELTA,
}
NORMAL = float(scipy.special.ndtri(0.975))
INTERVAL_TIMES, DECISION_TIMES = (2_000, 20_000), (500, 1_000, 2_000)


def intervals(quick: bool) -> Study:
    """Intervals of the value at the start, by all rules and without each, from the same runs."""
    seeds = 3 if quick else SEEDS

    def measure(case: Case) -> dict[str, np.ndarray]:
        """For every rule [time, seed, gvf, (held, finite, width)]."""
        asked = asked_of(case)
        out: dict[str, list[np.ndarray]] = {rule: [] for rule in (EVERYTHING, *INTERVALS)}
        for steps in INTERVAL_TIMES:
            r = answered(asked, gvfx.OptimalDesign(), steps, seeds_from(FIRST_SEED, seeds))
            truth = r.details.truth[0] @ asked[0].start
            for rule, of in out.items():
                with patched(rule):
                    of.append(np.stack([_interval(model, truth) for model in r.details.models]))
        return {rule: np.stack(of) for rule, of in out.items()}

    def shows(found: Found) -> Iterator[Table]:
        for name, worlds in by_list(found).items():
            title = f"{name} worlds ({len(worlds)}, {seeds} seeds): 95 % intervals of values at the start"
            heads = [f"{what}, {t:,}" for t in INTERVAL_TIMES for what in ("held", "finite", "width")]
            yield table(title, ("without", *heads), (line(worlds, rule) for rule in (EVERYTHING, *INTERVALS)))

    def line(worlds: Sequence[Any], rule: str) -> list[str]:
        cells = [rule]
        for k in range(len(INTERVAL_TIMES)):
            own, every = ([of[name][k] for of in worlds] for name in (rule, EVERYTHING))
            held = np.array([np.nansum(np.where(x[..., 1] > 0, x[..., 0], 0), axis=1) for x in own])  # [world, seed]
            finite = np.array([x[..., 1].sum(axis=1) for x in own])
            share = float(held.sum() / finite.sum())
            noise = standard_error((held - share * finite).sum(axis=0)) / finite.sum(axis=0).mean()
            wider = np.concatenate([(x[..., 2] / y[..., 2])[(x[..., 1] > 0) & (y[..., 1] > 0)] for x, y in zip(own, every)])
            sizes = sum(x[..., 1].size for x in own)
            cells += [f"{share:.1%} ± {noise:.1%}", f"{finite.sum() / sizes:.0%}", f"{np.median(wider):.3g}"]
        return cells

    return Study(cases_of(quick), measure, shows=shows, stays=True)


def _interval(model: Empirical, truth: np.ndarray) -> np.ndarray:
    """Whether the interval of every question holds the truth, whether it is finite, and its width, [gvf, 3]."""
    value, error, _, below, above = uncertainty.start_values(model).T
    held = (truth >= value - NORMAL * below - ROUNDING) & (truth <= value + NORMAL * above + ROUNDING)
    return np.stack([held, np.isfinite(error), NORMAL * (below + above) + ROUNDING], axis=1)


ROUNDING = 1e-9


def decided(quick: bool) -> Study:
    """Whether the data of short runs decide which policy is better at the start, and whether wrongly."""
    seeds = 3 if quick else SEEDS

    def measure(case: Case) -> dict[str, np.ndarray]:
        """For every rule [seed, (decided rightly, wrongly) at some time]."""
        asked = asked_of(case)
        rule = gvfx.decided().on(asked[1])
        out = {name: np.zeros((seeds, 2)) for name in (EVERYTHING, *DECISIONS)}
        for steps in DECISION_TIMES:
            r = answered(asked, gvfx.OptimalDesign(), steps, seeds_from(FIRST_SEED, seeds))
            truth = r.details.truth[0] @ asked[0].start
            for name, of in out.items():
                with patched(name):
                    for seed, model in enumerate(r.details.models):
                        joint = decisions.joint_of(model, rule.groups)
                        if not of[seed].any() and rule.bound(joint, 0)[0] < 0:
                            best = int(joint.values.argmax())
                            of[seed, int(truth[best] < truth.max() - ROUNDING)] = 1
        return out

    def shows(found: Found) -> Iterator[Table]:
        for name, worlds in by_list(found).items():
            looks = f"decisions at {len(DECISION_TIMES)} looks within {DECISION_TIMES[-1]:,} steps"
            rows = (line(rule, np.stack([of[rule] for of in worlds])) for rule in (EVERYTHING, *DECISIONS))
            yield table(f"{name} worlds ({len(worlds)}, {seeds} seeds): {looks}", ("without", "decided", "wrongly"), rows)

    def line(rule: str, own: np.ndarray) -> list[str]:
        shares = own.sum(axis=2), own[..., 1]  # of [world, seed, 2]
        return [rule, *(f"{x.mean():.1%} ± {standard_error(x.mean(axis=0)):.1%}" for x in shares)]

    return Study(cases_of(quick), measure, shows=shows, stays=True)


PARTS: dict[str, Part] = {"behaviour": behaviour, "intervals": intervals, "decisions": decided}
