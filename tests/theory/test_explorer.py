"""Eq. 3 in every form equals a plain loop on random inputs."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

import gvfx
from gvfx.compilation.loops import from_python
from gvfx.kernel import Sizes
from gvfx.theory.equations import compiled_explorer, explorer_probabilities, explorer_square, log_explorer_score

ACTIONS, GVFS = 5, 3


def plain(weights, pi, m):
    """mu [action] from weights [gvf] and pi, m [action, gvf], written from the paper."""
    scores = [math.sqrt(sum(w * p**2 * v for w, p, v in zip(weights, *row, strict=True))) for row in zip(pi, m, strict=True)]
    return [score / sum(scores) for score in scores] if sum(scores) > 0 else [1 / len(scores)] * len(scores)


@pytest.fixture(params=range(20))
def inputs(request):
    """Weights, policies and variances; some of them 0, and once all variances."""
    rng = np.random.default_rng(request.param)
    weights, m = rng.exponential(size=GVFS), rng.exponential(100.0, (ACTIONS, GVFS)) * (rng.random((ACTIONS, GVFS)) < 0.8)
    return weights, rng.dirichlet(np.ones(ACTIONS), GVFS).T.copy(), m * (request.param > 0)


def test_over_numpy_arrays(inputs):
    weights, pi, m = inputs
    np.testing.assert_allclose(explorer_probabilities(explorer_square(weights, pi, m)), plain(*inputs), rtol=1e-12)


def test_theorem_4_1_it_has_the_least_variance_of_all_behaviours(inputs):
    """sum_i w_i sum_a pi_i(a)^2 M_i(a) / mu(a), as an optimiser finds it that knows nothing of Eq. 3."""
    weights, pi, m = inputs
    square = (weights * pi**2 * m).sum(axis=1)

    def total(logits):
        return (square / np.maximum(softmax(logits), 1e-300)).sum()

    mu = np.array(plain(*inputs))
    least = (square[mu > 0] / mu[mu > 0]).sum()
    found = min(minimize(total, np.zeros(ACTIONS), method="Nelder-Mead", options={"maxiter": 4000}).fun, total(np.zeros(ACTIONS)))
    assert least <= found * (1 + 1e-12) and found <= least * (1 + 1e-3)


def test_over_jax_arrays(inputs):
    weights, pi, m = (jnp.asarray(a, jnp.float32) for a in inputs)
    np.testing.assert_allclose(explorer_probabilities(explorer_square(weights, pi, m), jnp), plain(*inputs), rtol=1e-5)


@pytest.mark.compiled(2)
def test_in_a_compiled_loop(inputs):
    mu = np.empty(ACTIONS)
    from_python(compiled_explorer(GVFS, ACTIONS))(*inputs, mu)
    np.testing.assert_allclose(mu, plain(*inputs), rtol=1e-12)


def test_in_log_space(inputs):
    weights, pi, m = inputs
    score = np.exp(log_explorer_score(jnp.asarray(weights), jnp.log(jnp.asarray(pi)), jnp.asarray(m + 1e-6)))
    np.testing.assert_allclose(score / score.sum(), plain(weights, pi, m + 1e-6), rtol=0.01)


def test_the_behaviours_and_the_exact_solution_use_these_forms(inputs):
    weights, pi, m = inputs
    world = gvfx.MDP.from_matrix(np.full((1, ACTIONS, 1), 1.0))
    questions = [gvfx.GVF(pi[:, i], 1.0, 0.9, weight=weights[i], name=str(i)) for i in range(GVFS)]
    np.testing.assert_allclose(gvfx.exact.explorer_behaviour(world, questions, m[None])[0], plain(*inputs), rtol=1e-9)
    rule = gvfx.GVFExplorer().network_rule()
    np.testing.assert_allclose(rule.probabilities(rule.begin(weights), 0, pi, m, None), plain(*inputs), rtol=1e-5)
    mu = np.empty(ACTIONS)
    asked = gvfx.questions.gvf.stack(questions, world)
    table = gvfx.GVFExplorer()
    from_python(table.rule(Sizes(GVFS, ACTIONS)).probabilities)(table.begin(asked, world), 0, 0, 0, pi, m, mu)
    np.testing.assert_allclose(mu, plain(*inputs), rtol=1e-12)
