"""Plan before you spend: how many steps each behaviour needs for a wanted error, and what the best one would need.

The error theory (`gvfx.design`) says what certainty equivalence will err by under a fixed behaviour.  In a known world that
needs no step at all.  In an unknown one a short pilot (OptimalDesign) is run first, and the world that its data describe is
taken for the real one: the forecast is then as good as the pilot's picture of the world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gvfx.behaviours.optimal import OptimalDesign
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.model import estimated
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.questions.gvf import GVF, expand, stack
from gvfx.running.backends import as_world, known_world, open_backend
from gvfx.running.drive import drive
from gvfx.running.plan import Plan, checked_seeds
from gvfx.theory import exact
from gvfx.theory.design import Forecast, characteristic_time_of, evaluation, forecast, optimal, second_moment_of, steps_needed
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import is_environment

OPTIMUM = "optimum"
DESIGNS: dict[str, Callable[[MDP, Sequence[GVF]], np.ndarray]] = {  # what each behaviour comes to in a known world
    "Mixture": lambda world, questions: exact.asked_of(world, questions).pi.mean(axis=2),
    "Uniform": lambda world, questions: np.full((1, world.actions), 1 / world.actions),
    "GVFExplorer": exact.explorer_behaviour,
    "SecondMoment": second_moment_of,
    "CharacteristicTime": characteristic_time_of,
}


@dataclass(frozen=True, eq=False)
class Cost:
    """What one behaviour needs for the wanted error, certainty equivalence learning from it."""

    name: str
    behaviour: np.ndarray  # mu [1 or states, actions]
    forecast: Forecast
    steps: float  # until the expected error is the wanted one; infinite if it never is
    low: float  # until one run in twenty has it
    high: float  # until all but one in twenty have it


@dataclass(frozen=True, eq=False)
class Costs:
    """The costs of a wanted error, the cheapest behaviour last; steps are those of a run from nothing."""

    error: float
    costs: tuple[Cost, ...]
    bound: float  # steps below which no behaviour whatever has the wanted error in expectation
    pilot: int = 0  # steps spent to learn the world; 0: it was known
    unseen: int = 0  # evaluation states in which the pilot never acted: their error is not counted

    def __getitem__(self, name: str) -> Cost:
        for cost in self.costs:
            if cost.name == name:
                return cost
        raise InputError(f"name: there is no plan for {name!r}; choose from {', '.join(c.name for c in self.costs)}.")

    def __repr__(self) -> str:
        rows = [f"{c.name}: {c.steps:,.0f} steps, {c.low:,.0f} to {c.high:,.0f}" for c in self.costs]
        return "\n".join([f"for a mean squared error of {self.error:g}", *rows, f"at least: {self.bound:,.0f} steps"])

    def to_json(self) -> dict[str, Any]:
        """Plain data; infinite values become None."""
        names = ("steps", "low", "high")
        rows = {c.name: {n: getattr(c, n) if math.isfinite(getattr(c, n)) else None for n in names} for c in self.costs}
        return {"error": self.error, "bound": self.bound, "pilot": self.pilot, "unseen": self.unseen, "costs": rows}


def plan(
    world: MDP | Any,
    questions: Sequence[GVF],
    error: float,
    *,
    pilot: int = 0,
    seed: int = 0,
    draws: int = 200,
    calibrate: bool = False,
) -> Costs:
    """How many steps each behaviour needs until the mean squared error is `error`, from a known world or after a pilot.

    world: an MDP, or a Gymnasium environment with Discrete observations; one that does not show its table needs a pilot.
    pilot: steps of OptimalDesign from which to estimate the world; 0 takes `world` as known.
    draws: runs drawn for the interval.
    calibrate: ask for the mean of the questions' relative errors, each in units of its mean square value.
    RoundRobin is planned as the mixture.  Cumulants that drift are taken as standing still.
    """
    steps_needed(1.0, error)  # refuses an error of 0 or less
    if pilot < 0:
        raise InputError(f"pilot: {pilot} steps cannot be made; give a number above 0, or 0 to take the world as known.")
    world = as_world(world)
    if is_environment(world):
        world = known_world(world, questions) or world
        if is_environment(world) and not pilot:
            raise InputError("pilot: this environment does not show its transition table; give steps from which to learn it.")
    elif not isinstance(world, MDP):
        raise InputError(f"world: {type(world).__name__} cannot be planned for; give a finite world or an environment.")
    unseen = 0
    if pilot:
        known = run_pilot(world, questions, pilot, seed, calibrate)
        known = replace(known, asked=known.asked._replace(calibrated=False))  # calibrated below, in the estimated world
        counted = known.world.feature[known.world.live]
        world, questions = estimated(known)
        unseen = int((~world.live[counted]).sum())
    wanted = error
    if calibrate:
        asked = stack(questions, world, "calibrated")
        squares = exact.values(world, questions) ** 2 @ evaluation(world)
        if not (squares > 0).all():
            raise InputError(
                f"calibrate: {asked.names[int(squares.argmin())]} is 0 everywhere and has no scale to be relative to."
            )
        questions = [replace(q, weight=float(w)) for q, w in zip(expand(questions), asked.weights / squares, strict=True)]
        wanted = error * asked.weights.sum() / sum(q.weight for q in questions)  # as a mean with these weights
    best = optimal(world, questions)
    designs = {name: make(world, questions) for name, make in DESIGNS.items()} | {OPTIMUM: best.behaviour}
    costs = []
    for name, mu in designs.items():
        f = forecast(world, questions, mu, draws=draws)
        costs.append(Cost(name, mu, f, f.steps(wanted), f.steps(wanted, 0.05), f.steps(wanted, 0.95)))
    costs.sort(key=lambda c: -c.steps)
    return Costs(float(error), tuple(costs), steps_needed(best.bound, wanted), pilot, unseen)


def run_pilot(world: MDP | Any, questions: Sequence[GVF], steps: int, seed: int = 0, calibrate: bool = False) -> Empirical:
    """What OptimalDesign knows of the world after a number of steps."""
    method, once = (OptimalDesign(), CertaintyEquivalence()), Plan.checked(steps, steps, ())
    backend = open_backend(world, questions, *method, plan=once, calibrate=calibrate)
    (part,) = drive(backend, backend.begin(checked_seeds(1, seed)[0]))
    if part.model is None:
        raise InputError("world: only environments with Discrete observations can be planned for.")
    return part.model
