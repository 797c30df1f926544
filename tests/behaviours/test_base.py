"""What holds for all behaviours: their forms for tables, networks and continuous actions; bad parameters are named."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.behaviours import GVFS, SIZES
from helpers.scanned import BEHAVIOUR
from helpers.worlds import gaussian_bandit

import gvfx
from gvfx.behaviours.explorer import Actor, GVFExplorer
from gvfx.behaviours.fixed import Mixture, RoundRobin, Uniform
from gvfx.compilation.loops import from_python
from gvfx.questions.gvf import stack
from gvfx.schedules import Fixed, Geometric, Linear


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: gvfx.Floor(gvfx.Uniform(), 0.3), "floor"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Fixed(1.5)), "schedule"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Linear(0.1, 0.9, 10)), "schedule"),
        (lambda: gvfx.Epsilon(gvfx.Uniform(), Geometric(1.0, 1.5)), "schedule"),
        (lambda: gvfx.SuccessorRepresentation(choice="random"), r"behaviour: SuccessorRepresentation\(choice"),
        (lambda: gvfx.SuccessorRepresentation(temperature=0), "temperature"),
        (lambda: gvfx.SuccessorRepresentation(rate=1.5), "rate"),
        (lambda: gvfx.BehaviourPolicySearch(), "horizon"),
        (lambda: gvfx.Follow([0.5, 0.6]), "policy"),
    ],
)
def test_bad_parameters_are_named(make, field):
    world, cumulant = gaussian_bandit((0, 0), (0, 0), (0, 0), (0, 0))
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate(world, [gvfx.GVF(np.full(4, 0.25), cumulant)], make(), steps=10)


def test_the_rule_on_networks_is_the_rule_on_tables():
    world = gvfx.gridworld(3, {"goal": (0, 0)})
    questions = [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"), name=str(i), weight=1.0 + i) for i in range(GVFS)]
    asked = stack(questions, world)
    rng = np.random.default_rng(0)
    for behaviour in (BEHAVIOUR, gvfx.Blend(gvfx.GVFExplorer(), gvfx.Uniform(), 0.3), gvfx.RoundRobin(), gvfx.Mixture()):
        pi, m = rng.dirichlet(np.ones(4), GVFS).T.copy(), rng.exponential(size=(4, GVFS))
        mu = np.empty(4)
        from_python(behaviour.rule(SIZES).probabilities)(behaviour.begin(asked, world), 50, 0, 0, pi, m, mu)
        rule = behaviour.network_rule()
        ours = rule.probabilities(rule.begin(np.asarray(asked.weights)), 50, pi, m, None)
        np.testing.assert_allclose(ours, mu, rtol=1e-5)
        if isinstance(behaviour, gvfx.Mixture):
            np.testing.assert_allclose(mu, pi.mean(axis=1))  # App. B.1


def test_rules_choose_what_to_follow():
    chance, pull = jnp.array([[0.1, 0.9], [0.4, 0.9], [0.6, 0.9], [0.9, 0.9]]), jnp.ones((4, 2))
    turns = RoundRobin().box_action_rule()
    state = turns.begin(4, 2)
    assert turns.choose(state, chance, pull)[1].tolist() == [0, 1, 0, 1]
    state = turns.episode_end(state, jnp.array([True, False, False, True]))
    assert turns.choose(state, chance, pull)[1].tolist() == [1, 1, 0, 0]
    assert Mixture().box_action_rule().choose((), chance, pull)[1].tolist() == [0, 0, 1, 1]
    assert Uniform().box_action_rule().choose((), chance, pull)[1].tolist() == [2, 2, 2, 2]
    half = Actor(share=0.5).box_action_rule()
    assert half.choose(half.begin(4, 2), chance, pull)[1].tolist() == [2, 2, 0, 1]
    more = GVFExplorer().box_action_rule()
    assert more.choose((), chance, jnp.array([[1.0, 3.0]] * 4))[1].tolist() == [0, 1, 1, 1]
