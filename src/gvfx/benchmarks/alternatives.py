"""gvfx beside what one would use instead: plain Monte Carlo rollouts, and d3rlpy's fitted Q evaluation (FQE) on a log.

The question is the discounted reward of two policies from the start, on CartPole and on Pendulum (Box actions).  Every method
gets the same number of environment steps.  FQE and `gvfx.evaluate_log` read the same log: each episode follows one of the
policies, with three random actions in ten.  Rollouts and `gvfx.evaluate` make steps of their own, the latter with its default
behaviour and with RoundRobin, which follows the policies in turn.  Errors are root mean squared
ones over policies and seeds; the truth is by Monte Carlo.  Seconds are processor time with that of the steps.
Measurements are kept in `results/bench-alternatives.json`, so that a run that was stopped goes on; the figure beside it shows the
errors against steps and against seconds.
Run it with `gvfx bench alternatives`; `make bench-d3rlpy` installs d3rlpy into an environment of its own and runs it there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.box_actions import cases as box_cases
from gvfx.benchmarks.common import fqe
from gvfx.benchmarks.common.alternatives_figure import Measured, draw_alternatives
from gvfx.benchmarks.common.box_examples import CARTPOLE
from gvfx.benchmarks.common.kept import Kept
from gvfx.benchmarks.common.rows import Row, as_table
from gvfx.report.style import save
from gvfx.types import Described

KEPT = Path("results/bench-alternatives.json")
DISCOUNT, CUT = 0.95, 1e-3  # rollouts end when what follows counts less than CUT
RANDOM = 0.3  # share of random actions in the log
LONGEST = int(np.ceil(np.log(CUT) / np.log(DISCOUNT)))  # steps of a rollout
SIZES, SEEDS, EPISODES = (2_000, 5_000, 20_000), range(700, 705), 200_000  # steps; of runs; of the truth, per policy
QUICK = (1_000,), range(700, 702), 200
UPDATES = {"defaults": (2_000, 10_000), "sensible": (1_000, 3_000)}  # of FQE, at which it is asked
INSTALL = "d3rlpy is not installed, so that its rows are missing: `make bench-d3rlpy` installs it into .venv-d3rlpy."
IN_TURN = "gvfx, policies in turn"
Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]  # actions of observations [n, o]


@dataclass(frozen=True, eq=False)
class Case:
    """An environment and its policies: as questions, and as functions that draw actions."""

    name: str
    environment: str
    policies: dict[str, Any]  # for questions
    draw: dict[str, Draw]
    returns: Callable[[Draw, int, np.random.Generator], np.ndarray]  # of many episodes

    def questions(self) -> list[gvfx.GVF]:
        return [gvfx.GVF(policy, gvfx.Reward(), DISCOUNT, name=name) for name, policy in self.policies.items()]


def cases() -> list[Case]:
    """CartPole as in `gvfx bench continuous`, without its random policy, and Pendulum as in `gvfx bench box_actions`."""
    chances = {name: CARTPOLE.policies[name] for name in ("balancing", "careless")}
    pendulum = box_cases()[0]
    middles, sigma = pendulum.policies, pendulum.sigma

    def choose(policy: Callable[[np.ndarray], np.ndarray]) -> Draw:
        return lambda o, rng: (rng.random((len(o), 1)) > policy(o).cumsum(axis=1)[:, :-1]).sum(axis=1)

    def push(middle: Callable[[np.ndarray], Any]) -> Draw:
        return lambda o, rng: np.clip(middle(o) + sigma * rng.standard_normal((len(o), 1)), -2, 2).astype(np.float32)

    return [
        Case(
            "CartPole",
            "CartPole-v1",
            {name: (lambda o, p=policy: p(np.asarray(o)).tolist()) for name, policy in chances.items()},
            {name: choose(policy) for name, policy in chances.items()},
            cartpole_returns,
        ),
        Case(
            "Pendulum",
            "Pendulum-v1",
            {name: gvfx.gaussian_policy(middle, sigma, batched=True) for name, middle in middles.items()},
            {name: push(middle) for name, middle in middles.items()},
            pendulum_returns,
        ),
    ]


def log_of(case: Case, steps: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Episodes with `steps` steps in all, each under one policy and random actions; the last one is cut."""
    env, rng, out, left = gym.make(case.environment), np.random.default_rng(seed), [], steps
    env.action_space.seed(seed)
    while left:
        draw = list(case.draw.values())[rng.integers(len(case.draw))]
        seen, actions, rewards, over, cut = [env.reset(seed=int(rng.integers(2**31)))[0]], [], [], False, False
        while left and not (over or cut):
            action = env.action_space.sample() if rng.random() < RANDOM else draw(seen[-1][None], rng)[0]
            observation, reward, over, cut, _ = env.step(action)
            seen.append(observation)
            actions.append(action)
            rewards.append(float(reward))
            left -= 1
        last = np.arange(len(actions)) == len(actions) - 1
        columns = {"observations": np.array(seen), "actions": np.array(actions), "rewards": np.array(rewards)}
        out.append({**columns, "terminations": last & over, "truncations": last & (not over)})
    env.close()
    return out


def rollouts(case: Case, steps: int, seed: int) -> dict[str, float]:
    """The mean return of complete rollouts of each policy, which share the steps equally."""
    env, rng = gym.make(case.environment), np.random.default_rng(seed)
    out = {}
    for name, draw in case.draw.items():
        returns: list[float] = []
        left = steps // len(case.draw)
        while left:
            observation, sum_so_far, over, t = env.reset(seed=int(rng.integers(2**31)))[0], 0.0, False, 0
            while left and not over and t < LONGEST:
                observation, reward, over, _, _ = env.step(draw(observation[None], rng)[0])
                sum_so_far, t, left = sum_so_far + DISCOUNT**t * float(reward), t + 1, left - 1
            if over or t == LONGEST or not returns:
                returns.append(sum_so_far)
        out[name] = float(np.mean(returns))
    env.close()
    return out


def measured(case: Case, method: str, steps: int, seed: int) -> Described:
    """Answers by policy and the seconds that they took; FQE's also after fewer updates."""
    begun = time.process_time()
    if method.startswith("FQE"):
        return _fqe(case, method.removeprefix("FQE, "), steps, seed)
    if method == "rollouts":
        answers = rollouts(case, steps, seed)
    elif method == "gvfx, on the log":
        answers = {n: v.value for n, v in gvfx.evaluate_log(log_of(case, steps, seed), case.questions()).value().items()}
    else:
        env, behaviour = gym.make(case.environment), gvfx.RoundRobin() if method == IN_TURN else None
        options: Any = {"evaluate_every": steps, "seed": seed, "where": "start", "progress": False}
        r = gvfx.evaluate(env, case.questions(), behaviour, steps=steps, **options)
        answers = {n: v.value for n, v in r.value().items()}
    return {"": {"answers": answers, "seconds": time.process_time() - begun}}


def _drawing(draw: Callable[[Any, np.random.Generator], Any], rng: np.random.Generator) -> Callable[[Any], Any]:
    return lambda observations: draw(observations, rng)


def _fqe(case: Case, setting: str, steps: int, seed: int) -> Described:
    begun = time.process_time()
    episodes = log_of(case, steps, seed)
    collecting = time.process_time() - begun
    out: dict[str, Any] = {}
    for name, draw in case.draw.items():
        rng = np.random.default_rng(seed)
        config = {"defaults": fqe.defaults, "sensible": fqe.sensible}[setting](DISCOUNT)
        for fitted in fqe.fit(episodes, _drawing(draw, rng), config, UPDATES[setting], seed):
            at = out.setdefault(f"{fitted.updates:,} updates", {"answers": {}, "seconds": collecting})
            at["answers"][name] = fitted.value
            at["seconds"] += fitted.seconds
    return dict(out)


def methods(case: Case, with_fqe: bool) -> list[str]:
    """What is measured in a case; logs with Box actions cannot be answered by gvfx."""
    own = ["rollouts", "gvfx, its own steps", IN_TURN] + ["gvfx, on the log"] * (case.name != "Pendulum")
    return own + ["FQE, defaults", "FQE, sensible"] * with_fqe


def parts(method: str) -> list[str]:
    """What is asked of one measurement of a method: FQE after several numbers of updates."""
    return [f"{n:,} updates" for n in UPDATES[method.removeprefix("FQE, ")]] if method.startswith("FQE") else [""]


def truth(case: Case, episodes: int, seed: int = 11) -> Described:
    """True values with their standard errors, from episodes that are simulated all at once."""
    values, errors = {}, {}
    for name, draw in case.draw.items():
        returns = case.returns(draw, episodes, np.random.default_rng(seed))
        values[name], errors[name] = float(returns.mean()), float(returns.std() / np.sqrt(episodes))
    return {"values": values, "errors": errors}


def cartpole_returns(draw: Draw, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Discounted rewards of episodes of CartPole, without its time limit."""
    states, out, going = CARTPOLE.begin(rng, episodes), np.zeros(episodes), np.arange(episodes)
    for t in range(2 * LONGEST):
        out[going] += DISCOUNT**t
        states, ended = CARTPOLE.step(states, draw(states.astype(np.float32), rng), rng)
        states, going = states[~ended], going[~ended]
    return out


def pendulum_returns(draw: Draw, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Discounted rewards of episodes of Gymnasium's Pendulum, without its time limit."""
    angle, speed = rng.uniform([-np.pi, -1], [np.pi, 1], (episodes, 2)).T
    out = np.zeros(episodes)
    for t in range(2 * LONGEST):
        torque = draw(np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32), rng)[:, 0]
        out -= DISCOUNT**t * (((angle + np.pi) % (2 * np.pi) - np.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
        angle = angle + 0.05 * speed
    return out


def rms(answers: Sequence[Mapping[str, float]], known: Mapping[str, float]) -> tuple[float, float]:
    """Root mean squared error over runs and policies, and the standard error of it, from the runs' spread."""
    squares = np.array([np.mean([(run[name] - value) ** 2 for name, value in known.items()]) for run in answers])
    middle = float(np.sqrt(squares.mean()))
    return middle, float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * middle)) if len(squares) > 1 else 0.0


def run(console: Console, quick: bool = False) -> list[Row]:
    """Every case, method, size and seed; prints one table per case and draws the figure."""
    sizes, seeds, episodes = QUICK if quick else (SIZES, SEEDS, EPISODES)
    with_fqe = fqe.installed()
    if not with_fqe:
        console.print(INSTALL, highlight=False)
    kept = Kept(KEPT.with_stem(f"{KEPT.stem}-quick") if quick else KEPT, f"gvfx {gvfx.__version__}")
    rows: list[Row] = []
    found: dict[str, list[Measured]] = {}
    for case in cases():
        known: Any = kept.get(f"{case.name}: truth", partial(truth, case, episodes))
        values = ", ".join(f"{name} {value:.2f} ± {known['errors'][name]:.2g}" for name, value in known["values"].items())
        lines: list[Measured] = []
        for method in methods(case, with_fqe):
            runs: dict[int, Any] = {}
            for size in sorted({sizes[0], sizes[-1]}) if method.startswith("FQE") else sizes:  # its fits take most of the time
                with console.status(f"{case.name}: {method}, {size:,} steps"):
                    runs[size] = [_one(kept, case, method, size, seed) for seed in seeds]
            lines += [summed_up(method, part, runs, known["values"]) for part in parts(method)]
        title = f"{case.name}: root mean squared error of two start values, {len(seeds)} seeds"
        title += f" ({fqe.versions()})" if with_fqe else ""
        console.print(_table(title, lines, sizes))
        rows += judged(case, lines, f"true values: {values}")
        found[f"{case.name}, {len(seeds)} seeds"] = lines
    if kept.found:
        console.print(f"{kept.found} measurements were made before; delete {kept.path} to make them again.", highlight=False)
    picture = kept.path.with_suffix(".png")
    save(draw_alternatives(found), picture)
    console.print(f"wrote {picture}", highlight=False)
    console.print(as_table(rows))
    return rows


def summed_up(method: str, part: str, runs: Mapping[int, Sequence[Any]], known: Mapping[str, float]) -> Measured:
    """One line of a table: the errors of a method (of FQE: after some updates) and its seconds, by the number of steps."""
    errors = [rms([one[part]["answers"] for one in found], known) for found in runs.values()]
    seconds = [float(np.mean([one[part]["seconds"] for one in found])) for found in runs.values()]
    middles, spreads = zip(*errors, strict=True)
    return Measured(f"{method}, {part}" if part else method, tuple(runs), middles, spreads, tuple(seconds))


def _table(title: str, lines: Sequence[Measured], sizes: Sequence[int]) -> Table:
    table = Table("method", *(f"{n:,} steps{w}" for n in sizes for w in ("", ", seconds")), title=title)
    for line in lines:
        found = zip(line.steps, line.errors, line.spreads, line.seconds, strict=True)
        cells = {size: (f"{error:.3g} ± {spread:.1g}", f"{seconds:.1f}") for size, error, spread, seconds in found}
        table.add_row(line.name, *(text for size in sizes for text in cells.get(size, ("-", "-"))))
    return table


def _one(kept: Kept, case: Case, method: str, size: int, seed: int) -> Mapping[str, object]:
    def measure() -> Described:
        if method.startswith("gvfx") and (case.name, method, size) not in _warm:
            _warm.add((case.name, method, size))
            measured(case, method, size, 0)  # what is compiled once is not timed
        return measured(case, method, size, seed)

    return kept.get(f"{case.name}: {method}, {size} steps, seed {seed}", measure)


_warm: set[tuple[str, str, int]] = set()


def judged(case: Case, lines: Sequence[Measured], note: str) -> list[Row]:
    """The error of gvfx's own steps over the best of the alternatives, with the most steps; there is no bar."""
    last = {line.name: line.errors[-1] for line in lines}
    best = min((name for name in last if not name.startswith("gvfx")), key=lambda name: last[name])
    ratio = last["gvfx, its own steps"] / last[best]
    return [Row(f"{case.name}, {lines[0].steps[-1]:,} steps: gvfx over {best}", f"{ratio:.2g}x", "", None, note)]
