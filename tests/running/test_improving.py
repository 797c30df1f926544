"""Policies by their own GVF's values are found from experience."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Veiled, lake_log
from helpers.runs import average_evidence

import gvfx
from gvfx.errors import InputError
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all, stored_result
from gvfx.questions.gvf import stack
from gvfx.running.streams.table_compiled import Improvement

STEPS = 20_000
SARSA = (gvfx.Blend(gvfx.RoundRobin(), gvfx.Uniform()), gvfx.ExpectedSarsa(gvfx.Linear(0.5, 0.01, 20_000)))


def grid():
    return gvfx.gridworld(5, {"left": (0, 0), "right": (4, 4)}, slip=0.1, horizon=60)


def questions():
    """Unknown targets beside known ones."""
    return [
        gvfx.GVF(gvfx.own_greedy(), gvfx.Distractor(10, 1, at="left"), 0.9, name="best"),
        gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Distractor(10, 1, at="right"), 0.9, name="given"),
        gvfx.GVF(gvfx.own_softmax(2.0), gvfx.Distractor(10, 1, at="right"), 0.9, name="soft"),
        gvfx.GVF(gvfx.own_greedy(0.2), gvfx.Distractor(10, 1, at="right"), 0.9, name="careless"),
    ]


@pytest.fixture(scope="module")
def learned():
    return gvfx.evaluate(grid(), questions(), steps=STEPS, seeds=2, evaluate_every=STEPS)


@pytest.mark.compiled(2)
def test_known_and_unknown_targets_are_learned_in_one_run(learned):
    world = grid()
    truth = gvfx.exact.values(world, questions())
    np.testing.assert_allclose(learned.details.truth[0], truth)
    assert (learned.mse[:, -1] < 0.1).all() and learned.details.experiment["behaviour"].startswith("OptimalDesign")
    for name, own in (("best", 1.0), ("careless", 0.85)):
        for seed in (0, 1):
            pi = learned.details.policy(name, seed)
            q = questions()[learned.names.index(name)]
            value = gvfx.exact.values(world, [replace(q, policy=gvfx.table_policy(pi))])[0]
            np.testing.assert_allclose(value, truth[learned.names.index(name)], rtol=0.05)  # nearly tied actions may be swapped
            assert np.median(pi[world.live].max(axis=1)) == pytest.approx(own)
    np.testing.assert_allclose(learned.details.policy("given"), np.tile([0.1, 0.4, 0.1, 0.4], (world.states, 1)))
    ideal = gvfx.exact.asked_of(world, questions()).pi[world.live, :, 2]
    np.testing.assert_allclose(learned.details.policy("soft")[world.live], ideal, atol=0.05)
    low, high = np.moveaxis(learned.intervals()[0, world.live], -1, 0)
    assert ((low < truth[0, world.live]) & (truth[0, world.live] < high)).mean() > 0.7


COMBINED = [
    # Q-learning and its softmax kin
    (gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Fixed(0.2)), gvfx.ExpectedSarsa(gvfx.Linear(1.0, 0.02, 40_000))),
    pytest.param(gvfx.Blend(gvfx.RoundRobin(), gvfx.Uniform(), 0.8), gvfx.CertaintyEquivalence(), marks=pytest.mark.full),
]


@pytest.mark.compiled(2)
@pytest.mark.parametrize(("behaviour", "learner"), COMBINED)
def test_any_behaviour_that_explores_and_any_tabular_learner(behaviour, learner):
    result = gvfx.evaluate(grid(), questions(), behaviour, learner, steps=60_000, evaluate_every=60_000)
    assert (result.mse[0, -1] < 0.5).all()
    going = grid().live
    assert (result.visits[0].sum(axis=1) > 0)[going].all()
    np.testing.assert_allclose(result.details.policy("best").sum(axis=1), 1)


def test_what_a_behaviour_keeps_of_the_targets_is_renewed():
    world, learner = grid(), gvfx.CertaintyEquivalence()
    behaviour = gvfx.Blend(gvfx.Uniform(), gvfx.Floor(gvfx.SuccessorRepresentation()))
    shared = stack(questions(), world)
    improvement = Improvement(shared, behaviour, learner, 2000)
    asked = improvement.begin(shared)
    acting, known = behaviour.begin(asked, world), average_evidence(world, asked)
    successor = acting.second.inner
    successor.psi[:] = np.random.default_rng(0).random(successor.psi.shape)
    assert successor.member.tolist() == [0, 1, 2, 3]  # unknown policies are distinct, although they all start alike
    known = improvement(100, known, acting, learner.begin(asked, world), known.visits)
    np.testing.assert_array_equal(asked.pi, known.asked.pi)
    np.testing.assert_allclose(successor.mean[0], np.einsum("sa,saf->sf", asked.pi[:, :, 0], successor.psi[0]))
    assert (shared.pi[:, :, 0] == 0.25).all()  # other seeds begin anew
    np.testing.assert_allclose(known.values, gvfx.exact.values(world, questions()), atol=1e-4)


def test_what_was_never_tried_keeps_its_share():
    pi = gvfx.own_greedy()
    tried = np.array([[True, True, False, False], [False] * 4, [True] * 4])
    q = np.array([[1.0, 2.0, 9.0, 9.0], [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 3.0, 0.0]])
    found = pi.probabilities(pi.choices(q, tried), tried)
    np.testing.assert_allclose(found, [[0, 0.5, 0.25, 0.25], [0.25] * 4, [0, 0.5, 0.5, 0]])
    result = gvfx.evaluate(grid(), questions()[:1], gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=1)
    assert np.allclose(result.details.policy("best"), 0.25)


def test_grouped_states_share_a_policy():
    world = gvfx.gridworld(6, {"left": (0, 0)}, slip=0.1, horizon=60, grouping=2)
    pi = average_evidence(world, stack(questions()[:1], world)).converged_policies()[:, :, 0]
    for row in np.unique(world.feature[world.live]):
        assert (pi[world.feature == row] == pi[world.feature == row][0]).all()
    assert np.median(pi[world.live].max(axis=1)) == 1


@pytest.mark.compiled(2)
def test_same_seed_same_bytes_however_it_is_run(learned, tmp_path):
    options = {"steps": STEPS, "evaluate_every": STEPS}
    again = gvfx.evaluate(grid(), questions(), seeds=[1, 0], workers=2, save=tmp_path / "own.gvfx", **options)
    assert learned.values[0].tobytes() == again.values[1].tobytes()
    assert learned.details.policy("best", 1).tobytes() == again.details.policy("best", 1).tobytes()
    assert np.array_equal(gvfx.load(tmp_path / "own.gvfx").details.policy("soft"), again.details.policy("soft"))
    experiment = Experiment(grid(), tuple(questions()), gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), STEPS, STEPS)
    assert Experiment.from_json(experiment.json).questions == tuple(questions())
    run_all(Store(tmp_path), [(experiment, 1)], workers=1)
    stored = stored_result(Store(tmp_path), experiment, 1)
    assert np.array_equal(stored.details.policy("soft"), learned.details.policy("soft", 0).astype(np.float32))
    assert np.array_equal(stored.values[0], learned.values[0].astype(np.float32))


@pytest.mark.parametrize(("behaviour", "learner"), COMBINED)
def test_looking_more_often_changes_nothing(behaviour, learner):
    seldom, often = (gvfx.evaluate(grid(), questions(), behaviour, learner, steps=900, evaluate_every=k) for k in (900, 77))
    assert often.values.tobytes() == seldom.values.tobytes() and (often.visits == seldom.visits).all()


@pytest.mark.compiled(12)
@pytest.mark.parametrize("method", [(), pytest.param(SARSA, marks=pytest.mark.full)], ids=["default", "Sarsa"])
def test_frozen_lake_with_its_table_hidden(method):
    env = gym.make("FrozenLake-v1")
    own = [
        gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.95, name="best"),
        gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="random"),
    ]
    assert not gvfx.check(env, own)
    world = gvfx.from_gymnasium(env)
    truth = gvfx.exact.values(world, own)
    result = gvfx.evaluate(Veiled(env), own, *method, steps=30_000, evaluate_every=30_000)
    best = [replace(own[0], policy=gvfx.table_policy(result.details.policy("best")))]
    assert gvfx.exact.values(world, best)[0, 0] > 0.9 * truth[0, 0]
    np.testing.assert_allclose(result.values[0][:, world.live], truth[:, world.live], atol=0.12 if method else 0.06)
    once, again = (gvfx.evaluate(Veiled(env), own, *method, steps=1000, evaluate_every=k) for k in (1000, 250))
    assert again.values.tobytes() == once.values.tobytes()


def test_a_log_says_what_would_have_been_best():
    world, log = lake_log()
    own = [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.95, name="best")]
    result = gvfx.evaluate_log(log, own)
    np.testing.assert_allclose(result.values[0][:, world.live], gvfx.exact.values(world, own)[:, world.live], atol=1e-8)
    assert result.details.policy("best").shape == (16, 4) and result.details.experiment["support"]["best"] == 1


def test_the_limit_is_planned_for_what_will_be_the_policy():
    world = grid()
    ideal = gvfx.exact.asked_of(world, questions()).pi
    known = [replace(q, policy=gvfx.table_policy(ideal[:, :, i])) for i, q in enumerate(questions())]
    costs, same = (gvfx.plan(world, asked, 0.1, draws=2) for asked in (questions(), known))
    assert costs["optimum"].steps == pytest.approx(same["optimum"].steps)
    assert np.isfinite(gvfx.plan(world, questions(), 0.1, pilot=2000, draws=2)["optimum"].steps)


def test_bad_input_is_one_sentence():
    world, own = grid(), questions()[:1]
    drifting = [gvfx.GVF(gvfx.own_greedy(), gvfx.Drifter(1.0, 0.1, at="left"), 0.9)]
    counted = gvfx.CertaintyEquivalence()
    cases = [
        (lambda: gvfx.own_greedy(1.5), "epsilon: 1.5 lies outside"),
        (lambda: gvfx.own_greedy("much"), "epsilon: 'much' lies outside"),
        (lambda: gvfx.own_softmax(0.0), "temperature: 0.0 must be"),
        (lambda: gvfx.own_softmax(float("nan")), "temperature: nan must be"),
        (lambda: gvfx.exact.values(world, drifting), "policy: what is best changes"),
        (lambda: gvfx.evaluate(world, own, learner=counted, until=gvfx.error_below(1.0), steps=100), "until: the bound"),
        (lambda: gvfx.evaluate(world, own, gvfx.Follow(gvfx.own_greedy()), steps=100), "behaviour.policy: a policy by its own"),
        (
            lambda: gvfx.evaluate(gym.make("CartPole-v1"), [gvfx.GVF(gvfx.own_greedy(), 1.0)], steps=100),
            "policy: own_greedy",
        ),
        (lambda: gvfx.truth_of(gym.make("FrozenLake-v1"), [gvfx.GVF(gvfx.own_greedy(), 1.0)]), "gvf1.policy: a policy by"),
    ]
    mixture = gvfx.GVF(gvfx.mixture_policy([gvfx.own_greedy(), gvfx.uniform_policy()]), 1.0)
    cases.append((lambda: gvfx.evaluate(world, [mixture], steps=100), "gvf1.policy: a policy by its own"))
    given = gvfx.evaluate(world, questions()[1:2], gvfx.Uniform(), counted, steps=100)
    cases.append((lambda: given.details.policy("given"), "policy: all policies of this run were given"))
    found = gvfx.evaluate(world, own, gvfx.Uniform(), counted, steps=100)
    cases += [
        (lambda: found.details.policy("worst"), "'worst' is not a question of this run"),
        (lambda: found.details.policy("best", 3), "seed: 3 was not run"),
    ]
    for case, sentence in cases:
        with pytest.raises(InputError, match=sentence):
            case()
