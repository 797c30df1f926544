"""Audits during a run: blocks of rollouts that follow the target policies, scored against the answers frozen before them.

A block ends each time the data have doubled, and takes the share of the steps that was asked for.  Its number of rollouts is
fixed before the first of them, so that which ones are scored does not depend on how they go.  The stream learns from their
transitions as from all others.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.audits import Audit, Scores, audited, rollout_score
from gvfx.running.checkpoint import generator_state, prefixed, set_generator, unprefixed
from gvfx.running.drive import Stream
from gvfx.running.frozen import Frozen
from gvfx.running.gym_stepper import SingleStepper, VectorStepper

SHARE = 0.15  # of the steps, where intervals have no other ground
FIRST = 1000  # steps after which the first block ends, at the earliest
FEWEST = 4  # rollouts of each policy for which a block has room
FULL = 0.9  # of a block's steps that its rollouts are planned to take
LONGEST = 2.0  # times its planned steps, after which a block begins no further rollout
RESETS = 4.0  # times smaller than the chance of the rollouts is that of the starts, after further resets


def checked_share(audit: object, default: float = 0.0) -> float:
    """The share of the steps that audits take; None is the default."""
    if audit is None:
        return default
    if isinstance(audit, bool) or not isinstance(audit, int | float | np.number) or not 0 <= float(audit) < 1:
        raise InputError(f"audit: {audit!r:.40} is not a share of the steps; give a number of at least 0 and below 1.")
    return float(audit)


def blocks(steps: int, share: float, first: float) -> list[tuple[int, int]]:
    """The step at which each block begins, and its steps; the last one ends with the run, the others as the data double.

    first: the step at which the first block ends, at the earliest.
    """
    ends = [float(steps)]
    while ends[-1] / 2 >= first:
        ends.append(ends[-1] / 2)
    lengths = [share * end / 2 for end in ends[:-1]] + [share * ends[-1]]  # the first is about all steps before it
    return [(int(end - length), max(1, int(length))) for end, length in zip(reversed(ends), reversed(lengths), strict=True)]


def room_for(steps: int, discounts: np.ndarray, member: np.ndarray) -> bool:
    """Whether a run is long enough to be audited by default: its last block has room for rollouts of every policy.

    discounts [gvf] below 1 count; member [gvf]: each question's policy.
    """
    longest = {p: 1 / (1 - g) for g, p in sorted(zip(discounts.tolist(), member.tolist(), strict=True)) if g < 1}
    return steps >= FIRST and SHARE * steps / 2 >= FEWEST * sum(longest.values())


class AuditedStream(Stream, ABC):
    """A stream that can be audited.

    Its `advance` calls `Audits.advance`, and `forward` calls `Audits.follow` between choosing an action and taking it.
    """

    audits: Audits | None = None
    stepper: SingleStepper | VectorStepper

    @property
    @abstractmethod
    def written(self) -> Any:
        """The arrays that the stepper writes: c, gamma, alive, ended, fresh [lane, ...]."""

    @abstractmethod
    def forward(self, to: int) -> None:
        """Step and learn until `to` steps are done."""

    @abstractmethod
    def take(self, policy: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Replace the chosen action by one of a target policy; what frozen answers read at the observation, and the action."""

    @abstractmethod
    def arrived(self) -> Any:
        """What frozen answers read at the observation after the last step."""

    @abstractmethod
    def at_starts(self, observations: list[Any]) -> list[Any]:
        """What frozen answers read at observations in which episodes may begin."""

    @abstractmethod
    def freeze(self) -> Frozen:
        """The present answers."""

    @abstractmethod
    def break_off(self) -> None:
        """End the episode without a transition."""

    def audit_state(self) -> dict[str, np.ndarray]:
        """The audits' part of a checkpoint."""
        return prefixed("audits", self.audits.state()) if self.audits else {}

    def restore_audits(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `audit_state` gave."""
        if self.audits:
            self.audits.restore(unprefixed("audits", arrays))

    def audit_outcome(self) -> dict[str, np.ndarray]:
        """What the audits of the whole run say, as a field of the seed's part."""
        return {"audit": self.audits.found(self).columns} if self.audits else {}


class Audits:
    """The audits of one seed."""

    def __init__(self, share: float, steps: int, member: np.ndarray, discounts: np.ndarray, seed: int, after: int = 0) -> None:
        """member [gvf]: each question's policy among the distinct ones; discounts [gvf]: the largest possible; after: the steps
        before which there are no answers."""
        self.seed, self.gvfs, self.policies = seed, len(member), int(member.max()) + 1
        self.own = [member == p for p in range(self.policies)]  # [policy] bool [gvf]
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(b"audit"),)))
        with np.errstate(divide="ignore"):
            longest = np.array([1 / (1 - np.float64(discounts[own].max())) for own in self.own])
        self.longest = longest  # [policy] the expected steps of a rollout in an episode without an end
        room = FEWEST * longest[np.isfinite(longest)].sum()
        self.blocks = blocks(steps, share, max(FIRST, 2 * after, room / share))
        self.passed = 0  # blocks begun
        self.rollouts: list[tuple[Any, ...]] = []  # rows of `Scores`: block, steps, cut, start, gain, control
        self.resets: list[tuple[Any, ...]] = []  # of every block: resets, reset_mean, reset_variance, surprise, common
        self.lengths = np.zeros((self.policies, 2))  # steps and number of rollouts
        self.queue: list[int] = []  # policies of the block's further rollouts
        self.until = 0  # the step from which the block begins no further rollout
        self.frozen: Frozen | None = None  # None between blocks
        self.policy: int | None = None  # that of the rollout under way
        self._forget()

    def _forget(self) -> None:
        self.seen: list[Any] = []  # of the rollout under way, as those below
        self.actions: list[Any] = []
        self.cumulants: list[np.ndarray] = []
        self.discounts: list[np.ndarray] = []
        self.going_on: list[float] = []

    # --- stepping ----------------------------------------------------------------------------------------------------

    def advance(self, stream: AuditedStream, to: int) -> None:
        """Advance a stream to a step, with the blocks that are due."""
        while stream.t < to:
            if self.frozen is not None:
                self._rollout(stream, to)
            elif self.queue or (self.passed < len(self.blocks) and stream.t >= self.blocks[self.passed][0]):
                self._begin(stream)
            else:
                due = self.blocks[self.passed][0] if self.passed < len(self.blocks) else to
                stream.forward(min(to, due))

    def _begin(self, stream: AuditedStream) -> None:
        """Freeze the answers, and plan a block; one that a checkpoint interrupted goes on as a new one."""
        self.frozen = stream.freeze()
        if not self.queue:
            begin, budget = self.blocks[self.passed]
            self.passed, self.until = self.passed + 1, begin + int(LONGEST * budget)
            each = np.maximum(2, FULL * budget / self.policies / self._lengths(stream)).astype(int)
            self.queue = [p for _, p in sorted((k / n, p) for p, n in enumerate(each.tolist()) for k in range(n))]
        none = np.zeros(self.gvfs)
        self.resets.append((0, none, none, self.frozen.surprise, self.frozen.common))

    def _lengths(self, stream: AuditedStream) -> np.ndarray:
        """The expected steps of a rollout, [policy]."""
        episode = stream.t / max(1, stream.episodes()[0])
        steps, n = self.lengths.T
        return np.maximum(1.0, (steps + np.minimum(self.longest, episode)) / (n + 1))

    def _rollout(self, stream: AuditedStream, to: int) -> None:
        """Steps of a rollout until it ends, or until step `to`."""
        if self.policy is None:
            self.policy = self.queue.pop(0)
            if not stream.written.fresh[0]:
                stream.break_off()
                stream.stepper.reset(stream.written)
        while stream.t < to:
            stream.forward(stream.t + 1)
            at = stream.written
            going_on = float(at.gamma[0][self.own[self.policy]].max())
            self.cumulants.append(at.c[0].copy())
            self.discounts.append(at.gamma[0] * at.alive[0])
            self.going_on.append(going_on)
            on, ended = self.rng.random() < going_on, bool(at.ended[0])
            if ended or not on:
                self._scored(stream.arrived(), on, cut=bool(on and at.alive[0] > 0))
                if not self.queue or stream.t >= self.until:
                    self._end(stream)
                return

    def follow(self, stream: AuditedStream) -> None:
        """Have the rollout's policy choose the action."""
        assert self.policy is not None
        seen, action = stream.take(self.policy, self.rng)
        self.seen.append(seen)
        self.actions.append(action)

    def _end(self, stream: AuditedStream) -> None:
        """End a block, with the further resets that its starts need."""
        assert self.frozen is not None
        resets = self._resets()
        if resets > 1:
            stream.break_off()
            seen = stream.at_starts(stream.stepper.observe_resets(resets))
            stream.stepper.reset(stream.written)
            values = np.empty((resets, self.gvfs))
            for p, own in enumerate(self.own):
                values[:, own] = self.frozen.at(p, seen, None, self._fresh_rng())[0][:, own]
            self.resets[-1] = (resets, values.mean(axis=0), values.var(axis=0, ddof=1), *self.resets[-1][3:])
        self.queue, self.frozen = [], None

    def _resets(self) -> int:
        """How many further resets make the chance of the block's starts small beside that of its rollouts; at most as many as
        the block had steps."""
        rows = [row for row in self.rollouts if row[0] == len(self.resets) - 1]
        steps, wanted = sum(row[1] for row in rows), 0.0
        start, gain = (np.array([row[k] for row in rows]) for k in (3, 4))
        for i in range(self.gvfs):
            mine = ~np.isnan(gain[:, i])
            if mine.sum() > 1:
                starts, gains = start[mine, i].var(ddof=1), gain[mine, i].var(ddof=1)
                wanted = max(wanted, mine.sum() * min(RESETS * starts / gains, steps) if gains > 0 else steps * (starts > 0))
        return int(min(wanted, steps))

    # --- scores ------------------------------------------------------------------------------------------------------

    def _scored(self, arrived: Any, on: bool, cut: bool) -> None:
        """Add the score of the rollout under way, which is over."""
        self.rollouts.append(self._score(arrived, on, cut))
        self.lengths[self.policy] += len(self.actions), 1
        self.policy = None
        self._forget()

    def _score(self, arrived: Any, on: bool, cut: bool) -> tuple[Any, ...]:
        """The score of the rollout under way, which ends here; on: whether chance would have let it go on."""
        assert self.frozen is not None and self.policy is not None
        values, taken = self.frozen.at(self.policy, [*self.seen, arrived], self.actions, self._fresh_rng())
        met = np.array(self.cumulants), np.array(self.discounts), np.array(self.going_on)
        found = rollout_score(values, taken, *met, went_on=on)
        scored = [np.where(self.own[self.policy], each, np.nan) for each in found]
        return len(self.resets) - 1, len(self.actions), cut, *scored

    def _fresh_rng(self) -> np.random.Generator:
        """Random draws of actions for the answers to one rollout."""
        return np.random.default_rng([self.seed, len(self.rollouts), 0x6472])

    def scores(self, last: tuple[Any, ...] | None = None) -> Scores:
        """All scores so far, with one more rollout if it is given."""
        rollouts = [*self.rollouts, last] if last is not None else self.rollouts
        none = Scores.none(self.gvfs)
        columns = [*zip(*rollouts, strict=True)] or [()] * 6, [*zip(*self.resets, strict=True)] or [()] * 5
        return Scores(*(
            np.array(column, empty.dtype).reshape(-1, *empty.shape[1:])
            for column, empty in zip((*columns[0], *columns[1]), none, strict=True)
        ))  # fmt: skip

    def found(self, stream: AuditedStream) -> Audit:
        """What the audits say now; a rollout that is under way counts as one that a time limit cut."""
        return audited(self.scores(self._score(stream.arrived(), True, True) if self.actions else None))

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Everything that later audits depend on; a rollout that is under way begins again."""
        queue = self.queue if self.policy is None else [self.policy, *self.queue]
        own = {"queue": np.array(queue, np.int64), "counts": np.array([self.passed, self.until]), "lengths": self.lengths}
        return own | self.scores()._asdict() | {"chance": generator_state(self.rng)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        columns = [arrays[name].copy() for name in Scores._fields]
        self.rollouts, self.resets = list(zip(*columns[:6], strict=True)), list(zip(*columns[6:], strict=True))
        self.queue, self.lengths = arrays["queue"].tolist(), arrays["lengths"].copy()
        self.passed, self.until = (int(n) for n in arrays["counts"])
        set_generator(self.rng, arrays["chance"])
        self.frozen = self.policy = None
        self._forget()
