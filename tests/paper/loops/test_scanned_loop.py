"""The scanned engine equals a plain step-by-step reference; its behaviours and replays."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np
import pytest
from helpers import networks
from helpers import reference as plain
from helpers.networks import Adam, gradients, numpy_network
from helpers.scanned import BEHAVIOUR, POLICIES, SMALL, engine

import gvfx
from gvfx.behaviours.wrappers import Calibrated
from gvfx_paper.worlds import continuous_grid
from gvfx_paper.worlds.continuous_grid import paper_grid

forward = partial(networks.forward, shape=(4, 2))


def reference(e, seed, blocks):
    """Algorithm 1 in NumPy, one step after the other, with the engine's random keys."""
    learner, world = e.learner, e.world
    start = e.begin(seed)
    q, m = numpy_network(start.learning.q), numpy_network(start.learning.m)
    target_q, target_m = q, m
    adam_q, adam_m = Adam(q, learner.rate_q), Adam(m, learner.rate_m)
    keys = start.keys
    o, age, t, rows, episodes = np.asarray(start.observation), 0, 0, [], 0
    pi, gamma, weights = POLICIES.T, np.array([0.99, 0.9]), np.array([1.0, 2.0])
    scales = plain.Scales(2)  # while nothing is noted, M stays as it is
    for _ in range(blocks):
        both = [jax.random.split(keys[k]) for k in range(4)]
        keys = [pair[0] for pair in both]
        act = jax.random.uniform(both[1][1], (learner.block,))
        move_key, start_key = jax.random.split(both[0][1])
        moving = jax.random.uniform(move_key, (learner.block, world.draws))
        starting = jax.random.uniform(start_key, (learner.block, world.candidates, 2))
        for k in range(learner.block):
            out = forward(m, np.asarray(o, float)[None], True)[0][0]
            score = np.sqrt((weights * pi**2 * out * scales.factors()).sum(axis=1))
            mu = score / score.sum()
            epsilon = max(1 - 0.9 * t / 100, 0.1)
            mu = (1 - epsilon) * mu + epsilon / 4
            mu = 1e-3 + (1 - 4e-3) * np.maximum(mu - 1e-3, 0) / np.maximum(mu - 1e-3, 0).sum()
            a = int((float(act[k]) >= np.cumsum(mu)[:-1]).sum())
            following, c, ended = continuous_grid.move(world, moving[k], o, a)
            age += 1
            rows.append([*np.asarray(o), *np.asarray(following), *np.asarray(c), 0.0 if ended else 1.0, a])
            o = following
            if ended or age >= world.horizon:
                o, age = continuous_grid.start(world, starting[k]), 0
                episodes += 1
            t += 1
        if t >= learner.learning_starts:
            u = np.asarray(jax.random.uniform(both[3][1], (3 * learner.batch,)))
            stored = min(len(rows), learner.capacity)
            index = np.minimum((u * np.float32(stored)).astype(int), stored - 1)
            kept = np.zeros((learner.capacity, 8))
            for n, row in enumerate(rows):
                kept[n % learner.capacity] = row
            for number in range(3):
                batch = kept[index[number * learner.batch : (number + 1) * learner.batch]]
                obs, nxt, c, alive, a = batch[:, :2], batch[:, 2:4], batch[:, 4:6], batch[:, 6:7], batch[:, 7].astype(int)
                each = np.arange(len(batch))
                v = (pi * forward(target_q, nxt, False)[0]).sum(axis=1)
                out, cache, z = forward(q, obs, False)
                delta = c + alive * gamma * v - out[each, a]
                if number < 2:
                    d = np.zeros_like(out)
                    d[each, a] = -2 * delta / len(batch)
                    q = adam_q.step(q, gradients(q, cache, z, d, False))
                else:
                    v_m = (pi * forward(target_m, nxt, True)[0]).sum(axis=1)
                    out, cache, z = forward(m, obs, True)
                    error = delta**2 + (alive * gamma) ** 2 * v_m - out[each, a]
                    d = np.zeros_like(out)
                    d[each, a] = -2 * error / len(batch)
                    m = adam_m.step(m, gradients(m, cache, z, d, True))
            if isinstance(e.behaviour, Calibrated):
                seen, a = np.array(rows[-learner.block :])[:, :2], np.array(rows[-learner.block :])[:, 7].astype(int)
                scales.note((forward(q, seen, False)[0][np.arange(len(a)), a] ** 2).mean(axis=0), learner.block)
        if t // learner.target_every > (t - learner.block) // learner.target_every:
            target_q, target_m = q, m
    return q, m, target_q, np.array(rows), episodes, scales


@pytest.mark.parametrize(("behaviour", "seed"), [(BEHAVIOUR, 5), (Calibrated(BEHAVIOUR), 7)], ids=["as given", "calibrated"])
def test_the_scan_equals_the_reference(behaviour, seed):
    e = engine(behaviour=behaviour)
    state = e.advance(e.begin(seed), 20)
    q, m, target_q, rows, episodes, scales = reference(e, seed, 20)
    if isinstance(behaviour, Calibrated):
        found = state.acting[1]
        np.testing.assert_allclose(found.factor, scales.factors(), rtol=1e-2)
        assert found.steps[0] == scales.n == 17 * 8 and found.factor[0] > 10 * found.factor[1]
    kept = np.zeros((64, 8))
    for n, row in enumerate(rows):
        kept[n % 64] = row
    np.testing.assert_allclose(state.replay.rows, kept, atol=1e-6)
    assert int(state.episodes) == episodes and int(state.t) == 160
    for ours, theirs in ((q, state.learning.q), (m, state.learning.m), (target_q, state.learning.target_q)):
        for (w, b), w_jax, b_jax in zip(ours, theirs.weights, theirs.biases, strict=True):
            np.testing.assert_allclose(w_jax, w, rtol=2e-3, atol=2e-4)
            np.testing.assert_allclose(b_jax, b, rtol=2e-3, atol=2e-4)
    assert int(state.visits.sum()) == 160


# --- properties --------------------------------------------------------------------------------------------------


def test_truncation_bootstraps_and_termination_does_not():
    world = dataclasses.replace(paper_grid(), horizon=10)
    silent = dataclasses.replace(SMALL, learning_starts=10**6)
    e = engine(silent, gvfx.Uniform(), world)
    rows = np.asarray(e.advance(e.begin(0), 8).replay.rows)
    paid = rows[:, 4:6].any(axis=1)
    assert (rows[~paid, 6] == 1).all()
    cut = dataclasses.replace(world, timeouts_terminate=True)
    e = engine(silent, gvfx.Uniform(), cut)
    rows = np.asarray(e.advance(e.begin(0), 8).replay.rows)
    assert (rows[:, 6] == 0).sum() >= 6


COMPILED_OFTEN = [("GVFExplorer", "prioritised"), ("SuccessorRepresentation", "uniform")]


COMPILED_SELDOM = [
    pytest.param(b, r, marks=pytest.mark.slow)
    for b in ("GVFExplorer", "RoundRobin", "Mixture", "Uniform", "SuccessorRepresentation")
    for r in ("uniform", "prioritised")
    if (b, r) not in COMPILED_OFTEN
]


@pytest.mark.parametrize(("behaviour", "replay"), [*COMPILED_OFTEN, *COMPILED_SELDOM])
def test_every_behaviour_runs_with_both_replays(behaviour, replay):
    e = engine(dataclasses.replace(SMALL, replay=replay), gvfx.Floor(gvfx.Epsilon(getattr(gvfx, behaviour)())))
    state = e.advance(e.begin(1), 30)
    assert int(state.trouble.step) == -1
    assert int(state.visits.sum()) == 240
    mu = np.asarray(e.probabilities(state.acting, state.learning, state.t, state.observation))
    assert mu.sum() == pytest.approx(1, abs=1e-5) and mu.min() >= 1e-3 - 1e-6


def test_a_cumulant_that_is_not_finite_is_named():
    goals = tuple(dataclasses.replace(g, mean=3e38, sd=3e38) if g.name == "right" else g for g in paper_grid().goals)
    world = dataclasses.replace(paper_grid(), goals=goals, radius=0.2, step=0.1)
    e = engine(world=world, behaviour=gvfx.Uniform())
    state = e.begin(0)
    for _ in range(60):
        state = e.advance(state, 5)
        if int(state.trouble.step) >= 0:
            break
    assert int(state.trouble.gvf) == 1 and int(state.trouble.kind) in (1, 2)
