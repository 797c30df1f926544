"""Certainty equivalence: the loop's evidence draw by draw, values as exact solves of the empirical model, forgetting, gaps."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from probes import chain, random_mdp, random_question
from test_compiled import half_in_the_top_row, small_world, two_questions

import gvfx
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.experiments.specification import Experiment
from gvfx.kernel import Sizes
from gvfx.questions.gvf import stack
from gvfx.rng import seed_streams
from gvfx.running.streams.compiled_loop import Monitor, cursor, dynamics, make_loop

STEPS = 3000
RATES = (0.0, 0.3, 1.0)


def compiled_evidence(world, questions, rates=(), steps=STEPS, behaviour=None, seed=3):
    """The evidence of a run, with a pause in the middle."""
    behaviour, learner = behaviour or gvfx.Mixture(), gvfx.CertaintyEquivalence()
    asked = stack(questions, world)
    sizes = Sizes(len(asked.names), world.actions)
    at = cursor(world, asked, seed_streams(seed), no_evidence(world, asked, True, rates))
    flags = (False, world.features is not None, bool(asked.carry.any()), False, True)
    loop = make_loop(sizes, world.successors, behaviour.rule(sizes), learner.rule(sizes, False), *flags)
    nothing = np.zeros((1, 1))
    watch = Monitor(nothing, nothing, np.zeros(1, np.int64), nothing)
    for part in (7, steps - 7):
        loop(dynamics(world, asked), behaviour.begin(asked, world), learner.begin(asked, world), at, watch, part)
    return asked, at


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
    untried = counts.sum(axis=(1, 2)) == 0
    assert untried.any() == (steps < 5000) or untried[world.terminal].all()
    assert (model.values[:, untried] == 0).all()


def test_evaluate_measures_those_values_and_stays_the_same_however_it_is_measured():
    world, questions = small_world(), two_questions()
    runs = [
        gvfx.evaluate(world, questions, gvfx.GVFExplorer(), gvfx.CertaintyEquivalence(), steps=4000, seeds=[3, 4], **how)
        for how in (dict(), dict(evaluate_every=333, snapshots=[1234], workers=2))
    ]
    for field in ("values", "variances", "visits", "behaviour"):
        assert getattr(runs[0], field).tobytes() == getattr(runs[1], field).tobytes()
    gap = (runs[0].values - runs[0].truth)[:, :, world.live]
    np.testing.assert_allclose((gap**2).mean(axis=2), runs[0].mse[:, -1])
    assert runs[0].error[:, -1].max() < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_random_worlds_reach_the_truth(seed):
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 6)
    questions = [random_question(rng, world) for _ in range(3)]
    result = gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=200_000)
    assert result.error[0, -1] < 1e-3


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


def drifting_run(forgetting, sd=0.5):
    world = small_world()
    questions = [two_questions()[0], gvfx.GVF([0.25] * 4, gvfx.Drifter(sd, 10, at="right"), 0.9)]
    return gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(forgetting), steps=100_000, seeds=4)


def test_forgetting_tracks_a_drifting_cumulant():
    plain, last, auto = (drifting_run(f).mse[:, -1].mean(axis=0) for f in (0.0, 1.0, "auto"))
    assert last[1] < plain[1] / 50
    assert auto[1] < 2 * last[1] and auto[0] < 2 * plain[0] < last[0]


def test_a_discount_of_one_that_never_ends_is_refused_and_one_that_was_not_seen_to_end_is_zero():
    world, questions = chain(discount=1.0)
    assert gvfx.evaluate(world, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=50).values[0, 0].tolist() == [
        2,
        1,
        0,
    ]
    asked, at = compiled_evidence(world, questions, steps=8)
    e = at.evidence._replace(counts=at.evidence.counts.copy())
    e.counts[:] = [[4], [0], [0]]  # nothing was tried in the second state
    np.testing.assert_allclose(Empirical(world, asked, e).values, [[e.sums[0, 0] / 4, 0, 0]])
    endless = gvfx.MDP.from_matrix(np.ones((1, 1, 1)))
    with pytest.raises(gvfx.InputError, match=r"discount: .* endless sum"):
        gvfx.evaluate(endless, questions, gvfx.Uniform(), gvfx.CertaintyEquivalence())
    asked, at = compiled_evidence(endless, [gvfx.GVF([1.0], 1.0, 0.9)], steps=8)
    assert Empirical(endless, asked._replace(gamma=np.ones((1, 1))), at.evidence).values.tolist() == [[0.0]]


def test_round_trip_as_data():
    setting = gvfx.paper["fourrooms"]
    for behaviour in ("OptimalDesign", "GVFExplorer"):
        experiment = setting.experiment(behaviour, learner="certaintyequivalence", steps=10_000)
        again = Experiment.from_json(experiment.json)
        assert again.json == experiment.json and again.learner == gvfx.CertaintyEquivalence("auto")
        assert again.behaviour == experiment.behaviour


@pytest.mark.parametrize(
    ("options", "field"), [({"forgetting": 1.5}, "forgetting"), ({"initial_m": -1}, "initial_m"), ({"growth": 1.0}, "growth")]
)
def test_complaints(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}: "):
        gvfx.CertaintyEquivalence(**options)


def test_averages_over_episodes_are_refused():
    with pytest.raises(gvfx.InputError, match=r"^average_episodes: "):
        gvfx.evaluate(*chain(), gvfx.Uniform(), gvfx.CertaintyEquivalence(), average_episodes=5)
