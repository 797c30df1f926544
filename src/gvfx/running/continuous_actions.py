"""Twin critics for any Gymnasium environment with Box actions: stepped from Python, learning by the updates of Algorithm 2.

Per step there is one compiled call, which chooses an action in every lane, and per `TwinCritics.worlds` transitions,
whichever lanes they are from, another, which stores them and makes the learner's updates.  Target policies are functions
of the user's: they are asked once per observation, and their middle actions at s' are stored with the transition, as are
its discounts (0 where it terminated).

The first `learning_starts` transitions are kept aside; from them observations and cumulants are scaled (`Scales`).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from gvfx.running.staggered import learn_from  # first: it sets how JAX runs

import jax  # isort: skip
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.gvf import GVF
from gvfx.learners import replay as memory
from gvfx.learners.continuous import TwinCritics
from gvfx.learners.critic_updates import Question
from gvfx.running.agent import GVFAgent, Learning, Losses, Sizes
from gvfx.running.answers import CriticAnswers, Scales
from gvfx.running.evaluate import Part, Plan
from gvfx.running.lockstep import Diverged
from gvfx.running.record import Record
from gvfx.running.stepping import EnvironmentFailed, Many, One
from gvfx.worlds.asking import Reader
from gvfx.worlds.box_actions import Gaussians, Reach

POINTS = 64  # observations at which answers are shown
LOOKS = 32  # choices by which the behaviour is judged at a point


class BoxRunner:
    """Everything that seeds share; calling it with a seed runs that seed in the environment."""

    def __init__(self, here: Reach, questions: Sequence[GVF], behaviour: Behaviour, learner: TwinCritics, plan: Plan) -> None:
        self.here, self.questions, self.behaviour, self.learner, self.plan = here, questions, behaviour, learner, plan
        reader = Reader(questions)
        self.names = reader.names
        self.weights = np.array([q.weight for q in reader.questions], dtype=float)
        self.targets = Gaussians(questions, here)
        gvfs = len(self.names)
        asked = Question(jnp.zeros(0), tuple(range(gvfs)), jnp.asarray(self.targets.sigmas), tuple(self.targets.member.tolist()))
        sizes = Sizes(here.size, here.actions, self.names)
        self.agent = GVFAgent(sizes, (), asked, jnp.ones(gvfs), behaviour, learner, plan.steps, varying=True)
        self.columns = self.agent.columns
        self.width = self.columns.width + 1  # the last column is whom a lane followed
        self.told = list(accumulate((1, here.size, gvfs * here.actions, self.agent.act_draws), initial=0))
        self.choose = jax.jit(self._choose)
        self.absorb = jax.jit(self._absorb, donate_argnums=(0, 1))
        self.store = jax.jit(memory.write, donate_argnums=0)
        self.look = jax.jit(self._look)
        self.points: np.ndarray | None = None  # [point, o]: chosen by the first seed at its first measurement
        self.points_middles: np.ndarray | None = None  # [point, gvf, action]
        self.points_draws: np.ndarray | None = None  # [point, draw, gvf, action]

    def _choose(self, learning: Learning, acting: Any, weights: jax.Array, told: jax.Array) -> tuple[Any, jax.Array]:
        """What acting remembers, and actions with whom each lane follows [lane, action + 1]; told [lane, ...] is what
        `Going.ask` puts together: one array, because each one that is handed over costs time."""
        a, b, c, d = (told[:, low:high] for low, high in zip(self.told[:-1], self.told[1:], strict=True))
        middles = c.reshape(len(told), len(self.names), -1)
        acting, action, which = self.agent.weighing(weights).choose(learning, acting, d, b, middles, a[:, 0] > 0)
        return acting, jnp.concatenate([action, which[:, None]], axis=1)

    def _absorb(self, learning: Learning, replay: memory.Replay, rows: jax.Array, weights: Any, many: jax.Array) -> Any:
        """Store a block of transitions and learn (numbers drawn by NumPy spare compiling)."""
        replay = memory.write(replay, rows)
        learning, losses = learn_from(self.agent.weighing(weights), learning, replay, many)
        return learning, replay, losses

    def _look(self, learning: Learning, weights: Any, seen: Any, middles: Any, chance: Any) -> jax.Array:
        """How often a lane that begins at each point follows whom, [point, gvf + 1]; chance [point, look, draw]."""
        agent, gvfs = self.agent.weighing(weights), len(self.names)

        def one(seen: jax.Array, middles: jax.Array, chance: jax.Array) -> jax.Array:
            many = [jnp.broadcast_to(x, (LOOKS, *x.shape)) for x in (seen, middles)]
            begun = agent.rule.begin(LOOKS, gvfs)
            _, _, which = agent.choose(learning, begun, chance, many[0], many[1], jnp.zeros(LOOKS, bool))
            return (which[:, None] == jnp.arange(gvfs + 1)).mean(axis=0)

        return jax.vmap(one)(seen, middles, chance)

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
                if stop in self.plan.snapshots:
                    record.shown([stop], going.tables())
                record.evaluated([stop] * (stop in self.plan.evaluations), going.episodes, np.empty(0))
        except EnvironmentFailed as error:
            if going.t:
                record.shown([going.t], going.tables())
                error.part = record.part(seconds, going.answers())
            raise
        return record.part(seconds, going.answers())


class Going:
    """One seed under way; the agent into which steppers write (see `gvfx.running.stepping`)."""

    def __init__(self, run: BoxRunner, seed: int) -> None:
        here, lanes = run.here, run.here.lanes
        self.run, self.seed, self.t, self.episodes = run, seed, 0, 0
        reader = Reader(run.questions, None, seed)
        self.stepper: One | Many = One(here, reader) if here.single else Many(here, reader)
        self.state, self.following = np.zeros((2, lanes, here.size), np.float32)
        self.c, self.gamma = reader.begin(lanes)
        self.alive = np.ones(lanes)
        self.action = np.zeros((lanes, here.actions), np.float32)  # within [-1, 1]
        self.followed = np.zeros(lanes, np.float32)
        self.ended, self.fresh, self.counts = np.zeros(lanes, bool), np.zeros(lanes, bool), np.ones(lanes, bool)
        self.over = np.zeros(lanes, bool)  # episodes that ended since the behaviour was last asked
        self.middles: np.ndarray | None = None  # [lane, policy, action] at `state`, where they are known already
        self.chance, self.updates, networks = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name),)))
            for name in (b"behaviour", b"updates", b"networks")
        )
        self.learning: Learning = jax.tree.map(jnp.array, run.agent.begin(networks))  # target networks are copies
        self.acting = run.agent.rule.begin(lanes, len(run.names))
        self.replay = memory.empty(run.learner.capacity, run.width, False)
        self.scales = Scales.none(here.size, len(run.names))
        self.learns = False
        self.early: list[np.ndarray] = []  # transitions [lane, column] from before learning starts
        self.rows = np.zeros((run.learner.worlds + lanes, run.width), np.float32)
        self.pending = 0  # rows that wait for a block to be full
        self.losses: Losses | None = None
        self._renew()

    def _renew(self) -> None:
        """What the behaviour looks at: its networks alone, and the weights of the GVFs in the critics' units."""
        critics, actor = self.learning.critics, self.learning.actor
        nothing: Any = None
        lean = critics._replace(q=nothing, target_q=nothing, adam_q=nothing, target_m=nothing, adam_m=nothing)
        actor = actor._replace(adam=nothing, adam_alpha=nothing) if actor is not None else None
        self.eyes = Learning(lean._replace(updates=nothing, seen=nothing), actor)

    def until(self, stop: int) -> None:
        """Steps, until so many transitions were made."""
        step, learn = self.stepper.step, Going.learn
        while self.t < stop:
            self.act()
            self.episodes += step(self, learn)

    def act(self) -> None:
        """Choose an action in every lane."""
        if self.middles is None or self.fresh.any():
            self.middles = self.at(self.stepper.seen_now)
            self.fresh[:] = False
        lanes, run = len(self.state), self.run
        chance = uniforms(self.chance, (lanes, run.agent.act_draws))
        middles = self.middles[:, run.targets.member].reshape(lanes, -1)
        parts = (self.over[:, None], self.scales.scaled(self.state), middles, chance)
        told = np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind")
        self.acting, chosen = run.choose(self.eyes, self.acting, self.weights, told)
        chosen = np.asarray(chosen)
        self.action[:], self.followed[:] = chosen[:, :-1], chosen[:, -1]
        self.over[:] = False

    def at(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies' middle actions at the lanes' observations, [lane, policy, action]."""
        return self.run.targets.each(self.run.here.together(observations))

    @property
    def weights(self) -> np.ndarray:
        """Of the GVFs' variances in the critics' units."""
        return (self.run.weights * self.scales.unit**2).astype(np.float32)

    def learn(self) -> None:
        """Store every lane's transition; with a full block, learn."""
        lanes, run = len(self.state), self.run
        self.middles = self.at(self.stepper.seen_next)
        discounts = self.gamma * self.alive[:, None]
        parts = (self.state, self.action, self.following, self.c, self.middles.reshape(lanes, -1), discounts)
        rows = np.concatenate([*parts, self.followed[:, None]], axis=1, dtype=np.float32, casting="same_kind")
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
        while self.pending >= run.learner.worlds:
            self.absorb()

    def begin_learning(self) -> None:
        """Find the scales and store what was kept aside."""
        c, block = self.run.columns, self.run.learner.worlds
        rows = np.concatenate(self.early)
        self.scales = Scales.found(rows[:, c.observation], rows[:, c.cumulants], rows[:, c.discounts])
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
        block = self.run.learner.worlds
        rows, self.pending = self.scaled(self.rows[:block]), self.pending - block
        run = self.run
        many = uniforms(self.updates, (run.learner.updates, run.learner.batch, 1 + run.agent.learn_draws))
        self.learning, self.replay, self.losses = run.absorb(self.learning, self.replay, rows, self.weights, many)
        self.rows[: self.pending] = self.rows[block : block + self.pending]
        self._renew()

    # --- looking ---------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Stop at a loss that is not finite."""
        for what, losses in (self.losses._asdict() if self.losses else {}).items():
            each = np.atleast_1d(losses)
            bad = np.flatnonzero(~np.isfinite(each))
            if bad.size:
                whose = f"loss of {what.upper()} of {self.run.names[bad[0]]!r}" if what != "actor" else "actor's loss"
                raise Diverged(
                    f"run: the {whose} became {float(each[bad[0]])} before step {self.t} (seed {self.seed}); "
                    "lower the learning rate or look at the signal."
                )

    def answers(self) -> CriticAnswers:
        """The Q critics as they are now."""
        twins = self.learning.critics.q
        weights, biases = (tuple(np.asarray(a) for twin in twins for a in getattr(twin, n)) for n in ("weights", "biases"))
        return CriticAnswers(self.scales, weights, biases, self.run.learner.aggregate == "min")

    def kept(self) -> np.ndarray:
        """The transitions in the replay and before it, their observations not scaled."""
        if not self.learns:
            return np.concatenate(self.early)
        stored = min(int(self.replay.written), len(self.replay.rows))
        rows = np.array(self.replay.rows[:stored])
        part = self.run.columns.observation
        rows[:, part] = rows[:, part] * self.scales.spread + self.scales.centre
        return np.concatenate([rows, self.rows[: self.pending]])

    def tables(self) -> tuple[np.ndarray, ...]:
        """Values, variances, visits, behaviour and standard errors (none) at the points now; visits at the nearest."""
        run, kept = self.run, self.kept()
        seen = kept[:, run.columns.observation]
        if run.points is None:
            self.choose_points(seen)
        points, draws, middles = run.points, run.points_draws, run.points_middles
        assert points is not None and draws is not None and middles is not None
        answers = self.answers()
        values, errors = answers.values(points, draws)
        visits = np.zeros((len(points), len(run.names) + 1), np.int64)
        np.add.at(visits, (self.scales.nearest(seen, points), kept[:, -1].astype(int)), 1)
        chance = uniforms(np.random.default_rng([self.seed, 8]), (len(points), LOOKS, run.agent.act_draws))
        behaviour = run.look(self.eyes, self.weights, self.scales.scaled(points), middles, chance)
        return values, self.variances(points, draws), visits, np.asarray(behaviour, float), errors

    def variances(self, points: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """The returns' estimated variances [gvf, point], or nothing where M is not learnt."""
        m = self.learning.critics.m
        if m is None:
            return np.empty(0)
        around = np.broadcast_to(self.scales.scaled(points)[:, None, None], (*draws.shape[:3], points.shape[1]))
        said = np.asarray(self.run.agent.predict(m, jnp.asarray(around), jnp.asarray(draws)))  # [point, draw, gvf, gvf]
        return said.diagonal(axis1=2, axis2=3).mean(axis=1).T.astype(float) * self.scales.unit[:, None] ** 2

    def choose_points(self, seen: np.ndarray) -> None:
        """Some observations met so far, and the target policies there."""
        from gymnasium.spaces.utils import unflatten

        run = self.run
        chosen = np.random.default_rng([self.seed, 7]).choice(len(seen), min(POINTS, len(seen)), replace=False)
        run.points = seen[np.sort(chosen)]
        batch = run.here.together([unflatten(run.here.space, point) for point in run.points])
        run.points_middles, run.points_draws = run.targets.each(batch)[:, run.targets.member], run.targets(batch)


def uniforms(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers in (-1, 1)."""
    drawn = 2 * generator.random(shape, np.float32) - 1
    return np.maximum(drawn, np.nextafter(np.float32(-1), np.float32(0)), out=drawn)
