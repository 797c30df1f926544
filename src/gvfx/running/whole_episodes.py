"""Whole episodes of the target policies during a run: whose episode every lane is in, and which transitions they have.

The policy that lags furthest behind its share of the steps acts next (`gvfx.evidence.episodes.Schedule`), to the end of the
episode or until what would follow counts less than `CUT`.  The agent learns from these transitions as from all others.

A plain environment is reset with a seed for every episode: those of different policies with the same number have the same seed
and the same draws.  A lane of a vector environment follows a policy when an episode begins there, and goes back to the behaviour
where it would be cut.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.episodes import CUT, Schedule, longest
from gvfx.running.checkpoint import prefixed, unprefixed
from gvfx.running.frozen_scores import FrozenScores, Path
from gvfx.running.stepping import SingleStepper

TAG = zlib.crc32(b"whole episodes")  # of the random draws
FURTHER = 25  # steps of a run for each further reset, of which only the observation counts
MOST = 400  # further resets
ENDLESS = 4  # episodes of every policy for which a run has room, at least, with discount 1


class Followed(NamedTuple):
    """Episodes that followed target policies, [episode] each, int64."""

    policy: np.ndarray  # its index among the distinct ones
    pair: np.ndarray  # its number among the policy's; those with the same number had the same seed and draws
    number: np.ndarray  # of the episode, as the agent counts them
    steps: np.ndarray  # its first transitions, which followed the policy


class _Episode:
    """One that is under way in a lane."""

    def __init__(self, policy: int, pair: int, seed: list[int], left: float, expected: int) -> None:
        self.policy, self.pair, self.left, self.expected = policy, pair, left, expected
        self.chance = np.random.default_rng([*seed, 1])  # of its actions
        self.number, self.steps = -1, 0
        self.path: Path | None = None  # what it met, if it is scored against frozen answers


class WholeEpisodes:
    """Those of one seed."""

    def __init__(self, member: np.ndarray, discounts: np.ndarray, seed: int, every: int, steps: int, cut: float = CUT) -> None:
        """member [gvf]: the index of each question's policy among the distinct ones; discounts [gvf]; every: as in `Schedule`;
        steps: of the run; cut: the weight of what follows, below which an episode is cut."""
        policies = int(member.max()) + 1
        self.seed, self.steps, self.schedule = seed, steps, Schedule(policies, every)
        self.endless = max(1, steps // (ENDLESS * policies))  # steps after which an episode with discount 1 is given up
        self.longest = [max(longest(g, cut) for g in discounts[member == p].tolist()) for p in range(policies)]
        self.total = 0  # steps of all kinds
        self.under_way: dict[int, _Episode] = {}  # by lane
        self.done: list[tuple[int, int, int, int]] = []  # rows of `Followed`
        self.further = np.empty((0, 0))  # what the agent sees in further resets, [m, o]
        self.scored: FrozenScores | None = None  # for agents whose answers are frozen before episodes begin
        self.coming: tuple[int, int] | None = None  # the policy of the next episode of a plain environment, and its pair

    # --- what a stream calls -------------------------------------------------------------------------------------------

    def prepare(self, stepper: SingleStepper, agent: Any, fresh: bool) -> None:
        """Before the first step in a plain environment: decide its resets; fresh: see where episodes begin, too."""
        stepper.options = self.next_reset
        if fresh and (n := min(MOST, self.steps // FURTHER)):
            observations = stepper.observe_resets(n, _number([self.seed, TAG]))
            seen = agent.at_starts(observations)
            self.further = np.array([vector for vector, _ in seen])
            if self.scored is not None:
                self.scored.starts = seen

    def next_reset(self) -> dict[str, int]:
        """Options of the next reset of a plain environment, whose episode is chosen here."""
        policy = self.schedule.next(self.total)
        self.coming = policy, -1 if policy < 0 else self._pair(policy, alone=True)
        return {} if policy < 0 else {"seed": _number(self._seed(self.coming[1]))}

    def begin(self, stream: Any) -> None:
        """Before actions are chosen: end episodes that are over or long enough, and begin others where lanes are fresh."""
        at, single = stream.agent.at, isinstance(stream.stepper, SingleStepper)
        self.total += len(at.fresh)
        for lane, episode in list(self.under_way.items()):
            if episode.path is not None and len(episode.path.cumulants) < episode.steps:
                episode.path.moved(at, lane)
            if at.ended[lane] and episode.steps:
                self._over(lane, stream.agent)
            elif episode.left <= 0 or (episode.steps == self.endless and np.isinf(episode.left)):
                self._over(lane, stream.agent, counts=np.isfinite(episode.left))
                if single:
                    stream.agent.break_off()
                    stream.stepper.cut(at)
        if self.scored is not None:
            self.scored.renew(stream.agent)
        for lane in np.flatnonzero(at.fresh).tolist():
            if lane not in self.under_way:
                policy, pair = self.coming or (self.schedule.next(self.total), -1)
                self.coming = None
                if policy >= 0:
                    pair = pair if pair >= 0 else self._pair(policy, alone=False)
                    expected = int(self.schedule.steps[policy] // max(1, self.schedule.episodes[policy] - 1)) or 1
                    self.schedule.steps[policy] += expected
                    self.under_way[lane] = _Episode(policy, pair, self._seed(pair), self.longest[policy], expected)
                    self.under_way[lane].path = None if self.scored is None else self.scored.path()

    def follow(self, agent: Any) -> None:
        """Have the policies of the episodes under way choose their lanes' actions, in place of the behaviour's."""
        for lane, episode in self.under_way.items():
            if episode.path is not None:
                episode.path.chosen(*agent.take(lane, episode.policy, episode.chance))
            else:
                agent.choose_as(lane, episode.policy, episode.chance)
            if not episode.steps and episode.path is None:
                episode.number = int(agent.at.number[lane])
            episode.steps += 1
            episode.left -= 1

    def followed(self) -> Followed:
        """All episodes so far, with those under way."""
        going = [episode for episode in self.under_way.values() if episode.steps and np.isfinite(episode.left)]
        rows = [*self.done, *map(_row, going)]
        return Followed(*np.array(rows, np.int64).reshape(-1, len(Followed._fields)).T)

    def _over(self, lane: int, agent: Any, counts: bool = True) -> None:
        """End an episode; it does not count if what follows it does and is not known."""
        episode = self.under_way.pop(lane)
        self.schedule.steps[episode.policy] += episode.steps - episode.expected
        if counts and episode.path is not None and self.scored is not None:
            self.scored.over(episode.path, agent.arrived(lane), episode.policy, episode.pair)
        if counts:
            self.done.append(_row(episode))

    def _pair(self, policy: int, alone: bool) -> int:
        """The number of an episode that begins: among the policy's where resets have seeds, or else among all."""
        number = self.schedule.begins(policy)
        return number if alone else int(self.schedule.episodes.sum()) - 1

    def _seed(self, pair: int) -> list[int]:
        return [self.seed, TAG, pair]

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Everything that later episodes depend on; those under way are left."""
        done, schedule = np.array(self.done, np.int64).reshape(-1, len(Followed._fields)), self.schedule
        begun = np.array([self.total, *schedule.episodes])
        arrays = {"done": done, "begun": begun, "share": schedule.share, "further": self.further}
        return arrays | (prefixed("scored", self.scored.state()) if self.scored is not None else {})

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        self.done, self.under_way, self.coming = [tuple(row) for row in arrays["done"].tolist()], {}, None
        self.further = arrays["further"].copy()
        if self.scored is not None:
            self.scored.restore(unprefixed("scored", arrays))
        schedule, (self.total, *episodes) = self.schedule, arrays["begun"].tolist()
        schedule.episodes, schedule.share = np.array(episodes), arrays["share"].copy()
        schedule.steps = np.bincount(arrays["done"][:, 0], arrays["done"][:, 3], schedule.policies).astype(np.int64)


def _row(episode: _Episode) -> tuple[int, int, int, int]:
    return episode.policy, episode.pair, episode.number, episode.steps


def _number(seed: list[int]) -> int:
    """A seed of an environment."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
