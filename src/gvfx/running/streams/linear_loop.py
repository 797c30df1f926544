"""Linear learning's steps in compiled functions: choosing actions by cells, and keeping transitions.

A row of a behaviour's tables is a cell of the observations (`gvfx.features.cells`); the target policies are those at the
observation itself.  Transitions are kept up to a capacity; beyond, each new one replaces a random one with the probability
that keeps the sample uniform (reservoir sampling).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.features.cells import Cells, find
from gvfx.kernel import BehaviourRule, Sizes, Transition, piece, whole
from gvfx.rng import BEHAVIOUR, REPLAY, choose, uniform


class Kept(NamedTuple):
    """The transitions kept: the first `used[0]` entries of the [n] arrays, which have spare room; used[1] were seen."""

    observation: np.ndarray  # float32 [n, o]
    following: np.ndarray  # float32 [n, o]
    action: np.ndarray  # int32 [n]
    cumulant: np.ndarray  # [n, gvf]
    discount: np.ndarray  # [n, gvf]; 0 on termination
    episode: np.ndarray  # int64 [n]
    first: np.ndarray  # bool [n] an episode began with it
    terminated: np.ndarray  # bool [n] an episode ended with it
    pi: np.ndarray  # float32 [1 or n, action, policy] at `following`; one row if no policy depends on the observation
    used: np.ndarray  # int64 [2]


class LinearArrays(NamedTuple):
    """Everything that compiled functions read and write; [lane] is one of the environments stepped together."""

    behaviour: Any
    cells: Cells
    m: np.ndarray  # [row, action, gvf] variances, for behaviours that read them
    member: np.ndarray  # int64 [gvf]
    rng: np.ndarray
    t: np.ndarray  # int64 [2] steps done, episodes begun
    kept: Kept
    state: np.ndarray  # float32 [lane, o]
    following: np.ndarray  # float32 [lane, o]
    action: np.ndarray  # int64 [lane]
    mu: np.ndarray  # [action]
    given: np.ndarray  # [action, gvf] policies at an observation
    policies: np.ndarray  # float32 [lane, action, policy] at `state`
    policies_next: np.ndarray  # float32 [lane, action, policy] at `following`
    alive: np.ndarray  # [lane] 0 where the episode terminated
    ended: np.ndarray  # bool [lane] terminated or truncated
    counts: np.ndarray  # bool [lane] False: this was a reset, not a transition
    fresh: np.ndarray  # bool [lane] an episode begins here
    begins: np.ndarray  # bool [lane] the next transition is the first of its episode
    number: np.ndarray  # int64 [lane] of the episode
    c: np.ndarray  # [lane, gvf]
    gamma: np.ndarray  # [lane, gvf]


@cache
def make_choice(sizes: Sizes, behaviour: BehaviourRule) -> Callable[..., Any]:
    """decide(agent, lane): writes mu at the lane's observation, and returns an action drawn from it."""
    gvfs, actions = sizes
    probabilities = behaviour.probabilities

    @piece
    def decide(agent, k):
        row = find(agent.cells, agent.state[k])
        for a in range(actions):
            for i in range(gvfs):
                agent.given[a, i] = agent.policies[k, a, agent.member[i]]
        probabilities(agent.behaviour, agent.t[0], row, row, agent.given, agent.m[row], agent.mu)
        return choose(agent.mu, actions, uniform(agent.rng, BEHAVIOUR))

    return decide


@cache
def make_watch(sizes: Sizes, behaviour: BehaviourRule, counts_cells: bool) -> Callable[..., None]:
    """watch(agent, lane): the behaviour observes the lane's transition between cells, if it counts them."""
    observe = behaviour.observe

    @piece
    def watch(agent, k):
        if counts_cells:
            row = find(agent.cells, agent.state[k])
            arrived = find(agent.cells, agent.following[k])
            tr = Transition(row, row, agent.action[k], 1.0, arrived, arrived, -1, 1.0, k, agent.alive[k])
            observe(agent.behaviour, agent.t[0], tr, agent.c[k], agent.gamma, agent.given)

    return watch


@piece
def keep(agent, k):
    """Keep the lane's transition."""
    kept = agent.kept
    n = kept.used[0]
    kept.used[1] += 1
    if n < kept.action.shape[0]:
        kept.used[0] = n + 1
    else:
        n = int(uniform(agent.rng, REPLAY) * kept.used[1])
        if n >= kept.action.shape[0]:
            return
    for i in range(agent.state.shape[1]):
        kept.observation[n, i] = agent.state[k, i]
        kept.following[n, i] = agent.following[k, i]
    kept.action[n] = agent.action[k]
    for i in range(agent.c.shape[1]):
        kept.cumulant[n, i] = agent.c[k, i]
        kept.discount[n, i] = agent.gamma[k, i] * agent.alive[k]
    kept.episode[n] = agent.number[k]
    kept.first[n] = agent.begins[k]
    kept.terminated[n] = agent.alive[k] == 0.0
    if kept.pi.shape[0] > 1:
        for a in range(kept.pi.shape[1]):
            for p in range(kept.pi.shape[2]):
                kept.pi[n, a, p] = agent.policies_next[k, a, p]


@cache
def make_lanes(sizes: Sizes, behaviour: BehaviourRule, counts_cells: bool) -> tuple[Callable[..., None], ...]:
    """act(agent) chooses an action in every lane; learn(agent) keeps every lane's transition; show(agent, observations,
    policies, mu) writes the behaviour's probabilities [point, action] at observations; end(agent) ends all episodes."""
    decide, episode_end = make_choice(sizes, behaviour), behaviour.episode_end
    watch = make_watch(sizes, behaviour, counts_cells)
    actions = sizes.actions

    @whole
    def act(agent):
        for k in range(agent.state.shape[0]):
            if agent.fresh[k]:
                agent.number[k] = agent.t[1]
                agent.t[1] += 1
                agent.begins[k] = True
                agent.fresh[k] = False
            agent.action[k] = decide(agent, k)

    @whole
    def learn(agent):
        for k in range(agent.state.shape[0]):
            if not agent.counts[k]:
                continue
            keep(agent, k)
            watch(agent, k)
            agent.begins[k] = False
            agent.t[0] += 1
            if agent.ended[k]:
                episode_end(agent.behaviour, agent.t[0], agent.rng)

    @whole
    def show(agent, observations, policies, mu):
        for n in range(observations.shape[0]):
            for i in range(observations.shape[1]):
                agent.state[0, i] = observations[n, i]
            for a in range(actions):
                for p in range(agent.policies.shape[2]):
                    agent.policies[0, a, p] = policies[n, a, p]
            decide(agent, 0)
            for a in range(actions):
                mu[n, a] = agent.mu[a]

    @whole
    def end(agent):
        for _ in range(agent.state.shape[0]):
            episode_end(agent.behaviour, agent.t[0], agent.rng)

    return act, learn, show, end
