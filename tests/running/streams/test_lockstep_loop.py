"""The lockstep loop: staggered worlds, real next observations, named streams."""

from __future__ import annotations

import numpy as np
from helpers.critics import SMALL, WORLD, make_agent

from gvfx.behaviours.fixed import RoundRobin, Uniform
from gvfx.running.checkpoint import flatten
from gvfx.running.streams.lockstep_loop import Staggered
from gvfx.worlds.mujoco import Lockstep


def test_worlds_are_staggered_and_truncations_keep_the_real_next_observation(targets):
    agent = make_agent(targets, RoundRobin(), SMALL)
    stream = Staggered(WORLD, agent, seed=3)
    assert stream.ages.tolist() == [0, 10, 20, 30]
    twin = Lockstep(WORLD, 4)
    ended = []
    for step in range(1, 12):
        twin.set_state(stream.simulator.get_state())
        actions = np.asarray(stream.state.actions)
        rows = stream.advance()
        following, cumulants = twin.step(actions)
        assert np.allclose(rows[:, agent.columns.following], following, atol=1e-5)
        assert np.allclose(rows[:, agent.columns.cumulants], cumulants, atol=1e-6)
        if stream.episodes > len(ended):
            ended.append(step)
            assert not np.allclose(stream.observations[3], following[3], atol=1e-3)
    assert ended == [10]
    stored = np.asarray(stream.state.replay.rows[: 11 * 4])
    middles = np.stack([t.act(stored[:, agent.columns.following]) for t in targets], axis=1).reshape(44, 12)
    assert np.allclose(stored[:, agent.columns.notes], middles, atol=1e-5)


def test_streams_are_named_so_behaviours_start_from_the_same_networks(targets):
    first = Staggered(WORLD, make_agent(targets, RoundRobin(), SMALL), seed=1)
    second = Staggered(WORLD, make_agent(targets, Uniform(), SMALL), seed=1)
    for x, y in zip(flatten(first.state.learning).values(), flatten(second.state.learning).values(), strict=True):
        assert (x == y).all()
    assert (first.observations == second.observations).all()
