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
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import scipy.special
from rich.table import Table

import gvfx
from benchmarks import study
from benchmarks.common.worlds import CAREFUL, CLASSES, careful_policies, frozen_lake, garnet, made, paper_setting, random_world
from benchmarks.study import Asked, Found, Part, Row, Study, answered, at_end, at_most, every, seeds_from, share_within, table
from gvfx.evidence.decisions import joint_of, quantiles
from gvfx.evidence.posterior import posterior
from gvfx.evidence.uncertainty import NORMAL, interval_errors, standard_errors, start_values
from gvfx.questions.reader import Gaussians, Reader, Targets
from gvfx.questions.where import WhereLike
from gvfx.running.backends import network_learner
from gvfx.theory.design import constant, importance_of, optimal
from gvfx.theory.importance import per_visit
from gvfx.worlds.conversion import SteppedMDP
from gvfx.worlds.spec import BoxActionSpec, DiscreteSpec, spec_of

DISCOUNT = 0.95
COVERED = (0.93, 0.97)

# --- plain Monte Carlo -----------------------------------------------------------------------------------------------

CUT = 1e-3  # of a discount's product, where a discounted episode is ended


class Walker:
    """Follows the target policies of questions with one constant discount in a plain environment."""

    def __init__(self, env: Any, questions: list[gvfx.GVF], seed: int) -> None:
        spec = spec_of(env)
        table = spec if isinstance(spec, DiscreteSpec) else None
        self.env, self.rng = env, np.random.default_rng([seed, 0x706C])
        self.reader = Reader(questions, table, seed)
        self.targets: Targets | Gaussians
        if isinstance(spec, BoxActionSpec):
            self.targets = Gaussians(questions, spec)
        else:
            self.targets = Targets(questions, int(env.action_space.n), table.skeleton.states if table else None)
        self.env.reset(seed=seed)

    def action(self, policy: int, observation: Any) -> Any:
        if isinstance(self.targets, Gaussians):
            return self.targets.sample(policy, observation, self.rng)
        pi = self.targets.each(np.array([observation]))[policy][0]
        return int(np.searchsorted(np.cumsum(pi), self.rng.random() * pi.sum(), side="right"))

    def returns(self, policy: int, gamma: float, stopping: bool) -> tuple[np.ndarray, int]:
        """The return of one rollout [gvf], and its steps."""
        (observation, _), total, weight, steps = self.env.reset(), np.zeros(len(self.reader.names)), 1.0, 0
        while True:
            action = self.action(policy, observation)
            following, reward, terminated, truncated, info = self.env.step(action)
            c, _ = self.reader.transition(observation, action, float(reward), following, bool(terminated), info)
            total, steps, weight = total + weight * c, steps + 1, weight * (1.0 if stopping else gamma)
            if terminated or truncated or (self.rng.random() >= gamma if stopping else weight < CUT):
                return total, steps
            observation = following


def plain_half_widths(env: Any, questions: list[gvfx.GVF], rollouts: int, stopping: bool, steps: int) -> np.ndarray:
    """Half the width of 95 % intervals [gvf] if `steps` are spent on rollouts, split evenly over policies.

    Spreads and lengths are those of `rollouts` rollouts of each policy.  A rollout stops after each step with probability
    1 - gamma and sums its cumulants, or else discounts them, to its end or until what follows counts less than `CUT`.
    """
    (gamma,) = {float(q.discount) for q in questions}  # type: ignore[arg-type]
    walker, spread, length = Walker(env, questions, 1), np.zeros(len(questions)), np.zeros(len(questions))
    policies = len(walker.targets.distinct)
    for policy in range(policies):
        mine = walker.targets.member == policy
        found = [walker.returns(policy, gamma, stopping) for _ in range(rollouts)]
        spread[mine] = np.std([total for total, _ in found], axis=0, ddof=1)[mine]
        length[mine] = np.mean([taken for _, taken in found])
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
    return every(policies, {"time upright": gvfx.Reward(), "distance": lambda o, a, o2: abs(float(o2[0]))}, DISCOUNT)


def _pendulum() -> list[gvfx.GVF]:
    def middle(gain: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda o: np.clip(-gain * o[:, 1:2] - 0.3 * gain * o[:, 2:3], -2, 2)

    policies = {name: gvfx.gaussian_policy(middle(gain), 0.5) for name, gain in (("loose", 2.0), ("damped", 6.0))}
    return every(policies, {"cost": gvfx.Reward(), "height": lambda o, a, o2: float(o2[0])}, DISCOUNT)


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
        value, spread, freedom, rollouts = np.moveaxis(np.array([each[0] for each in found if each is not None])[..., :4], 2, 0)
        t = quantiles(0.025, freedom)
        stopped, discounted = (
            plain_half_widths(case.make(), case.questions, n // small, stopping, case.steps)
            for n, stopping in ((ROLLOUTS, True), (EPISODES, False))
        )
        return {
            "inside": np.abs(value - truth) <= t * np.hypot(spread, error),
            "over": t * spread / stopped,
            "over_discounted": t * spread / np.maximum(discounted, 1e-12),  # 0 where all episodes have the same return
            "rollouts": float(rollouts.mean()),
            "truth_error": float((error / np.median(t * spread, axis=0)).max()),
            "extra": cost(case, 2 if quick else TIMED),
        }

    def shows(found: Found) -> Iterator[Table]:
        title = f"audited values at the start, {AUDITED:.0%} of the steps, 95 % intervals; seeds from {AUDIT_SEEDS}"
        columns = ("cells", "hold", "half-width over Monte Carlo", "over discounted Monte Carlo", "rollouts", "extra time")
        lines = []
        for name, f in found.items():
            widths = (f"{np.median(f[of]):.2f}" for of in ("over", "over_discounted"))
            counts = (f"{cases[name].steps:,}", f"{f['inside'].size:,}", f"{f['inside'].mean():.1%}")
            lines.append((name, *counts, *widths, f"{f['rollouts']:.0f}", f"{f['extra']:+.1%}"))
        yield table(title, ("case", "steps", *columns), lines)

    def bars(found: Found) -> Iterator[Row]:
        rare = found["rare event, tables"]["inside"]
        usual = np.concatenate([f["inside"].ravel() for name, f in found.items() if not name.startswith("rare")])
        worst = max(f["truth_error"] for f in found.values())
        note = f"{usual.size:,} cells; the truth's standard error is at most {worst:.2g} half-widths"
        yield share_within("coverage of 95 % intervals", float(usual.mean()), *COVERED, note)
        yield share_within("coverage with rare events", float(rare.mean()), COVERED[0], 1, f"{rare.size:,} cells")
        medians = {name: float(np.median(f["over"])) for name, f in found.items()}
        each = ", ".join(f"{name} {middle:.2f}" for name, middle in medians.items())
        middle = float(np.median(list(medians.values())))
        yield at_most("half-width over Monte Carlo, median of the cases' medians", middle, 0.5, "x", each)
        cells = float(np.median(np.concatenate([f["over"].ravel() for f in found.values()])))
        yield at_most("the same, median of all cells", cells, 0.5, "x", "two thirds of the cells are tables")
        other = float(np.median([np.median(f["over_discounted"]) for f in found.values()]))
        yield Row("the same over discounted Monte Carlo, median of the cases", f"{other:.3g}x", "", None, "no bar")
        extra = {name: 100 * f["extra"] for name, f in found.items()}
        default = max(x for name, x in extra.items() if "networks" in name or "Box" in name)
        yield at_most("extra processor time, networks and Box actions", default, 10, "%", "audited by default; the larger")
        dearest = max(extra, key=lambda name: extra[name])
        yield at_most("extra processor time, worst case", extra[dearest], 10, "%", dearest)

    return Study(cases, measure, bars, shows)


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

    def measure(case: LogCase, episodes: int) -> np.ndarray:
        return log_intervals(case, episodes, seeds_from(LOG_SEEDS, many))

    def shows(found: Found) -> Iterator[Table]:
        title = f"95 % intervals of the value at the start from logs, {ON_POLICY:.0%} of whose episodes follow the policy"
        columns = ("world", "episodes", "coverage", "of returns", "half-width", "of returns", "ratio", "the answer's own")
        lines = []
        for name, sizes in found.items():
            for episodes, (covered, plain, half, returns, own) in sizes.items():
                sure = np.isfinite(own)
                middle = f"{np.median(own[sure]):.3g} " if sure.any() else ""
                widths = (f"{np.median(x):.3g}" for x in (half, returns, half / returns))
                shares = (f"{x.mean():.1%}" for x in (covered, plain))
                lines.append((name, episodes, *shares, *widths, f"{middle}({sure.mean():.0%} finite)"))
        yield table(f"{title}: {many} logs each", columns, lines)

    def bars(found: Found) -> Iterator[Row]:
        for name, sizes in found.items():
            covered = float(np.mean([m[0].mean() for m in sizes.values()]))
            yield share_within(f"{name}: coverage", covered, COVERED[0], 1, f"{many * len(sizes)} logs")
            ratio = max(float(np.median(m[2] / m[3])) for m in sizes.values())
            yield at_most(f"{name}: half-width over that of returns", ratio, WIDTH, "x", "largest median")

    return Study(log_cases(), measure, bars, shows, {str(n): n for n in LOG_EPISODES})


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


class Ratios(NamedTuple):
    """Errors over those of the design for all states, and of both over the certified bound."""

    mean: float  # of the squared errors
    median: float
    by_visits: float
    limit: float
    bound: float
    own: float  # by visits, over what is possible
    all_states: float


def lakes() -> dict[str, tuple[Asked, WhereLike]]:
    """Two worlds with one start state."""
    policies = {"random": [0.25] * 4, "eager": [0.1, 0.4, 0.4, 0.1]}
    return {f"FrozenLake {size}, start": (frozen_lake(0.99, policies, size), "start") for size in ("4x4", "8x8")}


def where(steps: int, seeds: int) -> Study:
    """Both designs with the same seeds: the paper's settings at their start (any cell) and in one cell, and the lakes."""
    settings = {name: paper_setting(name) for name in ("same", "distinct", "semi-greedy", "forty")}
    places: dict[str, WhereLike] = {"start": "start", f"cell {CELL}": [CELL]}
    cases = {f"{name}, {word}": (asked, at) for name, asked in settings.items() for word, at in places.items()} | lakes()

    def measure(case: tuple[Asked, WhereLike]) -> list[float]:
        asked, at = case
        best, need, d = optimal(*asked, where=at), importance_of(*asked, where=at), gvfx.design.evaluation(asked[0], at)
        rival = constant(*asked, optimal(*asked).behaviour, where=at)
        measured, visited = [], []
        for place in (at, None):
            r = gvfx.evaluate(*asked, **at_end(steps, where=place, seeds=seeds_from(WHERE_SEEDS, seeds)))
            away = (r.values - r.details.truth) @ d  # both kinds of error are the same in one state
            measured.append(away**2 @ (r.details.weights / r.details.weights.sum()))
            visited.append(np.array([per_visit(need, np.maximum(n, 1)).sum() for n in r.visits]))
        (own, other), (ours, theirs) = measured, visited
        over = (float(np.median(x)) * steps / best.bound for x in visited)
        middle = np.median(own) / np.median(other), np.median(ours / theirs)
        return [float(x) for x in (own.mean() / other.mean(), *middle, best.constant / rival, best.bound / rival, *over)]

    def shows(found: Found) -> Iterator[Table]:
        title = f"error of what was asked for, over that of the design for all states: {steps:,} steps, {seeds} seeds"
        columns = ("mean of squares", "median of squares", "by visits", "limit", "no behaviour below", "over the bound")
        yield table(title, ("case", *columns, "all states"), ((n, *(f"{x:.3g}" for x in r)) for n, r in found.items()))

    def bars(found: Found) -> Iterator[Row]:
        all_cases = {name: Ratios(*each) for name, each in found.items()}
        for word in ("start", f"cell {CELL}"):
            own = [r for name, r in all_cases.items() if name.endswith(word)]
            middle, possible = float(np.median([r.by_visits for r in own])), float(np.median([1 / r.all_states for r in own]))
            note = f"by visits; no behaviour has less than {possible:.3g}x in the median"
            yield at_most(f"{word}, median of {len(own)} cases: error over that of all states", middle, HALF, "x", note)
        worst = max(r.own for r in all_cases.values())
        yield at_most("largest error over what is possible", worst, 1.5, "x", "by visits, over the certified bound")

    return Study(cases, measure, bars, shows)


def held(runs: int) -> Study:
    """Intervals of start values over runs and questions: the share of the finite that hold the truth, and of the finite."""
    normal = float(scipy.special.ndtri(0.975))

    def measure(case: tuple[Asked, int], way: tuple[Callable[[], gvfx.Behaviour], WhereLike]) -> tuple[float, float]:
        (asked, steps), (make, at) = case, way
        r = answered(asked, make(), steps, seeds_from(WHERE_SEEDS, runs), where=at)
        assert r.details.starts is not None
        value, error, truth, below, above = np.moveaxis(r.details.starts, 2, 0)
        finite = np.isfinite(error)
        inside = ((truth >= value - normal * below) & (truth <= value + normal * above))[finite]
        return float(inside.mean()) if inside.size else float("nan"), float(finite.mean())

    def shows(found: Found) -> Iterator[Table]:
        title = f"95 % intervals of the value at the start that hold it, among the finite (share of finite ones): {runs} runs"
        lines = (
            (*name.split(": "), *(f"{100 * i:.0f}% ({100 * f:.0f}%)" if f else "- (0%)" for i, f in shares.values()))
            for name, shares in found.items()
        )
        yield table(title, ("world", "steps", *WAYS), lines)

    def bars(found: Found) -> Iterator[Row]:
        shares = [inside for of in found.values() for inside, finite in of.values() if finite]
        least, most = min(shares), max(shares)
        case, kept = "coverage at the start, lowest and highest", bool(least >= COVERED[0] and most <= COVERED[1])
        yield Row(case, f"{100 * least:.0f}%, {100 * most:.0f}%", "93% to 97%", kept, "FrozenLake, table above")

    cases = {f"{name}: {steps:,}": (asked, steps) for name, (asked, _) in lakes().items() for steps in HELD_TIMES}
    return Study(cases, measure, bars, shows, WAYS)


# --- intervals at every state ------------------------------------------------------------------------------------------

STATES_SEEDS = 6000
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


CASES = {  # makers of a number, and numbers of steps
    "FrozenLake 4x4": (lambda number: frozen_lake(DISCOUNT, LOOSE, "4x4"), (1_000, 5_000, 20_000)),
    "FrozenLake 8x8": (lambda number: frozen_lake(0.99, LOOSE, "8x8"), (20_000,)),
    "rare transitions": (rare, (5_000, 30_000)),
    "random worlds": (random_world, (20_000,)),
    "chain against a current": (CLASSES["current"], (30_000,)),
    "maze": (CLASSES["maze"], (20_000,)),
    "lock": (CLASSES["lock"], (5_000,)),
    "corridor": (CLASSES["corridor"], (20_000,)),
    "taxi": (CLASSES["taxi"], (50_000,)),
}


def states(runs: int) -> Study:
    """Every case in `runs` worlds, with one seed each."""

    def measure(case: tuple[Callable[[int], Asked], int]) -> list[list[float]]:
        """Per run: by draws and by the delta method the share of finite intervals that hold, then the share of finite ones, the
        width and the squared error of the draws' mean over those of today, start values and differences that hold."""
        make, steps = case
        rows = []
        for k in range(runs):
            asked = make(100 + k)
            (model,) = answered(asked, gvfx.OptimalDesign(), steps, [STATES_SEEDS + k]).details.models
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
            joint = joint_of(model, [range(len(truth))]).known
            apart = np.abs(off[0] - off[1]) <= NORMAL * joint[0, 1] + 1e-9 if np.isfinite(joint[0, 1]) else np.nan
            shares = [x[known].mean() if known.any() else np.nan for x in (held, old)]
            errors = (moved[:, live] ** 2).mean(), (away[:, live] ** 2).mean()
            rows.append([*shares, known[:, live].mean(), width, *errors, start[np.isfinite(below)].mean(), apart])
        return rows

    def shows(found: Found) -> Iterator[Table]:
        title = f"95 % intervals of OptimalDesign's answers at all states: {runs} worlds or seeds, the share that holds"
        columns = ("world", "held", "delta method", "finite", "width over delta", "error of the mean", "start", "differences")
        lines = []
        for name, rows in found.items():
            held, old, finite, width, mean, plain, start, apart = np.array(rows, float).T
            shares = (f"{np.nanmean(x):.1%}" for x in (held, old, finite))
            ratio = np.sqrt(mean.mean() / plain.mean())
            ends = (f"{np.nanmean(x):.0%}" if np.isfinite(x).any() else "-" for x in (start, apart))
            lines.append((name, *shares, f"{np.nanmean(width):.2f}", f"{ratio:.2f}", *ends))
        yield table(title, columns, lines)

    def bars(found: Found) -> Iterator[Row]:
        for name, rows in found.items():
            yield share_within(f"{name}: states", float(np.nanmean(np.array(rows, float)[:, 0])), 0.91, 1, f"{runs} runs")

    cases = {f"{name}, {steps:,}": (make, steps) for name, (make, times) in CASES.items() for steps in times}
    return Study(cases, measure, bars, shows)


PARTS: dict[str, Part] = {
    "audits": lambda quick: audits(audit_cases(), quick),
    "logs": study.sized(logs, [200], [25]),
    "where": study.sized(where, (200_000, 25), (50_000, 4)),
    "held": study.sized(held, [200], [20]),
    "states": study.sized(states, [40], [3]),
}
