"""Behaviours from a cold start: hard worlds, random ones, strangers' environments, and two published experiments.

hard, random_mdps: MSE times steps over the constant of the best stationary behaviour, which describes many visits; the learner
is certainty equivalence for all.  own: the defaults after 40,000 steps beside RoundRobin after 200,000 with the best of several
learning rates.  mrnas: the largest error of three policies, beside Russo & Pacchiano (2025).  ros: the mean return of one policy
in a small grid, beside Zhong et al. (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from rich.table import Table

import gvfx
from benchmarks.common.published_worlds import ROS_ERRORS, instance, small_grid
from benchmarks.common.worlds import CLASSES, random_world
from benchmarks.study import (
    Asked,
    Found,
    Part,
    Row,
    Study,
    answered,
    at_most,
    mean_and_median,
    seeds_from,
    sized,
    table,
    with_error,
)
from gvfx.evidence.counts import Empirical
from gvfx.running.result import standard_error
from gvfx.theory.design import optimal

OURS = "OptimalDesign"
EXPLORER: Callable[[], gvfx.Behaviour] = lambda: gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))  # noqa: E731
Makes = Mapping[str, Callable[[], gvfx.Behaviour]]
COMMON: dict[str, Callable[[], gvfx.Behaviour]] = {
    OURS: gvfx.OptimalDesign,
    "GVFExplorer": EXPLORER,
    "Uniform": gvfx.Uniform,
    "Mixture": gvfx.Mixture,
}
BEYOND = 2.0  # standard errors: what is beyond them is not noise

OPTIMUM = "the optimum itself"
RANDOM = 0.02  # share of random actions with which it is followed
Measure = Callable[[Any, Callable[[], gvfx.Behaviour] | None], np.ndarray]  # None: the world's best stationary behaviour itself


def over_optimum(world_of: Callable[[Any], Asked], times: Sequence[int], seeds: Sequence[int]) -> Measure:
    """Measures MSE times steps over the constant of the best stationary behaviour [seed, time]; the MSE where that is 0."""

    @cache
    def known(case: Any) -> tuple[Asked, np.ndarray, float]:
        asked = world_of(case)
        best = optimal(*asked)
        return asked, best.behaviour, best.constant

    def measure(case: Any, make: Callable[[], gvfx.Behaviour] | None) -> np.ndarray:
        asked, best, constant = known(case)
        behaviour = make() if make else gvfx.Follow((1 - RANDOM) * best + RANDOM / asked[0].actions)
        r = answered(asked, behaviour, times[-1], seeds, snapshots=times)
        missed = [((s.values - r.details.truth)[:, :, asked[0].live] ** 2).mean(axis=(1, 2)) for s in r.details.snapshots]
        return np.stack(missed, axis=1) * (np.array(times) / constant if constant else 1.0)

    return measure


# --- hard worlds -----------------------------------------------------------------------------------------------------

BEHAVIOURS = COMMON | {
    "RoundRobin": gvfx.RoundRobin,
    "CharacteristicTime": gvfx.CharacteristicTime,
    "SecondMoment": gvfx.SecondMoment,
    "RobustSampling": gvfx.RobustSampling,
}
RIVALS = ("Mixture", "Uniform", "CharacteristicTime")  # those that the last bar compares with
HARD_TIMES = (3_000, 10_000, 30_000, 100_000)
HARD_SEEDS = 7000
HARD_BARS = {30_000: 4.0, 100_000: 2.5}  # each class: mean over its worlds and seeds
WORSE_BAR = 10.0  # % of (world, time)
SMALLEST = 1e-6  # ratios below it count as equal where logarithms are compared
Classes = Mapping[str, Callable[[int], Asked]]


def hard_worlds(classes: Classes, behaviours: Makes, numbers: Sequence[int], seeds: int, times: Sequence[int]) -> Study:
    """Worlds of each class with these numbers, measured at some times."""

    def of(found: Found, name: str) -> Found:
        return {world: found[world] for world in (f"{name} {number}" for number in numbers)}

    def shows(found: Found) -> Iterator[Table]:
        for name in classes:
            rows = ((w, b, *map(mean_and_median, r.T)) for w, ratios in of(found, name).items() for b, r in ratios.items())
            title = f"{name}: MSE times steps over the optimum, mean (median) over {seeds} seeds"
            yield table(title, ("world", "behaviour", *(f"{t:,} steps" for t in times)), rows)
        title = "Worse than the best rival beyond noise: mean ratios"
        yield table(title, ("world", "steps", "best rival", OURS, "rival"), (case for case in worse(found) if case))

    def worse(found: Found) -> list[tuple[str, ...]]:
        """One entry per world and time; empty where no rival is better beyond noise."""
        out = []
        for world, ratios in found.items():
            for k, time in enumerate(times):
                now = {name: r[:, k] for name, r in ratios.items()}
                rival = worse_than(now)
                out.append((world, f"{time:,}", rival, *(f"{now[b].mean():.3g}" for b in (OURS, rival))) if rival else ())
        return out

    def bars(found: Found) -> Iterator[Row]:
        for name in classes:
            for time, bar in HARD_BARS.items():
                if time in times:
                    ours = np.stack([r[OURS][:, list(times).index(time)] for r in of(found, name).values()])  # [world, seed]
                    note = f"median {np.median(ours):.3g}, worst world {ours.mean(axis=1).max():.3g}, worst run {ours.max():.3g}"
                    yield at_most(f"{name} at {time:,}", float(ours.mean()), bar, "x", note)
        cases = worse(found)
        failed = sum(map(bool, cases))
        note = f"{failed} of {len(cases)} (world, time): worse than the best of {', '.join(RIVALS)}"
        yield at_most("worse beyond noise", 100 * failed / len(cases), WORSE_BAR, " %", note)

    measure = over_optimum(lambda case: classes[case[0]](case[1]), times, seeds_from(HARD_SEEDS, seeds))
    return Study({f"{n} {k}": (n, k) for n in classes for k in numbers}, measure, bars, methods=behaviours, shows=shows)


def worse_than(now: Mapping[str, np.ndarray]) -> str:
    """The rival that OptimalDesign is worse than beyond noise (paired by seed), if any, by the ratios of one world at one time.

    It is compared with the best rival twice: by mean errors, which single failed runs decide, and by mean logarithms of errors,
    which the typical run decides.  Being worse by one of them is enough.
    """
    for errors in (now, {name: np.log(np.maximum(x, SMALLEST)) for name, x in now.items()}):
        best = min(RIVALS, key=lambda name: float(errors[name].mean()))
        gap = errors[OURS] - errors[best]
        if gap.mean() > BEYOND * standard_error(gap):
            return best
    return ""


# --- random worlds ---------------------------------------------------------------------------------------------------

RANDOM_BARS = {100_000: (1.7, 3.5), 500_000: (1.5, 2.0)}  # mean over worlds, each world


def random_worlds(worlds: int, times: Sequence[int], seeds: int) -> Study:
    """Worlds that OptimalDesign was not made for."""

    def ratios(found: Found, name: str) -> np.ndarray:
        return np.array([of[name].mean(axis=0) for of in found.values()])  # [world, time]

    def shows(found: Found) -> Iterator[Table]:
        heads = (f"{t:,} steps, {what}" for t in times for what in ("mean", "median", "worst"))
        title = f"MSE times steps over the optimum, {worlds} worlds, {seeds} seeds"
        lines = ((n, *(f(r) for r in ratios(found, n).T for f in (np.mean, np.median, np.max))) for n in (*COMMON, OPTIMUM))
        yield table(title, ("behaviour", *heads), lines)

    def bars(found: Found) -> Iterator[Row]:
        for time, ours in zip(times, ratios(found, OURS).T, strict=True):
            for what, bar, value in zip(("mean", "worst world"), RANDOM_BARS[time], (ours.mean(), ours.max()), strict=True):
                yield at_most(f"OptimalDesign at {time:,}, {what}", float(value), bar, "x", "over the optimum")

    measure = over_optimum(random_world, times, range(seeds))
    return Study({f"world {n}": n for n in range(worlds)}, measure, bars, methods={**COMMON, OPTIMUM: None}, shows=shows)


# --- strangers' environments -----------------------------------------------------------------------------------------

STEPS, SHARE = 200_000, 1 / 5
RATES = (0.03, 0.1, 0.3, 0.6, 1.0)
TUNED = {f"constant {r:g}": gvfx.Fixed(r) for r in RATES} | {
    f"1 falling to {r:g}": gvfx.Linear(1.0, r, STEPS // 2) for r in RATES
}
EAGER = gvfx.OptimalDesign(prior=1.0, growth=1.3)  # trusts what it sees sooner; its intervals are too narrow


def toward(row: int, column: int, width: int, actions: tuple[int, int, int, int]) -> Callable[[int], np.ndarray]:
    """A policy that mostly walks to a cell; actions are those for down, up, right and left."""
    down, up, right, left = actions

    def policy(state: int) -> np.ndarray:
        r, c = divmod(int(state), width)
        wanted = np.full(4, 0.15)
        wanted[down if row > r else up] += row != r
        wanted[right if column > c else left] += column != c
        return wanted / wanted.sum()

    return policy


def driver(state: int) -> np.ndarray:
    """Taxi: goes for the passenger, then for the destination, as if there were no walls; often errs."""
    places = ((0, 0), (0, 4), (4, 0), (4, 3))
    (rest, target), wanted = divmod(int(state), 4), np.full(6, 0.1)
    (row, column), passenger = divmod(rest // 5, 5), rest % 5
    r, c = places[target if passenger == 4 else passenger]
    wanted[0 if r > row else 1] += r != row
    wanted[2 if c > column else 3] += c != column
    wanted[5 if passenger == 4 else 4] += 2 * ((row, column) == (r, c))
    return wanted / wanted.sum()


def strangers() -> dict[str, tuple[Callable[[], Any], list[gvfx.GVF]]]:
    """Environments that show their tables, and five questions about each: policy, cumulant, discount and name."""
    uniform, reward = gvfx.uniform_policy(), gvfx.Reward()
    lake, cliff = partial(toward, width=8, actions=(1, 3, 2, 0)), partial(toward, width=12, actions=(2, 0, 1, 3))
    asked: dict[str, tuple[Callable[[], Any], list[tuple[Any, Any, float, str]]]] = {
        "FrozenLake 8x8": (
            lambda: gym.make("FrozenLake-v1", map_name="8x8"),
            [
                (lake(7, 7), reward, 0.99, "goal, hurrying"),
                (lake(0, 7), reward, 0.99, "goal, by the corner"),
                (uniform, reward, 0.99, "goal, at random"),
                (lake(7, 7), lambda s, a, s2: s2 == s, 0.95, "standing still, hurrying"),
                (uniform, lambda s, a, s2: s2 % 8 == 7, 0.9, "right edge, at random"),
            ],
        ),
        "Taxi": (
            lambda: gym.make("Taxi-v4"),
            [
                (driver, reward, 0.95, "reward of the driver"),
                (driver, lambda s, a, r, s2, i: r == 20, 0.95, "deliveries of the driver"),
                (driver, lambda s, a, r, s2, i: r == -10, 0.9, "mistakes of the driver"),
                (uniform, reward, 0.9, "reward at random"),
                (uniform, lambda s, a, s2: s == s2, 0.95, "standing still, at random"),
            ],
        ),
        "CliffWalking": (
            lambda: gym.make("CliffWalking-v1", max_episode_steps=200),
            [
                (cliff(3, 11), reward, 0.95, "reward, hurrying"),
                (cliff(0, 11), reward, 0.95, "reward, far from the cliff"),
                (uniform, reward, 0.9, "reward, at random"),
                (uniform, lambda s, a, s2: s2 == 47, 0.95, "goal, at random"),
                (cliff(0, 0), lambda s, a, r, s2, i: r == -100, 0.9, "falls, walking home"),
            ],
        ),
    }
    return {name: (make, [gvfx.GVF(p, c, d, name=n) for p, c, d, n in listed]) for name, (make, listed) in asked.items()}


def own(seeds: int) -> Study:
    """The defaults against RoundRobin with every rate."""
    steps = round(STEPS * SHARE)
    ways: dict[str, tuple[Any, ...]] = {  # behaviour, learner, steps, between two measurements
        **{name: (gvfx.RoundRobin(), gvfx.ExpectedSarsa(rate, initial_q=0.0), STEPS, None) for name, rate in TUNED.items()},
        "defaults": (None, None, steps, steps // 40),
        "eager": (EAGER, None, steps, steps),
    }

    def measure(case: tuple[Callable[[], Any], list[gvfx.GVF]], way: tuple[Any, ...]) -> dict[str, np.ndarray]:
        behaviour, learner, most, every = way
        r = gvfx.evaluate(case[0](), case[1], behaviour, learner, steps=most, seeds=seeds, evaluate_every=every, progress=False)
        return {"last": r.error[:, -1], "mean": r.error.mean(axis=0), "steps": r.steps}

    def bars(found: Found) -> Iterator[Row]:
        for case, of in found.items():
            best = min(TUNED, key=lambda name: float(of[name]["last"].mean()))
            theirs, mine = of[best]["last"], of["defaults"]
            below = np.flatnonzero(mine["mean"] <= theirs.mean())
            first = f"equal at {mine['steps'][below[0]]:,} steps" if below.size else "not reached"
            note = f"defaults {with_error(mine['last'])} after {steps:,} steps, RoundRobin {with_error(theirs)} after {STEPS:,} "
            note += f"(rate {best}); {first}; eager plans {of['eager']['last'].mean():.3g}"
            yield at_most(f"{case}, {seeds} seeds: MSE over RoundRobin's", mine["last"].mean() / theirs.mean(), 1.0, "x", note)

    return Study(strangers(), measure, bars, methods=ways)


# --- MR-NaS's published experiment -----------------------------------------------------------------------------------

MRNAS: dict[str, Callable[[], gvfx.Behaviour]] = {
    OURS: gvfx.OptimalDesign,
    "CharacteristicTime": gvfx.CharacteristicTime,  # our reading of MR-NaS's design
    "GVFExplorer": EXPLORER,
    "SuccessorRepresentation": gvfx.SuccessorRepresentation,
    "Mixture": lambda: gvfx.Floor(gvfx.Epsilon(gvfx.Mixture())),
    "Uniform": gvfx.Uniform,
}
PSEUDO = (OURS, "CharacteristicTime")  # also answered with an estimator like theirs
MRNAS_TIMES = (100_000, 1_000_000)
MRNAS_SEEDS = 9000


class Published(NamedTuple):
    """Errors read off the figures of Russo & Pacchiano (2025): three policies, one reward each, 30 seeds."""

    mr_nas: tuple[float, float]  # at MRNAS_TIMES
    sf_nr: float  # at 1 M steps, as the next
    gvf_explorer: float

    def beside(self, behaviour: str) -> tuple[float | str, float | str]:
        """What was published for the method that a behaviour stands beside, at MRNAS_TIMES."""
        last = {"SuccessorRepresentation": self.sf_nr, "GVFExplorer": self.gvf_explorer}
        return self.mr_nas if behaviour == OURS else ("", last.get(behaviour, ""))


PUBLISHED: dict[tuple[str, int], Published] = {
    ("RiverSwim", 15): Published((0.031, 0.0068), 0.046, 0.356),
    ("RiverSwim", 20): Published((0.056, 0.0079), 0.106, 0.734),
    ("RiverSwim", 30): Published((0.135, 0.0181), 0.673, 1.00),
    ("ForkedRiverSwim", 8): Published((0.024, 0.0055), 0.0099, 0.083),
    ("ForkedRiverSwim", 10): Published((0.042, 0.0079), 0.0161, 0.160),
    ("ForkedRiverSwim", 15): Published((0.101, 0.0127), 0.070, 0.346),
    ("DoubleChain", 8): Published((0.043, 0.0072), 0.027, 0.660),
    ("DoubleChain", 10): Published((0.054, 0.0079), 0.062, 0.689),
    ("DoubleChain", 15): Published((0.162, 0.0168), 0.429, 0.889),
    ("NArms", 15): Published((0.182, 0.045), 0.20, 0.076),
    ("NArms", 20): Published((0.426, 0.055), 0.39, 0.119),
    ("NArms", 30): Published((1.40, 0.115), 1.2, 0.255),
}


def pseudo_counted(data: Empirical, questions: Sequence[gvfx.GVF]) -> np.ndarray:
    """Values [gvf, state] of a model that counts each state once more as a successor of each pair; cumulants are known."""
    world = data.world
    P = np.ones((world.states, world.actions, world.states))
    s, a = np.ogrid[: world.states, : world.actions]
    np.add.at(P, (s[..., None], a[..., None], world.next), data.counts)
    return gvfx.exact.values(gvfx.MDP.from_matrix(P / P.sum(axis=2, keepdims=True), start=world.start), questions)


def mrnas(settings: Mapping[tuple[str, int], Published], seeds: int, times: Sequence[int]) -> Study:
    """max |V^ - V| over questions and states; each seed draws its policies and rewards, as published runs did.

    Two behaviours are also answered with an estimator like the authors', which counts every state once as a successor of every
    pair before it has seen anything: so the learner's share in a difference is seen apart from the behaviour's.
    """

    def measure(setting: tuple[str, int], behaviour: str) -> dict[str, Any]:
        errors, pseudo = [], []
        for seed in seeds_from(MRNAS_SEEDS, seeds):
            world, questions = instance(*setting, seed)
            truth = gvfx.exact.values(world, questions)
            r = answered((world, questions), MRNAS[behaviour](), times[-1], [seed], snapshots=times)
            errors.append([float(np.abs(one.values[0] - truth).max()) for one in r.details.snapshots])
            if behaviour in PSEUDO:
                pseudo.append(float(np.abs(pseudo_counted(r.details.models[0], questions) - truth).max()))
        own = dict(zip((f"{t:,} steps" for t in times), np.array(errors).T, strict=True))
        theirs = dict(zip((f"{t:,}, published" for t in times), settings[setting].beside(behaviour), strict=False))
        return own | theirs | {"answered with pseudo-counts": np.array(pseudo) if pseudo else ""}

    def bars(found: Found) -> Iterator[Row]:
        for (name, of), published in zip(found.items(), settings.values(), strict=True):
            for k, time in enumerate(times):
                yield below_published(f"{name} at {time:,}", of[OURS][f"{time:,} steps"], published.mr_nas[k])

    title = (
        f"Largest error, mean of {seeds} seeds, beside what was published, and with another estimator after {times[-1]:,} steps"
    )
    cases = {f"{name} {size}": (name, size) for name, size in settings}
    return Study(cases, measure, bars, title, ("setting", "behaviour"), dict(zip(MRNAS, MRNAS)))


def below_published(case: str, errors: np.ndarray, theirs: float) -> Row:
    """Ours plus 2 standard errors should be below theirs."""
    mean, spread = float(errors.mean()), float(standard_error(errors))
    note = f"{mean:.3g} ± {spread:.2g}, {mean / theirs:.2g} of the published {theirs:g}; the bar is for mean + 2 standard errors"
    return at_most(case, mean + BEYOND * spread, theirs, "", note)


# --- ROS's published experiment --------------------------------------------------------------------------------------

ROS_STEPS = tuple(ROS_ERRORS)  # 32, 128 and 512 times the mean length of an episode
ROS_SEEDS = 5000
THEIRS = {  # data and estimator: relative squared errors as published, at ROS_STEPS
    "on-policy, Monte Carlo": (0.072, 0.018, 0.0045),
    "ROS, Monte Carlo": (0.013, 9.3e-4, 1.9e-4),
    "on-policy, FQE": (0.0072, 4.2e-4, 4.8e-5),
    "ROS, FQE": tuple(ROS_ERRORS.values()),
}
DEFAULT = "gvfx's default, CE"
EXACT = 1e-20  # relative squared errors below it are rounding
ROS: dict[str, tuple[str, Callable[[int, Sequence[int]], np.ndarray]]] = {  # beside which line; errors [seed] of steps and seeds
    "on-policy, Monte Carlo": ("on-policy, Monte Carlo", lambda steps, seeds: monte_carlo(False, steps, seeds)),
    "RobustSampling, Monte Carlo": ("ROS, Monte Carlo", lambda steps, seeds: monte_carlo(True, steps, seeds)),
    "on-policy, CE": ("on-policy, FQE", lambda steps, seeds: by_counts(gvfx.Mixture(), steps, seeds)),
    "RobustSampling, CE": ("ROS, FQE", lambda steps, seeds: by_counts(gvfx.RobustSampling(), steps, seeds)),
    DEFAULT: ("ROS, FQE", lambda steps, seeds: by_counts(None, steps, seeds)),
}


def monte_carlo(robust: bool, steps: int, seeds: Sequence[int]) -> np.ndarray:
    """Relative squared errors [seed] of the mean return of the episodes that end within the steps; of 0 if none does.

    robust: in each state the action whose share of the visits so far is furthest below its probability, as `RobustSampling`, in
    which nothing is random; otherwise actions are drawn from the policy.
    """
    drawn = list(seeds)[:1] if robust else list(seeds)
    returns = np.array([_mean_return(robust, steps, np.random.default_rng(seed)) for seed in drawn])
    return np.broadcast_to((returns / _truth() - 1) ** 2, (len(seeds),))


def _mean_return(robust: bool, steps: int, rng: np.random.Generator) -> float:
    """Of one stream of episodes."""
    world, question = small_grid()
    policy, reward = question.policy.table(world.states, world.actions), question.cumulant.tables(world).mean[:, :, 0]
    tried, cumulative, start = np.zeros(policy.shape), policy.cumsum(axis=1), int(world.start.argmax())
    ended, sum_so_far, state, age = [], 0.0, start, 0
    for _ in range(steps):
        if robust:
            action = int((policy[state] * (tried[state].sum() + 1) - tried[state]).argmax())
        else:
            action = min(int((rng.random() >= cumulative[state]).sum()), world.actions - 1)
        tried[state, action] += 1
        sum_so_far, state, age = sum_so_far + reward[state, action], int(world.next[state, action, 0]), age + 1
        if world.terminal[state] or age == world.horizon:
            ended.append(sum_so_far)
            sum_so_far, state, age = 0.0, start, 0
    return float(np.mean(ended)) if ended else 0.0


def by_counts(behaviour: gvfx.Behaviour | None, steps: int, seeds: Sequence[int]) -> np.ndarray:
    """Relative squared errors [seed] of certainty equivalence with a behaviour (None: gvfx's default method)."""
    world, question = small_grid()
    learner = None if behaviour is None else gvfx.CertaintyEquivalence()
    r = gvfx.evaluate(world, [question], behaviour, learner, steps=steps, evaluate_every=steps, seeds=seeds, progress=False)
    return (r.values[:, 0, int(world.start.argmax())] / _truth() - 1) ** 2


def _truth() -> float:
    world, question = small_grid()
    return float(gvfx.exact.values(world, [question])[0] @ world.start)


def ros(seeds: int, times: Sequence[int]) -> Study:
    """The squared error of the start value over its square; Monte Carlo shows that the world is the published one."""

    def measure(method: str, steps: int) -> dict[str, Any]:
        beside, errors_of = ROS[method]
        errors = errors_of(steps, seeds_from(ROS_SEEDS, seeds))
        exact, published = float((errors < EXACT).mean()), f"{THEIRS[beside][ROS_STEPS.index(steps)]:.2g}"
        own = {"mean": shown(errors), "median": tiny(np.median(errors)), "exact %": exact}
        return own | {"beside": beside, "published": published, "_mean": errors.mean()}

    def bars(found: Found) -> Iterator[Row]:
        for (steps, of), bar in zip(found[DEFAULT].items(), THEIRS[ROS[DEFAULT][0]], strict=False):
            note = f"median {of['median']}; the bar is the published mean of ROS with FQE"
            yield at_most(f"{DEFAULT} after {steps}", of["_mean"], bar, "", note)

    title = f"Relative squared error of the start value, {seeds} seeds, and as published; a run is exact but for rounding"
    ways = {f"{steps:,} steps": steps for steps in times}
    return Study(dict(zip(ROS, ROS, strict=True)), measure, bars, title, ("ours", "steps"), ways)


def shown(errors: np.ndarray) -> str:
    """A mean over seeds with its standard error, which is left out if all runs are the same."""
    same = np.ptp(errors) < EXACT
    return tiny(errors.mean()) if same else f"{errors.mean():.2g} ± {standard_error(errors):.1g}"


def tiny(error: Any) -> str:
    """A relative squared error, 0 if it is rounding."""
    return "0" if error < EXACT else f"{error:.2g}"


PARTS: dict[str, Part] = {
    "hard": sized(partial(hard_worlds, CLASSES, BEHAVIOURS), ((100, 101), 25, HARD_TIMES), ((100,), 4, HARD_TIMES[:3])),
    "random_mdps": sized(random_worlds, (21, (100_000, 500_000), 25), (3, (100_000,), 8)),
    "own": sized(own, [20], [3]),
    "mrnas": sized(partial(mrnas, PUBLISHED), (30, MRNAS_TIMES), (5, MRNAS_TIMES[:1])),
    "ros": sized(ros, (200, ROS_STEPS), (20, ROS_STEPS[:2])),
}
