"""The agent's pull is the importance weight of Theorem 4.1."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.critics import SIGMAS, SMALL, make_agent, plain

from gvfx.behaviours.explorer import GVFExplorer


def test_pull_is_the_importance_weight_of_theorem_4_1(targets):
    agent = make_agent(targets, GVFExplorer(), SMALL)
    critics = agent.begin(np.random.default_rng(3)).critics
    generator = np.random.default_rng(4)
    seen = generator.normal(size=(3, 17)).astype(np.float32)
    middles, draws = (generator.uniform(-0.1, 0.1, (3, 2, 6)).astype(np.float32) for _ in range(2))
    got = agent.pull(critics, seen, middles, draws)
    for n in range(3):
        for i in range(2):
            m = np.mean([plain(net, seen[n], draws[n, i]) for net in critics.m], axis=0)
            z = (draws[n, i] - middles[n]) / SIGMAS[:, None]
            pi = np.exp(-0.5 * (z**2).sum(axis=1)) / (SIGMAS * np.sqrt(2 * np.pi)) ** 6
            assert float(got[n, i]) == pytest.approx(np.sqrt((np.array([1.0, 2.0]) * pi**2 * m).sum()) / pi.sum(), rel=1e-3)
