"""evaluate in a Gymnasium environment: compiled where its table is known, else stepped, with tables or with networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Uniform
from gvfx.behaviours.wrappers import Blend, Hold
from gvfx.errors import InputError, require
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.learners.base import Learner
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.questions.gvf import GVF, stack
from gvfx.questions.signals import SignalFailed
from gvfx.running.evaluate import Part, Plan, checked_seeds, evaluate, for_tables, gather, has_own, unreached
from gvfx.running.gym_stepper import EnvironmentFailed
from gvfx.running.result import Result
from gvfx.running.streams.table_gym import OnlineRunner
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import box_action_spec, box_spec, discrete_spec, has_box_actions
from gvfx.worlds.toy_text import from_gymnasium, is_toy_text


def evaluate_environment(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None,
    learner: Any,
    *,
    steps: int,
    seeds: Any,
    save: str | Path | None = None,
    **options: Any,
) -> Result:
    """evaluate for a Gymnasium environment: compiled where its transition table is known, else stepped from Python."""
    world = known_world(env, questions)
    if world is not None:
        return evaluate(world, questions, behaviour, learner, steps=steps, seeds=seeds, save=save, **options)
    return evaluate_online(env, questions, behaviour, learner, steps=steps, seeds=seeds, save=save, **options)


def evaluate_online(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: Any = None,
    *,
    steps: int,
    seeds: Any = 1,
    evaluate_every: int | None = None,
    snapshots: Iterable[int] = (),
    average_episodes: int = 0,
    until: ErrorBelow | None = None,
    weights: str | None = None,
    workers: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
    save: str | Path | None = None,
) -> Result:
    """Answer questions in an environment stepped from Python (vector environments may overshoot a stop by some steps)."""
    if average_episodes:
        raise InputError("average_episodes: the truth of an environment is not known, so there is no error to average; give 0.")
    if weights is not None:
        raise InputError("weights: calibrated weights need a world whose table is known; give each question its own weight.")
    if workers != 1:
        raise InputError(f"workers: {workers} cannot step one environment; give 1.")
    plan, seed_list = Plan.checked(steps, evaluate_every, snapshots), checked_seeds(seeds)
    run = make_online_runner(env, questions, behaviour, learner, plan, until)
    described = {
        "environment": run.spec.name,
        "behaviour": repr(run.behaviour),
        "learner": repr(run.learner),
        "steps": steps,
    }
    parts: list[Part] = []

    def result() -> Result:
        gathered = gather(run.names, run.weights, seed_list[: len(parts)], parts, described)
        if isinstance(run, OnlineRunner):
            gathered = replace(gathered, first_state=run.spec.first_state)
        else:
            gathered = replace(gathered, points=run.points, spec=run.spec, targets=run.targets)
        if save is not None:
            gathered.save(save)
        return gathered

    try:
        for seed in seed_list:
            parts.append(run(seed, progress))
    except EnvironmentFailed as error:
        if error.part is not None:
            parts.append(error.part)
        if parts:
            parts = _alike(parts)
            described["failed"] = str(error)
            error.result = result()
        raise
    if until is not None and not all(part.reached for part in parts):
        warnings.warn(unreached(until, parts), stacklevel=3)
    return result()


def make_online_runner(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None,
    learner: Any,
    plan: Plan,
    until: ErrorBelow | None = None,
) -> Any:
    """Twin critics for Box actions; else tables for Discrete observations, networks for all others; with good defaults."""
    if has_box_actions(env):
        return _make_box_runner(env, questions, behaviour, learner, plan, until)
    space = getattr(env, "single_observation_space", None) or env.observation_space
    if type(space).__name__ == "Discrete":
        behaviour, learner = for_tables(questions, behaviour, learner)
        if not isinstance(learner, Learner):
            raise InputError(f"learner: {type(learner).__name__} does not fit Discrete observations; use a tabular learner.")
        return OnlineRunner(discrete_spec(env), questions, behaviour, learner, plan, until)
    if has_own(questions):
        raise InputError("policy: networks do not find policies by their own values; give known ones, or Discrete observations.")
    if until is not None:
        raise InputError("until: the error of networks cannot be bounded; give steps alone.")
    spec = box_spec(env)
    behaviour, learner = behaviour or network_behaviour(), learner or network_learner(plan.steps)
    if not isinstance(learner, Deep):
        raise InputError(f"learner: {type(learner).__name__} needs Discrete observations; use gvfx.Deep(...) here.")
    try:
        require("jax", "deep")
        from gvfx.running.streams.network_gym import SteppedRunner
    except ImportError:
        raise InputError("jax: networks need it and it is not installed; pip install 'gvfx[deep]'.") from None
    return SteppedRunner(spec, questions, behaviour, learner, plan)


def _make_box_runner(
    env: Any, questions: Sequence[GVF], behaviour: Behaviour | None, learner: Any, plan: Plan, until: ErrorBelow | None
) -> Any:
    if until is not None:
        raise InputError("until: the error of twin critics cannot be bounded; give steps alone.")
    behaviour, learner = behaviour or Hold(GVFExplorer()), learner or box_learner(plan.steps)
    if not isinstance(learner, TwinCritics):
        raise InputError(f"learner: {type(learner).__name__} needs Discrete actions; use gvfx.TwinCritics(...) here.")
    spec = box_action_spec(env)
    require("jax", "deep")
    from gvfx.running.streams.critics_gym import BoxRunner

    return BoxRunner(spec, questions, behaviour, learner, plan)


def box_learner(steps: int) -> TwinCritics:
    """The default for Box actions: a replay that holds the run (at most 200,000)."""
    block = TwinCritics().worlds
    return TwinCritics(capacity=-(-min(steps, 200_000) // block) * block, learning_starts=min(1000, steps // 10))


def network_behaviour() -> Behaviour:
    """The default for networks: half of it uniform, as in the setting `recommended` of the continuous grid (docs/networks.md)."""
    return Blend(GVFExplorer(), Uniform(), 0.5)


def network_learner(steps: int) -> Deep:
    """The default for networks: a replay that holds the run (at most 200,000), a falling rate, intervals from five heads."""
    capacity = -(-min(steps, 200_000) // 16) * 16
    starts = min(1000, steps // 10)
    return Deep(rate_q=3e-3, rate_m=3e-3, m_every=16, final_rate=0.03, capacity=capacity, learning_starts=starts, heads=5)


def _alike(parts: list[Part]) -> list[Part]:
    """Parts of which the last stopped early, cut to what all have: the measurements it reached, and each one's end."""
    reached = len(parts[-1].steps)
    curves = ("steps", "mse", "levels", "episodes", "expected")
    ends = ("snapshot_steps", "values", "variances", "visits", "behaviour", "snapshot_levels", "standard_errors", "policies")
    return [
        replace(
            part,
            **{name: getattr(part, name)[:reached] for name in curves},
            **{name: getattr(part, name)[-1:] for name in ends},
        )
        for part in parts
    ]


def known_world(env: Any, questions: Sequence[GVF]) -> MDP | None:
    """The environment as an MDP, where it shows its transition table and the questions need nothing else."""
    if not is_toy_text(env):
        return None
    try:
        world = from_gymnasium(env)
    except InputError:
        return None  # a table that an MDP cannot hold
    try:
        stack(questions, world)
    except SignalFailed:
        return None  # a signal that the table does not tell
    return world
