"""Networks for any Gymnasium environment with Discrete actions: stepped from Python, learning by the scanned loop's updates.

Per step there is one compiled call, which chooses (`gvfx.running.deciding`), and per TOGETHER blocks of transitions
(`Deep.block`) another, which stores them and learns, block by block.  Target policies are functions of the user's: they
are asked once per observation, and what they said is stored with the transition.

The first `learning_starts` transitions are kept aside; from them observations and cumulants are scaled (`Scales`).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from gvfx.running.scanned import named_keys  # first: it sets how JAX runs

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.gvf import GVF
from gvfx.learners import replay as memory
from gvfx.learners.deep import Deep
from gvfx.learners.deep_updates import Batch, DeepUpdates, Learning
from gvfx.running.answers import Answers, Scales
from gvfx.running.deciding import Decider, TracedDecider, keep
from gvfx.running.evaluate import Part, Plan
from gvfx.running.networked import Diverged
from gvfx.running.record import Record
from gvfx.running.stepping import EnvironmentFailed, Many, One
from gvfx.streams import seed_streams
from gvfx.worlds.asking import Reader, Sight, Targets

TOGETHER = 4  # blocks that are learnt from in one call, which costs as much as learning from one
POINTS = 64  # observations at which answers are shown and errors estimated


class Columns(NamedTuple):
    """Where a transition's parts lie in a row."""

    observation: slice
    following: slice
    cumulants: slice
    discounts: slice
    action: slice
    pi: slice  # of the distinct target policies at `following`, [action, policy]
    shares: slice
    width: int


def columns(size: int, actions: int, gvfs: int, policies: int, heads: int) -> Columns:
    ends = list(accumulate((size, size, gvfs, gvfs, 1, actions * policies, heads), initial=0))
    parts = [slice(low, high) for low, high in pairwise(ends)]
    observation, following, cumulants, discounts, action, pi, shares = parts
    return Columns(observation, following, cumulants, discounts, action, pi, shares, ends[-1])


class SteppedRunner:
    """Everything that seeds share; calling it with a seed runs that seed in the environment."""

    def __init__(self, here: Sight, questions: Sequence[GVF], behaviour: Behaviour, learner: Deep, plan: Plan) -> None:
        self.here, self.questions, self.behaviour, self.learner, self.plan = here, questions, behaviour, learner, plan
        reader = Reader(questions)
        self.targets = Targets(questions, here.actions)
        self.names = reader.names
        self.weights = np.array([q.weight for q in reader.questions], dtype=float)
        rule = behaviour.network_rule()  # or a sentence, if it has none
        sizes = (here.size, here.actions, len(self.names))
        self.columns = columns(*sizes, len(self.targets.distinct), learner.heads)
        intrinsic = rule.probabilities if behaviour.needs_intrinsic else None
        self.updates = DeepUpdates(learner, sizes, plan.steps, self._parts, behaviour.needs_variance, intrinsic)
        self.member = jnp.asarray(self.targets.member)
        self.absorb = jax.jit(self._absorb, donate_argnums=(0, 1))
        self.store = jax.jit(memory.write, donate_argnums=0)
        self.points: np.ndarray | None = None  # [point, o]: chosen by the first seed at its first measurement
        self.points_pi: np.ndarray | None = None  # [point, action, policy]

    def _parts(self, rows: jax.Array) -> Batch:
        c, actions = self.columns, self.here.actions
        pi = rows[:, c.pi].reshape(len(rows), actions, -1)[:, :, self.member]
        action = rows[:, c.action][:, 0].astype(jnp.int32)
        shares = rows[:, c.shares] if self.learner.heads else None
        return Batch(rows[:, c.observation], action, rows[:, c.following], rows[:, c.cumulants], rows[:, c.discounts], pi, shares)

    def _absorb(self, learning: Learning, replay: memory.Replay, blocks: jax.Array, key: jax.Array, t: Any) -> Any:
        """Store blocks of transitions [block, row, column], of which the last is the t-th, and learn after each."""
        size = blocks.shape[1]

        def one(now: Any, block: Any) -> Any:
            (learning, replay), (rows, done) = now, block
            replay = memory.write(replay, rows)
            learning, replay, losses = self.updates.learn(done, learning, replay, jax.random.fold_in(key, done))
            return (self.updates.renewed(learning, done - size, done), replay), losses

        ends = t - size * jnp.arange(len(blocks))[::-1]
        (learning, replay), losses = jax.lax.scan(one, (learning, replay), (blocks, ends))
        return learning, replay, jax.tree.map(lambda each: each.sum(axis=0), losses)

    def __call__(self, seed: int, progress: Callable[[int, int, float], None] | None = None) -> Part:
        """Run a seed; where the environment fails, EnvironmentFailed carries the part so far."""
        going, seconds = Going(self, seed), 0.0
        record = Record(len(self.names), seed, progress, self.weights)
        try:
            going.stepper.begin(going, seed)
            for stop in self.plan.stops:
                begun = time.perf_counter()
                going.until(stop)
                seconds += time.perf_counter() - begun
                going.check()
                tables = going.tables()
                record.evaluated([stop] * (stop in self.plan.evaluations), going.episodes, tables[-1])
                record.shown([stop] * (stop in self.plan.snapshots), tables)
        except EnvironmentFailed as error:
            if going.t:
                record.shown([going.t], going.tables())
                error.part = record.part(seconds, going.answers())
            raise
        return record.part(seconds, going.answers())


class Going:
    """One seed under way; the agent into which steppers write (see `gvfx.running.stepping`)."""

    def __init__(self, run: SteppedRunner, seed: int) -> None:
        here, lanes, gvfs = run.here, run.here.lanes, len(run.names)
        self.run, self.seed, self.t, self.episodes = run, seed, 0, 0
        reader = Reader(run.questions, None, seed)
        self.stepper: One | Many = One(here, reader) if here.single else Many(here, reader)
        self.state, self.following = np.zeros((2, lanes, here.size), np.float32)
        self.c, self.gamma = reader.begin(lanes)
        self.alive = np.ones(lanes)
        self.action = np.zeros(lanes, np.int64)
        self.ended, self.fresh, self.counts = np.zeros(lanes, bool), np.zeros(lanes, bool), np.ones(lanes, bool)
        self.over = np.zeros(lanes, bool)  # episodes that ended since the behaviour was last asked
        self.pi: np.ndarray | None = None  # [lane, action, policy] at `state`, where it is known already
        self.bootstrap = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(b"bootstrap"),)))
        keys = named_keys(seed)
        self.replay_key = keys[3]
        self.learning: Learning = jax.jit(run.updates.begin)(jax.random.split(keys[4], 4))
        self.replay = memory.empty(run.learner.capacity, run.columns.width, run.updates.prioritised)
        self.scales = Scales.none(here.size, gvfs)
        kind = TracedDecider if run.behaviour.needs_intrinsic else Decider
        self.decider = kind(run.behaviour, run.weights, here.actions, run.targets.member, seed_streams(seed), lanes)
        self.decider.learned(self.learning, self.scales)
        self.learns = False
        self.early: list[np.ndarray] = []  # transitions [lane, column] from before learning starts
        self.together = TOGETHER * run.learner.block
        self.rows = np.zeros((self.together + lanes, run.columns.width), np.float32)
        self.pending = 0  # rows that wait for enough blocks to be full
        self.losses: Any = None

    def until(self, stop: int) -> None:
        """Steps, until so many transitions were made."""
        step, learn = self.stepper.step, Going.learn
        while self.t < stop:
            self.act()
            self.episodes += step(self, learn)

    def act(self) -> None:
        """Choose an action in every lane."""
        if self.pi is None or self.fresh.any():
            self.pi = self.policies(self.stepper.seen_now)
            self.fresh[:] = False
        self.decider.act(self.t, self.state, self.pi, self.over, self.action)
        self.over[:] = False

    def policies(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies at the lanes' observations, [lane, action, policy]."""
        return np.stack(self.run.targets.each(self.run.here.together(observations)), axis=-1).astype(np.float32)

    def learn(self) -> None:
        """Keep every lane's transition; with enough of them, learn."""
        run = self.run
        self.pi = self.policies(self.stepper.seen_next)
        seen, signals = (self.state, self.action, self.following), (self.c, self.gamma, self.alive)
        made = keep(self.rows, self.pending, *seen, *signals, self.pi, self.ended, self.counts, self.over)
        self.t += made
        if not self.learns:
            self.early.append(self.rows[:made].copy())
            if self.t >= run.learner.learning_starts:
                self.begin_learning()
            return
        self.pending += made
        while self.pending >= self.together:
            self.absorb()

    def begin_learning(self) -> None:
        """Find the scales and store what was kept aside."""
        c, block = self.run.columns, self.run.learner.block
        rows = np.concatenate(self.early)
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
        self.decider.learned(self.learning, self.scales)
        self.learns, self.early = True, []
        whole = len(rows) // block * block
        for k in range(0, whole, block):
            self.replay = self.run.store(self.replay, self.scaled(rows[k : k + block]))
        self.pending = len(rows) - whole
        self.rows[: self.pending] = rows[whole:]

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows with observations and cumulants in the networks' units, and what the bootstrapped heads learn from each."""
        c, out = self.run.columns, rows.copy()
        if self.run.learner.heads:
            out[:, c.shares] = 2.0 * self.bootstrap.integers(0, 2, (len(rows), self.run.learner.heads))
        for part in (c.observation, c.following):
            out[:, part] = self.scales.scaled(out[:, part])
        out[:, c.cumulants] /= self.scales.unit
        return out

    def absorb(self) -> None:
        """Learn from the first blocks of the rows that wait."""
        rows, self.pending = self.scaled(self.rows[: self.together]), self.pending - self.together
        blocks, done = rows.reshape(TOGETHER, -1, rows.shape[1]), self.t - self.pending
        self.learning, self.replay, self.losses = self.run.absorb(self.learning, self.replay, blocks, self.replay_key, done)
        self.rows[: self.pending] = self.rows[self.together : self.together + self.pending]
        self.decider.learned(self.learning, self.scales)

    # --- looking ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Stop at a loss that is not finite."""
        if self.losses is None:
            return
        for what, losses in zip(("Q", "M"), self.losses, strict=True):
            bad = np.flatnonzero(~np.isfinite(np.asarray(losses)))
            if bad.size:
                raise Diverged(
                    f"run: the loss of {what} of {self.run.names[bad[0]]!r} became {float(losses[bad[0]])} before step {self.t} "
                    f"(seed {self.seed}); lower the learning rate or look at the signal."
                )

    def answers(self) -> Answers:
        """The Q network as it is now."""
        q = self.learning.q
        weights, biases = (tuple(np.asarray(a) for a in part) for part in (q.weights, q.biases))
        return Answers(self.scales, weights, biases, np.asarray(q.frequencies), self.run.here.actions)

    def kept(self) -> np.ndarray:
        """The transitions in the replay and before it, unscaled observations and actions in their columns."""
        if not self.learns:
            return np.concatenate(self.early)
        stored = min(int(self.replay.written), len(self.replay.rows))
        rows = np.array(self.replay.rows[:stored])
        part = self.run.columns.observation
        rows[:, part] = rows[:, part] * self.scales.spread + self.scales.centre
        return np.concatenate([rows, self.rows[: self.pending]])

    def tables(self) -> tuple[np.ndarray, ...]:
        """Values, variances, visits, behaviour and standard errors at the points now; visits are counted at the nearest."""
        run, kept = self.run, self.kept()
        seen = kept[:, run.columns.observation]
        if run.points is None:
            run.points, run.points_pi = self.choose_points(seen)
        points, distinct = run.points, run.points_pi
        assert distinct is not None
        pi = distinct[:, :, run.targets.member]
        values, errors = self.answers().values(points, pi)
        scaled = self.scales.scaled(points)
        variances = np.empty(0)
        if run.behaviour.needs_variance:
            m = np.asarray(self.learning.m(jnp.asarray(scaled))).astype(float) * self.scales.unit**2
            variances = np.einsum("nai,nai->in", pi, m)
        visits = np.zeros((len(points), run.here.actions), np.int64)
        for part in np.array_split(np.arange(len(seen)), max(1, len(seen) // 4096)):
            away = ((self.scales.scaled(seen[part])[:, None] - scaled) ** 2).sum(axis=2)
            np.add.at(visits, (away.argmin(axis=1), kept[part][:, run.columns.action][:, 0].astype(int)), 1)
        return values, variances, visits, self.decider.probabilities(self.t, points, distinct), errors

    def choose_points(self, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some observations met so far, and the distinct target policies there."""
        from gymnasium.spaces.utils import unflatten

        chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
        points, here = seen[np.sort(chosen)], self.run.here
        return points, self.policies([unflatten(here.space, point) for point in points])
