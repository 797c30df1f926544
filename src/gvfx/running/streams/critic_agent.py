"""The agent for GVFs with continuous actions: twin critics, a behaviour, and the behaviour's actor if it has one."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import MixtureActor
from gvfx.errors import InputError
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks import retrace
from gvfx.learners.networks.actors import Acting, ActorUpdates, MixtureUpdates, Surroundings, log_gaussians
from gvfx.learners.networks.critic_updates import (
    CriticQuestions,
    Critics,
    CriticUpdates,
    Entropy,
    NetworkScaling,
    aggregated,
    log_clipped,
    normals,
    squashed_sample,
    wide,
)
from gvfx.learners.networks.deep_updates import columns
from gvfx.learners.networks.learners import TwinCritics
from gvfx.running.predictor import Scales
from gvfx.theory.equations import log_explorer_score


class CriticLearning(NamedTuple):
    """Everything that learns."""

    critics: Critics
    actor: Acting | None


class Losses(NamedTuple):
    """The losses of one vector step's updates."""

    q: jax.Array  # [gvf]
    m: jax.Array  # [gvf], 0 if M is not learned
    actor: jax.Array  # [], 0 if there is none
    beyond: jax.Array  # [gvf] the largest target of Q, if it is beyond FAR times what the cumulants so far allow, or 0


FAR = 100.0  # a run whose targets are beyond this many times the largest possible value has diverged


class WorldSizes(NamedTuple):
    """The sizes of a world that the agent reads."""

    observation_size: int
    action_size: int
    tasks: tuple[str, ...]


class GVFAgent:
    """Acts by a behaviour and learns all GVFs' critics; all functions are pure JAX.

    targets: policies with `act(observations)`, one per question; empty if their actions are stored with the transitions.
    """

    def __init__(
        self,
        domain: WorldSizes,
        targets: tuple[Any, ...],
        asked: CriticQuestions,
        weights: jax.Array,
        behaviour: Behaviour,
        learner: TwinCritics,
        steps: int,
        varying: bool = False,
    ) -> None:
        """varying: whether every transition has its own discounts."""
        self.described, self.behaviour, self.targets, self.asked, self.weights = learner, behaviour, targets, asked, weights
        self.gvfs = len(asked.signals)
        notes, discounts = asked.policies * domain.action_size, self.gvfs if varying else 0
        traces = self.gvfs if learner.trace else 0
        self.columns = columns(domain.observation_size, domain.action_size, len(domain.tasks), notes, discounts, traces)
        updates = max(0, steps - learner.learning_starts) // learner.worlds * learner.updates
        self.critics = CriticUpdates(learner, self.columns, asked, behaviour.needs_variance, updates)
        self.actor: ActorUpdates | MixtureUpdates | None = None
        if behaviour.needs_actor:
            options = _unwrapped(behaviour)
            if options.updates > learner.updates:
                raise InputError(
                    f"updates: the actor has {options.updates}, more than the {learner.updates} of the critics; give fewer."
                )
            kind = MixtureUpdates if isinstance(options, MixtureActor) else ActorUpdates
            self.actor = kind(options, self.columns.sizes, np.asarray(asked.sigmas))
        self.rule = behaviour.box_action_rule()
        self.size = domain.action_size
        self.act_draws = (self.gvfs + 1) * self.size + 2
        for_actor = self.actor.draws if self.actor else 0
        one_step = 0 if learner.trace else asked.policies * self.size + (self.size if self.actor else 0)  # a' and log mu
        self.learn_draws = one_step + for_actor

    def begin(self, generator: np.random.Generator) -> CriticLearning:
        return CriticLearning(self.begin_critics(generator), self.actor.begin(generator) if self.actor else None)

    def begin_critics(self, generator: np.random.Generator) -> Critics:
        return self.critics.begin(generator)

    def begin_acting(self) -> Any:
        worlds = self.described.worlds
        return self.rule.begin(worlds, self.gvfs), jnp.zeros((worlds, self.traces))

    def begin_aims(self) -> retrace.RetraceTargets | None:
        return retrace.empty(self.described.capacity, self.critics) if self.described.trace else None

    @property
    def traces(self) -> int:
        """The number of traces stored with a transition."""
        return self.columns.traces.stop - self.columns.traces.start

    def prepare(self, learning: CriticLearning, rows: np.ndarray) -> CriticLearning:
        """As learning starts: the scales of the first transitions [row, column] in MuJoCo's worlds, and Q at its mean level."""
        if not self.described.scaled:
            return learning
        c, critics = self.columns, learning.critics
        cumulants = np.asarray(self.critics.cumulants(jnp.asarray(rows)))
        shape = cumulants.shape
        discounts = np.broadcast_to(np.asarray(self.critics.discounts(jnp.asarray(rows))), shape)
        followed = rows[:, c.traces] + 1e-3 if self.traces else np.ones(shape)  # where the GVF's own policy was followed
        horizon = 1 / (1 - np.minimum(discounts.mean(axis=0), 0.999))
        level = ((followed * cumulants).sum(axis=0) / followed.sum(axis=0) * horizon).astype(np.float32)
        scaling = critics.scaling
        if scaling is not None:
            scaling = NetworkScaling(*map(jnp.asarray, _parts(Scales.found(rows[:, c.observation], cumulants, discounts))))
        return learning._replace(critics=self.critics.prepare(critics, scaling, level))

    def weighing(self, weights: jax.Array) -> GVFAgent:
        """The same agent with other GVF weights."""
        other = copy.copy(self)
        other.weights = weights
        return other

    # --- acting ------------------------------------------------------------------------------------------------------

    def middles(self, observations: jax.Array) -> jax.Array:
        """The target policies' middle actions [world, gvf, action]."""
        different = dict.fromkeys(self.targets)
        actions = {target: target.act(observations) for target in different}
        return jnp.stack([actions[target] for target in self.targets], axis=1)

    def annotate(self, rows: jax.Array, acting: Any) -> jax.Array:
        """Transitions with the targets' middle actions at s' and the traces added."""
        return jnp.concatenate([rows, self.middles(rows[:, self.columns.following]).reshape(len(rows), -1), acting[1]], axis=1)

    def see(self, learning: CriticLearning, rows: jax.Array) -> CriticLearning:
        """What is learned from every transition as it is stored: the range of the cumulants."""
        return learning._replace(critics=self.critics.look(learning.critics, rows)) if self.described.trace else learning

    def act(
        self, learning: CriticLearning, acting: Any, learns: bool, chance: jax.Array, observations: jax.Array, over: jax.Array
    ) -> tuple[Any, jax.Array]:
        state, actions, _, traces = self.choose(learning, acting[0], chance, observations, self.middles(observations), over)
        return (state, traces), actions

    def choose(
        self,
        learning: CriticLearning,
        acting: Any,
        chance: jax.Array,
        observations: jax.Array,
        middles: jax.Array,
        over: jax.Array,
    ) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
        """The new acting state, actions [world, action], the policy that each world follows [world] (the index of a GVF's
        target; from the number of GVFs on, an action of the behaviour's own), and traces [world, gvf] if they are stored."""
        for_targets, rest = chance[:, : self.gvfs * self.size], chance[:, self.gvfs * self.size :]
        noise, sigmas = normals(for_targets).reshape(middles.shape), wide(self.asked.sigmas)
        candidates = jnp.clip(middles + sigmas * noise, -1, 1)
        seen = self.scaled(learning.critics, observations)
        own, log_own = rest[:, None, : self.size], jnp.full((len(chance), 1), -self.size * math.log(2))  # uniform
        if learning.actor is not None:
            assert self.actor is not None
            own, log_own = self.actor.own(learning.actor, seen, middles, rest[:, : self.size], noise)
            pull = self.actor.gate(learning.actor, seen, middles)
        else:
            pull = self.pull(learning.critics, observations, middles, candidates)
        acting, which = self.rule.choose(self.rule.episode_end(acting, over), 0.5 + 0.5 * rest[:, self.size :], pull)
        options = jnp.concatenate([candidates, own], axis=1)
        action = jnp.take_along_axis(options, which[:, None, None], axis=1)[:, 0]
        if not self.traces:
            return acting, action, which, jnp.zeros((len(chance), 0))
        log_mu = jnp.concatenate([log_clipped(middles, sigmas, candidates), log_own], axis=1)
        ratio = log_clipped(middles, sigmas, action[:, None]) - jnp.take_along_axis(log_mu, which[:, None], axis=1)
        return acting, action, which, jnp.exp(jnp.minimum(ratio, 0.0)) * ~over[:, None]  # an episode's first has none

    def scaled(self, critics: Critics, observations: jax.Array) -> jax.Array:
        """Observations as the networks see them."""
        return observations if critics.scaling is None else critics.scaling.scaled(observations)

    def pull(self, critics: Critics, observations: jax.Array, middles: jax.Array, candidates: jax.Array) -> jax.Array:
        """mu* ~ sqrt(sum_j w_j pi_j^2 M_j) divided by the mean of the targets' densities, at their samples [world, gvf]:
        importance weights; following a sample in proportion to them approximates Theorem 4.1's behaviour."""
        if critics.m is None:
            return jnp.ones(candidates.shape[:2])
        around = jnp.broadcast_to(observations[:, None], (*candidates.shape[:2], observations.shape[1]))
        variance = self.predict(critics.m, critics, around, candidates, 2)  # [world, draw, gvf]
        log_pi = jax.vmap(log_gaussians, in_axes=(None, None, 1), out_axes=1)(middles, self.asked.sigmas, candidates)
        wanted = log_explorer_score(self.weights, log_pi, variance)
        return jnp.exp(wanted - jax.nn.logsumexp(log_pi, axis=2))  # Eq. 3 (eq:behavior_update)

    # --- learning ----------------------------------------------------------------------------------------------------

    def learn(self, learning: CriticLearning, batches: jax.Array, noise: jax.Array) -> tuple[CriticLearning, Losses]:
        """The updates of one vector step on batches [updates, batch, columns]: Q and M, then the actor."""
        every = self.described.m_every

        def group(critics: Critics, each: tuple) -> tuple[Critics, tuple[jax.Array, jax.Array, jax.Array]]:
            for k in range(every):
                critics, q, m, far = self.update(critics, learning.actor, each[0][k], each[1][k], variance=k == every - 1)
            return critics, (q, m, far)

        groups = (batches.reshape(-1, every, *batches.shape[1:]), noise.reshape(-1, every, *noise.shape[1:]))
        critics, losses = jax.lax.scan(group, learning.critics, groups)
        acting, loss = self.update_actors(learning.actor, critics, batches, noise)
        return CriticLearning(critics, acting), Losses(losses[0].sum(axis=0), losses[1].sum(axis=0), loss, losses[2].max(axis=0))

    def learn_stored(
        self, learning: CriticLearning, batches: jax.Array, aims: jax.Array, noise: jax.Array
    ) -> tuple[CriticLearning, Losses]:
        """As `learn`, towards the stored targets [updates, batch, k] (`gvfx.learners.networks.retrace`)."""
        every = self.described.m_every

        def group(critics: Critics, each: tuple) -> tuple[Critics, tuple[jax.Array, jax.Array]]:
            m = jnp.zeros(self.gvfs)
            for k in range(every):
                rows, aims = each[0][k], each[1][k]
                critics, q = self.critics.update_q(critics, rows, aims[:, : self.gvfs])
                if k == every - 1 and self.critics.variance:
                    critics, m = self.critics.update_m(critics, rows, aims[:, self.gvfs :])
                critics = self.critics.follow(self.also_learn(critics, rows))
            return critics, (q, m)

        groups = (batches.reshape(-1, every, *batches.shape[1:]), aims.reshape(-1, every, *aims.shape[1:]))
        critics, losses = jax.lax.scan(group, learning.critics, groups)
        acting, loss = self.update_actors(learning.actor, critics, batches, noise)
        return CriticLearning(critics, acting), Losses(losses[0].sum(axis=0), losses[1].sum(axis=0), loss, jnp.zeros(self.gvfs))

    def also_learn(self, critics: Critics, rows: jax.Array) -> Critics:
        """The critics after an update of what an agent learns besides, from a batch."""
        return critics

    def update_actors(
        self, acting: Acting | None, critics: Critics, batches: jax.Array, noise: jax.Array
    ) -> tuple[Acting | None, jax.Array]:
        """The actor's updates of one vector step, if there is an actor; and its last loss."""
        loss = jnp.zeros(())
        if self.actor is not None and acting is not None:
            for k in range(self.actor.options.updates):
                acting, loss = self.update_actor(acting, critics, batches[k], noise[k])
        return acting, loss

    def update(
        self, critics: Critics, acting: Acting | None, rows: jax.Array, noise: jax.Array, variance: bool
    ) -> tuple[Critics, jax.Array, jax.Array, jax.Array]:
        """One critic update of Algorithm 2 on a batch: Q, the TD error, M if `variance`, target networks; the losses, and
        targets of Q far beyond what is possible."""
        first = self.asked.policies * self.size
        second = first + self.size
        draws = self.critics.next_actions(rows, noise[:, :first].reshape(len(rows), -1, self.size))
        entropy = None
        if self.described.entropy_in_target and acting is not None:
            following = self.scaled(critics, rows[:, self.columns.following])
            _, log_mu = squashed_sample(acting.actor, following, noise[:, first:second])
            entropy = Entropy(jnp.exp(acting.log_alpha), log_mu)
        critics = self.critics.look(critics, rows)
        targets = self.critics.q_targets(critics, rows, draws, entropy)
        critics, q_losses = self.critics.update_q(critics, rows, targets)
        m_losses = jnp.zeros(self.gvfs)
        if variance and self.critics.variance:
            aims = self.critics.m_targets(critics, rows, draws, targets, entropy)
            critics, m_losses = self.critics.update_m(critics, rows, aims)
        largest = jnp.abs(targets).max(axis=0)
        beyond = jnp.where(largest > FAR * jnp.abs(self.critics.range(critics)).max(axis=0), largest, 0.0)
        return self.critics.follow(critics), q_losses, m_losses, beyond

    def update_actor(self, acting: Acting, critics: Critics, rows: jax.Array, noise: jax.Array) -> tuple[Acting, jax.Array]:
        """One update of mu and alpha, at the batch's s' (states of the same stream, for which targets' actions are stored)."""
        assert self.actor is not None and critics.m is not None
        middles = self.asked.own(rows[:, self.columns.notes].reshape(len(rows), -1, self.size))
        following = rows[:, self.columns.following]
        around = Surroundings(self.scaled(critics, following), middles, self.asked.sigmas, self.weights)
        m = critics.m

        def variance(actions: jax.Array) -> jax.Array:
            return self.predict(m, critics, following, actions, 2)

        return self.actor.update(acting, variance, around, noise[:, -self.actor.draws :])

    # --- predicting --------------------------------------------------------------------------------------------------

    def predict(self, twins: Any, critics: Critics, observations: jax.Array, actions: jax.Array, power: int = 1) -> jax.Array:
        """The twins' aggregated values of Q, or with power 2 of M, [point, gvf]."""
        return aggregated(self.critics.values(twins, critics, observations, actions, power), self.described.aggregate)

    def answers(self, critics: Critics, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """The answers Q [point, gvf], within the possible range if targets are bounded."""
        answers = self.unbounded(critics, observations, actions)
        if not self.described.bounded:
            return answers
        low, high = self.critics.range(critics)
        return jnp.where(low <= high, answers.clip(low, high), answers)  # before the first transition no range is known

    def unbounded(self, critics: Critics, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """The answers Q [point, gvf] of the networks."""
        return self.predict(critics.target_q if self.described.averaged else critics.q, critics, observations, actions)


def _unwrapped(behaviour: Any) -> Any:
    """The behaviour that has the actor, without its wrappers."""
    return _unwrapped(behaviour.behaviour) if hasattr(behaviour, "behaviour") else behaviour


def _parts(scales: Scales) -> tuple[np.ndarray, ...]:
    return scales.centre, scales.spread, scales.unit


def learn_from(
    agent: Any, learning: Any, replay: memory.Replay, many: jax.Array, aims: retrace.RetraceTargets | None
) -> tuple[Any, Any]:
    """All updates of a vector step on batches from the replay buffer; many [update, batch, 1 + draw] is uniform in (-1, 1)."""
    chance = 0.5 + 0.5 * many[..., 0].ravel()
    if aims is None:
        index = memory.sample_uniform(replay, chance)
        return agent.learn(learning, replay.rows[index].reshape(*many.shape[:2], -1), normals(many[..., 1:]))
    index = retrace.sample(replay, aims, chance)
    batches, targets = (x[index].reshape(*many.shape[:2], -1) for x in (replay.rows, aims.values))
    return agent.learn_stored(learning, batches, targets, normals(many[..., 1:]))
