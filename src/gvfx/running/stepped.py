"""Networks for any Gymnasium environment with Discrete actions: stepped from Python, learning by the scanned loop's updates.

Per step there is one compiled call, which gives the behaviour's probabilities, and per block of transitions
(`Deep.block`) another, which stores and learns.  Target policies are functions of the user's: they are asked once per
observation, and what they said is stored with the transition.

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
from gvfx.running.evaluate import Part, Plan
from gvfx.running.networked import Diverged
from gvfx.running.record import Record
from gvfx.running.stepping import EnvironmentFailed, Many, One
from gvfx.worlds.asking import Reader, Sight, Targets

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
        self.rule = behaviour.network_rule()
        sizes = (here.size, here.actions, len(self.names))
        self.columns = columns(*sizes, len(self.targets.distinct), learner.heads)
        intrinsic = self.rule.probabilities if behaviour.needs_intrinsic else None
        self.updates = DeepUpdates(learner, sizes, plan.steps, self._parts, behaviour.needs_variance, intrinsic)
        self.member = jnp.asarray(self.targets.member)
        self.choose = jax.jit(self._choose)
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

    def _choose(self, m: Any, value: Any, acting: Any, unit: jax.Array, told: jax.Array) -> Any:
        """The behaviour's state and mu [lane, action]; told [lane, ...] is what `Going.ask` puts together: one array,
        because each one that is handed over costs as much as the network."""
        size = self.here.size
        t, ended = told[0, 0].astype(jnp.int32), told[:, 1] > 0
        seen, pi = told[:, 2 : 2 + size], told[:, 2 + size :].reshape(len(told), self.here.actions, -1)[:, :, self.member]

        def one(acting: Any, seen: jax.Array, pi: jax.Array, ended: jax.Array) -> Any:
            after = self.rule.episode_end(acting)
            acting = jax.tree.map(lambda new, old: jnp.where(ended, new, old), after, acting)
            variance = m(seen) * unit**2 if self.behaviour.needs_variance else pi
            intrinsic = value(seen)[..., 0] if value is not None else None
            return acting, self.rule.probabilities(acting, t, pi, variance, intrinsic)

        return jax.vmap(one)(acting, seen, pi, ended)

    def _absorb(self, learning: Learning, replay: memory.Replay, rows: jax.Array, key: jax.Array, t: Any) -> Any:
        """Store a block of transitions, the last of them the t-th, and learn."""
        replay = memory.write(replay, rows)
        learning, replay, losses = self.updates.learn(t, learning, replay, jax.random.fold_in(key, t))
        return self.updates.renewed(learning, t - len(rows), t), replay, losses

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
        self.chance, self.bootstrap = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name),)))
            for name in (b"behaviour", b"bootstrap")
        )
        keys = named_keys(seed)
        self.replay_key = keys[3]
        self.learning: Learning = jax.jit(run.updates.begin)(jax.random.split(keys[4], 4))
        self.acting = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (lanes, *jnp.shape(leaf))), run.rule.begin(jnp.asarray(run.weights, jnp.float32))
        )
        self.replay = memory.empty(run.learner.capacity, run.columns.width, run.updates.prioritised)
        self.scales = Scales.none(here.size, gvfs)
        self.unit = jnp.asarray(self.scales.unit)
        self.learns = False
        self.early: list[np.ndarray] = []  # transitions [lane, column] from before learning starts
        self.rows = np.zeros((run.learner.block + lanes, run.columns.width), np.float32)
        self.pending = 0  # rows that wait for a block to be full
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
        self.acting, mu = self.ask(self.acting, self.scales.scaled(self.state), self.pi, self.over)
        self.over[:] = False
        below = np.cumsum(np.asarray(mu), axis=1)[:, :-1]
        self.action[:] = (self.chance.random((len(below), 1)) >= below).sum(axis=1)

    def ask(self, acting: Any, seen: np.ndarray, pi: np.ndarray, over: np.ndarray) -> tuple[Any, Any]:
        """The behaviour's state and probabilities at scaled observations."""
        learning = self.learning
        value = learning.intrinsic.value if learning.intrinsic is not None else None
        told = np.empty((len(seen), 2 + seen.shape[1] + pi[0].size), np.float32)
        told[:, 0], told[:, 1], told[:, 2 : 2 + seen.shape[1]] = self.t, over, seen
        told[:, 2 + seen.shape[1] :] = pi.reshape(len(pi), -1)
        return self.run.choose(learning.m, value, acting, self.unit, told)

    def policies(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies at the lanes' observations, [lane, action, policy]."""
        return np.stack(self.run.targets.each(self.run.here.together(observations)), axis=-1).astype(np.float32)

    def learn(self) -> None:
        """Store every lane's transition; with a full block, learn."""
        lanes, run = len(self.state), self.run
        self.pi = self.policies(self.stepper.seen_next)
        heads = 2.0 * self.bootstrap.integers(0, 2, (lanes, run.learner.heads))
        discounts = self.gamma * self.alive[:, None]
        parts = (self.state, self.following, self.c, discounts, self.action[:, None], self.pi.reshape(lanes, -1), heads)
        rows = np.concatenate(parts, axis=1)
        if not self.counts.all():
            rows = rows[self.counts]
        self.t += len(rows)
        self.over |= self.ended
        if not self.learns:
            self.early.append(rows)
            if self.t >= run.learner.learning_starts:
                self.begin_learning()
            return
        self.rows[self.pending : self.pending + len(rows)] = rows
        self.pending += len(rows)
        if self.pending >= run.learner.block:
            self.absorb()

    def begin_learning(self) -> None:
        """Find the scales and store what was kept aside."""
        c, block = self.run.columns, self.run.learner.block
        rows = np.concatenate(self.early).astype(np.float32)
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
        self.unit = jnp.asarray(self.scales.unit)
        self.learns, self.early = True, []
        whole = len(rows) // block * block
        for k in range(0, whole, block):
            self.replay = self.run.store(self.replay, self.scaled(rows[k : k + block]))
        self.pending = len(rows) - whole
        self.rows[: self.pending] = rows[whole:]

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows with observations and cumulants in the networks' units."""
        c, out = self.run.columns, rows.copy()
        for part in (c.observation, c.following):
            out[:, part] = self.scales.scaled(out[:, part])
        out[:, c.cumulants] /= self.scales.unit
        return out

    def absorb(self) -> None:
        """Learn from the first block of the rows that wait."""
        block = self.run.learner.block
        rows, self.pending = self.scaled(self.rows[:block]), self.pending - block
        done = self.t - self.pending
        self.learning, self.replay, self.losses = self.run.absorb(self.learning, self.replay, rows, self.replay_key, done)
        self.rows[: self.pending] = self.rows[block : block + self.pending]

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
            return np.concatenate(self.early).astype(np.float32)
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
        return values, variances, visits, self.behaviour_at(scaled, distinct), errors

    def choose_points(self, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some observations met so far, and the distinct target policies there."""
        from gymnasium.spaces.utils import unflatten

        chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
        points, here = seen[np.sort(chosen)], self.run.here
        return points, self.policies([unflatten(here.space, point) for point in points])

    def behaviour_at(self, scaled: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """mu [point, action] as the first lane would act."""
        acting = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[0], (len(pi), *leaf.shape[1:])), self.acting)
        return np.asarray(self.ask(acting, scaled, pi, np.zeros(len(pi), bool))[1]).astype(float)
