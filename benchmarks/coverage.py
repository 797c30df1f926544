"""Values at the start: how often their 95 % intervals hold, how wide they are beside plain Monte Carlo, and what they cost.

audits: audited values of runs, whose truth is exact for tables and elsewhere by Monte Carlo, its standard error added to the
intervals in quadrature; plain Monte Carlo spends *all* steps on rollouts, split evenly over policies.  logs: of logs, 30 % of
whose episodes followed the target policy, beside Student's t of their returns.  where: OptimalDesign for the start or one cell
against that for all states: errors as measured, by the importance of pairs over the visits (free of other chance), and in
the limit.  held: intervals of `result.value()` on two FrozenLakes.  states: intervals at all
states, at the start and of differences, beside the delta method's from the same runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

import gvfx
from benchmarks import study
from benchmarks.common.worlds import (
    CAREFUL,
    CLASSES,
    careful_policies,
    current,
    frozen_lake,
    garnet,
    made,
    paper_setting,
    random_world,
)
from benchmarks.study import Asked, Found, Part, Row, Study, answered, at_end, at_most, each, numbers, seeds_from, share_within
from gvfx.evidence.decisions import joint_of, quantiles
from gvfx.evidence.posterior import posterior
from gvfx.evidence.uncertainty import NORMAL, interval_errors, standard_errors, start_values
from gvfx.questions.where import WhereLike
from gvfx.running.backends import network_learner
from gvfx.theory.design import constant, importance_of, optimal
from gvfx.theory.importance import per_visit
from gvfx.worlds.conversion import SteppedMDP

DISCOUNT = 0.95
COVERED = (0.93, 0.97)

# --- plain Monte Carlo -----------------------------------------------------------------------------------------------

CUT = 1e-3  # of a discount's product, where a discounted episode is ended


class Stopping(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends after each step with probability 1 - DISCOUNT: sums of signals then have the mean of discounted ones."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or bool(self.np_random.random() >= DISCOUNT), truncated, info


def plain_half_widths(env: Any, questions: list[gvfx.GVF], rollouts: int, stopping: bool, steps: int) -> np.ndarray:
    """Half the width of 95 % intervals [gvf] if `steps` are spent on rollouts, split evenly over policies.

    Spreads and lengths are those of `rollouts` rollouts of each policy, which stop at random (`Stopping`), or else discount
    and go on to the end of the episode or until what follows counts less than `CUT`.
    """
    asked = [replace(q, discount=1.0) for q in questions] if stopping else questions
    lengths = [gvfx.GVF(q.policy, 1.0, 1.0, name=f"{q.name}: steps") for q in questions]
    longest = 10_000 if stopping else int(np.ceil(np.log(CUT) / np.log(DISCOUNT)))
    env = Stopping(env) if stopping else env
    found = gvfx.truth_of(env, [*asked, *lengths], max_episodes=rollouts, horizon=longest, seed=1)
    spread, length = found.standard_errors[: len(asked), 0] * np.sqrt(rollouts), found.values[len(asked) :, 0]
    n = np.maximum(2.0, steps / len({id(q.policy) for q in questions}) / length)
    return np.asarray(quantiles(0.025, n - 1) * spread / np.sqrt(n))


# --- audits of runs --------------------------------------------------------------------------------------------------

AUDIT_SEEDS = 7000
AUDITED = 0.15  # of the steps
ROLLOUTS, EPISODES = 1500, 200  # of the two kinds of plain Monte Carlo, per policy
TRUTH = 2000  # episodes of a truth by Monte Carlo, per policy
TIMED, REPEATED = 6, 3  # seeds for the cost, and runs of each


@dataclass(frozen=True, eq=False)
class Case:
    """An environment with its questions, and how it is run; quick: seeds with --quick."""

    env: str | None  # a registered name; None: the world
    questions: list[gvfx.GVF]
    steps: int
    seeds: int
    quick: int = 3
    learner: Any = None
    world: gvfx.MDP | None = None  # for the exact truth

    def make(self) -> Any:
        """A new environment."""
        return SteppedMDP(self.world, 64) if self.env is None else gymnasium.make(self.env)  # type: ignore[arg-type]

    def run(self, seed: int, audit: float) -> gvfx.Result:
        with study.quietly():
            return gvfx.evaluate(self.make(), self.questions, None, self.learner, **at_end(self.steps, seed=seed, audit=audit))

    def truth(self, episodes: int) -> tuple[np.ndarray, Any]:
        """The true values at the start and their standard errors, [gvf] each."""
        if self.world is not None:
            return gvfx.exact.values(self.world, self.questions) @ self.world.start, np.zeros(len(self.questions))
        found = gvfx.truth_of(self.make(), self.questions, max_episodes=episodes, horizon=200, seed=11)
        return found.values[:, 0], found.standard_errors[:, 0]


def audit_cases() -> dict[str, Case]:
    lake, careful = frozen_lake(DISCOUNT, careful_policies())
    cart, lottery = _cartpole(), _lottery()
    gamblers = {"seldom": 0.2, "even": 0.5, "often": 0.9}
    tickets = [gvfx.GVF([1 - p, p], gvfx.Reward(), DISCOUNT, name=name) for name, p in gamblers.items()]
    return {
        "CartPole, networks": Case("CartPole-v1", cart, 10_000, 70, learner=network_learner(cart, 10_000)),
        "CartPole, linear features": Case("CartPole-v1", cart, 5_000, 25),
        "Pendulum, Box actions": Case("Pendulum-v1", _pendulum(), 8_000, 25),
        "FrozenLake, tables": Case(None, careful, 10_000, 230, 20, world=lake),
        "rare event, tables": Case(None, tickets, 10_000, 230, 20, world=lottery),
    }


def _cartpole() -> list[gvfx.GVF]:
    """Policies that push towards the side to which the pole falls, the more surely the larger the gain."""

    def lean(gain: float) -> Callable[[np.ndarray], list[float]]:
        def probabilities(o: np.ndarray) -> list[float]:
            right = float(1 / (1 + np.exp(-gain * (10 * o[2] + o[3]))))
            return [1 - right, right]

        return probabilities

    policies = {name: lean(gain) for name, gain in (("loose", 0.5), ("soft", 1.5), ("firm", 5.0))}
    return study.every(policies, {"time upright": gvfx.Reward(), "distance": lambda o, a, o2: abs(float(o2[0]))}, DISCOUNT)


def _pendulum() -> list[gvfx.GVF]:
    def middle(gain: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda o: np.clip(-gain * o[:, 1:2] - 0.3 * gain * o[:, 2:3], -2, 2)

    policies = {name: gvfx.gaussian_policy(middle(gain), 0.5) for name, gain in (("loose", 2.0), ("damped", 6.0))}
    return study.every(policies, {"cost": gvfx.Reward(), "height": lambda o, a, o2: float(o2[0])}, DISCOUNT)


def _lottery() -> gvfx.MDP:
    """Five states in a ring; a ticket (action 1) in state 0 wins 50 in one of 100 cases, any other ticket costs 0.02."""
    following, prob = np.empty((5, 2, 2), np.int64), np.broadcast_to([0.99, 0.01], (5, 2, 2)).copy()
    following[:] = (np.arange(5)[:, None, None] + 1) % 5
    reward = np.broadcast_to([[0.05], [-0.02]], (5, 2, 2)).copy()
    reward[0, 1] = [0.0, 50.0]
    return gvfx.MDP(following, prob, np.full(5, 0.2), np.zeros(5, bool), reward=reward)


def cost(case: Case, seeds: int) -> float:
    """The processor time of runs with audits over that of runs without, less 1: the shortest runs of each seed, added up."""
    case.run(AUDIT_SEEDS, 0.0), case.run(AUDIT_SEEDS, AUDITED)  # compilation
    total = np.zeros(2)
    for seed in seeds_from(AUDIT_SEEDS, seeds):
        seconds = np.full((2, REPEATED), np.inf)
        for k in range(REPEATED):
            for which, audit in enumerate((0.0, AUDITED)):
                begun = time.process_time()
                case.run(seed, audit)
                seconds[which, k] = time.process_time() - begun
        total += seconds.min(axis=1)
    return float(total[1] / total[0]) - 1


def audits(cases: dict[str, Case], quick: bool) -> Study:
    """Runs with audits beside plain Monte Carlo; cells are (run, gvf)."""
    small = 10 if quick else 1

    def measure(case: Case) -> dict[str, Any]:
        truth, error = case.truth(TRUTH // small)
        found = [case.run(seed, AUDITED).details.audits for seed in seeds_from(AUDIT_SEEDS, case.quick if quick else case.seeds)]
        value, spread, freedom, rollouts = np.moveaxis(np.array([one[0] for one in found if one is not None])[..., :4], 2, 0)
        t = quantiles(0.025, freedom)
        inside = np.abs(value - truth) <= t * np.hypot(spread, error)
        stopped, discounted = (
            t * spread / np.maximum(plain_half_widths(case.make(), case.questions, n // small, stopping, case.steps), 1e-12)
            for n, stopping in ((ROLLOUTS, True), (EPISODES, False))
        )  # over 0 where all episodes have the same return
        return {
            "steps": case.steps,
            "cells": inside.size,
            "hold %": float(inside.mean()),
            "half-width over Monte Carlo": float(np.median(stopped)),
            "over discounted Monte Carlo": float(np.median(discounted)),
            "rollouts": float(rollouts.mean()),
            "extra time %": cost(case, 2 if quick else TIMED),
            "_over": stopped,
            "_truth_error": float((error / np.median(t * spread, axis=0)).max()),
        }

    def bars(found: Found) -> Iterator[Row]:
        rare = found["rare event, tables"]
        usual = [of for name, of in found.items() if not name.startswith("rare")]
        cells, worst = sum(of["cells"] for of in usual), numbers(found, "_truth_error").max()
        note = f"{cells:,} cells; the truth's standard error is at most {worst:.2g} half-widths"
        yield share_within("coverage of 95 % intervals", sum(of["hold %"] * of["cells"] for of in usual) / cells, *COVERED, note)
        yield share_within("coverage with rare events", rare["hold %"], COVERED[0], 1, f"{rare['cells']:,} cells")
        over = numbers(found, "half-width over Monte Carlo")
        note = ", ".join(f"{name} {middle:.2f}" for name, middle in zip(found, over, strict=True))
        yield at_most("half-width over Monte Carlo, median of the cases' medians", float(np.median(over)), 0.5, "x", note)
        middle = float(np.median(np.concatenate([of["_over"].ravel() for of in found.values()])))
        yield at_most("the same, median of all cells", middle, 0.5, "x", "two thirds of the cells are tables")
        other = float(np.median(numbers(found, "over discounted Monte Carlo")))
        yield Row("the same over discounted Monte Carlo, median of the cases", f"{other:.3g}x", "", None, "no bar")
        extra = {name: 100 * of["extra time %"] for name, of in found.items()}
        default = max(x for name, x in extra.items() if "networks" in name or "Box" in name)
        yield at_most("extra processor time, networks and Box actions", default, 10, "%", "audited by default; the larger")
        dearest = max(extra, key=lambda name: extra[name])
        yield at_most("extra processor time, worst case", extra[dearest], 10, "%", dearest)

    title = f"audited values at the start, {AUDITED:.0%} of the steps, 95 % intervals; seeds from {AUDIT_SEEDS}"
    return Study(cases, measure, bars, title)


# --- audits of logs --------------------------------------------------------------------------------------------------

LOG_SEEDS = 8000
LOG_EPISODES = (60, 300)
ON_POLICY, HORIZON = 0.3, 100  # of the episodes that follow the target policy; steps after which an episode is truncated
WIDTH = 1.2  # with few episodes, intervals of returns are too narrow


@dataclass(frozen=True)
class LogCase:
    """A world, the target policy [state, action], and the mean and the noise of the reward [state, action, successor]."""

    world: gvfx.MDP
    policy: np.ndarray
    mean: np.ndarray
    sd: float

    @property
    def truth(self) -> float:
        """The exact value at the start."""
        w = self.world
        world = gvfx.MDP(w.next, w.prob, w.start, w.terminal, reward=self.mean)
        question = gvfx.GVF(self.policy, gvfx.Reward(), DISCOUNT)
        return float(gvfx.exact.values(world, [question])[0] @ w.start)


def log_cases() -> dict[str, LogCase]:
    """FrozenLake, whose episodes begin in one state, and a random MDP with noisy rewards whose episodes begin in six."""
    lake, _ = frozen_lake(DISCOUNT, {})
    goal = 1.0 * (lake.next == 15) * ~lake.terminal[:, None, None]
    rng, P, last = np.random.default_rng(2), np.zeros((21, 3, 21)), np.arange(21) == 20
    P[:20, :, :20] = 0.95 * garnet(rng, 20, 3, 4)
    P[:, :, 20] = 1 - P[:, :, :20].sum(axis=2)
    world = gvfx.MDP.from_matrix(P, start=np.where(np.arange(21) < 6, 1 / 6, 0.0), terminal=last)
    paid = np.broadcast_to(rng.normal(size=(21, 3, 1)), world.next.shape)
    return {
        "FrozenLake": LogCase(lake, 0.9 * CAREFUL + 0.025, goal, 0.0),
        "random MDP": LogCase(world, rng.dirichlet(np.ones(3), size=21), paid, 0.5),
    }


def log_of(case: LogCase, episodes: int, seed: int) -> dict[str, list[object]]:
    """A log with episodes of random actions and, at random, of the target policy."""
    rng, world = np.random.default_rng(seed), case.world
    chosen, moves = np.cumsum(case.policy, axis=1), np.cumsum(world.prob, axis=2)
    columns: dict[str, list[object]] = {}
    for _ in range(episodes):
        on, s = rng.random() < ON_POLICY, int(rng.choice(world.states, p=world.start))
        for t in range(HORIZON):
            u, v = rng.random(2)
            a = min(int(np.searchsorted(chosen[s], u, "right")), world.actions - 1) if on else int(u * world.actions)
            k = min(int(np.searchsorted(moves[s, a], v, "right")), world.successors - 1)
            after = int(world.next[s, a, k])
            ends = bool(world.terminal[after])
            row = {"observation": s, "action": a, "next_observation": after, "terminated": ends}
            row |= {"reward": case.mean[s, a, k] + case.sd * rng.standard_normal(), "truncated": t == HORIZON - 1 and not ends}
            for name, entry in {**row, "policy": "target" if on else None}.items():
                columns.setdefault(name, []).append(entry)
            s = after
            if ends:
                break
    return columns


def returns_of(log: dict[str, list[object]]) -> np.ndarray:
    """The discounted returns of the episodes that followed the target policy."""
    out, weight, paid = [], 1.0, 0.0
    for policy, reward, ends, cut in zip(log["policy"], log["reward"], log["terminated"], log["truncated"], strict=True):
        if policy:
            paid, weight = paid + weight * float(reward), weight * DISCOUNT  # type: ignore[arg-type]
            if ends or cut:
                out.append(paid)
                paid, weight = 0.0, 1.0
    return np.array(out)


def log_intervals(case: LogCase, episodes: int, seeds: range) -> np.ndarray:
    """Over logs [5, log]: whether audited intervals and those of returns hold the truth, and half-widths: of both, of the answer.

    The last are infinite where the answer is not sure.
    """
    question, truth, rows = gvfx.GVF(case.policy, gvfx.Reward(), DISCOUNT, name="target"), case.truth, []
    for seed in seeds:
        log = log_of(case, episodes, seed)
        result = gvfx.evaluate_log({**log, "states": case.world.states, "actions": case.world.actions}, [question])
        audit, returns = result.audit()["target"], returns_of(log)
        half = float(quantiles(0.025, np.array(len(returns) - 1.0))) * returns.std(ddof=1) / np.sqrt(len(returns))
        assert result.details.starts is not None
        held = abs(audit.value - truth) <= audit.half, abs(returns.mean() - truth) <= half
        rows.append((*held, audit.half, half, 1.96 * result.details.starts[0, 0, 1]))
    return np.array(rows, float).T


def logs(many: int) -> Study:
    """Intervals from `many` logs of each size in each world."""

    def measure(case: LogCase, episodes: int) -> dict[str, Any]:
        held, plain, half, returns, own = log_intervals(case, episodes, seeds_from(LOG_SEEDS, many))
        sure = np.isfinite(own)
        return {
            "coverage %": held.mean(),
            "of returns %": plain.mean(),
            "half-width": np.median(half),
            "half-width of returns": np.median(returns),
            "ratio": np.median(half / returns),
            "the answer's own": np.median(own[sure]) if sure.any() else np.nan,
            "finite %": sure.mean(),
        }

    def bars(found: Found) -> Iterator[Row]:
        for name, of in found.items():
            covered = float(numbers(of, "coverage %").mean())
            yield share_within(f"{name}: coverage", covered, COVERED[0], 1, f"{many * len(of)} logs")
            widest = float(numbers(of, "ratio").max())
            yield at_most(f"{name}: half-width over that of returns", widest, WIDTH, "x", "largest median")

    title = f"95 % intervals of the value at the start from logs, {ON_POLICY:.0%} of whose episodes follow the policy"
    ways = {str(n): n for n in LOG_EPISODES}
    return Study(log_cases(), measure, bars, f"{title}: {many} logs each", ("world", "episodes"), ways)


# --- designs for the start -------------------------------------------------------------------------------------------

WHERE_SEEDS = 5000
HALF = 0.5  # of the error of the design for all states: the bar
HELD_TIMES = (5_000, 20_000, 100_000)
CELL = 210  # the middle of the paper's grids
WAYS: dict[str, tuple[Callable[[], gvfx.Behaviour], WhereLike]] = {
    "Uniform": (gvfx.Uniform, None),
    "OptimalDesign, all states": (gvfx.OptimalDesign, None),
    "OptimalDesign, start": (gvfx.OptimalDesign, "start"),
}


def lakes() -> dict[str, tuple[Asked, WhereLike]]:
    """Two worlds with one start state."""
    policies = {"random": [0.25] * 4, "eager": [0.1, 0.4, 0.4, 0.1]}
    return {f"FrozenLake {size}, start": (frozen_lake(0.99, policies, size), "start") for size in ("4x4", "8x8")}


def where(steps: int, seeds: int) -> Study:
    """Both designs with the same seeds: the paper's settings at their start (any cell) and in one cell, and the lakes."""
    settings = {name: paper_setting(name) for name in ("same", "distinct", "semi-greedy", "forty")}
    places: dict[str, WhereLike] = {"start": "start", f"cell {CELL}": [CELL]}
    cases = {f"{name}, {word}": (asked, at) for name, asked in settings.items() for word, at in places.items()} | lakes()

    def measure(case: tuple[Asked, WhereLike]) -> dict[str, float]:
        """Errors over those of the design for all states, and of both over the certified bound."""
        asked, at = case
        best, need, d = optimal(*asked, where=at), importance_of(*asked, where=at), gvfx.design.evaluation(asked[0], at)
        rival = constant(*asked, optimal(*asked).behaviour, where=at)
        squares, visited = [], []
        for place in (at, None):
            r = gvfx.evaluate(*asked, **at_end(steps, where=place, seeds=seeds_from(WHERE_SEEDS, seeds)))
            away = (r.values - r.details.truth) @ d  # both kinds of error are the same in one state
            squares.append(away**2 @ (r.details.weights / r.details.weights.sum()))
            visited.append(np.array([per_visit(need, np.maximum(n, 1)).sum() for n in r.visits]))
        over = [np.median(x) * steps / best.bound for x in visited]
        return {
            "mean of squares": squares[0].mean() / squares[1].mean(),
            "median of squares": np.median(squares[0]) / np.median(squares[1]),
            "by visits": np.median(visited[0] / visited[1]),
            "limit": best.constant / rival,
            "no behaviour below": best.bound / rival,
            "over the bound": over[0],
            "all states": over[1],
        }

    def bars(found: Found) -> Iterator[Row]:
        for word in places:
            middle, possible = np.median(numbers(found, "by visits", word)), np.median(1 / numbers(found, "all states", word))
            case = f"{word}, median of {len(numbers(found, 'limit', word))} cases: error over that of all states"
            yield at_most(case, middle, HALF, "x", f"by visits; no behaviour has less than {possible:.3g}x in the median")
        worst = float(numbers(found, "over the bound").max())
        yield at_most("largest error over what is possible", worst, 1.5, "x", "by visits, over the certified bound")

    title = f"error of what was asked for, over that of the design for all states: {steps:,} steps, {seeds} seeds"
    return Study(cases, measure, bars, title)


def held(runs: int) -> Study:
    """Intervals of start values over runs and questions: the share of the finite that hold the truth, and of the finite."""

    def measure(case: tuple[Asked, int], way: tuple[Callable[[], gvfx.Behaviour], WhereLike]) -> dict[str, float]:
        (asked, steps), (make, at) = case, way
        r = answered(asked, make(), steps, seeds_from(WHERE_SEEDS, runs), where=at)
        assert r.details.starts is not None
        value, error, truth, below, above = np.moveaxis(r.details.starts, 2, 0)
        finite = np.isfinite(error)
        inside = ((truth >= value - NORMAL * below) & (truth <= value + NORMAL * above))[finite]
        return {"hold %": float(inside.mean()) if inside.size else float("nan"), "finite %": float(finite.mean())}

    def bars(found: Found) -> Iterator[Row]:
        shares = numbers(each(found), "hold %")
        least, most = float(np.nanmin(shares)), float(np.nanmax(shares))
        case, kept = "coverage at the start, lowest and highest", bool(least >= COVERED[0] and most <= COVERED[1])
        yield Row(case, f"{100 * least:.0f}%, {100 * most:.0f}%", "93% to 97%", kept, "FrozenLake, table above")

    cases = {f"{name}: {steps:,}": (asked, steps) for name, (asked, _) in lakes().items() for steps in HELD_TIMES}
    title = f"95 % intervals of the value at the start that hold it, among the finite: {runs} runs"
    return Study(cases, measure, bars, title, ("world", "steps", "behaviour"), WAYS)


# --- intervals at every state ------------------------------------------------------------------------------------------

STATES_SEEDS = 6000
NO_TARGET = 1e12  # of the error, which every bound is below
LOOSE = {"random": [0.25] * 4, "eager": [0.1, 0.4, 0.4, 0.1]}


def rare(number: int) -> Asked:
    """Random dynamics in which half of the states have an action that leads, with a chance of 0.5 to 3 %, to one that pays 10."""
    rng = np.random.default_rng([number, 0x72617265])
    states, paid_at = int(rng.integers(15, 31)), 0
    P, paid = garnet(rng, states, 3, 3), rng.normal(0, 0.1, (states, 3))
    for s in rng.choice(states, states // 2, replace=False):
        a, chance = int(rng.integers(3)), rng.uniform(0.005, 0.03)
        P[s, a] *= 1 - chance
        P[s, a, paid_at] += chance
    paid[paid_at] = 10.0
    return made(P, paid, {name: rng.dirichlet(np.full(3, 2.0), size=states) for name in ("one", "other")}, 0.9, 100)


def lake(number: int) -> Asked:
    """A lake of 5 to 7 cells a side, a fifth of them holes, on which 10 to 60 % of the moves slip to the side."""
    rng = np.random.default_rng([number, 0x6C616B65])
    side, slip = int(rng.integers(5, 8)), rng.uniform(0.1, 0.6)
    desc = generate_random_map(side, seed=int(rng.integers(1 << 30)))
    world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1", desc=desc, success_rate=1 - slip))
    entered = np.bincount(world.next[~world.terminal][world.prob[~world.terminal] > 0], minlength=world.states) > 0
    live = world.live & (entered | (world.start > 0))
    world = gvfx.MDP(world.next, world.prob, world.start, world.terminal, 100, live, reward=world.reward)
    return world, [gvfx.GVF(pi, gvfx.Reward(), float(rng.choice([0.95, 0.99])), name=name) for name, pi in LOOSE.items()]


CASES = {  # makers of a number, and numbers of steps
    "FrozenLake 4x4": (lambda number: frozen_lake(DISCOUNT, LOOSE, "4x4"), (1_000, 2_000, 5_000, 20_000)),
    "random lakes": (lake, (5_000, 20_000)),
    "FrozenLake 8x8": (lambda number: frozen_lake(0.99, LOOSE, "8x8"), (20_000, 100_000)),
    "RiverSwim 6, 12, 20": (lambda number: current((6, 12, 20)[number % 3], 0.35, 0.05), (5_000,)),
    "rare transitions": (rare, (5_000, 30_000)),
    "random worlds": (random_world, (20_000,)),
    "chain against a current": (CLASSES["current"], (30_000,)),
    "maze": (CLASSES["maze"], (20_000,)),
    "lock": (CLASSES["lock"], (5_000,)),
    "corridor": (CLASSES["corridor"], (20_000,)),
    "taxi": (CLASSES["taxi"], (50_000,)),
    "gate": (CLASSES["gate"], (20_000,)),
}


def states(runs: int) -> Study:
    """Every case in `runs` worlds, with one seed each."""

    def one(asked: Asked, steps: int, seed: int) -> list[float]:
        """By draws and by the delta method the share of finite intervals that hold, then the share of finite ones, the width
        over the delta method's, squared errors of the draws' mean and of the answers, start values and the difference of the
        first and last question that hold, whether the error is below the bound of the stopping rule, and the share that holds
        of each of these two questions."""
        (model,) = answered(asked, gvfx.OptimalDesign(), steps, [seed]).details.models
        live, truth = asked[0].live, gvfx.exact.values(*asked)
        away = model.values - truth
        sides, delta = interval_errors(model)["sides"], standard_errors(model)
        rounding = 1e-9 * np.abs(truth) + 1e-12
        held = (away <= NORMAL * sides[..., 0] + rounding) & (-away <= NORMAL * sides[..., 1] + rounding)
        old = np.abs(away) <= NORMAL * delta + rounding
        known = np.isfinite(delta) & live
        moved = posterior(model).values.mean(axis=0) - truth
        width = sides.mean(axis=-1)[known & (delta > 0)].sum() / delta[known & (delta > 0)].sum()
        value, _, _, below, above = start_values(model).T
        off = value - truth @ asked[0].start
        start = (off <= NORMAL * below + 1e-9) & (-off <= NORMAL * above + 1e-9)
        joint = joint_of(model, [range(len(truth))]).known[0, -1]
        apart = abs(off[0] - off[-1]) <= NORMAL * joint + 1e-9 if len(off) > 1 and np.isfinite(joint) else np.nan
        shares = [x[known].mean() if known.any() else np.nan for x in (held, old)]
        errors = (moved[:, live] ** 2).mean(), (away[:, live] ** 2).mean()
        ends = [held[i][known[i]].mean() if known[i].any() else np.nan for i in (0, -1)]
        bound = gvfx.error_below(NO_TARGET).bound(model, 0)[0]
        stops = np.isfinite(bound) and bound > 0 and gvfx.error_below(1.001 * bound).bound(model, 0)[1]  # else for the unseen
        stop = (away[:, live] ** 2).mean() <= bound if stops else np.nan
        return [*shares, known[:, live].mean(), width, *errors, start[np.isfinite(below)].mean(), apart, stop, *ends]

    def measure(case: tuple[Callable[[int], Asked], int]) -> dict[str, float]:
        make, steps = case
        rows = np.array([one(make(100 + k), steps, STATES_SEEDS + k) for k in range(runs)], float)
        held, old, finite, width, mean, plain, start, apart, stop, first, last = (
            float(np.nanmean(x)) if np.isfinite(x).any() else np.nan for x in rows.T
        )
        return {
            "held %": held,
            "worst run %": float(np.nanmin(rows[:, 0])),
            "worst question %": min(first, last),
            "delta method %": old,
            "finite %": finite,
            "width over delta": width,
            "error of the mean": np.sqrt(mean / plain),
            "start %": start,
            "differences %": apart,
            "error below the bound %": stop,
        }

    def bars(found: Found) -> Iterator[Row]:
        for name, of in found.items():
            yield share_within(f"{name}: states", of["held %"], 0.91, 1, f"{runs} runs")

    cases = {f"{name}, {steps:,}": (make, steps) for name, (make, times) in CASES.items() for steps in times}
    title = f"95 % intervals of OptimalDesign's answers at all states: {runs} worlds or seeds, the share that holds"
    return Study(cases, measure, bars, title, ("world",))


PARTS: dict[str, Part] = {
    "audits": lambda quick: audits(audit_cases(), quick),
    "logs": study.sized(logs, [200], [25]),
    "where": study.sized(where, (200_000, 25), (50_000, 4)),
    "held": study.sized(held, [200], [20]),
    "states": study.sized(states, [40], [3]),
}
