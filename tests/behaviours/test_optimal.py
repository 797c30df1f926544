"""OptimalDesign: plans on the run's own evidence, the same however it is run, and on worlds of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import half_in_the_top_row, random_mdp, random_question, small_world, two_questions

import gvfx
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Smoothed


def plain_smoothing(model, prior):
    """P [row, action, next row] and the variance of the targets [row, action, gvf], the row's average action added `prior` times.

    A target is the outcome's mean cumulant plus the discounted value of the next state; it varies around its mean by the
    cumulant's own variance.
    """
    world, e, gvfs = model.world, model.evidence, len(model.values)
    n = np.zeros((world.rows, world.actions, world.rows))
    moments = np.zeros((2, world.rows, world.actions, gvfs))
    for (s, a, k), count in np.ndenumerate(e.counts.reshape(world.next.shape)):
        x, s2, pair = world.feature[s], world.next[s, a, k], s * world.actions + a
        n[x, a, world.feature[s2]] += count
        for i in range(gvfs if count else 0):
            row, gamma = e.row[pair, k], model.asked.gamma[(pair * world.successors + k) * model.asked.gamma_stride, i]
            mean = e.sums[row, i] / count if row >= 0 else 0.0
            spread = e.squares[row, i] / count - mean**2 if row >= 0 else 0.0
            target = mean + gamma * model.values[i, s2]
            moments[:, x, a, i] += count * target, count * (target**2 + spread)

    def per_visit(total):
        average = total.sum(axis=1, keepdims=True) / np.maximum(n.sum(axis=(1, 2)), 1)[:, None, None]
        return (total + prior * average) / (n.sum(axis=2)[:, :, None] + prior)

    first, second = map(per_visit, moments)
    return per_visit(n), second - first**2


@pytest.mark.parametrize("grouping", [1, 2])
def test_smoothed_model(grouping):
    world = small_world(grouping=grouping)
    asked, at = compiled_evidence(world, two_questions(half_in_the_top_row), steps=300)
    model = Empirical(world, asked, at.evidence)
    known = Smoothed(model, 2.0)
    expected, noise = plain_smoothing(model, 2.0)
    found = np.zeros_like(expected)
    for (x, a, k), p in np.ndenumerate(known.model.prob):
        found[x, a, known.model.next[x, a, k]] += p
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert known.visits.sum() == 300
    np.testing.assert_allclose(known.model.start.sum(), 1)
    assert known.model.terminal.tolist() == [False] * (world.rows - 1) + [True]
    np.testing.assert_allclose(known.noise, noise, rtol=1e-6, atol=1e-9)
    if grouping == 1:
        untried = (known.visits == 0) & (known.visits.sum(axis=1, keepdims=True) > 0)
        assert untried.any() and (found.sum(axis=2)[untried] > 0).all()


def grid_run(seeds, **options):
    return gvfx.evaluate(
        small_world(),
        two_questions(),
        gvfx.OptimalDesign(first=200),
        gvfx.CertaintyEquivalence(),
        steps=5000,
        seeds=seeds,
        **options,
    )


def test_same_bytes_however_it_is_run():
    alone, together = grid_run([3]), grid_run([1, 2, 3], workers=2, evaluate_every=777, snapshots=[1234])
    for field in ("values", "visits", "behaviour"):
        assert getattr(alone, field)[0].tobytes() == getattr(together, field)[2].tobytes()
    assert not np.allclose(alone.behaviour, 0.25)


def test_wrapped_and_blended_it_still_plans_and_any_learner_goes_with_it():
    inner = gvfx.OptimalDesign(first=500)
    for behaviour in (gvfx.Floor(gvfx.Epsilon(inner), 0.05), gvfx.Blend(gvfx.Uniform(), inner, 0.5)):
        result = gvfx.evaluate(small_world(), two_questions(), behaviour, gvfx.ExpectedSarsa(), steps=3000)
        assert not np.allclose(result.behaviour, 0.25)
        assert result.behaviour.min() >= 0.05


def test_it_spreads_its_visits_while_no_cumulant_was_seen():
    world = small_world()
    questions = [gvfx.GVF([0.25] * 4, gvfx.Constant(0.0, at="left"), 0.9)]
    learner = gvfx.CertaintyEquivalence()
    found = [
        gvfx.evaluate(world, questions, behaviour, learner, steps=20_000).visits[0][world.live].min()
        for behaviour in (gvfx.OptimalDesign(first=200), gvfx.Uniform())
    ]
    assert found[0] > found[1]


@pytest.mark.parametrize("seed", range(3))
def test_random_worlds_without_horizon(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 8, 3, terminal=bool(seed % 2))
    questions = [random_question(rng, world) for _ in range(2)]
    result = gvfx.evaluate(world, questions, gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), steps=50_000, seeds=4)
    bound = gvfx.design.optimal(world, questions).bound
    assert result.error[:, -1].mean() * 50_000 < 3 * bound


@pytest.mark.parametrize(
    ("options", "field"),
    [({"first": 0}, "first"), ({"growth": 1.0}, "growth"), ({"floor": 0.0}, "floor"), ({"random": 2.0}, "floor")],
)
def test_complaints(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}: "):
        gvfx.OptimalDesign(**options)
