"""What a Gymnasium environment's spaces say."""

from __future__ import annotations

import gymnasium as gym
import pytest

import gvfx
from gvfx.questions.reader import Targets
from gvfx.worlds.spec import discrete_spec


class Numbered(gym.Env):
    """States 5, 6, 7 and actions 1, 2: spaces that do not start at 0."""

    observation_space = gym.spaces.Discrete(3, start=5)
    action_space = gym.spaces.Discrete(2, start=1)


def test_spaces_may_start_anywhere():
    spec = discrete_spec(Numbered())
    assert (spec.first_state, spec.first_action, spec.skeleton.states, spec.skeleton.actions) == (5, 1, 3, 2)
    question = gvfx.GVF(lambda s: {5: [1, 0], 6: [0, 1], 7: [0.5, 0.5]}[int(s)], 1.0)
    assert Targets([question], 2, 3, 5)([6, 7])[:, :, 0].tolist() == [[0, 1], [0.5, 0.5]]


def test_other_spaces_are_named():
    with pytest.raises(gvfx.InputError, match="^observation_space: Box is not Discrete"):
        discrete_spec(gym.make("CartPole-v1"))
