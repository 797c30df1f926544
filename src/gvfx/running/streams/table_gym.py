"""Tables in any Gymnasium environment with Discrete spaces, stepped from Python with compiled rules.

The agent's compiled functions are in `table_agent`.  If the behaviour or the learner reads evidence, outcomes are counted as
they occur (`gvfx.evidence.outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import rescale, watching
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.evidence.outcomes import FIRST, empirical, grown, no_outcomes, widened
from gvfx.evidence.starts import start_values
from gvfx.evidence.uncertainty import standard_errors
from gvfx.kernel import Sizes
from gvfx.learners.base import Learner
from gvfx.learners.episodic import EpisodicExpectedSarsa
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.reader import Reader, Targets, policies_only
from gvfx.questions.where import EVERYWHERE, START, Where
from gvfx.rng import seed_streams
from gvfx.running.auditing import AuditedStream, Audits
from gvfx.running.checkpoint import fill, generator_state, set_generator, tables
from gvfx.running.drive import Backend
from gvfx.running.earlier import Earlier, later, plan_first, replayed
from gvfx.running.finite import FiniteTables
from gvfx.running.frozen import FrozenTable, drawn_action, frozen_table
from gvfx.running.gym_stepper import NEW_EPISODE, stepper
from gvfx.running.improving import Improvement
from gvfx.running.plan import Plan
from gvfx.running.predictor import TablePredictor, labels_of
from gvfx.running.record import EMPTY, Measurement, Part, expected_error, expected_over
from gvfx.running.streams.compiled_loop import dynamics, make_table
from gvfx.running.streams.table_agent import TableAgent, bound, make_agent
from gvfx.theory.exact import DENSE_BELOW
from gvfx.truths.exact import predicted_values
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp


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
        self.questions, self.behaviour, self.learner, self.plan = questions, behaviour, learner, plan
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
        self.size(spec)
        self.improvement = Improvement(self.asked, behaviour, learner, plan.steps)
        self.targets = Targets(questions, skeleton.actions, skeleton.states, spec.first_state) if audit else None
        self.names, self.weights = self.asked.names, self.asked.weights
        self.sizes = Sizes(len(self.names), skeleton.actions)
        self.rule = behaviour.rule(self.sizes)
        rule = learner.rule(self.sizes, behaviour.needs_variance)
        self.compiled = make_agent(self.sizes, self.rule, rule, learner.needs_next_action, self.counted)

    def size(self, spec: DiscreteSpec) -> None:
        """Make room for the states of a spec."""
        self.spec, skeleton, weights = spec, spec.skeleton, "calibrated" if self.calibrated else None
        self.asked: Stacked = stack(policies_only(self.questions, spec), skeleton, weights, self.where)
        self.tables = skeleton  # the sizes of the learner's tables
        if self.counted:  # an extra row for termination
            self.asked, self.tables = widened(self.asked), skeleton_mdp(skeleton.states + 1, skeleton.actions, skeleton.horizon)
        certain = self.learner.needs_evidence and not self.learner.forgetting_rates
        self.certain = certain and skeleton.states < DENSE_BELOW

    def begin(self, seed: int) -> SteppedTable:
        return SteppedTable(self, seed)

    def described(self) -> dict[str, Any]:
        return {"environment": self.spec.name, **super().described()}

    def predictor(self, parts: list[Part]) -> TablePredictor:
        return TablePredictor(self.spec.first_state, actions=labels_of(self.spec.listed))


class SteppedTable(AuditedStream):
    """One seed: the agent's arrays, and the environment that it acts in."""

    crowded = False  # whether there must be room for more states

    def __init__(self, run: TableGym, seed: int) -> None:
        self.run, self.seeds = run, (seed,)
        self.stops, self.plans = run.replans | run.refreshes | run.improvement.times, run.replans
        self.reader = Reader(run.questions, run.spec, seed)
        self.agent = self.new_agent()
        self.stepper = stepper(run.spec, self.reader)
        self.act, self.learn = (bound(function, self.agent) for function in run.compiled[:2])
        self.ended, self.weights = 0, run.asked.weights  # episodes, and the questions' weights in plans
        self._known: Empirical | None = None
        self.finite = FiniteTables(run.names, seed, self.agent.behaviour)
        if run.targets is not None:
            self.audits = Audits(run, run.targets.member, self.reader, seed)
        if run.log is not None:
            self.agent = replayed(run.log, self.agent, self.learn)

    def new_agent(self) -> TableAgent:
        """The agent before the first step."""
        run, skeleton, lanes, gvfs = self.run, self.run.spec.skeleton, self.run.spec.lanes, len(self.run.names)
        c, gamma = self.reader.begin(lanes)
        rates, capacity = run.learner.forgetting_rates, max(FIRST, 2 * lanes) if run.counted else 0
        asked = run.improvement.begin(run.asked)
        acting, learning = run.behaviour.begin(asked, run.tables), run.learner.begin(asked, run.tables)
        return TableAgent(
            behaviour=watching(run.behaviour, acting, learning.q),
            learner=learning,
            pi=asked.pi,
            pi_stride=asked.pi_stride,
            rng=seed_streams(self.seeds[0]),
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

    def start(self) -> None:
        if self.t:  # continued from a checkpoint
            self.run.compiled[2](self.agent)
        self.stepper.begin(self.agent, self.seeds[0], self.t)
        plan_first(self)

    def forward(self, to: int) -> None:
        agent, act, learn, step = self.agent, self.act, self.learn, self.stepper.step
        to += self.run.logged
        audits = self.audits if self.audits is not None and self.audits.under_way else None
        full = len(agent.outcomes.pair) - len(agent.state) or -1  # the number of outcomes above which the arrays must grow
        try:
            while agent.t[0] < to:
                act(agent)
                if audits is not None:
                    audits.follow(self)
                self.ended += step(agent, learn)
                if agent.outcomes.used[0] > full >= 0 or self.crowded:
                    self.agent = agent = self.roomier(agent)
                    full = len(agent.outcomes.pair) - len(agent.state) or -1
        finally:
            self.t, self._known = int(agent.t[0]) - self.run.logged, None

    def roomier(self, agent: TableAgent) -> TableAgent:
        """The agent with room for more."""
        return agent._replace(outcomes=grown(agent.outcomes))

    # --- audits ------------------------------------------------------------------------------------------------------

    @property
    def written(self) -> TableAgent:
        return self.agent

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[int, int]:
        agent, state = self.agent, int(self.agent.state[lane])
        agent.mu[lane] = self.policies[policy][state]
        agent.action[lane] = drawn_action(agent.mu[lane], rng)
        return state, int(agent.action[lane])

    def arrived(self, lane: int) -> int:
        return int(self.agent.following[lane])

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
            own = None if run.learner.needs_evidence else run.learner.values(self.agent.learner, known)
            out["start"] = start_values(known, own)
        return out

    def resumed(self) -> str:
        return NEW_EPISODE
