"""The first copy of a vector environment as a plain environment, in every autoreset mode; the others take the same actions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium.vector.utils import iterate

from gvfx.worlds.answers import truths
from gvfx.worlds.spec import stacked_actions


class FirstCopy:
    """A plain environment; `reset` without a seed begins the first copy's next episode."""

    def __init__(self, env: Any) -> None:
        self.env, self.copies = env, int(env.num_envs)
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self.spec, self.metadata = getattr(env, "spec", None), env.metadata
        self.mode = autoreset_mode(env)
        self.following: Any = None  # after SAME_STEP: the first observation of the next episode
        self.last: Any = None  # the last action, which a reset in the next step needs

    @property
    def unwrapped(self) -> Any:
        """The vector environment inside."""
        return self.env.unwrapped

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if "seed" in options or self.last is None:
            observations, info = self.env.reset(**options)
        elif self.mode == "SAME_STEP":
            return self.following, {}
        elif self.mode == "NEXT_STEP":
            observations, _, _, _, info = self.env.step(self._all(self.last))
        else:
            mask = np.arange(self.copies) == 0
            observations, info = self.env.reset(options={"reset_mask": mask})
        return self._first(observations), _own(info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.last = action
        observations, rewards, terminated, truncated, info = self.env.step(self._all(action))
        flags = [truths(values, (self.copies,)) for values in (terminated, truncated)]
        if flags[0] is None or flags[1] is None:  # whoever steps this says so
            return self._first(observations), rewards[0], np.ravel(terminated)[0], np.ravel(truncated)[0], _own(info)
        ended = flags[0] | flags[1]
        following, own = self._first(observations), _own(info)
        if self.mode == "SAME_STEP" and ended[0]:
            self.following, following = following, info["final_obs"][0]
            own = _own(info.get("final_info", {}))
        others = ended & (np.arange(self.copies) > 0)
        if self.mode == "DISABLED" and others.any():
            self.env.reset(options={"reset_mask": others})
        reward = rewards[0] if np.ndim(rewards[0]) else float(rewards[0])
        return following, reward, bool(flags[0][0]), bool(flags[1][0]), own

    def _all(self, action: Any) -> Any:
        return stacked_actions(self.action_space, [action] * self.copies)

    def _first(self, observations: Any) -> Any:
        first = next(iter(iterate(self.env.observation_space, observations)))
        return first.item() if isinstance(first, np.generic) else copy.deepcopy(first)


def autoreset_mode(env: Any) -> str:
    """When a vector environment begins new episodes: NEXT_STEP, SAME_STEP or DISABLED."""
    return str(getattr(env.metadata.get("autoreset_mode"), "name", "NEXT_STEP"))


def _own(info: dict[str, Any]) -> dict[str, Any]:
    """The info of the first copy."""
    return {
        key: values[0]
        for key, values in info.items()
        if not key.startswith("_") and not isinstance(values, dict) and (f"_{key}" not in info or info[f"_{key}"][0])
    }
