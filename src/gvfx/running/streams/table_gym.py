"""Tables in any Gymnasium environment with Discrete actions, stepped from Python with compiled rules.

If the behaviour or the learner reads evidence, outcomes are counted as they occur (`gvfx.evidence.counts`).  States are those of
the environment, or observations of a few whole numbers, which are numbered as they are met (`gvfx.worlds.spec`): then each seed
has its own numbers, tables grow as states are found, and at the end the seeds' tables are put into the order of the observations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import typeof

from gvfx.errors import InputError
from gvfx.evidence.counts import (
    FIRST,
    Empirical,
    Outcomes,
    empirical,
    grown,
    no_evidence,
    no_outcomes,
    reach,
    remembering,
    widened,
)
from gvfx.evidence.uncertainty import interval_errors, standard_errors
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, whole
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.policies import OwnPolicy, Steady, is_function
from gvfx.questions.reader import Reader, Targets, policies_only
from gvfx.questions.where import EVERYWHERE, START, as_where
from gvfx.rng import BEHAVIOUR, choose, seed_streams, uniform
from gvfx.running.checkpoint import tables
from gvfx.running.earlier import Earlier, later, learn_from_log, plan_first
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import FrozenTable, NumberedPredictor, TablePredictor, frozen_table, labels_of
from gvfx.running.schema import EMPTY, Measurement, Part, expected_error, expected_over
from gvfx.running.stepping import SingleStepper, VectorStepper
from gvfx.running.streams.gym_stream import NEVER, Actor, GymRun, drawn_action
from gvfx.running.streams.numbers import Met, Numbers, aligned, numbered_where
from gvfx.running.streams.table_compiled import FiniteTables, Improvement, TableAgent, dynamics, make_table
from gvfx.theory.exact import DENSE_BELOW, predicted_values
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spaces import key_of
from gvfx.worlds.spec import MOST_STATES, DiscreteSpec, skeleton_mdp

# --- The agent of tables in an environment stepped from Python ------------------------------------------------------
# The functions of the behaviour and the learner, the same as in the compiled loop, are wrapped into `act` and `learn`, each
# called once per step for all environments that are stepped together (a plain environment is a single lane).


class TableArrays(NamedTuple):
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
) -> tuple[Callable[[TableArrays], None], Callable[[TableArrays], None], Callable[[TableArrays], None]]:
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


class Sized(NamedTuple):
    """The questions, and the sizes of a learner's tables, for a number of states."""

    asked: Stacked
    tables: MDP


class TableGym(GymRun):
    """What the seeds share: the questions and the compiled functions."""

    spec: Any  # a DiscreteSpec or a CountedSpec

    def __init__(
        self, spec: DiscreteSpec, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0
    ) -> None:
        super().__init__(spec, questions, method, options, share)
        behaviour, learner, plan, skeleton = self.behaviour, self.learner, self.plan, spec.skeleton
        self.met_first: list[Any] = []  # observations that get the first numbers
        if not spec.fixed:
            self.tag, self.met_first, self.aligned = "-numbered", numbered_where(options.where, spec.space), aligned
        self.asked_at = np.array([key_of(spec.space, observation) for observation in self.met_first])
        where: Any = list(range(len(self.met_first))) or options.where
        self.where = as_where(where, skeleton, spec.first_state)
        for what, part in (("learner", learner), ("behaviour", behaviour)):
            if spec.lanes > 1 and part.by_episode:
                raise InputError(f"{what}: {type(part).__name__} handles one episode at a time; give a plain environment.")
        reader = Reader(questions, spec)
        self.varying = any(callable(q.discount) for q in reader.questions)
        self.numbers: dict[int, Numbers] = {}  # of the seeds whose observations are numbered
        if learner.by_episode and self.varying:
            raise InputError(f"discount: {type(learner).__name__} needs constant discounts; use gvfx.ExpectedSarsa().")
        self.pairs = skeleton.states * skeleton.actions
        self.replans = later(lambda steps: behaviour.stops(steps, skeleton), self.logged, plan.steps)
        self.refreshes = later(learner.stops, self.logged, plan.steps) if behaviour.needs_variance else frozenset()
        self.counted = (
            learner.needs_evidence or bool(self.replans) or self.where == START or self.audit > 0 or self.log is not None
        )
        self.asked, self.tables = self.sized(spec)
        self.improvement = Improvement(self.asked, behaviour, learner, plan.steps)
        self.steady = self._steady() if spec.fixed else []
        states = (skeleton.states, spec.first_state) if spec.fixed else ()
        self.targets = Targets(questions, skeleton.actions, *states) if self.audit else None
        self.names, self.weights = self.asked.names, self.asked.weights
        self.sizes = Sizes(len(self.names), skeleton.actions)
        self.rule = behaviour.rule(self.sizes)
        rule = learner.rule(self.sizes, behaviour.needs_variance)
        self.compiled = make_agent(self.sizes, self.rule, rule, learner.needs_next_action, self.counted)

    def sized(self, spec: DiscreteSpec) -> Sized:
        """The questions and tables for the states of a spec."""
        skeleton, weights = spec.skeleton, "calibrated" if self.calibrated else None
        asked, tables = stack(policies_only(self.questions, spec), skeleton, weights, self.where), skeleton
        if self.counted:  # an extra row for termination
            asked, tables = widened(asked), skeleton_mdp(skeleton.states + 1, skeleton.actions, skeleton.horizon)
        if not (spec.fixed or asked.pi_stride):  # every state has its own row, which is filled in when the state is met
            shape = (tables.states, *asked.pi.shape[1:])
            asked = asked._replace(pi=np.full(shape, 1 / shape[1]), pi_stride=1)
        return Sized(asked, tables)

    def _steady(self) -> list[Steady]:
        """The functions among the policies, which are asked again now and then."""
        asked, states = policies_only(self.questions, self.spec), self.spec.skeleton.states
        own = {q.policy: i for i, q in enumerate(asked) if is_function(q.policy) and not isinstance(q.policy, OwnPolicy)}
        return [Steady.of_table(p, self.asked.pi[:states, :, i], f"{asked[i].name}.policy") for p, i in own.items()]

    def actor(self, seed: int, source: SingleStepper | VectorStepper) -> SteppedTables:
        return SteppedTables(self, seed, source)

    def paid_for(self) -> dict[int, Earlier]:
        """The transitions that seeds have made by now, if observations are numbered."""
        return {seed: own.recorded.log(own.observation) for seed, own in self.numbers.items() if own.recorded.rows}

    def predictor(self, parts: list[Part]) -> TablePredictor | NumberedPredictor:
        labels = labels_of(self.spec.listed)
        if self.spec.fixed:
            return TablePredictor(self.spec.first_state, actions=labels)
        return NumberedPredictor(actions=labels, space=self.spec.numbering.space, keys=parts[0].met.keys)


class SteppedTables(TableAgent, Actor):
    """One seed: the arrays in which it acts and learns."""

    run: TableGym
    room = 0
    numbers: Numbers | None = None  # of observations, if they are numbered as they are met
    kept: ClassVar = {
        "arrays": "",
        ("source.episode", "source.episode"): "episodes",
        "numbers": "numbering:",
        "reader.noise": "noise",
    }

    def __init__(self, run: TableGym, seed: int, source: SingleStepper | VectorStepper) -> None:
        Actor.__init__(self, run, seed, source)
        self.stops, self.plans = run.replans | run.refreshes | run.improvement.times, run.replans
        self.asked, self.tables = (run.asked, run.tables) if self.spec.fixed else run.sized(self.spec)
        self.arrays = self.new_agent()
        self.act, self.learn = (bound(function, self.arrays) for function in run.compiled[:2])
        self.finite = FiniteTables(run.names, seed, self.arrays.behaviour)
        if not self.spec.fixed:
            self.numbers = run.numbers[seed] = Numbers(self)
            self.learn = self.numbers.recording(self.learn)
            for observation in run.met_first:
                self.spec.seen(observation)

    def new_agent(self) -> TableArrays:
        """The agent before the first step."""
        run, skeleton, lanes = self.run, self.spec.skeleton, self.spec.lanes
        c, gamma = self.reader.begin(lanes)
        rates, capacity = run.learner.forgetting_rates, max(FIRST, 2 * lanes) if run.counted else 0
        asked = run.improvement.begin(self.asked)
        acting, learning = run.behaviour.begin(asked, self.tables), run.learner.begin(asked, self.tables)
        return TableArrays(
            behaviour=run.behaviour.with_table(acting, learning.q),
            learner=learning,
            pi=asked.pi,
            pi_stride=asked.pi_stride,
            rng=seed_streams(self.seed),
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
            outcomes=no_outcomes(skeleton.states, skeleton.actions, len(run.names), rates, capacity),
        )

    def take_log(self, log: Earlier) -> None:
        learner = self.run.learner
        if self.run.alone and learner.needs_evidence and not learner.forgetting_rates:
            self.count(log)
        else:
            learn_from_log(self, log)
        if self.numbers is not None:
            self.numbers.recorded.rows.clear()  # which are this run's own alone

    def count(self, log: Earlier) -> None:
        """Count a log that is all there is at once; nothing can be counted after it."""
        here, after = log.columns if self.numbers is None else self.numbers.of(log)
        actions, states, arrays = self.run.sizes.actions, self.spec.skeleton.states, self.arrays
        key = (here * actions + log.action) * (states + 1) + np.where(log.terminated, states, after)
        outcomes, which, counts = np.unique(key, return_inverse=True, return_counts=True)
        met = no_outcomes(states, actions, log.c.shape[1], (), capacity=len(outcomes))
        met.pair[:], met.following[:] = np.divmod(outcomes, states + 1)
        met.used[0], met.evidence.counts[:, 0] = len(outcomes), counts
        for total, amount in ((met.evidence.sums, log.c), (met.evidence.squares, log.c**2), (met.discounts, log.gamma)):
            np.add.at(total, which, amount)
        np.add.at(met.evidence.starts, here[log.starts], 1)
        reached, first = np.unique(np.stack([here, after], axis=1).ravel(), return_index=True)
        met.evidence.found[reached] = 1 + (first + 1) // 2
        np.add.at(arrays.visits, (here, log.action), 1)
        arrays.t[0], self.arrays = len(log), arrays._replace(outcomes=met)

    def heed(self, at: TableArrays, begins: bool, probability: float | None) -> None:
        at.mu[0] = 1 / at.mu.shape[1] if probability is None else probability
        if self.run.counted:
            s, evidence = at.state[0], at.outcomes.evidence
            evidence.starts[s] += at.fresh[0]
            evidence.found[s] = evidence.found[s] or at.t[0] + 1
        at.fresh[0] = False

    def plan_on_log(self) -> None:
        plan_first(self)

    # --- room ----------------------------------------------------------------------------------------------------------

    def grow(self) -> TableArrays:
        spec = self.spec
        if not spec.fixed and spec.skeleton.states - self.met < 4 * spec.lanes + 4:
            self.arrays = self.resized(min(2 * spec.skeleton.states, MOST_STATES + 4 * spec.lanes + 5))
        outcomes = self.arrays.outcomes
        if len(outcomes.pair) and outcomes.used[0] > len(outcomes.pair) - spec.lanes:
            outcomes = grown(outcomes)
            self.arrays = self.arrays._replace(outcomes=outcomes)
        left = len(outcomes.pair) - spec.lanes - int(outcomes.used[0])
        self.room = int(self.arrays.t[0]) + max(left, 0) + 1 if len(outcomes.pair) else NEVER
        return self.arrays

    @property
    def met(self) -> int:
        """The number of states, or of those that were met if they are numbered."""
        return self.spec.skeleton.states if self.spec.fixed else len(self.spec.numbering.keys)

    def resized(self, states: int) -> TableArrays:
        """The agent with room for more states, and everything that it learned."""
        run, old, before = self.run, self.arrays, self.spec.skeleton.states
        self.source.spec = self.spec.sized(states)
        weights = self.asked.weights
        self.asked, self.tables = run.sized(self.spec)
        self.asked = self.asked._replace(weights=weights)
        new = self.new_agent()
        while len(new.outcomes.pair) < len(old.outcomes.pair):
            new = new._replace(outcomes=grown(new.outcomes))
        for (_, into), (_, array) in zip(tables(new), tables(old), strict=True):
            if into.flags.writeable:
                into[tuple(slice(n) for n in array.shape)] = array
        evidence = new.outcomes.evidence
        if run.counted:  # termination leads to the state after all others
            new.outcomes.following[new.outcomes.following == before] = states
            for array in (evidence.found, evidence.starts):
                array[states], array[before] = array[before], 0
        self.finite = FiniteTables(run.names, self.seed, new.behaviour)
        self.known_now = None
        return new

    # --- episodes of target policies -----------------------------------------------------------------------------------

    @property
    def at(self) -> TableArrays:
        return self.arrays

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[int, int]:
        agent, state = self.arrays, int(self.arrays.state[lane])
        agent.mu[lane] = self.policies[policy][state]
        agent.action[lane] = drawn_action(agent.mu[lane], rng)
        return state, int(agent.action[lane])

    def arrived(self, lane: int) -> int:
        return int(self.arrays.following[lane])

    def at_starts(self, observations: list[Any]) -> list[int]:
        states = []
        for observation in observations:
            if self.arrays.t[0] >= self.room:
                self.grow()
            states.append(self.spec.seen(observation))
        return states

    def break_off(self) -> None:
        self.run.compiled[2](self.arrays)

    @property
    def policies(self) -> list[np.ndarray]:
        """Every distinct target policy, [state, action]."""
        assert self.run.targets is not None
        if self.run.targets.tables is not None:
            return self.run.targets.tables
        first = [self.run.targets.member.tolist().index(p) for p in range(len(self.run.targets.distinct))]
        return [self.arrays.pi[: self.spec.skeleton.states, :, i] for i in first]

    def freeze(self) -> FrozenTable:
        return frozen_table(self.known, self.values(), self.policies)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def acting(self) -> Any:
        return self.arrays.behaviour

    @property
    def learning(self) -> Any:
        return self.arrays.learner

    def evidence(self) -> tuple[Empirical, np.ndarray]:
        asked = self.asked._replace(pi=self.arrays.pi)
        if self.run.counted:
            known = empirical(self.arrays.outcomes, self.spec.skeleton, asked, self.run.varying)
            return replace(known, closed=known.closed and not self.run.alone), self.arrays.visits
        return Empirical(self.tables, asked, no_evidence(self.tables, asked, kept=False)), self.arrays.visits

    def pause(self, stop: int) -> None:
        if self.numbers is not None:
            self.numbers.retarget()
        self.plan(stop)

    def check(self) -> None:
        self.check_finite()
        for asked in (self.reader, *self.run.steady, None if self.numbers is None else self.numbers.policies):
            if asked is not None:
                asked.again()

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, agent, known, n = self.run, self.arrays, self.known, self.met
        states = self.spec.skeleton.states
        certain = run.learner.needs_evidence and not run.learner.forgetting_rates and states < DENSE_BELOW
        own = self.own_errors()
        shown = {"standard_errors": EMPTY if own is None else own[:, :states]}
        if certain and own is None:  # curves have the errors that take less time
            shown = interval_errors(known) if tables else {"standard_errors": standard_errors(known)}
        measured = Measurement(expected=self._expected(shown["standard_errors"][..., :states], tables))
        if tables or run.calibrated:
            measured = measured.replaced(values=self.values()[:, :n], visits=agent.visits[:n].copy())
        if not tables:
            return [measured]
        mu = np.empty((self.tables.states, self.tables.actions))
        moving = dynamics(self.tables, self.asked._replace(pi=agent.pi))
        make_table(run.sizes, run.rule)(moving, run.behaviour.shown(agent.behaviour), agent.learner, int(agent.t[0]), mu)
        needs_variance = run.behaviour.needs_variance
        return [
            measured.replaced(
                variances=predicted_values(self.tables, known.asked, agent.learner.m)[:, :n] if needs_variance else EMPTY,
                behaviour=mu[:n],
                policies=run.improvement.policies(known, n),
                **{name: each[:, :n] if each.size else EMPTY for name, each in shown.items()},
            )
        ]

    def _expected(self, errors: np.ndarray, draws: bool) -> np.ndarray:
        """The expected squared error [gvf] where errors count, from the standard errors of states [gvf, state]."""
        run, known = self.run, self.known
        if run.where == EVERYWHERE or not (run.learner.needs_evidence or errors.size):
            return expected_error(errors, len(run.names))
        if run.where == START:
            own = self.start_table(draws=draws)[:, 1]
            return np.where(np.isfinite(own), own, np.nan) ** 2
        if not errors.size:
            return np.full(len(run.names), np.nan)
        return expected_over(errors, known.evaluation.weights[: errors.shape[1]])

    def outcome(self, k: int) -> dict[str, Any]:
        out = self.learned(bool(self.run.counted and self.known.evidence.starts.any()))
        return out if self.numbers is None else out | {"met": Met(self.numbers, tuple(self.spec.numbering.keys))}

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def fit_to(self, arrays: Mapping[str, np.ndarray]) -> None:
        if len(arrays["visits"]) != self.spec.skeleton.states and self.numbers is not None:
            self.arrays = self.resized(len(arrays["visits"]))
        while len(self.arrays.outcomes.pair) < len(arrays["outcomes.pair"]):
            self.arrays = self.arrays._replace(outcomes=grown(self.arrays.outcomes))
