"""Networks for any Gymnasium environment with Discrete actions, stepped from Python, with the updates of the scanned loop.

Each step makes one compiled call, which chooses the actions (`gvfx.running.streams.deciding`); every TOGETHER blocks of
transitions (`Deep.block`) another call stores them and learns, block by block.  Target policies are functions of the user:
they are evaluated once per observation, and their probabilities are stored with the transition.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import Calibrated
from gvfx.kernel import whole
from gvfx.learners.networks import replay as memory
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.deep_updates import Batch, DeepLearning, DeepUpdates
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import ConstantPolicy
from gvfx.questions.reader import Targets
from gvfx.questions.where import EVERYWHERE, Where
from gvfx.rng import seed_streams
from gvfx.running.checkpoint import prefixed, unprefixed
from gvfx.running.frozen import FrozenActions, Nearby, drawn_action, layers, recent
from gvfx.running.gym_stepper import Lanes
from gvfx.running.plan import Plan
from gvfx.running.predictor import QNetwork
from gvfx.running.streams.deciding import Decider, TracedDecider
from gvfx.running.streams.gym_networks import GymNetworks, SteppedNetworks
from gvfx.running.streams.scanned_loop import named_keys
from gvfx.worlds.spec import BoxSpec

TOGETHER = 8  # blocks that are learned from in one call


class NetworkColumns(NamedTuple):
    """The columns of a transition's parts in a row."""

    observation: slice
    following: slice
    cumulants: slice
    discounts: slice
    action: slice
    pi: slice  # the distinct target policies at `following`, [action, policy]
    shares: slice
    width: int


def network_columns(size: int, actions: int, gvfs: int, policies: int, heads: int) -> NetworkColumns:
    ends = list(accumulate((size, size, gvfs, gvfs, 1, actions * policies, heads), initial=0))
    parts = [slice(low, high) for low, high in pairwise(ends)]
    observation, following, cumulants, discounts, action, pi, shares = parts
    return NetworkColumns(observation, following, cumulants, discounts, action, pi, shares, ends[-1])


@whole
def keep(rows, at, state, action, following, c, gamma, alive, pi, ended, counts, over):
    """Write the lanes' transitions into rows from `at` on, in the layout of `NetworkColumns` without the shares, and mark
    ended episodes in `over`; returns the number of rows written."""
    lanes, size = state.shape
    gvfs, made = c.shape[1], 0
    for k in range(lanes):
        over[k] |= ended[k]
        if not counts[k]:
            continue
        row = rows[at + made]
        for i in range(size):
            row[i] = state[k, i]
            row[size + i] = following[k, i]
        for i in range(gvfs):
            row[2 * size + i] = c[k, i]
            row[2 * size + gvfs + i] = gamma[k, i] * alive[k]
        place = 2 * (size + gvfs)
        row[place] = action[k]
        for a in range(pi.shape[1]):
            for p in range(pi.shape[2]):
                row[place + 1 + a * pi.shape[2] + p] = pi[k, a, p]
        made += 1
    return made


class NetworkGym(GymNetworks):
    """What the seeds share: the layout of a row, the updates, the target policies."""

    learner: Deep
    has_errors = True

    def __init__(
        self,
        spec: BoxSpec,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: Deep,
        plan: Plan,
        calibrate: bool = False,
        where: Where = EVERYWHERE,
        audit: float = 0.0,
    ) -> None:
        super().__init__(spec, questions, behaviour, learner, plan, where, audit)
        self.calibrated = calibrate
        self.targets = Targets(questions, spec.actions)
        rule = behaviour.network_rule()
        sizes = (spec.size, spec.actions, len(self.names))
        self.columns = network_columns(*sizes, len(self.targets.distinct), learner.heads)
        self.width, self.counted, self.block = self.columns.width, self.columns.action.start, learner.block
        intrinsic = rule.probabilities if behaviour.needs_intrinsic else None
        self.updates = DeepUpdates(learner, sizes, plan.steps, self._parts, behaviour.needs_variance, intrinsic)
        self.member = jnp.asarray(self.targets.member)
        self.arrays = spec.space.shape is not None  # whether policies get batches of observations as arrays
        self.constant: np.ndarray | None = None  # [lane, action, policy] if no policy depends on the observation
        if all(isinstance(policy, ConstantPolicy) for policy in self.targets.distinct):
            self.constant = np.stack(self.targets.each(np.zeros(spec.lanes)), axis=-1).astype(np.float32)
        self.absorb = jax.jit(self._absorb, donate_argnums=(0, 1))
        self.squares = jax.jit(self.updates.squares)
        self.points_pi = np.empty(0)  # [point, action, policy]

    def _parts(self, rows: jax.Array) -> Batch:
        c, actions = self.columns, self.spec.actions
        pi = rows[:, c.pi].reshape(len(rows), actions, -1)[:, :, self.member]
        action = rows[:, c.action][:, 0].astype(jnp.int32)
        shares = rows[:, c.shares] if self.learner.heads else None
        return Batch(rows[:, c.observation], action, rows[:, c.following], rows[:, c.cumulants], rows[:, c.discounts], pi, shares)

    def _absorb(self, learning: DeepLearning, replay: memory.Replay, blocks: jax.Array, key: jax.Array, t: Any) -> Any:
        """Store blocks of transitions [block, row, column], the last of which ends at step t, and learn after each."""
        size = blocks.shape[1]

        def one(now: Any, block: Any) -> Any:
            (learning, replay), (rows, done) = now, block
            replay = memory.write(replay, rows)
            learning, replay, losses = self.updates.learn(done, learning, replay, jax.random.fold_in(key, done))
            return (self.updates.renewed(learning, done - size, done), replay), losses

        ends = t - size * jnp.arange(len(blocks))[::-1]
        (learning, replay), losses = jax.lax.scan(one, (learning, replay), (blocks, ends))
        return learning, replay, jax.tree.map(lambda each: each.sum(axis=0), losses)

    def begin(self, seed: int) -> SteppedNetwork:
        return SteppedNetwork(self, seed)

    def policies(self, observations: list[Any]) -> np.ndarray:
        """The distinct target policies at observations, [observation, action, policy]."""
        if self.constant is not None and len(observations) == len(self.constant):
            return self.constant
        batch = np.array(observations) if self.arrays else list(observations)
        ready = self.targets.prepared
        each = [policy.at(batch, self.spec.actions, field) for policy, field in ready] if ready else self.targets.each(batch)
        return np.stack(each, axis=-1).astype(np.float32)

    def note_targets(self, observations: list[Any]) -> None:
        self.points_pi = self.policies(observations)


class SteppedNetwork(SteppedNetworks):
    """One seed."""

    run: NetworkGym

    def __init__(self, run: NetworkGym, seed: int) -> None:
        spec, lanes = run.spec, run.spec.lanes
        super().__init__(run, seed, TOGETHER * run.learner.block, run.updates.prioritised, np.zeros(lanes, np.int64))
        self.pi: np.ndarray | None = None  # [lane, action, policy] at `state`, if already known
        self.bootstrap = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(b"bootstrap"),)))
        keys = named_keys(seed)
        self.replay_key = keys[3]
        self.learning: DeepLearning = jax.jit(run.updates.begin)(jax.random.split(keys[4], 4))
        kind = TracedDecider if run.behaviour.needs_intrinsic else Decider
        self.decider = kind(run.behaviour, run.weights, spec.actions, run.targets.member, seed_streams(seed), lanes)
        self.renew()

    def renew(self) -> None:
        self.decider.learned(self.learning, self.scales)

    def act(self) -> None:
        at = self.lanes
        if self.pi is None or np.count_nonzero(at.fresh):
            self.pi = self.run.policies(self.stepper.seen_now)
            self.note_starts()
        self.decider.act(self.t, at.state, self.pi, self.over, at.action)
        self.over[:] = False

    def learn(self, at: Lanes) -> None:
        self.pi = self.run.policies(self.stepper.seen_next)
        seen, signals = (at.state, at.action, at.following), (at.c, at.gamma, at.alive)
        made = keep(self.rows, self.pending, *seen, *signals, self.pi, at.ended, at.counts, self.over)
        self.t += made
        if not self.learns:
            self.set_aside(self.rows[:made].copy())
            return
        self.pending += made
        while self.pending >= self.together:
            self.absorb()

    # --- audits ------------------------------------------------------------------------------------------------------

    def take(self, lane: int, policy: int, rng: np.random.Generator) -> tuple[Any, int]:
        assert self.pi is not None
        action = drawn_action(self.pi[lane, :, policy], rng)
        self.lanes.action[lane] = action
        return (self.lanes.state[lane].copy(), self.pi[lane].copy()), action

    def arrived(self, lane: int) -> Any:
        assert self.pi is not None
        return self.lanes.following[lane].copy(), self.pi[lane].copy()

    def at_starts(self, observations: list[Any]) -> list[Any]:
        return list(zip(map(self.run.spec.seen, observations), self.run.policies(observations), strict=True))

    def freeze(self) -> FrozenActions:
        run, network, rows = self.run, self.network(), recent(self.stored())
        c, unit, gvfs = run.columns, self.scales.unit, len(run.names)
        values = layers(network.weights, network.biases, network.frequencies)
        within, scales, actions = network.within, self.scales, run.spec.actions

        def scaled_values(x: np.ndarray) -> np.ndarray:
            q = values(x).reshape(len(x), actions, -1, gvfs)[:, :, 0] * unit
            return q if within is None else within.clipped(q)

        pi = rows[:, c.pi].reshape(len(rows), actions, -1)[:, :, run.targets.member]
        following = np.einsum("nai,nai->ni", scaled_values(rows[:, c.following]), pi)
        taken = scaled_values(rows[:, c.observation])[np.arange(len(rows)), rows[:, c.action][:, 0].astype(int)]
        errors = rows[:, c.cumulants] * unit + rows[:, c.discounts] * following - taken
        nearby = Nearby(scales.unscaled(rows[:, c.observation]), errors)
        return FrozenActions(lambda observations: scaled_values(scales.scaled(observations)), nearby)

    # --- learning ----------------------------------------------------------------------------------------------------

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Scaled rows, with the weight of each row for the bootstrapped heads."""
        out = super().scaled(rows)
        if self.run.learner.heads:
            out[:, self.run.columns.shares] = 2.0 * self.bootstrap.integers(0, 2, (len(rows), self.run.learner.heads))
        return out

    def absorb_rows(self, rows: np.ndarray) -> None:
        blocks, done = rows.reshape(TOGETHER, -1, rows.shape[1]), self.t - self.pending
        self.learning, self.replay, self.losses = self.run.absorb(self.learning, self.replay, blocks, self.replay_key, done)
        if isinstance(self.run.behaviour, Calibrated):
            self.decider.note(np.asarray(self.run.squares(self.learning, rows)) * self.scales.unit**2, len(rows))

    def network(self) -> QNetwork:
        q = self.learning.q
        weights, biases = (tuple(np.asarray(a) for a in part) for part in (q.weights, q.biases))
        return QNetwork(self.scales, weights, biases, np.asarray(q.frequencies), self.run.spec.actions, self.within())

    def answers(self, points: np.ndarray) -> tuple[np.ndarray, ...]:
        run = self.run
        pi = run.points_pi[:, :, run.targets.member]
        values, errors = self.network().values(points, pi)
        variances = np.empty(0)
        if run.behaviour.needs_variance:
            m = np.asarray(self.learning.m(jnp.asarray(self.scales.scaled(points)))).astype(float) * self.scales.unit**2
            variances = np.einsum("nai,nai->in", pi, m)
        return values, variances, self.decider.probabilities(self.t, points, run.points_pi), errors

    def generators(self) -> tuple[np.random.Generator, ...]:
        return (self.bootstrap,)

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | prefixed("decider", self.decider.state())

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(arrays)
        self.decider.restore(unprefixed("decider", arrays))
