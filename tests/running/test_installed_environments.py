"""Environments of other packages, where they are installed: MO-Gymnasium, MiniGrid and those of Gymnasium itself."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from benchmarks.environments import installed, questions, tried

IGNORED = "ignore::UserWarning"  # the packages' own


def test_blackjacks_own_observation_is_predicted():
    env = gym.make("Blackjack-v1")
    stick = gvfx.GVF(lambda o: [1.0, 0.0] if o[0] >= 17 else [0.0, 1.0], gvfx.Reward(), 1.0, name="stick at 17")
    result = gvfx.evaluate(env, [stick], steps=4000)
    assert result.predict((14, 10, 0)).shape == (1,)
    assert result.predict([(14, 10, 0), (20, 5, 1)]).shape == (1, 2)
    assert result.predict((20, 5, 0)) > result.predict((14, 10, 0))
    assert str(result.details.experiment["learner"]).startswith("CertaintyEquivalence")


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CartPole-v1", "Blackjack-v1"])
def test_the_benchmark_of_environments_tries_them(name):
    assert name in installed("gymnasium")
    one = tried(name, 100)
    assert one.works is True and one.questions == len(questions(gym.make(name))) == 4 and one.answered


@pytest.mark.filterwarnings(IGNORED)
@pytest.mark.parametrize("name", ["deep-sea-treasure-v0", "four-room-v0", "breakable-bottles-v0", "mo-mountaincar-v0"])
def test_mo_gymnasium(name):
    mo = pytest.importorskip("mo_gymnasium")
    env = mo.make(name)
    actions, size = env.action_space.n, env.unwrapped.reward_space.shape[0]
    weights = np.ones(size)
    asked = [gvfx.GVF(np.full(actions, 1 / actions), c, 0.9) for c in (gvfx.Reward(), gvfx.Reward(weights=weights))]
    result = gvfx.evaluate(env, asked, steps=1000)
    assert result.names == (*(f"reward[{k}]" for k in range(size)), "gvf2")
    parts = [v.value for v in result.value().values()]
    assert parts[-1] == pytest.approx(sum(parts[:-1]), abs=0.05 + 0.01 * abs(parts[-1]))
    assert not [f for f in gvfx.check(env, asked, steps=300) if f.severity == "error" and name != "breakable-bottles-v0"]


@pytest.mark.filterwarnings(IGNORED)
def test_vector_environments_of_mo_gymnasium():
    mo = pytest.importorskip("mo_gymnasium")
    envs = mo.wrappers.vector.MOSyncVectorEnv([lambda: mo.make("deep-sea-treasure-v0")] * 3)
    asked = [gvfx.GVF([0.25] * 4, gvfx.Reward(), 0.9)]
    together = gvfx.evaluate(envs, asked, gvfx.Uniform(), steps=6000)
    alone = gvfx.evaluate(mo.make("deep-sea-treasure-v0"), asked, gvfx.Uniform(), steps=6000)
    for one, other in zip(together.value().values(), alone.value().values(), strict=True):
        assert abs(one.value - other.value) < one.high - one.low


@pytest.mark.filterwarnings(IGNORED)
def test_minigrid_works_with_its_mission_left_out():
    pytest.importorskip("minigrid")
    env = gym.make("MiniGrid-Empty-5x5-v0")
    asked = [gvfx.GVF([1 / 7] * 7, gvfx.Reward(), 0.9, name="goal")]
    with pytest.warns(UserWarning, match="mission is left out"):
        result = gvfx.evaluate(env, asked, steps=1000)
    observation, _ = env.reset(seed=1)
    assert np.isfinite(result.predict(observation)).all()
    assert set(result.rows()[0]["observation"]) == {"image", "direction"}


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_asynchronous_copies_of_blackjack_are_numbered_in_every_autoreset_mode(mode):
    envs = gym.make_vec("Blackjack-v1", 2, vectorization_mode="async", vector_kwargs={"autoreset_mode": mode})
    try:
        result = gvfx.evaluate(envs, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 1.0, name="either")], gvfx.Uniform(), steps=1000)
        observations, _ = envs.reset(seed=0)
        assert result.predict(observations).shape == (1, 2)
    finally:
        envs.close()
    assert result.visits.sum() == 1000 and -1 <= result.value()["either"].value <= 0.2
