"""The benchmark's NumPy loops and the compiled rules are the same algorithm, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import tabular
from benchmarks.common import loops, reference
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.rivals import SuccessorRepresentation
from gvfx.behaviours.wrappers import Epsilon, Floor
from gvfx.compilation.loops import from_python
from gvfx.kernel import Sizes, Transition
from gvfx.learners.tabular import ExpectedSarsa
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.policies import constant_policy, table_policy
from gvfx.questions.signals import Distractor
from gvfx.theory.exact import values
from gvfx.worlds.gridworld import gridworld
from gvfx.worlds.mdp import MDP
from gvfx_paper.settings.tabular import paper

CLOSE = dict(rtol=1e-10, atol=1e-10)
STEPS = 400


@pytest.fixture(scope="module")
def world() -> MDP:
    return gridworld((3, 4), {"left": (0, 0), "right": (0, 3)}, horizon=30)


@pytest.fixture(scope="module")
def asked(world: MDP) -> Stacked:
    """Two GVFs, one of them with a policy that depends on the state."""
    table = np.random.default_rng(3).dirichlet(np.ones(world.actions), world.states)
    questions = [
        GVF(constant_policy([0.175, 0.175, 0.25, 0.4]), Distractor(100, 5, at="left"), 0.99, weight=2.0),
        GVF(table_policy(table), Distractor(50, 1, at="right"), 0.9),
    ]
    return stack(questions, world)


@pytest.fixture(scope="module")
def transitions(world: MDP, asked: Stacked) -> list[tuple[int, int, int, float, np.ndarray]]:
    """Random (x, action, next x, alive, cumulants): anywhere to anywhere, some terminal, some staying put."""
    rng = np.random.default_rng(0)
    drawn = []
    for n in range(STEPS):
        x, next_x = (int(s) for s in rng.integers(world.states - 1, size=2))
        action, c = int(rng.integers(world.actions)), rng.normal(size=len(asked.names)) * (rng.random() < 0.3) * 50
        alive = 1.0
        if n % 7 == 3:
            next_x = x
        elif n % 11 == 5:
            next_x, alive = world.states - 1, 0.0
        drawn.append((x, action, next_x, alive, c))
    return drawn


def as_transition(x: int, action: int, next_x: int, alive: float, stride: int) -> Transition:
    return Transition(x * stride, x, action, 0.25, next_x * stride, next_x, -1, 1.0, 0, alive)


def test_successor_update(world, asked, transitions):
    behaviour = SuccessorRepresentation(rate=0.5, temperature=3.0)
    state = behaviour.begin(asked, world)
    rule = behaviour.rule(Sizes(len(asked.names), world.actions))
    problem = reference.Problem(world, asked)
    tables = reference.Successor.zeros(*problem.pi.shape, behaviour.temperature, behaviour.discount)
    assert any(x == next_x for x, _, next_x, _, _ in transitions)
    assert any(alive == 0 for *_, alive, _ in transitions)
    mu = np.empty(world.actions)
    for t, (x, action, next_x, alive, c) in enumerate(transitions):
        from_python(rule.observe)(state, t, as_transition(x, action, next_x, alive, asked.pi_stride), c, asked.gamma, asked.pi)
        tables.update(problem.pi[next_x], x, action, next_x, c, alive * problem.gamma, alive, reference.falling(0.5, t))
        mean = np.einsum("sag,gsaf->gsf", problem.pi, tables.psi)
        np.testing.assert_allclose(state.psi, tables.psi, **CLOSE)
        np.testing.assert_allclose(state.mean, mean, **CLOSE)
        np.testing.assert_allclose(state.weights, tables.weights, **CLOSE)
        np.testing.assert_allclose(state.value, tables.value, **CLOSE)
        from_python(rule.probabilities)(state, t, x, x, asked.pi[x], np.zeros((world.actions, len(asked.names))), mu)
        np.testing.assert_allclose(mu, reference.boltzmann(tables.value[x], tables.temperature), **CLOSE)
    assert np.count_nonzero(tables.value) > world.states


def test_explorer_step(world, asked, transitions):
    behaviour, learner = Floor(Epsilon(GVFExplorer())), ExpectedSarsa(0.1, 0.8)
    sizes = Sizes(len(asked.names), world.actions)
    rule, update = behaviour.rule(sizes), from_python(learner.rule(sizes, True).update)
    acting, learning = behaviour.begin(asked, world), learner.begin(asked, world)
    loop = reference.ExplorerLoop(reference.Problem(world, asked))
    p, q, m = loop.problem, loop.q, loop.m
    np.testing.assert_array_equal(learning.q, q)
    np.testing.assert_array_equal(learning.m, m)
    mu = np.empty(world.actions)
    for k, (x, action, next_x, alive, c) in enumerate(transitions):
        t = 2 * k  # so that the random share of actions falls to 0 on the way
        from_python(rule.probabilities)(acting, t, x, x, asked.pi[x], learning.m[x], mu)
        epsilon = max(0.0, 1.0 - t / reference.EPSILON_STEPS)
        np.testing.assert_allclose(mu, reference.explorer_probabilities(p.pi[x], m[x], p.weights, epsilon, 1e-3), **CLOSE)
        update(learning, t, as_transition(x, action, next_x, alive, asked.pi_stride), c, asked.gamma, asked.pi)
        rate_q, rate_m = reference.falling(0.1, t), reference.falling(0.8, t)
        reference.expected_sarsa(q, m, p.pi[next_x], x, action, next_x, c, alive * p.gamma, rate_q, rate_m)
        np.testing.assert_allclose(learning.q, q, **CLOSE)
        np.testing.assert_allclose(learning.m, m, **CLOSE)


def test_explorer_in_c():
    """explorer.c, which the benchmark compares speeds with, learns what the compiled loop learns."""
    setting = paper["distinct"]
    ours = loops.Run.of(setting)
    theirs = loops.c_run(ours, setting)
    if isinstance(theirs, str):
        pytest.skip(theirs)
    for steps in (1, 499, loops.CHECKED_STEPS):
        ours(steps)
        theirs(steps)
        loops.check_same(ours, theirs)
    ours(1)
    with pytest.raises(RuntimeError, match="disagree"):
        loops.check_same(ours, theirs)


def test_without_a_c_compiler_the_comparison_is_skipped(monkeypatch):
    monkeypatch.setattr(loops.shutil, "which", lambda name: None)
    (row,) = tabular.against_c(loops.QUICK)
    assert row.passed is None and "no C compiler" in row.note


def test_explorer_is_uniform_without_variance_and_keeps_the_floor():
    nothing = np.zeros((4, 2))
    pi = np.full((4, 2), 0.25)
    np.testing.assert_allclose(reference.explorer_probabilities(pi, nothing, np.ones(2), 0.0, 1e-3), 0.25)
    one = nothing.copy()
    one[2] = 9.0
    np.testing.assert_allclose(reference.explorer_probabilities(pi, one, np.ones(2), 0.0, 1e-3), [1e-3, 1e-3, 1 - 3e-3, 1e-3])


@pytest.mark.parametrize("kind", [reference.ExplorerLoop, reference.SuccessorLoop])
def test_loops_learn_the_values(kind, world):
    """The loops' dynamics are the world's: what they learn comes near the exact values."""
    questions = [
        GVF(constant_policy([0.4, 0.1, 0.4, 0.1]), Distractor(100, 1, at="left"), 0.9),
        GVF(constant_policy([0.1, 0.4, 0.4, 0.1]), Distractor(50, 1, at="right"), 0.9),
    ]
    problem = reference.Problem(world, stack(questions, world), seed=1)
    loop = kind(problem, rate_q=0.1)
    loop.t = reference.RATE_STEPS  # the learning rates' minimum
    if kind is reference.SuccessorLoop:
        loop.tables.temperature = 1e4  # so that it goes everywhere
    loop.run(20_000)
    learnt = (problem.pi * loop.q).sum(axis=1).T
    truth = values(world, questions)
    assert np.abs(learnt - truth)[:, world.live].max() < 0.08 * truth.max()


def test_loops_refuse_what_they_cannot_do(world, asked):
    with pytest.raises(ValueError, match="constant discounts"):
        reference.Problem(world.with_features(np.zeros(world.states, dtype=int)), asked)
