"""Continuous observations and actions: the default methods, by squared errors over the variance of the true values.

observations: linear features against networks, with the intervals' coverage.  grid: the paper's continuous grid through Gymnasium
(`gvfx reproduce limit-continuous` has it compiled).  stops: how often CartPole's error is below the target when the rule stops.
cartpole: networks' defaults against RoundRobin.  box_actions: the defaults for Box actions against one-step targets with four
updates of Q every 16 transitions (`one_step`), at observations of the target policies' own trajectories.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

import gvfx
from benchmarks.common.box_worlds import CARTPOLE, FRESH, TUNED, BoxTruth, BoxWorld, truth, truth_at
from benchmarks.study import Found, Part, Row, Study, at_end, at_most, every, seeds_from, sized, sized_rows, with_error
from gvfx.running.backends import box_action_learner, choose_method, network_behaviour, network_learner
from gvfx.running.result import standard_error
from gvfx_paper.settings.continuous import questions as grid_questions
from gvfx_paper.truths.lattice import lattice_points, shipped_truth
from gvfx_paper.worlds.continuous_grid import ContinuousGridEnv, paper_grid

FIRST_SEED = 500  # of runs that nothing was chosen on
ERROR_BARS = {"CartPole": 0.08, "CartPole with 8 noise inputs": 0.12}
COVERAGE_BAR = 0.9
TARGET, EPISODES = 0.2, 300  # of stops in CartPole: the target is relative; episodes per point of the truth

# --- observations ----------------------------------------------------------------------------------------------------


def observations(worlds: Sequence[BoxWorld], seeds: int, fewer: int, steps: int, episodes: int) -> Study:
    """The default method with `seeds` seeds, and that for networks with `fewer`."""

    @cache
    def known(name: str) -> BoxTruth:
        return truth(next(w for w in worlds if w.name == name), episodes=episodes)

    def measure(world: BoxWorld) -> dict[str, Any]:
        ours, networks = (by_method(world, networks) for networks in (False, True))
        return {
            "numbers": world.numbers,
            "linear features": np.array(ours["errors"]),
            "networks": np.array(networks["errors"]),
            "ratio": np.mean(ours["errors"]) / np.mean(networks["errors"]),
            "intervals that hold %": np.mean(ours["held"]),
            "not resolved": int(sum(ours["lost"])),
            "µs a step": np.median(ours["cost"]),
        }

    def by_method(world: BoxWorld, networks: bool) -> dict[str, list[float]]:
        out: dict[str, list[float]] = {"errors": [], "held": [], "cost": [], "lost": []}
        asked, at = world.questions(), known(world.name)
        chosen = choose_method("networks", asked, None, None, steps) if networks else (None, None)
        for seed in seeds_from(FIRST_SEED, fewer if networks else seeds):
            begun = time.perf_counter()
            result = gvfx.evaluate(world.make(), asked, *chosen, **at_end(steps, seed=seed))
            out["cost"].append((time.perf_counter() - begun) / steps * 1e6)
            out["errors"].append(at.error(result.predict(at.points)))
            if result.details.has_intervals:
                low, high = np.moveaxis(result.intervals(at.points), -1, 0)
                out["held"].append(float(((low <= at.values) & (at.values <= high)).mean()))
            out["lost"].append(len(result.details.experiment.get("not_resolved", {})))  # type: ignore[arg-type]
        return out

    def bars(found: Found) -> Iterator[Row]:
        for name, of in found.items():
            if name in ERROR_BARS:
                note = f"{seeds} seeds, {steps:,} steps"
                yield at_most(f"{name}: error", of["linear features"].mean(), ERROR_BARS[name], "", note)
            held, note = of["intervals that hold %"], f"{of['not resolved']} answers were called not resolved"
            yield Row(f"{name}: intervals that hold", f"{held:.0%}", ">= 90%", bool(held >= COVERAGE_BAR), note)
        fresh = [found[w.name]["ratio"] for w in worlds if w in FRESH]
        yield at_most("worlds not tuned on, worst ratio to networks", max(fresh), 1.0, "x")
        yield at_most("worlds not tuned on, median ratio to networks", float(np.median(fresh)), 0.5, "x")

    title = "squared errors over the variance of the true values, with the default method and with that for networks"
    return Study({w.name: w for w in worlds}, measure, bars, title, ("world",))


def grid(seeds: int, steps: int) -> list[Row]:
    """The paper's continuous grid through Gymnasium with plain defaults."""

    def paid(k: int) -> Any:
        return lambda o, a, r, o2, info: float(info["cumulants"][k])

    asked = [gvfx.GVF(q.policy, paid(k), q.discount, name=q.name) for k, q in enumerate(grid_questions())]
    known = shipped_truth(paper_grid(), np.stack([q.policy.table(1, 4, "policy")[0] for q in grid_questions()]), 0.99)
    assert known is not None
    errors = []
    for seed in seeds_from(FIRST_SEED, seeds):
        result = gvfx.evaluate(ContinuousGridEnv(), asked, **at_end(steps, seed=seed))
        errors.append(known.mse(result.predict(lattice_points().astype(np.float32)), outside_only=True).mean())
    note = f"{seeds} seeds, {steps:,} steps; mean ± standard error {with_error(errors)}"
    return [at_most("continuous grid through Gymnasium, MSE outside the goals", float(np.mean(errors)), 0.02, "", note)]


def stops(count: int) -> list[Row]:
    """Runs of CartPole that the rule may stop."""
    below, done = [], []
    for seed in seeds_from(FIRST_SEED, count):
        rule = gvfx.error_below(TARGET, relative=True)
        result = gvfx.evaluate(CARTPOLE.make(), CARTPOLE.questions(), **at_end(10_000, seed=seed, until=rule))
        assert result.stopped is not None and result.details.bounds is not None
        done.append(int(result.stopped[0]))
        if result.details.bounds[0] < TARGET:  # CartPole's observations are its states
            known = truth_at(CARTPOLE, np.asarray(result.details.predictor.points, float), EPISODES, np.random.default_rng(seed))
            relative = ((result.values[0] - known.values) ** 2).mean(axis=1) / (known.values**2).mean(axis=1)
            below.append(relative.mean() <= TARGET)
    kept = float(np.mean(below)) if below else float("nan")
    note = f"{len(below)} of {count} runs stopped, after {np.median(done) if done else 0:,.0f} steps in the median"
    passed = not below or kept >= 0.95
    return [Row("CartPole: stopped with the error truly below", f"{kept:.0%}", ">= 95%", passed, note)]


# --- networks on CartPole --------------------------------------------------------------------------------------------


def cartpole(seeds: int, steps: int, points: int, episodes: int) -> Study:
    """Time upright and distance from the middle, of three policies."""
    asked = CARTPOLE.questions()

    @cache
    def known() -> gvfx.MonteCarlo:
        return gvfx.truth_of(gym.make("CartPole-v1"), asked, points, max_episodes=episodes)

    def measure(_: None, behaviour: Callable[[], Any]) -> dict[str, Any]:
        at = known()
        where, units = np.stack([np.asarray(p) for p in at.points]), at.values.std(axis=1)[:, None]
        learner = network_learner(asked, steps)
        result = gvfx.evaluate(gym.make("CartPole-v1"), asked, behaviour(), learner, **at_end(steps, seeds=seeds))
        values, spreads = result.details.predictor.at(where, result.values, np.empty(0))  # [seed, gvf, point]
        return {
            "errors": (((values - at.values) / units) ** 2).mean(axis=(1, 2)),
            "inside": float((np.abs(values - at.values) <= 1.96 * spreads).mean()),
            "width": float((2 * 1.96 * spreads / units).mean()),
            "noise": float((at.standard_errors / units).mean()),
        }

    def bars(found: Found) -> Iterator[Row]:
        of = found["CartPole"]
        ours, theirs = (each["errors"] for each in of.values())
        gap, defaults = ours - theirs, of["defaults"]
        note = ", ".join(f"{name} {with_error(each['errors'])}" for name, each in of.items())
        note += f"; difference {gap.mean():.2g} ± {standard_error(gap):.1g}; truth's standard error {defaults['noise']:.2g}"
        case, ratio = f"CartPole, {seeds} seeds, {steps:,} steps: defaults over RoundRobin", ours.mean() - 2 * standard_error(gap)
        yield at_most(case, ratio / theirs.mean(), 1.0, "x less two errors", note)
        note = f"they span {defaults['width']:.2g} standard deviations of the true values on average"
        case = "CartPole: predictions within 1.96 spreads of the heads from the truth"
        yield Row(case, f"{defaults['inside']:.0%}", "", None, note)

    return Study({"CartPole": None}, measure, bars, methods={"defaults": network_behaviour, "RoundRobin": gvfx.RoundRobin})


# --- Box actions -----------------------------------------------------------------------------------------------------

DISCOUNT, HORIZON = 0.95, 200  # of the questions; of the truth's episodes
APART = 5  # steps between two points, at least
MEDIAN, WORST = 0.7, 1.0  # bars of the errors over those of one-step targets


class AnyForce(gym.ActionWrapper[Any, Any, Any]):
    """CartPole pushed with any force between -10 and 10, instead of one of the two."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-10, 10, (1,), np.float32)

    def action(self, action: Any) -> int:
        env: Any = self.unwrapped
        env.force_mag = abs(float(action[0]))
        return int(action[0] > 0)


@dataclass(frozen=True, eq=False)
class BoxCase:
    """An environment, its policies by name and signals by name; state_of(observation) is the state to put it into."""

    make: Callable[[], Any]
    policies: dict[str, Callable[[np.ndarray], Any]]  # middle actions of a batch of observations
    sigma: float
    signals: dict[str, Any]
    episodes: int = 100  # of the truth, per point and policy
    state_of: Callable[[np.ndarray], np.ndarray] = np.array

    def questions(self) -> list[gvfx.GVF]:
        made = {who: gvfx.gaussian_policy(middle, self.sigma, batched=True) for who, middle in self.policies.items()}
        return every(made, self.signals, DISCOUNT)

    def put(self, env: Any, point: Any) -> np.ndarray:
        """Put an environment into the state of an observation."""
        env.unwrapped.state = self.state_of(np.asarray(point))
        return np.asarray(point).astype(env.observation_space.dtype)


def one_step(steps: int) -> gvfx.TwinCritics:
    """The learner's options before it had multi-step targets."""
    own = box_action_learner([], steps)
    sizes: Any = {"capacity": own.capacity, "learning_starts": own.learning_starts}
    return gvfx.TwinCritics(updates=4, tau=0.05, trace=0.0, scaled=False, averaged=False, **sizes)


def box_cases() -> dict[str, BoxCase]:
    """Pendulum, MountainCarContinuous, and CartPole with any force."""
    reward = gvfx.Reward()
    return {
        "Pendulum": BoxCase(
            lambda: gym.make("Pendulum-v1"),
            {"loose": lambda o: -2 * o[:, 1:2] - 0.6 * o[:, 2:], "damped": lambda o: -6 * o[:, 1:2] - 1.8 * o[:, 2:]},
            0.5,
            {"reward": reward, "height": lambda o, a, o2: float(o2[0])},
            state_of=lambda o: np.array([np.arctan2(o[1], o[0]), o[2]]),
        ),
        "MountainCarContinuous": BoxCase(
            lambda: gym.make("MountainCarContinuous-v0"),
            {"swinging": lambda o: np.tanh(100 * o[:, 1:]), "to the right": lambda o: np.full((len(o), 1), 0.5)},
            0.5,
            {"reward": reward, "place": lambda o, a, o2: float(o2[0])},
        ),
        "CartPole, any force": BoxCase(
            lambda: AnyForce(gym.make("CartPole-v1")),
            {"balancing": lambda o: 10 * o[:, 2:3] + 2 * o[:, 3:], "careless": lambda o: np.zeros((len(o), 1))},
            5.0,
            {"reward": reward, "distance": lambda o, a, o2: abs(float(o2[0]))},
            1000,
        ),
    }


def seen_by_targets(case: BoxCase, points: int, seed: int = 0) -> np.ndarray:
    """Observations of the target policies' trajectories, [policy * points, o]."""
    env, rng = case.make(), np.random.default_rng(seed)
    box: Any = env.action_space
    out = []
    for middle in case.policies.values():
        met: list[np.ndarray] = []
        while len(met) < 20 * points:
            observation, _ = env.reset(seed=int(rng.integers(2**31)))
            done, since = False, int(rng.integers(APART))
            while not done:
                since += 1
                if since >= APART:
                    met.append(np.array(observation, float))
                    since = 0
                drawn = np.asarray(middle(observation[None])[0]) + case.sigma * rng.standard_normal(box.shape)
                observation, _, over, cut, _ = env.step(np.clip(drawn, box.low, box.high).astype(box.dtype))
                done = over or cut
        out += [met[k] for k in rng.choice(len(met), points, replace=False)]
    env.close()
    return np.array(out)


def box_errors(case: BoxCase, known: Any, learner: gvfx.TwinCritics, seeds: Sequence[int], steps: int) -> np.ndarray:
    """Squared errors over the variance of the true values [seed, gvf], with the default behaviour."""
    where = np.stack([np.asarray(p) for p in known.points]).astype(np.float32)
    result = gvfx.evaluate(case.make(), case.questions(), learner=learner, **at_end(steps, seeds=list(seeds)))
    answers = result.details.predictor.at(where, result.values, np.empty(0))[0]  # [seed, gvf, point]
    return ((answers - known.values) ** 2).mean(axis=2) / known.values.var(axis=1)


def box_actions(seeds: Sequence[int], steps: int, points: int, episodes: int | None) -> Study:
    """Two policies times two signals in three environments, with both learners; points per policy."""

    @cache
    def known(case: BoxCase) -> gvfx.MonteCarlo:
        where, most = list(seen_by_targets(case, points)), episodes or case.episodes
        options: Any = {"reset_to": case.put, "max_episodes": most, "horizon": HORIZON}
        return gvfx.truth_of(case.make(), case.questions(), where, **options)

    def measure(case: BoxCase) -> dict[str, Any]:
        at, errors, spent = known(case), [], []
        for learner in (one_step(steps), box_action_learner(case.questions(), steps)):
            begun = time.process_time()
            errors.append(box_errors(case, at, learner, seeds, steps).mean(axis=1))
            spent.append((time.process_time() - begun) / len(seeds))
        before, now = errors
        noise = ((at.standard_errors**2).mean(axis=1) / at.values.var(axis=1)).mean()
        shown = {"before": before, "now": now, "now over before": now.mean() / before.mean(), "truth": f"± {noise:.1g}"}
        return shown | dict(zip(("CPU seconds per run: before", "now, seconds"), spent, strict=True))

    def bars(found: Found) -> Iterator[Row]:
        of = {name: each["now over before"] for name, each in found.items()}
        worst, note = max(of, key=lambda name: of[name]), ", ".join(f"{name} {ratio:.2f}" for name, ratio in of.items())
        middle = float(np.median(list(of.values())))
        yield at_most("error over that of before, median of the environments", middle, MEDIAN, "x", note)
        yield at_most("the same, worst environment", of[worst], WORST, "x", worst)

    title = f"squared errors over the variance of the true values, {steps:,} steps, {len(seeds)} seeds"
    return Study(box_cases(), measure, bars, title, ("environment",))


PARTS: dict[str, Part] = {
    "observations": sized(observations, ((*TUNED, *FRESH), 10, 5, 10_000, 2_000), ((TUNED[0], FRESH[1]), 1, 1, 2_000, 100)),
    "grid": sized_rows(grid, (10, 50_000), (1, 10_000)),
    "stops": sized_rows(stops, [50], [2]),
    "cartpole": sized(cartpole, (10, 10_000, 24, 150), (2, 3_000, 4, 50)),
    "box_actions": sized(box_actions, (range(20, 25), 10_000, 12, None), ((100,), 2_000, 2, 10)),
}
