"""MO-Gymnasium's resource gathering: twelve ways to fetch gold and a gem past two enemies, and three rewards each.

The agent leaves home, fetches what its route wants and comes back; a step onto an enemy's cell is deadly once in ten times.
The reward is a vector: killed (-1), gold brought home, gem brought home.  Six routes are each taken steadily (10 % of the moves
are random) and absently (30 %).
"""

import heapq
import warnings

import gymnasium as gym
import mo_gymnasium
import numpy as np

import gvfx

warnings.filterwarnings("ignore", message=".*precision lowered by casting")  # of the environment's own spaces
DISCOUNT = 0.95
STEPS = 10_000
ROLLOUT = 100  # moves, the time limit of the environment
OPTIONS = {"where": "start"}
LIMIT = 20_000  # steps of rollouts per policy
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right: the environment's actions
HOME, GOLD, GEM, ENEMIES, DEADLY = (4, 2), (0, 2), (1, 4), ((1, 2), (0, 3)), 0.1
ROUTES = {  # what is fetched, in this order, and what stepping onto an enemy's cell counts, in moves
    "gold, straight": ((GOLD,), 0),
    "gold, around": ((GOLD,), 9),
    "gem": ((GEM,), 9),
    "both, straight": ((GOLD, GEM), 0),
    "both, one enemy": ((GOLD, GEM), 3),
    "both, around": ((GOLD, GEM), 9),
}
MANNERS = {"steady": 0.1, "absent": 0.3}  # the share of random moves
SIGNALS = ("killed", "gold", "gem")


class Named(gym.Wrapper):
    """The names of the rewards, which questions about them then have."""

    reward_names = SIGNALS


def make(moves: int = ROLLOUT) -> gym.Env:
    """The environment, as MO-Gymnasium registers it."""
    return Named(mo_gymnasium.make("resource-gathering-v0", max_episode_steps=moves))


def inside(cell):
    """Whether a cell is on the map."""
    return min(cell) >= 0 and max(cell) < 5


def distances(target, fear):
    """Cost of the cheapest way from every cell to the target."""
    cost, queue = {target: 0}, [(0, target)]
    while queue:
        here, cell = heapq.heappop(queue)
        enter = here + 1 + fear * (cell in ENEMIES)
        for row, column in MOVES:
            near = (cell[0] + row, cell[1] + column)
            if inside(near) and enter < cost.get(near, np.inf):
                cost[near] = enter
                heapq.heappush(queue, (enter, near))
    return cost


def traveller(wanted, fear, wander):
    """A policy: one of the cheapest ways to the first thing that is still wanted, and a share of random moves."""
    ways = {target: distances(target, fear) for target in (*wanted, HOME)}

    def policy(seen):
        cell, has = (int(seen[0]), int(seen[1])), {GOLD: seen[2], GEM: seen[3]}
        way = ways[next((target for target in wanted if not has[target]), HOME)]
        near = [(cell[0] + row, cell[1] + column) for row, column in MOVES]
        costs = [way.get(spot, np.inf) + fear * (spot in ENEMIES) for spot in near]
        best = np.isclose(costs, min(costs))
        return (1 - wander) * best / best.sum() + wander / 4

    return policy


POLICIES = {f"{route}, {manner}": traveller(*how, wander) for route, how in ROUTES.items() for manner, wander in MANNERS.items()}


def signals(reward, info) -> np.ndarray:
    """The signals of one step, for rollouts."""
    return reward


def questions() -> list[gvfx.GVF]:
    """One question per policy; its vector reward makes three of it."""
    return [gvfx.GVF(policy, gvfx.Reward(), DISCOUNT, name=name) for name, policy in POLICIES.items()]


def exact() -> np.ndarray:
    """The true values at the start, [policy, signal], from the rules of the game."""
    states = [(row, column, gold, gem) for row in range(5) for column in range(5) for gold in (0, 1) for gem in (0, 1)]
    number = {state: k for k, state in enumerate(states)}
    out = []
    for policy in POLICIES.values():
        onward, paid = np.zeros((100, 100)), np.zeros((100, 3))
        for k, (row, column, gold, gem) in enumerate(states):
            for chance, move in zip(policy((row, column, gold, gem)), MOVES):
                to = (row + move[0], column + move[1])
                to = to if inside(to) else (row, column)
                has = (int(gold or to == GOLD), int(gem or to == GEM))
                dies = DEADLY * (to in ENEMIES)
                paid[k] += chance * np.array([-dies, *(np.multiply(has, to == HOME))])
                onward[k, number[(*to, *has)]] += chance * (1 - dies) * (to != HOME)
        out.append(np.linalg.solve(np.eye(100) - DISCOUNT * onward, paid)[number[(*HOME, 0, 0)]])
    return np.array(out)
