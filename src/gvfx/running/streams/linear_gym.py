"""Linear learning in any Gymnasium environment with Discrete actions, stepped from Python with compiled functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.decisions import Joint
from gvfx.features.scaling import Scaling
from gvfx.learners.half_samples import Answers, start_answers, start_joint, start_means
from gvfx.learners.least_squares import BLOCKS, Rows
from gvfx.learners.linear import Choice
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Reader
from gvfx.questions.where import EVERYWHERE, START, Where, WhereLike
from gvfx.running.earlier import Earlier, learn_from_log
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import Frozen, FunctionPredictor
from gvfx.running.schema import EMPTY, Measurement, Part, expected_error
from gvfx.running.start_evidence import FEW_GROUPS, REFUSED, StartEvidence, audited, corrected, dealt, grouped, start_evidence
from gvfx.running.stepping import SingleStepper, VectorStepper
from gvfx.running.streams.gym_stream import NEVER, AtVectors, GymRun, PoliciesAt
from gvfx.running.streams.linear_runs import LinearAgent, LinearArrays, LinearRuns
from gvfx.running.streams.table_gym import bound
from gvfx.worlds.spec import BoxSpec, time_limit

GROWN = 1.5  # by which the data have grown when the expected error between snapshots is estimated again


class LinearGym(GymRun, LinearRuns):
    """What the seeds share: the environment, the questions and the compiled functions."""

    look_growth = 1.5  # a check takes several fits
    frozen = False  # whole episodes are scored by cross-fitting

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], method: Method, options: Options) -> None:
        super().__init__(spec, questions, method, options)
        self.where, self.asked_at = observations_where(options.where, spec)
        Reader(questions)  # refuses signals that cannot be read here
        self.policies = PoliciesAt(questions, spec)
        self.targets = self.policies.targets
        self.prepare(spec.size, spec.actions, time_limit(spec.env))
        self.points_pi = np.empty(0)  # [point, action, policy]

    def described(self) -> dict[str, Any]:
        out, rest = super().described(), "" if self.share == 1 else f"; for half of the steps {self.behaviour!r}"
        return out | ({"behaviour": f"the target policies in whole episodes{rest}"} if self.share and not self.audit else {})

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
    evidence: StartEvidence | None = None  # of the answers last found

    def __init__(self, run: LinearGym, seed: int, source: SingleStepper | VectorStepper) -> None:
        AtVectors.__init__(self, run, seed, source)
        spec, constant, member = self.spec, run.policies.constant, run.targets.member.astype(np.int64)
        pi = np.zeros((spec.lanes, spec.actions, len(run.targets.distinct))) if constant is None else constant
        self.open(run, seed, pi, member, constant is not None, *self.reader.begin(spec.lanes))
        self.choose, self.keep = (bound(function, self.arrays) for function in run.compiled[:2])
        moving = constant is None
        self.act, self.learn = (self.act_by_observation, self.learn_by_observation) if moving else (self.choose, self.keep)
        self._expected: tuple[int, np.ndarray] | None = None

    def take_log(self, log: Earlier) -> None:
        if len(log) >= self.run.learner.capacity:
            learn_from_log(self, log)  # of which a random part is kept
            return
        self.spec.origin.restore(log.origin)
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

    # --- episodes of target policies -----------------------------------------------------------------------------------

    @property
    def at(self) -> LinearArrays:
        return self.arrays

    @property
    def notes(self) -> np.ndarray:
        return self.arrays.policies

    def break_off(self) -> None:
        self.run.compiled[3](self.arrays)

    def freeze(self) -> Frozen:
        raise NotImplementedError  # scores are by cross-fitting

    # --- measuring ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.run.targets.again()
        self.reader.again()

    @property
    def asked_at(self) -> np.ndarray:
        return self.spec.origin.relative(self.run.asked_at)

    def bounded_at(self) -> tuple[np.ndarray, np.ndarray]:
        given = self.asked_at
        return (given, self.policies_at(given)) if len(given) else self.at_points()

    def distinct_at(self, points: np.ndarray) -> np.ndarray:
        """The distinct target policies at relative vectors [point, o], [point, action, policy]."""
        return self.run.policies([self.spec.whole(point) for point in self.spec.origin.absolute(points)])

    def policies_at(self, points: np.ndarray) -> np.ndarray:
        """Each question's policy at relative vectors [point, o], [point, action, gvf]."""
        return self.distinct_at(points)[:, :, self.run.targets.member]

    def fitted(self, choice: Choice, intervals: bool) -> Answers:
        self.evidence, whole, learner, data = None, self.whole, self.run.learner, self.data
        if whole is None or not intervals or not learner.intervals or self.arrays.kept.used[1] > learner.capacity:
            return super().fitted(choice, intervals)
        followed = whole.followed()
        group = grouped(data, followed)
        if group.max() + 1 >= FEW_GROUPS:
            rows = learner.rows(replace(data, episode=group), choice, self.seed)
            found = learner.answers(rows)
        elif group.max():
            found, rows = super().fitted(choice, intervals), Rows.of(data, choice.basis, dealt(group), BLOCKS)
        else:
            return super().fitted(choice, intervals)
        further = whole.further.reshape(-1, data.observation.shape[1])
        model = start_joint(*start_means(found, data, self.policies_at, further))
        self.evidence = start_evidence(model, found, data, followed, learner.crossfit(rows), self.policies_at, further)
        return found if self.evidence is None else corrected(found, self.evidence)

    def start_answers(self, found: Answers) -> np.ndarray:
        if self.evidence is None:
            return start_answers(*start_means(found, self.data, self.policies_at))
        joint = self.evidence.joint
        return np.column_stack([joint.values, joint.known.diagonal()])

    def start_joint(self, found: Answers) -> Joint:
        if self.evidence is not None:
            return self.evidence.joint
        return start_joint(*start_means(found, self.data, self.policies_at))

    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        points = self.points_of(self.data.observation)
        return points, self.policies_at(points)

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, gvfs, seen = self.run, len(self.run.names), self.data
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
                expected=_expected(errors, gvfs) if run.where == EVERYWHERE else self._expected_now(found),
                values=values,
                variances=EMPTY,
                visits=visits,
                behaviour=self.probabilities(points, run.points_pi),
                standard_errors=errors,
            )
        ]

    def _expected_now(self, found: Answers) -> np.ndarray:
        """The expected squared errors where errors count, [gvf]."""
        gvfs = len(self.run.names)
        if self.run.where == START:
            own = self.start_answers(found)[:, 1]
            return np.where(np.isfinite(own), own, np.nan) ** 2
        return _expected(found.values(*self.bounded_at())[1], gvfs)

    def outcome(self, k: int) -> dict[str, Any]:
        run, notes, out = self.run, self.resolution(), self.found()
        start = self.start_answers(out["function"])
        out["function"] = replace(out["function"], origin=self.spec.origin.at)
        out["start"] = np.column_stack([start, np.full(len(start), np.nan)])
        notes["not_resolved"] = run.notes.get("not_resolved", {}) | notes["not_resolved"]  # with those of other seeds
        if self.evidence is not None and self.evidence.refused:
            notes["observation"] = REFUSED
        if run.audit:
            out |= audited(self.evidence, run.audit_ranges, self.reader.discounts)
            notes["blended"] = self.evidence is not None
        run.notes |= {name: note for name, note in notes.items() if note}
        if self.arrays.kept.used[1] > run.learner.capacity:
            run.notes["kept"] = f"a random {run.learner.capacity:,} of {int(self.arrays.kept.used[1]):,} transitions"
        return out

    def state(self) -> dict[str, np.ndarray]:
        return self.learned() | {"episodes": np.full(2, self.source.episode)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.learn_again(arrays)
        self.source.episode, self.room = int(arrays["episodes"][1]), 0


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
