"""Start values from recorded episodes of a policy, with the answers of their folds."""

from __future__ import annotations

import numpy as np
import pytest

from gvfx.evidence.audits import Episodes, cross_fitted, quantile, surprises


def episodes(start, gain, fold=None, **more):
    """Episodes of one question; start and gain [episode], NaN where another policy was followed."""
    n = len(gain)
    given = {
        "fold": np.zeros(n, np.int64) if fold is None else np.asarray(fold),
        "steps": np.full(n, 3),
        "cut": np.zeros(n, bool),
        "start": np.reshape(np.asarray(start, float), (n, 1)),
        "gain": np.reshape(np.asarray(gain, float), (n, 1)),
        "length": np.ones((n, 1)),
        "level": np.full((1 + int(np.max(0 if fold is None else fold)), 1), np.mean(start)),
        "surprise": np.zeros(1),
        "common": np.full(1, 1e6),
    }
    return Episodes(**given | more)


NONE = np.nan


def test_episodes_of_the_policy_alone_have_a_t_interval():
    """Two folds: all scores are one sample."""
    start, gain = np.array([1.0, 2.0, 3.0, 6.0]), np.array([0.5, -0.5, 0.0, 1.0])
    found, y = cross_fitted(episodes(start, gain, [0, 0, 1, 1], cut=np.array([True, False, False, False]))), start + gain
    assert found.value[0] == pytest.approx(y.mean())
    assert found.error[0] == pytest.approx(y.std(ddof=1) / 2)
    assert (found.freedom[0], found.rollouts[0], found.steps[0], found.cut[0]) == (3, 4, 12, 1)


def test_other_episodes_give_the_starts_by_hand():
    """Three of five episodes: the mean of V(s_0) is that over all, in each fold, weighted by the fold's scored episodes."""
    start, gain = np.array([1.0, 3.0, 6.0, 2.0, 4.0]), np.array([0.5, -0.5, 1.0, NONE, NONE])
    found = cross_fitted(episodes(start, gain, [0, 0, 1, 0, 1]))
    folds = [(1 + 3 + 2) / 3 + 0.0, (6 + 4) / 2 + 1.0]
    assert found.value[0] == pytest.approx((2 * folds[0] + folds[1]) / 3)
    assert found.rollouts[0] == 3
    away = np.array([1 / 3, 1 / 3, 1 / 2]) * (start[:3] - 3.2)  # the share of other episodes, and V(s_0) from its mean
    z = np.array([1.5, 2.5, 7.0]) - away
    others = (2 / 3 / 3) ** 2 + (1 / 3 / 2) ** 2  # squares of the weights of the other starts
    spread = ((start - np.array([2.0, 2.0, 5.0, 2.0, 5.0])) ** 2).sum() / 3
    assert found.error[0] ** 2 == pytest.approx(z.var(ddof=1) / 3 + others * spread)


def test_one_episode_says_nothing():
    found = cross_fitted(episodes([1.0, 2.0], [1.0, NONE]))
    assert np.isnan(found.value[0]) and np.isinf(found.error[0]) and found.rollouts[0] == 1


def drawn(rng, right):
    """Forty episodes, twelve of the policy, in four folds; the value is 5.  right: whether answers know how starts differ."""
    start, own = 2 * rng.normal(size=40), np.arange(40) < 12
    answered = start if right else -start
    gain = np.where(own, 5 + start - answered + 0.5 * rng.normal(size=40), NONE)
    return episodes(answered, gain, rng.permutation(np.arange(40) % 4))


@pytest.mark.parametrize("right", [True, False])
def test_coverage_with_starts_of_all_episodes(right):
    """2,000 logs: 95 % within three standard errors (1.5 %), and narrower than by the scored episodes alone, whether the answers
    at the start are right or of the wrong sign."""
    rng, hits, error, alone = np.random.default_rng(1), 0, [], []
    for _ in range(2000):
        given = drawn(rng, right)
        found = cross_fitted(given)
        hits += abs(found.value[0] - 5.0) <= quantile(found.freedom, 0.95)[0] * found.error[0]
        error.append(found.error[0])
        alone.append(cross_fitted(Episodes(*(part[:12] for part in given[:6]), *given[6:])).error[0])
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)
    assert np.median(error) < 0.7 * np.median(alone)


def test_starts_that_never_differ_leave_scores_as_they_are():
    """Rounding of equal starts is not regressed on."""
    start, gain = np.full(30, 0.1), np.where(np.arange(30) < 10, np.arange(30.0) % 7, NONE)
    found, y = cross_fitted(episodes(start, gain, np.arange(30) % 3)), (0.1 + np.arange(10.0) % 7)
    assert found.value[0] == pytest.approx(y.mean())
    assert found.error[0] == pytest.approx(y.std(ddof=1) / np.sqrt(10))


def test_coverage_where_a_rare_event_carries_the_value():
    """An event of 100 in one of 100 episodes, 80 episodes of the policy in a log of 500 episodes of ten steps: 2,000 intervals
    cover at least 93 %, and those of scores alone far fewer."""
    rng, hits, plain = np.random.default_rng(3), 0, 0
    for _ in range(2000):
        met = np.where(rng.random(500) < 0.01, 100.0, 0.0)
        errors = np.zeros((5000, 1))
        errors[:500, 0] = met
        surprise, common = surprises(errors)
        gain = np.where(np.arange(500) < 80, met, NONE)
        given = episodes(
            np.zeros(500), gain, np.arange(500) % 5, length=np.full((500, 1), 10.0), surprise=surprise, common=common
        )
        for k, each in enumerate((given, given._replace(common=np.full(1, 1e6)))):
            found = cross_fitted(each)
            inside = abs(found.value[0] - 1.0) <= quantile(found.freedom, 0.95)[0] * found.error[0]
            hits, plain = hits + (inside and k == 0), plain + (inside and k == 1)
    assert hits / 2000 >= 0.93
    assert plain / 2000 < 0.7
