"""OptimalDesign: plans on the run's own evidence, the same however it is run, and on worlds of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import half_in_the_top_row, random_mdp, random_question, small_world, two_questions

import gvfx
from gvfx.behaviours.optimal import NEAR_PRIOR
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Smoothed, determinism
from gvfx.questions.where import EVERYWHERE, START
from gvfx.theory.importance import importance


def plain_smoothing(model, within, between, chance):
    """P [row, action, next row] and the variance of the targets [row, action, gvf], visits of the row's average action added.

    A target is the outcome's mean cumulant plus the discounted value of the next state; it varies around its mean by the
    cumulant's own variance.  within, between, chance [row, action]: how often the average noise and the differences between
    actions are added, and the weight of every action in these averages.
    """
    world, e, gvfs = model.world, model.evidence, len(model.values)
    n = np.zeros((world.rows, world.actions, world.rows))
    targets = {}  # of every pair and question: (count, mean, variance) of its outcomes
    for (s, a, k), count in np.ndenumerate(e.counts.reshape(world.next.shape)):
        x, s2, pair = world.feature[s], world.next[s, a, k], s * world.actions + a
        n[x, a, world.feature[s2]] += count
        for i in range(gvfs if count else 0):
            row, gamma = e.row[pair, k], model.asked.gamma[(pair * world.successors + k) * model.asked.gamma_stride, i]
            mean = e.sums[row, i] / count if row >= 0 else 0.0
            spread = e.squares[row, i] / count - mean**2 if row >= 0 else 0.0
            targets.setdefault((x, a, i), []).append((count, mean + gamma * model.values[i, s2], spread))
    P, noise = np.zeros_like(n), np.zeros((world.rows, world.actions, gvfs))
    for x, a in np.ndindex(n.shape[:2]):
        tried = [b for b in range(world.actions) if n[x, b].any()]
        weight = {b: chance[x, b] * n[x, b].sum() for b in tried}
        total = sum(weight.values())
        if not tried:
            continue
        usual = sum(weight[b] * n[x, b] / n[x, b].sum() for b in tried) / total
        P[x, a] = (n[x, a] + within[x, a] * usual) / (n[x, a].sum() + within[x, a])
        for i in range(gvfs):
            means = {b: sum(c * m for c, m, _ in targets[x, b, i]) / n[x, b].sum() for b in tried}
            own = {b: sum(c * ((m - means[b]) ** 2 + v) for c, m, v in targets[x, b, i]) / n[x, b].sum() for b in tried}
            centre = sum(weight[b] * means[b] for b in tried) / total
            inside = sum(weight[b] * own[b] for b in tried) / total
            apart = sum(weight[b] * (means[b] - centre) ** 2 for b in tried) / total
            visits, w, d = n[x, a].sum(), within[x, a], between[x, a]
            noise[x, a, i] = (visits * own.get(a, 0.0) + w * inside) / (visits + w)
            mixed = visits / (visits + d)  # share of a pair's own visits among those that tell its mean
            noise[x, a, i] += (1 - mixed) * apart + mixed * (1 - mixed) * (means.get(a, 0.0) - centre) ** 2
    return P, noise


def dense_rows(model, rows):
    P = np.zeros((rows, model.prob.shape[1], rows))
    for (x, a, k), p in np.ndenumerate(model.prob):
        P[x, a, model.next[x, a, k]] += p
    return P


@pytest.mark.parametrize("share", [1.0, 0.9, 0.2])
@pytest.mark.parametrize("grouping", [1, 2])
def test_smoothed_model(grouping, share):
    """Without pairs without chance (share 1), where they are few (0.9) and common (0.2)."""
    world = small_world(grouping=grouping)
    asked, at = compiled_evidence(world, two_questions(half_in_the_top_row), steps=300)
    model = Empirical(world, asked, at.evidence)
    chance = np.ones((world.rows, 4))
    if share < 1:
        chance = np.random.default_rng(0).uniform(0.0, 1.0, chance.shape)
        chance[:, 1] = 0.0
    known = Smoothed(model, 2.0, chance if share < 1 else None, share)
    least = np.maximum(chance, 1e-3)
    assert np.array_equal(known.chance, least)
    between = {1.0: 2.0, 0.9: 2**0.6, 0.2: 1.0}[share]
    expected, noise = plain_smoothing(model, 2.0 * least, between * least, least)
    found = dense_rows(known.model, world.rows)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert known.visits.sum() == 300
    np.testing.assert_allclose(known.model.start.sum(), 1)
    assert known.model.terminal.tolist() == [False] * (world.rows - 1) + [True]
    np.testing.assert_allclose(known.noise, noise, rtol=1e-6, atol=1e-9)
    filled = plain_smoothing(model, np.maximum(2.0 - known.visits, 1e-3) * least, least, least)[0]
    np.testing.assert_allclose(dense_rows(known.routes(), world.rows), filled, atol=1e-12)
    assert np.array_equal(known.routes().next, known.model.next)
    if grouping == 1:
        untried = (known.visits == 0) & (known.visits.sum(axis=1, keepdims=True) > 0)
        assert untried.any() and (found.sum(axis=2)[untried] > 0).all()


def grid_run(seeds, **options):
    return gvfx.evaluate(
        small_world(),
        two_questions(),
        gvfx.OptimalDesign(first=200),
        gvfx.CertaintyEquivalence(),
        steps=2500,
        seeds=seeds,
        **options,
    )


def test_same_bytes_however_it_is_run():
    alone, together = grid_run([3]), grid_run([1, 3], workers=2, evaluate_every=777, snapshots=[1234])
    for field in ("values", "visits", "behaviour"):
        assert getattr(alone.details, field)[0].tobytes() == getattr(together.details, field)[1].tobytes()
    assert not np.allclose(alone.details.behaviour, 0.25)


def test_wrapped_and_blended_it_still_plans_and_any_learner_goes_with_it():
    inner = gvfx.OptimalDesign(first=500)
    for behaviour in (gvfx.Floor(gvfx.Epsilon(inner), 0.05), gvfx.Blend(gvfx.Uniform(), inner, 0.5)):
        result = gvfx.evaluate(small_world(), two_questions(), behaviour, gvfx.ExpectedSarsa(), steps=3000)
        assert not np.allclose(result.details.behaviour, 0.25)
        assert result.details.behaviour.min() >= 0.05


def test_it_spreads_its_visits_while_no_cumulant_was_seen():
    world = small_world()
    questions = [gvfx.GVF([0.25] * 4, gvfx.Constant(0.0, at="left"), 0.9)]
    learner = gvfx.CertaintyEquivalence()
    found = [
        gvfx.evaluate(world, questions, behaviour, learner, steps=3000).visits[0][world.live].min()
        for behaviour in (gvfx.OptimalDesign(first=200), gvfx.Uniform())
    ]
    assert found[0] > found[1]


@pytest.mark.full
@pytest.mark.compiled(2)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_worlds_without_horizon(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 8, 3, terminal=bool(seed % 2))
    questions = [random_question(rng, world) for _ in range(2)]
    result = gvfx.evaluate(world, questions, gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), steps=50_000, seeds=4)
    bound = gvfx.design.optimal(world, questions).bound
    assert result.error[:, -1].mean() * 50_000 < 3 * bound


@pytest.mark.parametrize(
    ("options", "field"),
    [({"first": 0}, "first"), ({"growth": 1.0}, "growth"), ({"floor": 0.0}, "floor"), ({"random": 2.0}, "random")],
)
def test_complaints(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}: "):
        gvfx.OptimalDesign(**options)


def test_where_errors_count_ways_have_few_prior_visits():
    """With `where` importance is that of the model with `NEAR_PRIOR` visits, and of the one with `prior` without."""
    world, questions = small_world(), two_questions()
    asked, at = compiled_evidence(world, questions, steps=600)
    design = gvfx.OptimalDesign(floor=1e-12)
    found = {}
    for where in (EVERYWHERE, START):
        model = Empirical(world, asked._replace(where=where), at.evidence)
        sure = determinism(model)
        known, few = (Smoothed(model, prior, 1 - sure.sure, 1 - sure.share) for prior in (design.prior, NEAR_PRIOR))
        ways = known.model if where == EVERYWHERE else few.model
        expected = importance(ways, known.pi, known.gamma, known.noise, known.weights, known.where) * known.chance
        found[where] = design.needs(model)[1]
        np.testing.assert_allclose(found[where], expected, rtol=1e-9, atol=1e-9 * expected.max())
    assert not np.allclose(found[EVERYWHERE], found[START])
