"""Linear learning: plans on cells, features chosen as data grow, answers when they are measured.

It steps any Gymnasium environment with Discrete actions from Python, with compiled functions; worlds that are compiled as a whole
use the same agent (`LinearAgent`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import widened
from gvfx.evidence.decisions import Groups, Joint
from gvfx.evidence.transitions import CellModel, Transitions, cell_model
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.features.bases import Lattice
from gvfx.features.cells import Cells
from gvfx.features.scaling import Origin, Scaling
from gvfx.kernel import Sizes
from gvfx.learners.half_samples import FREEDOM, Answers, Doubt, outside, start_answers, start_joint, start_means
from gvfx.learners.least_squares import BLOCKS, Rows
from gvfx.learners.linear import Choice, LinearCertaintyEquivalence, left_out, unresolved
from gvfx.questions.gvf import GVF, Stacked, expand, question_names
from gvfx.questions.reader import Reader
from gvfx.questions.where import EVERYWHERE, START, Where, WhereLike, counted
from gvfx.rng import seed_streams
from gvfx.running.drive import Agent, Backend
from gvfx.running.earlier import Earlier, later, learn_from_log
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import Frozen, FunctionPredictor
from gvfx.running.schema import EMPTY, Measurement, Part, expected_error
from gvfx.running.start_evidence import FEW_GROUPS, REFUSED, StartEvidence, audited, corrected, dealt, grouped, start_evidence
from gvfx.running.stepping import SingleStepper, VectorStepper
from gvfx.running.streams.gym_stream import NEVER, AtVectors, GymRun, PoliciesAt, choose_numbered
from gvfx.running.streams.linear_loop import Kept, LinearArrays, make_lanes
from gvfx.running.streams.table_gym import bound
from gvfx.running.whole_episodes import WholeEpisodes
from gvfx.worlds.mdp import Unseen
from gvfx.worlds.spec import BoxSpec, time_limit

FIRST = 4096  # transitions for which there is room at the start


def no_transitions(size: int, gvfs: int, pi: np.ndarray, constant: bool, room: int) -> Kept:
    """Room for transitions; pi [action, policy], which do not depend on the observation if they are constant."""
    observation, following = np.zeros((2, room, size), np.float32)
    cumulant, discount = np.zeros((2, room, gvfs))
    first, terminated = np.zeros((2, room), bool)
    rows = pi[None].astype(np.float32) if constant else np.zeros((room, *pi.shape), np.float32)
    action, episode, used = np.zeros(room, np.int32), np.zeros(room, np.int64), np.zeros(2, np.int64)
    return Kept(observation, following, action, cumulant, discount, episode, first, terminated, rows, used)


def columns(kept: Kept) -> list[str]:
    """The names of the arrays with a row for every transition."""
    return [name for name in Kept._fields if name != "used" and not (name == "pi" and len(kept.pi) == 1)]


def with_room(kept: Kept, room: int) -> Kept:
    """The same transitions with room for `room`."""

    def longer(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array, np.zeros((room - len(array), *array.shape[1:]), array.dtype)])

    return kept._replace(**{name: longer(getattr(kept, name)) for name in columns(kept)})


def transitions(kept: Kept, member: np.ndarray) -> Transitions:
    """The transitions kept so far, as views; member [gvf] is each question's policy."""
    own: dict[str, Any] = kept._asdict()
    own |= {name: own[name][: int(kept.used[0])] for name in columns(kept)}
    return Transitions(member=member, **{name: array for name, array in own.items() if name != "used"})


# --- What the seeds share, and one seed, in any world ---------------------------------------------------------------


LATTICE_CELLS = 400  # cells with one or two inputs
CENTRE_CELLS = 150  # cells with more inputs
INITIAL_M = 5.0  # the variance M of pairs without data
AGAIN, FRESH = 2.0, 1.05  # growth of the data from which features are chosen again: for plans and checks, for results
SIGNS = (0.2, 0.5)  # gains from resolution at which a behaviour begins to follow the targets, and does nothing else
GROWN = 1.5  # by which the data have grown when the expected error between snapshots is estimated again


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
        cells = Unseen(self.rows, actions, horizon)
        self.asked = Stacked.of_transitions(asked, self.rows, actions, self.calibrated)
        self.replans = later(lambda steps: self.planner.stops(steps, cells), self.logged, plan.steps)
        self.looks = later(learner.stops, self.logged, plan.steps)
        self.sizes = Sizes(len(self.names), actions)
        self.rule = self.planner.rule(self.sizes)
        self.compiled = make_lanes(self.sizes, self.rule, behaviour.counts_cells)


class LinearAgent(Agent):
    """One seed: the agent's arrays, and the features chosen so far."""

    run: LinearRuns
    arrays: LinearArrays
    origin = Origin()  # what is subtracted from observations
    whole: WholeEpisodes | None = None  # those of target policies
    evidence: StartEvidence | None = None  # of the values at the start, beside the answers last found
    choice: Choice | None = None  # the features of the last plan
    chosen_at = 0  # transitions seen when they were chosen
    here: np.ndarray | None = None  # [n, action, policy] of a log that is all there is: policies at its observations
    known_now: tuple[int, CellModel] | None = None
    found_now: tuple[int, bool, Answers, Choice] | None = None
    t: int

    def open(
        self, run: LinearRuns, seed: int, pi: np.ndarray, member: np.ndarray, constant: bool, c: np.ndarray, gamma: np.ndarray
    ) -> None:
        """The agent before the first step, when all observations are one cell.

        pi [lane, action, policy]: the distinct policies, at all observations if they are constant; member [gvf]: each
        question's; c, gamma [lane, gvf]: the arrays of signals.
        """
        self.run, self.seed = run, seed
        self.stops, self.plans, self.weights = run.replans | run.looks, run.replans, run.asked.weights
        (lanes, actions, _), gvfs = pi.shape, len(run.names)
        self.arrays = LinearArrays(
            behaviour=run.planner.begin(widened(run.asked), Unseen(run.rows + 1, actions, run.horizon)),
            cells=Cells.of(np.zeros((1, run.size), np.float32), 1),
            m=np.full((run.rows + 1, actions, gvfs), INITIAL_M),
            member=member,
            rng=seed_streams(seed),
            t=np.zeros(2, np.int64),
            kept=no_transitions(run.size, gvfs, pi[0], constant, min(FIRST, run.learner.capacity)),
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
            self.arrays.m[:] = np.where(model.tried[:, :, None], model.variance(), INITIAL_M)
        if stop in run.replans:
            run.planner.refresh(self.arrays.behaviour, model)

    def weigh(self, weights: np.ndarray) -> None:
        self.weights, self.known_now = weights, None

    # --- answers -----------------------------------------------------------------------------------------------------

    def answers(self, fresh: bool, intervals: bool) -> tuple[Answers, Choice]:
        """The answers now, and the features behind them; unless `fresh`, features chosen for a plan may be older."""
        kept = self.found_now
        if kept is not None and kept[0] == self.t and kept[1] >= intervals:
            return kept[2], kept[3]
        choice = self._chosen(FRESH if fresh else AGAIN)
        found = self._fitted(choice, intervals)
        if self.here is not None:
            found = replace(found, doubt=Doubt.of(self.data, self.here, found.fit.within.width))
        self.found_now = (self.t, intervals, found, choice)
        return found, choice

    def _fitted(self, choice: Choice, intervals: bool) -> Answers:
        """The answers in chosen features, and the evidence of whole episodes if there are enough of them."""
        self.evidence, whole, learner, data = None, self.whole, self.run.learner, self.data
        if whole is None or not (intervals and learner.intervals) or self.arrays.kept.used[1] > learner.capacity:
            return learner.answers(learner.rows(data, choice, self.seed), intervals)
        followed = whole.followed()
        group = grouped(data, followed)
        many = group.max() + 1 >= FEW_GROUPS
        rows = learner.rows(replace(data, episode=group) if many else data, choice, self.seed)
        found = learner.answers(rows)
        if not group.max():
            return found
        rows = rows if many else Rows.of(data, choice.basis, dealt(group), BLOCKS)
        further = whole.further.reshape(-1, data.observation.shape[1])
        model = start_joint(*start_means(found, data, self.policies_at, further))
        self.evidence = start_evidence(model, found, data, followed, learner.crossfit(rows), self.policies_at, further)
        return found if self.evidence is None else corrected(found, self.evidence)

    @property
    def asked_at(self) -> np.ndarray:
        """The observations at which errors count, if they were given, as the learner sees them [point, o]."""
        return self.origin.relative(self.run.asked_at)

    @abstractmethod
    def policies_at(self, points: np.ndarray) -> np.ndarray:
        """Each question's policy at relative vectors [point, o], [1 or point, action, gvf]."""

    @abstractmethod
    def points_at(self, bounded: bool) -> np.ndarray:
        """The points [point, o] at which errors are estimated now; bounded: over which a stopping rule bounds the error."""

    @abstractmethod
    def start_means(self, found: Answers) -> tuple[np.ndarray, np.ndarray]:
        """The values at the start and the squared errors of their differences (`gvfx.learners.half_samples.start_means`)."""

    def start_answers(self, found: Answers) -> np.ndarray:
        """The value at the start and its standard error, [gvf, 2]."""
        if self.evidence is None:
            return start_answers(*self.start_means(found))
        joint = self.evidence.joint
        return np.column_stack([joint.values, joint.known.diagonal()])

    def start_joint(self, found: Answers) -> Joint:
        """The values at the start with the errors of their differences."""
        return start_joint(*self.start_means(found)) if self.evidence is None else self.evidence.joint

    def joint(self, groups: Groups) -> Joint:
        return self.start_joint(self.answers(False, True)[0])

    def bound(self, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """As `ErrorBelow.bound`, from the half-samples at the points, or of the value at the start."""
        found = self.answers(False, True)[0]
        if self.run.where == START:
            value, error = self.start_answers(found).T[:, :, None]
            return until.from_errors(value, error, self.run.weights, FREEDOM, looks)
        points = self.points_at(True)
        pi = self.policies_at(points)
        return until.from_errors(*found.values(points, pi), self.run.weights, found.freedom(points, pi), looks)

    def probabilities(self, points: np.ndarray, policies: np.ndarray) -> np.ndarray:
        """The behaviour's probabilities [point, action]; policies [point, action, policy]."""
        mu = np.empty((len(points), self.run.sizes.actions))
        agent = self.arrays._replace(behaviour=self.run.planner.shown(self.arrays.behaviour))
        before = [array.copy() for array in (agent.rng, agent.state, agent.policies)]
        self.run.compiled[2](agent, points.astype(np.float32), np.ascontiguousarray(policies, np.float32), mu)
        for array, old in zip((agent.rng, agent.state, agent.policies), before, strict=True):
            array[...] = old
        return mu

    def found(self, truth: np.ndarray) -> dict[str, Any]:
        """The values at the start, of the seed's part; truth [gvf] there."""
        found = self.answers(True, True)[0]
        start = np.column_stack([self.start_answers(found), truth])
        return {"start": start, "differences": self.start_joint(found).known if found.halves else EMPTY}

    # --- checkpoints -------------------------------------------------------------------------------------------------

    kept: ClassVar = {"arrays": "", "chosen": ""}

    @property
    def chosen(self) -> Mapping[str, np.ndarray]:
        """The features of the last plan as named arrays, and what else of it is not an array."""
        out: dict[str, np.ndarray] = {"cells.side": np.array(self.arrays.cells.side)}
        if self.choice is not None:
            out |= {f"choice.{name}": array for name, array in self.choice.arrays().items()}
            out["chosen_at"] = np.array(self.chosen_at)
        return out

    @chosen.setter
    def chosen(self, arrays: Mapping[str, np.ndarray]) -> None:
        own = {name[7:]: array for name, array in arrays.items() if name.startswith("choice.")}
        self.choice, self.chosen_at = Choice.from_arrays(own) if own else None, int(arrays.get("chosen_at", 0))

    def fit_to(self, arrays: Mapping[str, np.ndarray]) -> None:
        if len(arrays["kept.action"]) > len(self.arrays.kept.action):
            self.arrays = self.arrays._replace(kept=with_room(self.arrays.kept, len(arrays["kept.action"])))
        self.arrays = self.arrays._replace(cells=Cells.from_arrays(arrays, "cells."))


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


# --- In an environment stepped from Python --------------------------------------------------------------------------


class LinearGym(GymRun, LinearRuns):
    """What the seeds share: the environment, the questions and the compiled functions."""

    look_growth = 1.5  # a check takes several fits
    frozen = False  # whole episodes are scored by cross-fitting

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0) -> None:
        super().__init__(spec, questions, method, options, share)
        self.where, self.asked_at = observations_where(options.where, spec)
        Reader(questions)  # refuses signals that cannot be read here
        self.policies = PoliciesAt(questions, spec)
        self.targets = self.policies.targets
        self.prepare(spec.size, spec.actions, time_limit(spec.env))
        self.points_pi = np.empty(0)  # [point, action, policy]
        if share and not self.audit:
            rest = "" if share == 1 else f"; for half of the steps {self.behaviour!r}"
            self.acts = f"the target policies in whole episodes{rest}"

    def actor(self, seed: int, source: SingleStepper | VectorStepper) -> SteppedLinear:
        return SteppedLinear(self, seed, source)

    def predictor(self, parts: list[Part]) -> FunctionPredictor:
        return FunctionPredictor(tuple(part.function for part in parts), self.points, self.spec, self.targets)

    def note_targets(self, observations: list[Any]) -> None:
        self.points_pi = self.policies(observations)


class SteppedLinear(LinearAgent, AtVectors):
    """One seed."""

    run: LinearGym
    room = 0
    kept: ClassVar = {**LinearAgent.kept, ("source.episode", "source.episode"): "episodes", "reader.noise": "noise"}

    def __init__(self, run: LinearGym, seed: int, source: SingleStepper | VectorStepper) -> None:
        AtVectors.__init__(self, run, seed, source)
        spec, constant, member = self.spec, run.policies.constant, run.targets.member.astype(np.int64)
        self.origin = spec.origin
        pi = np.zeros((spec.lanes, spec.actions, len(run.targets.distinct))) if constant is None else constant
        self.open(run, seed, pi, member, constant is not None, *self.reader.begin(spec.lanes))
        self.choose, self.keep, self.end = (bound(run.compiled[k], self.arrays) for k in (0, 1, 3))
        moving = constant is None
        self.act, self.learn = (self.act_by_observation, self.learn_by_observation) if moving else (self.choose, self.keep)
        self._expected: tuple[int, np.ndarray] | None = None

    def take_log(self, log: Earlier) -> None:
        if len(log) >= self.run.learner.capacity:
            learn_from_log(self, log)  # of which a random part is kept
            return
        self.origin.restore(log.origin)
        self.make_room(len(log))
        kept, n = self.arrays.kept, len(log)
        episode = np.cumsum(log.begins) - 1
        columns = {"observation": log.columns[0], "following": log.columns[1], "action": log.action, "cumulant": log.c}
        columns |= {"discount": log.gamma, "episode": episode, "first": log.starts, "terminated": log.terminated}
        for name, column in columns.items():
            getattr(kept, name)[:n] = column
        if len(kept.pi) > 1:
            kept.pi[:n] = self.distinct_at(log.columns[1])
        kept.used[:] = n
        self.arrays.t[1] = episode[-1] + 1
        self.here = self.distinct_at(log.columns[0]) if self.run.alone else None

    def heed(self, at: LinearArrays, begins: bool, probability: float | None) -> None:
        at.t[1] += begins
        at.number[0] = at.t[1] - 1
        at.begins[0], at.fresh[0] = at.fresh[0], False

    def plan_on_log(self) -> None:
        if self.data.first.any():
            self.pause(0)

    def grow(self) -> LinearArrays:
        lanes = self.spec.lanes
        self.make_room(lanes)
        size, used = len(self.arrays.kept.action), int(self.arrays.kept.used[0])
        self.room = NEVER if size == self.run.learner.capacity else int(self.arrays.t[0]) + size - used - lanes + 1
        return self.arrays

    def act_by_observation(self, at: LinearArrays) -> None:
        """Choose actions, with the target policies at the lanes' observations."""
        if np.count_nonzero(at.fresh):
            at.policies[:] = self.run.policies(self.source.seen_now)
        self.choose(at)

    def learn_by_observation(self, at: LinearArrays) -> None:
        """Keep the transitions, with the target policies at the observations after them."""
        at.policies_next[:] = self.run.policies(self.source.seen_next)
        self.keep(at)
        at.policies[:] = at.policies_next

    @property
    def at(self) -> LinearArrays:
        return self.arrays

    @property
    def notes(self) -> np.ndarray:
        return self.arrays.policies

    def choose_as(self, lane: int, policy: int, rng: np.random.Generator) -> int:
        return choose_numbered(self, lane, policy, rng)

    def break_off(self) -> None:
        self.end(self.arrays)

    def freeze(self) -> Frozen:
        raise NotImplementedError  # scores are by cross-fitting

    # --- measuring ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.run.targets.again()
        self.reader.again()

    def distinct_at(self, points: np.ndarray) -> np.ndarray:
        """The distinct target policies at relative vectors [point, o], [point, action, policy]."""
        return self.run.policies([self.spec.whole(point) for point in self.origin.absolute(points)])

    def policies_at(self, points: np.ndarray) -> np.ndarray:
        return self.distinct_at(points)[:, :, self.run.targets.member]

    def points_at(self, bounded: bool) -> np.ndarray:
        return self.asked_at if bounded and len(self.run.asked_at) else self.points_of(self.data.observation)

    def start_means(self, found: Answers) -> tuple[np.ndarray, np.ndarray]:
        return start_means(found, self.data, self.policies_at)

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, seen = self.run, self.data
        if not (tables or run.calibrated):  # whose weights need values
            if self._expected is None or self.t > GROWN * self._expected[0]:
                self._expected = (self.t, self._expected_now(self.answers(False, True)[0]))
            return [Measurement(expected=self._expected[1])]
        points = self.shown_points(seen.observation)
        found = self.answers(True, True)[0]
        values, errors = found.values(points, run.points_pi[:, :, run.targets.member])
        visits = np.zeros((len(points), run.sizes.actions), np.int64)  # each counted at its nearest point
        np.add.at(visits, (nearest(seen.observation, points), seen.action), 1)
        return [
            Measurement(
                expected=_expected(errors, len(run.names)) if run.where == EVERYWHERE else self._expected_now(found),
                values=values,
                variances=EMPTY,
                visits=visits,
                behaviour=self.probabilities(points, run.points_pi),
                standard_errors=errors,
            )
        ]

    def _expected_now(self, found: Answers) -> np.ndarray:
        """The expected squared errors where errors count, [gvf]."""
        if self.run.where == START:
            own = self.start_answers(found)[:, 1]
            return np.where(np.isfinite(own), own, np.nan) ** 2
        points = self.points_at(True)
        return _expected(found.values(points, self.policies_at(points))[1], len(self.run.names))

    def resolution(self) -> dict[str, Any]:
        """What the features do not resolve or read, in words."""
        found, choice = self.answers(True, True)
        notes: dict[str, Any] = {"not_resolved": unresolved(self.data, choice, self.run.names)}
        return notes | {"inputs": left_out(choice, self.run.size), "starts": outside(found, self.data)}

    def outcome(self, k: int) -> dict[str, Any]:
        run, notes = self.run, self.resolution()
        notes["not_resolved"] = run.notes.get("not_resolved", {}) | notes["not_resolved"]  # with those of other seeds
        if self.evidence is not None and self.evidence.refused:
            notes["observation"] = REFUSED
        own: dict[str, Any] = {"function": replace(self.answers(True, True)[0], origin=self.origin.at)}
        own |= self.found(np.full(len(run.names), np.nan))
        if run.audit:
            own |= audited(self.evidence, run.audit_ranges, self.reader.discounts)
            notes["blended"] = self.evidence is not None
        run.notes |= {name: note for name, note in notes.items() if note}
        if self.arrays.kept.used[1] > run.learner.capacity:
            run.notes["kept"] = f"a random {run.learner.capacity:,} of {int(self.arrays.kept.used[1]):,} transitions"
        return own


def observations_where(where: WhereLike, spec: BoxSpec) -> tuple[Where, np.ndarray]:
    """Where errors count with continuous observations, and the observations that were given as absolute vectors [point, o]."""
    none = np.empty((0, spec.size), np.float32)
    if where is None:
        return EVERYWHERE, none
    if isinstance(where, str):
        if where != "start":
            raise InputError(f"where: {where!r:.40} is unknown; give 'start', or a list of observations.")
        return START, none
    if not isinstance(where, Sequence | np.ndarray | Mapping):
        raise InputError(f"where: {where!r:.40} is not an observation; give 'start', or a list of observations.")
    try:
        points = spec.batch(where)[1]
    except InputError as error:
        reason = str(error).removeprefix("observation: ").rstrip(".")
        raise InputError(f"where: {reason}; give 'start', or a list of observations.") from None
    if not len(points):
        raise InputError("where: the list is empty; give 'start', or at least one observation.")
    return Where("observations", tuple(range(len(points))), (1 / len(points),) * len(points)), points


def _expected(errors: np.ndarray, gvfs: int) -> np.ndarray:
    """The expected squared errors [gvf] from standard errors [gvf, point]; NaN where none of them is finite."""
    some = np.isfinite(errors).any(axis=-1) if errors.size else False
    return np.where(some, expected_error(errors, gvfs), np.nan)


def nearest(observations: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The index of the point [point, o] nearest to each observation [n, o], in scaled units."""
    scaling = Scaling.of(observations)
    at = scaling(points)
    pieces = np.array_split(observations, max(1, len(observations) // 4096))
    return np.concatenate([((scaling(part)[:, None] - at) ** 2).sum(axis=2).argmin(axis=1) for part in pieces])
