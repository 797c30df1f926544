"""The policies of `python -m benchmarks compare`, its rollouts, and what it counts."""

from __future__ import annotations

import numpy as np
import pytest

import gvfx
from benchmarks import compare as bench
from benchmarks.compare import RETURNS, Rollouts, cases, race, threshold, tied


@pytest.mark.parametrize("case", cases().values(), ids=list(cases()))
def test_ties_are_exact_and_between_different_policies(case):
    pair, margin = tied(case)
    one, two = (np.broadcast_to(q.policy.table(*shape), shape) for q in pair.questions for shape in [case.world.next.shape[:2]])
    assert pair.truth[0] == pytest.approx(pair.truth[1], abs=1e-7 * margin) and np.abs(one - two).max() > 0.01
    assert np.sort(case.truth)[-2] < threshold(case) < case.truth.max() and 0 < margin < np.ptp(case.truth)


@pytest.mark.parametrize("returns", RETURNS)
def test_returns_of_rollouts_have_the_value_as_their_mean(returns):
    """20,000 episodes, within three standard errors and what is cut off (1 %)."""
    case = cases()["FrozenLake"]
    found, steps = Rollouts(case.world, case.questions[0], 1, returns).more(20_000)
    assert abs(found.mean() - case.truth[0]) < 3 * found.std() / 20_000**0.5 + 0.01 * case.truth[0]
    assert steps / 20_000 < (1 / 0.05 if returns == "stopped" else 90)


def test_the_race_is_won_by_the_best_and_gives_up():
    case = cases()["FrozenLake"]
    won = [race(case, seed, 0.95, 200_000, growth=1.5) for seed in range(5)]
    assert [each.best for each in won] == [0] * 5 and all(1000 < each.steps < 200_000 for each in won)
    assert race(case, 0, 0.95, 500).best is None


@pytest.mark.slow
def test_every_study_has_its_bars():
    few = {"FrozenLake": cases()["FrozenLake"]}
    parts = bench.differences(few, 2, (8000,)), bench.separate(few, 2, 8000), bench.best(few, 2, 6000), bench.others(few, 1, 6000)
    found = [study.found() for study in parts]
    rows = [row for study, one in zip(parts, found) for row in study.bars(one)]
    assert len(rows) == 7 and "12 intervals" in rows[0].note and "of 2" in rows[3].note
    titles = [str(shown.title) for study, one in zip(parts, found) for shown in study.tables(one)]
    for title, part in zip(
        titles, ("differences, 2 seeds", "two separate runs", "the best policy", "ties and thresholds"), strict=True
    ):
        assert part in title


def test_wrong_decisions_are_counted():
    case = cases()["FrozenLake"]
    rule = gvfx.decided(["careful", "loosest"], margin=0.3)
    found = bench.decisions(case, rule, range(2), "no difference above the margin")
    assert (found["wrong"], found["open"]) == (0, 0)
    assert bench.decisions(case, rule, range(2), ": loosest is the best, above careful")["wrong"] == 2
