"""Small worlds whose answers are known by hand, and random ones."""

from __future__ import annotations

import numpy as np

import gvfx
from gvfx import design, exact
from gvfx.questions.gvf import stack


def chain(discount=0.5, horizon=None):
    """0 -> 1 -> end, one action, 1 paid per step.  With discount g: V = (1 + g, 1, 0)."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, False, True], horizon=horizon)
    return world, [gvfx.GVF([1.0], gvfx.Constant(1.0), discount)]


def two_armed_bandit():
    """One step, two actions: arm 0 pays N(1, 2), arm 1 pays 3; pi = (1/4, 3/4), mu = (1/2, 1/2) for the ratio forms.

    V = 2.5, Q = (1, 3), M = (4, 0) in every form.  Per state: Eq. 6: 1, Eq. 4: (1/16)/(1/2)*4 = 1/2, return: 1 + 3/4.
    """
    P = np.zeros((2, 2, 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, True])
    cumulant = gvfx.table_cumulant([[1, 3], [0, 0]], [[2, 0], [0, 0]])
    return world, [gvfx.GVF([0.25, 0.75], cumulant, 0.9)]


def golden():
    """Two states, two GVFs: the total variance rises under exact policy iteration (facts, section 2)."""
    world = gvfx.MDP.from_matrix([[[0.6, 0.4], [0.8, 0.2]], [[0.2, 0.8], [0.4, 0.6]]])
    questions = [
        gvfx.GVF([[0.5, 0.5], [0.8, 0.2]], gvfx.table_cumulant([[0.7, 1.3], [0.2, -0.4]]), 0.8),
        gvfx.GVF([[0.7, 0.3], [0.2, 0.8]], gvfx.table_cumulant([[0.7, 1.9], [-0.2, -0.1]]), 0.8),
    ]
    return world, questions


def corridor(cells):
    """`cells` states in a row, both actions move right, the last leads to the end: no state ever comes back."""
    right = np.minimum(np.arange(cells + 1) + 1, cells)
    following = np.repeat(right, 2).reshape(cells + 1, 2, 1)
    start = np.append(np.full(cells, 1 / cells), 0.0)
    return gvfx.MDP(following, np.ones(following.shape), start, np.arange(cells + 1) == cells)


def random_mdp(rng, states=4, actions=3, terminal=True):
    """Dense random dynamics from a numpy Generator; with `terminal` the last state ends the episode."""
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    ends = np.zeros(states, bool)
    ends[-1] = terminal
    return gvfx.MDP.from_matrix(P, terminal=ends)


def random_policy(rng, world):
    """A random table policy, every action possible."""
    return 0.9 * rng.dirichlet(np.ones(world.actions), size=world.states) + 0.1 / world.actions


def random_question(rng, world, discount=None, sd=True):
    """A random policy, random cumulant means (and sds) per state and action, and a discount in [0, 0.95]."""
    shape = (world.states, world.actions)
    spread = rng.uniform(0, 1, shape) if sd else np.zeros(shape)
    discount = rng.uniform(0, 0.95) if discount is None else discount
    return gvfx.GVF(random_policy(rng, world), gvfx.table_cumulant(rng.normal(size=shape), spread), discount)


def dense(world):
    """P [state, action, state] rebuilt by loops from the successor lists."""
    P = np.zeros((world.states, world.actions, world.states))
    for (s, a, k), s_next in np.ndenumerate(world.next):
        P[s, a, s_next] += world.prob[s, a, k]
    return P


def gaussian_bandit(*arms, horizon=None):
    """One state, one step: each arm pays N(mean, sd)."""
    P = np.zeros((2, len(arms), 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, True], horizon=horizon)
    means, sds = [[[arm[k] for arm in arms], [0] * len(arms)] for k in (0, 1)]
    return world, gvfx.table_cumulant(means, sds)


PI = [[0.175, 0.175, 0.25, 0.4], [0.25, 0.15, 0.25, 0.35]]


def small_world(**options):
    return gvfx.gridworld(4, goals={"left": (0, 0), "right": (0, 3)}, horizon=20, **options)


def two_questions(discount=0.9):
    return [
        gvfx.GVF(PI[0], gvfx.Distractor(10, 2, at="left"), discount, weight=2.0),
        gvfx.GVF(PI[1], gvfx.Distractor(5, 1, at="right"), 0.8),
    ]


def half_in_the_top_row(state, action, next_state):
    return 0.45 if next_state < 4 else 0.9


def random_case(seed, states=5, actions=3, gvfs=2, horizon=20, terminal=True):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    ends = np.arange(states) == (states - 1 if terminal else -1)
    world = gvfx.MDP.from_matrix(P, terminal=ends, horizon=horizon)
    return world, [random_question(rng, world, discount=0.8) for _ in range(gvfs)]


def model_arrays(world, questions):
    """What the functions on model_arrays take: model, pi, gamma, noise."""
    asked = stack(questions, world)
    return design.Model.of(world), asked.pi, asked.gamma, exact.transition_noise(world, questions)


def question_tables(question):
    """A random question's policy, mean and sd as arrays."""
    policy, cumulant = question.policy, question.cumulant
    return np.array(policy.rows), np.array(cumulant.mean), np.array(cumulant.sd)
