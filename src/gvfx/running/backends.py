"""Choose the backend for a world, questions, a behaviour and a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import calibrated
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.errors import InputError, require
from gvfx.evidence.decisions import Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.learners.base import Learner
from gvfx.learners.certainty import CertaintyEquivalence
from gvfx.learners.linear import LARGEST, LinearCertaintyEquivalence
from gvfx.questions.audit import Audit
from gvfx.questions.gvf import GVF, expand, question_names, stack
from gvfx.questions.own import OwnPolicy
from gvfx.questions.signals import Info, SignalFailed
from gvfx.questions.where import EVERYWHERE, START, WhereLike, as_where
from gvfx.running.auditing import SHARE, checked_share, room_for
from gvfx.running.drive import Backend
from gvfx.running.earlier import NOT_HERE, check_start, earlier_states, earlier_vectors, planned_for
from gvfx.running.log_table import Checked, LogLike, as_log
from gvfx.running.method import choose_method
from gvfx.running.plan import Plan
from gvfx.running.streams.grid_questions import grid_questions
from gvfx.running.streams.linear_compiled import LinearCompiled
from gvfx.running.streams.linear_gym import LinearGym
from gvfx.running.streams.numbered_gym import FIRST, NumberedGym
from gvfx.running.streams.table_compiled import TableCompiled
from gvfx.running.streams.table_gym import TableGym
from gvfx.threads import one_thread
from gvfx.worlds.continuous_grid import ContinuousGrid, ContinuousGridEnv
from gvfx.worlds.mdp import MDP
from gvfx.worlds.mujoco import Domain
from gvfx.worlds.numbering import counted_spec, is_counted
from gvfx.worlds.registered import registered
from gvfx.worlds.spec import box_action_spec, box_spec, discrete_spec, has_box_actions, is_environment, observed, spaces_of
from gvfx.worlds.stepped import SteppedMDP
from gvfx.worlds.toy_text import from_gymnasium, is_toy_text

NO_AUDIT = "audit: {} cannot be audited; {}."
NO_WHERE = "where: networks learn everywhere alike; give 'start' in a Gymnasium environment, or leave it out."


def is_world(world: Any) -> bool:
    """Whether this is a gvfx world or a Gymnasium environment."""
    return isinstance(world, MDP | ContinuousGrid | Domain) or is_environment(world)


def as_world(world: Any) -> Any:
    """A gvfx world or a Gymnasium environment, checked; a registered name is made into an environment."""
    if isinstance(world, str):
        return registered(world)
    if is_world(world):
        return world
    if isinstance(world, Mapping | list) or hasattr(world, "next_observation") or hasattr(world, "columns"):
        raise InputError("world: this is a log of transitions; use gvfx.evaluate_log(log, questions).")
    if isinstance(world, type):
        raise InputError(f"world: {world.__name__} is a class; give an instance, {world.__name__}(...).")
    raise InputError(
        f"world: {type(world).__name__} is not a supported world; give gvfx.gridworld(...), gvfx.MDP or a Gymnasium environment."
    )


@one_thread()
def open_backend(
    world: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None = None,
    learner: Any = None,
    *,
    plan: Plan,
    until: ErrorBelow | Decision | None = None,
    calibrate: bool = False,
    where: WhereLike = None,
    audit: float | Audit | None = 0.0,
    numbered: bool = True,
    log: LogLike | None = None,
) -> Backend:
    """The backend for a world; a method that does not fit is refused before anything is compiled.

    numbered: whether observations of a few whole numbers are numbered as they are met and answered from tables.
    """
    share = checked_share(audit)
    if is_environment(world):
        world = (None if share or log is not None else known_world(world, questions)) or world
    elif log is not None:
        raise InputError(NOT_HERE.format("a world that is known"))
    if share:
        world, questions = stepped_world(world, questions)
    if isinstance(world, MDP):
        behaviour, learner = _method("tables", questions, behaviour, learner, plan, until, calibrate)
        asked = stack(questions, world, "calibrated" if calibrate else None, where)
        return TableCompiled(world, asked, behaviour, learner, plan)
    if isinstance(world, ContinuousGrid) and _wants_linear(behaviour, learner):
        behaviour, learner = _method("linear", questions, behaviour, learner, plan, until, calibrate)
        return LinearCompiled(world, questions, behaviour, learner, plan, calibrate, where)
    if where is not None and isinstance(world, ContinuousGrid | Domain):
        raise InputError(NO_WHERE)
    if isinstance(world, ContinuousGrid):
        behaviour, learner = _method("continuous_grid", questions, behaviour, learner, plan, until, calibrate)
        require("jax", "deep")
        from gvfx.running.streams.network_scanned import NetworkScanned

        return NetworkScanned(world, questions, behaviour, learner, plan, calibrate)
    if isinstance(world, Domain):
        behaviour, learner = _method("mujoco", questions, behaviour, learner, plan, until, calibrate)
        require("jax", "mujoco")
        from gvfx.running.streams.critics_lockstep import CriticsLockstep

        return CriticsLockstep(world, questions, behaviour, learner, plan)
    stepped = _stepped(world, questions, behaviour, learner, plan, until, calibrate, where, audit, numbered, log)
    stepped.audits_early = until is not None
    if isinstance(audit, Audit):
        stepped.audit_ranges = audit.on(questions)
    return stepped


def stepped_world(world: Any, questions: Sequence[GVF]) -> tuple[Any, Sequence[GVF]]:
    """A world of gvfx as an environment that can be stepped and reset, for audits, and its questions there."""
    if isinstance(world, MDP):
        return SteppedMDP(world, 64), questions
    if isinstance(world, ContinuousGrid):
        signals = grid_questions(world, questions)[2].tolist()
        return ContinuousGridEnv(world), [
            replace(q, cumulant=Info("cumulants", index=k), name=name)
            for q, k, name in zip(questions, signals, question_names(questions), strict=True)
        ]
    if isinstance(world, Domain):
        raise InputError(NO_AUDIT.format("a MuJoCo domain, whose worlds run in lockstep,", "give 0, or its Gymnasium twin"))
    return world, questions


def _method(
    kind: str,
    questions: Sequence[GVF],
    behaviour: Behaviour | None,
    learner: Any,
    plan: Plan,
    until: ErrorBelow | Decision | None,
    calibrate: bool,
    audited: bool = False,
) -> tuple[Behaviour, Any]:
    """The behaviour and learner of a run; refuses options that do not fit them.  audited: the error is that of audits."""
    behaviour, learner = choose_method(kind, questions, behaviour, learner, plan.steps)
    check_until(until, questions, learner, audited)
    if not calibrate:
        return behaviour, learner
    if kind in ("box_actions", "mujoco"):
        raise InputError(
            "calibrate: behaviours for Box actions cannot be calibrated, only those for tables and networks, such as "
            "gvfx.GVFExplorer() and gvfx.OptimalDesign(); give each question its own weight instead."
        )
    return calibrated(behaviour), learner


def _stepped(
    env: Any,
    questions: Sequence[GVF],
    behaviour: Behaviour | None,
    learner: Any,
    plan: Plan,
    until: ErrorBelow | Decision | None,
    calibrate: bool,
    where: WhereLike,
    audit: float | Audit | None,
    numbered: bool,
    log: LogLike | None,
) -> Backend:
    """The backend for an environment stepped from Python: tables, networks or twin critics, depending on its spaces."""
    if plan.average_episodes:
        raise InputError("average_episodes: needs true values, which are not known for this environment; give 0.")
    counted = numbered and is_counted(env) and _wants_tables(behaviour, learner)
    if has_box_actions(env):
        kind = "box_actions"
    elif counted or type(spaces_of(env)[0]).__name__ == "Discrete":
        kind = "tables"
    else:
        kind = _kind_of(env, behaviour, learner)
    share = _audit_share(env, kind, questions, behaviour, audit, plan.steps)
    if where is not None and calibrate:
        raise InputError("calibrate: with `where` it needs a world that is known; give each question its own weight instead.")
    by_default = learner is None
    audited = share > 0 and kind in ("networks", "box_actions") and isinstance(where, str)
    behaviour, learner = _method(kind, questions, behaviour, learner, plan, until, calibrate, audited)
    if counted:
        if where not in (None, "start"):
            raise InputError("where: states are numbered as they are met; give 'start', or leave it out.")
        if share:
            raise InputError(NO_AUDIT.format("an environment whose observations are numbered", "give 0, or learner=gvfx.Deep()"))
        if log is not None:
            raise InputError(NOT_HERE.format("a run that numbers observations as they are met"))
        at = START if where is not None else EVERYWHERE
        return NumberedGym(counted_spec(env, FIRST), questions, behaviour, learner, plan, calibrate, at)
    kept: Checked = None if log is None else as_log(log)
    if kept is not None:
        check_start(kind, behaviour, learner)
        behaviour = planned_for(behaviour, plan.steps, len(kept.action))
    if kind == "tables":
        spec = discrete_spec(env)
        counts = as_where(where, spec.skeleton, spec.first_state)
        before = None if kept is None else earlier_states(kept, questions, spec)
        return TableGym(spec, questions, behaviour, learner, plan, calibrate, counts, share, before)
    if kind != "linear" and where not in (None, "start"):
        raise InputError(NO_WHERE)
    at = START if where is not None else EVERYWHERE
    if has_own(questions):
        raise InputError("policy: own_greedy and own_softmax need Discrete observations; give known policies.")
    if kind == "linear":
        boxes = box_spec(env)
        before = None if kept is None else earlier_vectors(kept, questions, boxes, learner)
        linear = LinearGym(boxes, questions, behaviour, learner, plan, calibrate, where, share, before)
        if by_default:
            linear.why = f"linear features, because an observation has {linear.size} numbers, at most {LARGEST}"
        return linear
    require("jax", "deep")
    if kind == "box_actions":
        from gvfx.running.streams.critics_gym import CriticsGym

        return CriticsGym(box_action_spec(env), questions, behaviour, learner, plan, at, share)
    from gvfx.running.streams.network_gym import NetworkGym

    networks = NetworkGym(box_spec(env), questions, behaviour, learner, plan, calibrate, at, share)
    if by_default:
        more = observed(env)[1] > LARGEST
        reason = f"an observation has {networks.spec.size} numbers, more than {LARGEST}" if more else "the behaviour needs them"
        networks.why = f"networks, because {reason}"
    return networks


def _audit_share(
    env: Any, kind: str, questions: Sequence[GVF], behaviour: Behaviour | None, audit: float | Audit | None, steps: int
) -> float:
    """The share of steps for audits; by default where intervals have no other ground, if the run is long enough."""
    reason = ""
    if has_own(questions):
        reason = NO_AUDIT.format("a policy that is found during the run", "give 0, or known policies")
    elif isinstance(behaviour, BehaviourPolicySearch):
        reason = NO_AUDIT.format("BehaviourPolicySearch, which learns from its own actions,", "give 0, or another behaviour")
    default = 0.0
    unset = audit is None or (isinstance(audit, Audit) and audit.share is None)
    if unset and not reason and kind in ("networks", "box_actions"):
        asked = expand(questions)
        order = list(dict.fromkeys(q.policy for q in asked))
        discounts = np.array([1.0 if callable(q.discount) else float(q.discount) for q in asked])
        default = SHARE if room_for(steps, discounts, np.array([order.index(q.policy) for q in asked])) else 0.0
    share = checked_share(audit, default)
    if share and reason:
        raise InputError(reason)
    return share


def _wants_tables(behaviour: Behaviour | None, learner: Any) -> bool:
    """Whether a method can use tables where linear features or networks are possible too; a given learner decides."""
    if learner is None or not isinstance(learner, Learner):
        return not isinstance(behaviour, Behaviour) or "tables" in behaviour.supports
    return "tables" in learner.supports


def _wants_linear(behaviour: Behaviour | None, learner: Any) -> bool:
    """Whether a method on the continuous grid is one of linear features; networks are the paper's."""
    if isinstance(learner, Learner):
        return "linear" in learner.supports
    return isinstance(behaviour, Behaviour) and "linear" in behaviour.supports and "networks" not in behaviour.supports


def _kind_of(env: Any, behaviour: Behaviour | None, learner: Any) -> str:
    """Linear features or networks, for observations that are not Discrete: what the method needs, or else by their size."""
    if isinstance(learner, Learner):
        return "linear" if "linear" in learner.supports else "networks"
    if isinstance(behaviour, Behaviour) and "linear" not in behaviour.supports:
        return "networks"
    return "linear" if observed(env)[1] <= LARGEST else "networks"


def needs_networks(env: Any) -> bool:
    """Whether an environment is answered by networks, if neither behaviour nor learner is given."""
    space = getattr(env, "single_observation_space", None) or env.observation_space
    tables = type(space).__name__ == "Discrete" or is_counted(env)
    return has_box_actions(env) or (not tables and _kind_of(env, None, None) == "networks")


def known_world(env: Any, questions: Sequence[GVF]) -> MDP | None:
    """The environment as an MDP, if it exposes its transition table and the questions need nothing else; else None."""
    if not is_toy_text(env):
        return None
    try:
        world = from_gymnasium(env)
    except InputError:
        return None  # a table that an MDP cannot hold
    try:
        stack(questions, world)
    except SignalFailed:
        return None  # a signal that cannot be computed from the table
    return world


def has_own(questions: Sequence[GVF]) -> bool:
    """Whether some question's policy is defined by its own values."""
    return any(isinstance(q.policy, OwnPolicy) for q in expand(questions))


def check_until(until: Any, questions: Sequence[GVF], learner: Any, audited: bool = False) -> None:
    """Refuse a stopping rule where its bound would not hold; audited: it bounds the error of audits."""
    if until is None:
        return
    if not isinstance(until, ErrorBelow | Decision):
        raise InputError(
            f"until: {until!r:.40} is not a stopping rule; give one such as gvfx.error_below(0.01) or gvfx.decided()."
        )
    if audited:
        return
    if not (isinstance(learner, CertaintyEquivalence) or (isinstance(learner, LinearCertaintyEquivalence) and learner.intervals)):
        raise InputError(
            "until: the error of this learner cannot be bounded; use gvfx.CertaintyEquivalence(), or with continuous "
            "observations gvfx.LinearCertaintyEquivalence(); networks are bounded at the start, with where='start' and audits."
        )
    if has_own(questions):
        raise InputError("until: the bound does not hold for policies found during the run; give steps alone.")
