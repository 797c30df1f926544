"""Linear learning in any Gymnasium environment with Discrete actions, stepped from Python with compiled functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.joint import Joint
from gvfx.features.scaling import Scaling
from gvfx.learners.half_samples import Answers
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.linear_starts import start_answers, start_joint
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import ConstantPolicy
from gvfx.questions.reader import Reader, Targets
from gvfx.questions.where import EVERYWHERE, START, Where, WhereLike
from gvfx.running.auditing import AuditedStream, Audits
from gvfx.running.checkpoint import generator_state, set_generator
from gvfx.running.earlier import Earlier
from gvfx.running.frozen import MOST, FrozenActions, Nearby, drawn_action
from gvfx.running.gym_stepper import NEW_EPISODE, stepper
from gvfx.running.plan import Plan
from gvfx.running.predictor import LinearPredictor
from gvfx.running.record import EMPTY, Measurement, Part, expected_error
from gvfx.running.streams.linear_agent import LinearAgent
from gvfx.running.streams.linear_runs import LinearRuns, LinearStream
from gvfx.running.streams.table_agent import bound
from gvfx.worlds.spec import BoxSpec, time_limit

POINTS = 64  # observations at which answers are shown and errors estimated
GROWN = 1.5  # by which the data have grown when the expected error between snapshots is estimated again


class LinearGym(LinearRuns):
    """What the seeds share: the environment, the questions and the compiled functions."""

    one_environment = True
    knows_truth = False
    look_growth = 1.5  # a check takes several fits

    def __init__(
        self,
        spec: BoxSpec,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: LinearCertaintyEquivalence,
        plan: Plan,
        calibrate: bool = False,
        where: WhereLike = None,
        audit: float = 0.0,
        log: Earlier | None = None,
    ) -> None:
        self.spec, self.questions, self.audit, self.log = spec, questions, audit, log
        asked, self.asked_at = observations_where(where, spec)
        Reader(questions)  # refuses signals that cannot be read here
        self.targets = Targets(questions, spec.actions)
        self.arrays = spec.space.shape is not None
        self.constant: np.ndarray | None = None  # [action, policy] if no policy depends on the observation
        if all(isinstance(policy, ConstantPolicy) for policy in self.targets.distinct):
            self.constant = np.stack(self.targets.each(np.zeros(1)), axis=-1)[0]
        self.prepare(questions, behaviour, learner, plan, spec.size, spec.actions, time_limit(spec.env), calibrate, asked)
        self.points: np.ndarray | None = None  # [point, o]: chosen by the first seed at its first snapshot
        self.points_pi = np.empty(0)  # [point, action, policy]
        self.said: dict[str, Any] = {}  # by the seeds, at their end

    def begin(self, seed: int) -> SteppedLinear:
        return SteppedLinear(self, seed)

    @property
    def left_out(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.spec.left_out

    def described(self) -> dict[str, Any]:
        return {"environment": self.spec.name, **super().described(), **self.said}

    def predictor(self, parts: list[Part]) -> LinearPredictor:
        return LinearPredictor(tuple(part.network for part in parts), self.points, self.spec, self.targets)

    def policies(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies at observations, [observation, action, policy]."""
        if self.constant is not None:
            return np.broadcast_to(self.constant, (len(observations), *self.constant.shape))
        batch = np.array(observations) if self.arrays else list(observations)
        return np.stack(self.targets.each(batch), axis=-1)

    def at(self, points: np.ndarray) -> np.ndarray:
        """The distinct target policies at flat observations [point, o], [point, action, policy]."""
        return self.policies([self.spec.whole(point) for point in points])

    def show_at(self, points: np.ndarray) -> None:
        """Set the points at which answers are shown."""
        self.points, self.points_pi = points, self.at(points)


class SteppedLinear(LinearStream, AuditedStream):
    """One seed."""

    run: LinearGym

    def __init__(self, run: LinearGym, seed: int) -> None:
        spec, lanes, policies = run.spec, run.spec.lanes, len(run.targets.distinct)
        kept = self.open(run, seed, policies, run.constant)
        self.reader = Reader(run.questions, None, seed)
        c, gamma = self.reader.begin(lanes)
        state, following = np.zeros((2, lanes, spec.size), np.float32)
        pi, pi_next = np.zeros((2, lanes, spec.actions, policies), np.float32)
        if run.constant is not None:
            pi[:] = pi_next[:] = run.constant
        self.agent = LinearAgent(
            **self.begun(),
            member=run.targets.member.astype(np.int64),
            kept=kept,
            state=state,
            following=following,
            action=np.zeros(lanes, np.int64),
            policies=pi,
            policies_next=pi_next,
            alive=np.ones(lanes),
            ended=np.zeros(lanes, bool),
            counts=np.ones(lanes, bool),
            fresh=np.zeros(lanes, bool),
            begins=np.zeros(lanes, bool),
            number=np.zeros(lanes, np.int64),
            c=c,
            gamma=gamma,
        )
        self.stepper = stepper(spec, self.reader)
        self.act, self.keep = (bound(function, self.agent) for function in run.compiled[:2])
        self.done = 0  # episodes
        self._expected: tuple[int, np.ndarray] | None = None
        if run.audit:
            self.audits = Audits(run, run.targets.member, self.reader, seed)
        if run.log is not None:
            self.replay(run.log)

    def replay(self, log: Earlier) -> None:
        """Keep the transitions of a log, before those of the run."""
        self.make_room(len(log))
        kept, n = self.agent.kept, len(log)
        columns = {"observation": log.state, "following": log.following, "action": log.action, "cumulant": log.c}
        columns |= {"discount": log.gamma, "episode": log.episode, "first": log.starts, "terminated": log.terminated}
        for name, column in columns.items():
            getattr(kept, name)[:n] = column
        if len(kept.pi) > 1:
            kept.pi[:n] = self.run.at(log.following)
        kept.used[:] = n
        self.agent.t[1] = log.episode[-1] + 1

    def start(self) -> None:
        if self.t:  # continued from a checkpoint
            self.run.compiled[3](self.agent)
        self.stepper.begin(self.agent, self.seed, self.t)
        if 0 in self.stops and not self.t and self.data.first.any():
            self.pause(0)

    def forward(self, to: int) -> None:
        lanes = len(self.agent.action)
        while self.t < to:
            self.make_room(lanes)
            agent, room = self.agent, len(self.agent.kept.action)
            end = to if room == self.run.learner.capacity else min(to, self.t + room - int(agent.kept.used[0]) - lanes + 1)
            self._step(agent, end)

    def _step(self, agent: LinearAgent, to: int) -> None:
        """Step until `to`, or at least once; there is room for the transitions."""
        act, step, moving = self.act, self.stepper.step, self.run.constant is None
        audits = self.audits if self.audits is not None and self.audits.under_way else None
        try:
            while True:
                if moving and np.count_nonzero(agent.fresh):
                    agent.policies[:] = self.run.policies(self.stepper.seen_now)
                act(agent)
                if audits is not None:
                    audits.follow(self)
                self.done += step(agent, self.learn)
                if moving:
                    agent.policies[:] = agent.policies_next
                if agent.t[0] >= to:
                    break
        finally:
            self.t = int(agent.t[0])

    def learn(self, agent: LinearAgent) -> None:
        if self.run.constant is None:
            agent.policies_next[:] = self.run.policies(self.stepper.seen_next)
        self.keep(agent)

    # --- audits ------------------------------------------------------------------------------------------------------

    @property
    def written(self) -> LinearAgent:
        return self.agent

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[Any, int]:
        agent, action = self.agent, drawn_action(self.agent.policies[lane, :, policy], rng)
        agent.action[lane] = action
        return (agent.state[lane].copy(), agent.policies[lane].copy()), action

    def arrived(self, lane: int) -> Any:
        return self.agent.following[lane].copy(), self.agent.policies_next[lane].copy()

    def at_starts(self, observations: list[Any]) -> list[Any]:
        return list(zip(map(self.run.spec.seen, observations), self.run.policies(observations), strict=True))

    def break_off(self) -> None:
        self.run.compiled[3](self.agent)

    def freeze(self) -> FrozenActions:
        fit = self.answers(False, False)[0].fit
        data = self.data.part(slice(None, None, -(-len(self.data) // MOST)))
        return FrozenActions(fit.action_values, Nearby(data.observation, fit.errors(data)))

    # --- measuring ---------------------------------------------------------------------------------------------------

    def episodes(self) -> list[int]:
        return [self.done]

    def bounded_at(self) -> tuple[np.ndarray, np.ndarray]:
        given = self.run.asked_at
        return (given, self.policies_at(given)) if len(given) else self.at_points()

    def policies_at(self, points: np.ndarray) -> np.ndarray:
        """Each question's policy at flat observations [point, o], [point, action, gvf]."""
        return self.run.at(points)[:, :, self.run.targets.member]

    def start_answers(self, found: Answers) -> np.ndarray:
        return start_answers(found, self.data, self.policies_at)

    def start_joint(self, found: Answers) -> Joint:
        return start_joint(found, self.data, self.policies_at)

    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        seen = self.data.observation
        chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
        points = seen[np.sort(chosen)].copy()
        return points, self.policies_at(points)

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, gvfs, seen = self.run, len(self.run.names), self.data
        if not tables:
            if self._expected is None or self.t > GROWN * self._expected[0]:
                self._expected = (self.t, self._expected_now(self.answers(False, True)[0]))
            return [Measurement(expected=self._expected[1])]
        if run.points is None:
            run.show_at(self.at_points()[0])
        assert run.points is not None
        points = run.points
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
        out = super().outcome(k) | self.audit_outcome()
        start = self.start_answers(out["network"])
        out["start"] = np.column_stack([start, np.full(len(start), np.nan)])
        earlier: dict[str, str] = self.run.said.get("not_resolved", {})  # of other seeds
        self.notes["not_resolved"] = earlier | self.notes["not_resolved"]
        self.run.said |= {name: note for name, note in self.notes.items() if note}
        if self.agent.kept.used[1] > self.run.learner.capacity:
            self.run.said["kept"] = f"a random {self.run.learner.capacity:,} of {int(self.agent.kept.used[1]):,} transitions"
        return out

    def resumed(self) -> str:
        return NEW_EPISODE

    def state(self) -> dict[str, np.ndarray]:
        own = {"noise": generator_state(self.reader.noise), "episodes": np.array([self.done, self.stepper.episode])}
        own |= {} if self.run.points is None else {"points": self.run.points}
        return super().state() | own | self.audit_state()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(arrays)
        set_generator(self.reader.noise, arrays["noise"])
        self.done, self.stepper.episode = (int(n) for n in arrays["episodes"])
        self.restore_audits(arrays)
        if self.run.points is None and "points" in arrays:
            self.run.show_at(arrays["points"].copy())


def observations_where(where: WhereLike, spec: BoxSpec) -> tuple[Where, np.ndarray]:
    """Where errors count with continuous observations, and the observations that were given as vectors [point, o]."""
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
