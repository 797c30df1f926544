"""Stable-Baselines3 models as policies; run in their own environment by `make test-sb3`."""

from __future__ import annotations

import runpy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC

import gvfx
from gvfx.questions.written import from_sb3

torch.set_num_threads(1)


STATES = np.random.default_rng(0).normal(0, 0.5, (7, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def models():
    env = gym.make("CartPole-v1")
    small = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}
    return {
        "PPO": PPO("MlpPolicy", env, n_steps=64, **small).learn(128),
        "A2C": A2C("MlpPolicy", env, **small),
        "DQN": DQN("MlpPolicy", env, **small),
    }


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_probabilities_are_those_with_which_the_model_acts(models, name):
    model = models[name]
    rows = from_sb3(model).at(STATES, 2)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    torch.manual_seed(0)
    many = model.predict(np.repeat(STATES[:1], 4000, axis=0), deterministic=False)[0]
    assert many.mean() == pytest.approx(rows[0, 1], abs=0.03)
    best = from_sb3(model, deterministic=True).at(STATES, 2)
    assert np.array_equal(best.argmax(axis=1), model.predict(STATES, deterministic=True)[0]) and set(best.ravel()) == {0.0, 1.0}


def test_dqn_needs_a_temperature_or_to_be_deterministic(models):
    model = models["DQN"]
    with pytest.raises(gvfx.InputError, match="^temperature: DQN has action values"):
        from_sb3(model)
    with torch.no_grad():
        q = model.policy.q_net(torch.as_tensor(STATES)).numpy()
    softmax = np.exp(q / 0.1) / np.exp(q / 0.1).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(from_sb3(model, temperature=0.1).at(STATES, 2), softmax, atol=1e-5)
    assert np.array_equal(from_sb3(model, deterministic=True).at(STATES, 2).argmax(axis=1), model.predict(STATES)[0])


def test_files_are_refused_unless_trusted(models, tmp_path):
    path = tmp_path / "model.zip"
    models["PPO"].save(path)
    with pytest.raises(gvfx.InputError, match="pickled Python objects, which can run any code"):
        from_sb3(path, algorithm="PPO")
    with pytest.raises(gvfx.InputError, match="^algorithm"):
        from_sb3(path, trust=True)
    np.testing.assert_array_equal(
        from_sb3(path, algorithm="PPO", trust=True).at(STATES, 2), from_sb3(models["PPO"]).at(STATES, 2)
    )


def test_models_with_continuous_actions_are_refused():
    with pytest.raises(gvfx.InputError, match="^model"):
        from_sb3(SAC("MlpPolicy", gym.make("Pendulum-v1"), buffer_size=10, device="cpu"))
    with pytest.raises(gvfx.InputError, match="^model: its actions are not Discrete"):
        from_sb3(PPO("MlpPolicy", gym.make("Pendulum-v1"), device="cpu"))


def test_states_of_a_table_and_mixtures():
    model = PPO("MlpPolicy", gym.make("FrozenLake-v1"), policy_kwargs={"net_arch": [4]}, device="cpu")
    table = from_sb3(model).table(16, 4)
    assert table.shape == (16, 4)
    mixed = gvfx.mixture_policy([from_sb3(model), gvfx.uniform_policy()])
    np.testing.assert_allclose(mixed.table(16, 4), (table + 0.25) / 2)
    questions = [gvfx.GVF(mixed, gvfx.Reward(), 0.9)]
    assert gvfx.evaluate(gym.make("FrozenLake-v1"), questions, steps=2000).predict(0).shape == (1,)


def test_the_example_runs(capsys):
    path = Path(__file__).parents[2] / "examples" / "sb3" / "cartpole.py"
    assert len(path.read_text().splitlines()) <= 60
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 6
