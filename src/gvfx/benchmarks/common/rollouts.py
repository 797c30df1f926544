"""The usual way to compare policies: roll out each in turn, and test the returns sequentially.

Every policy still in the race is rolled out equally often.  Each time the episodes have grown by a factor a look compares the
mean returns; looks share the probability of an error as `gvfx.decided` does, and beaten policies are not rolled out any more.
Intervals are normal ones, in favour of the rollouts: those of a t test are wider, and so are those of an empirical Bernstein
bound, whose first term alone is sqrt(2 log(3 / p) / n) standard deviations where a normal interval has less than
sqrt(2 log(1 / p) / n).

Returns: "discounted", an episode ends with the world or when what follows counts less than `CUT`; or "stopped", it goes on with
probability gamma after each step and rewards are added up undiscounted.  Both have the same mean; which of them needs fewer
steps depends on the world.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

import gvfx
from gvfx.evidence.joint import quantile

FEWEST, CUT = 20, 0.01
GROWTHS = (1.15, 1.5)
Returns = Literal["discounted", "stopped"]
RETURNS: tuple[Returns, ...] = ("discounted", "stopped")


class Race(NamedTuple):
    """The policy that was decided for (None: not within the steps), and the steps of all rollouts."""

    best: int | None
    steps: int


class Rollouts:
    """Episodes of one question in a known world, in lockstep."""

    def __init__(self, world: gvfx.MDP, question: gvfx.GVF, seed: int, returns: Returns = "discounted") -> None:
        self.world, self.rng, self.stopped = world, np.random.default_rng(seed), returns == "stopped"
        table = question.policy.table(world.states, world.actions)
        self.policy = np.cumsum(np.broadcast_to(table, (world.states, world.actions)), axis=1)
        self.moves = np.cumsum(world.prob, axis=2)
        tables = question.cumulant.tables(world)
        self.mean, self.sd = (np.broadcast_to(part, world.next.shape) for part in (tables.mean, tables.sd))
        self.gamma = float(question.discount)  # type: ignore[arg-type]
        self.length = int(np.ceil(np.log(CUT) / np.log(self.gamma)))

    def more(self, episodes: int) -> tuple[np.ndarray, int]:
        """Returns of further episodes [episode], and the steps that they took."""
        world, rng = self.world, self.rng
        state = rng.choice(world.states, episodes, p=world.start)
        at, returns, steps, t = np.arange(episodes), np.zeros(episodes), 0, 0
        while len(at) and (self.stopped or t < self.length):
            action = _chosen(self.policy[state], rng)
            k = _chosen(self.moves[state, action], rng)
            paid = self.mean[state, action, k] + self.sd[state, action, k] * rng.standard_normal(len(at))
            returns[at] += paid if self.stopped else self.gamma**t * paid
            steps, t = steps + len(at), t + 1
            state = world.next[state, action, k]
            going = ~world.terminal[state]
            if self.stopped:
                going &= rng.random(len(at)) < self.gamma
            state, at = state[going], at[going]
        return returns, steps


def _chosen(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row of cumulative probabilities [n, k]."""
    drawn = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.minimum((drawn >= cumulative).sum(axis=1), cumulative.shape[1] - 1)


def race(
    world: gvfx.MDP,
    questions: list[gvfx.GVF],
    seed: int,
    confidence: float,
    most: int,
    returns: Returns = "discounted",
    growth: float = GROWTHS[0],
) -> Race:
    """The best of some policies by rollouts; most: steps after which it gives up;  growth: of the episodes between looks."""
    rollouts = [Rollouts(world, q, 1000 * seed + i, returns) for i, q in enumerate(questions)]
    racing, found, steps, look, wanted = list(range(len(rollouts))), [np.empty(0)] * len(rollouts), 0, 0, float(FEWEST)
    while steps < most:
        for i in racing:
            new, spent = rollouts[i].more(int(wanted) - len(found[i]))
            found[i], steps = np.append(found[i], new), steps + spent
        z = quantile((1 - confidence) / ((look + 1) * (look + 2)) / (len(rollouts) - 1))
        means = {i: found[i].mean() for i in racing}
        square = {i: found[i].var(ddof=1) / len(found[i]) for i in racing}
        leader = max(means, key=lambda i: float(means[i]))
        seen = all(square[i] > 0 for i in racing)  # returns that are all the same say nothing about rare events
        if seen:
            racing = [i for i in racing if i == leader or means[leader] - means[i] < z * np.sqrt(square[leader] + square[i])]
            look += 1
        if len(racing) == 1:
            return Race(leader, steps)
        wanted = max(wanted + 1, wanted * growth)
    return Race(None, steps)
