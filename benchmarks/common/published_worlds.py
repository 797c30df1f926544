"""Worlds of published experiments: the four rivers and chains of MR-NaS, and the small grid of ROS.

The four (Russo & Pacchiano 2025) are written from the paper and from reading the authors' public code
(github.com/rssalessio/multi-reward-multi-policy-eval), with their chance of 0.7; nothing ends an episode, and runs start in
state 0.  The grid (Zhong et al. 2022): from the corner (0, 0) to (3, 3), which ends the episode and pays 10; entering (1, 1) pays
-10 and (1, 3) pays 1; every other step, also against a wall, pays -1; the discount is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gvfx

CHANCE = 0.7
DISCOUNT = 0.9
POLICIES = 3


def _swim(P: np.ndarray, action: int, here: int, back: int, on: int) -> None:
    """A stroke against the current: on with CHANCE, otherwise mostly nothing happens and one time in seven it leads back."""
    P[here, action, on] += CHANCE
    P[here, action, back] += (1 - CHANCE) / 7
    P[here, action, here] += 6 * (1 - CHANCE) / 7


def _ends(P: np.ndarray, action: int, last: int) -> None:
    """The last place of a river: swimming keeps it with CHANCE and otherwise loses a place."""
    P[last, action, last] += CHANCE
    P[last, action, last - 1] += 1 - CHANCE


def river_swim(states: int) -> np.ndarray:
    """A river: action 0 drifts one place back, action 1 swims."""
    P = np.zeros((states, 2, states))
    P[0, 0, 0] = 1
    P[0, 1, 1], P[0, 1, 0] = CHANCE, 1 - CHANCE
    for s in range(1, states):
        P[s, 0, s - 1] = 1
        if s < states - 1:
            _swim(P, 1, s, s - 1, s + 1)
    _ends(P, 1, states - 1)
    return P


def forked_river_swim(length: int) -> np.ndarray:
    """Two rivers of `length` places with a common source, 0; action 2 changes to the same place of the other river.

    At the source and at the two ends it does nothing.  As in the authors' code, states are numbered one river after the other,
    and the current carries from the first place of the second river to the state one number lower, the end of the first.
    """
    states, further = 2 * length - 1, length - 1
    P = np.zeros((states, 3, states))
    P[0, [0, 2], 0] = 1
    P[0, 1, 1], P[0, 1, 0] = CHANCE, 1 - CHANCE
    for s in range(1, states):
        second, last = s >= length, s in (length - 1, states - 1)
        P[s, 0, 0 if s == length else s - 1] = 1
        P[s, 2, s if last else s - further if second else s + further] = 1
        if last:
            _ends(P, 1, s)
        else:
            _swim(P, 1, s, s - 1, s + 1)
    return P


def double_chain(length: int) -> np.ndarray:
    """Two chains of `length` states; at the start action 0 enters the second and 1 the first; in them 0 leads on, 1 back."""
    states = 2 * length + 1
    P = np.zeros((states, 2, states))
    P[0, 0, length + 1] = P[0, 1, 1] = 1
    for s in range(1, states):
        back, on = 0 if s == length + 1 else s - 1, s if s in (length, states - 1) else s + 1
        P[s, 1, back] = 1
        P[s, 0, on] += CHANCE
        P[s, 0, back] += 1 - CHANCE
    return P


def n_arms(arms: int) -> np.ndarray:
    """A hub, 0, and a state for each arm: the first is always reached, the k-th with CHANCE / k; every action keeps an arm
    with CHANCE and otherwise loses it."""
    P = np.zeros((arms + 1, arms, arms + 1))
    chance = np.append(1.0, CHANCE / np.arange(2, arms + 1))
    P[0, np.arange(arms), np.arange(1, arms + 1)] = chance
    P[0, :, 0] = 1 - chance
    for s in range(1, arms + 1):
        P[s, :, s], P[s, :, 0] = CHANCE, 1 - CHANCE
    return P


WORLDS: dict[str, Callable[[int], np.ndarray]] = {
    "RiverSwim": river_swim,
    "ForkedRiverSwim": forked_river_swim,
    "DoubleChain": double_chain,
    "NArms": n_arms,
}


def greedy(P: np.ndarray, paid: np.ndarray, discount: float) -> np.ndarray:
    """The action of each state that is best for the reward paid [state, action], by policy iteration; the first of equals."""
    states = np.arange(len(P))
    policy = np.zeros(len(P), dtype=np.int64)
    while True:
        values = np.linalg.solve(np.eye(len(P)) - discount * P[states, policy], paid[states, policy])
        better = np.argmax(np.round(paid + discount * P @ values, 10), axis=1)
        if (better == policy).all():
            return policy
        policy = better


def instance(name: str, size: int, seed: int) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    """A world and three questions drawn from the seed: each policy is the best for a reward in one pair, drawn at random, and
    is asked for a reward of 1 in one state, drawn at random; pairs and states are distinct."""
    P = WORLDS[name](size)
    states, actions, _ = P.shape
    rng = np.random.default_rng(seed)
    pairs = rng.choice(states * actions, POLICIES, replace=False)
    rewarded = rng.choice(states, POLICIES, replace=False)
    questions = []
    for i, (pair, at) in enumerate(zip(pairs, rewarded, strict=True)):
        sought = np.eye(states * actions)[pair].reshape(states, actions)
        policy = np.eye(actions)[greedy(P, sought, DISCOUNT)]
        paid = policy * (np.arange(states) == at)[:, None]
        questions.append(gvfx.GVF(policy, gvfx.table_cumulant(paid, 0.0), DISCOUNT, name=f"policy {i + 1}"))
    return gvfx.MDP.from_matrix(P, start=np.eye(states)[0]), questions


# --- ROS --------------------------------------------------------------------------------------------------------------

SIDE, END, TRAP, BONUS = 4, 15, 5, 7
ROS_ERRORS = {237: 5.6e-4, 951: 2.1e-4, 3805: 2.3e-5}  # steps: relative squared error of ROS with FQE, their best, 200 seeds
POLICY = np.array(  # per mille: up, down, left, right in every cell; the policy published with their code, rounded
    [
        *([56, 66, 86, 792], [194, 196, 49, 561], [132, 50, 37, 781], [57, 856, 48, 39]),
        *([51, 38, 210, 701], [11, 4, 6, 979], [40, 46, 11, 903], [63, 887, 34, 16]),
        *([125, 248, 162, 465], [155, 177, 201, 467], [95, 576, 56, 273], [64, 916, 9, 11]),
        *([90, 305, 342, 263], [185, 174, 286, 355], [9, 31, 38, 922], [33, 43, 840, 84]),
    ]
)


def small_grid() -> tuple[gvfx.MDP, gvfx.GVF]:
    """The world of ROS, and the question about its mean return."""
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
