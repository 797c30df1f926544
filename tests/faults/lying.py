"""Chains whose resets and ends are not what they say, or that write into what they gave or were given; their true values."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

N, GAMMA = 5, 0.8
UP = (0.3, 0.8)  # the probability of a step up, by action
LANES = 4


def true_values(at_two: bool = False, right: Any = 0.5, discount: float = GAMMA) -> np.ndarray:
    """The values [state] of s' + a / 2, or of 1 in state 2; right: the probability of action 1 [state]; cuts do not matter."""
    P, right = np.zeros((N, N)), np.broadcast_to(right, N)
    for s in range(N):
        up = UP[0] + right[s] * (UP[1] - UP[0])
        P[s, (s + 1) % N] += up
        P[s, max(0, s - 1)] += 1 - up
    return np.linalg.solve(np.eye(N) - discount * P, np.arange(N) == 2 if at_two else P @ np.arange(N) + right / 2)


class Chain(gym.Env[Any, Any]):
    """A walk over N states that is cut after some steps.

    form:  "tables", "numbered", "linear", "networks", "box" (actions) or "listed" (actions of two numbers).
    fault: "" for none.
    start: "anywhere", or "low": 0.
    """

    def __init__(self, form: str = "tables", fault: str = "", cut: int = 6, start: str = "low") -> None:
        spaces: dict[str, Any] = {"tables": Discrete(N), "listed": Discrete(N), "numbered": MultiDiscrete([N, 2])}
        self.observation_space: Any = spaces.get(form, Box(0, N, (1,), np.float32))
        moves: dict[str, Any] = {"box": Box(-1, 1, (1,), np.float32), "listed": MultiDiscrete([2, 1])}
        self.action_space: Any = moves.get(form, Discrete(2))
        self.form, self.fault, self.cut, self.start = form, fault, cut, start
        self.buffer: Any = np.array(self.look(0))
        self.info: dict[str, Any] = {}

    def look(self, s: int) -> Any:
        if self.form in ("tables", "listed"):
            return s
        return np.array([s, 0]) if self.form == "numbered" else np.array([s], np.float32)

    def seen(self) -> Any:
        if self.fault != "one array":
            return self.look(self.s)
        self.buffer[...] = self.look(self.s)
        return self.buffer

    def begin(self) -> None:
        self.s, self.age = int(self.np_random.integers(N)) if self.start == "anywhere" else 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=1 if self.fault == "seeds itself" or (self.fault == "seeds itself later" and seed is None) else seed)
        self.begin()
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        a = int(np.ravel(action)[0] > 0)
        self.s = (self.s + 1) % N if self.np_random.random() < UP[a] else max(0, self.s - 1)
        self.age += 1
        reward, over, info = self.s + a / 2, self.age >= self.cut, {"signal": np.array(self.s + a / 2)}
        if self.fault == "one info":
            self.info.update(info)
            info = self.info
        if self.fault == "writes actions" and isinstance(action, np.ndarray):
            action[...] = 0
        if self.fault.startswith("resets itself") and over:
            last = self.look(self.s)
            self.begin()
            info |= {"final_observation": last} if self.fault.endswith("and tells") else {}
            return self.seen(), reward, False, True, info
        limit = self.fault == "limit as terminated"
        return self.seen(), reward, over and limit, over and not limit, info


class Chains(gym.vector.VectorEnv[Any, Any, Any]):
    """Chains together that do one thing at ends ("next", "same", "same, no last", "disabled") and declare another."""

    def __init__(self, form: str, does: str, says: Any, cut: int = 6, start: str = "low", paid: bool = True) -> None:
        self.envs = [Chain(form, "", cut + k % 2, start) for k in range(LANES)]
        self.does, self.paid, self.num_envs = does, paid, LANES
        self.single_observation_space, self.single_action_space = self.envs[0].observation_space, self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, LANES)
        self.action_space = batch_space(self.single_action_space, LANES)
        self.metadata = {} if says is None else {"autoreset_mode": says}
        self.over = np.zeros(LANES, bool)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        mask = (options or {}).get("reset_mask", np.ones(LANES, bool))
        if self.does == "disabled, all":
            mask = np.ones(LANES, bool)
        for k in np.flatnonzero(mask):
            self.envs[k].reset(seed=None if seed is None else seed + int(k))
        self.over[mask] = False
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        return np.array([env.look(env.s) for env in self.envs], self.observation_space.dtype)

    def step(self, actions: Any) -> Any:
        rewards, over, last = np.zeros(LANES), np.zeros(LANES, bool), np.empty(LANES, object)
        for k, env in enumerate(self.envs):
            if self.does == "next" and self.over[k]:
                env.reset()
                continue
            _, reward, _, over[k], _ = env.step(actions[k])
            rewards[k] = reward if self.paid else 0.0
            if over[k] and self.does.startswith("same"):
                last[k] = env.look(env.s)
                env.begin()
        self.over = over
        tells = self.does == "same" and over.any()
        return self.seen(), rewards, np.zeros(LANES, bool), over, {"final_obs": last, "_final_obs": over} if tells else {}


class Hiding(gym.vector.VectorWrapper[Any, Any, Any]):
    """Hides what the environment inside declares."""

    metadata: dict[str, Any] = {}


def declared(name: str, mode: str) -> Any:
    """What an environment says: a mode, or its own in some form."""
    own = {"next": "NEXT_STEP", "same": "SAME_STEP", "disabled": "DISABLED"}[mode.split(",")[0]]
    forms = {"enum": AutoresetMode[own], "name": own, "value": AutoresetMode[own].value, "nothing": None, "nonsense": "soon"}
    return forms[name] if name in forms else AutoresetMode[name]
