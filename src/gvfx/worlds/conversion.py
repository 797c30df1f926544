"""Environments made of others: a toy-text environment as an MDP, an MDP as an environment, and observations that remember."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space

from gvfx.errors import InputError
from gvfx.inputs import whole
from gvfx.types import Environment
from gvfx.worlds.mdp import MDP, reachable
from gvfx.worlds.spec import environment_name, layers, time_limit

# --- Gymnasium's toy-text environments as MDPs, read from their transition table P: truth is exact, and runs are compiled


HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")  # wrappers that do not change the dynamics


def is_toy_text(env: Any) -> bool:
    """Whether the environment has a transition table P and no wrapper changes its dynamics."""
    inner = getattr(env, "unwrapped", env)
    own = all(hasattr(inner, name) for name in ("P", "initial_state_distrib")) and not hasattr(env, "num_envs")
    return own and not _changed_by(env)


def from_gymnasium(env: Environment) -> MDP:
    """FrozenLake, Taxi, CliffWalking and others with `P` and `initial_state_distrib`, as an MDP with their reward.

    A TimeLimit becomes the horizon; states whose every arrival ends the episode are terminal.
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


# --- An MDP behind Gymnasium's interface, for runs that step an environment: a world whose transition table is not shown


class SteppedMDP(gymnasium.Env[np.int64, np.int64]):
    """An MDP as an environment: the observation is the state's number, the reward that of the world (0 if it has none)."""

    def __init__(self, world: MDP, chunk: int = 4096) -> None:
        """chunk: random numbers that are drawn together; few if resets with a seed are frequent."""
        self.world, self.chunk = world, chunk
        self.observation_space = gymnasium.spaces.Discrete(world.states)
        self.action_space = gymnasium.spaces.Discrete(world.actions)
        reward = np.zeros(world.next.shape)
        reward += 0.0 if world.reward is None else world.reward
        self.next: list[list[list[int]]] = world.next.tolist()
        self.reward: list[list[list[float]]] = reward.tolist()  # type: ignore[assignment]
        self.edges = world.prob.cumsum(axis=2).tolist()
        self.terminal, self.starts = world.terminal.tolist(), world.start.cumsum().tolist()
        self.uniform: list[float] = []
        self.at = self.age = 0

    def _draw(self, edges: list[float]) -> int:
        if not self.uniform:
            self.uniform = self.np_random.random(self.chunk).tolist()
        u = self.uniform.pop() * edges[-1]
        for k, edge in enumerate(edges):
            if u < edge:
                return k
        return len(edges) - 1

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[np.int64, dict[str, object]]:
        super().reset(seed=seed)
        if seed is not None:
            self.uniform = []
        self.at, self.age = self._draw(self.starts), 0
        return self.at, {}  # type: ignore[return-value]

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, object]]:
        s, a = self.at, int(action)
        k = self._draw(self.edges[s][a])
        self.at, self.age = self.next[s][a][k], self.age + 1
        ended = self.terminal[self.at]
        cut = not ended and self.world.horizon is not None and self.age >= self.world.horizon
        return self.at, self.reward[s][a][k], ended, cut, {}  # type: ignore[return-value]


# --- An environment whose observations carry what came before: the last observations, and the actions between them --

FLAT = (gymnasium.spaces.Box, gymnasium.spaces.Discrete)
FIX = "give an environment whose observations and actions are Box or Discrete"


def history(env: Environment, k: int = 1) -> Environment:
    """The environment with the k observations before the present one and the actions taken there in every observation.

    For environments whose observation does not determine what follows.  The numbers of the present observation come first, so
    that policies and signals that read them by index work as before; then, for each step back, the action and the observation
    before it.  A Discrete action is a 1 among 0s.  Before the first step actions are 0, and observations are the first one.
    """
    steps = whole(k, "k", least=1)
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"env: {env!r:.40} is not an environment of Gymnasium; {FIX}.")
    for space, name in ((env.observation_space, "observation"), (env.action_space, "action")):
        if not isinstance(space, FLAT):
            raise InputError(f"env: its {name}s are {type(space).__name__}; {FIX}.")
    return _History(env, steps)


class _History(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The wrapper that `history` returns."""

    def __init__(self, env: gymnasium.Env[Any, Any], k: int) -> None:
        super().__init__(env)
        seen: Any = flatten_space(env.observation_space)
        acts: Any = flatten_space(env.action_space)
        bounds = [(seen.low, acts.low), (seen.high, acts.high)]
        low, high = (np.concatenate([now, *[then, now] * k]).astype(float) for now, then in bounds)
        self.observation_space = gymnasium.spaces.Box(np.minimum(low, 0), np.maximum(high, 0), dtype=np.float64)
        self.unset, self.before = np.zeros(acts.shape), deque[np.ndarray](maxlen=2 * k)
        self.now = np.zeros(seen.shape)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self.now = self._flat(self.env.observation_space, observation)
        self.before.extend([self.now, self.unset] * (self.before.maxlen or 0))
        return self._whole(), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.before.extend([self.now, self._flat(self.env.action_space, action)])
        self.now = self._flat(self.env.observation_space, observation)
        return self._whole(), reward, terminated, truncated, info

    @staticmethod
    def _flat(space: Any, given: Any) -> np.ndarray:
        return np.asarray(flatten(space, given), float)

    def _whole(self) -> np.ndarray:
        """The present observation, then the action and the observation before it, and so on."""
        back = [*self.before][::-1]
        return np.concatenate([self.now, *back])
