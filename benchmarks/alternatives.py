"""gvfx beside what one would use instead: plain Monte Carlo rollouts, and d3rlpy's fitted Q evaluation (FQE) on a log.

The question is the discounted reward of two policies on CartPole and on Pendulum.  Every method gets the same number of steps;
FQE and `gvfx.evaluate_log` read the same log, whose episodes follow one of the policies with three random actions in ten.  Errors
are root mean squared ones over policies and seeds; seconds are processor time with that of the steps.  Measurements stay in
`bench-alternatives.json`, with a figure beside it.  `make bench-d3rlpy` runs this where d3rlpy is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from matplotlib.ticker import FuncFormatter
from rich.table import Table

import gvfx
from benchmarks.common import fqe
from benchmarks.common.box_worlds import CARTPOLE
from benchmarks.continuous import box_cases
from benchmarks.study import FOLDER, Found, Part, Row, Study, at_end, table
from gvfx.report.page import STEPS
from gvfx_paper.report.figures import figure, save, styled
from gvfx_paper.report.style import SAFE, steps_label

DISCOUNT, CUT = 0.95, 1e-3  # episodes of the truth end when what follows counts less than CUT
RANDOM = 0.3  # share of random actions in the log
LONGEST = int(np.ceil(np.log(CUT) / np.log(DISCOUNT)))  # steps of a rollout
UPDATES = {"FQE, defaults": (2_000, 10_000), "FQE, sensible": (1_000, 3_000)}  # at which it is asked
INSTALL = "d3rlpy is not installed, so that its rows are missing: `make bench-d3rlpy` installs it into .venv-d3rlpy."
OWN, IN_TURN, ON_LOG = "gvfx, its own steps", "gvfx, policies in turn", "gvfx, on the log"
WAYS: dict[str, tuple[Any, Any]] = {  # behaviour and learner
    "rollouts": (None, gvfx.Rollouts()),
    OWN: (None, None),
    IN_TURN: (gvfx.RoundRobin(), None),
}
HUES = {  # by the beginning of a method's name
    "rollouts": SAFE[2],
    OWN: SAFE[3],
    IN_TURN: "#009e73",
    ON_LOG: "#56b4e9",
    "FQE, defaults": SAFE[0],
    "FQE, sensible": SAFE[1],
}
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
    """CartPole and Pendulum as in the benchmark `continuous`, CartPole without its random policy."""
    chances = {name: CARTPOLE.policies[name] for name in ("balancing", "careless")}
    pendulum = box_cases()["Pendulum"]
    middles, sigma = pendulum.policies, pendulum.sigma

    def choose(policy: Callable[[np.ndarray], np.ndarray]) -> Draw:
        return lambda o, rng: (rng.random((len(o), 1)) > policy(o).cumsum(axis=1)[:, :-1]).sum(axis=1)

    def push(middle: Callable[[np.ndarray], Any]) -> Draw:
        return lambda o, rng: np.clip(middle(o) + sigma * rng.standard_normal((len(o), 1)), -2, 2).astype(np.float32)

    asked = {name: (lambda o, p=policy: p(np.asarray(o)).tolist()) for name, policy in chances.items()}
    pushed = {name: gvfx.gaussian_policy(middle, sigma, batched=True) for name, middle in middles.items()}
    draws = {name: choose(policy) for name, policy in chances.items()}, {name: push(middle) for name, middle in middles.items()}
    return [
        Case("CartPole", "CartPole-v1", asked, draws[0], cartpole_returns),
        Case("Pendulum", "Pendulum-v1", pushed, draws[1], pendulum_returns),
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


def measured(case: Case, method: str, steps: int, seed: int) -> dict[str, Any]:
    """Answers by policy and the seconds that they took; of FQE after several numbers of updates."""
    begun = time.process_time()
    if method in UPDATES:
        return _fqe(case, method, steps, seed)
    if method == ON_LOG:
        result = gvfx.evaluate_log(log_of(case, steps, seed), case.questions())
    else:
        behaviour, learner = WAYS[method]
        options: Any = at_end(steps, seed=seed, where=None if learner else "start")
        result = gvfx.evaluate(gym.make(case.environment), case.questions(), behaviour, learner, **options)
    answers = {name: v.value for name, v in result.value().items()}
    return {"": {"answers": answers, "seconds": time.process_time() - begun}}


def _fqe(case: Case, setting: str, steps: int, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    episodes = log_of(case, steps, seed)
    collecting = time.process_time() - begun
    out: dict[str, Any] = {}
    for name, draw in case.draw.items():
        rng = np.random.default_rng(seed)
        config = {"FQE, defaults": fqe.defaults, "FQE, sensible": fqe.sensible}[setting](DISCOUNT)
        for fitted in fqe.fit(episodes, lambda o, d=draw, r=rng: d(o, r), config, UPDATES[setting], seed):  # type: ignore[misc]
            at = out.setdefault(f"{fitted.updates:,} updates", {"answers": {}, "seconds": collecting})
            at["answers"][name] = fitted.value
            at["seconds"] += fitted.seconds
    return out


def methods(case: Case) -> list[str]:
    """What is measured in a case; logs with Box actions cannot be answered by gvfx."""
    return [*WAYS, *[ON_LOG] * (case.name != "Pendulum"), *(UPDATES if fqe.installed() else ())]


def truth(case: Case, episodes: int, seed: int = 11) -> dict[str, dict[str, float]]:
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


class Line(NamedTuple):
    """Root mean squared errors of one method with their standard errors, and seconds, by the number of steps."""

    name: str
    steps: tuple[int, ...]
    errors: tuple[float, ...]
    spreads: tuple[float, ...]
    seconds: tuple[float, ...]


def alternatives(listed: Sequence[Case], quick: bool, sizes: Sequence[int], seeds: Sequence[int], episodes: int) -> Study:
    """Every case, method, size and seed; FQE's fits take most of the time, so it has the fewest and the most steps alone."""
    chosen = {
        f"{case.name}: {method}, {size} steps": (case, method, size)
        for case in listed
        for method in methods(case)
        for size in (sorted({sizes[0], sizes[-1]}) if method in UPDATES else sizes)
    }
    warm: set[tuple[str, str, int]] = set()
    known = cache(lambda case: truth(case, episodes))

    def measure(of: tuple[Case, str, int], seed: int) -> dict[str, Any]:
        case, method, size = of
        if method.startswith("gvfx") and (case.name, method, size) not in warm:
            warm.add((case.name, method, size))
            measured(case, method, size, 0)  # what is compiled once is not timed
        return measured(case, method, size, seed)

    def lines(found: Found, case: Case) -> list[Line]:
        out = []
        for method in methods(case):
            own = {size: found[name] for name, (c, m, size) in chosen.items() if (c, m) == (case, method)}
            asked = [f"{n:,} updates" for n in UPDATES.get(method, ())] or [""]
            out += [summed_up(method, part, own, known(case)["values"]) for part in asked]
        return out

    def shows(found: Found) -> Iterator[Table | str]:
        if not fqe.installed():
            yield INSTALL
        for case in listed:
            title = f"{case.name}: root mean squared error of two start values, {len(seeds)} seeds"
            yield _table(title + (f" ({fqe.versions()})" if fqe.installed() else ""), lines(found, case), sizes)
        picture = FOLDER / f"bench-alternatives{'-quick' * quick}.png"
        save(draw_alternatives({f"{case.name}, {len(seeds)} seeds": lines(found, case) for case in listed}), picture)
        yield f"wrote {picture}"

    def bars(found: Found) -> Iterator[Row]:
        for case in listed:
            values, errors = known(case)["values"], known(case)["errors"]
            each = ", ".join(f"{name} {value:.2f} ± {errors[name]:.2g}" for name, value in values.items())
            yield judged(case, lines(found, case), f"true values: {each}")

    return Study(chosen, measure, bars, seeds=seeds, shows=shows, stays=True)


def summed_up(method: str, part: str, runs: Mapping[int, Sequence[Any]], known: Mapping[str, float]) -> Line:
    """One line of a table: the errors of a method (of FQE: after some updates) and its seconds, by the number of steps."""
    errors = [rms([one[part]["answers"] for one in found], known) for found in runs.values()]
    seconds = [float(np.mean([one[part]["seconds"] for one in found])) for found in runs.values()]
    middles, spreads = zip(*errors, strict=True)
    return Line(f"{method}, {part}" if part else method, tuple(runs), middles, spreads, tuple(seconds))


def _table(title: str, lines: Sequence[Line], sizes: Sequence[int]) -> Table:
    def cells(line: Line) -> Iterator[str]:
        found = {n: (f"{e:.3g} ± {d:.1g}", f"{t:.1f}") for n, e, d, t in zip(*line[1:], strict=True)}
        for size in sizes:
            yield from found.get(size, ("-", "-"))

    heads = (f"{n:,} steps{w}" for n in sizes for w in ("", ", seconds"))
    return table(title, ("method", *heads), ((line.name, *cells(line)) for line in lines))


def judged(case: Case, lines: Sequence[Line], note: str) -> Row:
    """The error of gvfx's own steps over the best of the alternatives, with the most steps; there is no bar."""
    last = {line.name: line.errors[-1] for line in lines}
    best = min((name for name in last if not name.startswith("gvfx")), key=lambda name: last[name])
    return Row(f"{case.name}, {lines[0].steps[-1]:,} steps: gvfx over {best}", f"{last[OWN] / last[best]:.2g}x", "", None, note)


@styled
def draw_alternatives(found: Mapping[str, Sequence[Line]]) -> Any:
    """One row per case: errors against steps on the left, against seconds on the right; fewer updates of FQE are dotted."""
    fig, axes = figure(columns=2, rows=len(found), width=4.4, height=3.0)
    shown: dict[str, Any] = {}
    for row, (title, lines) in enumerate(found.items()):
        left, right = axes[2 * row], axes[2 * row + 1]
        most = {line.name.rsplit(", ", 1)[0]: line.name for line in lines if line.name.startswith("FQE")}  # the last of each
        for line in lines:
            family = next(name for name in HUES if line.name.startswith(name))
            dotted = line.name not in (family, most.get(family))
            style = {"color": HUES[family], "marker": "o", "linestyle": ":" if dotted else "-"}
            drawn = left.errorbar(line.steps, line.errors, line.spreads, **style)
            right.errorbar(line.seconds, line.errors, line.spreads, **style)
            shown.setdefault(line.name, drawn)
        left.set_title(title, loc="left")
        left.set_ylabel("root mean squared error")
        for ax, label in ((left, STEPS), (right, "processor seconds")):
            ax.set(xscale="log", yscale="log", xlabel=label)
        left.set_xticks(lines[0].steps)
        left.xaxis.set_major_formatter(FuncFormatter(steps_label))
        left.minorticks_off()
    fig.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=2, frameon=False)
    return fig


FULL = (False, (2_000, 5_000, 20_000), range(700, 705), 200_000)
QUICK = (True, (1_000,), range(700, 702), 200)
PARTS: dict[str, Part] = {"alternatives": lambda quick: alternatives(cases(), *(QUICK if quick else FULL))}
