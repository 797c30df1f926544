"""Forecasts of how many steps each behaviour, and the best possible one, needs to reach an error.

The error theory (`gvfx.design`) predicts the error of certainty equivalence under a fixed behaviour.  In a known world this
needs no steps.  In an unknown one a short pilot (OptimalDesign) is run first and the world estimated from its data is used:
the forecast is then as good as that estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gvfx.behaviours.optimal import OptimalDesign
from gvfx.errors import InputError, UnknownName
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import estimated
from gvfx.evidence.transitions import CellModel
from gvfx.evidence.unseen import STOP_BELOW, Unseen, frontier
from gvfx.inputs import is_real, shown, whole
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.tabular import CertaintyEquivalence
from gvfx.questions.gvf import GVF, expand, on_rewards, stack
from gvfx.questions.where import EVERYWHERE, START, Where, WhereLike, as_where
from gvfx.running.backends import as_world, known_world, open_backend
from gvfx.running.drive import drive
from gvfx.running.plan import Options, Plan, checked_seeds
from gvfx.theory import exact
from gvfx.theory.design import Forecast, characteristic_time_of, forecast, optimal, second_moment_of, steps_needed
from gvfx.threads import one_thread
from gvfx.types import Described, Environment
from gvfx.worlds.mdp import MDP, CompiledWorld, World
from gvfx.worlds.spec import DiscreteSpec, discrete_spec, has_box_actions, is_counted, is_environment, spec_of

OPTIMUM = "optimum"
FEW_TRIES, FEW_STATES = 3, 0.1  # a pilot with fewer tries of some action in more than this share of the states is refused
DESIGNS: dict[str, Callable[[MDP, Sequence[GVF]], np.ndarray]] = {  # each behaviour's fixed point in a known world
    "Mixture": lambda world, questions: exact.asked_of(world, questions).pi.mean(axis=2),
    "Uniform": lambda world, questions: np.full((1, world.actions), 1 / world.actions),
    "GVFExplorer": exact.explorer_behaviour,
    "SecondMoment": second_moment_of,
    "CharacteristicTime": characteristic_time_of,
}


@dataclass(frozen=True, eq=False)
class Cost:
    """The steps that one behaviour needs to reach the target error, with certainty equivalence as the learner."""

    name: str
    behaviour: np.ndarray  # mu [1 or states, actions]
    forecast: Forecast
    steps: float  # until the expected error reaches the target; infinite if it never does
    low: float  # until 5 % of the runs have reached it
    high: float  # until 95 % of the runs have reached it
    bounded: float  # until the rule error_below, which needs a bound on the error and not its mean, stops


@dataclass(frozen=True, eq=False)
class Costs(Mapping[str, Cost]):
    """The steps that behaviours need to reach an error, by name, the fastest behaviour last; counted from a cold start."""

    error: float
    costs: tuple[Cost, ...]
    bound: float  # no behaviour reaches the error in expectation with fewer steps
    pilot: int = 0  # steps of the pilot; 0 if the world was known
    unseen: int = 0  # evaluation states in which the pilot never acted; their error is not counted

    def __getitem__(self, name: str) -> Cost:
        for cost in self.costs:
            if cost.name == name:
                return cost
        raise UnknownName("name", str(name), list(self))

    def __iter__(self) -> Iterator[str]:
        return (cost.name for cost in self.costs)

    def __len__(self) -> int:
        return len(self.costs)

    def __repr__(self) -> str:
        rows = [
            f"{c.name}: {c.steps:,.0f} steps, {c.low:,.0f} to {c.high:,.0f}; {c.bounded:,.0f} until it is sure"
            for c in self.costs
        ]
        return "\n".join([f"for a mean squared error of {self.error:g}", *rows, f"at least: {self.bound:,.0f} steps"])

    def to_json(self) -> Described:
        """Plain data; infinite values become None."""
        names = ("steps", "low", "high", "bounded")
        rows = {c.name: {n: getattr(c, n) if math.isfinite(getattr(c, n)) else None for n in names} for c in self.costs}
        return {"error": self.error, "bound": self.bound, "pilot": self.pilot, "unseen": self.unseen, "costs": rows}


@one_thread()
def plan(
    world: World | Environment | str,
    questions: Sequence[GVF],
    error: float,
    *,
    pilot: int = 0,
    seed: int = 0,
    draws: int = 200,
    calibrate: bool = False,
    where: WhereLike = None,
) -> Costs:
    """How many steps each behaviour needs until the mean squared error is `error`, in a known world or after a pilot.

    world: an MDP; or the continuous grid or a Gymnasium environment with Discrete actions, which need a pilot unless they
           expose their table.  With continuous observations the forecast is about tables of cells of them: linear answers
           need fewer steps.
    pilot: steps of OptimalDesign from which to estimate the world; 0 treats `world` as known.
    draws: number of simulated runs for the interval.
    calibrate: `error` is the mean of the questions' relative errors, each in units of its mean square value.
    where: where the error counts, as in `gvfx.evaluate`; the pilot itself explores for all states.
    `steps` of a cost is when the expected error reaches `error`; a run with until=error_below(error) goes on until an upper
    bound of its error does, which is `bounded`.  A pilot that may have missed what the answers rest on is refused.
    RoundRobin is planned as the mixture.  Drifting cumulants are treated as constant.
    """
    if not is_real(error):
        raise InputError(f"error: {error!r:.40} is not a number; give a mean squared error above 0.")
    steps_needed(1.0, error)  # refuses an error of 0 or less
    pilot, draws = whole(pilot, "pilot"), whole(draws, "draws", least=2, most=1_000_000)
    seed = whole(seed, "seed", least=0)
    if not isinstance(calibrate, bool):
        raise InputError(f"calibrate: {shown(calibrate)} is neither True nor False; give one of them.")
    if pilot < 0:
        raise InputError(f"pilot: {pilot} is negative; give a number of steps, or 0 to treat the world as known.")
    given: Any = as_world(world)
    questions = on_rewards(questions, given)
    if is_environment(given):
        given = known_world(given, questions) or given
        if is_environment(given) and not pilot:
            raise InputError("pilot: this environment does not expose its transition table; give steps to estimate it from.")
    elif isinstance(given, CompiledWorld) and given.planned_on_cells and not pilot:
        raise InputError("pilot: this world is planned on cells of it; give steps to estimate them from, such as 50,000.")
    elif isinstance(given, CompiledWorld) and not given.planned_on_cells:
        raise InputError(f"world: {type(given).__name__} is not supported; give a finite world, or one with Discrete actions.")
    unseen, at = 0, EVERYWHERE
    if not pilot:
        at = as_where(where, given)
    else:
        known = run_pilot(given, questions, pilot, seed, calibrate)
        known = replace(known, asked=known.asked._replace(where=_where_in_pilot(where, given, known)))
        if not isinstance(known, CellModel):  # cells have a check of their own, in `run_pilot`
            check_pilot(known, pilot)
        known = replace(known, asked=known.asked._replace(calibrated=False))  # calibrated below, in the estimated world
        counted = known.world.feature[known.world.live]
        at = known.asked.where.grouped(known.world)
        given, questions = estimated(known)
        _check_reached(at, given)
        unseen = int((~given.live[counted]).sum())
    wanted = error
    if calibrate:
        asked = stack(questions, given, "calibrated")
        squares = at.on(given).squares(exact.values(given, questions))
        if not (squares > 0).all():
            raise InputError(
                f"calibrate: {asked.names[int(squares.argmin())]} is 0 everywhere, so its relative error is undefined."
            )
        questions = [replace(q, weight=float(w)) for q, w in zip(expand(questions), asked.weights / squares, strict=True)]
        wanted = error * asked.weights.sum() / sum(q.weight for q in questions)  # as a mean with these weights
    best = optimal(given, questions, where=at)
    designs = {name: make(given, questions) for name, make in DESIGNS.items()} | {OPTIMUM: best.behaviour}
    costs = []
    for name, mu in designs.items():
        f = forecast(given, questions, mu, draws=draws, where=at)
        costs.append(Cost(name, mu, f, f.steps(wanted), f.steps(wanted, 0.05), f.steps(wanted, 0.95), f.bounded(wanted)))
    costs.sort(key=lambda c: -c.steps)
    return Costs(float(error), tuple(costs), steps_needed(best.bound, wanted), pilot, unseen)


def _where_in_pilot(where: WhereLike, world: World | Environment, data: Empirical) -> Where:
    """Where errors count in the table of a pilot."""
    if isinstance(data, CellModel):
        if where not in (None, "start"):
            raise InputError("where: plans with continuous observations are on cells of them; give 'start', or leave it out.")
        return START if where else EVERYWHERE
    if is_environment(world) and is_counted(world) and where not in (None, "start"):
        raise InputError("where: states are numbered as they are met; give 'start', or leave it out.")
    first = 0 if isinstance(world, MDP) or is_counted(world) else int(discrete_spec(world).first_state)
    return as_where(where, data.world, first)


def _check_reached(where: Where, model: MDP) -> None:
    """Refuse states in which the pilot never acted."""
    lost = [s for s in where.states if model.terminal[s]]
    if lost:
        raise InputError(
            f"where: the pilot never acted in state {lost[0]}, counted from 0; give a longer pilot, or leave it out."
        )


def check_pilot(data: Empirical, pilot: int) -> None:
    """Refuse a forecast from a pilot that still found states, tried little, or whose answers may rest on what it never saw."""
    if data.world.features is not None:
        return
    unseen = Unseen(data)
    chance = unseen.over_visited()
    few = (data.visits[data.world.live].min(axis=1) < FEW_TRIES).mean()
    if unseen.finding:
        reason = "it was still finding states"
    elif few > FEW_STATES:
        reason = f"some action was tried fewer than {FEW_TRIES} times in {few:.0%} of the states"
    elif (chance > STOP_BELOW).any():
        i = int(chance.argmax())
        reason = f"{data.asked.names[i]} may rest on what was never seen, with a chance of {chance[i]:.2g}"
    else:
        return
    raise InputError(f"pilot: {pilot:,} steps are too few for a forecast: {reason} ({frontier(data)}); give a longer pilot.")


@one_thread()
def run_pilot(
    world: World | Environment, questions: Sequence[GVF], steps: int, seed: int = 0, calibrate: bool = False
) -> Empirical:
    """The evidence of OptimalDesign after a number of steps; with continuous observations, on cells of them."""
    learner: CertaintyEquivalence | LinearCertaintyEquivalence
    once, learner = Plan.checked(steps, steps, ()), CertaintyEquivalence()
    on_cells = isinstance(world, CompiledWorld) or (is_environment(world) and not isinstance(spec_of(world), DiscreteSpec))
    if on_cells:
        if is_environment(world) and has_box_actions(world):
            raise InputError("world: plans need Discrete actions; give such an environment, or a finite world.")
        learner = LinearCertaintyEquivalence(intervals=False)
    backend = open_backend(world, questions, OptimalDesign(), learner, options=Options(once, calibrate=calibrate))
    if on_cells and steps < backend.pairs:
        raise InputError(
            f"pilot: {steps} steps are too few for {backend.pairs} pairs of a cell and an action; give at least as many."
        )
    stream = backend.begin(checked_seeds(1, seed)[0])
    drive(backend, stream)
    known: Empirical = stream.agent.known  # type: ignore[attr-defined]
    return known
