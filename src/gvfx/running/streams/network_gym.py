"""Networks for any Gymnasium environment with Discrete actions, stepped from Python, with the updates of the scanned loop.

Each step makes one compiled call, which chooses the actions (`gvfx.running.streams.network_gym`); every TOGETHER blocks of
transitions (`Deep.block`) another call stores them and learns, block by block.  Target policies are functions of the user:
they are evaluated once per observation, and their probabilities are stored with the transition.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.wrappers import Calibrated
from gvfx.compilation.networks import named_keys
from gvfx.evidence.episodes import surprises
from gvfx.kernel import BehaviourRule, Sizes, piece, whole
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks.deep_updates import Batch, DeepLearning, DeepUpdates
from gvfx.learners.networks.learners import Deep
from gvfx.questions.gvf import GVF, Stacked
from gvfx.rng import BEHAVIOUR, choose, seed_streams, uniform
from gvfx.running.checkpoint import Stored
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import LIMIT, FrozenActions, QNetwork, Scales, recent
from gvfx.running.stepping import Lanes, SingleStepper, VectorStepper
from gvfx.running.streams.gym_networks import GymNetworks, SteppedNetworks
from gvfx.running.streams.gym_stream import PoliciesAt, choose_numbered
from gvfx.worlds.mdp import Unseen
from gvfx.worlds.spec import BoxSpec

# --- Choosing actions with networks in an environment stepped from Python -------------------------------------------
# `Decider` makes one numba call per step: M's network, the behaviour's rule for tables, and a draw; a JAX call per step would
# cost more than the learning.  `TracedDecider` uses JAX, for behaviours with an intrinsic value on networks
# (SuccessorRepresentation).


class Shape(NamedTuple):
    """The shape of a network (`gvfx.learners.networks.heads.Heads`) in one array: each layer's weights, then its biases."""

    widths: tuple[int, ...]  # the inputs' and every layer's
    waves: int
    exponential: bool = False

    @classmethod
    def of(cls, network: Any) -> Shape:
        widths = (len(network.weights[0]), *map(len, network.biases))
        return cls(widths, network.frequencies.shape[1], network.exponential)


class Net(NamedTuple):
    """A variance network in the form that compiled functions read."""

    parameters: np.ndarray  # all layers
    frequencies: np.ndarray  # [o, wave]
    scales: np.ndarray  # [2, o] centre and spread
    square: np.ndarray  # [gvf] squares of the units, which convert variances to cumulant units
    layers: np.ndarray  # [2, width] the layers' outputs, alternating


def as_net(network: Any, scales: Scales) -> Net:
    layers = zip(network.weights, network.biases, strict=True)
    return Net(
        parameters=np.concatenate([np.asarray(part).ravel() for layer in layers for part in layer]),
        frequencies=np.array(network.frequencies),
        scales=np.stack([scales.centre, scales.spread]),
        square=scales.unit**2,
        layers=np.zeros((2, max(Shape.of(network).widths)), np.float32),
    )


@cache
def _forward(shape: Shape) -> Callable[..., Any]:
    """Evaluates the network at an observation; the last of its `depth` layers is in layers[depth % 2]."""
    widths, waves, _ = shape
    size, depth = widths[0] - 2 * waves, len(widths) - 1
    ends = np.cumsum([(widths[k] + 1) * widths[k + 1] for k in range(depth)])

    @piece
    def forward(net, observation):
        x, y = net.layers[0], net.layers[1]
        for i in range(size):
            x[i] = min(max((observation[i] - net.scales[0, i]) / net.scales[1, i], -LIMIT), LIMIT)
        for k in range(waves):
            turns = np.float32(0.0)
            for i in range(size):
                turns += x[i] * net.frequencies[i, k]
            x[size + k] = 4 * abs(turns - math.floor(turns) - 0.5) - 1
            turns += np.float32(0.25)
            x[size + waves + k] = 4 * abs(turns - math.floor(turns) - 0.5) - 1
        at = 0
        for k in range(depth):
            bias = ends[k] - widths[k + 1]
            for j in range(widths[k + 1]):
                y[j] = net.parameters[bias + j]
            for i in range(widths[k]):
                for j in range(widths[k + 1]):
                    y[j] += x[i] * net.parameters[at + j]
                at += widths[k + 1]
            at = ends[k]
            if k < depth - 1:
                for j in range(widths[k + 1]):
                    y[j] = max(y[j], np.float32(0.0))
            x, y = y, x

    return forward


@cache
def _compiled(rule: BehaviourRule, sizes: Sizes, shape: Shape | None) -> tuple[Callable[..., int], Callable[..., None]]:
    """The functions `decide` and `episode_end`; shape: of the variance network, if the behaviour uses it."""
    probabilities, end, (gvfs, actions) = rule.probabilities, rule.episode_end, sizes
    forward, depth = (_forward(shape), len(shape.widths) - 1) if shape else (None, 0)
    exponential = shape is not None and shape.exponential

    @whole
    def decide(state, net, t, observation, distinct, member, given, mu, rng):
        pi, m = given[0], given[1]
        for a in range(actions):
            for i in range(gvfs):
                pi[a, i] = distinct[a, member[i]]
        if forward is not None:
            forward(net, observation)
            y = net.layers[depth % 2]
            for a in range(actions):
                for i in range(gvfs):
                    z = y[a * gvfs + i]
                    variance = math.exp(z) if exponential else max(z, 0.0) + math.log1p(math.exp(-abs(z)))  # or softplus
                    m[a, i] = net.square[i] * variance
        probabilities(state, t, 0, 0, pi, m, mu)
        return choose(mu, actions, uniform(rng, BEHAVIOUR))

    @whole
    def episode_end(state, t, rng):
        end(state, t, rng)

    return decide, episode_end


class Decider(Stored):
    """Chooses actions by a behaviour, which has its own state in every lane."""

    kept: ClassVar = {"states": "0", "rng": "1"}

    def __init__(self, run: NetworkGym, seed: int):
        self.behaviour, self.variance = run.behaviour, bool(run.behaviour.needs_variance)
        actions, row = run.spec.actions, Unseen(1, run.spec.actions)
        self.sizes = Sizes(len(run.names), actions)
        self.rule, asked = self.behaviour.rule(self.sizes), Stacked.of_transitions(run.asked, 1, actions)
        self.states = [self.behaviour.begin(asked, row) for _ in range(run.spec.lanes)]
        self.member, self.rng, self.mu = run.targets.member, seed_streams(seed), np.zeros(actions)
        self.given = np.zeros((2, *self.sizes[::-1]))  # pi and M at an observation
        self.net: Net | None = None

    def learned(self, learning: Any, scales: Scales) -> None:
        """Use the current networks from now on."""
        if self.net is None or self.variance:
            self.net = as_net(learning.m, scales)
            self.decide, self.end = _compiled(self.rule, self.sizes, Shape.of(learning.m) if self.variance else None)

    def note(self, squares: np.ndarray, steps: int) -> None:
        """Tell a calibrated behaviour the mean square values [gvf] of the last steps."""
        for state in self.states:
            cast(Calibrated, self.behaviour).note(state, squares, steps)

    def act(self, t: int, observations: np.ndarray, pi: np.ndarray, over: np.ndarray, action: np.ndarray) -> None:
        """Write an action [lane] for observations [lane, o] with policies pi [lane, action, policy]; `over` [lane] marks
        episodes that have ended since the last call."""
        for k, state in enumerate(self.states):
            if over[k]:
                self.end(state, t, self.rng)
            action[k] = self.decide(state, self.net, t, observations[k], pi[k], self.member, self.given, self.mu, self.rng)

    def probabilities(self, t: int, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """mu [point, action] of the first lane's behaviour."""
        out, rng = [], self.rng.copy()
        for observation, each in zip(observations, pi, strict=True):
            self.decide(self.states[0], self.net, t, observation, each, self.member, self.given, self.mu, rng)
            out.append(self.mu.copy())
        return np.array(out)


class TracedDecider(Stored):
    """The same through JAX, with the intrinsic value."""

    kept: ClassVar = {"acting": "acting:", "rng": "rng"}

    def __init__(self, run: NetworkGym, seed: int):
        behaviour, lanes = run.behaviour, run.spec.lanes
        self.behaviour, self.rng, self.member, self.actions = behaviour, seed_streams(seed), run.targets.member, run.spec.actions
        rule, needs_variance = behaviour.network_rule(), behaviour.needs_variance
        begun = rule.begin(jnp.asarray(run.weights, jnp.float32))
        self.acting = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *jnp.shape(leaf))), begun)

        def one(m: Any, value: Any, unit: Any, t: Any, acting: Any, seen: Any, pi: Any, ended: Any) -> Any:
            after = rule.episode_end(acting)
            acting = jax.tree.map(lambda new, old: jnp.where(ended, new, old), after, acting)
            variance = m(seen) * unit**2 if needs_variance else pi
            return acting, rule.probabilities(acting, t, pi, variance, value(seen)[..., 0])

        self.ask = jax.jit(jax.vmap(one, in_axes=(None, None, None, None, 0, 0, 0, 0)))

    def learned(self, learning: Any, scales: Scales) -> None:
        self.learning, self.scales = learning, scales

    def note(self, squares: np.ndarray, steps: int) -> None:
        given = jnp.asarray(squares, jnp.float32)
        self.acting = jax.vmap(lambda state: cast(Calibrated, self.behaviour).noted(state, given, steps))(self.acting)

    def _asked(self, t: int, acting: Any, observations: np.ndarray, pi: np.ndarray, over: np.ndarray) -> tuple[Any, np.ndarray]:
        m, value = self.learning.m, self.learning.intrinsic.value
        seen = self.scales.scaled(observations)
        acting, mu = self.ask(m, value, self.scales.unit, t, acting, seen, pi[:, :, self.member], over)
        return acting, np.asarray(mu).astype(float)

    def act(self, t: int, observations: np.ndarray, pi: np.ndarray, over: np.ndarray, action: np.ndarray) -> None:
        self.acting, mu = self._asked(t, self.acting, observations, pi, over)
        action[:] = [choose(row, self.actions, uniform(self.rng, BEHAVIOUR)) for row in mu]

    def probabilities(self, t: int, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        acting = jax.tree.map(lambda leaf: leaf[:1].repeat(len(pi), axis=0), self.acting)
        return self._asked(t, acting, observations, pi, np.zeros(len(pi), bool))[1]


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

    def __init__(self, spec: BoxSpec, questions: Sequence[GVF], method: Method, options: Options, share: float = 0.0) -> None:
        super().__init__(spec, questions, method, options, share)
        behaviour, learner, self.heads = self.behaviour, self.learner, self.learner.heads
        self.policies = PoliciesAt(questions, spec, np.float32)
        self.targets = self.policies.targets
        rule = behaviour.network_rule()
        sizes = (spec.size, spec.actions, len(self.names))
        self.columns = network_columns(*sizes, len(self.targets.distinct), learner.heads)
        self.width, self.counted, self.block = self.columns.width, self.columns.action.start, learner.block
        intrinsic = rule.probabilities if behaviour.needs_intrinsic else None
        self.updates = DeepUpdates(
            learner, sizes, self.plan.steps + self.logged, self._parts, behaviour.needs_variance, intrinsic
        )
        self.member = jnp.asarray(self.targets.member)
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

    def actor(self, seed: int, source: SingleStepper | VectorStepper) -> SteppedNetwork:
        return SteppedNetwork(self, seed, source)

    def note_targets(self, observations: list[Any]) -> None:
        self.points_pi = self.policies(observations)


class SteppedNetwork(SteppedNetworks):
    """One seed."""

    run: NetworkGym
    kept: ClassVar = {
        **SteppedNetworks.kept,
        "bootstrap": "generator:0",
        "reader.noise": "generator:1",
        "decider": "decider:",
    }

    def __init__(self, run: NetworkGym, seed: int, source: SingleStepper | VectorStepper) -> None:
        actions = np.zeros(run.spec.lanes, np.int64)
        super().__init__(run, seed, source, TOGETHER * run.learner.block, run.updates.prioritised, actions)
        self.pi: np.ndarray | None = None  # [lane, action, policy] at `state`, if already known
        self.bootstrap = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(b"bootstrap"),)))
        self.replay_key, networks = named_keys(seed, ("replay", "networks"))
        self.learning: DeepLearning = jax.jit(run.updates.begin)(jax.random.split(networks, 4))
        kind = TracedDecider if run.behaviour.needs_intrinsic else Decider
        self.decider = kind(run, seed)
        self.renew()

    def renew(self) -> None:
        self.decider.learned(self.learning, self.scales)

    def restored(self) -> None:
        self.renew()

    def prepare(self) -> None: ...

    def act(self, at: Lanes) -> None:
        if self.pi is None or np.count_nonzero(at.fresh):
            self.pi = self.run.policies(self.source.seen_now)
            self.note_starts()
        self.decider.act(int(at.t[0]), at.state, self.pi, self.over, at.action)
        self.over[:] = False

    def heed(self, at: Lanes, begins: bool, probability: float | None) -> None:
        self.note_starts()

    def learn(self, at: Lanes) -> None:
        self.pi = self.run.policies(self.source.seen_next)
        seen, signals = (at.state, at.action, at.following), (at.c, at.gamma, at.alive)
        self.collected(keep(self.rows, self.pending, *seen, *signals, self.pi, at.ended, at.counts, self.over))

    # --- episodes of target policies -----------------------------------------------------------------------------------

    @property
    def notes(self) -> np.ndarray:
        assert self.pi is not None
        return self.pi

    def choose_as(self, lane: int, policy: int, rng: np.random.Generator) -> int:
        return choose_numbered(self, lane, policy, rng)

    def freeze(self) -> FrozenActions:
        run, network, rows = self.run, self.network(), recent(self.stored())
        c = run.columns
        pi = rows[:, c.pi].reshape(len(rows), run.spec.actions, -1)[:, :, run.targets.member]
        following = np.einsum("nai,nai->ni", network.main(rows[:, c.following]), pi)
        taken = network.main(rows[:, c.observation])[np.arange(len(rows)), rows[:, c.action][:, 0].astype(int)]
        errors = rows[:, c.cumulants] * self.scales.unit + rows[:, c.discounts] * following - taken
        return FrozenActions(lambda observations: network.main(network.scales.scaled(observations)), surprises(errors))

    # --- learning ----------------------------------------------------------------------------------------------------

    def absorb_rows(self, rows: np.ndarray) -> None:
        blocks, done = rows.reshape(TOGETHER, -1, rows.shape[1]), self.made - self.pending
        self.learning, self.replay, self.losses = self.run.absorb(self.learning, self.replay, blocks, self.replay_key, done)
        if self.run.calibrated and self.run.behaviour.needs_variance:
            self.decider.note(np.asarray(self.run.squares(self.learning, rows)) * self.scales.unit**2, len(rows))

    def network(self) -> QNetwork:
        q = self.learning.q
        weights, biases = (tuple(np.asarray(a) for a in part) for part in (q.weights, q.biases))
        return QNetwork(
            self.scales,
            weights,
            biases,
            np.asarray(q.frequencies),
            self.run.spec.actions,
            within=self.within(),
            origin=self.spec.origin.at,
        )

    def answers(self, points: np.ndarray) -> tuple[np.ndarray, ...]:
        run = self.run
        pi = run.points_pi[:, :, run.targets.member]
        values, errors = self.network().values(points, pi)
        variances = np.empty(0)
        if run.behaviour.needs_variance:
            m = np.asarray(self.learning.m(jnp.asarray(self.scales.scaled(points)))).astype(float) * self.scales.unit**2
            variances = np.einsum("nai,nai->in", pi, m)
        return values, variances, self.decider.probabilities(self.made, points, run.points_pi), errors
