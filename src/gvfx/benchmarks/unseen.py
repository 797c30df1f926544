"""Whether intervals, the stopping rule and plans know what was never seen: hard worlds, ordinary ones, and pilots.

Hard worlds (`common/hard_worlds.py`) are run as MDPs and as Gymnasium environments.  A promise is broken if a run stopped by
`error_below` has a larger error than its target; coverage is the share of finite 95 % intervals that contain the truth.
Constants were chosen on seeds below 100; the benchmark uses others.  Run it with `gvfx bench unseen`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.hard_worlds import HARD, UNDETECTABLE, Asked, Stepped, jackpots
from gvfx.benchmarks.common.rows import Row, as_table, at_most
from gvfx.benchmarks.random_mdps import random_world
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import smoothed_noise
from gvfx.theory.design import Model, variances
from gvfx.worlds.toy_text import from_gymnasium

FIRST_SEED = 1000
TIMES = (3_000, 10_000, 30_000, 100_000)
TARGETS = (0.02, 0.002)  # of the mean square true value
FULL, QUICK = (50, TIMES), (4, TIMES[:2])  # runs of each world, times of measurement
PILOT = 10_000


def _lake(size: str) -> Asked:
    world = from_gymnasium(gymnasium.make("FrozenLake-v1", map_name=size))
    policies = {"uniform": [0.25] * 4, "down and right": [0.1, 0.4, 0.4, 0.1]}
    return world, [gvfx.GVF(pi, gvfx.Reward(), 0.95, name=name) for name, pi in policies.items()]


def _garnet(number: int, states: int = 20, actions: int = 3, branches: int = 4) -> Asked:
    rng = np.random.default_rng(1000 + number)
    P = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        P[s, a, rng.choice(states, branches, replace=False)] = rng.dirichlet(np.ones(branches))
    sizes = (states, actions)
    questions = []
    for i in range(2):
        policy = 0.9 * rng.dirichlet(np.ones(actions), size=states) + 0.1 / actions
        questions.append(
            gvfx.GVF(policy, gvfx.table_cumulant(rng.normal(size=sizes), np.full(sizes, 0.5)), 0.9, name=f"question {i}")
        )
    return gvfx.MDP.from_matrix(P, horizon=100), questions


def _paper(name: str) -> Asked:
    return gvfx.paper[name].world, list(gvfx.paper[name].questions)


ORDINARY: dict[str, Callable[[], Asked]] = {
    **{name: (lambda name=name: _paper(name)) for name in ("same", "distinct", "semi-greedy")},  # type: ignore[misc]
    "FrozenLake 4x4": lambda: _lake("4x4"),
    "Garnet 1": lambda: _garnet(1),
    "Garnet 2": lambda: _garnet(2),
}
FEW_COUNTS: dict[str, Callable[[], Asked]] = {
    "FrozenLake 8x8": lambda: _lake("8x8"),
    "jackpots": jackpots,
    **{f"random world {k}": (lambda k=k: random_world(k)) for k in (3, 4, 6, 7)},  # type: ignore[misc]
}


def own_errors(data: Empirical) -> np.ndarray:
    """Standard errors from each pair's own variance, without what pairs share and without the unseen, [gvf, state]."""
    n = data.visits[:, :, None].astype(float)
    mean, variance = data.moments(data.values)
    noise = smoothed_noise(mean, variance, variance * np.where(n > 1, n / np.maximum(n - 1, 1), 1.0), n)
    pi = np.stack([data.policy(i) for i in range(len(data.asked.names))], axis=-1)
    prob = data.counts / np.maximum(n, 1)
    model = Model(data.world.next, prob, data.evidence.starts / data.evidence.starts.sum(), data.world.terminal)
    return np.sqrt(variances(model, pi, data.asked.gamma, noise, data.visits))


def forms(asked: Asked) -> Iterator[tuple[str, Any]]:
    """A world as an MDP and as an environment that does not show its table."""
    yield "MDP", asked[0]
    yield "Gymnasium", Stepped(asked[0])


def coverage(source: Any, asked: Asked, runs: int, times: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, float]:
    """Coverage and share of finite intervals [time], and the mean width at the end over that of each pair's own variance."""
    world, questions = asked
    truth = gvfx.exact.values(world, questions)
    r = gvfx.evaluate(source, questions, steps=times[-1], snapshots=times, evaluate_every=times[-1], seeds=_seeds(runs))
    cover, finite = [], []
    for snapshot in r.snapshots:
        acted = snapshot.visits.sum(axis=2) > 0  # [seed, state]
        where = acted if isinstance(source, Stepped) else np.broadcast_to(world.live, acted.shape)
        counted = np.broadcast_to(where[:, None], snapshot.values.shape)
        errors, missed = np.asarray(snapshot.standard_errors), np.abs(snapshot.values - truth)
        sure = np.isfinite(errors) & counted
        finite.append(sure.sum() / counted.sum())
        cover.append((missed <= 1.96 * errors + 1e-12)[sure].mean() if sure.any() else np.nan)
    now = np.asarray(r.snapshots[-1].standard_errors)
    before = np.stack([own_errors(m)[:, : now.shape[2]] for m in r.models])
    both = np.isfinite(now) & np.isfinite(before) & (before > 0)
    return np.array(cover), np.array(finite), float(now[both].mean() / before[both].mean()) if both.any() else np.nan


def stops(source: Any, asked: Asked, target: float, runs: int, most: int) -> tuple[int, int, float]:
    """Broken promises, runs that stopped, and the median number of steps of those, with `error_below(target)`."""
    world, questions = asked
    truth = gvfx.exact.values(world, questions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        r = gvfx.evaluate(source, questions, steps=most, evaluate_every=most, seeds=_seeds(runs), until=gvfx.error_below(target))
    reached, stopped = np.asarray(r.reached), np.asarray(r.stopped)
    broken = 0
    for k in np.flatnonzero(reached):
        counted = r.visits[k].sum(axis=1) > 0 if isinstance(source, Stepped) else world.live
        broken += bool(((r.values[k] - truth)[:, counted] ** 2).mean() > target)
    return broken, int(reached.sum()), float(np.median(stopped[reached])) if reached.any() else np.nan


def pilots(source: Any, asked: Asked, runs: int) -> tuple[int, list[float]]:
    """How many pilots were refused, and the others' forecast for the optimum over that of the known world."""
    world, questions = asked
    error = 0.002 * float((gvfx.exact.values(world, questions)[:, world.live] ** 2).mean())
    known = gvfx.plan(world, questions, error, draws=20)["optimum"].steps
    refused, ratios = 0, []
    for seed in _seeds(runs):
        try:
            ratios.append(gvfx.plan(source, questions, error, pilot=PILOT, seed=seed, draws=20)["optimum"].steps / known)
        except gvfx.InputError:
            refused += 1
    return refused, ratios


def _seeds(runs: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + runs)


def _percent(x: float) -> str:
    return "-" if np.isnan(x) else f"{x:.0%}"


def _hard(console: Console, runs: int, times: tuple[int, ...]) -> list[Row]:
    table = Table("world", "form", *(f"{t:,}: coverage (finite)" for t in times), "broken, of stopped", title="Hard worlds")
    pilot = Table("world", "form", "pilots refused", "forecast over the truth", title=f"Pilots of {PILOT:,} steps")
    broken = stopped = 0
    least = 1.0
    for name, make in {**HARD, **UNDETECTABLE}.items():
        asked = make()
        scale = float((gvfx.exact.values(*asked)[:, asked[0].live] ** 2).mean())
        for form, source in forms(asked):
            cover, finite, _ = coverage(source, asked, runs, times)
            kept = [stops(source, asked, share * scale, runs, times[-1]) for share in TARGETS]
            refused, ratios = pilots(source, asked, min(runs, 20))
            cells = [f"{_percent(c)} ({_percent(f)})" for c, f in zip(cover, finite, strict=True)]
            table.add_row(name, form, *cells, ", ".join(f"{b} of {n}" for b, n, _ in kept))
            pilot.add_row(name, form, f"{refused} of {refused + len(ratios)}", ", ".join(f"{x:.2g}" for x in sorted(ratios)))
            if name in HARD:
                broken, stopped = broken + sum(k[0] for k in kept), stopped + sum(k[1] for k in kept)
                least = min(least, float(np.nanmin(np.append(cover, 1.0))))
    console.print(table)
    console.print(pilot)
    share = 100 * broken / max(1, stopped)
    low = 100 * (1 - least)
    return [
        at_most("broken promises", share, 5, " %", f"{broken} of {stopped} runs that stopped"),
        at_most("intervals that miss, worst world and time", low, 10, " %", "of the finite ones"),
    ]


def _easy(
    console: Console, title: str, worlds: dict[str, Callable[[], Asked]], runs: int, times: tuple[int, ...], wide: float
) -> list[Row]:
    table = Table("world", *(f"{t:,}: coverage (finite)" for t in times), "width over own variance", title=title)
    rows = []
    for name, make in worlds.items():
        asked = make()
        cover, finite, width = coverage(asked[0], asked, runs, times)
        table.add_row(name, *(f"{_percent(c)} ({_percent(f)})" for c, f in zip(cover, finite, strict=True)), f"{width:.3f}")
        rows.append(at_most(f"{name}: width", width, wide, "x", f"coverage {_percent(cover[-1])} after {times[-1]:,} steps"))
    console.print(table)
    return rows


def run(console: Console, quick: bool = False) -> list[Row]:
    """Hard worlds, ordinary worlds and worlds with few counts; at full size a few hours on one core."""
    runs, times = QUICK if quick else FULL
    rows = _hard(console, runs, times)
    rows += _easy(console, "Ordinary worlds", ORDINARY, runs, times[-2:], 1.05)
    rows += _easy(console, "Worlds with few counts", FEW_COUNTS, runs, times[-2:], 1.3)
    console.print(as_table(rows))
    return rows
