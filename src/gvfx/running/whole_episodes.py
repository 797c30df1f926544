"""Whole episodes of the target policies during a run: whose episode every lane is in, and which transitions they have.

The policy that lags furthest behind its share of the steps acts next (`Schedule`), to the end of the
episode or until what would follow counts less than `CUT`.  The agent learns from these transitions as from all others.  A
behaviour acts in between where they have a part of the steps (`audit`).

A plain environment is reset with a seed for every episode: those of different policies with the same number have the same seed
and the same draws; an episode of the behaviour that does not end by itself is broken off.  A lane of a vector environment
follows a policy when an episode begins there, and goes back to the behaviour where it would be cut.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.episodes import CUT, Estimate
from gvfx.running.checkpoint import prefixed, unprefixed
from gvfx.running.frozen_scores import FrozenScores, Path
from gvfx.running.stepping import SingleStepper

TAG = zlib.crc32(b"whole episodes")  # of the random draws
FURTHER = 25  # steps of a run for each further reset, of which only the observation counts
MOST = 400  # further resets
ENDLESS = 4  # episodes of every policy for which a run has room, at least, with discount 1
PATIENCE = 4  # times the longest episode of a policy, after which one of the behaviour is broken off if others are due

SHARE = 0.15  # of the steps, where intervals have no other ground
FEWEST = 4  # episodes of each policy for which half of that share has room, if runs are audited by default
LEAST = 1000  # steps of such a run
EARLY, LATE = 0.1, 0.5  # of the steps: those before are not scored, with a stopping rule and without


def room_for(steps: int, discounts: np.ndarray, member: np.ndarray) -> bool:
    """Whether a run is long enough to be audited by default.

    discounts [gvf] below 1 count; member [gvf]: each question's policy.
    """
    longest = {p: 1 / (1 - g) for g, p in sorted(zip(discounts.tolist(), member.tolist(), strict=True)) if g < 1}
    return steps >= LEAST and SHARE * steps / 2 >= FEWEST * sum(longest.values())


class Schedule:
    """Whose episode is next: that of the policy that lags furthest behind its share of the steps."""

    def __init__(self, policies: int, part: float = 1.0, first: int = 0) -> None:
        """part: of all steps; the rest is another behaviour's, in whole episodes.  first: the step from which episodes begin."""
        self.policies, self.part, self.first = policies, part, first
        self.steps, self.episodes = np.zeros((2, policies), np.int64)
        self.share = np.full(policies, 1 / policies)

    def due(self, total: int) -> bool:
        """Whether an episode of a target policy is due, after `total` steps of policies and behaviour together."""
        return self.part >= 1 or (total >= self.first and int(self.steps.sum()) <= self.part * total)

    def next(self, total: int = 0) -> int:
        """The policy of the episode that begins now; -1: another behaviour's."""
        if not self.due(total):
            return -1
        unseen = self.episodes == 0
        if unseen.any():
            return int(unseen.argmax())
        return int((self.steps / self.share).argmin())

    def begins(self, policy: int) -> int:
        """The number of an episode of a policy that begins, which is its pair."""
        self.episodes[policy] += 1
        return int(self.episodes[policy]) - 1

    def spend(self, found: Estimate, member: np.ndarray) -> None:
        """Share steps by Neyman, in proportion to the root of a score's variance times its steps, but never below half an equal
        share; as before while some policy has no variance.  member [gvf]: each question's policy."""
        each = np.where(found.episodes > 1, found.variance.diagonal(), np.nan) * found.episodes
        own = [each[(member == p) & (each > 0) & np.isfinite(each)] for p in range(self.policies)]
        if all(len(some) for some in own):
            lengths = [(found.steps / np.maximum(found.episodes, 1))[member == p].mean() for p in range(self.policies)]
            wanted = np.sqrt([np.exp(np.log(some).mean()) * max(n, 1.0) for some, n in zip(own, lengths, strict=True)])
            share = np.maximum(wanted / wanted.sum(), 0.5 / self.policies)
            self.share = share / share.sum()


def longest(discount: float, cut: float = CUT) -> float:
    """The steps after which what follows counts less than `cut`; infinite with discount 1."""
    return float(np.ceil(np.log(cut) / np.log(discount))) if 0 < discount < 1 else (1.0 if discount <= 0 else np.inf)


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

    def __init__(self, run: Any, discounts: np.ndarray, seed: int) -> None:
        """run: with `share`, that of the steps; `cut_at`, the weight of what follows below which an episode is cut; and `frozen`,
        whether scores are against answers frozen before.  discounts [gvf]."""
        member, steps = run.targets.member, run.plan.steps
        policies, first = int(member.max()) + 1, 0
        self.scored: FrozenScores | None = None  # for agents whose answers are frozen before episodes begin
        if run.frozen:
            early = run.share == 1 or run.options.until is not None
            first = max(2 * run.answers_from, int((EARLY if early else LATE) * steps))
            self.scored = FrozenScores(member, seed, first, steps)
        self.seed, self.steps, self.schedule = seed, steps, Schedule(policies, run.share, first)
        self.endless = max(1, int(run.share * steps) // (ENDLESS * policies))  # steps of one with discount 1 that is given up
        self.longest = [max(longest(g, run.cut_at) for g in discounts[member == p].tolist()) for p in range(policies)]
        self.patience = PATIENCE * min(max(self.longest), self.endless if np.isinf(self.longest).any() else np.inf)
        self.others = 0  # steps of the behaviour's episode in a plain environment
        self.single = True  # whether the environment is a plain one
        self.total = 0  # steps of all kinds
        self.under_way: dict[int, _Episode] = {}  # by lane
        self.done: list[tuple[int, int, int, int]] = []  # rows of `Followed`
        self.further = np.empty((0, 0))  # what the agent sees in further resets, [m, o]
        self.coming: tuple[int, int] | None = None  # the policy of the next episode of a plain environment, and its pair

    # --- what a stream calls -------------------------------------------------------------------------------------------

    def prepare(self, stepper: SingleStepper, agent: Any, fresh: bool) -> None:
        """Before the first step in a plain environment: decide its resets; fresh: see where episodes begin, too."""
        stepper.options = self.next_reset
        if fresh and (n := min(MOST, self.steps // FURTHER)):
            observations = stepper.observe_resets(n, _number([self.seed, TAG]))
            seen = agent.at_starts(observations)
            if self.scored is None:
                self.further = np.array([vector for vector, _ in seen])
            else:
                self.scored.starts = seen

    def next_reset(self) -> dict[str, int]:
        """Options of the next reset of a plain environment, whose episode is chosen here."""
        policy = self.schedule.next(self.total)
        self.coming = policy, -1 if policy < 0 else self._pair(policy, alone=True)
        return {} if policy < 0 else {"seed": _number(self._seed(self.coming[1]))}

    def begin(self, stream: Any) -> None:
        """Before actions are chosen: end episodes that are over or long enough, and begin others where lanes are fresh."""
        at = stream.agent.at
        single = self.single = isinstance(stream.stepper, SingleStepper)
        self.total += len(at.fresh)
        for lane, episode in list(self.under_way.items()):
            if episode.path is not None:
                episode.path.moved(at, lane)
            if at.ended[lane] and episode.steps:
                self._over(lane, stream.agent)
            elif episode.left <= 0 or (episode.steps == self.endless and np.isinf(episode.left)):
                self._over(lane, stream.agent, counts=np.isfinite(episode.left))
                if single:
                    self._break_off(stream)
        if single and not self.under_way:
            self.others = 0 if at.fresh[0] else self.others + 1
            if self.others > self.patience and self.schedule.due(self.total):
                self._break_off(stream)
        if self.scored is not None and self.scored.renew(stream.agent):
            self.schedule.spend(self.scored.found(stream), self.scored.member)
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

    def _break_off(self, stream: Any) -> None:
        """End the episode of a plain environment here."""
        stream.agent.break_off()
        stream.stepper.cut(stream.agent.at)

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

    @property
    def unfinished(self) -> dict[int, _Episode]:
        """Episodes under way that count as cut, by lane: those of a vector environment, whose others are the short ones.  A plain
        environment has at most one, and the answer that its score would rest on is worth less than what leaving it out biases."""
        going = {} if self.single else self.under_way
        return {lane: episode for lane, episode in going.items() if episode.steps and np.isfinite(episode.left)}

    def followed(self) -> Followed:
        """All episodes so far, with those that are unfinished."""
        rows = [*self.done, *map(_row, self.unfinished.values())]
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
        """Continue from what `state` gave; a checkpoint of an older version may have none of it."""
        if "done" not in arrays:
            return
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
