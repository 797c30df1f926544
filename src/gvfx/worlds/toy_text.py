"""Gymnasium's toy-text environments as MDPs, read from their transition table P: truth is exact, and runs are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.types import Environment
from gvfx.worlds.mdp import MDP, reachable
from gvfx.worlds.spec import environment_name, layers, time_limit

HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")  # wrappers that do not change the dynamics


def is_toy_text(env: Any) -> bool:
    """Whether the environment has a transition table P and no wrapper changes its dynamics."""
    inner = getattr(env, "unwrapped", env)
    own = all(hasattr(inner, name) for name in ("P", "initial_state_distrib")) and not hasattr(env, "num_envs")
    return own and not _changed_by(env)


def from_gymnasium(env: Environment) -> MDP:
    """FrozenLake, Taxi, CliffWalking and others with `P` and `initial_state_distrib`, as an MDP with their reward.

    A TimeLimit becomes the horizon.  States whose every arrival ends the episode are terminal; the other reachable states
    are `live`.
    """
    inner: Any = getattr(env, "unwrapped", env)
    for name in ("P", "initial_state_distrib"):
        if not hasattr(inner, name):
            raise InputError(f"env: {environment_name(env)} has no {name}; give gvfx.evaluate the environment itself.")
    changed = _changed_by(env)
    if changed:
        raise InputError(f"env: {changed} changes the dynamics given by P; give gvfx.evaluate the environment itself.")
    states, actions = len(inner.P), len(inner.P[0])
    size = max(len(inner.P[s][a]) for s in range(states) for a in range(actions))
    following = np.tile(np.arange(states)[:, None, None], (1, actions, size))
    prob, reward = np.zeros((2, states, actions, size))
    ends = np.zeros((states, actions, size), bool)
    for s in range(states):
        for a in range(actions):
            for k, (p, s_next, r, ended) in enumerate(inner.P[s][a]):
                following[s, a, k], prob[s, a, k], reward[s, a, k], ends[s, a, k] = s_next, p, r, ended
    start = np.asarray(inner.initial_state_distrib, dtype=float)
    reached = reachable(start > 0, lambda states: following[states][(prob[states] > 0) & ~ends[states]])
    possible = (prob > 0) & reached[:, None, None]
    terminal = np.zeros(states, bool)
    terminal[following[possible & ends]] = True
    sometimes = np.intersect1d(following[possible & ends], following[possible & ~ends])
    if sometimes.size:
        raise InputError(f"env: state {sometimes[0]} ends the episode only sometimes; give gvfx.evaluate the environment itself.")
    return MDP(following, prob, start / start.sum(), terminal, time_limit(env), live=reached & ~terminal, reward=reward)


def _changed_by(env: Any) -> str:
    """What makes the dynamics differ from P: a wrapper, or Taxi's fickle passenger; empty if nothing does."""
    wrappers = [type(layer).__name__ for layer in layers(env)[:-1]]
    foreign = [name for name in wrappers if name not in HARMLESS]
    if getattr(getattr(env, "unwrapped", env), "fickle_passenger", False):
        return "fickle_passenger"
    return foreign[0] if foreign else ""
