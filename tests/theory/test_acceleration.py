"""Anderson's acceleration: the fixed point of linear maps in few steps, columns apart, and steps that would grow."""

from __future__ import annotations

import numpy as np

from gvfx.learners.least_squares import MEMORY, Anderson

RNG = np.random.default_rng(5)
TURN = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
SLOW = TURN @ np.diag([0.99, 0.95, 0.9, 0.5, 0.2, 0.0]) @ TURN.T  # a contraction that takes hundreds of plain steps
START = RNG.normal(size=(6, 3))
FIXED = np.linalg.solve(np.eye(6) - SLOW, START)


def after(steps):
    """The error after so many accelerated and so many plain steps of x <- SLOW x + START."""
    fast, plain, accelerated = np.zeros((6, 3)), np.zeros((6, 3)), Anderson()
    for _ in range(steps):
        fast, plain = accelerated.next(fast, SLOW @ fast + START), SLOW @ plain + START
    return np.abs(fast - FIXED).max(), np.abs(plain - FIXED).max()


def test_a_linear_map_is_solved_in_few_more_steps_than_it_has_directions():
    fast, plain = after(7)
    assert fast < 0.01 * plain
    assert after(12)[0] < 1e-6


def test_the_first_step_is_plain_and_the_second_minimises_the_residual():
    accelerated, x0 = Anderson(), np.zeros((6, 3))
    x1 = accelerated.next(x0, START)
    assert np.array_equal(x1, START)
    r0, r1 = START - x0, SLOW @ x1 + START - x1
    x2 = accelerated.next(x1, SLOW @ x1 + START)
    for k in range(3):
        share = (r1 - r0)[:, k] @ r1[:, k] / ((r1 - r0)[:, k] @ (r1 - r0)[:, k])
        expected = (1 - share) * (x1 + r1)[:, k] + share * (x0 + r0)[:, k]
        assert np.allclose(x2[:, k], expected, atol=1e-6)


def test_columns_are_apart_also_when_some_are_done():
    together, alone = Anderson(), Anderson()
    x, y = np.zeros((6, 3)), np.zeros((6, 1))
    for k in range(6):
        x, y = together.next(x, SLOW @ x + START[:, : x.shape[1]]), alone.next(y, SLOW @ y + START[:, :1])
        assert np.allclose(x[:, :1], y)
        if k == 2:
            together.keep(np.array([True, False, False]))
            x = x[:, :1]


def test_a_residual_that_has_grown_gets_the_plain_step():
    accelerated, x = Anderson(), np.zeros((6, 3))
    for _ in range(4):
        x = accelerated.next(x, SLOW @ x + START)
    far = x + 100 * RNG.normal(size=(6, 3))
    assert np.array_equal(accelerated.next(far, SLOW @ far + START), SLOW @ far + START)


def test_few_steps_are_remembered_and_a_point_that_is_fixed_stays():
    accelerated, x = Anderson(), FIXED
    for _ in range(3 * MEMORY):
        x = accelerated.next(x, SLOW @ x + START)
    assert len(accelerated.history) == MEMORY + 1
    assert np.abs(x - FIXED).max() < 1e-9
