"""Tables in any Gymnasium environment with Discrete spaces, stepped from Python with compiled rules.

The functions of the behaviour and the learner, the same as in the compiled loop, are wrapped into `act` and `learn`, each
called once per step for all environments that are stepped together (a plain environment is a single lane).  If the
behaviour or the learner reads evidence, outcomes are counted as they occur (`gvfx.evidence.outcomes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import rescale, watching
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, no_evidence, reach
from gvfx.evidence.outcomes import FIRST, Outcomes, empirical, grown, no_outcomes, remembering, widened
from gvfx.evidence.starts import start_values
from gvfx.evidence.uncertainty import standard_errors
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, whole
from gvfx.learners.base import Learner
from gvfx.learners.episodic import EpisodicExpectedSarsa
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.reader import Reader, Targets, policies_only
from gvfx.questions.where import EVERYWHERE, START, Where
from gvfx.rng import BEHAVIOUR, choose, seed_streams, uniform
from gvfx.running.auditing import AuditedStream, Audits
from gvfx.running.checkpoint import fill, generator_state, set_generator, tables
from gvfx.running.drive import Backend
from gvfx.running.earlier import Earlier, later, plan_first, replayed
from gvfx.running.finite import FiniteTables
from gvfx.running.frozen import FrozenTable, drawn_action, frozen_table
from gvfx.running.gym_stepper import NEW_EPISODE, stepper
from gvfx.running.improving import Improvement
from gvfx.running.plan import Plan
from gvfx.running.predictor import TablePredictor
from gvfx.running.record import EMPTY, Measurement, Part, expected_error, expected_over
from gvfx.running.streams.compiled_loop import dynamics, make_table
from gvfx.theory.exact import DENSE_BELOW
from gvfx.truths.exact import predicted_values
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp


class TableAgent(NamedTuple):
    """Everything that `act` and `learn` read and write; [lane] is one of the environments stepped together."""

    behaviour: Any
    learner: Any
    pi: np.ndarray  # [1 or states, action, gvf]
    pi_stride: int
    rng: np.ndarray
    t: np.ndarray  # int64 [1] steps done
    visits: np.ndarray  # int64 [states, actions]
    state: np.ndarray  # int64 [lane]
    action: np.ndarray  # int64 [lane]; -1: none chosen yet
    mu: np.ndarray  # [lane, action]
    following: np.ndarray  # int64 [lane]
    alive: np.ndarray  # [lane] 0 where the episode terminated, 1 otherwise
    ended: np.ndarray  # bool [lane] terminated or truncated
    counts: np.ndarray  # bool [lane] False: this was a reset, not a transition
    fresh: np.ndarray  # bool [lane] an episode begins here
    c: np.ndarray  # [lane, gvf]
    gamma: np.ndarray  # [lane, gvf]
    outcomes: Outcomes  # of size 0 if they are not used


@cache
def make_agent(
    sizes: Sizes, behaviour: BehaviourRule, learner: LearnerRule, needs_next_action: bool, counted: bool
) -> tuple[Callable[[TableAgent], None], Callable[[TableAgent], None], Callable[[TableAgent], None]]:
    """act(agent) chooses an action in every lane; learn(agent) learns from every lane's transition; end(agent) ends the
    episodes of all lanes without a transition, for a run that continues in new ones."""
    actions = sizes.actions
    probabilities, observe, behaviour_end = behaviour.probabilities, behaviour.observe, behaviour.episode_end
    update, learner_end = learner.update, learner.episode_end
    remember = remembering(sizes.gvfs)

    @whole
    def act(agent):
        for k in range(agent.state.shape[0]):
            s = agent.state[k]
            if counted and agent.fresh[k]:
                agent.outcomes.evidence.starts[s] += 1
                reach(agent.outcomes.evidence, s, agent.t[0])
                agent.fresh[k] = False
            if not needs_next_action or agent.action[k] < 0:
                probabilities(agent.behaviour, agent.t[0], s, s, agent.pi[s * agent.pi_stride], agent.learner.m[s], agent.mu[k])
                agent.action[k] = choose(agent.mu[k], actions, uniform(agent.rng, BEHAVIOUR))

    @whole
    def learn(agent):
        for k in range(agent.state.shape[0]):
            if not agent.counts[k]:
                agent.action[k] = -1
                continue
            t = agent.t[0]
            s = agent.state[k]
            s_next = agent.following[k]
            action = agent.action[k]
            mu = agent.mu[k]
            prob = mu[action]
            row = s * agent.pi_stride
            next_row = s_next * agent.pi_stride
            next_action = -1
            next_prob = 1.0
            if needs_next_action:
                probabilities(agent.behaviour, t, s_next, s_next, agent.pi[next_row], agent.learner.m[s_next], mu)
                next_action = choose(mu, actions, uniform(agent.rng, BEHAVIOUR))
                next_prob = mu[next_action]
            tr = Transition(row, s, action, prob, next_row, s_next, next_action, next_prob, k, agent.alive[k])
            update(agent.learner, t, tr, agent.c[k], agent.gamma, agent.pi)
            observe(agent.behaviour, t, tr, agent.c[k], agent.gamma, agent.pi)
            if counted:
                arrived = s_next if agent.alive[k] > 0.0 else agent.visits.shape[0]
                remember(agent.outcomes, s * actions + action, arrived, agent.c[k], agent.gamma[k])
                reach(agent.outcomes.evidence, arrived, t + 1)
                reach(agent.outcomes.evidence, s_next, t + 1)
            agent.visits[s, action] += 1
            agent.t[0] = t + 1
            agent.action[k] = next_action
            if agent.ended[k]:
                learner_end(agent.learner, t + 1, agent.rng, agent.pi, agent.gamma)
                behaviour_end(agent.behaviour, t + 1, agent.rng)
                agent.action[k] = -1

    @whole
    def end(agent):
        for k in range(agent.state.shape[0]):
            learner_end(agent.learner, agent.t[0], agent.rng, agent.pi, agent.gamma)
            behaviour_end(agent.behaviour, agent.t[0], agent.rng)
            agent.action[k] = -1

    return act, learn, end


def bound(function: Any, agent: Any) -> Callable[[Any], None]:
    """A compiled function for one agent's types, without numba's type lookup at every call."""
    signature = (typeof(agent),)
    function.compile(signature)
    return function.overloads[signature].entry_point


# --- a run -------------------------------------------------------------------------------------------------------


class TableGym(Backend):
    """What the seeds share: the questions and the compiled functions."""

    one_environment = True
    knows_truth = False

    def __init__(
        self,
        spec: DiscreteSpec,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: Learner,
        plan: Plan,
        calibrate: bool = False,
        where: Where = EVERYWHERE,
        audit: float = 0.0,
        log: Earlier | None = None,
    ) -> None:
        self.spec, self.questions, self.behaviour, self.learner, self.plan = spec, questions, behaviour, learner, plan
        self.calibrated, self.where, self.audit, self.log = calibrate, where, audit, log
        if spec.lanes > 1 and isinstance(learner, EpisodicExpectedSarsa):
            raise InputError("learner: EpisodicExpectedSarsa handles one episode at a time; give a plain environment.")
        if spec.lanes > 1 and isinstance(behaviour, BehaviourPolicySearch):
            raise InputError("behaviour: BehaviourPolicySearch handles one episode at a time; give a plain environment.")
        reader = Reader(questions, spec)
        self.varying = any(callable(q.discount) for q in reader.questions)
        if isinstance(learner, EpisodicExpectedSarsa) and self.varying:
            raise InputError("discount: EpisodicExpectedSarsa needs constant discounts; use gvfx.ExpectedSarsa().")
        skeleton = spec.skeleton
        self.pairs = skeleton.states * skeleton.actions
        self.replans = later(lambda steps: behaviour.stops(steps, skeleton), self.logged, plan.steps)
        self.refreshes = later(learner.stops, self.logged, plan.steps) if behaviour.needs_variance else frozenset()
        self.counted = learner.needs_evidence or bool(self.replans) or where == START or audit > 0
        self.asked: Stacked = stack(policies_only(questions, spec), skeleton, "calibrated" if calibrate else None, where)
        self.tables = skeleton  # the sizes of the learner's tables
        if self.counted:  # an extra row for termination
            self.asked, self.tables = widened(self.asked), skeleton_mdp(skeleton.states + 1, skeleton.actions, skeleton.horizon)
        self.improvement = Improvement(self.asked, behaviour, learner, plan.steps)
        self.certain = learner.needs_evidence and not learner.forgetting_rates and skeleton.states < DENSE_BELOW
        self.targets = Targets(questions, skeleton.actions, skeleton.states, spec.first_state) if audit else None
        self.names, self.weights = self.asked.names, self.asked.weights
        self.sizes = Sizes(len(self.names), skeleton.actions)
        self.rule = behaviour.rule(self.sizes)
        rule = learner.rule(self.sizes, behaviour.needs_variance)
        self.compiled = make_agent(self.sizes, self.rule, rule, learner.needs_next_action, self.counted)

    def begin(self, seed: int) -> SteppedTable:
        return SteppedTable(self, seed)

    def described(self) -> dict[str, Any]:
        return {"environment": self.spec.name, **super().described()}

    def predictor(self, parts: list[Part]) -> TablePredictor:
        return TablePredictor(self.spec.first_state)


class SteppedTable(AuditedStream):
    """One seed: the agent's arrays, and the environment that it acts in."""

    def __init__(self, run: TableGym, seed: int) -> None:
        self.run, self.seeds = run, (seed,)
        self.stops, self.plans = run.replans | run.refreshes | run.improvement.times, run.replans
        skeleton, lanes, gvfs = run.spec.skeleton, run.spec.lanes, len(run.names)
        self.reader = Reader(run.questions, run.spec, seed)
        c, gamma = self.reader.begin(lanes)
        rates, capacity = run.learner.forgetting_rates, max(FIRST, 2 * lanes) if run.counted else 0
        asked = run.improvement.begin(run.asked)
        acting, learning = run.behaviour.begin(asked, run.tables), run.learner.begin(asked, run.tables)
        self.agent = TableAgent(
            behaviour=watching(run.behaviour, acting, learning.q),
            learner=learning,
            pi=asked.pi,
            pi_stride=asked.pi_stride,
            rng=seed_streams(seed),
            t=np.zeros(1, np.int64),
            visits=np.zeros((skeleton.states, skeleton.actions), np.int64),
            state=np.zeros(lanes, np.int64),
            action=np.full(lanes, -1, np.int64),
            mu=np.zeros((lanes, skeleton.actions)),
            following=np.zeros(lanes, np.int64),
            alive=np.ones(lanes),
            ended=np.zeros(lanes, bool),
            counts=np.ones(lanes, bool),
            fresh=np.zeros(lanes, bool),
            c=c,
            gamma=gamma,
            outcomes=no_outcomes(skeleton.states, skeleton.actions, gvfs, rates, capacity),
        )
        self.stepper = stepper(run.spec, self.reader)
        self.act, self.learn = (bound(function, self.agent) for function in run.compiled[:2])
        self.ended, self.weights = 0, run.asked.weights  # episodes, and the questions' weights in plans
        self._known: Empirical | None = None
        self.finite = FiniteTables(run.names, seed, self.agent.behaviour)
        if run.targets is not None:
            self.audits = Audits(run.audit, run.plan.steps, run.targets.member, self.reader.discounts, seed)
        if run.log is not None:
            self.agent = replayed(run.log, self.agent, self.learn)

    def start(self) -> None:
        if self.t:  # continued from a checkpoint
            self.run.compiled[2](self.agent)
        self.stepper.begin(self.agent, self.seeds[0], self.t)
        plan_first(self)

    def advance(self, to: int) -> None:
        if self.audits is None:
            self.forward(to)
        else:
            self.audits.advance(self, to)

    def forward(self, to: int) -> None:
        agent, act, learn, step = self.agent, self.act, self.learn, self.stepper.step
        to += self.run.logged
        audits = self.audits if self.audits is not None and self.audits.policy is not None else None
        full = len(agent.outcomes.pair) - len(agent.state) or -1  # the number of outcomes above which the arrays must grow
        try:
            while agent.t[0] < to:
                act(agent)
                if audits is not None:
                    audits.follow(self)
                self.ended += step(agent, learn)
                if agent.outcomes.used[0] > full >= 0:
                    self.agent = agent = agent._replace(outcomes=grown(agent.outcomes))
                    full = len(agent.outcomes.pair) - len(agent.state)
        finally:
            self.t, self._known = int(agent.t[0]) - self.run.logged, None

    # --- audits ------------------------------------------------------------------------------------------------------

    @property
    def written(self) -> TableAgent:
        return self.agent

    def take(self, policy: int, rng: np.random.Generator) -> tuple[int, int]:
        agent, state = self.agent, int(self.agent.state[0])
        agent.mu[0] = self.policies[policy][state]
        agent.action[0] = drawn_action(agent.mu[0], rng)
        return state, int(agent.action[0])

    def arrived(self) -> int:
        return int(self.agent.following[0])

    def at_starts(self, observations: list[Any]) -> list[int]:
        return [self.run.spec.seen(observation) for observation in observations]

    def break_off(self) -> None:
        self.run.compiled[2](self.agent)

    @property
    def policies(self) -> list[np.ndarray]:
        """Every distinct target policy, [state, action]."""
        assert self.run.targets is not None and self.run.targets.tables is not None
        return self.run.targets.tables

    def freeze(self) -> FrozenTable:
        return frozen_table(self.known, self.run.learner.values(self.agent.learner, self.known), self.policies)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def known(self) -> Empirical:
        if self._known is None:
            self._known = self._improved(0)
        return self._known

    def _improved(self, stop: int) -> Empirical:
        """The evidence so far (empty if none is kept), with the policies that it implies."""
        run, agent = self.run, self.agent
        asked = run.asked._replace(pi=agent.pi, weights=self.weights)
        if run.counted:
            known = empirical(agent.outcomes, run.spec.skeleton, asked, run.varying)
        else:
            known = Empirical(run.tables, asked, no_evidence(run.tables, asked, kept=False))
        return run.improvement(stop, known, agent.behaviour, agent.learner, agent.visits)

    def weigh(self, weights: np.ndarray) -> None:
        self.weights, self._known = weights, None

    def pause(self, stop: int) -> None:
        self._known = known = self._improved(stop)
        if stop in self.run.refreshes:
            self.run.learner.refresh(self.agent.learner, known)
            rescale(self.run.behaviour, self.agent.behaviour, known)
        if stop in self.run.replans:
            self.run.behaviour.refresh(self.agent.behaviour, known)

    def check(self) -> None:
        self.finite.check(self.t, self.agent.behaviour, None if self.run.learner.needs_evidence else self.agent.learner)

    def episodes(self) -> list[int]:
        return [self.ended]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, agent, known = self.run, self.agent, self.known
        states = run.spec.skeleton.states
        errors = standard_errors(known)[:, :states] if run.certain else EMPTY
        measured = Measurement(expected=self._expected(errors))
        if tables or run.calibrated:
            values = run.learner.values(agent.learner, known)[:, :states]
            measured = measured._replace(values=values, visits=agent.visits.copy())
        if not tables:
            return [measured]
        mu = np.empty((run.tables.states, run.tables.actions))
        moving = dynamics(run.tables, run.asked._replace(pi=agent.pi))
        make_table(run.sizes, run.rule)(moving, run.behaviour.shown(agent.behaviour), agent.learner, int(agent.t[0]), mu)
        needs_variance = run.behaviour.needs_variance
        return [
            measured._replace(
                variances=predicted_values(run.tables, known.asked, agent.learner.m)[:, :states] if needs_variance else EMPTY,
                behaviour=mu[:states],
                standard_errors=errors,
                policies=run.improvement.policies(known, states),
            )
        ]

    def _expected(self, errors: np.ndarray) -> np.ndarray:
        """The expected squared error [gvf] where errors count, from the standard errors of states [gvf, state]."""
        run, known = self.run, self.known
        if run.where == EVERYWHERE or not run.learner.needs_evidence:
            return expected_error(errors, len(run.names))
        if run.where == START:
            own = start_values(known)[:, 1]
            return np.where(np.isfinite(own), own, np.nan) ** 2
        if not errors.size:
            return np.full(len(run.names), np.nan)
        return expected_over(errors, known.evaluation.weights[: errors.shape[1]])

    def state(self) -> dict[str, np.ndarray]:
        own = {"noise": generator_state(self.reader.noise), "episodes": np.array([self.ended, self.stepper.episode])}
        return dict(tables(self.agent)) | own | self.audit_state()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        while len(self.agent.outcomes.pair) < len(arrays["outcomes.pair"]):
            self.agent = self.agent._replace(outcomes=grown(self.agent.outcomes))
        fill(self.agent, arrays)
        set_generator(self.reader.noise, arrays["noise"])
        self.ended, self.stepper.episode = (int(n) for n in arrays["episodes"])
        self.restore_audits(arrays)
        self.t, self._known = int(self.agent.t[0]) - self.run.logged, None

    def outcome(self, k: int) -> dict[str, Any]:
        run, known = self.run, self.known
        out: dict[str, Any] = {"model": known if run.learner.needs_evidence else None, **self.audit_outcome()}
        if run.counted and known.evidence.starts.any():
            start = start_values(known, None if run.learner.needs_evidence else run.learner.values(self.agent.learner, known))
            out["start"] = np.column_stack([start, np.full(len(start), np.nan)])
        return out

    def resumed(self) -> str:
        return NEW_EPISODE
