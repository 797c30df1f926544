"""Audited values at the start: how often their 95 % intervals hold, how wide they are beside plain Monte Carlo, and their cost.

Five cases: networks and linear features on CartPole, critics for Box actions on Pendulum, tables on FrozenLake, and tables in a
world where a rare event carries the value.  Truth is exact for tables; elsewhere it is Monte Carlo, whose standard error is added
to the intervals in quadrature.  Plain Monte Carlo spends *all* steps of a run on rollouts, split evenly over policies; it comes
in two kinds (`benchmarks.common.plain_rollouts`).  The cost is the processor time of runs with and without audits, with the same
number of steps.  Run it with `gvfx bench audits`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.plain_rollouts import plain
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.evidence.audits import quantile
from gvfx.questions.policies import PolicyLike
from gvfx.running.method import network_learner
from gvfx.worlds.stepped import SteppedMDP

FIRST_SEED = 7000
SHARE = 0.15
ROLLOUTS, EPISODES = 1500, 200  # of the two kinds of plain Monte Carlo, per policy
TRUTH = 2000  # episodes of a truth by Monte Carlo, per policy
TIMED, REPEATED = 6, 3  # seeds for the cost, and runs of each
COVERED = (0.93, 0.97)
DISCOUNT = 0.95


@dataclass(frozen=True, eq=False)
class Case:
    """An environment with its questions, and how it is run; quick: seeds with --quick."""

    name: str
    env: str | None  # a registered name; None: the world
    questions: list[gvfx.GVF]
    learner: Any
    steps: int
    seeds: int
    quick: int = 3
    world: gvfx.MDP | None = None  # for the exact truth
    rare: bool = False

    def make(self) -> Any:
        """A new environment."""
        return SteppedMDP(self.world, 64) if self.env is None else gymnasium.make(self.env)  # type: ignore[arg-type]

    @property
    def policies(self) -> int:
        return len({id(q.policy) for q in self.questions})


def cases() -> list[Case]:
    lake = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1"))
    cart, lottery = _cartpole(), _lottery()
    networks = network_learner(cart, 10_000)
    return [
        Case("CartPole, networks", "CartPole-v1", cart, networks, 10_000, 70),
        Case("CartPole, linear features", "CartPole-v1", cart, None, 5_000, 25),
        Case("Pendulum, Box actions", "Pendulum-v1", _pendulum(), None, 8_000, 25),
        Case("FrozenLake, tables", None, _lake(), None, 10_000, 230, 20, lake),
        Case("rare event, tables", None, _gamblers(), None, 10_000, 230, 20, lottery, rare=True),
    ]


def _lean(gain: float) -> PolicyLike:
    """Pushes towards the side to which the pole falls, the more surely the larger the gain."""

    def probabilities(o: np.ndarray) -> list[float]:
        right = float(1 / (1 + np.exp(-gain * (10 * o[2] + o[3]))))
        return [1 - right, right]

    return probabilities


def _cartpole() -> list[gvfx.GVF]:
    def distance(o: np.ndarray, a: int, o2: np.ndarray) -> float:
        return abs(float(o2[0]))

    out = []
    for name, gain in (("loose", 0.5), ("soft", 1.5), ("firm", 5.0)):
        policy = _lean(gain)
        out += [gvfx.GVF(policy, gvfx.Reward(), DISCOUNT, name=f"{name}: time upright")]
        out += [gvfx.GVF(policy, distance, DISCOUNT, name=f"{name}: distance")]
    return out


def _pendulum() -> list[gvfx.GVF]:
    def height(o: np.ndarray, a: np.ndarray, o2: np.ndarray) -> float:
        return float(o2[0])

    def middle(gain: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda o: np.clip(-gain * o[:, 1:2] - 0.3 * gain * o[:, 2:3], -2, 2)

    out = []
    for name, gain in (("loose", 2.0), ("damped", 6.0)):
        policy = gvfx.gaussian_policy(middle(gain), 0.5)
        out += [gvfx.GVF(policy, gvfx.Reward(), DISCOUNT, name=f"{name}: cost")]
        out += [gvfx.GVF(policy, height, DISCOUNT, name=f"{name}: height")]
    return out


def _lake() -> list[gvfx.GVF]:
    """The careful way over the ice, with more or less chance in it."""
    careful = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]
    shares = (("careful", 0.05), ("loose", 0.2), ("loosest", 0.35))
    return [gvfx.GVF((1 - share) * careful + share / 4, gvfx.Reward(), DISCOUNT, name=name) for name, share in shares]


def _lottery() -> gvfx.MDP:
    """Five states in a ring; a ticket (action 1) in state 0 wins 50 in one of 100 cases, any other ticket costs 0.02."""
    next_, prob, reward = np.zeros((5, 2, 2), np.int64), np.zeros((5, 2, 2)), np.zeros((5, 2, 2))
    for s in range(5):
        next_[s] = (s + 1) % 5
        prob[s] = [0.99, 0.01]
        reward[s, 0], reward[s, 1] = 0.05, -0.02
    reward[0, 1] = [0.0, 50.0]
    return gvfx.MDP(next=next_, prob=prob, start=np.full(5, 0.2), terminal=np.zeros(5, bool), reward=reward)


def _gamblers() -> list[gvfx.GVF]:
    chances = (("seldom", 0.2), ("even", 0.5), ("often", 0.9))
    return [gvfx.GVF([1 - p, p], gvfx.Reward(), DISCOUNT, name=name) for name, p in chances]


class Found(NamedTuple):
    """One case: all cells [run, gvf]."""

    inside: np.ndarray  # bool
    finite: np.ndarray  # bool
    over: np.ndarray  # half-widths over those of Monte Carlo that stops
    over_discounted: np.ndarray
    answers: np.ndarray  # bool: whether the answer itself lies in the interval
    rollouts: float  # per question
    truth_error: float  # largest standard error of the truth over the median half-width of its question


def truth_at_start(case: Case, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The true values at the start and their standard errors, [gvf] each."""
    if case.world is not None:
        return gvfx.exact.values(case.world, case.questions) @ case.world.start, np.zeros(len(case.questions))
    found = gvfx.truth_of(case.make(), case.questions, max_episodes=episodes, horizon=200, seed=11)
    return found.values[:, 0], found.standard_errors[:, 0]


def run_once(case: Case, seed: int, audit: float) -> gvfx.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gvfx.evaluate(
            case.make(),
            case.questions,
            None,
            case.learner,
            steps=case.steps,
            seed=seed,
            audit=audit,
            evaluate_every=case.steps,
            progress=False,
        )


def measured(case: Case, seeds: range, episodes: int, rollouts: tuple[int, int]) -> Found:
    """Run a case with audits, and compare with plain Monte Carlo."""
    truth, error = truth_at_start(case, episodes)
    audits, answers = [], []
    for seed in seeds:
        result = run_once(case, seed, SHARE)
        assert result.audits is not None and result.starts is not None
        audits.append(result.audits[0])
        answers.append(result.starts[0, :, 0])
    value, own, freedom = np.moveaxis(np.array(audits)[:, :, :3], 2, 0)
    finite = np.isfinite(own)
    t = quantile(freedom, 0.95)
    half = t * own
    inside = np.abs(value - truth) <= t * np.hypot(own, error)
    kinds = [plain(case.make(), case.questions, n, stopping) for n, stopping in zip(rollouts, (True, False), strict=True)]
    ways = [kind.half_widths(case.steps, case.policies) for kind in kinds]
    return Found(
        inside,
        finite,
        half / ways[0],
        half / np.maximum(ways[1], 1e-12),  # 0 where all episodes have the same return
        np.abs(np.array(answers) - value) <= half,
        float(np.array(audits)[:, :, 3].mean()),
        float((error / np.median(half, axis=0)).max()),
    )


def cost(case: Case, seeds: int) -> float:
    """The processor time of runs with audits over that of runs without, less 1: the shortest runs of each seed, added up."""
    run_once(case, FIRST_SEED, 0.0), run_once(case, FIRST_SEED, SHARE)  # compilation
    total = np.zeros(2)
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        seconds = np.full((2, REPEATED), np.inf)
        for k in range(REPEATED):
            for which, audit in enumerate((0.0, SHARE)):
                begun = time.process_time()
                run_once(case, seed, audit)
                seconds[which, k] = time.process_time() - begun
        total += seconds.min(axis=1)
    return float(total[1] / total[0]) - 1


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure all cases; prints the tables."""
    title = f"audited values at the start, {SHARE:.0%} of the steps, 95 % intervals; seeds from {FIRST_SEED}"
    columns = ("cells", "hold", "half-width over Monte Carlo", "over discounted Monte Carlo", "rollouts", "extra time")
    table = Table("case", "steps", *columns, title=title, title_justify="left")
    found, costs = {}, {}
    with console.status("running") as status:
        for case in cases():
            status.update(case.name)
            seeds = range(FIRST_SEED, FIRST_SEED + (case.quick if quick else case.seeds))
            small = 10 if quick else 1
            f = found[case] = measured(case, seeds, TRUTH // small, (ROLLOUTS // small, EPISODES // small))
            costs[case] = cost(case, 2 if quick else TIMED)
            wide, other = (float(np.median(each)) for each in (f.over, f.over_discounted))
            cells = (f"{f.inside.size:,}", f"{f.inside.mean():.1%}", f"{wide:.2f}", f"{other:.2f}", f"{f.rollouts:.0f}")
            table.add_row(case.name, f"{case.steps:,}", *cells, f"{costs[case]:+.1%}")
    console.print(table)
    rows = _rows(found, costs)
    console.print(as_table(rows))
    console.print(machine())
    return rows


def _rows(found: dict[Case, Found], costs: dict[Case, float]) -> list[Row]:
    usual = np.concatenate([f.inside.ravel() for case, f in found.items() if not case.rare])
    rare = np.concatenate([f.inside.ravel() for case, f in found.items() if case.rare])
    (low, high), share = COVERED, float(usual.mean())
    worst = max(f.truth_error for f in found.values())
    note = f"{usual.size:,} cells; the truth's standard error is at most {worst:.2g} half-widths"
    over = sorted(float(np.median(f.over)) for f in found.values())
    medians = ", ".join(f"{case.name} {np.median(f.over):.2f}" for case, f in found.items())
    discounted = float(np.median([np.median(f.over_discounted) for f in found.values()]))
    cells = float(np.median(np.concatenate([f.over.ravel() for f in found.values()])))
    default = [extra for case, extra in costs.items() if "networks" in case.name or "Box" in case.name]
    dearest = max(costs, key=lambda case: costs[case])
    return [
        Row("coverage of 95 % intervals", f"{share:.1%}", f"{low:.0%} to {high:.0%}", low <= share <= high, note),
        Row("coverage with rare events", f"{rare.mean():.1%}", f">= {low:.0%}", bool(rare.mean() >= low), f"{rare.size:,} cells"),
        at_most("half-width over Monte Carlo, median of the cases' medians", float(np.median(over)), 0.5, "x", medians),
        Row("the same, median of all cells", f"{cells:.3g}x", "<= 0.5x", cells <= 0.5, "two thirds of the cells are tables"),
        Row("the same over discounted Monte Carlo, median of the cases", f"{discounted:.3g}x", "", None, "no bar"),
        at_most("extra processor time, networks and Box actions", 100 * max(default), 10, "%", "audited by default; the larger"),
        at_most("extra processor time, worst case", 100 * max(costs.values()), 10, "%", f"{dearest.name}"),
    ]
