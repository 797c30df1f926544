"""Which policy is better: intervals of differences, and `until=gvfx.decided()` against rolling out each policy in turn.

Differences: how often their 95 % intervals contain the truth, with uniform actions and with OptimalDesign, and how wide they are
beside two separate intervals of the same run, sqrt(se_i^2 + se_j^2): what the difference would have if its two values came
from separate data of this precision.  Decisions: the best of three or four policies, at 95 %: how often it is wrong, and its
steps over those of rollouts with a sequential test (`benchmarks.common.rollouts`).  Run it with `gvfx bench compare`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.rollouts import race
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.running.comparing import difference_errors

FIRST_SEED = 5000
FULL, QUICK = (200, 67), (25, 8)  # seeds of differences, and of decisions in each world
STEPS, MOST = 20_000, 1_000_000  # of differences; after which a decision is given up
CONFIDENCE = 0.95
COVERED = (0.93, 0.97)


@dataclass(frozen=True)
class Case:
    name: str
    world: gvfx.MDP
    questions: list[gvfx.GVF]


def cases() -> list[Case]:
    """Three worlds, and three or four policies in each that are variants of each other, as versions of a policy are."""
    return [_lake(), _grid(), _random()]


def _lake() -> Case:
    """The careful way over the ice, with more or less chance in it."""
    careful = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]
    policies = {name: (1 - share) * careful + share / 4 for name, share in (("careful", 0.05), ("loose", 0.2), ("loosest", 0.35))}
    world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1"))
    return Case("FrozenLake", world, [gvfx.GVF(pi, gvfx.Reward(), 0.95, name=name) for name, pi in policies.items()])


def _grid() -> Case:
    """A grid of 8 x 8 with a noisy goal; policies that drift towards it more or less."""
    world = gvfx.gridworld(8, goals={"goal": (0, 7)}, horizon=200)
    rows = {"fast": [0.1, 0.4, 0.4, 0.1], "high": [0.1, 0.35, 0.42, 0.13], "even": [0.14, 0.36, 0.36, 0.14]}
    goal = gvfx.Distractor(100, 5, at="goal")
    return Case("grid 8x8", world, [gvfx.GVF(row, goal, 0.95, name=name) for name, row in rows.items()])


def _random() -> Case:
    """Twenty states, each with four possible successors per action, and a random policy in four variants."""
    rng = np.random.default_rng(1)
    P = np.zeros((20, 3, 20))
    for s in range(20):
        for a in range(3):
            P[s, a, rng.choice(20, 4, replace=False)] = rng.dirichlet(np.ones(4))
    world = gvfx.MDP.from_matrix(P, start=np.eye(20)[0], horizon=100)
    paid = gvfx.table_cumulant(rng.normal(size=(20, 3)), np.full((20, 3), 0.5))
    old = rng.dirichlet(np.ones(3), size=20)
    policies = [0.8 * old + 0.2 * rng.dirichlet(np.ones(3), size=20) for _ in range(4)]
    return Case("random MDP", world, [gvfx.GVF(pi, paid, 0.95, name=f"policy {k + 1}") for k, pi in enumerate(policies)])


def coverage(case: Case, behaviour: gvfx.Behaviour, seeds: range, steps: int = STEPS) -> tuple[float, float, int]:
    """The share of intervals of differences that contain the truth, their median width over separate ones, and their number."""
    result = gvfx.evaluate(
        case.world, case.questions, behaviour, steps=steps, seeds=seeds, evaluate_every=steps, where="start", progress=False
    )
    errors = difference_errors(result)
    assert errors is not None and result.starts is not None
    k, m = np.triu_indices(len(case.questions), 1)
    value, truth = result.starts[:, :, 0], result.starts[:, :, 2]
    away = (value[:, k] - value[:, m]) - (truth[:, k] - truth[:, m])
    own = errors[:, k, m]
    separate = np.hypot(errors[:, k, k], errors[:, m, m])
    sure = np.isfinite(own)
    return float((np.abs(away) < 1.96 * own)[sure].mean()), float(np.median((own / separate)[sure])), int(sure.sum())


def decisions(case: Case, seeds: range) -> tuple[int, int, float, float]:
    """Wrong and open decisions, and the median steps of our runs and of rollouts."""
    truth = gvfx.exact.values(case.world, case.questions) @ case.world.start
    names = [q.name for q in case.questions]
    best = names[int(truth.argmax())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # runs that are not decided are counted
        result = gvfx.evaluate(
            case.world,
            case.questions,
            steps=MOST,
            seeds=seeds,
            until=gvfx.decided(confidence=CONFIDENCE),
            evaluate_every=MOST,
            progress=False,
        )
    assert result.stopped is not None and result.reached is not None
    said: list[list[str]] = result.experiment["decided"]  # type: ignore[assignment]
    wrong = sum(bool(ok) and f": {best} is the best" not in each[0] for ok, each in zip(result.reached, said, strict=True))
    rivals = [race(case.world, case.questions, seed, CONFIDENCE, MOST) for seed in seeds]
    return wrong, int((~result.reached).sum()), float(np.median(result.stopped)), float(np.median([r.steps for r in rivals]))


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure differences and decisions in every world; prints the tables."""
    many, few = QUICK if quick else FULL
    rows: list[Row] = []
    covered = Table(
        "world", "behaviour", "coverage", "width over separate intervals", title=f"differences, {STEPS:,} steps, {many} seeds"
    )
    made = Table("world", "wrong", "open", "steps", "steps of rollouts", "ratio", title=f"decisions at 95 %, {few} seeds")
    shares, widths, ratios, wrongs = [], [], [], 0
    with console.status("running") as status:
        for case in cases():
            for behaviour in (gvfx.Uniform(), gvfx.OptimalDesign()):
                name = type(behaviour).__name__
                status.update(f"{case.name}, {name}")
                share, width, count = coverage(case, behaviour, range(FIRST_SEED, FIRST_SEED + many))
                shares.append((share, count))
                widths.append(width)
                covered.add_row(case.name, name, f"{share:.1%}", f"{width:.3g}")
            wrong, left, own, rival = decisions(case, range(FIRST_SEED, FIRST_SEED + few))
            wrongs += wrong
            ratios.append(own / rival)
            made.add_row(case.name, str(wrong), str(left), f"{own:,.0f}", f"{rival:,.0f}", f"{own / rival:.3g}")
    console.print(covered)
    console.print(made)
    values, counts = map(np.array, zip(*shares, strict=True))
    share = float(values @ counts / counts.sum())
    low, high = COVERED
    note = f"{counts.sum():,} intervals; from {values.min():.1%} to {values.max():.1%}"
    rows.append(Row("differences: coverage", f"{share:.1%}", f"{low:.0%} to {high:.0%}", low <= share <= high, note))
    rows.append(
        at_most("differences: width over separate intervals", max(widths), 0.8, "x", "median over runs, of the worst world")
    )
    total = few * len(ratios)
    rows.append(at_most("decided(): wrong", 100 * wrongs / total, 5, "%", f"{wrongs} of {total}"))
    rows.append(at_most("decided(): steps over rollouts", max(ratios), 0.5, "x", "medians, of the worst world"))
    console.print(as_table(rows))
    console.print(machine())
    return rows
