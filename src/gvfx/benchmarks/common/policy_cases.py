"""Worlds with several policies to compare: variants of one policy, as versions of a policy are; also two that are tied."""

from __future__ import annotations

from dataclasses import dataclass, replace

import gymnasium
import numpy as np
import scipy.optimize

import gvfx


@dataclass(frozen=True)
class Case:
    """A world, one question per policy about the same signal, and the true values at the start."""

    name: str
    world: gvfx.MDP
    questions: list[gvfx.GVF]

    @property
    def truth(self) -> np.ndarray:
        """The value at the start of every policy, [policy]."""
        return gvfx.exact.values(self.world, self.questions) @ self.world.start

    @property
    def names(self) -> list[str]:
        """The policies' names."""
        return [str(q.name) for q in self.questions]


def cases() -> list[Case]:
    """Three worlds with three or four policies each."""
    return [_lake(), _grid(), _random()]


def _lake() -> Case:
    """The careful way over the ice, with more or less chance in it."""
    careful = np.eye(4)[[0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]]
    policies = {name: (1 - share) * careful + share / 4 for name, share in (("careful", 0.05), ("loose", 0.2), ("loosest", 0.35))}
    world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1"))
    return Case("FrozenLake", world, [gvfx.GVF(pi, gvfx.Reward(), 0.95, name=name) for name, pi in policies.items()])


def _grid() -> Case:
    """A grid of 8 x 8 with a noisy goal; policies that drift towards it more or less."""
    world = gvfx.gridworld(8, goals={"goal": (0, 7)}, horizon=200)
    rows = {"fast": [0.1, 0.4, 0.4, 0.1], "high": [0.1, 0.35, 0.42, 0.13], "even": [0.14, 0.36, 0.36, 0.14]}
    goal = gvfx.Distractor(100, 5, at="goal")
    return Case("grid 8x8", world, [gvfx.GVF(row, goal, 0.95, name=name) for name, row in rows.items()])


def _random() -> Case:
    """Twenty states, each with four possible successors per action, and a random policy in four variants.

    Its rewards are noisy, and the noise is drawn anew for every question.
    """
    rng = np.random.default_rng(1)
    P = np.zeros((20, 3, 20))
    for s in range(20):
        for a in range(3):
            P[s, a, rng.choice(20, 4, replace=False)] = rng.dirichlet(np.ones(4))
    world = gvfx.MDP.from_matrix(P, start=np.eye(20)[0], horizon=100)
    paid = gvfx.table_cumulant(rng.normal(size=(20, 3)), np.full((20, 3), 0.5))
    old = rng.dirichlet(np.ones(3), size=20)
    policies = [0.8 * old + 0.2 * rng.dirichlet(np.ones(3), size=20) for _ in range(4)]
    return Case("random MDP", world, [gvfx.GVF(pi, paid, 0.95, name=f"policy {k + 1}") for k, pi in enumerate(policies)])


def tied(case: Case) -> tuple[Case, float]:
    """Two different policies of a case with equal values, and a margin: half of the difference between its best and worst.

    They are the second-best policy and that mixture of the best and another one whose value equals it; the other one is the
    worst, with its actions exchanged in every second state.
    """
    truth, world = case.truth, case.world
    order = np.argsort(-truth)
    best, second, worst = (case.questions[i] for i in order[[0, 1, -1]])
    shape = (world.states, world.actions)
    tables = [np.array(np.broadcast_to(q.policy.table(*shape), shape)) for q in (best, worst)]
    tables[1][::2] = np.roll(tables[1][::2], 1, axis=1)

    def mixed(share: float) -> gvfx.GVF:
        return gvfx.GVF(share * tables[0] + (1 - share) * tables[1], best.cumulant, best.discount, name="mixed")

    def above(share: float) -> float:
        return float(gvfx.exact.values(world, [mixed(share)])[0] @ world.start - truth[order[1]])

    share = float(scipy.optimize.brentq(above, 0.0, 1.0, xtol=1e-14))
    pair = [replace(second, name="second"), mixed(share)]
    return Case(case.name, world, pair), float(truth.max() - truth.min()) / 2


def threshold(case: Case) -> float:
    """A value between those of the two best policies."""
    return float(np.sort(case.truth)[-2:].mean())
