"""Files that gvfx 0.1.0 wrote are still read: results of tables, networks and critics, and a store of experiments."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.tensors import unpack

SAVED = Path(__file__).parents[1] / "data" / "saved-0.1.0"


def leaning(o):
    right = 1 / (1 + np.exp(-8 * (o[..., 2] + 0.5 * o[..., 3])))
    return np.stack([1 - right, right], axis=-1)


POLES = [
    gvfx.GVF(leaning, gvfx.Reward(), 0.95, name="lean"),
    gvfx.GVF(gvfx.uniform_policy(), lambda o, a, o2: float(abs(o2[0])), 0.9, name="away"),
]
SWINGS = [
    gvfx.GVF(gvfx.gaussian_policy(lambda o: -o[..., 2:3], 0.3), gvfx.Reward(), 0.9, name="damp"),
    gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), lambda o, a, o2: float(o2[0]), 0.8, name="still"),
]


def test_a_table_comes_back():
    result = gvfx.load(SAVED / "table.gvfx")
    assert (result.names, result.seeds, result.values.shape) == (("gvf1",), (0, 1), (2, 1, 16))
    assert result.steps.tolist() == list(range(100, 2001, 100)) and result.visits.sum() == 2 * 2000
    world = gvfx.from_gymnasium(gym.make("FrozenLake-v1"))
    questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95)]
    np.testing.assert_allclose(result.details.truth[0], gvfx.exact.values(world, questions), atol=1e-9)
    np.testing.assert_allclose(((result.values - result.details.truth)[..., world.live] ** 2).mean(axis=2), result.mse[:, -1])
    assert result.predict(14) == pytest.approx([0.5086966934])
    np.testing.assert_allclose(result.intervals(14), [[0.3712218025, 0.6461715842]])
    assert "OptimalDesign" in result.summary() and "2,000 steps, 2 seeds, 11 of 16 states visited" in result.summary()


@pytest.mark.parametrize(
    ("name", "env", "questions", "seen", "prediction"),
    [
        ("network", "CartPole-v1", POLES, [0.0, 0.0, 0.0, 0.0], [10.10255184, 0.42408344]),
        ("critics", "Pendulum-v1", SWINGS, [1.0, 0.0, 0.0], [-28.43634302, 0.53714103]),
    ],
)
def test_networks_come_back_and_predict(name, env, questions, seen, prediction):
    path, seen = SAVED / f"{name}.gvfx", np.array(seen, np.float32)
    alone = gvfx.load(path)
    assert alone.names == tuple(q.name for q in questions) and alone.seeds == (0,)
    assert (
        alone.values.shape == (1, 2, 64)
        and alone.details.experiment["environment"] == env
        and env.split("-")[0] in alone.summary()
    )
    with pytest.warns(UserWarning, match="without comparing policies and signals"):  # which it did not keep
        result = gvfx.load(path, env=gym.make(env), questions=questions)
    np.testing.assert_allclose(result.predict(seen), prediction, rtol=1e-4)
    np.testing.assert_allclose(result.predict(result.details.points), result.values[0], rtol=1e-4, atol=1e-5)


def test_critics_predict_after_an_action():
    with pytest.warns(UserWarning, match="without comparing"):
        result = gvfx.load(SAVED / "critics.gvfx", env=gym.make("Pendulum-v1"), questions=SWINGS)
    seen = np.array([1.0, 0.0, 0.0], np.float32)
    np.testing.assert_allclose(result.predict(seen, [0.5]), [-27.91305889, 0.51046137], rtol=1e-4)


@pytest.mark.parametrize("folder", sorted(p.parent for p in SAVED.glob("results/*/experiment.json")), ids=lambda p: p.name)
def test_a_stored_experiment_keeps_its_name_and_its_seeds(folder):
    text = (folder / "experiment.json").read_text()
    experiment = Experiment.from_json(text)
    assert experiment.hash == folder.name and experiment.json == text
    store = Store(SAVED / "results")
    for seed in (0, 1):
        part = store.load(experiment, seed)
        assert part.steps.tolist() == [500, 1000, 1500, 2000] and part.mse.shape == (4, 2)
        assert part.values.shape == (1, 2, experiment.world.states) and part.visits.sum() == 2000
        arrays, metadata = unpack(store.path(experiment, seed).read_bytes(), folder.name)
        assert metadata == {"experiment": folder.name, "seed": str(seed)}
        for name, array in arrays.items():
            known = ~np.isnan(array) if name == "standard_errors" else np.isfinite(array)  # infinite: never tried
            assert known.all(), name
    with pytest.raises(FileNotFoundError):
        store.load(experiment, 2)


def test_the_store_holds_both_experiments():
    assert sorted(p.name for p in (SAVED / "results").iterdir() if p.is_dir()) == ["0a1090eca101e681", "9d8e288a761a0fbd"]
