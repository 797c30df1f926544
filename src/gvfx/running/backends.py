"""Choose the backend for a world, questions, a behaviour and a learner."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import RoundRobin, Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.behaviours.wrappers import Blend, Hold, calibrated
from gvfx.errors import InputError, require
from gvfx.evidence.decisions import Decision
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.inputs import check_fields
from gvfx.kernel import KINDS, runs_on
from gvfx.learners.base import Learner
from gvfx.learners.linear import LARGEST, LinearCertaintyEquivalence
from gvfx.learners.networks.learners import Deep, TwinCritics
from gvfx.learners.rollouts import Rollouts
from gvfx.learners.tabular import CertaintyEquivalence
from gvfx.names import as_call, kinds_of, public_classes, wraps_others
from gvfx.questions.gvf import GVF, Audit, expand, stack
from gvfx.questions.policies import OwnPolicy, Policy, StatefulPolicy
from gvfx.questions.signals import Drifter, SignalFailed
from gvfx.questions.where import is_start
from gvfx.running.drive import Backend
from gvfx.running.earlier import check_start
from gvfx.running.log_table import Checked, as_log
from gvfx.running.plan import Method, Options, checked_share
from gvfx.running.streams.linear import LinearGym
from gvfx.running.streams.numbers import FIRST_STATES
from gvfx.running.streams.rollouts import RolloutsGym
from gvfx.running.streams.table_compiled import TableCompiled
from gvfx.running.streams.table_gym import TableGym
from gvfx.running.whole_episodes import SHARE, room_for
from gvfx.threads import one_thread
from gvfx.worlds.conversion import SteppedMDP, from_gymnasium, is_toy_text
from gvfx.worlds.mdp import MDP, CompiledWorld
from gvfx.worlds.spec import (
    box_action_spec,
    box_spec,
    counted_spec,
    discrete_spec,
    has_box_actions,
    is_counted,
    is_environment,
    observed,
    registered,
    spaces_of,
)

# --- The method of a run, a behaviour and a learner: the defaults of each kind of run, and errors for what does not fit


FLAT = 2  # numbers in an observation up to which a design on cells is worth half the episodes
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
    run: Run | str, questions: Sequence[GVF], behaviour: Behaviour | None, learner: Learner | None, steps: int
) -> tuple[Behaviour, Learner]:
    """The behaviour and learner of a run: those given, or the defaults of its kind (`RUNS`); refuses what does not fit."""
    run = RUNS[run] if isinstance(run, str) else run
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


def linear_learner(questions: Sequence[GVF], steps: int) -> LinearCertaintyEquivalence:
    """For continuous observations of few numbers: all features chosen from the data."""
    return LinearCertaintyEquivalence()


RUNS = {
    "tables": Run("tables", OptimalDesign, table_learner, "a finite world"),
    "linear": Run("linear", OptimalDesign, linear_learner),
    "networks": Run("networks", network_behaviour, network_learner),
    "box_actions": Run("box_actions", _held_explorer, box_action_learner),
}  # "tables": finite worlds and Discrete observations; "linear" and "networks": other observations and Discrete actions


def beside_episodes(share: float, options: Options, size: int) -> Behaviour:
    """With linear features, what acts in the episodes that do not follow a target policy; size: of an observation."""
    if share == 1:
        return Uniform()  # never
    if size <= FLAT or options.where is not None:
        return OptimalDesign()
    return Blend(RoundRobin(), Uniform(), 0.5)


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


def only_rollouts(env: Any, questions: Sequence[GVF]) -> bool:
    """Whether nothing can be learned from observations, or some policy has a memory."""
    if any(isinstance(q.policy, StatefulPolicy) for q in questions):
        return True
    try:
        observed(env)
    except InputError:
        return not hasattr(env, "num_envs")
    return False


NO_AUDIT = "audit: {} cannot be audited; {}."
NO_WHERE = "where: networks learn everywhere in the same way; give 'start' in a Gymnasium environment, or leave it out."


def method_for(
    run: Run, questions: Sequence[GVF], given: Method, options: Options, audited: bool = False, logged: int = 0
) -> Method:
    """The behaviour and learner of a run; refuses options that do not fit them.

    audited: the error is that of audits.  logged: transitions of a log, from which it learns too.
    """
    behaviour, learner = choose_method(run, questions, *given, options.plan.steps + logged)
    check_until(options.until, questions, learner, audited)
    wrapped = options.calibrate and run.supports != "box_actions"  # where the agent itself divides the weights
    return Method(calibrated(behaviour) if wrapped else behaviour, learner)


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
    if not learner.bounds_errors:
        raise InputError(
            "until: the error of this learner cannot be bounded; use gvfx.CertaintyEquivalence(), or with continuous "
            "observations gvfx.LinearCertaintyEquivalence(); networks are bounded at the start, with where='start' and audits."
        )
    if has_own(questions):
        raise InputError("until: the bound does not hold for policies found during the run; give steps alone.")


def has_own(questions: Sequence[GVF]) -> bool:
    """Whether some question's policy is defined by its own values."""
    return any(isinstance(q.policy, OwnPolicy) for q in expand(questions))


# --- Worlds: each opens the backend of a run in it --------------------------------------------------------------------


class Evaluable(Protocol):
    """A world in which questions can be answered: `FiniteWorld`, `GymWorld` or a `gvfx.worlds.mdp.CompiledWorld`."""

    def open(self, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
        """The backend of a run; a method that does not fit is refused before anything is compiled."""

    def stepped(self, questions: Sequence[GVF]) -> tuple[Any, Sequence[GVF]]:
        """An environment of Gymnasium that is this world, for audits, and the questions there."""


@dataclass(frozen=True)
class FiniteWorld:
    """A world whose transition table is known: its loop is compiled, and true values are exact."""

    world: MDP

    def open(self, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
        if isinstance(method.learner, Rollouts):
            return GymWorld(SteppedMDP(self.world, 64)).open(questions, method, options)
        return TableCompiled(self.world, questions, method_for(RUNS["tables"], questions, method, options), options)

    def stepped(self, questions: Sequence[GVF]) -> tuple[Any, Sequence[GVF]]:
        return SteppedMDP(self.world, 64), questions


@dataclass(frozen=True)
class GymWorld:
    """An environment of Gymnasium, plain or vector, stepped from Python."""

    env: Any

    def stepped(self, questions: Sequence[GVF]) -> tuple[Any, Sequence[GVF]]:
        return self.env, questions

    def open(self, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
        """One that shows its transition table is a finite world; else its spaces and the method choose the kind of learning."""
        env = self.env
        rolled = isinstance(method.learner, Rollouts)
        rolled = rolled or (method == Method() and options.log is None and only_rollouts(env, questions))
        alone = not rolled and not checked_share(options.audit) and options.log is None
        if alone and (known := known_world(env, questions)) is not None:
            return FiniteWorld(known).open(questions, method, options)
        if options.plan.average_episodes:
            raise InputError("average_episodes: needs true values, which are not known for this environment; give 0.")
        if rolled:
            return self._rollouts(questions, method, options)
        kind, by_default = self.kind(method, options.numbered), method.learner is None
        audit = self._audit(kind, questions, method.behaviour, options)
        share = self._share(kind, method, audit, options)
        if share and kind == "linear" and method.behaviour is None:
            method = method._replace(behaviour=beside_episodes(share, options, box_spec(env).size))
        audit = audit if share == audit.share else replace(audit, share=0.0)
        if options.where is not None and options.calibrate:
            raise InputError("calibrate: with `where` it needs a world that is known; give each question its own weight instead.")
        audited = bool(share) and kind != "linear" and isinstance(options.where, str)
        log: Checked = None if options.log is None else as_log(options.log)
        logged = 0 if log is None else len(log.action)
        method = method_for(RUNS[kind], questions, method, options, audited, logged)
        options = replace(options, audit=audit, log=log)
        if log is not None:
            check_start(kind, *method)
            method = method._replace(behaviour=method.behaviour.after_log(options.plan.steps, logged))
        if kind == "tables":
            discrete = type(spaces_of(env)[0]).__name__ == "Discrete"
            spec = discrete_spec(env) if discrete else counted_spec(env, FIRST_STATES)
            return TableGym(spec, questions, method, options, share)
        if kind != "linear" and options.where is not None and not is_start(options.where):
            raise InputError(NO_WHERE)
        if has_own(questions):
            raise InputError("policy: own_greedy and own_softmax need Discrete observations; give known policies.")
        if kind == "linear":
            linear = LinearGym(box_spec(env), questions, method, options, share)
            linear.why = f"linear features, because an observation has {linear.size} numbers, at most {LARGEST}" * by_default
            return linear
        require("jax", "deep")
        if kind == "box_actions":
            from gvfx.running.streams.critics_gym import CriticsGym

            return CriticsGym(box_action_spec(env), questions, method, options, share)
        from gvfx.running.streams.network_gym import NetworkGym

        networks = NetworkGym(box_spec(env), questions, method, options, share)
        size = networks.spec.size
        reason = f"an observation has {size} numbers, more than {LARGEST}" if size > LARGEST else "the behaviour needs them"
        networks.why = f"networks, because {reason}" * by_default
        return networks

    def _share(self, kind: str, method: Method, audit: Audit, options: Options) -> float:
        """The share of the steps for whole episodes of the target policies: that of audits, or if nothing is given and they are
        the evidence about the start, all of the steps, or every second one with linear features."""
        start, own = options.where is not None and is_start(options.where), checked_share(options.audit)
        if method.behaviour is None and options.log is None and not options.calibrate and not own:
            if kind == "linear":
                return 1.0 if start else 0.5
            if start and audit.share:  # networks, in a run that is long enough to be audited by default
                return 1.0
        return audit.share or 0.0

    def _rollouts(self, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
        """Rollouts, which have values at the start alone."""
        if method.behaviour is not None:
            raise InputError("behaviour: rollouts follow the target policies; leave the behaviour out.")
        if options.log is not None or options.calibrate or checked_share(options.audit):
            raise InputError("learner: rollouts take no log, calibrate or audit; leave them out.")
        if options.where is not None and not is_start(options.where):
            raise InputError("where: rollouts have values at the start alone; give 'start', or leave it out.")
        check_until(options.until, questions, Rollouts)
        learner = method.learner or Rollouts()
        run = RolloutsGym(self.env, questions, Method(Uniform(), learner), options)
        run.why = "rollouts, because observations or policies cannot be learned from" * (method.learner is None)
        return run

    def kind(self, method: Method, numbered: bool = True) -> str:
        """The kind of learning, a key of `RUNS`: by the spaces, or where several are possible by the method."""
        env = self.env
        if has_box_actions(env):
            return "box_actions"
        if type(spaces_of(env)[0]).__name__ == "Discrete":
            return "tables"
        if numbered and is_counted(env) and method.allows("tables"):
            return "tables"
        fits = isinstance(method.learner, Learner) or observed(env)[1] <= LARGEST
        return "linear" if method.allows("linear") and fits else "networks"

    def _audit(self, kind: str, questions: Sequence[GVF], behaviour: Behaviour | None, options: Options) -> Audit:
        """The share of steps for audits; by default where intervals have no other ground, if the run is long enough."""
        reason = ""
        if has_own(questions):
            reason = NO_AUDIT.format("a policy that is found during the run", "give 0, or known policies")
        elif isinstance(behaviour, Behaviour) and behaviour.by_episode:
            who = f"{type(behaviour).__name__}, which learns from its own actions,"
            reason = NO_AUDIT.format(who, "give 0, or another behaviour")
        share, default = options.audit, 0.0
        given = share if isinstance(share, Audit) else Audit(None if share is None else float(share))
        if given.share is None and not reason and kind in ("networks", "box_actions"):
            asked = expand(questions)
            order = list(dict.fromkeys(q.policy for q in asked))
            discounts = np.array([1.0 if callable(q.discount) else float(q.discount) for q in asked])
            room = room_for(options.plan.steps, discounts, np.array([order.index(q.policy) for q in asked]))
            default = SHARE if room else 0.0
        if given.share and reason:
            raise InputError(reason)
        return replace(given, share=checked_share(given, default))


def world_of(given: Any) -> Evaluable:
    """The world that was given, with what opens it."""
    if isinstance(given, MDP):
        return FiniteWorld(given)
    return GymWorld(given) if is_environment(given) else given


def is_world(world: Any) -> bool:
    """Whether this is a gvfx world or a Gymnasium environment."""
    return isinstance(world, MDP | CompiledWorld) or is_environment(world)


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
    world: Any, questions: Sequence[GVF], behaviour: Behaviour | None = None, learner: Any = None, *, options: Options
) -> Backend:
    """The backend of a run in a world; with audits, in the environment that is this world."""
    given = world_of(world)
    if checked_share(options.audit) or options.log is not None:
        env, questions = given.stepped(questions)
        given = GymWorld(env)
    return given.open(questions, Method(behaviour, learner), options)


def needs_networks(env: Any) -> bool:
    """Whether an environment is answered by networks, if neither behaviour nor learner is given."""
    return GymWorld(env).kind(Method()) in ("networks", "box_actions")


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
