"""Default settings for networks on CartPole, three policies times two signals: against RoundRobin, and their spread.

Truth is by Monte Carlo at states of random walks.  Errors are squared errors over the spread of the true values,
averaged over questions.  Run it with `gvfx bench cartpole`.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from rich.console import Console

import gvfx
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.questions.policies import PolicyLike
from gvfx.running.method import network_behaviour, network_learner
from gvfx.running.result import standard_error

POLICIES: dict[str, PolicyLike] = {
    "random": gvfx.uniform_policy(),
    "balancing": lambda o: [0.9, 0.1] if o[2] + o[3] < 0 else [0.1, 0.9],
    "careless": lambda o: [0.7, 0.3] if o[2] + 0.5 * o[3] < 0.05 else [0.3, 0.7],
}
FULL, QUICK = (10, 10_000, 24, 150), (2, 3_000, 4, 50)  # seeds, steps, points, episodes per point and policy


def questions() -> list[gvfx.GVF]:
    """Time upright and distance from the middle, of three policies."""
    out = []
    for who, policy in POLICIES.items():
        out.append(gvfx.GVF(policy, 1.0, 0.95, name=f"{who}: time upright"))
        out.append(gvfx.GVF(policy, lambda o, a, o2: abs(float(o2[0])), 0.95, name=f"{who}: distance"))
    return out


def run(console: Console, quick: bool = False) -> list[Row]:
    """Measure, print and return."""
    console.print(machine(), highlight=False)
    seeds, steps, points, episodes = QUICK if quick else FULL
    env = gym.make("CartPole-v1")
    with console.status("truth by Monte Carlo"):
        truth = gvfx.truth_of(env, questions(), points, max_episodes=episodes)
    where = np.stack([np.asarray(p) for p in truth.points])
    units = truth.values.std(axis=1)
    errors, inside, width = {}, 0.0, 0.0
    learner = network_learner(questions(), steps)
    for name, behaviour in {"defaults": network_behaviour(), "RoundRobin": gvfx.RoundRobin()}.items():
        with console.status(name):
            result = gvfx.evaluate(env, questions(), behaviour, learner, steps=steps, seeds=seeds, evaluate_every=steps)
        values, spreads = result.predictor.at(where, result.values, np.empty(0))  # [seed, gvf, point]
        off = (values - truth.values) / units[:, None]
        errors[name] = (off**2).mean(axis=(1, 2))
        if name == "defaults":
            inside = float((np.abs(values - truth.values) <= 1.96 * spreads).mean())
            width = float((2 * 1.96 * spreads / units[:, None]).mean())
    ours, theirs = errors["defaults"], errors["RoundRobin"]
    gap = ours - theirs
    note = ", ".join(f"{name} {e.mean():.3g} ± {standard_error(e):.1g}" for name, e in errors.items())
    note += f"; difference {gap.mean():.2g} ± {standard_error(gap):.1g}; truth's standard error "
    note += f"{(truth.standard_errors / units[:, None]).mean():.2g}"
    case = f"CartPole, {seeds} seeds, {steps:,} steps: defaults over RoundRobin"
    rows = [at_most(case, (ours.mean() - 2 * standard_error(gap)) / theirs.mean(), 1.0, "x less two errors", note)]
    words = f"they span {width:.2g} standard deviations of the true values on average"
    rows.append(Row("CartPole: predictions within 1.96 spreads of the heads from the truth", f"{inside:.0%}", "", None, words))
    console.print(as_table(rows))
    return rows
