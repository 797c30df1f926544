"""An environment whose observations carry what came before: the last observations, and the actions between them."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import whole
from gvfx.types import Environment

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
    return _History(env, steps)


class _History(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The wrapper that `history` returns."""

    def __init__(self, env: gymnasium.Env[Any, Any], k: int) -> None:
        super().__init__(env)
        seen, acts = (
            _bounds(space, name) for space, name in ((env.observation_space, "observation"), (env.action_space, "action"))
        )
        self.unset, self.before = np.zeros_like(acts[0]), deque[np.ndarray](maxlen=2 * k)
        low, high = (np.concatenate([s, *[np.concatenate([a, s])] * k]) for s, a in zip(seen, acts, strict=True))
        self.observation_space = gymnasium.spaces.Box(np.minimum(low, 0), np.maximum(high, 0), dtype=np.float64)
        self.now = np.zeros_like(seen[0])

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self.now = _numbers(self.env.observation_space, observation)
        self.before.extend([self.now, self.unset] * (self.before.maxlen or 0))
        return self._whole(), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.before.extend([self.now, _numbers(self.env.action_space, action)])
        self.now = _numbers(self.env.observation_space, observation)
        return self._whole(), reward, terminated, truncated, info

    def _whole(self) -> np.ndarray:
        """The present observation, then the action and the observation before it, and so on."""
        back = [*self.before][::-1]
        return np.concatenate([self.now, *back])


def _bounds(space: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest numbers of a space."""
    if isinstance(space, gymnasium.spaces.Box):
        return space.low.ravel().astype(float), space.high.ravel().astype(float)
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.zeros(int(space.n)), np.ones(int(space.n))
    raise InputError(f"env: its {name}s are {type(space).__name__}; {FIX}.")


def _numbers(space: Any, given: Any) -> np.ndarray:
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.eye(int(space.n))[int(given) - int(space.start)]
    return np.asarray(given, float).ravel()
