"""Specs: the right one for every kind of environment, and their translations between environment and learner."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from gvfx.errors import InputError
from gvfx.worlds.spec import BadObservation, BoxActionSpec, BoxSpec, DiscreteSpec, spec_of


class Made(gym.Env):
    """An environment of given spaces that is never stepped."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


STATES, LEVERS = gym.spaces.Discrete(3, start=5), gym.spaces.Discrete(2, start=1)
POSITION, FORCE = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(np.array([0.0, -2.0]), np.array([1.0, 2.0]), dtype=np.float64)
BOTH = gym.spaces.Dict({"at": POSITION, "room": STATES})


@pytest.mark.parametrize("vector", [False, True], ids=["plain", "vector"])
@pytest.mark.parametrize(
    "observations, actions, kind",
    [
        (STATES, LEVERS, DiscreteSpec),
        (POSITION, LEVERS, BoxSpec),
        (BOTH, LEVERS, BoxSpec),
        (POSITION, FORCE, BoxActionSpec),
        (STATES, FORCE, BoxActionSpec),
    ],
)
def test_the_spaces_decide_which_spec_an_environment_has(observations, actions, kind, vector):
    env = Made(observations, actions)
    spec = spec_of(gym.vector.SyncVectorEnv([lambda: Made(observations, actions)] * 3) if vector else env)
    assert type(spec) is kind
    assert (spec.lanes, spec.single) == ((3, False) if vector else (1, True))


@pytest.mark.parametrize("actions", [gym.spaces.MultiBinary(10), gym.spaces.Box(0, np.inf), gym.spaces.Box(0, 1000, dtype=int)])
def test_unsupported_actions_are_named(actions):
    with pytest.raises(InputError, match="^action_space: "):
        spec_of(Made(POSITION, actions))


def test_discrete_states_and_actions_are_counted_from_zero():
    spec = spec_of(Made(STATES, LEVERS))
    assert [spec.seen(s) for s in (5, np.int64(6), np.array(7))] == [0, 1, 2]
    assert (spec.to_env(0), spec.to_env_batch(np.array([0, 1])).tolist()) == (1, [1, 2])
    for bad in (4, 8, 5.5, np.zeros(2), "five"):
        with pytest.raises(BadObservation):
            spec.seen(bad)


def test_observations_become_vectors():
    spec = spec_of(Made(BOTH, LEVERS))
    first = {"at": np.array([0.5, -0.5], np.float32), "room": 6}
    assert spec.size == 5 and spec.seen(first).tolist() == [0.5, -0.5, 0.0, 1.0, 0.0]
    batch, vectors, alone = spec.batch(first)
    assert batch == [first] and vectors.shape == (1, 5) and alone
    plain = spec_of(Made(POSITION, LEVERS))
    batch, vectors, alone = plain.batch([[0.1, 0.2], [0.3, 0.4]])
    assert batch.shape == vectors.shape == (2, 2) and not alone
    with pytest.raises(InputError, match="^observation: "):
        plain.batch([[0.1, np.nan]])


def test_box_actions_are_scaled_to_minus_one_and_one_and_back():
    spec = spec_of(Made(POSITION, FORCE))
    learners = np.array([[-1.0, 1.0], [0.0, 0.5], [1.0, -1.0]], np.float32)
    environments = spec.to_env_batch(learners)
    np.testing.assert_allclose(environments, [[0.0, 2.0], [0.5, 1.0], [1.0, -2.0]])
    np.testing.assert_allclose(spec.scaled(environments), learners)
    np.testing.assert_allclose(spec.to_env(np.array([5.0, -5.0])), [1.0, -2.0])  # clipped to the space
    np.testing.assert_allclose(spec.given([0.5, 2.0], 2), [[0.0, 1.0]] * 2)
    with pytest.raises(InputError, match="^action: .* does not lie in Box"):
        spec.given([2.0, 0.0], 1)
