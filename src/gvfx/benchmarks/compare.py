"""Which policy is better: intervals of differences, and `until=gvfx.decided()` against rolling out each policy in turn.

Differences: how often their 95 % intervals contain the truth, with uniform actions and with OptimalDesign, and how wide they are
beside separate intervals, in two readings: sqrt(se_i^2 + se_j^2) of the same run, what the difference would have if its two
values came from separate data of this precision; and two runs that share the steps, half each, and ask about one policy only.
Decisions: the best of three or four policies at 95 %, how often it is wrong, and its steps over those of rollouts with a
sequential test (`benchmarks.common.rollouts`); policies that are tied, with a margin; and policies against a threshold.
Run it with `gvfx bench compare`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.policy_cases import Case, cases, threshold, tied
from gvfx.benchmarks.common.rollouts import GROWTHS, RETURNS, race
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.evidence.decisions import Decided
from gvfx.running.comparing import difference_errors

FIRST_SEED = 5000
FULL, QUICK = (100, 15, 67, 25), (20, 3, 5, 3)  # seeds of differences, separate runs, decisions, and ties and thresholds
TIMES, MOST = (20_000, 100_000), 1_000_000  # steps of differences; after which a decision is given up
CONFIDENCE = 0.95
COVERED = (0.93, 0.97)


class Differences(NamedTuple):
    """How often intervals of differences contain the truth, their median width over separate ones, and their number."""

    covered: float
    width: float
    number: int


class Ended(NamedTuple):
    """Runs that end with a decision: the number of wrong and of open ones, and the steps of each."""

    wrong: int
    open: int
    steps: np.ndarray


def differences(case: Case, behaviour: gvfx.Behaviour, seeds: range, steps: int) -> Differences:
    """Intervals of all differences of a case after some steps."""
    value, errors, truth = _run(case.world, case.questions, behaviour, seeds, steps)
    k, m = np.triu_indices(len(case.questions), 1)
    away = (value[:, k] - value[:, m]) - (truth[k] - truth[m])
    own, separate = errors[:, k, m], np.hypot(errors[:, k, k], errors[:, m, m])
    sure = np.isfinite(own)
    covered = (np.abs(away) < 1.96 * own)[sure].mean()
    return Differences(float(covered), float(np.median(own[sure] / separate[sure])), int(sure.sum()))


def _run(
    world: gvfx.MDP, questions: list[gvfx.GVF], behaviour: gvfx.Behaviour, seeds: range, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values at the start [seed, gvf], standard errors of their differences [seed, gvf, gvf] and true values [gvf]."""
    result = gvfx.evaluate(
        world, questions, behaviour, steps=steps, seeds=seeds, evaluate_every=steps, where="start", progress=False
    )
    assert result.starts is not None
    errors = difference_errors(result)
    alone = result.starts[:, :, 1:2] if errors is None else errors  # [seed, 1, 1] of one question
    return result.starts[:, :, 0], alone, result.starts[0, :, 2]


def separately(case: Case, seeds: range, steps: int) -> tuple[float, float]:
    """One run about two policies over two runs of half the steps about one policy each, with OptimalDesign.

    The ratio of the median widths of intervals, and that of the root mean squared errors; medians over pairs of policies.
    """
    alone = [  # separate runs have seeds of their own
        _run(case.world, [q], gvfx.OptimalDesign(), range(seeds.start + 1000 * i, seeds.stop + 1000 * i), steps // 2)
        for i, q in enumerate(case.questions, 1)
    ]
    widths, errors = [], []
    for i in range(len(alone)):
        for j in range(i):
            value, own, truth = _run(case.world, [case.questions[j], case.questions[i]], gvfx.OptimalDesign(), seeds, steps)
            apart, both = truth[0] - truth[1], np.hypot(alone[i][1][:, 0, 0], alone[j][1][:, 0, 0])
            widths.append(np.median(own[:, 0, 1]) / np.median(both))
            together = value[:, 0] - value[:, 1] - apart
            rival = alone[j][0][:, 0] - alone[i][0][:, 0] - apart
            errors.append(np.sqrt((together**2).mean() / (rival**2).mean()))
    return float(np.median(widths)), float(np.median(errors))


def decisions(case: Case, rule: Decided, seeds: range, right: tuple[str, ...]) -> Ended:
    """Runs that end by a rule; right: what the sentence about the signal may contain, any of these."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # runs that are not decided are counted
        result = gvfx.evaluate(
            case.world, case.questions, steps=MOST, seeds=seeds, until=rule, evaluate_every=MOST, progress=False
        )
    assert result.stopped is not None and result.reached is not None
    said: list[list[str]] = result.experiment["decided"]  # type: ignore[assignment]
    wrong = sum(bool(ok) and not any(r in each[0] for r in right) for ok, each in zip(result.reached, said, strict=True))
    return Ended(wrong, int((~result.reached).sum()), result.stopped)


def best(case: Case, seeds: range) -> Ended:
    """Decisions for the best policy."""
    first = case.names[int(case.truth.argmax())]
    return decisions(case, gvfx.decided(confidence=CONFIDENCE), seeds, (f": {first} is the best",))


def ties(case: Case, seeds: range) -> Ended:
    """Decisions about two policies with equal values, with a margin; that one is above the other is wrong."""
    pair, margin = tied(case)
    return decisions(pair, gvfx.decided(margin=margin, confidence=CONFIDENCE), seeds, ("no difference above the margin",))


def sides(case: Case, seeds: range) -> Ended:
    """Decisions on which side of a threshold every policy is."""
    at, truth = threshold(case), case.truth
    first = case.names[int(truth.argmax())]
    right = f": {first} is above {at:g}, "
    return decisions(case, gvfx.decided(threshold=at, confidence=CONFIDENCE), seeds, (right,))


def rollouts(case: Case, seeds: range) -> tuple[int, float, str]:
    """Wrong decisions and median steps of rollouts, in the form (of returns and looks) with the fewest steps, and which it is."""
    first, found = int(case.truth.argmax()), []
    for returns in RETURNS:
        for growth in GROWTHS:
            ended = [race(case.world, case.questions, seed, CONFIDENCE, MOST, returns, growth) for seed in seeds]
            wrong = sum(each.best not in (None, first) for each in ended)
            found.append((float(np.median([each.steps for each in ended])), wrong, f"{returns}, looks x {growth:g}"))
    steps, wrong, form = min(found)
    return wrong, steps, form


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure differences and decisions in every world; prints the tables."""
    many, some, few, others = (range(FIRST_SEED, FIRST_SEED + n) for n in (QUICK if quick else FULL))
    with console.status("running") as status:
        rows = _differences(console, many, status.update) + _separate(console, some, status.update)
        rows += _decisions(console, few, status.update) + _others(console, others, status.update)
    console.print(as_table(rows))
    console.print(machine())
    return rows


def _differences(console: Console, seeds: range, say: Callable[[str], None]) -> list[Row]:
    table = Table(
        "world", "behaviour", "steps", "coverage", "width over separate intervals", title=f"differences, {len(seeds)} seeds"
    )
    found = []
    for case in cases():
        for behaviour in (gvfx.Uniform(), gvfx.OptimalDesign()):
            for steps in TIMES:
                name = type(behaviour).__name__
                say(f"{case.name}, {name}, {steps:,} steps")
                found.append(differences(case, behaviour, seeds, steps))
                table.add_row(case.name, name, f"{steps:,}", f"{found[-1].covered:.1%}", f"{found[-1].width:.3g}")
    console.print(table)
    covered, width, counts = map(np.array, zip(*found, strict=True))
    share = float(covered @ counts / counts.sum())
    low, high = COVERED
    note = f"{counts.sum():,} intervals; from {covered.min():.1%} to {covered.max():.1%}"
    return [
        Row("differences: coverage", f"{share:.1%}", f"{low:.0%} to {high:.0%}", low <= share <= high, note),
        at_most(
            "differences: width over separate intervals of the same run",
            float(np.median(width)),
            0.8,
            "x",
            f"median; from {width.min():.3g} to {width.max():.3g}",
        ),
    ]


def _separate(console: Console, seeds: range, say: Callable[[str], None]) -> list[Row]:
    steps = TIMES[0]
    table = Table(
        "world", "width", "error", title=f"one run over two separate runs of half its {steps:,} steps, {len(seeds)} seeds"
    )
    widths = []
    for case in cases():
        say(f"{case.name}, separate runs")
        width, error = separately(case, seeds, steps)
        widths.append(width)
        table.add_row(case.name, f"{width:.3g}", f"{error:.3g}")
    console.print(table)
    note = "the worst world"
    return [at_most("differences: width over two separate runs of half the steps", max(widths), 0.8, "x", note)]


def _decisions(console: Console, seeds: range, say: Callable[[str], None]) -> list[Row]:
    heads = ("world", "wrong", "open", "median steps", "of rollouts", "ratio", "rollouts: wrong", "rollouts: form")
    table = Table(*heads, title=f"the best policy, decided at 95 %, {len(seeds)} seeds")
    ratios, wrong, total = [], 0, 0
    for case in cases():
        say(f"{case.name}, decisions")
        own = best(case, seeds)
        say(f"{case.name}, rollouts")
        mistakes, rival, form = rollouts(case, seeds)
        ratios.append(float(np.median(own.steps)) / rival)
        wrong, total = wrong + own.wrong, total + len(seeds)
        counts = (str(own.wrong), str(own.open), f"{np.median(own.steps):,.0f}", f"{rival:,.0f}")
        table.add_row(case.name, *counts, f"{ratios[-1]:.3g}", str(mistakes), form)
    console.print(table)
    return [
        at_most("decided(): wrong", 100 * wrong / total, 5, "%", f"{wrong} of {total}"),
        at_most("decided(): steps over rollouts", max(ratios), 0.5, "x", "medians, of the worst world"),
    ]


def _others(console: Console, seeds: range, say: Callable[[str], None]) -> list[Row]:
    table = Table("world", "question", "wrong", "open", "median steps", title=f"ties and thresholds, {len(seeds)} seeds")
    rows = []
    for name, decide in (("a tie, with a margin", ties), ("a threshold", sides)):
        wrong = total = 0
        for case in cases():
            say(f"{case.name}, {name}")
            own = decide(case, seeds)
            wrong, total = wrong + own.wrong, total + len(seeds)
            table.add_row(case.name, name, str(own.wrong), str(own.open), f"{np.median(own.steps):,.0f}")
        rows.append(at_most(f"decided(), {name}: wrong", 100 * wrong / total, 5, "%", f"{wrong} of {total}"))
    console.print(table)
    return rows
