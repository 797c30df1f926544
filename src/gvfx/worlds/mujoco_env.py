"""Walker and Cheetah behind Gymnasium's interface: gymnasium.make("gvfx/Walker-v0"), gymnasium.make("gvfx/Cheetah-v0")."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.worlds.mujoco import Domain, Lockstep, domain_named
from gvfx.worlds.mujoco_render import render


class MujocoEnv(gymnasium.Env):
    """One world of a domain of `gvfx.worlds.mujoco`.

    Observation: float64 [o].  Reward: the cumulant of `task` (by default the domain's first); info["cumulants"] has the
    cumulants of all tasks by name.  Episodes are truncated at the domain's horizon (1000) and never terminate.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 40}

    def __init__(
        self,
        domain: Domain | str = "walker",
        task: str | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.domain = domain_named(domain) if isinstance(domain, str) else domain
        self.task = self.domain.tasks[0] if task is None else task
        if self.task not in self.domain.tasks:
            raise UnknownName("task", str(task), self.domain.tasks)
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode: {render_mode!r} is not supported; give 'rgb_array' or leave it out.")
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.domain.observation_size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.domain.action_size,), np.float32)
        self._size = (width, height)
        self._world = Lockstep(self.domain, 1)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._world.reset(self.np_random)[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observations, cumulants = self._world.step(np.asarray(action, float)[None])
        self._steps += 1
        named = dict(zip(self.domain.tasks, cumulants[0].tolist(), strict=True))
        return observations[0], named[self.task], False, self._steps >= self.domain.horizon, {"cumulants": named}

    def render(self) -> np.ndarray | None:
        return render(self.domain, self._world.get_state()[0], *self._size) if self.render_mode else None
