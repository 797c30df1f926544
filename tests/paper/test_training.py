"""Training a target policy: where it stops and what it writes."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from helpers.critics import WORLD

from gvfx.errors import InputError
from gvfx_paper.targets import Target, actor
from gvfx_paper.training import TD3, PolicySnapshot, _enough, train_targets
from gvfx_paper.worlds.mujoco import CHEETAH, Lockstep


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


def walked(layers, episodes):
    """The returns of a policy with the noise of the targets in the task "walk", reward by reward."""
    generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(zlib.crc32(b"returns"),)))
    worlds, rewards = Lockstep(WORLD, episodes), []
    seen = worlds.reset(generator)
    for _ in range(WORLD.horizon):
        seen, cumulants = worlds.step(actor(layers, seen) + 0.2 * generator.standard_normal((episodes, 6)))
        rewards.append(cumulants[:, 0])
    return np.sum(rewards, axis=0)


@pytest.mark.parametrize("hidden", [(8,), pytest.param((16, 16), marks=pytest.mark.slow)], ids=["small", "larger"])
def test_training_writes_the_snapshot_with_the_smallest_spread(hidden, tmp_path, monkeypatch):
    """And the curve of all snapshots; their returns are those of the policies that were kept, which training has changed."""
    monkeypatch.setattr("gvfx_paper.training.MID_LEVEL", (0.0, 1000.0))
    monkeypatch.setattr("gvfx_paper.training.SMALL_SPREAD", -1.0)
    monkeypatch.setattr("gvfx_paper.training.SNAPSHOT_EVERY", 160)
    monkeypatch.setattr("gvfx_paper.training.EPISODES", 3)
    learner = TD3(hidden=hidden, batch=32, capacity=1600, learning_starts=160)
    seen = []
    path = train_targets(WORLD, "walk", 0, tmp_path, seen.append, learner, longest=480)
    assert [s.steps for s in seen] == [160, 320, 480] and len({s.spread for s in seen}) == 3
    target, best = Target.load(path), min(seen, key=lambda s: s.spread)
    assert target.facts["steps"] == str(best.steps) and target.facts["return"] == f"{best.mean:.1f}"
    observations = np.random.default_rng(0).normal(size=(3, 17))
    assert np.allclose(target.act(observations), actor(best.layers, observations))
    for s in seen:
        returns = walked(s.layers, 3)
        assert (s.mean, s.spread) == pytest.approx((returns.mean(), returns.std(ddof=1)))
    curve = json.loads(path.with_suffix(".json").read_text())["curve"]
    assert [(c["steps"], c["return"]) for c in curve] == [(s.steps, round(s.mean, 1)) for s in seen]
    assert not np.allclose(seen[0].layers[0][0], seen[1].layers[0][0])
