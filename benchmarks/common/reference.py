"""The benchmarked algorithms as they are usually written: a Python loop over environment steps, NumPy within a step.

Vectorised over GVFs and actions inside a step; dynamics by cumulative probabilities and `searchsorted`.  The updates are
plain functions, so that tests/benchmarks/test_reference.py can check that they compute what the compiled rules compute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.common.loops import Run
from gvfx.questions.gvf import Stacked
from gvfx.worlds.mdp import MDP

RATE_STEPS = 500_000  # learning rates fall linearly from 1 to their minimum over this many steps
EPSILON_STEPS = 500  # the share of random actions falls linearly from 1 to 0 over this many steps


def falling(minimum: float, t: int) -> float:
    """The learning rate at step t."""
    return max(minimum, 1.0 + (minimum - 1.0) * t / RATE_STEPS)


def draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
    """An index drawn from cumulative probabilities."""
    return min(int(np.searchsorted(cumulative, rng.random(), side="right")), len(cumulative) - 1)


@dataclass(eq=False)
class Problem:
    """A world and its questions as arrays, and the state of the episode in progress.

    pi [state, action, gvf], gamma [gvf], weights [gvf]; discounts must not depend on the transition.
    """

    world: MDP
    asked: Stacked
    seed: int = 0

    @classmethod
    def of(cls, run: Run) -> Problem:
        """That of a compiled run."""
        return cls(run.stream.run.world, run.stream.asked)

    def __post_init__(self) -> None:
        world, asked = self.world, self.asked
        if asked.gamma_stride or asked.drift_sd.any() or world.features is not None:
            raise ValueError("the reference loops take constant discounts, no drift and no state aggregation")
        self.rng = np.random.default_rng(self.seed)
        self.horizon = math.inf if world.horizon is None else world.horizon
        self.gvfs = len(asked.names)
        self.cumulative = world.prob.cumsum(axis=2)
        self.cumulative_start = world.start.cumsum()
        self.pi = np.broadcast_to(asked.pi, (world.states, world.actions, self.gvfs))
        self.gamma = asked.gamma[0]
        self.weights = asked.weights
        self.nothing = np.zeros(self.gvfs)
        self.state = draw(self.rng, self.cumulative_start)
        self.age = 0

    def step(self, action: int) -> tuple[int, np.ndarray, bool]:
        """Act: the next state, the cumulants and whether the episode terminated; restart afterwards if it is over."""
        s = self.state
        k = draw(self.rng, self.cumulative[s, action])
        s_next = int(self.world.next[s, action, k])
        paying = self.asked.pays[s, action, k]
        c = self.nothing if paying < 0 else self.rng.normal(self.asked.mean[paying], self.asked.sd[paying])
        ended = bool(self.world.terminal[s_next])
        self.age += 1
        if ended or self.age >= self.horizon:
            self.state, self.age = draw(self.rng, self.cumulative_start), 0
        else:
            self.state = s_next
        return s_next, c, ended


def explored(mu: np.ndarray, epsilon: float, floor: float) -> np.ndarray:
    """mu[action] mixed with a share epsilon of random actions, no probability below the floor."""
    actions = len(mu)
    mu = np.maximum((1.0 - epsilon) * mu + epsilon / actions - floor, 0.0)
    return floor + (1.0 - actions * floor) / mu.sum() * mu


def explorer_probabilities(pi: np.ndarray, m: np.ndarray, weights: np.ndarray, epsilon: float, floor: float) -> np.ndarray:
    """GVFExplorer's mu[action] at one state, from its pi and m [action, gvf]."""
    score = np.sqrt((pi * pi * m) @ weights)
    total = score.sum()
    mu = score / total if total > 0.0 else np.full(len(score), 1.0 / len(score))
    return explored(mu, epsilon, floor)


def expected_sarsa(
    q: np.ndarray,
    m: np.ndarray | None,
    pi_next: np.ndarray,
    x: int,
    action: int,
    next_x: int,
    c: np.ndarray,
    discount: np.ndarray,
    rate_q: float,
    rate_m: float,
) -> None:
    """One update of q and, unless it is None, m, both [state, action, gvf], in place; c and discount are [gvf]."""
    delta = c + discount * (pi_next * q[next_x]).sum(axis=0) - q[x, action]
    if m is not None:
        target = delta * delta + discount * discount * (pi_next * m[next_x]).sum(axis=0)
        m[x, action] += rate_m * (target - m[x, action])
    q[x, action] += rate_q * delta


def boltzmann(value: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities in proportion to exp(value / temperature)."""
    e = np.exp((value - value.max()) / temperature)
    return e / e.sum()


@dataclass(eq=False)
class Successor:
    """A successor representation per GVF's policy, reward weights per GVF and the value of their change, as arrays."""

    psi: np.ndarray  # [gvf, state, action, state]
    weights: np.ndarray  # [state, action, gvf]
    value: np.ndarray  # [state, action]
    temperature: float
    discount: float

    @classmethod
    def zeros(cls, states: int, actions: int, gvfs: int, temperature: float = 100.0, discount: float = 0.99) -> Successor:
        """Nothing learnt yet."""
        psi = np.zeros((gvfs, states, actions, states))
        return cls(psi, np.zeros((states, actions, gvfs)), np.zeros((states, actions)), temperature, discount)

    def update(
        self,
        pi_next: np.ndarray,
        x: int,
        action: int,
        next_x: int,
        c: np.ndarray,
        discount: np.ndarray,
        alive: float,
        rate: float,
    ) -> None:
        """Learn from one transition; pi_next [action, gvf], c and discount [gvf] (0 on termination)."""
        mean = np.matmul(pi_next.T[:, None, :], self.psi[:, next_x])[:, 0]  # policy mean over actions, [gvf, state]
        here = self.psi[:, x, action]
        delta = rate * (discount[:, None] * mean - here)
        delta[:, x] += rate
        here += delta
        delta_c = rate * (c - self.weights[x, action])
        self.weights[x, action] += delta_c
        change = np.abs(delta).sum() + np.abs(delta_c).sum()
        onward = boltzmann(self.value[next_x], self.temperature) @ self.value[next_x]
        self.value[x, action] += rate * (change + alive * self.discount * onward - self.value[x, action])


class Loop:
    """A behaviour with Expected Sarsa, step by step; m is None if the behaviour needs no variance."""

    def __init__(self, problem: Problem, rate_q: float = 0.1, floor: float = 1e-3) -> None:
        self.problem, self.rate_q, self.floor, self.t = problem, rate_q, floor, 0
        self.q, self.rate_m = np.where(problem.world.terminal[:, None, None], 0.0, np.ones(problem.pi.shape)), 0.0
        self.m: np.ndarray | None = None

    def probabilities(self, x: int, epsilon: float) -> np.ndarray:
        """mu[action] at a state."""
        raise NotImplementedError

    def observe(self, x: int, action: int, next_x: int, c: np.ndarray, discount: np.ndarray, ended: bool) -> None:
        """What the behaviour learns from a transition."""

    def run(self, steps: int) -> None:
        """Continue for `steps` steps."""
        p = self.problem
        for _ in range(steps):
            x = p.state
            mu = self.probabilities(x, max(0.0, 1.0 - self.t / EPSILON_STEPS))
            action = draw(p.rng, mu.cumsum())
            next_x, c, ended = p.step(action)
            discount = p.nothing if ended else p.gamma
            rate_q, rate_m = falling(self.rate_q, self.t), falling(self.rate_m, self.t)
            expected_sarsa(self.q, self.m, p.pi[next_x], x, action, next_x, c, discount, rate_q, rate_m)
            self.observe(x, action, next_x, c, discount, ended)
            self.t += 1


class ExplorerLoop(Loop):
    """GVFExplorer."""

    def __init__(self, problem: Problem, rate_q: float = 0.1) -> None:
        super().__init__(problem, rate_q)
        self.m, self.rate_m = np.where(problem.world.terminal[:, None, None], 0.0, np.full(problem.pi.shape, 5.0)), 0.8

    def probabilities(self, x: int, epsilon: float) -> np.ndarray:
        assert self.m is not None
        return explorer_probabilities(self.problem.pi[x], self.m[x], self.problem.weights, epsilon, self.floor)


class SuccessorLoop(Loop):
    """The successor-representation behaviour."""

    def __init__(self, problem: Problem, rate_q: float = 0.1, rate: float = 0.5) -> None:
        super().__init__(problem, rate_q)
        self.rate, self.tables = rate, Successor.zeros(*problem.pi.shape)

    def probabilities(self, x: int, epsilon: float) -> np.ndarray:
        return explored(boltzmann(self.tables.value[x], self.tables.temperature), epsilon, self.floor)

    def observe(self, x: int, action: int, next_x: int, c: np.ndarray, discount: np.ndarray, ended: bool) -> None:
        alive, rate = 0.0 if ended else 1.0, falling(self.rate, self.t)
        self.tables.update(self.problem.pi[next_x], x, action, next_x, c, discount, alive, rate)
