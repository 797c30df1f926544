"""Rollouts of audits: those to come in a block, and one that is under way."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.audits import rollout_score
from gvfx.evidence.bounded import last_cumulants
from gvfx.running.frozen import Frozen

REACH = 1.5  # times the horizon of the largest discount is the expected length of a rollout in an episode without an end


class Planned(NamedTuple):
    """A rollout to come."""

    policy: int
    number: int  # among the policy's rollouts in the block
    of: int  # their number
    stop: float  # the product of the probabilities of going on below which it stops


def planned(each: np.ndarray, seed: list[int]) -> list[Planned]:
    """So many rollouts of every policy, each [policy]; the policies take turns, and the stops of a policy are spread evenly."""
    out = []
    for p, n in enumerate(each.tolist()):
        rng = np.random.default_rng(seed)  # the same for all policies
        stops = (rng.permutation(n) + 1 - rng.random(n)) / n
        out += [(k, p, Planned(p, k, n, float(v))) for k, v in enumerate(stops)]
    return [rollout for *_, rollout in sorted(out)]


class Rollout:
    """One rollout under way: whose policy it follows, its random draws, and what it met."""

    def __init__(self, planned: Planned, pair: int, seed: list[int]) -> None:
        """pair: its number in the block, which others with the same draws have too; seed: of its draws."""
        self.planned, self.policy, self.pair, self.seed = planned, planned.policy, pair, seed
        self.chance = np.random.default_rng([*seed, 1])  # of actions
        self.survival = 1.0  # the product of the probabilities of going on
        self.seen: list[Any] = []
        self.actions: list[Any] = []
        self.cumulants: list[np.ndarray] = []
        self.discounts: list[np.ndarray] = []
        self.going_on: list[float] = []

    @property
    def reset_seed(self) -> int:
        """The seed of the environment's reset."""
        return int(np.random.SeedSequence([*self.seed, 0]).generate_state(1)[0] >> 1)

    def chose(self, seen: Any, action: Any) -> None:
        """Keep what frozen answers read at the observation, and the action that its policy chose."""
        self.seen.append(seen)
        self.actions.append(action)

    def went(self, at: Any, lane: int, going_on: float) -> bool:
        """Keep a step that was taken; whether chance lets the rollout go on, which it does with this probability."""
        self.cumulants.append(at.c[lane].copy())
        self.discounts.append(at.gamma[lane].copy() if at.alive[lane] else np.zeros(at.gamma.shape[1]))
        self.going_on.append(going_on)
        self.survival *= going_on
        return self.survival > self.planned.stop

    def row(
        self, frozen: Frozen, block: int, arrived: Any, own: np.ndarray, gamma: np.ndarray, cut: bool, terminated: bool
    ) -> tuple[Any, ...]:
        """Its row of `Scores` if it ends here; gamma [gvf]."""
        rng = np.random.default_rng([*self.seed, 3]) if frozen.draws else None
        values, taken = frozen.at(self.policy, [*self.seen, arrived], self.actions, rng)
        met = np.array(self.cumulants), np.array(self.discounts), np.array(self.going_on)
        found = rollout_score(values, taken, *met, implied=frozen.implied(self.seen, self.actions))
        last = last_cumulants(met[0], gamma, self.planned.stop, terminated)
        known = block, len(self.actions), cut, self.pair, self.planned.stop, self.planned.of
        return *known, *(np.where(own, each, np.nan) for each in (last, *found))


def going_on(discounts: np.ndarray) -> float:
    """The probability with which a rollout goes on, from the discounts of its questions."""
    return 1 - (1 - float(discounts.max())) / REACH
