"""Whole episodes scored against answers that were frozen before them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.audits import TRUTH, Ring, asked

import gvfx
from gvfx.evidence.episodes import ALIKE, Scores
from gvfx.running.frozen_scores import FrozenScores

ALONE = SimpleNamespace(whole=SimpleNamespace(unfinished={}))  # a stream without episodes under way
SMALL = gvfx.Deep(hidden=(16,), capacity=2000, learning_starts=100, waves=3)


def block_of(score: np.ndarray, returns: np.ndarray, block: int) -> list[Scores]:
    """Episodes of one question in a block, with their scores and their returns."""
    out = []
    for k, (y, g) in enumerate(zip(score, returns, strict=True)):
        one, at = np.ones(1, np.int64), np.array([[y]])
        along = 0 * at, at, at, 9 * at**2, at, one, at[:, :, None], np.array([[g]]), 0 * at, 0 * at
        out.append(Scores(one * (100 * block + k), one * block, one, one > 1, *along))
    return out


def told(*blocks: tuple[np.ndarray, np.ndarray]) -> FrozenScores:
    made = FrozenScores(np.zeros(1, np.int64), 0, 10, 100)
    for b, (score, returns) in enumerate(blocks):
        made.done += block_of(score, returns, b)
        made.surprise.append((np.ones(1), np.ones(1)))
        made.further.append(np.zeros((0, 1)))
    return made


def test_a_block_counts_what_varied_less_before():
    rng = np.random.default_rng(0)
    narrow, wide = 5 + 0.1 * rng.normal(size=(3, 6)), 5 + 3 * rng.normal(size=(3, 6))
    found = told(*zip(narrow, wide, strict=True)).found(ALONE)
    assert found.value[0] == pytest.approx(np.concatenate([wide[0], narrow[1], narrow[2]]).mean())
    other = told(*zip(wide, narrow, strict=True)).found(ALONE)
    assert other.value[0] == pytest.approx(narrow.mean())
    assert other.episodes[0] == 18 and other.freedom[0, 0] == 17


def test_equal_returns_do_not_show_what_was_not_met():
    scores = 5 + np.random.default_rng(1).normal(size=(2, 8))
    found = told(*zip(scores, np.full((2, 8), 5.0), strict=True)).found(ALONE)
    assert found.value[0] == 5.0 and found.error[0] == pytest.approx(ALIKE * scores.std(ddof=1) / 4)


def test_without_episodes_nothing_is_known():
    found = told().found(ALONE)
    assert np.isnan(found.value[0]) and np.isinf(found.error[0])


def test_networks_rest_on_whole_episodes_at_the_start():
    options = {"steps": 1500, "seed": 0, "where": "start", "progress": False, "evaluate_every": 1500}
    result = gvfx.evaluate(Ring(rows=True), asked(), learner=SMALL, **options)
    for name, v in result.value().items():
        assert abs(v.value - TRUTH[name]) < 3 * v.half < 3.0
        assert result.audit()[name].steps > 300
    np.testing.assert_array_equal(result.intervals("start"), [(v.low, v.high) for v in result.value().values()])
    assert "audit" not in result.details.experiment


def test_scores_are_kept_in_checkpoints():
    rng = np.random.default_rng(2)
    made = told(*zip(rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), strict=True))
    again = FrozenScores(np.zeros(1, np.int64), 0, 10, 100)
    again.restore({name: np.array(array) for name, array in made.state().items()})
    for ours, theirs in zip(made.found(ALONE), again.found(ALONE), strict=True):
        np.testing.assert_array_equal(ours, theirs)
