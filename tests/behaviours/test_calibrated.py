"""Calibrated behaviours: the forms of the scales agree, and the units of a cumulant do not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.runs import compiled_run
from helpers.worlds import small_world, two_questions

import gvfx
from gvfx.behaviours.wrappers import Calibrated, SquareScales, calibrated, factors, no_scales, noted
from gvfx.compilation.loops import from_python
from gvfx.kernel import Sizes, Transition
from gvfx.questions.gvf import stack
from gvfx.schedules import Fixed


def test_factors_by_hand():
    np.testing.assert_array_equal(factors(np.array([4.0, 0.0, 0.5]), np), [0.25, 2.0, 2.0])  # the second borrows the smallest
    np.testing.assert_array_equal(factors(np.zeros(3), np), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(factors(np.array([4.0, 1e-40]), np), [0.25, 0.25])  # too small to divide by


def test_the_running_mean_by_hand():
    scales = no_scales(1, np)
    for n, square in enumerate([3.0, 5.0, 1.0], 1):  # a plain mean at first
        scales = noted(scales, np.array([square]), 1, 0.01, np)
        assert scales.steps == [n] and scales.square[0] == pytest.approx(np.mean([3.0, 5.0, 1.0][:n]))
    assert Calibrated(gvfx.GVFExplorer()).rate == 1e-4  # about the last 10,000 steps, as the docs say
    later = noted(scales._replace(steps=np.array([1000.0])), np.array([11.0]), 8, 0.01, np)
    assert later.square[0] == pytest.approx(0.92 * 3.0 + 0.08 * 11.0) and later.steps == [1008]
    assert noted(later, np.array([11.0]), 500, 0.01, np).square[0] == 11.0  # more steps than are remembered


def test_compiled_numpy_and_jax_forms_agree():
    import jax.numpy as jnp

    world, behaviour, sizes = small_world(), Calibrated(gvfx.GVFExplorer(), rate=0.1), Sizes(3, 4)
    asked = stack([*two_questions(), gvfx.GVF([0.25] * 4, 1.0, 0.5)], world)
    rng = np.random.default_rng(0)
    q = rng.normal(size=(world.rows, 4, 3)) * [1.0, 100.0, 0.0]  # the third is not known
    state = behaviour.with_table(behaviour.begin(asked, world), q)
    rule, arrays, traced = behaviour.rule(sizes), no_scales(3, np), behaviour.network_rule().begin(jnp.asarray(asked.weights))
    observe, probabilities = from_python(rule.observe), from_python(rule.probabilities)
    for t in range(30):
        x, a = int(rng.integers(world.rows)), int(rng.integers(4))
        observe(state, t, Transition(0, x, a, 1.0, 0, 0, -1, 1.0, 0, 1.0), np.zeros(3), asked.gamma, asked.pi)
        arrays = noted(arrays, q[x, a] ** 2, 1, 0.1, np)
        traced = behaviour.noted(traced, jnp.asarray(q[x, a] ** 2, jnp.float32), 1)
    for other, within in ((arrays, 1e-12), (traced[1], 1e-5)):
        for kept, expected in zip(state.scales, other, strict=True):
            np.testing.assert_allclose(kept, expected, rtol=within)
    assert state.scales.factor[2] == state.scales.factor[0] > 1e3 * state.scales.factor[1]
    m, mu = rng.uniform(size=(4, 3)), np.zeros(4)
    probabilities(state, 0, 0, 0, asked.pi[0], m, mu)
    score = np.sqrt((asked.weights * asked.pi[0] ** 2 * m * state.scales.factor).sum(axis=1))
    np.testing.assert_allclose(mu, score / score.sum(), rtol=1e-12)
    by_jax = behaviour.network_rule().probabilities(traced, 0, jnp.asarray(asked.pi[0]), jnp.asarray(m), None)
    np.testing.assert_allclose(by_jax, mu, rtol=1e-4)


@pytest.mark.compiled(2)
def test_the_contracts_hold():
    gvfx.testing.check_behaviour(Calibrated(gvfx.GVFExplorer()), kinds=("tables",))


def test_only_what_reads_the_variance_is_wrapped():
    assert calibrated(gvfx.OptimalDesign()) == gvfx.OptimalDesign() and calibrated(gvfx.Uniform()) == gvfx.Uniform()
    explorer = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
    assert calibrated(explorer) == Calibrated(explorer) and Calibrated(explorer).needs_variance
    assert isinstance(Calibrated(explorer).begin(stack(two_questions(), small_world()), small_world()).scales, SquareScales)


# --- units -------------------------------------------------------------------------------------------------------


def in_other_units(factor):
    first, second = two_questions()
    cumulant = replace(first.cumulant, mean=factor * first.cumulant.mean, sd=factor * first.cumulant.sd)
    return [replace(first, cumulant=cumulant), second]


def shares(behaviour, factor, initial, steps=20_000):
    """The share of the visits of every pair, and the learned tables, with the first cumulant in other units."""
    learner = gvfx.ExpectedSarsa(Fixed(0.1), Fixed(0.1), initial_q=initial, initial_m=initial)
    _, _, learning, at = compiled_run(small_world(), in_other_units(factor), behaviour, learner, steps)
    return at.visits / steps, learning


@pytest.mark.compiled(4)
def test_units_do_not_matter_to_the_last_bit():
    """Tables of 0 are the same in all units, and a power of 2 does not round."""
    plain = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
    (once, tables), (other, scaled) = (shares(Calibrated(plain), factor, 0.0) for factor in (1.0, 1024.0))
    assert np.array_equal(once, other)
    assert np.array_equal(1024.0 * tables.q[:, :, 0], scaled.q[:, :, 0]) and np.array_equal(tables.q[:, :, 1], scaled.q[:, :, 1])
    assert np.array_equal(1024.0**2 * tables.m[:, :, 0], scaled.m[:, :, 0])
    (once, _), (other, _) = (shares(plain, factor, 0.0) for factor in (1.0, 1024.0))
    assert not np.array_equal(once, other)


@pytest.mark.compiled(4)
def test_units_hardly_matter_from_other_tables():
    """Tables of 1 are forgotten.  In total variation, runs with other draws differ by 0.04."""
    plain = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
    moved = {}
    for name, behaviour in (("plain", plain), ("calibrated", Calibrated(plain))):
        once, other = (shares(behaviour, factor, 1.0)[0] for factor in (1.0, 1000.0))
        moved[name] = np.abs(once - other).sum() / 2
    assert moved["calibrated"] < 0.08 and moved["plain"] > 0.16, moved
