"""The agent of tables in an environment stepped from Python.

The functions of the behaviour and the learner, the same as in the compiled loop, are wrapped into `act` and `learn`, each
called once per step for all environments that are stepped together (a plain environment is a single lane).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from gvfx.evidence.counts import reach
from gvfx.evidence.outcomes import Outcomes, remembering
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, whole
from gvfx.rng import BEHAVIOUR, choose, uniform


class TableAgent(NamedTuple):
    """Everything that `act` and `learn` read and write; [lane] is one of the environments stepped together."""

    behaviour: Any
    learner: Any
    pi: np.ndarray  # [1 or states, action, gvf]
    pi_stride: int
    rng: np.ndarray
    t: np.ndarray  # int64 [1] steps done
    visits: np.ndarray  # int64 [states, actions]
    state: np.ndarray  # int64 [lane]
    action: np.ndarray  # int64 [lane]; -1: none chosen yet
    mu: np.ndarray  # [lane, action]
    following: np.ndarray  # int64 [lane]
    alive: np.ndarray  # [lane] 0 where the episode terminated, 1 otherwise
    ended: np.ndarray  # bool [lane] terminated or truncated
    counts: np.ndarray  # bool [lane] False: this was a reset, not a transition
    fresh: np.ndarray  # bool [lane] an episode begins here
    c: np.ndarray  # [lane, gvf]
    gamma: np.ndarray  # [lane, gvf]
    outcomes: Outcomes  # of size 0 if they are not used


@cache
def make_agent(
    sizes: Sizes, behaviour: BehaviourRule, learner: LearnerRule, needs_next_action: bool, counted: bool
) -> tuple[Callable[[TableAgent], None], Callable[[TableAgent], None], Callable[[TableAgent], None]]:
    """act(agent) chooses an action in every lane; learn(agent) learns from every lane's transition; end(agent) ends the
    episodes of all lanes without a transition, for a run that continues in new ones."""
    actions = sizes.actions
    probabilities, observe, behaviour_end = behaviour.probabilities, behaviour.observe, behaviour.episode_end
    update, learner_end = learner.update, learner.episode_end
    remember = remembering(sizes.gvfs)

    @whole
    def act(agent):
        for k in range(agent.state.shape[0]):
            s = agent.state[k]
            if counted and agent.fresh[k]:
                agent.outcomes.evidence.starts[s] += 1
                reach(agent.outcomes.evidence, s, agent.t[0])
                agent.fresh[k] = False
            if not needs_next_action or agent.action[k] < 0:
                probabilities(agent.behaviour, agent.t[0], s, s, agent.pi[s * agent.pi_stride], agent.learner.m[s], agent.mu[k])
                agent.action[k] = choose(agent.mu[k], actions, uniform(agent.rng, BEHAVIOUR))

    @whole
    def learn(agent):
        for k in range(agent.state.shape[0]):
            if not agent.counts[k]:
                agent.action[k] = -1
                continue
            t = agent.t[0]
            s = agent.state[k]
            s_next = agent.following[k]
            action = agent.action[k]
            mu = agent.mu[k]
            prob = mu[action]
            row = s * agent.pi_stride
            next_row = s_next * agent.pi_stride
            next_action = -1
            next_prob = 1.0
            if needs_next_action:
                probabilities(agent.behaviour, t, s_next, s_next, agent.pi[next_row], agent.learner.m[s_next], mu)
                next_action = choose(mu, actions, uniform(agent.rng, BEHAVIOUR))
                next_prob = mu[next_action]
            tr = Transition(row, s, action, prob, next_row, s_next, next_action, next_prob, k, agent.alive[k])
            update(agent.learner, t, tr, agent.c[k], agent.gamma, agent.pi)
            observe(agent.behaviour, t, tr, agent.c[k], agent.gamma, agent.pi)
            if counted:
                arrived = s_next if agent.alive[k] > 0.0 else agent.visits.shape[0]
                remember(agent.outcomes, s * actions + action, arrived, agent.c[k], agent.gamma[k])
                reach(agent.outcomes.evidence, arrived, t + 1)
                reach(agent.outcomes.evidence, s_next, t + 1)
            agent.visits[s, action] += 1
            agent.t[0] = t + 1
            agent.action[k] = next_action
            if agent.ended[k]:
                learner_end(agent.learner, t + 1, agent.rng, agent.pi, agent.gamma)
                behaviour_end(agent.behaviour, t + 1, agent.rng)
                agent.action[k] = -1

    @whole
    def end(agent):
        for k in range(agent.state.shape[0]):
            learner_end(agent.learner, agent.t[0], agent.rng, agent.pi, agent.gamma)
            behaviour_end(agent.behaviour, agent.t[0], agent.rng)
            agent.action[k] = -1

    return act, learn, end


def bound(function: Any, agent: Any) -> Callable[[Any], None]:
    """A compiled function for one agent's types, without numba's type lookup at every call."""
    signature = (typeof(agent),)
    function.compile(signature)
    return function.overloads[signature].entry_point
