"""The online loop: any Gymnasium environment with Discrete spaces, stepped from Python, learning by the compiled rules.

Behaviours and learners are those of the compiled loop: their functions are wrapped into two, `act` and `learn`, each
called once per step for all environments that are stepped together (a plain environment is one of them).  Where the
behaviour or the learner reads evidence, outcomes are counted as they are met (`gvfx.evidence.outcomes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.evidence.outcomes import FIRST, Outcomes, empirical, grown, no_outcomes, remembering, widened
from gvfx.evidence.uncertainty import ErrorBelow, standard_errors
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, whole
from gvfx.learners.base import Learner
from gvfx.learners.episodic import EpisodicExpectedSarsa
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.reader import Reader, policies_only
from gvfx.rng import BEHAVIOUR, choose, seed_streams, uniform
from gvfx.running.evaluate import Part, Plan, Watch, check_until
from gvfx.running.gym_stepper import EnvironmentFailed, SingleStepper, VectorStepper
from gvfx.running.improving import Improvement
from gvfx.running.record import Record
from gvfx.running.streams.compiled_loop import dynamics, make_table
from gvfx.theory.exact import DENSE_BELOW
from gvfx.truths.exact import predicted_values
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp


class Agent(NamedTuple):
    """All that `act` and `learn` read and write; [lane] is one of the environments that are stepped together."""

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
    outcomes: Outcomes  # with no room where nobody reads them


@cache
def make_agent(
    sizes: Sizes, behaviour: BehaviourRule, learner: LearnerRule, needs_next_action: bool, counted: bool
) -> tuple[Callable[[Agent], None], Callable[[Agent], None]]:
    """act(agent) chooses an action in every lane; learn(agent) learns from every lane's transition."""
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
            agent.visits[s, action] += 1
            agent.t[0] = t + 1
            agent.action[k] = next_action
            if agent.ended[k]:
                learner_end(agent.learner, t + 1, agent.rng, agent.pi, agent.gamma)
                behaviour_end(agent.behaviour, t + 1, agent.rng)
                agent.action[k] = -1

    return act, learn


def bound(function: Any, agent: Agent) -> Callable[[Agent], None]:
    """A compiled function for one agent's types, spared the search for the right types at every call."""
    signature = (typeof(agent),)
    function.compile(signature)
    return function.overloads[signature].entry_point


# --- a run -------------------------------------------------------------------------------------------------------


class Going:
    """One seed under way."""

    def __init__(self, agent: Agent, stepper: SingleStepper | VectorStepper, act: Any, learn: Any) -> None:
        self.agent, self.stepper, self.act, self.learn = agent, stepper, act, learn
        self.ended = 0  # episodes

    def until(self, stop: int) -> None:
        """Steps, until so many were made."""
        agent, act, learn, step = self.agent, self.act, self.learn, self.stepper.step
        full = len(agent.outcomes.pair) - len(agent.state) or -1  # outcomes that leave no room for another step
        while agent.t[0] < stop:
            act(agent)
            self.ended += step(agent, learn)
            if agent.outcomes.used[0] > full >= 0:
                self.agent = agent = agent._replace(outcomes=grown(agent.outcomes))
                full = len(agent.outcomes.pair) - len(agent.state)


class OnlineRunner:
    """Everything that seeds share; calling it with a seed runs that seed in the environment."""

    def __init__(
        self,
        spec: DiscreteSpec,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: Learner,
        plan: Plan,
        until: ErrorBelow | None = None,
    ) -> None:
        self.spec, self.questions, self.behaviour, self.learner, self.plan = spec, questions, behaviour, learner, plan
        if spec.lanes > 1 and isinstance(learner, EpisodicExpectedSarsa):
            raise InputError("learner: EpisodicExpectedSarsa keeps one episode at a time; give a plain environment.")
        if spec.lanes > 1 and isinstance(behaviour, BehaviourPolicySearch):
            raise InputError("behaviour: BehaviourPolicySearch keeps one episode at a time; give a plain environment.")
        reader = Reader(questions, spec)
        self.varying = any(callable(q.discount) for q in reader.questions)
        if isinstance(learner, EpisodicExpectedSarsa) and self.varying:
            raise InputError("discount: EpisodicExpectedSarsa learns when changing discounts are gone; use ExpectedSarsa.")
        skeleton = spec.skeleton
        check_until(until, questions, learner)
        self.until = until
        self.replans = frozenset(behaviour.stops(plan.steps, skeleton))
        self.refreshes = frozenset(learner.stops(plan.steps) if behaviour.needs_variance else ())
        self.counted = learner.needs_evidence or bool(self.replans)
        self.asked: Stacked = stack(policies_only(questions, spec), skeleton)
        self.room = skeleton
        if self.counted:  # tables have a row for the end
            self.asked, self.room = widened(self.asked), skeleton_mdp(skeleton.states + 1, skeleton.actions, skeleton.horizon)
        self.improvement = Improvement(self.asked, behaviour, learner, plan.steps)
        self.certain = learner.needs_evidence and not learner.forgetting_rates and skeleton.states < DENSE_BELOW
        self.names, self.weights = self.asked.names, self.asked.weights
        self.sizes = Sizes(len(self.names), skeleton.actions)
        self.rule = behaviour.rule(self.sizes)
        rule = learner.rule(self.sizes, behaviour.needs_variance)
        self.compiled = make_agent(self.sizes, self.rule, rule, learner.needs_next_action, self.counted)

    def begin(self, seed: int) -> Going:
        """A seed's run, ready for its first step."""
        skeleton, lanes, gvfs = self.spec.skeleton, self.spec.lanes, len(self.names)
        reader = Reader(self.questions, self.spec, seed)
        c, gamma = reader.begin(lanes)
        rates, space = self.learner.forgetting_rates, max(FIRST, 2 * lanes) if self.counted else 0
        asked = self.improvement.begin(self.asked)
        agent = Agent(
            behaviour=self.behaviour.begin(asked, self.room),
            learner=self.learner.begin(asked, self.room),
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
            outcomes=no_outcomes(skeleton.states, skeleton.actions, gvfs, rates, space),
        )
        stepper = SingleStepper(self.spec, reader) if self.spec.single else VectorStepper(self.spec, reader)
        return Going(agent, stepper, *(bound(function, agent) for function in self.compiled))

    def __call__(self, seed: int, progress: Callable[[int, int, float], None] | None = None) -> Part:
        """Run a seed; where the environment fails, EnvironmentFailed carries the part so far."""
        going, seconds = self.begin(seed), 0.0
        watch = Watch(self.until, self.plan.steps, self.spec.skeleton.states * self.spec.skeleton.actions)
        record = Record(len(self.names), seed, progress, self.weights)
        try:
            going.stepper.begin(going.agent, seed)
            for stop in sorted({*self.plan.stops, *self.replans, *self.refreshes, *self.improvement.times, *watch.times}):
                begun = time.perf_counter()
                going.until(stop)
                known = self.known(going.agent, stop)
                if stop in self.refreshes:
                    self.learner.refresh(going.agent.learner, known)
                if stop in self.replans:
                    self.behaviour.refresh(going.agent.behaviour, known)
                watch.look(stop, known)
                seconds += time.perf_counter() - begun
                if stop in self.plan.stops or watch.reached:
                    tables = self.tables(going.agent, known)
                    times = self.plan.onward(stop) if watch.reached else [stop]
                    record.evaluated([t for t in times if t in self.plan.evaluations], going.ended, tables[-1])
                    record.shown([t for t in times if t in self.plan.snapshots], tables, self._policies(known))
                if watch.reached:
                    break
        except EnvironmentFailed as error:
            t = int(going.agent.t[0])
            if t:
                known = self.known(going.agent)
                record.shown([t], self.tables(going.agent, known), self._policies(known))
                error.part = record.part(seconds)
            raise
        model = known if self.learner.needs_evidence else None
        return replace(record.part(seconds), model=model, **watch.outcome(int(going.agent.t[0])))

    def known(self, agent: Agent, stop: int = 0) -> Empirical:
        """What was learned of the environment so far; without evidence, its outline."""
        asked = self.asked._replace(pi=agent.pi)
        if self.counted:
            known = empirical(agent.outcomes, self.spec.skeleton, asked, self.varying)
        else:
            known = Empirical(self.room, asked, no_evidence(self.room, asked, kept=False))
        return self.improvement(stop, known, agent.behaviour, agent.learner, agent.visits)

    def _policies(self, known: Empirical) -> np.ndarray:
        return self.improvement.policies(known, self.spec.skeleton.states)

    def tables(self, agent: Agent, known: Empirical) -> tuple[np.ndarray, ...]:
        """Values, variances, visits, behaviour and standard errors now."""
        states = self.spec.skeleton.states
        mu = np.empty((self.room.states, self.room.actions))
        moving = dynamics(self.room, self.asked._replace(pi=agent.pi))
        make_table(self.sizes, self.rule)(moving, agent.behaviour, agent.learner, int(agent.t[0]), mu)
        variances = predicted_values(self.room, known.asked, agent.learner.m) if self.behaviour.needs_variance else None
        errors = standard_errors(known)[:, :states] if self.certain else np.empty(0)
        return (
            self.learner.values(agent.learner, known)[:, :states],
            np.empty(0) if variances is None else variances[:, :states],
            agent.visits.copy(),
            mu[:states],
            errors,
        )
