"""Linear learning in any world: plans on cells, features chosen as data grow, answers when they are measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.counts import widened
from gvfx.evidence.decisions import Groups, Joint
from gvfx.evidence.transitions import CellModel, Transitions, cell_model
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.features.bases import Lattice
from gvfx.features.cells import Cells, find
from gvfx.kernel import BehaviourRule, Sizes, Transition, piece, whole
from gvfx.learners.half_samples import FREEDOM, Answers, Doubt, outside
from gvfx.learners.linear import Choice, LinearCertaintyEquivalence, left_out, unresolved
from gvfx.questions.gvf import GVF, Stacked, expand, question_names, stack
from gvfx.questions.policies import uniform_policy
from gvfx.questions.signals import Constant
from gvfx.questions.where import START, counted
from gvfx.rng import BEHAVIOUR, REPLAY, choose, seed_streams, uniform
from gvfx.running.checkpoint import fill, tables
from gvfx.running.drive import Agent, Backend
from gvfx.running.earlier import later
from gvfx.running.schema import EMPTY
from gvfx.worlds.mdp import MDP
from gvfx.worlds.spec import skeleton_mdp

# --- Linear learning: choosing actions by cells, and keeping transitions, in compiled functions ---------------------
# A row of a behaviour's tables is a cell of the observations (`gvfx.features.cells`); the target policies are those at the
# observation itself.  Transitions are kept up to a capacity; beyond, each new one replaces a random one with the probability
# that keeps the sample uniform (reservoir sampling).


FIRST = 4096  # transitions for which there is room at the start


class Kept(NamedTuple):
    """The transitions kept: the first `used[0]` entries of the [n] arrays, which have spare room; used[1] were seen."""

    observation: np.ndarray  # float32 [n, o]
    following: np.ndarray  # float32 [n, o]
    action: np.ndarray  # int32 [n]
    cumulant: np.ndarray  # [n, gvf]
    discount: np.ndarray  # [n, gvf]; 0 on termination
    episode: np.ndarray  # int64 [n]
    first: np.ndarray  # bool [n] an episode began with it
    terminated: np.ndarray  # bool [n] an episode ended with it
    pi: np.ndarray  # float32 [1 or n, action, policy] at `following`; one row if no policy depends on the observation
    used: np.ndarray  # int64 [2]


def no_transitions(size: int, gvfs: int, constant: np.ndarray | None, actions: int, policies: int, room: int) -> Kept:
    """Room for transitions; constant [action, policy]: policies that do not depend on the observation."""
    pi = np.zeros((room, actions, policies), np.float32) if constant is None else constant[None].astype(np.float32)
    return Kept(
        observation=np.zeros((room, size), np.float32),
        following=np.zeros((room, size), np.float32),
        action=np.zeros(room, np.int32),
        cumulant=np.zeros((room, gvfs)),
        discount=np.zeros((room, gvfs)),
        episode=np.zeros(room, np.int64),
        first=np.zeros(room, bool),
        terminated=np.zeros(room, bool),
        pi=pi,
        used=np.zeros(2, np.int64),
    )


def with_room(kept: Kept, room: int) -> Kept:
    """The same transitions with room for `room`."""

    def longer(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array, np.zeros((room - len(array), *array.shape[1:]), array.dtype)])

    columns = [name for name in Kept._fields if name != "used" and not (name == "pi" and len(kept.pi) == 1)]
    return kept._replace(**{name: longer(getattr(kept, name)) for name in columns})


def transitions(kept: Kept, member: np.ndarray) -> Transitions:
    """The transitions kept so far, as views; member [gvf] is each question's policy."""
    n = int(kept.used[0])
    return Transitions(
        observation=kept.observation[:n],
        action=kept.action[:n],
        following=kept.following[:n],
        cumulant=kept.cumulant[:n],
        discount=kept.discount[:n],
        episode=kept.episode[:n],
        first=kept.first[:n],
        terminated=kept.terminated[:n],
        pi=kept.pi if len(kept.pi) == 1 else kept.pi[:n],
        member=member,
    )


class LinearArrays(NamedTuple):
    """Everything that compiled functions read and write; [lane] is one of the environments stepped together."""

    behaviour: Any
    cells: Cells
    m: np.ndarray  # [row, action, gvf] variances, for behaviours that read them
    member: np.ndarray  # int64 [gvf]
    rng: np.ndarray
    t: np.ndarray  # int64 [2] steps done, episodes begun
    kept: Kept
    state: np.ndarray  # float32 [lane, o]
    following: np.ndarray  # float32 [lane, o]
    action: np.ndarray  # int64 [lane]
    mu: np.ndarray  # [action]
    given: np.ndarray  # [action, gvf] policies at an observation
    policies: np.ndarray  # float32 [lane, action, policy] at `state`
    policies_next: np.ndarray  # float32 [lane, action, policy] at `following`
    alive: np.ndarray  # [lane] 0 where the episode terminated
    ended: np.ndarray  # bool [lane] terminated or truncated
    counts: np.ndarray  # bool [lane] False: this was a reset, not a transition
    fresh: np.ndarray  # bool [lane] an episode begins here
    begins: np.ndarray  # bool [lane] the next transition is the first of its episode
    number: np.ndarray  # int64 [lane] of the episode
    c: np.ndarray  # [lane, gvf]
    gamma: np.ndarray  # [lane, gvf]


@cache
def make_choice(sizes: Sizes, behaviour: BehaviourRule) -> Callable[..., Any]:
    """decide(agent, lane): writes mu at the lane's observation, and returns an action drawn from it."""
    gvfs, actions = sizes
    probabilities = behaviour.probabilities

    @piece
    def decide(agent, k):
        row = find(agent.cells, agent.state[k])
        for a in range(actions):
            for i in range(gvfs):
                agent.given[a, i] = agent.policies[k, a, agent.member[i]]
        probabilities(agent.behaviour, agent.t[0], row, row, agent.given, agent.m[row], agent.mu)
        return choose(agent.mu, actions, uniform(agent.rng, BEHAVIOUR))

    return decide


@cache
def make_watch(sizes: Sizes, behaviour: BehaviourRule, counts_cells: bool) -> Callable[..., None]:
    """watch(agent, lane): the behaviour observes the lane's transition between cells, if it counts them."""
    observe = behaviour.observe

    @piece
    def watch(agent, k):
        if counts_cells:
            row = find(agent.cells, agent.state[k])
            arrived = find(agent.cells, agent.following[k])
            tr = Transition(row, row, agent.action[k], 1.0, arrived, arrived, -1, 1.0, k, agent.alive[k])
            observe(agent.behaviour, agent.t[0], tr, agent.c[k], agent.gamma, agent.given)

    return watch


@piece
def keep(agent, k):
    """Keep the lane's transition."""
    kept = agent.kept
    n = kept.used[0]
    kept.used[1] += 1
    if n < kept.action.shape[0]:
        kept.used[0] = n + 1
    else:
        n = int(uniform(agent.rng, REPLAY) * kept.used[1])
        if n >= kept.action.shape[0]:
            return
    for i in range(agent.state.shape[1]):
        kept.observation[n, i] = agent.state[k, i]
        kept.following[n, i] = agent.following[k, i]
    kept.action[n] = agent.action[k]
    for i in range(agent.c.shape[1]):
        kept.cumulant[n, i] = agent.c[k, i]
        kept.discount[n, i] = agent.gamma[k, i] * agent.alive[k]
    kept.episode[n] = agent.number[k]
    kept.first[n] = agent.begins[k]
    kept.terminated[n] = agent.alive[k] == 0.0
    if kept.pi.shape[0] > 1:
        for a in range(kept.pi.shape[1]):
            for p in range(kept.pi.shape[2]):
                kept.pi[n, a, p] = agent.policies_next[k, a, p]


@cache
def make_lanes(sizes: Sizes, behaviour: BehaviourRule, counts_cells: bool) -> tuple[Callable[..., None], ...]:
    """act(agent) chooses an action in every lane; learn(agent) keeps every lane's transition; show(agent, observations,
    policies, mu) writes the behaviour's probabilities [point, action] at observations; end(agent) ends all episodes."""
    decide, episode_end = make_choice(sizes, behaviour), behaviour.episode_end
    watch = make_watch(sizes, behaviour, counts_cells)
    actions = sizes.actions

    @whole
    def act(agent):
        for k in range(agent.state.shape[0]):
            if agent.fresh[k]:
                agent.number[k] = agent.t[1]
                agent.t[1] += 1
                agent.begins[k] = True
                agent.fresh[k] = False
            agent.action[k] = decide(agent, k)

    @whole
    def learn(agent):
        for k in range(agent.state.shape[0]):
            if not agent.counts[k]:
                continue
            keep(agent, k)
            watch(agent, k)
            agent.begins[k] = False
            agent.t[0] += 1
            if agent.ended[k]:
                episode_end(agent.behaviour, agent.t[0], agent.rng)

    @whole
    def show(agent, observations, policies, mu):
        for n in range(observations.shape[0]):
            for i in range(observations.shape[1]):
                agent.state[0, i] = observations[n, i]
            for a in range(actions):
                for p in range(agent.policies.shape[2]):
                    agent.policies[0, a, p] = policies[n, a, p]
            decide(agent, 0)
            for a in range(actions):
                mu[n, a] = agent.mu[a]

    @whole
    def end(agent):
        for _ in range(agent.state.shape[0]):
            episode_end(agent.behaviour, agent.t[0], agent.rng)

    return act, learn, show, end


LATTICE_CELLS = 400  # cells with one or two inputs
CENTRE_CELLS = 150  # cells with more inputs
INITIAL_M = 5.0  # the variance M of pairs without data
AGAIN, FRESH = 2.0, 1.05  # growth of the data from which features are chosen again: for plans and checks, for results
SIGNS = (0.2, 0.5)  # gains from resolution at which a behaviour begins to follow the targets, and does nothing else


class LinearRuns(Backend):
    """What the seeds share: the questions over cells, and compiled functions."""

    learner: LinearCertaintyEquivalence

    def prepare(self, size: int, actions: int, horizon: int | None) -> None:
        """size: numbers in an observation; horizon: steps after which episodes are truncated."""
        behaviour, learner, plan = self.behaviour, self.learner, self.plan
        self.planner, self.size, self.horizon = behaviour.on_cells(), size, horizon
        asked = expand(self.questions)
        self.names = question_names(asked)
        self.weights = np.array([q.weight for q in asked], dtype=float)
        self.varying = any(callable(q.discount) for q in asked)
        self.rows = LATTICE_CELLS if size <= 2 else CENTRE_CELLS
        self.pairs = self.rows * actions
        skeleton = skeleton_mdp(self.rows, actions, horizon)
        self.asked = without_states(asked, self.names, skeleton, self.calibrated)
        self.replans = later(lambda steps: self.planner.stops(steps, skeleton), self.logged, plan.steps)
        self.looks = later(learner.stops, self.logged, plan.steps)
        self.sizes = Sizes(len(self.names), actions)
        self.rule = self.planner.rule(self.sizes)
        self.compiled = make_lanes(self.sizes, self.rule, behaviour.counts_cells)


def without_states(questions: Sequence[GVF], names: Sequence[str], world: MDP, calibrated: bool = False) -> Stacked:
    """Questions over the rows of a table that stands for observations: policies, cumulants and varying discounts come from
    transitions."""
    parts: dict[str, Any] = {"policy": uniform_policy(), "cumulant": Constant(0.0)}
    discounts = [1.0 if callable(q.discount) else q.discount for q in questions]
    each = [replace(q, **parts, discount=g, name=name) for q, g, name in zip(questions, discounts, names, strict=True)]
    return stack(each, world, "calibrated" if calibrated else None)


class LinearAgent(Agent):
    """One seed: the agent's arrays, and the features chosen so far."""

    run: LinearRuns
    arrays: LinearArrays
    t: int

    def open(
        self,
        run: LinearRuns,
        seed: int,
        pi: np.ndarray,
        member: np.ndarray,
        constant: bool,
        c: np.ndarray,
        gamma: np.ndarray,
    ) -> None:
        """The agent before the first step, when all observations are one cell.

        pi [lane, action, policy]: the distinct policies, at all observations if they are constant; member [gvf]: each
        question's; c, gamma [lane, gvf]: the arrays of signals.
        """
        self.run, self.seed = run, seed
        self.stops, self.plans, self.weights = run.replans | run.looks, run.replans, run.asked.weights
        self.choice: Choice | None = None  # the features of the last plan
        self.chosen_at = 0  # transitions seen when they were chosen
        self.here: np.ndarray | None = None  # [n, action, policy] of a log that is all there is: policies at its observations
        self._answers: tuple[int, bool, Answers, Choice] | None = None
        self.known_now: tuple[int, CellModel] | None = None
        (lanes, actions, policies), gvfs = pi.shape, len(run.names)
        self.arrays = LinearArrays(
            behaviour=run.planner.begin(widened(run.asked), skeleton_mdp(run.rows + 1, actions, run.horizon)),
            cells=Cells.of(np.zeros((1, run.size), np.float32), 1),
            m=np.full((run.rows + 1, actions, gvfs), INITIAL_M),
            member=member,
            rng=seed_streams(seed),
            t=np.zeros(2, np.int64),
            kept=no_transitions(run.size, gvfs, pi[0] if constant else None, actions, policies, min(FIRST, run.learner.capacity)),
            state=np.zeros((lanes, run.size), np.float32),
            following=np.zeros((lanes, run.size), np.float32),
            action=np.zeros(lanes, np.int64),
            mu=np.zeros(actions),
            given=np.zeros((actions, gvfs)),
            policies=pi.astype(np.float32),
            policies_next=pi.astype(np.float32),
            alive=np.ones(lanes),
            ended=np.zeros(lanes, bool),
            counts=np.ones(lanes, bool),
            fresh=np.zeros(lanes, bool),
            begins=np.zeros(lanes, bool),
            number=np.zeros(lanes, np.int64),
            c=c,
            gamma=gamma,
        )

    def make_room(self, steps: int) -> None:
        """Room for further transitions, up to the learner's capacity."""
        kept, most = self.arrays.kept, self.run.learner.capacity
        needed = min(int(kept.used[0]) + steps, most)
        if needed > len(kept.action):
            self.arrays = self.arrays._replace(kept=with_room(kept, min(max(needed, 2 * len(kept.action)), most)))

    @property
    def data(self) -> Transitions:
        return transitions(self.arrays.kept, self.arrays.member)

    # --- plans -------------------------------------------------------------------------------------------------------

    @property
    def known(self) -> CellModel:
        if self.known_now is None or self.known_now[0] != self.t:
            self.known_now = (self.t, self._model(self._cells(), None, 0.0))
        return self.known_now[1]

    def _cells(self) -> Cells:
        return Cells.of(self.data.observation, self.run.rows)

    def _model(self, cells: Cells, errors: np.ndarray | None, share: float) -> CellModel:
        run = self.run
        asked = run.asked._replace(where=run.where, weights=self.weights)
        if run.where.kind == "observations":
            asked = asked._replace(where=counted(cells(self.asked_at)))
        return cell_model(self.data, cells, asked, run.rows, run.horizon, run.varying, errors, share)

    def _chosen(self, growth: float) -> Choice:
        """The features of the last plan, or others if the data have grown by so much since."""
        if self.choice is not None and self.arrays.kept.used[1] < growth * self.chosen_at:
            return self.choice
        return self.run.learner.choose(self.data, self.seed)

    def pause(self, stop: int) -> None:
        run = self.run
        if not (stop in run.replans or (stop in run.looks and run.planner.needs_variance)):
            return
        cells, errors, share = self._cells(), None, 0.0
        if stop in run.replans:
            choice = self._chosen(AGAIN)
            if choice is not self.choice:
                self.choice, self.chosen_at = choice, int(self.arrays.kept.used[1])
            errors = run.learner.fit(self.data, choice, halved=True).errors(self.data)
            share = following(choice)
        model = self._model(cells, errors, share)
        self.arrays = self.arrays._replace(cells=cells)
        if run.planner.needs_variance:
            run.planner.rescale(self.arrays.behaviour, model)
            own = np.where(model.tried[:, :, None], model.variance(), INITIAL_M)
            self.arrays.m[:] = own
        if stop in run.replans:
            run.planner.refresh(self.arrays.behaviour, model)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answers(self, fresh: bool, intervals: bool) -> tuple[Answers, Choice]:
        """The answers now, and the features behind them; unless `fresh`, features chosen for a plan may be older."""
        kept = self._answers
        if kept is not None and kept[0] == self.t and kept[1] >= intervals:
            return kept[2], kept[3]
        choice = self._chosen(FRESH if fresh else AGAIN)
        found = self.fitted(choice, intervals)
        if self.here is not None:
            found = replace(found, doubt=Doubt.of(self.data, self.here, found.fit.within.width))
        self._answers = (self.t, intervals, found, choice)
        return found, choice

    def fitted(self, choice: Choice, intervals: bool) -> Answers:
        """The answers in chosen features."""
        return self.run.learner.answers(self.run.learner.rows(self.data, choice, self.seed), intervals)

    @property
    def asked_at(self) -> np.ndarray:
        """The observations at which errors count, if they were given, as the learner sees them [point, o]."""
        return self.run.asked_at

    @abstractmethod
    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        """The points [point, o] at which errors are estimated now, and the policies there [1 or point, action, gvf]."""

    def bounded_at(self) -> tuple[np.ndarray, np.ndarray]:
        """As `at_points`, the points over which a stopping rule bounds the error."""
        return self.at_points()

    @abstractmethod
    def start_answers(self, found: Answers) -> np.ndarray:
        """The value at the start and its standard error, [gvf, 2]."""

    @abstractmethod
    def start_joint(self, found: Answers) -> Joint:
        """The values at the start with the errors of their differences."""

    def joint(self, groups: Groups) -> Joint:
        return self.start_joint(self.answers(False, True)[0])

    def weigh(self, weights: np.ndarray) -> None:
        self.weights, self.known_now = weights, None

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """As `ErrorBelow.bound`, from the half-samples at the points, or of the value at the start."""
        if self.run.where == START:
            value, error = self.start_answers(self.answers(False, True)[0]).T[:, :, None]
            return until.from_errors(value, error, self.run.weights, FREEDOM, looks)
        (points, pi), found = self.bounded_at(), self.answers(False, True)[0]
        values, errors = found.values(points, pi)
        return until.from_errors(values, errors, self.run.weights, found.freedom(points, pi), looks)

    def probabilities(self, points: np.ndarray, policies: np.ndarray) -> np.ndarray:
        """The behaviour's probabilities [point, action]; policies [point, action, policy]."""
        mu = np.empty((len(points), self.run.sizes.actions))
        agent = self.arrays._replace(behaviour=self.run.planner.shown(self.arrays.behaviour))
        before = [array.copy() for array in (agent.rng, agent.state, agent.policies)]
        self.run.compiled[2](agent, points.astype(np.float32), np.ascontiguousarray(policies, np.float32), mu)
        for array, old in zip((agent.rng, agent.state, agent.policies), before, strict=True):
            array[...] = old
        return mu

    def resolution(self) -> dict[str, Any]:
        """What the features do not resolve or read, in words."""
        found, choice = self.answers(True, True)
        notes: dict[str, Any] = {"not_resolved": unresolved(self.data, choice, self.run.names)}
        return notes | {"inputs": left_out(choice, self.run.size), "starts": outside(found, self.data)}

    def found(self) -> dict[str, Any]:
        """The fields of the seed's part about what was learned."""
        found = self.answers(True, True)[0]
        return {"function": found, "differences": self.start_joint(found).known if found.halves else EMPTY}

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def learned(self) -> dict[str, np.ndarray]:
        """Everything that acts and learns, as named arrays."""
        arrays = dict(tables(self.arrays)) | {"cells.side": np.array(self.arrays.cells.side)}
        if self.choice is not None:
            arrays |= {f"choice.{name}": array for name, array in self.choice.arrays().items()}
            arrays["chosen_at"] = np.array(self.chosen_at)
        return arrays

    def learn_again(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `learned` returned."""
        kept = len(arrays["kept.action"])
        if kept > len(self.arrays.kept.action):
            self.arrays = self.arrays._replace(kept=with_room(self.arrays.kept, kept))
        self.arrays = self.arrays._replace(cells=Cells.from_arrays(arrays, "cells."))
        fill(self.arrays, arrays)
        chosen = {name[7:]: array for name, array in arrays.items() if name.startswith("choice.")}
        self.choice = Choice.from_arrays(chosen) if chosen else None
        self.chosen_at = int(arrays.get("chosen_at", 0))


def following(choice: Choice) -> float:
    """The share of actions that follow the target policies: all of them where resolution and not chance limits the answers.

    It is judged by how much the full resolution predicts better than half of it.  Where chance is all that is left there is no
    gain, and the design's prediction of the error holds.  So it does on lattices, which get finer as the data grow.
    """
    if isinstance(choice.basis.features, Lattice):
        return 0.0
    coarse = choice.halved.mean()
    gain = 1 - choice.score.mean() / coarse if coarse > 0 else 0.0
    return float(np.clip((gain - SIGNS[0]) / (SIGNS[1] - SIGNS[0]), 0.0, 1.0))
