"""Scores of whole episodes against answers that were frozen before they began, for agents that learn as they go.

Answers are frozen again each time the data have grown by half: the episodes of a block are scored against the same answers.  The
first block counts its returns, others whichever varied less before.  Episodes before the first answers teach, and are not scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gvfx.evidence.betting import LEVELS, range_bounds
from gvfx.evidence.decisions import Joint, joint_of_audits
from gvfx.evidence.episodes import Estimate, Scores, mixed, scores, steadier
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.running.predictor import Frozen
from gvfx.schedules import growing

GROWTH = 1.5  # of the data between two times at which answers are frozen


class Path:
    """What an episode met, for its score."""

    def __init__(self, frozen: Frozen | None, block: int) -> None:
        self.frozen, self.block = frozen, block
        self.seen: list[Any] = []
        self.actions: list[Any] = []
        self.cumulants: list[np.ndarray] = []
        self.discounts: list[np.ndarray] = []

    def chosen(self, seen: Any, action: Any) -> None:
        """Keep what frozen answers read at the observation, and the action."""
        self.seen.append(seen)
        self.actions.append(action)

    def moved(self, at: Any, lane: int) -> None:
        """Keep the step that was taken, if it is not kept yet."""
        if len(self.cumulants) < len(self.actions):
            self.cumulants.append(at.c[lane].copy())
            self.discounts.append(at.gamma[lane] * at.alive[lane])


class FrozenScores:
    """Those of one seed."""

    def __init__(self, member: np.ndarray, seed: int, first: int, steps: int) -> None:
        """member [gvf]: each question's policy; first: the step from which there are answers; steps: of the run."""
        self.member, self.seed = member, seed
        self.due = growing(first, GROWTH, steps)[::-1]  # the times at which answers are frozen, the next one last
        self.frozen: Frozen | None = None
        self.starts: list[Any] = []  # what frozen answers read in further resets
        self.surprise: list[tuple[np.ndarray, np.ndarray]] = []  # [block] of [gvf] each, as `Frozen.surprise`
        self.further: list[np.ndarray] = []  # [block] of V at further resets, [m, gvf]
        self.done: list[Scores] = []  # one episode each

    def renew(self, agent: Any) -> bool:
        """Freeze the answers if that is due; episodes that begin from now on are scored against them."""
        if not self.due or agent.t < self.due[-1] or not agent.learns:
            return False
        while self.due and agent.t >= self.due[-1]:
            self.due.pop()
        agent.known_now = None
        self.frozen = agent.freeze()
        self.surprise.append(self.frozen.surprise)
        values = np.empty((len(self.starts), len(self.member)))
        for p in range(int(self.member.max()) + 1 if self.starts else 0):
            draws = np.random.default_rng([self.seed, len(self.surprise), 7])
            values[:, self.member == p] = self.frozen.at(p, self.starts, None, draws)[0][:, self.member == p]
        self.further.append(values)
        agent.known_now = None
        return True

    def path(self) -> Path:
        """That of an episode which begins now."""
        return Path(self.frozen, len(self.surprise) - 1)

    def over(self, path: Path, arrived: Any, policy: int, pair: int) -> None:
        """Score an episode."""
        if path.frozen is None:
            return
        rng = np.random.default_rng([self.seed, pair, 3]) if path.frozen.draws else None
        values, taken = path.frozen.at(policy, [*path.seen, arrived], path.actions, rng)
        discount, cumulant = np.array(path.discounts), np.array(path.cumulants)
        one, seen = np.zeros(1, np.int64), np.zeros((len(taken), 1))
        own = one + policy, self.member, one + pair, one + path.block
        errors = cumulant + discount * values[1:] - taken
        self.done.append(scores(errors, cumulant, discount, seen, one, values[:1], values[-1:], *own))

    def all(self, stream: Any) -> Scores | None:
        """The scores of all episodes, with those that are unfinished; None without any."""
        many = len(self.done)
        for lane, episode in stream.whole.unfinished.items():
            episode.path.moved(stream.agent.at, lane)
            self.over(episode.path, stream.agent.arrived(lane), episode.policy, episode.pair)
        done = self.done[:]
        del self.done[many:]
        return Scores(*map(np.concatenate, zip(*done, strict=True))) if done else None

    def found(self, stream: Any) -> Estimate:
        """The values at the start."""
        of, blocks = self.all(stream), len(self.surprise)
        if of is None:
            return Estimate.none(len(self.member))
        second, size = np.stack(self.surprise, axis=1)
        further = np.stack(self.further) if min(map(len, self.further)) > 1 else None
        return mixed(of, steadier(of, blocks, before=True), (second, size), further)

    # --- what a stream asks of audits ----------------------------------------------------------------------------------

    def bounds(self, stream: Any, level: float) -> np.ndarray:
        """Intervals that hold with any number of episodes, [gvf, 2]; NaN for questions without a range."""
        return range_bounds(self.all(stream), stream.run.audit_ranges, stream.stepper.reader.discounts, level)

    def bound(self, stream: Any, until: ErrorBelow, looks: int) -> tuple[float, bool]:
        """As `ErrorBelow.bound`, from the values at the start."""
        found, weights, ranges = self.found(stream), stream.run.weights, stream.run.audit_ranges
        if ranges.size and np.isfinite(ranges).all():
            within = self.bounds(stream, until.level(looks, len(weights)))
            return until.from_bounds(found.value, np.abs(within - found.value[:, None]).max(axis=1), weights)
        freedom = float(found.freedom.min())
        return until.from_errors(found.value[:, None], found.error[:, None], weights, freedom, looks)

    def joint(self, stream: Any) -> Joint:
        """The values at the start, with the errors of their differences."""
        found = self.found(stream)
        return joint_of_audits(found.value, np.sqrt(found.variance), found.freedom)

    def outcome(self, stream: Any) -> dict[str, np.ndarray]:
        """What they say, as fields of the seed's part."""
        ranged = np.isfinite(stream.run.audit_ranges).any()
        bounds = {"audit_bounds": np.stack([self.bounds(stream, level) for level in LEVELS], axis=1)} if ranged else {}
        return self.found(stream).arrays() | bounds

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """All scores so far; answers are frozen anew afterwards."""
        arrays = {"surprise": np.array(self.surprise), "due": np.array(self.due, np.int64)}
        if self.done:
            columns = zip(*self.done, strict=True)
            arrays |= dict(zip(Scores._fields, map(np.concatenate, columns), strict=True))
        return arrays | {f"further.{k}": values for k, values in enumerate(self.further)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        self.due = arrays["due"].tolist()
        if arrays["surprise"].ndim < 3:  # none, or of an older version: its scores lack what is needed now
            return
        self.surprise = [tuple(block.copy()) for block in arrays["surprise"]]
        self.further = [arrays[f"further.{k}"].copy() for k in range(len(self.surprise))]
        many = len(arrays["pair"]) if "pair" in arrays else 0
        self.done = [Scores(*(arrays[name][k : k + 1].copy() for name in Scores._fields)) for k in range(many)]
        self.due.append(0)  # freeze the answers at once
