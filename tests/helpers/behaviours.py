"""Random target probabilities and variances, and what a behaviour makes of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import gvfx
from gvfx.compilation.loops import from_python
from gvfx.kernel import Sizes
from gvfx.questions.gvf import stack

GVFS, ACTIONS = 3, 4
SIZES = Sizes(GVFS, ACTIONS)
simplex = st.lists(st.floats(0.0, 1.0), min_size=ACTIONS, max_size=ACTIONS).filter(lambda v: sum(v) > 0.1)


policies = st.lists(simplex, min_size=GVFS, max_size=GVFS).map(
    lambda rows: np.array([np.array(r) / sum(r) for r in rows]).T.copy()
)


variances = st.lists(st.lists(st.floats(0.0, 1e6), min_size=GVFS, max_size=GVFS), min_size=ACTIONS, max_size=ACTIONS).map(
    np.array
)


def three_questions():
    """A small grid and three equal questions on it, stacked."""
    world = gvfx.gridworld(3, {"goal": (0, 0)})
    questions = [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"), name=str(i)) for i in range(GVFS)]
    return world, stack(questions, world)


def probabilities(behaviour, asked, pi, m, t=10**6):
    world, stacked = asked
    mu = np.empty(ACTIONS)
    from_python(behaviour.rule(SIZES).probabilities)(behaviour.begin(stacked, world), t, 0, 0, pi, np.ascontiguousarray(m), mu)
    return mu
