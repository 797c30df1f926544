"""What planning and the best design cost, how large a world may be, and OptimalDesign on worlds made by others.

Run it with `gvfx bench limit`.  Planning is timed by the processor time of one thread, so a busy machine does not change it
much.  The large world runs in a process of its own, whose peak memory is read at the end.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

import gvfx
from gvfx.behaviours.optimal import PlannedState
from gvfx.benchmarks.common.design_worlds import DESIGNS
from gvfx.benchmarks.common.memory import check_memory_known, peak_megabytes
from gvfx.benchmarks.common.rows import Row, as_table, at_most, machine
from gvfx.evidence.counts import Empirical
from gvfx.theory.design import Model, best_design, importance_of, optimal
from gvfx.theory.optimum import CONVERGED

PLANNING_BAR = 6.0  # seconds for all plans of a run of 2 M steps, 400 states, 2 GVFs
MEMORY_BAR = 4.0  # GB
LARGE, POLICIES, PER_POLICY = 200, 4, 25  # cells a side, policies, cumulants of each
WIDE_BAR, REST_BAR = 9, 0.03  # hard worlds whose gap is above 2 %, and the largest gap that the time step does not explain
LONG, LONG_BAR = 20_000, 10.0  # steps of a horizon, seconds for the best design with it
OTHERS: dict[str, tuple[str, dict[str, Any], float]] = {  # as they come, and with chance where they have none; bar at 100,000
    "FrozenLake": ("FrozenLake-v1", {}, 2.0),
    "FrozenLake 8x8": ("FrozenLake-v1", {"map_name": "8x8"}, 1.3),
    "CliffWalking, slippery": ("CliffWalking-v1", {"is_slippery": True}, 1.3),
    "Taxi in the rain": ("Taxi-v4", {"is_rainy": True}, 3.0),
    "CliffWalking": ("CliffWalking-v1", {}, 1e-9),
    "Taxi": ("Taxi-v4", {}, 1e-9),
}
DISCOUNT = 0.9
OTHER_STEPS, OTHER_SEEDS, FIRST_SEED = 100_000, 25, 7000
RUN_BAR = 0.5  # seconds of processor time for a run of 100,000 steps, 400 states, 2 GVFs, answers included


@dataclass(frozen=True)
class Timed(gvfx.OptimalDesign):
    """OptimalDesign that notes the processor time of each plan."""

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        begun = time.process_time()
        super().refresh(state, model)
        SPENT.append(time.process_time() - begun)


SPENT: list[float] = []


def planning(steps: int) -> Row:
    """All plans of one run of `distinct` from a cold start."""
    s = gvfx.paper["distinct"]
    SPENT.clear()
    gvfx.evaluate(s.world, s.questions, Timed(), gvfx.CertaintyEquivalence(), steps=steps, evaluate_every=steps)
    note = f"{len(SPENT)} plans, the longest {max(SPENT):.2g} s, processor time"
    return at_most(f"planning of a run of {steps:,} steps, 400 states, 2 GVFs", sum(SPENT), PLANNING_BAR, " s", note)


def large_world(side: int, per_policy: int) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    """A grid with a goal in every corner, four policies that each prefer a direction, and cumulants paid in cells."""
    rng = np.random.default_rng(0)
    last = side - 1
    corners = {"a": (0, 0), "b": (0, last), "c": (last, 0), "d": (last, last)}
    cells = rng.integers(1, last, (per_policy, 2))
    world = gvfx.gridworld(side, corners)
    policies = [gvfx.constant_policy(np.where(np.arange(4) == a, 0.4, 0.2)) for a in range(POLICIES)]
    return world, [
        gvfx.GVF(pi, gvfx.table_cumulant(_one_cell(world, side, cell), 0.0), 0.99, name=f"{a}-{k}")
        for a, pi in enumerate(policies)
        for k, cell in enumerate(cells)
    ]


def _one_cell(world: gvfx.MDP, side: int, cell: np.ndarray) -> np.ndarray:
    paid = np.zeros(world.states)
    paid[side * cell[0] + cell[1]] = 1.0
    return paid


def _large(side: int, per_policy: int, out: Any) -> None:
    world, questions = large_world(side, per_policy)
    begun = time.perf_counter()
    first = 12 * side * side
    gvfx.evaluate(
        world, questions, Timed(first=first), gvfx.CertaintyEquivalence(), steps=first + 1_000, evaluate_every=first + 1_000
    )
    peak = peak_megabytes() / 1024
    out.put((peak, SPENT[0], time.perf_counter() - begun))


def scale(side: int, per_policy: int) -> Row:
    """Random steps, one plan and all answers in a large world."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=_large, args=(side, per_policy, out))
    process.start()
    peak, plan, total = out.get()
    process.join()
    note = f"one plan {plan:.3g} s of processor time, everything {total:.3g} s"
    return at_most(f"memory, {side * side:,} states, {POLICIES * per_policy} GVFs", peak, MEMORY_BAR, " GB", note)


def long_horizon() -> Row:
    """The best design of `same` with a long horizon; once before with a short one, to compile."""
    s = gvfx.paper["same"]
    model, need = Model.of(s.world), importance_of(s.world, s.questions)
    best_design(model._replace(horizon=50), need)
    begun = time.process_time()
    best = best_design(model._replace(horizon=LONG), need)
    note = f"gap {best.gap:.2%}; processor time, on a quiet machine"
    return at_most(f"best design with a horizon of {LONG:,}, 400 states", time.process_time() - begun, LONG_BAR, " s", note)


def gaps() -> list[Row]:
    """The gap between constant and bound in worlds that are hard for the solver, and what is left without the time step."""
    found = {name: best_design(*make()) for name, make in DESIGNS.items()}
    wide = {name: best for name, best in found.items() if best.gap > CONVERGED}
    worst = max(found, key=lambda name: found[name].gap)
    rest = {name: best.timed / best.bound - 1 for name, best in found.items()}
    last = max(rest, key=lambda name: rest[name])
    note = f"the largest gap is {found[worst].gap:.3g} ({worst})"
    return [
        at_most(f"best designs with a gap above {CONVERGED:.0%}, of {len(found)} hard worlds", len(wide), WIDE_BAR, "", note),
        at_most("largest gap without the value of the time step", rest[last], REST_BAR, "", last),
    ]


def others(steps: int, seeds: int) -> tuple[Table, list[Row]]:
    """Gymnasium's worlds: a random policy and one that prefers an action, asking for the reward and for the time left."""
    title = f"MSE times steps over the optimum after {steps:,} steps, mean (median) of {seeds} seeds, certainty equivalence"
    columns = ("OptimalDesign", "GVFExplorer", "Uniform", "the optimum itself")
    table = Table("world", "live states", *columns, title=title, title_justify="left")
    rows = []
    for name, (environment, options, bar) in OTHERS.items():
        world = gvfx.from_gymnasium(gymnasium.make(environment, **options))
        eager = np.full(world.actions, 0.5 / (world.actions - 1))
        eager[1] = 0.5
        policies = {"random": np.full(world.actions, 1 / world.actions), "eager": eager}
        questions = [
            gvfx.GVF(pi, signal, DISCOUNT, name=f"{who}: {what}")
            for who, pi in policies.items()
            for what, signal in (("reward", gvfx.Reward()), ("steps", 1.0))
        ]
        best = optimal(world, questions)
        limit = best.constant
        followed = gvfx.Follow(0.98 * best.behaviour + 0.02 / world.actions)  # what has no chance in it, it would never try
        behaviours = (gvfx.OptimalDesign(), gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())), gvfx.Uniform(), followed)
        ratios = []
        for behaviour in behaviours:
            r = gvfx.evaluate(
                world,
                questions,
                behaviour,
                gvfx.CertaintyEquivalence(),
                steps=steps,
                seeds=range(FIRST_SEED, FIRST_SEED + seeds),
                evaluate_every=steps,
            )
            ratios.append(r.error[:, -1] * (steps / limit if limit > 0 else 1.0))
        unit = "x" if limit > 0 else " (MSE)"
        table.add_row(name, str(int(world.live.sum())), *(f"{x.mean():.3g}{unit} ({np.median(x):.3g})" for x in ratios))
        mean, uniform = float(ratios[0].mean()), float(ratios[2].mean())
        if limit > 0:
            rows.append(at_most(f"{name}: OptimalDesign over the optimum", mean, bar, "x", f"Uniform {uniform:.3g}x"))
        else:
            note = f"no chance in it: what was tried once is known; Uniform {uniform:.3g}"
            rows.append(at_most(f"{name}: OptimalDesign's MSE", mean, bar, "", note))
    return table, rows


def whole_run(steps: int) -> Row:
    """One run of `distinct` from a cold start: steps, search, plans and answers."""
    s = gvfx.paper["distinct"]
    begun = time.process_time()
    gvfx.evaluate(s.world, s.questions, gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), steps=steps, evaluate_every=steps)
    spent = time.process_time() - begun
    return at_most(f"a run of {steps:,} steps, 400 states, 2 GVFs", spent, RUN_BAR, " s", "processor time; for a quiet machine")


def run(console: Console, quick: bool = False) -> list[Row]:
    """Planning time, memory of a large world, and errors on worlds that nobody tuned for."""
    check_memory_known()
    console.print(machine(), highlight=False)
    table, rows = others(OTHER_STEPS, 4 if quick else OTHER_SEEDS)
    rows += [*gaps(), long_horizon()]
    rows += [planning(200_000 if quick else 2_000_000), whole_run(100_000), scale(60 if quick else LARGE, PER_POLICY)]
    console.print(table)
    console.print(as_table(rows))
    return rows
