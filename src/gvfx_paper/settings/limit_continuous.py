"""How close to the limit on the continuous grid: behaviours with linear features, and the optimum on a lattice of cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.theory.design import constant, optimal
from gvfx_paper.settings.continuous import questions
from gvfx_paper.truths.lattice import arrivals, lattice_mdp, lattice_points
from gvfx_paper.truths.rollouts import Rollouts, rollouts
from gvfx_paper.worlds.continuous_grid import paper_grid

BEHAVIOURS: dict[str, gvfx.Behaviour] = {
    type(each).__name__: each
    for each in (gvfx.OptimalDesign(), gvfx.GVFExplorer(), gvfx.Uniform(), gvfx.Mixture(), gvfx.RoundRobin())
}
MAIN = "OptimalDesign"
TIMES = (50_000, 200_000, 1_000_000)
OTHERS = TIMES[:2]  # at which the paper's behaviours are measured
FIRST_SEED = 300  # of runs that nothing was chosen on
SEEDS, FEWER = 20, 10  # at the first time; at the later ones
OTHER_SEEDS = 5
TARGET, MOST_STEPS, STOPS = 0.3, 200_000, 100  # of the stopping rule
SIDES = (20, 40, 60, 80)  # of the lattices for which limits are listed
SIDE = 60  # cells per axis of the lattice on which the limit is computed: each point of evaluation is the middle of a cell


@dataclass(frozen=True)
class LinearCurve:
    """One behaviour with linear features, measured at its end."""

    method: str = MAIN
    steps: int = TIMES[0]
    target: float | None = None  # of the stopping rule
    first_seed: int = FIRST_SEED
    seeds: int = SEEDS  # runs, unless another number is asked for

    setting: ClassVar[str] = "continuous"
    preset: ClassVar[str] = "recommended"  # gvfx's own choices

    @property
    @cache  # noqa: B019
    def experiment(self) -> Experiment:
        until = None if self.target is None else gvfx.error_below(self.target)
        method = BEHAVIOURS[self.method], gvfx.LinearCertaintyEquivalence()
        return Experiment(paper_grid(), questions(), *method, self.steps, self.steps, until=until)


CURVES = [  # OptimalDesign at all times, and the paper's behaviours at the first two
    *(LinearCurve(steps=steps, seeds=SEEDS if steps == TIMES[0] else FEWER) for steps in TIMES),
    *(LinearCurve(m, steps, seeds=OTHER_SEEDS) for m in BEHAVIOURS if m != MAIN for steps in OTHERS),
]
STOP_CURVE = LinearCurve(steps=MOST_STEPS, target=TARGET, first_seed=2 * FIRST_SEED, seeds=STOPS)


class Limits(NamedTuple):
    """MSE times steps that behaviours tend to with an efficient estimator on the lattice."""

    optimal: float
    certified: float  # no behaviour is below this
    uniform: float
    mixture: float


def lattice(side: int) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    """The world on side^2 cells, in which errors count at the points outside the goals, and the questions about it."""
    points = lattice_points()
    world = lattice_mdp(paper_grid(), side, points[~paper_grid().inside(points).any(axis=1)])
    return world, [replace(q, cumulant=c) for q, c in zip(questions(), arrivals(paper_grid(), side), strict=True)]


@cache
def grid_rollouts(side: int = SIDE) -> list[Rollouts]:
    """Plain Monte Carlo from every point outside the goals, on a lattice of side^2 cells."""
    return rollouts(*lattice(side))


@cache
def limits(side: int = SIDE) -> Limits:
    """The limits on a lattice of side^2 cells."""
    world, asked = lattice(side)
    best = optimal(world, asked)
    uniform = np.full((1, world.actions), 1 / world.actions)
    mixture = np.mean([q.policy.table(1, world.actions, "policy") for q in asked], axis=0)
    return Limits(best.constant, best.bound, constant(world, asked, uniform), constant(world, asked, mixture))
