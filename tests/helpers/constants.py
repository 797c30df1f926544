"""The options of the settings that the prose of the results pages may name, read from the code: by the word beside them."""

from __future__ import annotations

import inspect
from functools import cache

import gvfx
import gvfx_paper
from benchmarks import exploring
from gvfx.behaviours.wrappers import Hold
from gvfx.running.result import Result
from gvfx_paper.algorithm2 import ACTORS, CRITICS
from gvfx_paper.items import curves, gridworlds
from gvfx_paper.items.robots import noise_floor
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings import domains as mujoco
from gvfx_paper.settings import limit, tabular
from gvfx_paper.truths.lattice import shipped_truth
from gvfx_paper.truths.trajectories import mujoco_truth


@cache
def constants() -> dict[str, frozenset[float]]:
    """A pattern that must occur in the sentence: the numbers that are then known."""
    settings, world = gvfx_paper.paper.values(), grid.CONTINUOUS.world
    fourrooms = gvfx_paper.paper["fourrooms"]
    policies = [q.policy.table(1, 4, "policy")[0] for q in grid.CONTINUOUS.questions]
    truth = shipped_truth(world, policies, tabular.DISCOUNT)
    asked = inspect.signature(mujoco_truth).parameters
    critics = (CRITICS["paper"], CRITICS["recommended"])
    learners = [grid.CONTINUOUS.experiment("GVFExplorer", preset).learner for preset in grid.PRESETS]
    lengths = {s.steps for s in settings} | {grid.STEPS, grid.TUNING_STEPS, mujoco.STEPS, curves.TUNING_STEPS}
    rates = {r for s in settings for r in (*s.rates.values(), s.rate_m)} | {*tabular.RATES, *grid.RATES.values()}
    known: dict[str, set[float]] = {
        r"\bsteps\b": lengths | {*limit.TIMES, limit.COVERED_AFTER, limit.MOST_STEPS},
        r"\bepisodes\b": {tabular.AVERAGE_EPISODES, world.horizon, asked["episodes"].default},
        r"\brates?\b": {*rates, *grid.TUNING_RATES},
        r"γ|discount": {tabular.DISCOUNT, mujoco.DISCOUNT},
        r"intervals?\b": {100 * inspect.signature(Result.intervals).parameters["level"].default},
        r"temperature": {float(t) for t in gridworlds.TEMPERATURES.values()},
        r"σ|N\(0": {0.0, *tabular.DRIFTS},
        r"standard deviation": {tabular.DRIFTS[1] * fourrooms.steps**0.5},
        r"GVFs": {len(s.questions) for s in settings},
        r"group|factor": {*tabular.GROUPINGS},
        r"\b(?:points|cells)\b": {len(truth.points), truth.outside.sum(), (~truth.outside).sum(), asked["points"].default},
        r"\bvalue of\b": {goal.mean for goal in world.goals},
        r"replay|buffer": {learner.capacity for learner in learners},
        r"\bworlds\b": {*(c.worlds for c in critics), len(exploring.PARTS["random_mdps"](False).cases)},
        r"networks of": {width for c in (*critics, ACTORS["paper"]) for width in c.hidden},
        r"KL": {ACTORS["paper"].kl_weight},
        r"\b(?:held|hold|[Ff]ollow)": {Hold(gvfx.Mixture()).steps},
        r"\bratio\b": {1.0},  # the limit itself
        r"noise of": {float(f"{noise_floor(name):.2g}") for name in mujoco.DOMAIN_SETTINGS},
        r"standard error": {float(f"{truth.noise.mean():.1g}")},
    }
    return {word: frozenset(map(float, values)) for word, values in known.items()}
