"""What planning and the best design cost, how large a world may be, and OptimalDesign on worlds made by others.

Planning is timed by processor time, so a busy machine does not change it much.  The large world runs in a process of its own,
whose peak memory is read at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

import gvfx
from benchmarks import study
from benchmarks.common.design_worlds import DESIGNS
from benchmarks.common.worlds import paper_setting
from benchmarks.exploring import EXPLORER, OPTIMUM, OURS, over_optimum
from benchmarks.study import Asked, Found, Part, Row, Study, answered, apart, at_most, mean_and_median, of_rows, peak_megabytes
from gvfx.behaviours.optimal import PlannedState
from gvfx.evidence.counts import Empirical
from gvfx.theory.design import Model, best_design, importance_of
from gvfx.theory.optimum import CONVERGED

PLANNING_BAR = 6.0  # seconds for all plans of a run of 2 M steps, 400 states, 2 GVFs
RUN_BAR = 0.5  # seconds of processor time for a run of 100,000 steps, 400 states, 2 GVFs, answers included
MEMORY_BAR = 4.0  # GB
LARGE, POLICIES, PER_POLICY = 200, 4, 25  # cells a side, policies, cumulants of each
WIDE_BAR, REST_BAR = 9, 0.03  # hard worlds whose gap is above 2 %, and the largest gap that the time step does not explain
LONG, LONG_BAR = 20_000, 10.0  # steps of a horizon, seconds for the best design with it

# --- worlds made by others -------------------------------------------------------------------------------------------

OTHERS: dict[str, tuple[str, dict[str, Any], float]] = {  # as they come, and with chance where they have none; bar at 100,000
    "FrozenLake": ("FrozenLake-v1", {}, 2.0),
    "FrozenLake 8x8": ("FrozenLake-v1", {"map_name": "8x8"}, 1.3),
    "CliffWalking, slippery": ("CliffWalking-v1", {"is_slippery": True}, 1.3),
    "Taxi in the rain": ("Taxi-v4", {"is_rainy": True}, 3.0),
    "CliffWalking": ("CliffWalking-v1", {}, 1e-9),
    "Taxi": ("Taxi-v4", {}, 1e-9),
}
CERTAIN = ("CliffWalking", "Taxi")  # worlds without chance
STEPS, FIRST_SEED = 100_000, 7000
METHODS: dict[str, Callable[[], gvfx.Behaviour] | None] = {
    OURS: gvfx.OptimalDesign,
    "GVFExplorer": EXPLORER,
    "Uniform": gvfx.Uniform,
    OPTIMUM: None,
}


def asked_of(name: str) -> Asked:
    """A random policy and one that prefers an action, asking for the reward and for the time left."""
    environment, options, _ = OTHERS[name]
    world = gvfx.from_gymnasium(gymnasium.make(environment, **options))
    eager = np.full(world.actions, 0.5 / (world.actions - 1))
    eager[1] = 0.5
    policies = {"random": np.full(world.actions, 1 / world.actions), "eager": eager}
    return world, study.every(policies, {"reward": gvfx.Reward(), "steps": 1.0}, 0.9)


def others(seeds: int) -> Study:
    """Gymnasium's worlds: MSE times steps over the optimum, or the MSE where there is no chance and the optimum is 0."""
    score = over_optimum(asked_of, (STEPS,), range(FIRST_SEED, FIRST_SEED + seeds))

    def measure(name: str) -> dict[str, Any]:
        found = {method: score(name, make)[:, 0] for method, make in METHODS.items()}
        return {"live states": int(asked_of(name)[0].live.sum()), "unit": "MSE" if name in CERTAIN else "x"} | found

    def bars(found: Found) -> Iterator[Row]:
        for name, of in found.items():
            mean, uniform, bar = float(of[OURS].mean()), float(of["Uniform"].mean()), OTHERS[name][2]
            if name not in CERTAIN:
                yield at_most(f"{name}: OptimalDesign over the optimum", mean, bar, "x", f"Uniform {uniform:.3g}x")
            else:
                note = f"no chance in it: what was tried once is known; Uniform {uniform:.3g}"
                yield at_most(f"{name}: OptimalDesign's MSE", mean, bar, "", note)

    title = f"MSE times steps over the optimum after {STEPS:,} steps, mean (median) of {seeds} seeds, certainty equivalence"
    return Study({name: name for name in OTHERS}, measure, bars, title, ("world",), spread=mean_and_median)


# --- designs ---------------------------------------------------------------------------------------------------------


def gaps() -> list[Row]:
    """The gap between constant and bound in worlds that are hard for the solver, and what is left without the time step."""
    found = {name: best_design(*make()) for name, make in DESIGNS.items()}
    wide = sum(best.gap > CONVERGED for best in found.values())
    worst = max(found, key=lambda name: found[name].gap)
    rest = {name: best.timed / best.bound - 1 for name, best in found.items()}
    last = max(rest, key=lambda name: rest[name])
    note = f"the largest gap is {found[worst].gap:.3g} ({worst})"
    return [
        at_most(f"best designs with a gap above {CONVERGED:.0%}, of {len(found)} hard worlds", wide, WIDE_BAR, "", note),
        at_most("largest gap without the value of the time step", rest[last], REST_BAR, "", last),
    ]


def long_horizon() -> list[Row]:
    """The best design of `same` with a long horizon; once before with a short one, to compile."""
    world, questions = paper_setting("same")
    model, need = Model.of(world), importance_of(world, questions)
    best_design(model._replace(horizon=50), need)
    begun = time.process_time()
    best = best_design(model._replace(horizon=LONG), need)
    seconds, note = time.process_time() - begun, f"gap {best.gap:.2%}; processor time, on a quiet machine"
    return [at_most(f"best design with a horizon of {LONG:,}, 400 states", seconds, LONG_BAR, " s", note)]


# --- plans -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed(gvfx.OptimalDesign):
    """OptimalDesign that notes the processor time of each plan."""

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        begun = time.process_time()
        super().refresh(state, model)
        SPENT.append(time.process_time() - begun)


SPENT: list[float] = []


def planning(steps: int) -> list[Row]:
    """All plans of one run of `distinct` from a cold start."""
    SPENT.clear()
    answered(paper_setting("distinct"), Timed(), steps, 1)
    note = f"{len(SPENT)} plans, the longest {max(SPENT):.2g} s, processor time"
    return [at_most(f"planning of a run of {steps:,} steps, 400 states, 2 GVFs", sum(SPENT), PLANNING_BAR, " s", note)]


def whole_run(steps: int) -> list[Row]:
    """One run of `distinct` from a cold start: steps, search, plans and answers."""
    begun = time.process_time()
    answered(paper_setting("distinct"), gvfx.OptimalDesign(), steps, 1)
    spent, note = time.process_time() - begun, "processor time; for a quiet machine"
    return [at_most(f"a run of {steps:,} steps, 400 states, 2 GVFs", spent, RUN_BAR, " s", note)]


def large_world(side: int) -> Asked:
    """A grid with a goal in every corner, four policies that each prefer a direction, and cumulants paid in cells."""
    last = side - 1
    world = gvfx.gridworld(side, {"a": (0, 0), "b": (0, last), "c": (last, 0), "d": (last, last)})
    cells = np.random.default_rng(0).integers(1, last, (PER_POLICY, 2))
    policies = [gvfx.constant_policy(np.where(np.arange(4) == a, 0.4, 0.2)) for a in range(POLICIES)]
    paid = [gvfx.table_cumulant(1.0 * (np.arange(world.states) == side * row + column), 0.0) for row, column in cells]
    return world, [gvfx.GVF(pi, c, 0.99, name=f"{a}-{k}") for a, pi in enumerate(policies) for k, c in enumerate(paid)]


def _large(side: int) -> tuple[float, float, float]:
    asked, first = large_world(side), 12 * side * side
    begun = time.perf_counter()
    answered(asked, Timed(first=first), first + 1_000, 1)
    return peak_megabytes() / 1024, SPENT[0], time.perf_counter() - begun


def scale(side: int) -> list[Row]:
    """Random steps, one plan and all answers in a large world, in a process whose peak of memory is read at the end."""
    peak, plan, total = apart(_large, side)
    note = f"one plan {plan:.3g} s of processor time, everything {total:.3g} s"
    return [at_most(f"memory, {side * side:,} states, {POLICIES * PER_POLICY} GVFs", peak, MEMORY_BAR, " GB", note)]


def plans(quick: bool) -> Study:
    """What planning costs in the paper's setting and in a large world."""
    steps, side = (200_000, 60) if quick else (2_000_000, LARGE)
    return of_rows({"planning": lambda: planning(steps), "a run": lambda: whole_run(100_000), "scale": lambda: scale(side)})


PARTS: dict[str, Part] = {
    "others": study.sized(others, [25], [4]),
    "designs": lambda quick: of_rows({"gaps": gaps, "long horizon": long_horizon}),
    "plans": plans,
}
