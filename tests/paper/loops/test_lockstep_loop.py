"""The lockstep loop: staggered worlds, real next observations, named streams."""

from __future__ import annotations

import numpy as np
from helpers.critics import SIGMAS, SMALL, WORLD, make_agent

from gvfx.behaviours.fixed import RoundRobin, Uniform
from gvfx.behaviours.wrappers import Alternate
from gvfx.learners.networks.critic_updates import log_clipped
from gvfx.running.checkpoint import flatten
from gvfx_paper.loops.critics_lockstep import Staggered
from gvfx_paper.worlds.mujoco import Lockstep


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


def test_traces_are_ratios_of_probabilities_and_end_with_an_episode(targets):
    """min(1, pi_i / mu) of what was done, by clipped Gaussians; 0 for the first action after a reset."""
    agent = make_agent(targets, RoundRobin(), SMALL)
    stream = Staggered(WORLD, agent, seed=3)
    c, seen, followed, begun = agent.columns, [], [], []
    for _ in range(20):
        begun.append(stream.ages == 0)
        seen.append(stream.observations.copy())
        followed.append(np.asarray(stream.state.acting[0][0]).copy())
        stream.advance()
    rows = np.asarray(stream.state.replay.rows[:80])
    seen, followed, begun = np.concatenate(seen), np.concatenate(followed), np.concatenate(begun)
    log_pi = np.stack(
        [log_clipped(t.act(seen), sigma, rows[:, c.action]) for t, sigma in zip(targets, SIGMAS, strict=True)], axis=1
    )
    expected = np.exp(np.minimum(0, log_pi - log_pi[np.arange(80), followed][:, None]))
    expected[begun] = 0
    expected[:4] = rows[:4, c.traces]  # nothing comes before the first actions
    np.testing.assert_allclose(rows[:, c.traces], expected, rtol=2e-3, atol=1e-4)
    assert begun[4:].sum() == 1 and (rows[:, c.traces] > 0.99).any()


def test_alternate_gives_a_share_of_the_episodes_to_either_behaviour():
    """Every third episode is the behaviour's, the others follow the targets in turn without a gap."""
    rule = Alternate(Uniform(), RoundRobin(), share=1 / 3).box_action_rule()
    state, chance, pull, history = rule.begin(2, 2), np.zeros((2, 2)), np.ones((2, 2)), []
    for _ in range(12):
        state, which = rule.choose(state, chance, pull)
        state, again = rule.choose(state, chance, pull)
        assert (which == again).all()  # within an episode
        history.append(np.asarray(which))
        state = rule.episode_end(state, np.array([True, True]))
    for world in np.array(history).T:
        assert (world == 2).sum() == 4 and (np.diff(np.flatnonzero(world == 2)) == 3).all()
        turns = world[world < 2]
        assert (turns[1:] != turns[:-1]).all()
