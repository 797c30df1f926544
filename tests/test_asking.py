"""Questions about a Gymnasium environment: signals, discounts and policies at transitions, and toy-text worlds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import gvfx
from gvfx.questions.gvf import expand
from gvfx.questions.policies import as_policy
from gvfx.questions.reader import Reader, Targets
from gvfx.worlds.spec import DiscreteSpec, discrete_spec, skeleton_mdp, time_limit
from gvfx.worlds.toy_text import is_toy_text

HALF = [0.5, 0.5]
INFO = {"forces": np.array([1.0, 2.0, 3.0]), "speed": 4.0}


def test_signals_of_every_kind_are_read_from_a_transition():
    questions = [
        gvfx.GVF(HALF, gvfx.Reward(), 0.9),
        gvfx.GVF(HALF, gvfx.Info("speed"), 0.8),
        gvfx.GVF(HALF, gvfx.Info("forces", size=3), 0.7, name="force"),
        gvfx.GVF(HALF, lambda s, a, r, s2, info: 10 * s + a, 0.6),
        gvfx.GVF(HALF, lambda s, a, s2: s2, lambda s, a, s2: 0.5 if s2 == 7 else 0.0),
        gvfx.GVF(HALF, 2.5, 1.0),
        gvfx.GVF(HALF, gvfx.table_cumulant(np.arange(10.0)), 1.0),
    ]
    reader = Reader(questions, DiscreteSpec(None, "", 0, 0, 1, skeleton_mdp(10, 2)))
    assert reader.names == ("gvf1", "gvf2", "force[0]", "force[1]", "force[2]", "gvf4", "gvf5", "gvf6", "gvf7")
    c, gamma = reader.transition(3, 1, -1.0, 7, False, INFO)
    assert c.tolist() == [-1, 4, 1, 2, 3, 31, 7, 2.5, 3]
    assert gamma.tolist() == [0.9, 0.8, 0.7, 0.7, 0.7, 0.6, 0.5, 1, 1]
    c, gamma = reader.transition(3, 1, -1.0, 7, True, INFO)
    assert c.tolist() == [-1, 4, 1, 2, 3, 31, 7, 2.5, 3] and not gamma.any()


def test_what_questions_share_is_read_once():
    calls = []

    def pair(s, a, s2):
        calls.append(s)
        return [s, s2]

    def ends(s, a, s2):
        calls.append(-s)
        return 0.5

    questions = [gvfx.GVF(p, gvfx.Measure(pair, size=2), ends, name=str(k)) for k, p in enumerate([HALF, [1, 0]])]
    c, _ = Reader(questions).transition(4, 0, 0.0, 5, False, {})
    assert c.tolist() == [4, 5, 4, 5] and calls == [4, -4]


@pytest.mark.parametrize(
    ("cumulant", "words"),
    [
        (gvfx.Info("sped"), r"info: has no 'sped'; its keys are 'forces', 'speed'"),
        (gvfx.Info("forces"), r"a.cumulant: is a vector of shape \[3\]; give size=3"),
        (gvfx.Info("forces", index=5), r"a.cumulant: is a vector of shape \[3\]"),
        (lambda s, a, s2: float("nan"), r"a.cumulant: is nan"),
        (lambda s, a, s2: "much", r"a.cumulant: 'much' is not a number"),
    ],
)
def test_signals_that_cannot_be_read_say_why(cumulant, words):
    with pytest.raises(gvfx.InputError, match=words):
        Reader([gvfx.GVF(HALF, cumulant, name="a")]).transition(0, 0, 0.0, 0, False, INFO)


def test_missing_entries_may_have_a_value():
    reader = Reader([gvfx.GVF(HALF, gvfx.Info("rare", size=2, missing=0.0))])
    assert reader.transition(0, 0, 0.0, 0, False, INFO)[0].tolist() == [0, 0]
    assert reader.transition(0, 0, 0.0, 0, False, {"rare": [1, 2]})[0].tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["cumulant", "discount"])
def test_functions_of_the_wrong_arguments_are_named(kind):
    with pytest.raises(gvfx.InputError, match=f"^{kind}: the function takes 2 arguments"):
        gvfx.GVF(**{"policy": HALF, "cumulant": 1.0, kind: lambda s, a: 0})
    with pytest.raises(gvfx.InputError, match=r"^Info.size"):
        gvfx.Info("x", index=1, size=2)


def softmax_rows(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_policies_of_one_observation_and_of_batches_agree():
    weights = np.random.default_rng(0).normal(size=(4, 3))
    observations = np.random.default_rng(1).normal(size=(6, 4))
    calls = []

    def single(o):
        assert o.ndim == 1
        return softmax_rows(o @ weights)

    def batched(o):
        calls.append(len(o))
        return softmax_rows(o @ weights)

    one = gvfx.callable_policy(single).at(observations, 3)
    assert gvfx.callable_policy(batched).at(observations, 3) == pytest.approx(one)
    assert calls == [5, 6]  # one try, one batch
    declared = gvfx.callable_policy(batched, batched=True)
    assert declared.at(observations, 3) == pytest.approx(one) and calls == [5, 6, 6]
    greedy = gvfx.deterministic_policy(lambda o: np.argmax(o @ weights, axis=-1), batched=True).at(observations, 3)
    assert greedy.argmax(axis=1).tolist() == one.argmax(axis=1).tolist() and greedy.sum() == 6
    mixed = gvfx.mixture_policy([single, gvfx.uniform_policy()]).at(observations, 3)
    assert mixed == pytest.approx(one / 2 + 1 / 6)


def test_jax_functions_are_policies():
    jax = pytest.importorskip("jax")
    policy = as_policy(jax.jit(lambda s: jax.nn.softmax(jax.numpy.stack([0.1 * s, 0 * s, -0.2 * s], axis=-1))))
    table = policy.table(6, 3)
    assert table.shape == (6, 3) and table[3] == pytest.approx(softmax_rows(np.array([0.3, 0, -0.6])), rel=1e-6)


@pytest.mark.parametrize("choice", [[0, 3], [0.5, 1], [[0], [1]], lambda s: 2, lambda s: [0, 1]])
def test_deterministic_policies_must_choose_an_action(choice):
    with pytest.raises(gvfx.InputError, match="deterministic policy"):
        gvfx.deterministic_policy(choice).table(2, 2)


def test_equal_policies_are_asked_once_and_states_only_once():
    calls = []

    def policy(s):
        calls.append(s)
        return HALF

    questions = [gvfx.GVF(policy, float(k), name=str(k)) for k in range(5)]
    targets = Targets(questions, 2, states=4)
    before = len(calls)
    assert targets([1, 2, 1]).shape == (3, 2, 5) and targets([3]).shape == (1, 2, 5)
    assert len(calls) == before <= 5


class Numbered(gym.Env):
    """States 5, 6, 7 and actions 1, 2: spaces that do not start at 0."""

    observation_space = gym.spaces.Discrete(3, start=5)
    action_space = gym.spaces.Discrete(2, start=1)


def test_spaces_may_start_anywhere():
    spec = discrete_spec(Numbered())
    assert (spec.first_state, spec.first_action, spec.skeleton.states, spec.skeleton.actions) == (5, 1, 3, 2)
    question = gvfx.GVF(lambda s: {5: [1, 0], 6: [0, 1], 7: [0.5, 0.5]}[int(s)], 1.0)
    assert Targets([question], 2, 3, 5)([6, 7])[:, :, 0].tolist() == [[0, 1], [0.5, 0.5]]


def test_other_spaces_are_named():
    with pytest.raises(gvfx.InputError, match="^observation_space: Box is not Discrete"):
        discrete_spec(gym.make("CartPole-v1"))


# --- toy text ----------------------------------------------------------------------------------------------------

TOYS = ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "CliffWalkingSlippery-v1"]


@pytest.mark.parametrize("name", TOYS)
def test_toy_text_truth_equals_plain_iteration_over_the_table(name):
    """V by sweeping the environment's own P until nothing moves, termination by outcome: the linear solve must agree."""
    env = gym.make(name)
    world = gvfx.from_gymnasium(env)
    P, rng = env.unwrapped.P, np.random.default_rng(0)
    pi = rng.dirichlet(np.ones(world.actions), world.states)
    outcomes = [(s, a, *outcome) for s in P for a in P[s] for outcome in P[s][a]]
    s, a, p, s2, r, ended = (np.array(column) for column in zip(*outcomes))

    def swept(cumulant, gamma):
        v, weight = np.zeros(world.states), pi[s, a] * p
        for _ in range(400):
            v = np.bincount(s, weight * (cumulant + gamma * ~ended * v[s2]), world.states)
        return v

    questions = [
        gvfx.GVF(pi, gvfx.Reward(), 0.9),
        gvfx.GVF(pi, lambda s, a, s2: [s2 % 3, s != s2], lambda s, a, s2: 0.9 if s2 % 2 else 0.5, name="v"),
    ]
    questions[1] = gvfx.GVF(pi, gvfx.Measure(questions[1].cumulant.function, size=2), questions[1].discount)
    by_signal = np.where(s2 % 2, 0.9, 0.5)
    expected = [swept(r, 0.9), swept(s2 % 3, by_signal), swept(1.0 * (s != s2), by_signal)]
    truth = gvfx.exact.values(world, questions)
    np.testing.assert_allclose(truth[:, world.live], np.array(expected)[:, world.live], atol=1e-9)


def test_time_limits_become_the_horizon():
    assert gvfx.from_gymnasium(gym.make("FrozenLake-v1", max_episode_steps=17)).horizon == 17
    assert gvfx.from_gymnasium(gym.make("CliffWalking-v1")).horizon is None
    assert time_limit(gym.make("Taxi-v4")) == 200


def test_what_changes_the_dynamics_is_not_taken_for_the_table():
    fickle = gym.make("Taxi-v4", fickle_passenger=True)
    sticky = gym.wrappers.StickyAction(gym.make("FrozenLake-v1"), 0.2)
    assert is_toy_text(gym.make("Taxi-v4")) and not is_toy_text(fickle) and not is_toy_text(sticky)
    assert not is_toy_text(gym.make("CartPole-v1"))
    for env, word in ((fickle, "fickle_passenger"), (sticky, "StickyAction"), (gym.make("CartPole-v1"), "shows no P")):
        with pytest.raises(gvfx.InputError, match=word):
            gvfx.from_gymnasium(env)


def test_signals_that_a_table_cannot_tell_are_refused_there():
    world, rng = gvfx.from_gymnasium(gym.make("FrozenLake-v1")), np.random.default_rng(0)
    for cumulant in (gvfx.Info("prob"), lambda s, a, r, s2, info: info["prob"], lambda s, a, s2: rng.normal()):
        with pytest.raises(gvfx.InputError, match="let the environment be stepped instead"):
            gvfx.exact.values(world, [gvfx.GVF(gvfx.uniform_policy(), cumulant)])
    with pytest.raises(gvfx.InputError, match="has no reward"):
        gvfx.exact.values(gvfx.gridworld(3), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward())])


def test_expanding_keeps_weights_and_policies():
    out = expand([gvfx.GVF(HALF, gvfx.Info("x", size=2), 0.3, weight=2.0, name="x")])
    assert [(q.name, q.weight, q.discount, q.cumulant.index) for q in out] == [("x[0]", 2, 0.3, 0), ("x[1]", 2, 0.3, 1)]
