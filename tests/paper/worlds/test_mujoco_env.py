"""Walker and Cheetah as Gymnasium environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.mujoco_worlds import BOTH

from gvfx_paper.worlds.mujoco import Lockstep


@BOTH
@pytest.mark.filterwarnings("ignore:.*infinity:UserWarning")
def test_gymnasium(domain):
    for k, task in enumerate(domain.tasks):
        env = gymnasium.make(f"gvfx/{domain.name.title()}-v0", task=task)
        check_env(env.unwrapped, skip_render_check=True)
        first, _ = env.reset(seed=5)
        np.testing.assert_array_equal(env.reset(seed=5)[0], first)
        env.action_space.seed(0)
        worlds = Lockstep(domain, 1)
        worlds.set_state(env.unwrapped._world.get_state())
        for t in range(1, domain.horizon + 1):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, info = env.step(action)
            assert not terminated and truncated == (t == domain.horizon)
            if t <= 100:
                expected, cumulants = worlds.step(action[None])
                np.testing.assert_array_equal(observation, expected[0])
                assert reward == cumulants[0, k] and info["cumulants"] == dict(zip(domain.tasks, cumulants[0], strict=True))
