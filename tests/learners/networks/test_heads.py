"""Waves join a network's inputs; tests of updates say that they are never trained."""

from __future__ import annotations

import jax
import numpy as np

from gvfx.learners.networks.heads import Heads


def test_waves_join_the_inputs():
    heads = Heads(jax.random.key(1), 2, (16,), (4, 2), waves=3)
    x = np.array([[0.2, 0.9], [0.5, 0.5]], np.float32)
    turns = x @ np.asarray(heads.frequencies)
    triangle = [np.abs((t % 1) - 0.5) * 4 - 1 for t in (turns, turns + 0.25)]
    hidden = np.maximum(np.concatenate([x, *triangle], axis=1) @ heads.weights[0] + heads.biases[0], 0)
    np.testing.assert_allclose(heads(x).reshape(2, 8), hidden @ heads.weights[1] + heads.biases[1], rtol=1e-4, atol=1e-5)
