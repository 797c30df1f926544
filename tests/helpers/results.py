"""A store of made-up results with known errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import gvfx
import gvfx_paper
from gvfx.report.page import DataTable
from gvfx.running.schema import Part
from gvfx_paper.items.curves import seeds_of
from gvfx_paper.settings.continuous import DeepCurve
from gvfx_paper.settings.domains import HELD, MujocoCurve
from gvfx_paper.settings.limit import LimitCurve, optimum
from gvfx_paper.settings.limit_continuous import LinearCurve
from gvfx_paper.settings.tabular import METHODS

SEEDS = 2
ASKED = {name: [q.name for q in gvfx_paper.paper[name].questions] for name in ("same", "distinct", "semi-greedy")}
TUNED = {setting: {"Uniform": [0.1, 0.8], "GVFExplorer": [0.1, 0.8]} for setting in ("same", "semi-greedy")}


def made_up_error(curve, seed):
    """GVFExplorer 1, the others 2, 3, ... in the order of Table 1; tuned Uniform 0.5; the second seed a tenth more."""
    seed -= seeds_of(curve, SEEDS)[0]
    if isinstance(curve, LimitCurve) and curve.setting != "fourrooms":  # at the end: OptimalDesign at the limit, others 4 times
        level = optimum(curve.setting) / curve.experiment.steps
        return level * (1 if curve.method == "OptimalDesign" else 4) * (1 + 0.1 * seed)
    if isinstance(curve, LimitCurve):
        return 0.01 * (1 + 0.1 * seed)
    if isinstance(curve, LinearCurve):  # half of the runs at their target, if they have one
        return (curve.target or 1e3 / curve.steps) * (1 + 0.1 * seed)
    if isinstance(curve, MujocoCurve) and curve.method == HELD:
        return 3.0
    base = "GVFExplorer" if curve.method.startswith("Explorer") else curve.method.split("-")[0]
    level = 1.0 if base == "GVFExplorer" else 2.0 + METHODS.index(base)
    if isinstance(curve, DeepCurve | MujocoCurve):
        return level * (1 + 0.1 * seed)
    if curve.steps is not None:
        level *= 1 + abs(curve.rate_q - 0.5) + abs((curve.rate_m or 0.9) - 0.9)
    elif curve.method == "Uniform" and curve.rate_q == 0.1:
        level = 0.5
    return level * (1 + 0.1 * seed)


def made_up_part(curve, seed):
    e = curve.experiment
    linear = isinstance(curve, LinearCurve)
    deep = linear or isinstance(curve, DeepCurve)
    control = isinstance(curve, MujocoCurve)
    gvfs, states, actions = len(e.questions), 400 if deep else 50 if control else e.world.states, 6 if control else 4
    o, a = (e.world.observation_size, e.world.action_size) if control else (0, 0)
    chooses = control and e.behaviour.needs_variance and not e.behaviour.needs_actor
    mixture = control and isinstance(getattr(e.behaviour, "behaviour", None), gvfx.MixtureActor)
    scales = np.ones(2 * o + gvfs if control and e.learner.scaled else 0, np.float32)
    steps = np.arange(e.evaluate_every, e.steps + 1, e.evaluate_every)
    times = np.array(sorted({*e.snapshots, e.steps}))
    k = len(times)
    decay = np.linspace(10, 1, len(steps))[:, None]
    return Part(
        steps=steps,
        mse=made_up_error(curve, seed) * decay * np.ones((1, gvfs)),
        levels=np.full((len(steps), gvfs), 100.0),
        episodes=steps // 500,
        snapshot_steps=times,
        values=np.linspace(2, 1, k)[:, None, None] * np.ones((1, gvfs, states)),
        variances=np.ones((k, gvfs, states)) if e.behaviour.needs_variance else np.empty((k, 0)),
        visits=np.ones((k, states, actions), dtype=np.int64),
        behaviour=np.full((k, states, actions), 0.25),
        snapshot_levels=np.full((k, gvfs), 100.0),
        truth=np.full((gvfs, states), 1.5 if linear else 0.0),
        mse_outside=(made_up_error(curve, seed) if linear else 1.0) * np.ones((len(steps), gvfs)) if deep else np.empty(0),
        actor=np.append(made_up_weights(o, 64, 64, gvfs * (1 + a) if mixture else 2 * a), scales)
        if control and e.behaviour.needs_actor
        else np.empty(0),
        critics=np.append(np.tile(made_up_weights(o + a, 64, 64, gvfs), 2), scales) if chooses else np.empty(0),
        standard_errors=made_up_certainty(curve, states) if isinstance(curve, LimitCurve | LinearCurve) else np.empty(0),
    )


def made_up_weights(*sizes):
    return np.zeros(sum((n + 1) * m for n, m in pairwise(sizes)), np.float32)


def made_up_certainty(curve, states):
    """Everything is 2 off the truth: a half of the states know that, a quarter do not, an eighth are sure, the rest unknown."""
    kinds = np.repeat([2.0, 2.0, 2.0, 2.0, 0.1, 0.1, 0.0, np.inf], -(-states // 8))[:states]
    return np.broadcast_to(kinds, (1, len(curve.experiment.questions), states)).copy()


def rows_of(table: DataTable) -> dict[tuple[str, str], dict[str, str]]:
    return {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
