"""The updates of twin critics (paper, Algorithm 2), as pure JAX functions.

A transition (s, a, c, s') is stored with the target policies' middle actions at s' (the row's notes), so that
a' ~ pi_i(.|s') of every GVF costs noise only.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.special

from gvfx.features.scaling import LIMIT
from gvfx.learners.networks.deep_updates import ReplayColumns
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.learners import TwinCritics
from gvfx.theory.equations import m_target, q_target

# --- The density of a clipped Gaussian, clip(middle + N(0, sigma^2), -1, 1), in NumPy or JAX ------------------------


def log_clipped(middles: Any, sigmas: Any, actions: Any) -> Any:
    """log pi(a|s) [...] of actions [..., a]: a density inside (-1, 1), and the probability of the bound itself at -1 and 1."""
    xp, log_ndtr = (np, scipy.special.log_ndtr) if isinstance(actions, np.ndarray) else (jnp, jax.scipy.special.log_ndtr)
    inside = -0.5 * ((actions - middles) / sigmas) ** 2 - xp.log(sigmas) - 0.5 * math.log(2 * math.pi)
    if xp is np and (abs(actions) < 1).all():  # faster
        return inside.sum(axis=-1)
    above, below = log_ndtr((middles - 1) / sigmas), log_ndtr((-1 - middles) / sigmas)
    return xp.where(actions >= 1, above, xp.where(actions <= -1, below, inside)).sum(axis=-1)


# --- Networks for continuous actions in [-1, 1]: twin critics of (observation, action), and a squashed-Gaussian actor
# Twins are two separate networks: on a CPU two matrix products are twice as fast as one batched product.

Aggregate = Literal["min", "mean"]
Twins = tuple[Heads, Heads]
SMALLEST_LOG_SD, LARGEST_LOG_SD = -5.0, 1.0


def normals(chance: jax.Array) -> jax.Array:
    """Standard normal numbers from uniform ones in (-1, 1)."""
    return math.sqrt(2) * jax.lax.erf_inv(chance)


def wide(sigmas: jax.Array) -> jax.Array:
    """Spreads [gvf] or [gvf, action], reshaped to broadcast with actions [..., gvf, action]."""
    return sigmas.reshape(len(sigmas), -1)


def twin_critics(
    generator: np.random.Generator,
    inputs: int,
    hidden: tuple[int, ...],
    gvfs: int,
    positive: bool = False,
    layer_norm: bool = False,
) -> Twins:
    """Two critics of `inputs` numbers (observation and action together), each with one output per GVF."""
    one, other = (Heads(generator, inputs, hidden, (gvfs,), positive, layer_norm=layer_norm) for _ in range(2))
    return one, other


def both(critics: Twins, observation: jax.Array, action: jax.Array) -> jax.Array:
    """The outputs of both twins, [twin, ..., gvf]."""
    x = jnp.concatenate([observation, action], axis=-1)
    return jnp.stack([critics[0](x), critics[1](x)])


def aggregated(answers: jax.Array, how: Aggregate) -> jax.Array:
    return answers.min(axis=0) if how == "min" else answers.mean(axis=0)


def gaussian_actor(generator: np.random.Generator, inputs: int, hidden: tuple[int, ...], actions: int) -> Heads:
    """A network whose outputs [2, action] are the mean and log standard deviation before the squashing."""
    return Heads(generator, inputs, hidden, (2, actions))


def squashed_sample(actor: Heads, observation: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An action tanh(mean + sd * noise), [..., action], and its log-probability density, [...]."""
    mean, log_sd = _parameters(actor, observation)
    before = mean + jnp.exp(log_sd) * noise
    gaussian = -0.5 * noise**2 - log_sd - 0.5 * math.log(2 * math.pi)
    return jnp.tanh(before), (gaussian - _log_slope(before)).sum(axis=-1)


def squashed_mean(actor: Heads, observation: jax.Array) -> jax.Array:
    """The middle action tanh(mean)."""
    return jnp.tanh(_parameters(actor, observation)[0])


def _parameters(actor: Heads, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    out = actor(observation)
    middle, half = (LARGEST_LOG_SD + SMALLEST_LOG_SD) / 2, (LARGEST_LOG_SD - SMALLEST_LOG_SD) / 2
    return out[..., 0, :], middle + half * jnp.tanh(out[..., 1, :])


def _log_slope(before: jax.Array) -> jax.Array:
    """log of tanh's slope, 1 - tanh(x)^2, without cancellation."""
    return 2 * (math.log(2) - before - jax.nn.softplus(-2 * before))


class NetworkScaling(NamedTuple):
    """How numbers enter and leave the networks: (observation - centre) / spread, clipped; Q in units, M in squared units."""

    centre: jax.Array  # [o]
    spread: jax.Array  # [o]
    unit: jax.Array  # [gvf]

    def scaled(self, observations: jax.Array) -> jax.Array:
        return jnp.clip((observations - self.centre) / self.spread, -LIMIT, LIMIT)


class Critics(NamedTuple):
    """The critics, their target networks, and the optimisers' states; M's are None if the behaviour does not need M."""

    q: Twins
    target_q: Twins
    adam_q: Any
    m: Twins | None
    target_m: Twins | None
    adam_m: Any
    updates: jax.Array  # [] updates of Q so far
    seen: jax.Array  # [2, gvf] smallest and largest value of each cumulant so far; [3, gvf] with the largest discount
    scaling: NetworkScaling | None  # None: numbers enter and leave as they are
    model: Any = None  # what an agent learns besides


class CriticQuestions(NamedTuple):
    """The GVFs as arrays over the columns of a row."""

    discounts: jax.Array  # [gvf]; not used if the rows have their own
    signals: tuple[int, ...]  # the index of each GVF's cumulant
    sigmas: jax.Array  # [gvf] or [gvf, action] standard deviation of the target policies' noise
    members: tuple[int, ...] = ()  # the index of each GVF's policy in the notes, if several share one

    @property
    def policies(self) -> int:
        """The number of policies in the notes."""
        return max(self.members) + 1 if self.members else len(self.signals)

    def own(self, of_policies: jax.Array) -> jax.Array:
        """The entries of each GVF's policy, [batch, gvf, action], from [batch, policy, action]."""
        return of_policies[:, jnp.asarray(self.members)] if self.members else of_policies


class Entropy(NamedTuple):
    """The quantities of the actor that `entropy_in_target` needs."""

    alpha: jax.Array  # []
    log_mu: jax.Array  # [batch] log-density of an action drawn from mu at s'


class CriticUpdates:
    """The updates of one learner on one set of questions."""

    def __init__(
        self, described: TwinCritics, columns: ReplayColumns, asked: CriticQuestions, variance: bool, updates: int
    ) -> None:
        """variance: whether M is learned; updates: number of updates of Q in the run, over which the rates decrease."""
        self.described, self.columns, self.asked, self.variance = described, columns, asked, variance
        self.gvfs = len(asked.signals)
        first = [asked.members.index(k) for k in range(asked.policies)] if asked.members else slice(None)
        self.sigmas = np.asarray(wide(asked.sigmas))[first]  # for the notes' policies
        self.varying = columns.discounts.stop > columns.discounts.start  # each transition has its own discounts

        def adam(rate: float, number: int) -> optax.GradientTransformation:
            return optax.adam(optax.linear_schedule(rate, rate * described.final_rate, max(1, number)))

        self.optimiser_q = adam(described.rate_q, updates)
        self.optimiser_m = adam(described.rate_m, updates // described.m_every)

    def begin(self, generator: np.random.Generator) -> Critics:
        inputs = sum(self.columns.sizes)
        d = self.described
        q = twin_critics(generator, inputs, d.hidden, self.gvfs, layer_norm=d.layer_norm)
        m = twin_critics(generator, inputs, d.hidden, self.gvfs, True, d.layer_norm) if self.variance else None
        adam_m = self.optimiser_m.init(m) if self.variance else None
        seen = jnp.array([[math.inf], [-math.inf], [0.0]][: 2 + self.varying]) * jnp.ones((1, self.gvfs))
        scaling = None
        if d.scaled and not self.varying:
            size = self.columns.sizes[0]
            scaling = NetworkScaling(jnp.zeros(size), jnp.ones(size), jnp.ones(self.gvfs))
        return Critics(q, q, self.optimiser_q.init(q), m, m, adam_m, jnp.zeros((), jnp.int32), seen, scaling)

    def prepare(self, critics: Critics, scaling: NetworkScaling | None, level: Any) -> Critics:
        """The critics as learning starts: with the scales of the first transitions, and Q at the level [gvf]."""

        def moved(twins: Twins) -> Twins:
            unit = 1.0 if scaling is None else scaling.unit
            biases = [[*net.biases[:-1], net.biases[-1] + level / unit] for net in twins]
            return eqx.tree_at(lambda two: [net.biases for net in two], twins, biases)

        return critics._replace(q=moved(critics.q), target_q=moved(critics.target_q), scaling=scaling)

    def values(self, twins: Twins, critics: Critics, observations: jax.Array, actions: jax.Array, power: int = 1) -> jax.Array:
        """The outputs of both twins in the cumulants' units (power 1: Q) or squared units (2: M), [twin, ..., gvf]."""
        if critics.scaling is None:
            return both(twins, observations, actions)
        return both(twins, critics.scaling.scaled(observations), actions) * critics.scaling.unit**power

    def next_actions(self, rows: jax.Array, noise: jax.Array) -> jax.Array:
        """a' ~ pi(.|s') of every policy, [batch, policy, action], from noise of that shape."""
        middle = rows[:, self.columns.notes].reshape(noise.shape)
        return (middle + self.sigmas * noise).clip(-1, 1)

    def next_answers(self, twins: Twins, critics: Critics, rows: jax.Array, actions: jax.Array, power: int = 1) -> jax.Array:
        """The twins' aggregated values of (s', a'_i) for each GVF i, [batch, gvf]."""
        following = rows[:, self.columns.following]
        around = jnp.broadcast_to(following[:, None], (*actions.shape[:2], following.shape[1]))
        answers = self.values(twins, critics, around, actions, power)
        if self.asked.members:
            own = answers[:, :, jnp.asarray(self.asked.members), jnp.arange(self.gvfs)]
        else:
            own = jnp.diagonal(answers, axis1=2, axis2=3)
        return aggregated(own, self.described.aggregate)

    def bonus(self, entropy: Entropy | None) -> jax.Array | float:
        """-alpha log mu(a|s'), [batch, 1], or 0 without an entropy term."""
        return 0.0 if entropy is None else -entropy.alpha * entropy.log_mu[:, None]

    def q_targets(self, critics: Critics, rows: jax.Array, actions: jax.Array, entropy: Entropy | None) -> jax.Array:
        """Q_tar [batch, gvf] from the target networks."""
        value_next = self.next_answers(critics.target_q, critics, rows, actions) + self.bonus(entropy)
        targets = q_target(self.cumulants(rows), self.discounts(rows), value_next)  # Algorithm 2 (algo:sac_gvf), Q_tar
        return targets.clip(*self.range(critics)) if self.described.bounded else targets

    def cumulants(self, rows: jax.Array) -> jax.Array:
        return rows[:, self.columns.cumulants][:, list(self.asked.signals)]

    def discounts(self, rows: jax.Array) -> jax.Array:
        """The discounts of each GVF, [gvf] or [batch, gvf]: 0 on termination."""
        return rows[:, self.columns.discounts] if self.varying else self.asked.discounts

    def look(self, critics: Critics, rows: jax.Array) -> Critics:
        """The critics with the extremes of the cumulants updated from a batch."""
        low, high, *discount = critics.seen
        seen = jnp.minimum(low, self.cumulants(rows).min(axis=0)), jnp.maximum(high, self.cumulants(rows).max(axis=0))
        largest = [jnp.maximum(most, self.discounts(rows).max(axis=0)) for most in discount]
        return critics._replace(seen=jnp.stack([*seen, *largest]))

    def range(self, critics: Critics) -> jax.Array:
        """The range of possible values [2, gvf]: infinite discounted sums of the smallest and largest cumulant seen."""
        if not self.varying:
            return critics.seen / (1 - self.asked.discounts)
        low, high, discount = critics.seen  # a sum may also end immediately
        steps = jnp.where(discount < 1, 1 / jnp.maximum(1 - discount, 1e-9), jnp.inf)
        return jnp.stack([jnp.where(low < 0, low * steps, low), jnp.where(high > 0, high * steps, high)])

    def m_targets(
        self, critics: Critics, rows: jax.Array, actions: jax.Array, q_targets: jax.Array, entropy: Entropy | None
    ) -> jax.Array:
        """M_tar [batch, gvf], from the TD error of the current Q."""
        q = self.values(critics.q, critics, rows[:, self.columns.observation], rows[:, self.columns.action])
        delta = q_targets - aggregated(q, self.described.aggregate)  # Algorithm 2 (algo:sac_gvf), delta_Q
        assert critics.target_m is not None
        m_next = self.next_answers(critics.target_m, critics, rows, actions, 2) + self.bonus(entropy)
        targets = m_target(delta, self.discounts(rows), m_next)  # Algorithm 2 (algo:sac_gvf), M_tar
        low, high = self.range(critics)
        return targets.clip(0, ((high - low) / 2) ** 2) if self.described.bounded else targets

    def loss(
        self, twins: Twins, critics: Critics, rows: jax.Array, targets: jax.Array, power: int
    ) -> tuple[jax.Array, jax.Array]:
        """The squared error in units, summed over twins and GVFs, averaged over the batch; and its parts per GVF [gvf]."""
        errors = targets - self.values(twins, critics, rows[:, self.columns.observation], rows[:, self.columns.action], power)
        errors = errors if critics.scaling is None else errors / critics.scaling.unit**power
        each = (errors**2).mean(axis=1).sum(axis=0)
        return each.sum(), each

    def update_q(self, critics: Critics, rows: jax.Array, targets: jax.Array) -> tuple[Critics, jax.Array]:
        """One step of Adam on Q's loss; and the loss of each GVF."""
        gradient, losses = jax.grad(self.loss, has_aux=True)(critics.q, critics, rows, targets, 1)
        change, adam = self.optimiser_q.update(gradient, critics.adam_q)
        return critics._replace(q=optax.apply_updates(critics.q, change), adam_q=adam, updates=critics.updates + 1), losses

    def update_m(self, critics: Critics, rows: jax.Array, targets: jax.Array) -> tuple[Critics, jax.Array]:
        """One step of Adam on M's loss; and the loss of each GVF."""
        gradient, losses = jax.grad(self.loss, has_aux=True)(critics.m, critics, rows, targets, 2)
        change, adam = self.optimiser_m.update(gradient, critics.adam_m)
        return critics._replace(m=optax.apply_updates(critics.m, change), adam_m=adam), losses

    def follow(self, critics: Critics) -> Critics:
        """The critics with target networks moved or copied, if it is due."""
        due = critics.updates % self.described.target_every == 0
        step = jnp.where(due, self.described.tau, 0.0)
        moved = jax.tree.map(
            lambda new, old: old + step * (new - old) if self.described.tau < 1 else jnp.where(due, new, old),
            (critics.q, critics.m),
            (critics.target_q, critics.target_m),
        )
        return critics._replace(target_q=moved[0], target_m=moved[1])
