"""How close to the limit on the continuous grid: behaviours with linear features, and the optimum on a lattice of cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture, RoundRobin, Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.evidence.uncertainty import error_below
from gvfx.experiments.settings.grid import questions
from gvfx.experiments.specification import Experiment
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.questions.gvf import GVF
from gvfx.theory.design import constant, optimal
from gvfx.theory.grid_lattice import arrivals, lattice_mdp
from gvfx.theory.rollouts import Rollouts, rollouts
from gvfx.truths.lattice import lattice_points
from gvfx.worlds.continuous_grid import paper_grid
from gvfx.worlds.mdp import MDP

BEHAVIOURS: dict[str, Behaviour] = {
    "OptimalDesign": OptimalDesign(),
    "GVFExplorer": GVFExplorer(),
    "Uniform": Uniform(),
    "Mixture": Mixture(),
    "RoundRobin": RoundRobin(),
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

    @property
    def setting(self) -> str:
        return "continuous"

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


@cache
def _experiment(curve: LinearCurve) -> Experiment:
    made = Experiment(
        world=paper_grid(),
        questions=questions(),
        behaviour=BEHAVIOURS[curve.method],
        learner=LinearCertaintyEquivalence(),
        steps=curve.steps,
        evaluate_every=curve.steps,
    )
    return made if curve.target is None else replace(made, until=error_below(curve.target))


def linear_curves() -> list[LinearCurve]:
    """OptimalDesign at all times, and the paper's behaviours at the first two."""
    main = [LinearCurve(steps=steps, seeds=SEEDS if steps == TIMES[0] else FEWER) for steps in TIMES]
    return [*main, *(LinearCurve(m, steps, seeds=OTHER_SEEDS) for m in BEHAVIOURS if m != MAIN for steps in OTHERS)]


def stop_curve() -> LinearCurve:
    """OptimalDesign with the stopping rule."""
    return LinearCurve(steps=MOST_STEPS, target=TARGET, first_seed=2 * FIRST_SEED, seeds=STOPS)


class Limits(NamedTuple):
    """MSE times steps that behaviours tend to with an efficient estimator on the lattice."""

    optimal: float
    certified: float  # no behaviour is below this
    uniform: float
    mixture: float


def lattice(side: int) -> tuple[MDP, list[GVF]]:
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
