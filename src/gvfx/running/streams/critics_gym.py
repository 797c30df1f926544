"""Twin critics for any Gymnasium environment with Box actions, stepped from Python, with the updates of Algorithm 2.

Each step makes one compiled call, which chooses an action in every lane; every `TwinCritics.worlds` transitions, from any
lanes, another call stores them and makes the learner's updates.  Target policies are functions of the user: they are
evaluated once per observation, and their middle actions at s' are stored with the transition, as are its discounts (0 on
termination) and, for multi-step targets, its traces.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.wrappers import Calibrated, no_scales, noted
from gvfx.errors import InputError
from gvfx.evidence.episodes import surprises
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks import retrace
from gvfx.learners.networks.critic_updates import CriticQuestions, log_clipped
from gvfx.learners.networks.learners import TwinCritics
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Gaussians
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import FrozenCritics, TwinQNetworks, drawn_actions, recent
from gvfx.running.stepping import Lanes, SingleStepper, VectorStepper
from gvfx.running.streams.critic_agent import CriticLearning, GVFAgent, WorldSizes, learn_from
from gvfx.running.streams.gym_networks import GymNetworks, SteppedNetworks
from gvfx.worlds.spec import BoxActionSpec

LOOKS = 32  # sampled choices that estimate the behaviour at a point


class CriticsGym(GymNetworks):
    """What the seeds share: the agent's compiled functions and the target policies."""

    spec: BoxActionSpec
    learner: TwinCritics
    has_errors = False

    def __init__(
        self, spec: BoxActionSpec, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0
    ) -> None:
        behaviour, learner = method
        if learner.lookahead:
            raise InputError("lookahead: only Walker and Cheetah have a learned model of their dynamics; leave it at 0.")
        if learner.layer_norm:
            raise InputError("layer_norm: Gymnasium environments have critics without layer normalisation; leave it False.")
        super().__init__(spec, questions, method, options, share)
        self.targets = Gaussians(questions, spec)
        gvfs = len(self.names)
        asked = CriticQuestions(
            jnp.zeros(0), tuple(range(gvfs)), jnp.asarray(self.targets.sigmas), tuple(self.targets.member.tolist())
        )
        sizes = WorldSizes(spec.size, spec.actions, self.names)
        self.agent = GVFAgent(sizes, (), asked, jnp.ones(gvfs), behaviour, learner, self.plan.steps + self.logged, varying=True)
        self.columns = self.agent.columns
        self.lane = self.columns.width if spec.lanes > 1 else -1  # the column with the lane, if there are several
        self.counted = self.columns.width + (spec.lanes > 1)  # the last column: the policy followed
        self.width = self.counted + 1
        self.block = learner.worlds
        self.inputs = list(accumulate((1, spec.size, gvfs * spec.actions, self.agent.act_draws), initial=0))
        self.choose = jax.jit(self._choose)
        self.absorb = jax.jit(self._absorb, donate_argnums=(0, 1))
        self.refresh = jax.jit(self._refresh, donate_argnums=2)
        self.look = jax.jit(self._look)
        self.squares = jax.jit(self._squares)
        self.points_middles = np.empty(0)  # [point, gvf, action]
        self.points_draws = np.empty(0)  # [point, draw, gvf, action]

    def _choose(self, learning: CriticLearning, acting: Any, weights: jax.Array, given: jax.Array) -> tuple[Any, jax.Array]:
        """The new acting state, and actions with the index of the policy that each lane follows and the traces of an actor's
        actions [lane, action + 1 + trace]; given [lane, ...] is the input that `SteppedCritics.act` concatenates, because every
        separate argument costs time.  Without an actor traces are faster in NumPy."""
        a, b, c, d = (given[:, low:high] for low, high in pairwise(self.inputs))
        middles = c.reshape(len(given), len(self.names), -1)
        acting, action, which, traces = self.agent.weighing(weights).choose(learning, acting, d, b, middles, a[:, 0] > 0)
        shown = traces if self.agent.actor is not None else traces[:, :0]
        return acting, jnp.concatenate([action, self._kinds(which)[:, None], shown], axis=1)

    def _kinds(self, which: jax.Array) -> jax.Array:
        """The policies followed, with the number of GVFs for all actions of the behaviour's own."""
        return jnp.minimum(which, len(self.names))

    def _absorb(
        self,
        learning: CriticLearning,
        replay: memory.Replay,
        rows: jax.Array,
        weights: Any,
        many: jax.Array,
        aims: retrace.RetraceTargets | None,
    ) -> Any:
        """Store a block of transitions and learn; `many` are random numbers from NumPy, which saves compilation."""
        replay = memory.write(replay, rows)
        agent = self.agent.weighing(weights)
        learning, losses = learn_from(agent, agent.see(learning, rows), replay, many, aims)
        return learning, replay, losses

    def _refresh(
        self, learning: CriticLearning, replay: memory.Replay, aims: retrace.RetraceTargets, words: jax.Array
    ) -> retrace.RetraceTargets:
        """The stored transitions' targets, computed anew; words: the words of a random key."""
        key, lanes = jax.random.wrap_key_data(words), self.spec.lanes
        return retrace.refreshed(self.agent.critics, learning.critics, replay, aims, key, lanes, self.lane)

    def _look(self, learning: CriticLearning, weights: Any, seen: Any, middles: Any, chance: Any) -> jax.Array:
        """How often a lane that begins at each point follows each policy, [point, gvf + 1]; chance [point, look, draw]."""
        agent, gvfs = self.agent.weighing(weights), len(self.names)

        def one(seen: jax.Array, middles: jax.Array, chance: jax.Array) -> jax.Array:
            many = [jnp.broadcast_to(x, (LOOKS, *x.shape)) for x in (seen, middles)]
            begun = agent.rule.begin(LOOKS, gvfs)
            _, _, which, _ = agent.choose(learning, begun, chance, many[0], many[1], jnp.zeros(LOOKS, bool))
            return (self._kinds(which)[:, None] == jnp.arange(gvfs + 1)).mean(axis=0)

        return jax.vmap(one)(seen, middles, chance)

    def _squares(self, learning: CriticLearning, rows: jax.Array) -> jax.Array:
        """The mean square values at the observations after transitions, in the critics' units, [gvf]."""
        c, critics, n = self.columns, learning.critics, len(rows)
        middles = rows[:, c.notes].reshape(n, -1, self.spec.actions)[:, self.targets.member].clip(-1, 1)
        around = jnp.broadcast_to(rows[:, None, c.following], (*middles.shape[:2], self.spec.size))
        found = self.agent.predict(critics.q, critics, around, middles)  # [n, gvf of the action, gvf]
        return (jnp.diagonal(found, axis1=1, axis2=2) ** 2).mean(axis=0)

    def actor(self, seed: int, source: SingleStepper | VectorStepper) -> SteppedCritics:
        return SteppedCritics(self, seed, source)

    def policies(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies' middle actions at observations, [observation, policy, action]."""
        return self.targets.each(self.spec.together(observations))

    def note_targets(self, observations: list[Any]) -> None:
        batch = self.spec.together(observations)
        self.points_middles, self.points_draws = self.targets.each(batch)[:, self.targets.member], self.targets(batch)


class SteppedCritics(SteppedNetworks):
    """One seed."""

    run: CriticsGym
    kept: ClassVar = {
        **SteppedNetworks.kept,
        **{name: f"generator:{k}" for k, name in enumerate(("chance", "updates", "reader.noise"))},
        "acting": "acting:",
        "aims": "aims:",
        "calibration": "calibration",
    }

    def __init__(self, run: CriticsGym, seed: int, source: SingleStepper | VectorStepper) -> None:
        lanes = run.spec.lanes
        action = np.zeros((lanes, run.spec.actions), np.float32)  # within [-1, 1]
        super().__init__(run, seed, source, run.learner.worlds, False, action)
        self.followed = np.zeros(lanes, np.float32)
        self.traces = np.zeros((lanes, run.agent.traces), np.float32)
        self.first = np.ones(lanes, bool)  # the lane's next transition is the first of an episode
        self.numbers = np.arange(lanes, dtype=np.float32)[:, None] if run.lane >= 0 else np.zeros((lanes, 0), np.float32)
        self.middles: np.ndarray | None = None  # [lane, policy, action] at `state`, if already known
        self.chance, self.updates, networks = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name),)))
            for name in (b"behaviour", b"updates", b"networks")
        )
        self.learning: CriticLearning = jax.tree.map(jnp.array, run.agent.begin(networks))  # target networks are copies
        self.acting = run.agent.rule.begin(lanes, len(run.names))
        self.aims = run.agent.begin_aims()
        self.refreshed = 0  # transitions stored when their targets were computed
        reads = run.calibrated and run.behaviour.needs_variance
        self.calibration = no_scales(len(run.names), np) if reads else None  # which the behaviour's weights are divided by
        self.renew()

    def renew(self) -> None:
        """Keep only the networks that the behaviour uses."""
        critics, actor = self.learning.critics, self.learning.actor
        nothing: Any = None
        lean = critics._replace(q=nothing, target_q=nothing, adam_q=nothing, target_m=nothing, adam_m=nothing)
        actor = actor._replace(adam=nothing, adam_alpha=nothing) if actor is not None else None
        self.eyes = CriticLearning(lean._replace(updates=nothing, seen=nothing), actor)

    def act(self, at: Lanes) -> None:
        run = self.run
        if self.middles is None or at.fresh.any():
            self.middles = run.policies(self.source.seen_now)
            self.note_starts()
        lanes = len(at.state)
        chance = uniforms(self.chance, (lanes, run.agent.act_draws))
        middles = self.middles[:, run.targets.member].reshape(lanes, -1)
        parts = (self.over[:, None], self.scales.scaled(at.state), middles, chance)
        given = np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind")
        self.acting, chosen = run.choose(self.eyes, self.acting, self.weights, given)
        chosen = np.asarray(chosen)
        size = run.spec.actions
        at.action[:], self.followed[:] = chosen[:, :size], chosen[:, size]
        if self.traces.size:
            own = run.agent.actor is not None
            self.traces[:] = chosen[:, size + 1 :] if own else traces(run.targets, self.middles, at.action, self.followed)
        self.first |= self.over
        self.over[:] = False

    def heed(self, at: Lanes, begins: bool, probability: float | None) -> None:
        """Traces are 0, because whoever chose may have been likelier to do so than the question's policy."""
        self.note_starts()
        self.followed[0], self.traces[0] = len(self.run.names), 0.0
        self.first |= self.over
        self.over[:] = False

    @property
    def weights(self) -> np.ndarray:
        """The weights of the GVFs' variances in the critics' units."""
        factor = 1.0 if self.calibration is None else self.calibration.factor
        return (self.run.weights * factor * self.scales.unit**2).astype(np.float32)

    def learn(self, at: Lanes) -> None:
        lanes = len(at.state)
        self.middles = self.run.policies(self.source.seen_next)
        discounts = at.gamma * at.alive[:, None]
        if self.first.any():
            self.traces[self.first] = 0
            self.first &= ~at.counts  # a reset is no transition
        parts = (at.state, at.action, at.following, at.c, self.middles.reshape(lanes, -1), discounts, self.traces)
        rows = np.concatenate([*parts, self.numbers, self.followed[:, None]], axis=1, dtype=np.float32, casting="same_kind")
        if not at.counts.all():
            rows = rows[at.counts]
        self.over |= at.ended
        self.rows[self.pending : self.pending + len(rows)] = rows
        self.collected(len(rows))

    # --- episodes of target policies -----------------------------------------------------------------------------------

    @property
    def notes(self) -> np.ndarray:
        assert self.middles is not None
        return self.middles

    def choose_as(self, lane: int, policy: int, rng: np.random.Generator) -> np.ndarray:
        at, targets, middles = self.lanes, self.run.targets, self.notes
        at.action[lane] = drawn_actions(middles[lane, policy], targets.spreads[policy], rng, at.action[lane].shape)
        self.followed[lane] = targets.member.tolist().index(policy)
        if self.traces.size:
            self.traces[lane] = traces(targets, middles[[lane]], at.action[[lane]], self.followed[[lane]])
        return at.action[lane].copy()

    def freeze(self) -> FrozenCritics:
        run, network, rows = self.run, self.network(), recent(self.stored())
        c, following = run.columns, rows[:, run.columns.following]
        middles = rows[:, c.notes].reshape(len(rows), -1, run.spec.actions)[:, run.targets.member].clip(-1, 1)
        after = np.stack([network.at_scaled(following, middles[:, i])[:, i] for i in range(len(run.names))], axis=1)
        taken = network.at_scaled(rows[:, c.observation], rows[:, c.action])
        errors = rows[:, c.cumulants] * self.scales.unit + rows[:, c.discounts] * after - taken
        return FrozenCritics(network.at, run.targets.spreads, surprises(errors))

    # --- learning ----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        agent, rows = self.run.agent, np.concatenate([self.stored(), self.scaled(self.rows[: self.pending])])
        self.learning = agent.see(agent.prepare(self.learning, rows), jnp.asarray(rows))

    def absorb_rows(self, rows: np.ndarray) -> None:
        run = self.run
        many = uniforms(self.updates, (run.learner.updates, run.learner.batch, 1 + run.agent.learn_draws))
        before = self.made - self.pending - self.together  # transitions stored
        if self.aims is not None and not before:
            self.replay = run.store(self.replay, rows)  # none of them has a target yet
            return
        if self.aims is not None and retrace.is_due(run.learner, before, self.refreshed):
            words = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(b"targets"), before)).generate_state(2)
            self.aims, self.refreshed = run.refresh(self.learning, self.replay, self.aims, words), before
        self.learning, self.replay, self.losses = run.absorb(self.learning, self.replay, rows, self.weights, many, self.aims)
        if self.calibration is not None:
            squares = np.asarray(run.squares(self.learning, rows)) * self.scales.unit**2
            self.calibration = noted(self.calibration, squares, len(rows), Calibrated.rate, np)

    def network(self) -> TwinQNetworks:
        critics, learner = self.learning.critics, self.run.learner
        twins = critics.target_q if learner.averaged else critics.q
        weights, biases = (tuple(np.asarray(a) for twin in twins for a in getattr(twin, n)) for n in ("weights", "biases"))
        return TwinQNetworks(
            self.scales, weights, biases, learner.aggregate == "min", within=self.within(), origin=self.spec.origin.at
        )

    def answers(self, points: np.ndarray) -> tuple[np.ndarray, ...]:
        run, draws = self.run, self.run.points_draws
        values, errors = self.network().values(points, draws)
        chance = uniforms(np.random.default_rng([self.seed, 8]), (len(points), LOOKS, run.agent.act_draws))
        behaviour = run.look(self.eyes, self.weights, self.scales.scaled(points), run.points_middles, chance)
        return values, self.variances(points, draws), np.asarray(behaviour, float), errors

    def variances(self, points: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """The returns' estimated variances [gvf, point], or empty if M is not learned."""
        critics = self.learning.critics
        if critics.m is None:
            return np.empty(0)
        around = np.broadcast_to(self.scales.scaled(points)[:, None, None], (*draws.shape[:3], points.shape[1]))
        found = self.run.agent.predict(critics.m, critics, jnp.asarray(around), jnp.asarray(draws), 2)  # [point, draw, gvf, gvf]
        return np.asarray(found).diagonal(axis1=2, axis2=3).mean(axis=1).T.astype(float) * self.scales.unit[:, None] ** 2

    def restored(self) -> None:
        self.refreshed = 0 if self.aims is None else int(self.aims.until)
        self.renew()


def traces(targets: Gaussians, middles: np.ndarray, actions: np.ndarray, followed: np.ndarray) -> np.ndarray:
    """min(1, pi_i(a|s) / mu(a|s)) [lane, gvf] of actions [lane, a], where mu is the followed GVF's policy [lane], or uniform from
    the number of GVFs on; middles [lane, policy, a]."""
    log = log_clipped(middles, targets.spreads, actions[:, None])[:, targets.member]
    uniform = np.full((len(log), 1), -actions.shape[1] * math.log(2))
    mu = np.concatenate([log, uniform], axis=1)[np.arange(len(log)), followed.astype(int)]
    return np.exp(np.minimum(log - mu[:, None], 0.0))


def uniforms(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers in (-1, 1)."""
    drawn = 2 * generator.random(shape, np.float32) - 1
    return np.maximum(drawn, np.nextafter(np.float32(-1), np.float32(0)), out=drawn)
