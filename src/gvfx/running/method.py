"""The method of a run, a behaviour and a learner: the defaults of each kind of run, and errors for what does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture, Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.behaviours.wrappers import Blend, Hold
from gvfx.errors import InputError, UnknownName
from gvfx.inputs import check_fields
from gvfx.kernel import KINDS, runs_on
from gvfx.learners.base import Learner
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.twin_critics import RECOMMENDED, TwinCritics
from gvfx.names import as_call, kinds_of, public_classes, wraps_others
from gvfx.questions.cumulants import Drifter
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.policies import Policy

LARGEST_REPLAY = 200_000  # most transitions that the default learners keep in environments
NEEDS = {  # what a learner of each kind requires of an environment
    "tables": "Discrete observations",
    "linear": "Box observations and Discrete actions",
    "networks": "Discrete actions",
    "box_actions": "Box actions",
}


@dataclass(frozen=True)
class Run:
    """A kind of run: what a method must support, and the default method."""

    supports: str  # the kind of learning, a key of `gvfx.kernel.KINDS`
    behaviour: Callable[[], Behaviour]
    learner: Callable[[Sequence[GVF], int], Learner]  # from the questions and the number of steps
    place: str = ""  # the world's name in error messages, for gvfx's own worlds


def choose_method(
    kind: str, questions: Sequence[GVF], behaviour: Behaviour | None, learner: Learner | None, steps: int
) -> tuple[Behaviour, Learner]:
    """The behaviour and learner of a run: those given, or the defaults of its kind; refuses what does not fit.

    kind: "tables" (finite worlds, Discrete observations), "linear" and "networks" (Gymnasium environments with other
          observations and Discrete actions), "box_actions" (with Box actions), "continuous_grid", or "mujoco".
    """
    if kind not in RUNS:
        raise UnknownName("kind", kind, list(RUNS))
    run = RUNS[kind]
    for what, part in (("behaviour", behaviour), ("learner", learner)):
        if part is not None and not isinstance(part, type):
            check_fields(part, what)
    if behaviour is None:
        behaviour = run.behaviour()
    elif not isinstance(behaviour, Behaviour):
        _refuse_argument("behaviour", behaviour, Behaviour, run)
    elif run.supports not in behaviour.supports:
        raise InputError(f"behaviour: {_unfit_behaviour(behaviour, run)} choose {_fitting(Behaviour, run)}.")
    if learner is None:
        learner = run.learner(questions, steps)
    elif not isinstance(learner, Learner):
        _refuse_argument("learner", learner, Learner, run)
    elif run.supports not in learner.supports:
        raise InputError(f"learner: {_unfit_learner(learner, run)}; use {_fitting(Learner, run)}.")
    return behaviour, learner


# --- defaults ------------------------------------------------------------------------------------------------------


def table_learner(questions: Sequence[GVF], steps: int) -> CertaintyEquivalence:
    """For tables: the estimated model, which forgets old cumulants if some of them drift."""
    drifts = any(isinstance(q.cumulant, Drifter) for q in expand(questions))
    return CertaintyEquivalence(forgetting="auto" if drifts else 0.0)


def network_behaviour() -> Behaviour:
    """For networks in environments: half GVFExplorer, half uniform, as in the preset `recommended` of the continuous grid."""
    return Blend(GVFExplorer(), Uniform(), 0.5)


def network_learner(questions: Sequence[GVF], steps: int) -> Deep:
    """For networks in environments: a replay buffer that holds the run, a decreasing rate, the spread of five heads."""
    replay = _replay(steps, 16)
    return Deep(rate_q=3e-3, rate_m=3e-3, m_every=16, final_rate=0.03, heads=5, **replay)


def box_action_learner(questions: Sequence[GVF], steps: int) -> TwinCritics:
    """For Box actions in environments: a replay buffer that holds the run, and targets computed again after few transitions."""
    return TwinCritics(refresh_every=4, **_replay(steps, TwinCritics().worlds))


def _replay(steps: int, block: int) -> dict[str, Any]:
    """Options of a replay buffer for a run of `steps`, in whole blocks of transitions."""
    return {"capacity": -(-min(steps, LARGEST_REPLAY) // block) * block, "learning_starts": min(1000, steps // 10)}


def _held_explorer() -> Behaviour:
    return Hold(GVFExplorer())


def _held_mixture() -> Behaviour:
    return Hold(Mixture())


def linear_learner(questions: Sequence[GVF], steps: int) -> LinearCertaintyEquivalence:
    """For continuous observations of few numbers: all features chosen from the data."""
    return LinearCertaintyEquivalence()


RUNS = {
    "tables": Run("tables", OptimalDesign, table_learner, "a finite world"),
    "linear": Run("linear", OptimalDesign, linear_learner),
    "networks": Run("networks", network_behaviour, network_learner),
    "box_actions": Run("box_actions", _held_explorer, box_action_learner),
    "continuous_grid": Run("networks", GVFExplorer, lambda questions, steps: Deep(), "the continuous grid"),
    "mujoco": Run("box_actions", _held_mixture, lambda questions, steps: RECOMMENDED, "a MuJoCo world"),
}


# --- refusals ------------------------------------------------------------------------------------------------------


def _fitting(base: type[Any], run: Run) -> str:
    """The public classes that fit a run, as a list for a sentence."""
    classes = public_classes(base).items()
    names = sorted(f"gvfx.{name}" for name, kind in classes if run.supports in kinds_of(kind) and not wraps_others(kind))
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _unfit_behaviour(behaviour: Behaviour, run: Run) -> str:
    name = _described(behaviour)
    if run.supports == "box_actions":
        return f"{name} does not support continuous actions;"
    return f"{runs_on(name, behaviour.supports)}; for {KINDS[run.supports]}"


def _described(behaviour: Behaviour) -> str:
    """A behaviour's name, with the names of what it wraps: Floor(Epsilon(Uniform))."""
    inner = ", ".join(_described(part) for part in vars(behaviour).values() if isinstance(part, Behaviour))
    return f"{type(behaviour).__name__}({inner})" if inner else type(behaviour).__name__


def _unfit_learner(learner: Learner, run: Run) -> str:
    name = type(learner).__name__
    if run.place or not learner.supports:
        return f"{name} does not fit {run.place or KINDS[run.supports]}"
    return f"{name} needs {' or '.join(NEEDS[kind] for kind in KINDS if kind in learner.supports)}"


def _refuse_argument(field: str, given: Any, base: type[Any], run: Run) -> NoReturn:
    """Raise an error that names what was given instead of a behaviour or learner, and what to write."""
    other, place = (Learner, "learner") if base is Behaviour else (Behaviour, "behaviour")
    if isinstance(given, type) and issubclass(given, base):
        what = f"{given.__name__} is a class; write {as_call(given)}"
    elif isinstance(given, str):
        what = f"{given!r} is a string; write {_by_name(given, base, run)}"
    elif isinstance(given, other) or (isinstance(given, type) and issubclass(given, other)):
        kind = given if isinstance(given, type) else type(given)
        what = f"{kind.__name__} is a {place}; give it as {place}={as_call(kind)}"
    elif field == "behaviour" and (isinstance(given, Policy | list | tuple | np.ndarray) or callable(given)):
        what = f"{given!r:.40} is a policy; write gvfx.Follow(policy) to act by it"
    else:
        what = f"{given!r:.40} is not a {field}; choose {_fitting(base, run)}"
    raise InputError(f"{field}: {what}.")


def _by_name(given: str, base: type[Any], run: Run) -> str:
    """The call of the class that a string most likely means."""
    classes = {name.lower(): kind for name, kind in public_classes(base).items()}
    near = difflib.get_close_matches(given.lower(), classes, n=1)
    return as_call(classes[near[0]]) if near else f"an object, such as {_fitting(base, run)}"
