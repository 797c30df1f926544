"""Audits during a run: blocks of rollouts that follow the target policies, scored against the answers frozen before them.

A block ends each time the data have doubled, and takes the share of the steps that was asked for.  Its number of rollouts is
fixed before the first of them, so that which ones are scored does not depend on how they go.  The stream learns from their
transitions as from all others.

A plain environment is reset for every rollout, and rollouts of different policies with the same number have the same draws.
The lanes of a vector environment begin a rollout when an episode begins there anyway.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.audits import LEVELS, PER_ROLLOUT, AuditedValues, Scores, audited, last_cumulants, rollout_score, value_bounds
from gvfx.evidence.decisions import Joint, joint_of_audits
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.inputs import is_real, shown
from gvfx.questions import gvf as options
from gvfx.questions.reader import Reader
from gvfx.running.drive import Backend
from gvfx.running.predictor import Frozen
from gvfx.running.stepping import SingleStepper, VectorStepper

# --- Rollouts of audits: those to come in a block, and one that is under way ----------------------------------------


REACH = 1.5  # times the horizon of the largest discount is the expected length of a rollout in an episode without an end


class Planned(NamedTuple):
    """A rollout to come."""

    policy: int
    number: int  # among the policy's rollouts in the block
    of: int  # their number
    stop: float  # the product of the probabilities of going on below which it stops


def planned(each: np.ndarray, seed: list[int]) -> list[Planned]:
    """The rollouts of a block, `each` [policy] of every policy, which take turns; a policy's stops are spread evenly."""
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

    def add_choice(self, seen: Any, action: Any) -> None:
        """Keep what frozen answers read at the observation, and the action that its policy chose."""
        self.seen.append(seen)
        self.actions.append(action)

    def add_step(self, at: Any, lane: int, going_on: float) -> bool:
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


SHARE = 0.15  # of the steps, where intervals have no other ground
FIRST = 1000  # steps after which the first block ends, at the earliest
FEWEST = 4  # rollouts of each policy for which a block has room
FULL = 0.9  # of a block's steps that its rollouts are planned to take
LONGEST = 2.0  # times its planned steps, after which a block begins no further rollout
SAMPLE = 32  # further resets from which their number is chosen
RESETS = 4.0  # times smaller than the chance of the rollouts is that of the starts, after further resets
FALLEN = 0.5  # times the last block's mean squared error: below, a block leaves its steps to the next
LEAST = 0.5  # of an equal share of a block's steps, for any policy

TAG = zlib.crc32(b"audit")  # of the random draws


def checked_share(audit: object, default: float = 0.0) -> float:
    """The share of the steps that audits take; None is the default."""
    if isinstance(audit, options.Audit):
        audit = audit.share
    if audit is None:
        return default
    if not (is_real(audit) and isinstance(audit, int | float | np.number) and 0 <= audit < 1):
        raise InputError(f"audit: {shown(audit)} is not a share of the steps; give a number of at least 0 and below 1.")
    return float(audit)


def blocks(steps: int, share: float, first: float, early: bool = True) -> list[tuple[int, int]]:
    """The step at which each block ends, and its steps; the last one ends with the run, the others as the data double.

    first: the step at which the first block ends, at the earliest.
    early: False: a single block, at the end.
    """
    ends = [float(steps)]
    while early and ends[-1] / 2 >= first:
        ends.append(ends[-1] / 2)
    lengths = [share * end / 2 for end in ends[:-1]] + [share * ends[-1]]  # the first is about all steps before it
    return [(int(end), max(1, int(length))) for end, length in zip(reversed(ends), reversed(lengths), strict=True)]


def room_for(steps: int, discounts: np.ndarray, member: np.ndarray) -> bool:
    """Whether a run is long enough to be audited by default: its last block has room for rollouts of every policy.

    discounts [gvf] below 1 count; member [gvf]: each question's policy.
    """
    longest = {p: 1 / (1 - g) for g, p in sorted(zip(discounts.tolist(), member.tolist(), strict=True)) if g < 1}
    return steps >= FIRST and SHARE * steps / 2 >= FEWEST * sum(longest.values())


Stepped = Any  # a `gvfx.running.streams.gym_stream.GymStream`, whose `forward` calls `Audits.follow` once actions are chosen


class Audits:
    """The audits of one seed."""

    def __init__(self, run: Backend, member: np.ndarray, reader: Reader, seed: int, after: int = 0) -> None:
        """member [gvf]: the index of each question's policy among the distinct ones; after: the step of the first answers."""
        discounts = reader.discounts  # 1 where they change
        share, steps = run.audit, run.plan.steps
        self.seed, self.gvfs, self.policies = seed, len(member), int(member.max()) + 1
        self.own = [member == p for p in range(self.policies)]  # [policy] bool [gvf]
        with np.errstate(divide="ignore"):
            longest = np.array([REACH / (1 - np.float64(discounts[own].max())) for own in self.own])
        self.gamma, self.ranges = discounts, run.audit_ranges
        constant = not any(callable(q.discount) for q in reader.questions)
        self.fixed = [going_on(discounts[own]) if constant else None for own in self.own]  # the probability of going on
        self.longest = longest  # [policy] the expected steps of a rollout in an episode without an end
        room = FEWEST * longest[np.isfinite(longest)].sum()
        self.blocks = blocks(steps, share, max(FIRST, 2 * after, room / share), run.audits_early)
        self.passed = 0  # blocks begun
        self.carried = 0  # steps that earlier blocks left to the next one
        self.due = -1  # the step at which the next block begins; -1 before that is known
        self.until = 0  # the step from which the block begins no further rollout
        self.rollouts: list[tuple[Any, ...]] = []  # rows of `Scores`, of which every rollout has one
        self.resets: list[tuple[Any, ...]] = []  # of every block: the other fields of `Scores`
        self.lengths = np.zeros((self.policies, 2))  # steps and number of rollouts
        self.queue: list[Planned] = []  # the block's further rollouts
        self.frozen: Frozen | None = None  # None between blocks
        self.under_way: dict[int, Rollout] = {}  # by lane

    # --- stepping ----------------------------------------------------------------------------------------------------

    def advance(self, stream: Stepped, to: int) -> None:
        """Advance a stream to a step, with the blocks that are due."""
        while stream.t < to:
            if self.frozen is not None:
                self._rollouts(stream, to)
            elif self.queue:
                self._freeze(stream)
            elif self.passed == len(self.blocks):
                stream.forward(to)
            elif self.due < 0 and stream.t >= self.blocks[self.passed][0] // 2:
                self.due = self._due(stream)
            elif 0 <= self.due <= stream.t:
                self._begin(stream)
            else:
                stream.forward(min(to, self.due if self.due >= 0 else self.blocks[self.passed][0] // 2))

    def _due(self, stream: Stepped) -> int:
        """The step at which the next block begins, found when half of the steps before its end are done."""
        end, budget = self.blocks[self.passed]
        needed = float(budget + self.carried)
        if isinstance(stream.stepper, VectorStepper):  # lanes wait for an episode to begin, and go back to the behaviour
            episode = stream.t / max(1, stream.episodes()[0])
            needed = needed * max(1.0, episode / self._lengths(stream).mean()) + len(stream.agent.at.ended) * episode
        return int(max(end - needed, end // 2))

    def _begin(self, stream: Stepped) -> None:
        """Plan a block and freeze the answers."""
        end, budget = self.blocks[self.passed]
        budget, last = budget + self.carried, self.passed == len(self.blocks) - 1
        self._freeze(stream)
        assert self.frozen is not None
        lengths = self._lengths(stream)
        each = np.maximum(2, FULL * budget * self._allocation(lengths) / lengths).astype(int)
        earlier = self.resets[-2][3] if len(self.resets) > 1 else np.full(self.gvfs, np.inf)
        if not last and (self.frozen.surprise < FALLEN * earlier).mean() >= 0.5:  # better answers are soon to come
            each = np.minimum(each, FEWEST)
        self.carried = 0 if last else max(0, budget - int(each @ lengths / FULL))
        self.passed, self.due = self.passed + 1, -1
        self.until = stream.t + int(LONGEST * (end - stream.t))
        self.queue = planned(each, [self.seed, TAG, len(self.resets), 2])
        self._observe_starts(stream, each, lengths, budget)

    def _freeze(self, stream: Stepped) -> None:
        """Begin a block, or the rest of one that a checkpoint interrupted."""
        self.frozen = stream.agent.freeze()
        self.resets.append((0, np.zeros(self.gvfs), np.zeros((self.gvfs, self.gvfs)), self.frozen.surprise))

    def _lengths(self, stream: Stepped) -> np.ndarray:
        """The expected steps of a rollout, [policy]."""
        episode = stream.t / max(1, stream.episodes()[0])
        steps, n = self.lengths.T
        return np.maximum(1.0, (steps + np.minimum(self.longest, episode)) / (n + 1))

    def _allocation(self, lengths: np.ndarray) -> np.ndarray:
        """Each policy's share of a block's steps, [policy]: in proportion to the spread of a score, by earlier rollouts, over the
        root of its steps (Neyman), but never below a part of an equal share."""
        if not self.rollouts:
            return np.full(self.policies, 1 / self.policies)
        squares = np.array([row[PER_ROLLOUT.index("squares")] for row in self.rollouts])
        spread = np.ones(self.policies)
        for p, own in enumerate(self.own):
            mine = squares[~np.isnan(squares[:, own]).any(axis=1)][:, own].mean(axis=0)
            spread[p] = np.exp(np.log(np.maximum(mine, 1e-300)).mean() / 2)
        share = spread * np.sqrt(lengths)
        share = np.maximum(share / share.sum() if share.sum() > 0 else 1 / self.policies, LEAST / self.policies)
        return np.asarray(share / share.sum())

    def _rollouts(self, stream: Stepped, to: int) -> None:
        """Steps of a block until it ends, or until step `to`."""
        single = isinstance(stream.stepper, SingleStepper)
        while stream.t < to and self.frozen is not None:
            for lane in [0] if single else np.flatnonzero(stream.agent.at.fresh).tolist():
                if lane not in self.under_way and self.queue:
                    self._start(stream, lane)
            stream.forward(stream.t + 1)
            at = stream.agent.at
            for lane, rollout in list(self.under_way.items()):
                fixed = self.fixed[rollout.policy]
                on = rollout.add_step(at, lane, going_on(at.gamma[lane][self.own[rollout.policy]]) if fixed is None else fixed)
                if at.ended[lane] or not on:
                    self._over(stream, lane, cut=bool(on and at.alive[lane] > 0))
            if stream.t >= self.until:
                self.queue = []
            if not self.queue and not self.under_way:
                self.frozen = None

    def _start(self, stream: Stepped, lane: int) -> None:
        """Begin a rollout in a lane; a plain environment is reset."""
        coming = self.queue.pop(0)
        single = isinstance(stream.stepper, SingleStepper)
        block = len(self.resets) - 1
        pair = coming.number if single else len(self.rollouts) + len(self.under_way)  # draws are shared in plain environments
        rollout = Rollout(coming, pair, [self.seed, TAG, block, pair])
        if isinstance(stream.stepper, SingleStepper):
            if not stream.agent.at.fresh[0]:
                stream.agent.break_off()
            stream.stepper.reset(stream.agent.at, rollout.reset_seed)
        self.under_way[lane] = rollout

    def follow(self, stream: Stepped) -> None:
        """Have the policies of the rollouts under way choose their lanes' actions."""
        for lane, rollout in self.under_way.items():
            rollout.add_choice(*stream.agent.take(lane, rollout.policy, rollout.chance))

    def _over(self, stream: Stepped, lane: int, cut: bool) -> None:
        """Score the rollout of a lane, which is over."""
        rollout = self.under_way.pop(lane)
        self.rollouts.append(self._row(stream, lane, rollout, cut))
        self.lengths[rollout.policy] += len(rollout.actions), 1

    def _observe_starts(self, stream: Stepped, each: np.ndarray, lengths: np.ndarray, most: int) -> None:
        """Reset until the variance of the mean start value is small beside that of the rollouts; each [policy]: their number."""
        if not isinstance(stream.stepper, SingleStepper):
            return
        assert self.frozen is not None
        values = self._at_resets(stream, min(SAMPLE, most))
        wanted = 0.0
        for own, n, length in zip(self.own, each.tolist(), lengths.tolist(), strict=True):
            starts, gains = values[:, own].var(axis=0, ddof=1), np.maximum(self.frozen.surprise[own] * length, 1e-300)
            wanted = max(wanted, n * float((RESETS * starts / gains).max()))
        if wanted > len(values):
            values = np.concatenate([values, self._at_resets(stream, int(min(wanted, most)) - len(values))])
        covariance = np.cov(values, rowvar=False).reshape(self.gvfs, self.gvfs)
        self.resets[-1] = (len(values), values.mean(axis=0), covariance, self.frozen.surprise)

    def _at_resets(self, stream: Stepped, n: int) -> np.ndarray:
        """The frozen values at further starts, [n, gvf]; the environment is reset afterwards."""
        assert self.frozen is not None and isinstance(stream.stepper, SingleStepper)
        if not stream.agent.at.fresh[0]:
            stream.agent.break_off()
        seen = stream.agent.at_starts(stream.stepper.observe_resets(n))
        stream.stepper.reset(stream.agent.at)
        values = np.empty((n, self.gvfs))
        for p, own in enumerate(self.own):
            draws = np.random.default_rng([self.seed, TAG, len(self.resets), n])
            values[:, own] = self.frozen.at(p, seen, None, draws)[0][:, own]
        return values

    # --- scores ------------------------------------------------------------------------------------------------------

    def scores(self, more: list[tuple[Any, ...]] | None = None) -> Scores:
        """All scores so far, with further rollouts if they are given."""
        rollouts, none = [*self.rollouts, *(more or [])], Scores.none(self.gvfs)
        columns = [*zip(*rollouts, strict=True)] or [()] * len(PER_ROLLOUT)
        columns += [*zip(*self.resets, strict=True)] or [()] * (len(none) - len(PER_ROLLOUT))
        return Scores(*(
            np.array(column, empty.dtype).reshape(-1, *empty.shape[1:]) for column, empty in zip(columns, none, strict=True)
        ))  # fmt: skip

    def _row(self, stream: Stepped, lane: int, rollout: Rollout, cut: bool) -> tuple[Any, ...]:
        """The row of `Scores` of a rollout that ends here."""
        assert self.frozen is not None
        own, terminated = self.own[rollout.policy], not stream.agent.at.alive[lane]
        return rollout.row(self.frozen, len(self.resets) - 1, stream.agent.arrived(lane), own, self.gamma, cut, terminated)

    def so_far(self, stream: Stepped) -> Scores:
        """All scores now; a rollout that is under way counts as one that a time limit cut."""
        begun = [(lane, rollout) for lane, rollout in self.under_way.items() if rollout.actions]
        return self.scores([self._row(stream, lane, rollout, True) for lane, rollout in begun])

    def found(self, stream: Stepped) -> AuditedValues:
        """What the audits say now."""
        return audited(self.so_far(stream))

    def bounds(self, stream: Stepped, level: float) -> np.ndarray:
        """Intervals that hold with any number of rollouts, [gvf, 2]; NaN for questions without a range."""
        scores, out = self.so_far(stream), np.full((self.gvfs, 2), np.nan)
        for i, (least, most) in enumerate(self.ranges.tolist() if self.ranges.size else ()):
            if np.isfinite(least):
                out[i] = value_bounds(scores.last[~np.isnan(scores.gain[:, i]), i], float(self.gamma[i]), least, most, level)
        return out

    def bound(self, stream: Stepped, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """As `ErrorBelow.bound`, from the audits of the value at the start."""
        found = self.found(stream)
        if np.isfinite(self.ranges).all() and self.ranges.size:
            within = self.bounds(stream, until.level(looks, self.gvfs))
            return until.from_bounds(found.value, np.abs(within - found.value[:, None]).max(axis=1), stream.run.weights)
        value, error = found.value[:, None], found.error[:, None]
        return until.from_errors(value, error, stream.run.weights, float(found.freedom.min()), looks)

    def joint(self, stream: Stepped) -> Joint:
        """The audited values at the start, with the errors of their differences."""
        found = self.found(stream)
        return joint_of_audits(found.value, found.differences, found.differences_freedom)

    def outcome(self, stream: Stepped) -> dict[str, np.ndarray]:
        """What the audits of the whole run say, as fields of the seed's part."""
        found = self.found(stream)
        out = {"audit": found.columns, "audit_differences": np.stack(found[6:], axis=-1)}
        if np.isfinite(self.ranges).any():
            out["audit_bounds"] = np.stack([self.bounds(stream, level) for level in LEVELS], axis=1)
        return out

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Everything that later audits depend on; rollouts that are under way begin again."""
        left = [rollout.policy for rollout in (*(r.planned for r in self.under_way.values()), *self.queue)]
        own = {"left": np.bincount(left, minlength=self.policies), "lengths": self.lengths}
        own["counts"] = np.array([self.passed, self.until, self.due, self.carried])
        return own | self.scores()._asdict()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        columns, many = [arrays[name].copy() for name in Scores._fields], len(PER_ROLLOUT)
        self.rollouts, self.resets = list(zip(*columns[:many], strict=True)), list(zip(*columns[many:], strict=True))
        self.queue = planned(arrays["left"], [self.seed, TAG, len(self.resets), 2])
        self.lengths = arrays["lengths"].copy()
        self.passed, self.until, self.due, self.carried = (int(n) for n in arrays["counts"])
        self.frozen, self.under_way = None, {}
