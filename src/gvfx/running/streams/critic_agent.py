"""The agent for GVFs with continuous actions: twin critics, a behaviour, and the behaviour's actor if it has one."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.learners.networks.actor_critic import aggregated, both, normals, squashed_sample, wide
from gvfx.learners.networks.critic_updates import Critics, CriticUpdates, Entropy, Question
from gvfx.learners.networks.replay import columns
from gvfx.learners.networks.soft_actor import Acting, ActorUpdates, Surroundings, log_gaussians
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.questions.target_policies import Target
from gvfx.theory.explorer import log_explorer_score
from gvfx.worlds.mujoco import Domain


class CriticLearning(NamedTuple):
    """Everything that learns."""

    critics: Critics
    actor: Acting | None


class Losses(NamedTuple):
    """The losses of one vector step's updates."""

    q: jax.Array  # [gvf]
    m: jax.Array  # [gvf], 0 if M is not learned
    actor: jax.Array  # [], 0 if there is none


class WorldSizes(NamedTuple):
    """The sizes of a world that the agent reads."""

    observation_size: int
    action_size: int
    tasks: tuple[str, ...]


class GVFAgent:
    """Acts by a behaviour and learns all GVFs' critics (see `gvfx.running.streams.lockstep_loop.LockstepAgent`)."""

    def __init__(
        self,
        domain: Domain | WorldSizes,
        targets: tuple[Target, ...],
        asked: Question,
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
        self.columns = columns(domain.observation_size, domain.action_size, len(domain.tasks), notes, discounts)
        updates = max(0, steps - learner.learning_starts) // learner.worlds * learner.updates
        self.critics = CriticUpdates(learner, self.columns, asked, behaviour.needs_variance, updates)
        self.actor = None
        if behaviour.needs_actor:
            options: Any = behaviour
            if options.updates > learner.updates:
                raise InputError(
                    f"updates: the actor has {options.updates}, more than the {learner.updates} of the critics; give fewer."
                )
            self.actor = ActorUpdates(options, self.columns.sizes, np.asarray(asked.sigmas), learner.aggregate)
        self.rule = behaviour.box_action_rule()
        self.size = domain.action_size
        self.act_draws = (self.gvfs + 1) * self.size + 2
        self.learn_draws = (asked.policies + (2 if behaviour.needs_actor else 0)) * self.size

    def begin(self, generator: np.random.Generator) -> CriticLearning:
        return CriticLearning(self.critics.begin(generator), self.actor.begin(generator) if self.actor else None)

    def begin_acting(self) -> Any:
        return self.rule.begin(self.described.worlds, self.gvfs)

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

    def annotate(self, rows: jax.Array) -> jax.Array:
        """Transitions with the targets' middle actions at s' added."""
        return jnp.concatenate([rows, self.middles(rows[:, self.columns.following]).reshape(len(rows), -1)], axis=1)

    def act(
        self, learning: CriticLearning, acting: Any, learns: bool, chance: jax.Array, observations: jax.Array, over: jax.Array
    ) -> tuple[Any, jax.Array]:
        return self.choose(learning, acting, chance, observations, self.middles(observations), over)[:2]

    def choose(
        self,
        learning: CriticLearning,
        acting: Any,
        chance: jax.Array,
        observations: jax.Array,
        middles: jax.Array,
        over: jax.Array,
    ) -> tuple[Any, jax.Array, jax.Array]:
        """The new acting state, actions [world, action], and the policy that each world follows [world]: the index of a GVF's
        target, or the number of GVFs for the behaviour's own action."""
        for_targets, rest = chance[:, : self.gvfs * self.size], chance[:, self.gvfs * self.size :]
        noise = normals(for_targets).reshape(middles.shape)
        candidates = jnp.clip(middles + wide(self.asked.sigmas) * noise, -1, 1)
        own = rest[:, : self.size]
        if learning.actor is not None:
            own, _ = squashed_sample(learning.actor.actor, observations, normals(own))
        pull = self.pull(learning.critics, observations, middles, candidates)
        acting, which = self.rule.choose(self.rule.episode_end(acting, over), 0.5 + 0.5 * rest[:, self.size :], pull)
        options = jnp.concatenate([candidates, own[:, None]], axis=1)
        return acting, jnp.take_along_axis(options, which[:, None, None], axis=1)[:, 0], which

    def pull(self, critics: Critics, observations: jax.Array, middles: jax.Array, candidates: jax.Array) -> jax.Array:
        """mu* ~ sqrt(sum_j w_j pi_j^2 M_j) divided by the mean of the targets' densities, at their samples [world, gvf]:
        importance weights; following a sample in proportion to them approximates Theorem 4.1's behaviour."""
        if critics.m is None or self.actor is not None:
            return jnp.ones(candidates.shape[:2])
        around = jnp.broadcast_to(observations[:, None], (*candidates.shape[:2], observations.shape[1]))
        variance = self.predict(critics.m, around, candidates)  # [world, draw, gvf]
        log_pi = jax.vmap(log_gaussians, in_axes=(None, None, 1), out_axes=1)(middles, self.asked.sigmas, candidates)
        wanted = log_explorer_score(self.weights, log_pi, variance)
        return jnp.exp(wanted - jax.nn.logsumexp(log_pi, axis=2))  # Eq. 3 (eq:behavior_update)

    # --- learning ----------------------------------------------------------------------------------------------------

    def learn(self, learning: CriticLearning, batches: jax.Array, noise: jax.Array) -> tuple[CriticLearning, Losses]:
        """The updates of one vector step on batches [updates, batch, columns]: Q and M, then the actor."""
        every = self.described.m_every

        def group(critics: Critics, each: tuple) -> tuple[Critics, tuple[jax.Array, jax.Array]]:
            for k in range(every):
                critics, q, m = self.update(critics, learning.actor, each[0][k], each[1][k], variance=k == every - 1)
            return critics, (q, m)

        groups = (batches.reshape(-1, every, *batches.shape[1:]), noise.reshape(-1, every, *noise.shape[1:]))
        critics, losses = jax.lax.scan(group, learning.critics, groups)
        acting, loss = learning.actor, jnp.zeros(())
        if self.actor is not None and acting is not None:
            for k in range(self.actor.options.updates):
                acting, loss = self.update_actor(acting, critics, batches[k], noise[k])
        return CriticLearning(critics, acting), Losses(losses[0].sum(axis=0), losses[1].sum(axis=0), loss)

    def update(
        self, critics: Critics, acting: Acting | None, rows: jax.Array, noise: jax.Array, variance: bool
    ) -> tuple[Critics, jax.Array, jax.Array]:
        """One critic update of Algorithm 2 on a batch: Q, the TD error, M if `variance`, target networks; and the losses."""
        first = self.asked.policies * self.size
        second = first + self.size
        draws = self.critics.next_actions(rows, noise[:, :first].reshape(len(rows), -1, self.size))
        entropy = None
        if self.described.entropy_in_target and acting is not None:
            _, log_mu = squashed_sample(acting.actor, rows[:, self.columns.following], noise[:, first:second])
            entropy = Entropy(jnp.exp(acting.log_alpha), log_mu)
        critics = self.critics.look(critics, rows)
        targets = self.critics.q_targets(critics, rows, draws, entropy)
        critics, q_losses = self.critics.update_q(critics, rows, targets)
        m_losses = jnp.zeros(self.gvfs)
        if variance and self.critics.variance:
            aims = self.critics.m_targets(critics, rows, draws, targets, entropy)
            critics, m_losses = self.critics.update_m(critics, rows, aims)
        return self.critics.follow(critics), q_losses, m_losses

    def update_actor(self, acting: Acting, critics: Critics, rows: jax.Array, noise: jax.Array) -> tuple[Acting, jax.Array]:
        """One update of mu and alpha, at the batch's s' (states of the same stream, for which targets' actions are stored)."""
        assert self.actor is not None and critics.m is not None
        middles = self.asked.own(rows[:, self.columns.notes].reshape(len(rows), -1, self.size))
        around = Surroundings(rows[:, self.columns.following], middles, self.asked.sigmas, self.weights)
        return self.actor.update(acting, critics.m, around, noise[:, -self.size :])

    # --- predicting --------------------------------------------------------------------------------------------------

    def predict(self, twins: Any, observations: jax.Array, actions: jax.Array) -> jax.Array:
        """The twins' aggregated values, [point, gvf]."""
        return aggregated(both(twins, observations, actions), self.described.aggregate)
