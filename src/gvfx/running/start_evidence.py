"""The values at the start by a linear model and whole episodes together, and what the episodes say about the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gvfx.evidence.betting import LEVELS, range_bounds
from gvfx.evidence.decisions import Joint, quantile
from gvfx.evidence.episodes import (
    UPPER,
    Blend,
    Estimate,
    Scores,
    blended,
    depends_on_before,
    errors_agree,
    missed,
    mixed,
    scores,
    steadier,
)
from gvfx.evidence.transitions import Transitions
from gvfx.learners.half_samples import FREEDOM, Answers, CrossFit
from gvfx.learners.least_squares import BLOCKS
from gvfx.running.whole_episodes import Followed

FEW_GROUPS = 16  # groups of episodes below which they are dealt to the folds in turn
BEFORE, LEANS, SOME = 0.001, 0.03, 1.2  # levels of the test for what came before: alone, and where κ of a question is above SOME
AGREE, WIDE = 0.01, 1.5  # that of the test for errors that agree, and the least median κ where it counts
ENOUGH = 2.0  # times the model's half-width: episodes whose intervals are wider cannot take its place
SAMPLE = 400  # observations along episodes at which error bars are compared with what the answers miss
REFUSED = (
    "does not determine what follows (errors of the answers agree along episodes, or depend on the observation before): values "
    "at the start rest on whole episodes alone, and there are no intervals elsewhere; give observations more, for instance the "
    "last ones with their actions: gvfx.history(env)"
)


class StartEvidence(NamedTuple):
    """What both say together."""

    joint: Joint
    model_share: np.ndarray  # [gvf] the model's weight
    added: np.ndarray  # [gvf] what is added to squared errors at observations
    refused: bool  # the observation does not determine what follows
    episodes: Estimate
    scores: Scores


def grouped(data: Transitions, followed: Followed) -> np.ndarray:
    """The group of every transition, int [n]: episodes with the same draws are in one."""
    own = np.arange(int(data.episode.max()) + 1) + int(followed.pair.max(initial=-1)) + 1
    own[followed.number] = followed.pair
    return np.unique(own[data.episode], return_inverse=True)[1]


def dealt(group: np.ndarray) -> np.ndarray:
    """The block of every transition where there are few groups: folds are two blocks each, and every fold gets groups in turn."""
    return 2 * (group % (BLOCKS // 2)) + (group // (BLOCKS // 2)) % 2


def rows_of(data: Transitions, followed: Followed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The transitions of the episodes followed that are all kept, in order: rows [k], the first of each episode among them
    [episode], and which of the episodes these are."""
    order = np.argsort(data.episode, kind="stable")
    number = data.episode[order]
    low, high = (np.searchsorted(number, followed.number, side) for side in ("left", "right"))
    kept = np.flatnonzero((high - low >= followed.steps) & (followed.steps > 0))
    kept = kept[data.first[order[low[kept]]]]
    each = [order[low[j] : low[j] + followed.steps[j]] for j in kept.tolist()]
    first = np.concatenate([[0], np.cumsum([len(own) for own in each])[:-1]]).astype(int) if each else np.zeros(0, int)
    return np.concatenate([np.zeros(0, int), *each]), first, kept


def scored(data: Transitions, followed: Followed, cross: CrossFit, policies: Callable[[np.ndarray], np.ndarray]) -> Scores | None:
    """The scores of the episodes; None if there are none.  policies: pi [n, action, gvf] at observations [n, o]."""
    rows, first, kept = rows_of(data, followed)
    if not len(kept):
        return None
    starts, fold = data.observation[rows[first]], cross.fold[rows[first]]
    at = cross.values(starts, policies(starts), fold).T
    policy, pair = followed.policy[kept], followed.pair[kept]
    along = cross.errors[rows], data.cumulant[rows], data.discount[rows], data.observation[rows]
    last = np.append(first[1:], len(rows)) - 1
    return scores(*along, first, at, cross.following[rows[last]], policy, data.member, pair, fold)


def start_evidence(
    model: Joint,
    found: Answers,
    data: Transitions,
    followed: Followed,
    cross: CrossFit,
    policies: Callable[[np.ndarray], np.ndarray],
    further: np.ndarray,
) -> StartEvidence | None:
    """Both together; None without episodes.  model: the values at the start by the model; further [m, o]: further resets."""
    of = scored(data, followed, cross, policies)
    if of is None:
        return None
    elsewhere = None
    if len(further):
        pi = policies(further)
        elsewhere = np.stack([fit.values(further, pi).T for fit in cross.fits])
    by_episodes = mixed(of, steadier(of, len(cross.fits)), None, elsewhere)
    still = np.ptp(data.cumulant, axis=0) == 0
    unmet = still & ((data.cumulant[0] == 0) | ~data.terminated.any())  # what would change the answer was never met
    by_episodes = by_episodes._replace(variance=np.where(unmet[:, None] | unmet, np.inf, by_episodes.variance))
    added, refused = _judged(of, found, data, policies)
    tail = quantile(1 - UPPER, FREEDOM)
    halves = tail * np.where(np.isnan(model.known), np.inf, model.known)
    halves = np.sqrt(halves**2 + tail**2 * np.where(np.eye(len(added), dtype=bool), added, added[:, None] + added))
    own = by_episodes.halves().diagonal()
    refused = refused and bool((own <= ENOUGH * halves.diagonal()).mean() > 0.5)
    both = blended(by_episodes, model.values, np.where(unmet, np.inf, halves), np.full(len(added), not refused))
    return StartEvidence(_joint(both, tail), both.weight, added, refused, by_episodes, of)


def _joint(both: Blend, tail: float) -> Joint:
    errors = both.half / tail
    unsure = ~np.isfinite(errors.diagonal())
    return Joint(both.value, np.where(np.isfinite(errors), errors, np.nan), unsure, unsure, np.zeros(len(unsure)), FREEDOM)


def _judged(
    of: Scores, found: Answers, data: Transitions, policies: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, bool]:
    """What the answers miss beyond their error bars, [gvf], and whether the observation fails to determine what follows."""
    misses = missed(of)
    some = data.observation[:: max(1, len(data) // SAMPLE)]
    errors = found.values(some, policies(some))[1]
    finite = np.isfinite(errors)
    bars = np.where(finite, errors, 0.0) ** 2
    square = np.divide(bars.sum(axis=1), finite.sum(axis=1), out=np.full(len(bars), np.nan), where=finite.any(axis=1))
    known = np.isfinite(misses) & np.isfinite(square)
    added = np.where(known, np.maximum(0.0, np.nan_to_num(misses) - np.nan_to_num(square)), 0.0)
    kappa = np.zeros(1)
    if known.any():
        kappa = np.sqrt(np.maximum(0.0, misses[known]) / np.maximum(square[known], np.finfo(float).tiny))
    before = depends_on_before(of)
    leans = before < BEFORE or (before < LEANS and kappa.max() > SOME)
    return added, bool(leans or (np.median(kappa) > WIDE and errors_agree(of) < AGREE))


def corrected(found: Answers, evidence: StartEvidence) -> Answers:
    """The answers with error bars at observations that include what episodes show they miss; with none if they are refused."""
    least = np.sqrt(found.least**2 + evidence.added)
    return replace(found, least=least, supported=found.supported & (not evidence.refused))


def audited(evidence: StartEvidence | None, ranges: np.ndarray, discounts: np.ndarray) -> dict[str, np.ndarray]:
    """What the episodes alone say, as fields of the seed's part; ranges [gvf, 2]: as in `gvfx.Audit`; discounts [gvf]."""
    out = (Estimate.none(len(discounts)) if evidence is None else evidence.episodes).arrays()
    if not np.isfinite(ranges).any():
        return out
    of = None if evidence is None else evidence.scores
    return out | {"audit_bounds": np.stack([range_bounds(of, ranges, discounts, level) for level in LEVELS], axis=1)}
