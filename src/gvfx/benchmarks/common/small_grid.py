"""The small grid of Zhong et al. 2022 (Robust On-Policy Sampling): the mean return of a trained policy, with a discount of 1.

4 x 4 cells, from the corner (0, 0) to (3, 3), which ends the episode and pays 10; entering (1, 1) pays -10 and (1, 3) pays 1;
every other step, also against a wall, pays -1.  Moves are deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import gvfx

SIDE, END, TRAP, BONUS = 4, 15, 5, 7
PUBLISHED = {237: 5.6e-4, 951: 2.1e-4, 3805: 2.3e-5}  # steps: relative squared error of ROS with FQE, their best, 200 seeds
BARS = {237: 5.6e-4, 951: 6e-5, 3805: 7e-6}
POLICY = np.array(  # per mille: up, down, left, right in every cell; the policy published with their code, rounded
    [
        *([56, 66, 86, 792], [194, 196, 49, 561], [132, 50, 37, 781], [57, 856, 48, 39]),
        *([51, 38, 210, 701], [11, 4, 6, 979], [40, 46, 11, 903], [63, 887, 34, 16]),
        *([125, 248, 162, 465], [155, 177, 201, 467], [95, 576, 56, 273], [64, 916, 9, 11]),
        *([90, 305, 342, 263], [185, 174, 286, 355], [9, 31, 38, 922], [33, 43, 840, 84]),
    ]
)


def small_grid() -> tuple[gvfx.MDP, gvfx.GVF]:
    """The world, and the question about its mean return."""
    following, reward = np.zeros((16, 4, 1), dtype=np.int64), np.full((16, 4, 1), -1.0)
    for s in range(16):
        for a, (down, right) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
            row, column = (min(SIDE - 1, max(0, x)) for x in (s // SIDE + down, s % SIDE + right))
            there = SIDE * row + column
            following[s, a] = there
            if there != s:
                reward[s, a] = {END: 10.0, TRAP: -10.0, BONUS: 1.0}.get(there, -1.0)
    following[END], reward[END] = END, 0.0
    world = gvfx.MDP(following, np.ones((16, 4, 1)), np.eye(16)[0], np.arange(16) == END, 100, reward=reward)
    return world, gvfx.GVF(POLICY / POLICY.sum(axis=1, keepdims=True), gvfx.Reward(), 1.0, name="return")


def relative_errors(steps: int, seeds: Iterable[int]) -> np.ndarray:
    """Squared errors of the mean return divided by its square, [seed], with the default method."""
    world, question = small_grid()
    truth = float(gvfx.exact.values(world, [question])[0, 0])
    r = gvfx.evaluate(world, [question], steps=steps, evaluate_every=steps, seeds=seeds)
    return (r.values[:, 0, 0] / truth - 1) ** 2
