"""The loop's evidence draw by draw, and values as exact solves of the empirical model."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import reference
from helpers.runs import STEPS, compiled_evidence
from helpers.worlds import half_in_the_top_row, small_world, two_questions

import gvfx
from benchmarks.common.worlds import corridor
from gvfx.evidence.counts import Empirical
from gvfx.questions.gvf import stack

RATES = (0.0, 0.3, 1.0)


class Witness(reference.Mixture):
    """Counts what the plain reference does, with dictionaries."""

    def __init__(self, rates):
        self.rates, self.outcomes = rates, {}

    def observe(self, t, step):
        self.outcomes.setdefault((step.x, step.a, step.x_next), []).append(step.c)

    def means(self, key):
        """Running means of one outcome for every rate, and their squared errors in foretelling."""
        out = []
        for rate in self.rates:
            mean, missed = np.zeros_like(self.outcomes[key][0]), 0.0
            for n, c in enumerate(self.outcomes[key], start=1):
                missed = missed + (n > 1) * (c - mean) ** 2
                mean = mean + max(1 / n, rate) * (c - mean)
            out.append((mean, missed))
        return out


def plain_witness(world, questions, rates=RATES):
    asked = stack(questions, world)
    tables = [np.zeros((world.rows, world.actions, len(asked.names))) for _ in range(2)]
    witness = Witness(rates)
    reference.run(world, asked, witness, (gvfx.Fixed(0.1), gvfx.Fixed(0.1), *tables), STEPS, 3, variance=False)
    return witness


@pytest.mark.parametrize("drifting", [False, True])
def test_evidence_equals_a_plain_count_draw_by_draw(drifting):
    world, questions = small_world(), two_questions()
    if drifting:
        questions[1] = gvfx.GVF(questions[1].policy, gvfx.Drifter(0.5, 10, at="right"), 0.8)
    asked, at = compiled_evidence(world, questions, RATES)
    e, plain = at.evidence, plain_witness(world, questions)
    shape = (world.states, world.actions, world.successors)
    assert e.counts.sum() == STEPS == sum(map(len, plain.outcomes.values()))
    assert np.array_equal(e.counts.reshape(shape).sum(axis=2), at.visits)
    assert e.starts.sum() == at.at[3] + (at.at[2] > 0)
    paid = 0
    for s, a, k in np.argwhere(e.counts.reshape(shape)):
        pair = s * world.actions + a
        seen = plain.outcomes[(s, a, world.next[s, a, k])]
        assert e.counts[pair, k] == len(seen)
        row = e.row[pair, k]
        if row < 0:
            assert not np.any(seen)
            continue
        paid += 1
        np.testing.assert_allclose(e.sums[row], np.sum(seen, axis=0), rtol=1e-10)
        np.testing.assert_allclose(e.squares[row], np.square(seen).sum(axis=0), rtol=1e-10)
        for r, (mean, missed) in enumerate(plain.means((s, a, world.next[s, a, k]))):
            np.testing.assert_allclose(e.recent[r, row], mean, rtol=1e-10)
            np.testing.assert_allclose(e.missed[r, row], missed, rtol=1e-9, atol=1e-12)
    assert paid >= 6


def plain_values(world, asked, counts, mean):
    """V of the counted model, by dense matrices and loops; mean [state, action, successor, gvf]."""
    values = []
    for i in range(len(asked.names)):
        system, paid = np.eye(world.states), np.zeros(world.states)
        for s in range(world.states):
            tried = [a for a in range(world.actions) if counts[s, a].sum()]
            pi = asked.pi[s * asked.pi_stride, :, i]
            for a in tried:
                for k in np.flatnonzero(counts[s, a]):
                    p = pi[a] / pi[tried].sum() * counts[s, a, k] / counts[s, a].sum()
                    g = asked.gamma[((s * world.actions + a) * world.successors + k) * asked.gamma_stride, i]
                    paid[s] += p * mean[s, a, k, i]
                    if not world.terminal[world.next[s, a, k]]:
                        system[s, world.next[s, a, k]] -= p * g
        values.append(np.linalg.solve(system, paid))
    return np.array(values)


def means_of(e, shape):
    rows = np.vstack([e.sums, np.zeros(e.sums.shape[1])])[e.row]
    return (rows / np.maximum(e.counts, 1)[..., None]).reshape(*shape, -1)


@pytest.mark.parametrize("steps", [20, 200, 5000])
def test_values_solve_the_empirical_model(steps):
    """Few steps leave actions untried and states unvisited; discounts and one policy depend on the state."""
    world = small_world()
    rows = np.random.default_rng(1).dirichlet(np.ones(4), size=17)
    questions = [*two_questions(half_in_the_top_row), gvfx.GVF(rows, gvfx.Constant(1.0, at=(2, 2)), 0.7)]
    asked, at = compiled_evidence(world, questions, steps=steps)
    counts = at.evidence.counts.reshape(world.next.shape)
    expected = plain_values(world, asked, counts, means_of(at.evidence, world.next.shape))
    model = Empirical(world, asked, at.evidence)
    np.testing.assert_allclose(model.values, expected, atol=1e-9)
    untried = counts.sum(axis=2) == 0  # [state, action]; nobody acts in a terminal state
    assert untried[world.terminal].all()
    assert untried[~world.terminal].any() == (steps < 5000) and untried[~world.terminal].all(axis=1).any() == (steps == 20)
    assert (model.values[:, untried.all(axis=1)] == 0).all()


@pytest.mark.compiled(2)
def test_variance_of_the_model_is_that_of_the_world():
    world, questions = small_world(), two_questions()
    asked, at = compiled_evidence(world, questions, steps=400_000, behaviour=gvfx.Uniform())
    found, exact = Empirical(world, asked, at.evidence).variance(), gvfx.exact.variance(world, questions)
    live = world.live
    np.testing.assert_allclose(found[live], exact[live], rtol=0.2, atol=0.1)


def test_aggregated_states_share_their_counts():
    """Their values equal those of a dense solve in which every state of a row has the row's outcomes."""
    world, questions = small_world(grouping=2), two_questions()
    asked, at = compiled_evidence(world, questions)
    e = at.evidence
    pooled = np.zeros((world.rows, world.actions, world.states))
    paid = np.zeros((world.rows, world.actions, 2))
    for (s, a, k), n in np.ndenumerate(e.counts.reshape(world.next.shape)):
        pooled[world.feature[s], a, world.next[s, a, k]] += n
        row = e.row[s * world.actions + a, k]
        paid[world.feature[s], a] += e.sums[row] if row >= 0 else 0
    n = pooled.sum(axis=2, keepdims=True)
    assert (n[world.feature[~world.terminal]] > 0).all()
    P, c = pooled / np.maximum(n, 1), paid / np.maximum(n, 1)
    for i, v in enumerate(Empirical(world, asked, e).values):
        pi = asked.pi[0, :, i]
        onward = np.einsum("a,xas->xs", pi, P)[world.feature] * ~world.terminal * asked.gamma[0, i]
        np.testing.assert_allclose(v, np.linalg.solve(np.eye(world.states) - onward, (c[:, :, i] @ pi)[world.feature]), atol=1e-9)


@pytest.mark.parametrize(("discount", "shares"), [(1.0, [0.04, 0.0]), (0.9999, [0.04, 0.0]), (0.9, [1.0, 0.0])])
def test_few_steps_without_discounting_do_not_explode(discount, shares):
    """In cell 1 of a corridor the way on has 98 % of the policy and was never tried: the sum ends there, instead of going back
    and forth for ever at -1 per step."""
    world, _ = corridor(3, slip=0.0)
    asked, at = compiled_evidence(world, [gvfx.GVF([0.02, 0.98], gvfx.Constant(-1.0), discount, name="steps")], steps=0)
    counts, sums = np.zeros_like(at.evidence.counts), np.zeros_like(at.evidence.sums)
    for s, a, there in ((0, 0, 0), (0, 1, 1), (1, 0, 0)):
        k = world.next[s, a].tolist().index(there)
        counts[s * 2 + a, k] = 5
        sums[at.evidence.row[s * 2 + a, k]] = -5.0
    data = Empirical(world, asked, at.evidence._replace(counts=counts, sums=sums))
    assert data.policy(0)[1].tolist() == pytest.approx(shares) and data.policy(0)[0].tolist() == [0.02, 0.98]
    exploding = discount < 1 and shares[0] == 1
    assert (-1.2 < data.values[0, 1] < -0.03) != exploding
