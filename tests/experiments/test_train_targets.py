"""Training a target policy: where it stops and what it writes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.critics import WORLD

from gvfx.errors import InputError
from gvfx.experiments.train_targets import PolicySnapshot, _enough, train_targets
from gvfx.learners.networks.td3 import TD3
from gvfx.questions.target_policies import Target, actor
from gvfx.worlds.mujoco import CHEETAH


def test_training_a_target_stops_where_it_should(tmp_path):
    snapshots = [
        PolicySnapshot(k, mean, spread, ()) for k, (mean, spread) in enumerate([(100, 5), (400, 160), (700, 9), (800, 9)])
    ]
    assert not _enough(snapshots[:1]) and not _enough(snapshots[:2]) and not _enough(snapshots[:3])
    assert _enough(snapshots)  # outgrown
    assert _enough([PolicySnapshot(1, 400, 50, ())])  # good
    assert not _enough(snapshots[2:])  # no mid-level one was met
    with pytest.raises(InputError, match="task: 'runn' is unknown"):
        train_targets(CHEETAH, "runn", 0, tmp_path)


@pytest.mark.slow
def test_training_writes_a_target_that_acts(tmp_path, monkeypatch):
    monkeypatch.setattr("gvfx.experiments.train_targets.MID_LEVEL", (0.0, 1000.0))
    monkeypatch.setattr("gvfx.experiments.train_targets.SNAPSHOT_EVERY", 320)
    monkeypatch.setattr("gvfx.experiments.train_targets.EPISODES", 2)
    learner = TD3(hidden=(16, 16), batch=32, capacity=1600, learning_starts=160)
    seen = []
    path = train_targets(WORLD, "walk", 0, tmp_path, seen.append, learner, longest=320)
    target = Target.load(path)
    assert len(seen) == 1 and target.facts["steps"] == "320"
    observations = np.random.default_rng(0).normal(size=(3, 17))
    assert np.allclose(target.act(observations), actor(seen[0].layers, observations))
