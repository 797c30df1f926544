"""Tables in a finite world with known dynamics: the whole loop is compiled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import Diverged, InputError
from gvfx.evidence.counts import Empirical, Evidence, counting, no_evidence, reach
from gvfx.evidence.decisions import Groups, Joint, joint_of, joint_of_sums
from gvfx.evidence.uncertainty import ErrorBelow, interval_errors, start_values
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, piece, whole
from gvfx.learners.base import Learner
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.where import EVERYWHERE, START
from gvfx.rng import BEHAVIOUR, CUMULANTS, DRIFT, ENVIRONMENT, alias_draw, alias_tables, choose, normal, seed_streams, uniform
from gvfx.running.checkpoint import tables
from gvfx.running.drive import Agent, Backend, Loop
from gvfx.running.plan import Method, Options
from gvfx.running.schema import EMPTY, Measurement
from gvfx.theory.equations import squared_error
from gvfx.theory.exact import DENSE_BELOW, GroundTruth, predicted_values
from gvfx.worlds.mdp import MDP

# --- What all streams of tables share: evidence, plans, policies that are improved, and numbers that must stay finite -------


WORDS = {"q": "table of Q", "m": "table of M"}


class FiniteTables:
    """The tables of one seed that must stay finite: a learner's q and m [row, action, gvf], and those of the behaviour.

    A behaviour's array that holds infinities before the first step is left out: there they are part of the method.
    """

    def __init__(self, names: tuple[str, ...], seed: int, acting: Any) -> None:
        self.names, self.seed = names, seed
        self.acting = frozenset(name for name, array in _numbers(acting) if np.isfinite(array).all())

    def check(self, step: int, acting: Any, learning: Any = None) -> None:
        """Raise Diverged for the first number that is not finite after `step` steps; learning: the learner's state."""
        for name, what in WORDS.items() if learning is not None else ():
            bad = np.argwhere(~np.isfinite(getattr(learning, name)))
            if bad.size:
                value = getattr(learning, name)[tuple(bad[0])]
                raise Diverged(what, float(value), step, self.seed, self.names[bad[0][-1]], when="before")
        for name, array in _numbers(acting):
            wrong = ~np.isfinite(array)
            if name in self.acting and wrong.any():
                what = f"behaviour's {name.rpartition('.')[2]}"
                raise Diverged(what, float(array[wrong][0]), step, self.seed, when="before")


def _numbers(tree: Any) -> list[tuple[str, np.ndarray]]:
    """The arrays of floating-point numbers in nested tuples, by path."""
    return [(name, array) for name, array in tables(tree) if np.issubdtype(array.dtype, np.floating)]


# --- Policies defined by a GVF's own values, improved during a run (see `gvfx.theory.equations`) ------------------


class Improvement:
    """When and how a run improves the policies defined by a GVF's own values; does nothing if all policies are given.

    Each seed has its own table pi, which is changed in place at the `times`.  Measurements in between use the policies that
    the data imply at that moment and have no side effects.
    """

    def __init__(self, asked: Stacked, behaviour: Behaviour, learner: Learner, steps: int) -> None:
        self.behaviour, self.learner = behaviour, learner
        self.at_once = False  # whether policies are improved until they change no more, as from a log
        self.times = frozenset(learner.improvements(steps) if asked.own else ())

    def begin(self, asked: Stacked) -> Stacked:
        """The questions of one seed."""
        return asked._replace(pi=asked.pi.copy()) if asked.own else asked

    def __call__(self, stop: int, known: Empirical, acting: Any, learning: Any, visits: np.ndarray) -> Empirical:
        """The evidence with the policies that it implies; visits [state, action]."""
        asked, world = known.asked, known.world
        if not asked.own:
            return known
        if self.at_once:
            return replace(known, asked=asked._replace(pi=known.converged_policies()))
        tried = np.zeros((world.rows, world.actions), dtype=bool)
        np.logical_or.at(tried, world.feature[: len(visits)], visits > 0)
        pi = self.learner.improved(learning, known, tried[world.feature])
        known = replace(known, asked=asked._replace(pi=pi))
        if stop in self.times:
            asked.pi[:] = pi
            self.behaviour.retarget(acting, known)
        return known

    def policies(self, known: Empirical, states: int) -> np.ndarray:
        """The policies [gvf, state, action] of the first `states` states; empty if all policies were given."""
        asked = known.asked
        return np.moveaxis(asked.pi, 2, 0)[:, :states].copy() if asked.own else np.empty(0)


class TableAgent(Agent):
    """What learns on tables from one seed: what is known from its evidence, and what the behaviour and the learner make of it."""

    run: Any  # the backend
    asked: Stacked  # the seed's questions
    acting: Any  # the behaviour's state
    learning: Any  # the learner's state
    finite: FiniteTables
    t: int
    known_now: Empirical | None = None

    @abstractmethod
    def evidence(self) -> tuple[Empirical, np.ndarray]:
        """The evidence so far (empty if none is kept), and the visits [state, action]."""

    @property
    def known(self) -> Empirical:
        if self.known_now is None:
            self.known_now = self._improved(0)
        return self.known_now

    def _improved(self, stop: int) -> Empirical:
        """The evidence so far, with the policies that it implies if some are found during the run."""
        known, visits = self.evidence()
        return self.run.improvement(stop, known, self.acting, self.learning, visits)

    def weigh(self, weights: np.ndarray) -> None:
        self.asked, self.known_now = self.asked._replace(weights=weights), None

    def plan(self, stop: int) -> None:
        """Improve policies, refresh the learner's tables and renew the behaviour's plan, as far as they are due."""
        self.known_now = known = self._improved(stop)
        if stop in self.run.refreshes:
            self.run.learner.refresh(self.learning, known)
            self.run.behaviour.rescale(self.acting, known)
        if stop in self.run.replans:
            self.run.behaviour.refresh(self.acting, known)

    def check_finite(self) -> None:
        """Raise Diverged if a number is no longer finite."""
        self.finite.check(self.t, self.acting, None if self.run.learner.needs_evidence else self.learning)

    # --- answers -----------------------------------------------------------------------------------------------------

    def values(self) -> np.ndarray:
        """The predictions, [gvf, state]."""
        return self.run.learner.values(self.learning, self.known)

    def own_errors(self) -> np.ndarray | None:
        """The learner's own standard errors [gvf, state]; None if it has none."""
        return self.run.learner.standard_errors(self.learning, self.known)

    def start_table(self, truth: np.ndarray | None = None, draws: bool = True) -> np.ndarray:
        """The values at the start, as in `start_values`; truth [gvf].  Own errors add up over states, as if they were the same
        everywhere, because their correlations are not known."""
        own, certain = self.own_errors(), self.run.learner.needs_evidence
        out = start_values(self.known, None if certain and own is None else self.values(), truth, draws)
        if own is not None:
            at = START.on(self.known.world)
            out[:, [1, 3, 4]] = (np.where(at.states, own, 0.0) @ at.weights)[:, None]
        return out

    def learned(self, started: bool = True, truth: np.ndarray | None = None) -> dict[str, Any]:
        """The fields of the seed's part about what was learned; started: whether a start is known; truth [gvf], there."""
        own = self.own_errors()
        out: dict[str, Any] = {"model": self.known if self.run.learner.needs_evidence and own is None else None}
        if started:
            out["start"] = self.start_table(truth)
            out |= {} if own is None else {"differences": joint_of_sums(*out["start"][:, :2].T).known}
        return out

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        errors = self.own_errors()
        if errors is None:
            return until.bound(self.known, looks)
        return until.from_own(self.known.evaluation, self.values(), errors, self.run.weights, looks)

    def joint(self, groups: Groups) -> Joint:
        if self.own_errors() is None:
            return joint_of(self.known, groups)
        value, error = self.start_table()[:, :2].T
        return joint_of_sums(value, error)


# --- The compiled loop: act, step and learn, composed from a world's arrays and the functions of a behaviour and a learner


class Dynamics(NamedTuple):
    """A world and its questions as the loop reads them."""

    next: np.ndarray  # [states * actions, successors]
    threshold: np.ndarray  # alias tables of the successors, [states * actions, successors]
    other: np.ndarray
    start_threshold: np.ndarray  # alias tables of the start states, [1, starts]
    start_other: np.ndarray
    starts: np.ndarray
    terminal: np.ndarray  # [states]
    feature: np.ndarray  # [states]
    horizon: int
    pi: np.ndarray
    pi_stride: int
    gamma: np.ndarray
    gamma_stride: int
    pays: np.ndarray  # [states * actions, successors]
    mean: np.ndarray
    sd: np.ndarray
    carry: np.ndarray
    drifts: np.ndarray
    drift_mean: np.ndarray
    drift_sd: np.ndarray
    drift_on_visit: np.ndarray
    drift_channel: np.ndarray


STEPS, STATE, AGE, EPISODES, ACTION = range(5)  # of `Cursor.at`: steps done, state, steps in the episode, episodes, next action


class Cursor(NamedTuple):
    """The state of a run between calls of the loop."""

    at: np.ndarray  # int64, at STEPS, STATE, AGE, EPISODES and ACTION (-1: none chosen yet)
    mu: np.ndarray  # [actions] probabilities with which that next action was drawn
    level: np.ndarray  # [gvf] drifting cumulants
    rng: np.ndarray  # uint64 [stream, 2]
    visits: np.ndarray  # int64 [states, actions]
    c: np.ndarray  # [gvf] scratch: the transition's cumulants, zero between transitions
    evidence: Evidence  # read by model-based learners and behaviours between calls of the loop


class Monitor(NamedTuple):
    """Squared errors at the end of recent episodes, for the error that the authors' code reports."""

    base: np.ndarray  # [state, gvf] truth at drift level 0
    unit: np.ndarray  # [state, gvf] truth per unit of drift
    points: np.ndarray  # [point] the evaluation states
    ring: np.ndarray  # [window, gvf] mean squared errors at the end of the last `window` episodes

    def mean(self, episodes: int) -> np.ndarray:
        """The mean over the episodes so far, at most the window, [gvf]."""
        return self.ring[: max(1, min(episodes, len(self.ring)))].mean(axis=0)


NEVER = np.iinfo(np.int64).max


def dynamics(world: MDP, asked: Stacked) -> Dynamics:
    """The arrays of a world and its questions."""
    flat = (world.states * world.actions, world.successors)
    threshold, other = alias_tables(world.prob.reshape(flat))
    starts = np.flatnonzero(world.start)
    start_threshold, start_other = alias_tables(world.start[starts][None] / world.start.sum())
    return Dynamics(
        next=world.next.reshape(flat),
        threshold=threshold,
        other=other,
        start_threshold=start_threshold,
        start_other=start_other,
        starts=starts,
        terminal=world.terminal,
        feature=world.feature,
        horizon=NEVER if world.horizon is None else world.horizon,
        pi=asked.pi,
        pi_stride=asked.pi_stride,
        gamma=asked.gamma,
        gamma_stride=asked.gamma_stride,
        pays=asked.pays.reshape(flat),
        mean=asked.mean,
        sd=asked.sd,
        carry=asked.carry,
        drifts=asked.drifts,
        drift_mean=asked.drift_mean,
        drift_sd=asked.drift_sd,
        drift_on_visit=asked.drift_on_visit,
        drift_channel=asked.drift_channel,
    )


def cursor(world: MDP, asked: Stacked, streams: np.ndarray, evidence: Evidence | None = None) -> Cursor:
    """The state before the first step (0 steps in the episode means "reset first"); keeps no evidence by default."""
    return Cursor(
        at=np.array([0, -1, 0, 0, -1], dtype=np.int64),
        mu=np.zeros(world.actions),
        level=asked.level.copy(),
        rng=streams,
        visits=np.zeros((world.states, world.actions), dtype=np.int64),
        c=np.zeros(len(asked.names)),
        evidence=no_evidence(world, asked, kept=False) if evidence is None else evidence,
    )


Advance = Callable[[Dynamics, Any, Any, Cursor, Monitor, int], None]


@cache
def make_signals(gvfs: int, drifting: bool) -> tuple[Callable[..., None], Callable[..., None]]:
    """The compiled functions `drift` and `pay`."""

    @piece
    def drift(w, level, rng, row):
        """Advance the drifting levels, every step or when their own cumulant is paid; GVFs of one channel share a path."""
        for i in range(gvfs):
            j = w.drift_channel[i]
            if j < i:
                level[i] = level[j]
            elif w.drifts[i] and (not w.drift_on_visit[i] or (row >= 0 and w.carry[row, i] != 0.0)):
                level[i] += w.drift_mean[i] + w.drift_sd[i] * normal(rng, DRIFT)

    @piece
    def pay(w, row, level, rng, c):
        """The cumulants of a paying outcome."""
        for i in range(gvfs):
            c[i] = w.mean[row, i]
            if w.sd[row, i] > 0.0:
                c[i] += w.sd[row, i] * normal(rng, CUMULANTS)
            if drifting:
                c[i] += w.carry[row, i] * level[i]

    return drift, pay


@cache
def make_record(sizes: Sizes) -> Callable[..., None]:
    """The compiled function `record`."""
    gvfs, actions = sizes

    @piece
    def record(w, lrn, level, watch, episodes):
        """The squared error at the end of an episode."""
        row = watch.ring[episodes % watch.ring.shape[0]]
        for i in range(gvfs):
            row[i] = 0.0
        share = 1.0 / watch.points.shape[0]
        for k in range(watch.points.shape[0]):
            s = watch.points[k]
            pi = w.pi[s * w.pi_stride]
            q = lrn.q[w.feature[s]]
            base = watch.base[s]
            unit = watch.unit[s]
            for i in range(gvfs):
                estimate = 0.0
                for a in range(actions):
                    estimate += pi[a, i] * q[a, i]
                row[i] += share * squared_error(base[i] + level[i] * unit[i], estimate)  # Eq. 1 (eq:mse)

    return record


@cache
def make_loop(
    sizes: Sizes,
    successors: int,
    behaviour: BehaviourRule,
    learner: LearnerRule,
    needs_next_action: bool,
    aggregated: bool,
    drifting: bool,
    monitored: bool = False,
    counted: bool = False,
) -> Advance:
    """A loop run(dynamics, behaviour state, learner state, cursor, monitor, steps); sizes and flags are compiled in."""
    gvfs, actions = sizes
    drift, pay = make_signals(gvfs, drifting)
    record = make_record(sizes)
    probabilities, observe, behaviour_end = behaviour.probabilities, behaviour.observe, behaviour.episode_end
    update, learner_end = learner.update, learner.episode_end
    count = counting(gvfs)

    @whole
    def run(w, b, lrn, cur, watch, steps):
        rng = cur.rng
        pi = w.pi
        gamma = w.gamma
        level = cur.level
        mu = cur.mu
        c = cur.c
        t, s, age, episodes, action = cur.at[STEPS], cur.at[STATE], cur.at[AGE], cur.at[EPISODES], cur.at[ACTION]
        for _ in range(steps):
            if age == 0:
                drawn = alias_draw(w.start_threshold, w.start_other, 0, w.starts.shape[0], uniform(rng, ENVIRONMENT))
                s = w.starts[drawn] & 0x7FFFFFFF
                if counted:
                    cur.evidence.starts[s] += 1
                    reach(cur.evidence, s, t)
            row = s * w.pi_stride
            x = w.feature[s] if aggregated else s
            if not needs_next_action or action < 0:
                probabilities(b, t, s, x, pi[row], lrn.m[x], mu)
                action = choose(mu, actions, uniform(rng, BEHAVIOUR))
            prob = mu[action]

            pair = s * actions + action
            k = alias_draw(w.threshold, w.other, pair, successors, uniform(rng, ENVIRONMENT))
            s_next = w.next[pair, k] & 0x7FFFFFFF
            paying = w.pays[pair, k]
            if paying >= 0:
                pay(w, paying, level, rng, c)
            if drifting:
                drift(w, level, rng, paying)
            ended = w.terminal[s_next]
            cur.visits[s, action] += 1
            if counted:
                count(cur.evidence, pair, k, c)
                reach(cur.evidence, s_next, t + 1)
            age += 1

            next_row = s_next * w.pi_stride
            next_x = w.feature[s_next] if aggregated else s_next
            next_action = -1
            next_prob = 1.0
            if needs_next_action:
                probabilities(b, t, s_next, next_x, pi[next_row], lrn.m[next_x], mu)
                next_action = choose(mu, actions, uniform(rng, BEHAVIOUR))
                next_prob = mu[next_action]
            place, alive = (pair * successors + k) * w.gamma_stride, 0.0 if ended else 1.0
            tr = Transition(row, x, action, prob, next_row, next_x, next_action, next_prob, place, alive)
            update(lrn, t, tr, c, gamma, pi)
            observe(b, t, tr, c, gamma, pi)
            if paying >= 0:
                for i in range(gvfs):
                    c[i] = 0.0
            t += 1
            s = s_next
            action = next_action
            if ended or age >= w.horizon:
                learner_end(lrn, t, rng, pi, gamma)
                behaviour_end(b, t, rng)
                if monitored:
                    record(w, lrn, level, watch, episodes)
                age = 0
                episodes += 1
                action = -1
        cur.at[STEPS], cur.at[STATE], cur.at[AGE], cur.at[EPISODES], cur.at[ACTION] = t, s, age, episodes, action

    return run


@cache
def make_table(sizes: Sizes, behaviour: BehaviourRule) -> Callable[..., None]:
    """fill(dynamics, behaviour state, learner state, t, out): the behaviour's probabilities in every state."""
    probabilities = behaviour.probabilities

    @whole
    def fill(w, b, lrn, t, out):
        for s in range(out.shape[0]):
            row = s * w.pi_stride
            x = w.feature[s]
            probabilities(b, t, s, x, w.pi[row], lrn.m[x], out[s])

    return fill


class TableCompiled(Backend):
    """What the seeds share: the world's arrays, the compiled loop, the exact true values."""

    def __init__(self, world: MDP, questions: Sequence[GVF], method: Method, options: Options) -> None:
        super().__init__(questions, method, options)
        behaviour, learner, plan = self.behaviour, self.learner, self.plan
        self.world = world
        self.asked = asked = stack(questions, world, "calibrated" if self.calibrated else None, options.where)
        self.names, self.pairs, self.where = asked.names, world.states * world.actions, asked.where
        if plan.average_episodes and self.where != EVERYWHERE:
            raise InputError("average_episodes: averages the error over all states; give 0, or leave out `where`.")
        self.sizes = Sizes(len(self.names), world.actions)
        self.rule = behaviour.rule(self.sizes)
        self.replans = frozenset(behaviour.stops(plan.steps, world))
        self.refreshes = frozenset(learner.stops(plan.steps) if behaviour.needs_variance else ())
        self.improvement = Improvement(asked, behaviour, learner, plan.steps)
        self.certain = (  # standard errors are kept with every snapshot if they are cheap
            learner.needs_evidence and not learner.forgetting_rates and world.features is None and world.states < DENSE_BELOW
        )
        self.counted = learner.needs_evidence or bool(self.replans)
        if learner.needs_evidence and plan.average_episodes:
            raise InputError(
                f"average_episodes: {type(learner).__name__} computes its values only when they are measured; give 0."
            )
        self.dynamics = dynamics(world, asked)
        self.truth = GroundTruth.exact(world, asked)
        self.weights = asked.weigh(self.truth.values(asked.level), asked.where.on(world))
        self.loop = make_loop(
            self.sizes,
            world.successors,
            self.rule,
            learner.rule(self.sizes, behaviour.needs_variance),
            learner.needs_next_action,
            world.features is not None,
            bool(asked.drifts.any() or asked.carry.any()),
            plan.average_episodes > 0,
            self.counted,
        )
        self.begin(0).advance(0)  # compile before seeds run in parallel

    def begin(self, seed: int) -> CompiledTable:
        return CompiledTable(self, seed)


class CompiledTable(TableAgent, Loop):
    """One seed: the state of the compiled loop."""

    kept: ClassVar = {"tree": ""}

    def __init__(self, run: TableCompiled, seed: int) -> None:
        self.run, self.seeds = run, (seed,)
        self.stops, self.plans = run.replans | run.refreshes | run.improvement.times, run.replans
        self.asked = run.improvement.begin(run.asked)
        self.moving = run.dynamics._replace(pi=self.asked.pi)
        evidence = no_evidence(run.world, run.asked, run.counted, run.learner.forgetting_rates)
        acting = run.behaviour.begin(self.asked, run.world)
        self.learning = run.learner.begin(self.asked, run.world)
        self.acting = run.behaviour.with_table(acting, self.learning.q)
        self.at: Cursor = cursor(run.world, run.asked, seed_streams(seed), evidence)
        ring = np.zeros((max(1, run.plan.average_episodes), run.sizes.gvfs))
        base, unit = (np.ascontiguousarray(part.T) for part in (run.truth.base, run.truth.unit))
        self.monitor = Monitor(base, unit, run.truth.points, ring)
        self.finite = FiniteTables(run.names, seed, self.acting)

    def start(self) -> None: ...

    def advance(self, to: int) -> None:
        self.run.loop(self.moving, self.acting, self.learning, self.at, self.monitor, to - self.t)
        self.t, self.known_now = to, None

    def evidence(self) -> tuple[Empirical, np.ndarray]:
        return Empirical(self.run.world, self.asked, self.at.evidence), self.at.visits

    def pause(self, stop: int) -> None:
        self.plan(stop)

    def check(self) -> None:
        self.check_finite()

    def episodes(self) -> list[int]:
        return [int(self.at.at[EPISODES])]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, at, known = self.run, self.at, self.known
        estimates, episodes = self.values(), int(at.at[EPISODES])
        mse = EMPTY
        if curve:
            averaged = run.plan.average_episodes and episodes
            mse = self.monitor.mean(episodes) if averaged else run.truth.mse(estimates, at.level)
        if not tables:
            return [Measurement(mse=mse, levels=at.level.copy())]
        mu, own = np.empty((run.world.states, run.world.actions)), self.own_errors()
        shown = interval_errors(known) if own is None and run.certain else {"standard_errors": EMPTY if own is None else own}
        make_table(run.sizes, run.rule)(self.moving, run.behaviour.shown(self.acting), self.learning, int(at.at[STEPS]), mu)
        return [
            Measurement(
                mse=mse,
                levels=at.level.copy(),
                values=estimates,
                variances=predicted_values(run.world, known.asked, self.learning.m) if run.behaviour.needs_variance else EMPTY,
                visits=at.visits.copy(),
                behaviour=mu,
                policies=run.improvement.policies(known, run.world.states),
                **shown,
            )
        ]

    @property
    def tree(self) -> Any:
        """Everything that changes during a run."""
        return (self.acting, self.learning, self.at, self.monitor.ring, self.asked.pi)

    def restored(self) -> None:
        self.t, self.known_now = int(self.at.at[STEPS]), None

    def outcome(self, k: int) -> dict[str, Any]:
        truth = self.run.truth.values(self.at.level)
        return {"truth": truth, **self.learned(True, truth @ self.run.world.start)}
