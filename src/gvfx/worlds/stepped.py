"""An MDP behind Gymnasium's interface, for runs that step an environment: a world whose transition table is not shown."""

from __future__ import annotations

import gymnasium
import numpy as np

from gvfx.worlds.mdp import MDP


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
