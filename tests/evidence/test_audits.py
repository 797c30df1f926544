"""Scores of audits, and intervals from them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audit_reference import audit_score

from gvfx.evidence.audits import Scores, audited, differences_over_seeds, over_seeds, poisson_upper, quantile, rollout_score
from gvfx.running.auditing import planned


def random_world(rng, states=4, actions=2):
    """P [s, a, s'], c [s, a, gvf], pi [s, a] and discounts of two questions; in state 3 episodes end."""
    P = rng.dirichlet(np.ones(states), (states, actions))
    return P, rng.normal(size=(states, actions, 2)), rng.dirichlet(np.ones(actions), states), np.array([0.9, 0.6])


def true_value(P, c, pi, gamma, i):
    """V(0) of question i, by a linear solve; state 3 is terminal."""
    move = np.einsum("sa,sat->st", pi, P)
    move[:, 3] = 0.0
    return np.linalg.solve(np.eye(4) - gamma[i] * move, (pi * c[:, :, i]).sum(axis=1))[0]


def rollout(rng, P, c, pi, gamma, q):
    """A rollout from state 0 that goes on with the larger discount: the arguments of `rollout_score` for answers q."""
    s, states, taken, cumulants, discounts = 0, [0], [], [], []
    while True:
        a = rng.choice(2, p=pi[s])
        taken.append(q[s, a])
        cumulants.append(c[s, a])
        s = int(rng.choice(4, p=P[s, a]))
        states.append(s)
        discounts.append(gamma * (s != 3))
        if s == 3 or rng.random() >= gamma.max():
            break
    values = np.einsum("sai,sa->si", q, pi)[states]
    return values, np.array(taken), np.array(cumulants), np.array(discounts), np.full(len(taken), gamma.max())


def scores(start, gain, **more):
    """Scores of one question in one block; start and gain [rollout]."""
    n = len(gain)
    given = {
        "block": np.zeros(n, np.int64),
        "steps": np.ones(n, np.int64),
        "cut": np.zeros(n, bool),
        "pair": np.arange(n),
        "stop": np.full(n, 0.5),
        "planned": np.zeros(n, np.int64),
        "last": np.zeros((n, 1)),
        "start": np.reshape(start, (n, 1)),
        "gain": np.reshape(gain, (n, 1)),
        "squares": np.zeros((n, 1)),
        "implied": np.zeros((n, 1)),
        "implied_fourth": np.zeros((n, 1)),
        "resets": np.zeros(1, np.int64),
        "reset_mean": np.zeros((1, 1)),
        "reset_covariance": np.zeros((1, 1, 1)),
        "surprise": np.ones((1, 1)),
    }
    return Scores(**given | more)


def test_the_score_by_loops():
    rng = np.random.default_rng(0)
    world = random_world(rng)
    for _ in range(20):
        given = rollout(rng, *world, rng.normal(size=(4, 2, 2)))
        found = rollout_score(*given, implied=(given[1] ** 2, given[1] ** 4))
        score, squares, implied, fourth = audit_score(*given, implied=(given[1] ** 2, given[1] ** 4))
        np.testing.assert_allclose(found.start + found.gain, score)
        np.testing.assert_allclose(found.squares, squares)
        np.testing.assert_allclose(found.implied, implied)
        np.testing.assert_allclose(found.implied_fourth, fourth)


def test_wrong_answers_have_unbiased_scores():
    """Two discounts, answers drawn at random: the mean of 4,000 scores is the value within four standard errors, and that of
    the answers alone is not."""
    rng = np.random.default_rng(1)
    P, c, pi, gamma = random_world(rng)
    q = 5 + 3 * rng.normal(size=(4, 2, 2))
    start, gain = np.moveaxis([rollout_score(*rollout(rng, P, c, pi, gamma, q))[:2] for _ in range(4000)], 1, 0)
    both = start + gain
    for i in range(2):
        error = both[:, i].std() / np.sqrt(len(both))
        assert abs(both[:, i].mean() - true_value(P, c, pi, gamma, i)) < 4 * error
        assert abs(pi[0] @ q[0, :, i] - true_value(P, c, pi, gamma, i)) > 8 * error


def test_exact_answers_leave_the_chance_of_the_world_alone():
    """With the true Q and outcomes that are certain, every score is the value."""
    rng = np.random.default_rng(2)
    P, c, pi, gamma = random_world(rng)
    P = np.eye(4)[P.argmax(axis=2)]
    v = np.zeros((4, 2))
    for _ in range(500):
        q = c + gamma * (P @ np.where(np.arange(4)[:, None] == 3, 0.0, v))
        v = np.einsum("sai,sa->si", q, pi)
    both = np.array([np.add(*rollout_score(*rollout(rng, P, c, pi, gamma, q))[:2]) for _ in range(20)])
    np.testing.assert_allclose(both, np.broadcast_to(v[0], both.shape), atol=1e-9)


def test_one_block_by_hand():
    """A t interval of Y; further resets replace the mean of the starts by that of all."""
    start, gain = np.array([1.0, 2.0, 3.0, 6.0]), np.array([0.5, -0.5, 0.0, 1.0])
    found = audited(scores(start, gain))
    y = start + gain
    assert found.value[0] == pytest.approx(y.mean())
    assert found.error[0] == pytest.approx(y.std(ddof=1) / 2)
    assert found.freedom[0] == pytest.approx(3)
    assert found.rollouts[0] == 4
    more = scores(start, gain, resets=np.array([12]), reset_mean=np.array([[2.0]]), reset_covariance=np.array([[[4.0]]]))
    found = audited(more)
    assert found.value[0] == pytest.approx((start.sum() + 12 * 2.0) / 16 + gain.mean())
    assert found.error[0] ** 2 == pytest.approx((start / 4 + gain).var(ddof=1) / 4 + (12 / 16) ** 2 * 4.0 / 12)


def test_blocks_are_weighted_by_what_was_known_before_them():
    """Two blocks of two and three rollouts, surprises 4 and 1: weights 2 / 4 and 3 / 1."""
    two = scores(
        np.zeros(5),
        np.array([1.0, 3.0, 6.0, 7.0, 8.0]),
        block=np.array([0, 0, 1, 1, 1]),
        pair=np.array([0, 1, 0, 1, 2]),
        resets=np.zeros(2, np.int64),
        reset_mean=np.zeros((2, 1)),
        reset_covariance=np.zeros((2, 1, 1)),
        surprise=np.array([[4.0], [1.0]]),
    )
    found = audited(two)
    share = np.array([0.5, 3.0]) / 3.5
    assert found.value[0] == pytest.approx(share @ [2.0, 7.0])
    assert found.error[0] ** 2 == pytest.approx(share**2 @ [2.0 / 2, 1.0 / 3])


def stopped(n, seed):
    """The numbers v of n rollouts, and their steps if every one goes on with probability 0.9."""
    stop = np.array([rollout.stop for rollout in planned(np.array([n]), [seed])])
    return stop, np.ceil(np.log(stop) / np.log(0.9))


def test_answers_off_by_a_constant_cost_little():
    """A world without an end that pays 1, answered with 0: a score is the number of steps, whose chance strata take away."""
    stop, steps = stopped(100, 5)
    found = audited(scores(np.zeros(100), steps, stop=stop, planned=np.full(100, 100)))
    assert steps.std() > 8
    assert found.error[0] < 0.05 * steps.std() / np.sqrt(100)
    assert abs(found.value[0] - 10) < 4 * found.error[0]
    assert found.freedom[0] == 98
    part = audited(scores(np.zeros(100), steps, stop=stop, planned=np.full(100, 101)))  # one is missing
    assert part.error[0] == pytest.approx(steps.std(ddof=1) / 10) and part.value[0] == pytest.approx(steps.mean())


def test_stops_are_spread_evenly_and_leave_no_bias():
    """20 rollouts whose scores bend with their steps and have noise: every stop lies in its own stratum, 4,000 blocks have the
    true mean within four standard errors, and at least 92 % of their intervals hold it."""
    rng, values, hits, steps = np.random.default_rng(6), [], 0, np.arange(1, 2000)
    truth = (0.1 * steps**1.5 * 0.9 ** (steps - 1) * 0.1).sum()
    for seed in range(4000):
        stop, many = stopped(20, seed)
        found = audited(scores(np.zeros(20), 0.1 * many**1.5 + rng.normal(size=20), stop=stop, planned=np.full(20, 20)))
        values.append(found.value[0])
        hits += holds(found, truth)
    assert sorted(np.ceil(20 * stop).astype(int)) == [*range(1, 21)]
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(4000)
    assert 0.92 < hits / 4000 < 0.99


def test_policies_take_turns_with_the_same_stops():
    found = planned(np.array([3, 3]), [7])
    assert [(r.policy, r.number, r.of) for r in found] == [(p, k, 3) for k in range(3) for p in range(2)]
    assert [r.stop for r in found[::2]] == [r.stop for r in found[1::2]]


def test_a_single_rollout_says_nothing():
    found = audited(scores(np.zeros(1), np.ones(1)))
    assert np.isnan(found.value[0]) and np.isinf(found.error[0])


def rare(rng, rollouts=80, chance=0.01):
    """Scores where an event of 100 occurs in one of 100 rollouts of ten steps, after 5,000 steps."""
    errors = np.zeros(5000)
    errors[: rng.binomial(500, 0.01)] = 100.0
    gain = np.where(rng.random(rollouts) < chance, 100.0, 0.0)[:, None]
    more = {"steps": np.full(rollouts, 10), "squares": gain**2}
    for name, power in (("implied", 2), ("implied_fourth", 4)):
        more[name] = np.full((rollouts, 1), 10 * (errors**power).mean())
    return scores(np.zeros(rollouts), gain, **more)


def holds(found, truth):
    return abs(found.value[0] - truth) <= quantile(found.freedom, 0.95)[0] * found.error[0]


def test_coverage_where_a_rare_event_carries_the_value():
    """80 rollouts: 2,000 intervals cover at least 93 %, and those of scores alone far fewer (no event in 45 % of the runs)."""
    rng, hits, plain = np.random.default_rng(3), 0, 0
    for _ in range(2000):
        given = rare(rng)
        hits += holds(audited(given), 1.0)
        plain += holds(audited(given._replace(implied_fourth=np.zeros((80, 1)))), 1.0)
    assert hits / 2000 >= 0.93
    assert plain / 2000 < 0.7


def test_events_that_were_met_are_not_counted_twice():
    """Earlier data imply ten times the squares that 200 rollouts met, 50 events: the variance is at most what an upper limit of
    their number allows, 1.32 times their own; and nothing is added where 100 events are expected."""
    gain = np.where(np.arange(200) % 4 == 0, 1.0, 0.0)[:, None]
    given = scores(np.zeros(200), gain, squares=gain**2, implied=np.full((200, 1), 0.4), implied_fourth=np.full((200, 1), 0.4))
    alone = audited(given._replace(implied_fourth=np.zeros((200, 1)))).error[0]
    assert audited(given).error[0] ** 2 == pytest.approx(poisson_upper(50.0) / 200 / 200)
    assert poisson_upper(50.0) == pytest.approx(65.9, abs=0.1)
    assert alone**2 == pytest.approx(0.25 * 0.75 / 199)
    many = given._replace(implied=np.full((200, 1), 0.6), implied_fourth=np.full((200, 1), 0.6))
    assert audited(many).error[0] == alone


def paired(rng, pairs, both):
    """Scores of two policies with `pairs` rollouts each, the first `both` of them with the same noise."""
    noise = rng.normal(size=pairs)
    other = np.where(np.arange(pairs) < both, noise, rng.normal(size=pairs))
    none = np.full(pairs, np.nan)
    gain = np.concatenate([np.column_stack([5 + noise, none]), np.column_stack([none, 3 + other + 0.1 * rng.normal(size=pairs)])])
    zero, n = np.where(np.isnan(gain), np.nan, 0.0), 2 * pairs
    return Scores(
        block=np.zeros(n, np.int64),
        steps=np.ones(n, np.int64),
        cut=np.zeros(n, bool),
        pair=np.tile(np.arange(pairs), 2),
        stop=np.full(n, 0.5),
        planned=np.zeros(n, np.int64),
        last=zero,
        start=zero,
        gain=gain,
        squares=zero,
        implied=zero,
        implied_fourth=zero,
        resets=np.zeros(1, np.int64),
        reset_mean=np.zeros((1, 2)),
        reset_covariance=np.zeros((1, 2, 2)),
        surprise=np.ones((1, 2)),
    )


@pytest.mark.parametrize("both", [12, 6, 0])
def test_differences_are_covered(both):
    """Two policies of 12 rollouts, of which some share their noise: 95 % of 2,000 intervals of the difference hold, within 2 %,
    and shared noise makes them narrow."""
    rng, hits, width = np.random.default_rng(7), 0, []
    for _ in range(2000):
        found = audited(paired(rng, 12, both))
        error, freedom = found.differences[0, 1], found.differences_freedom[0, 1]
        hits += abs(found.value[0] - found.value[1] - 2) <= quantile(freedom, 0.95) * error
        width.append(error)
    assert hits / 2000 == pytest.approx(0.95, abs=0.02)
    assert np.mean(width) == pytest.approx(np.sqrt((2 * (12 - both) / 12 + 0.01) / 12), rel=0.1)


def test_differences_by_hand():
    """All pairs shared: the error of the mean of their differences; over seeds, that of the mean."""
    given = paired(np.random.default_rng(8), 6, 3)
    found = audited(given)
    apart = given.gain[:6, 0] - given.gain[6:, 1]
    assert found.differences[0, 1] == pytest.approx(apart.std(ddof=1) / np.sqrt(6))
    assert found.differences[0, 0] == found.error[0]
    each = np.stack([found.differences, found.differences_freedom], axis=-1)
    error, freedom = differences_over_seeds(np.stack([each, each]))
    assert error[0, 1] == pytest.approx(found.differences[0, 1] / np.sqrt(2)) and freedom[0, 1] == pytest.approx(10)


def test_coverage_of_ordinary_scores():
    """Three blocks of 4, 8 and 16 normal scores of falling spread, 2,000 runs: 95 % within three standard errors (1.5 %)."""
    rng, hits = np.random.default_rng(4), 0
    block, spread = np.repeat([0, 1, 2], [4, 8, 16]), np.array([4.0, 2.0, 1.0])
    for _ in range(2000):
        gain = 5.0 + spread[block] * rng.normal(size=28)
        none = {"resets": np.zeros(3, np.int64), "reset_mean": np.zeros((3, 1)), "reset_covariance": np.zeros((3, 1, 1))}
        hits += holds(audited(scores(np.zeros(28), gain, block=block, **none, surprise=spread[:, None] ** 2)), 5.0)
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_seeds_are_averaged():
    one, two = audited(scores(np.zeros(3), np.array([1.0, 2.0, 3.0]))), audited(scores(np.zeros(3), np.array([3.0, 4.0, 8.0])))
    value, error, _, rollouts, steps, cut = over_seeds(np.stack([one.columns, two.columns]))[0]
    assert (value, rollouts, steps, cut) == (3.5, 6, 6, 0)
    assert error == pytest.approx(np.hypot(one.error[0], two.error[0]) / 2)
