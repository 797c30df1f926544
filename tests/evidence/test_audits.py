"""Scores of audits, and intervals from them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.reference import audit_score

from gvfx.evidence.audits import Scores, audited, over_seeds, quantile, rollout_score, surprises


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
        "start": np.reshape(start, (n, 1)),
        "gain": np.reshape(gain, (n, 1)),
        "control": np.zeros((n, 1)),
        "resets": np.zeros(1, np.int64),
        "reset_mean": np.zeros((1, 1)),
        "reset_variance": np.zeros((1, 1)),
        "surprise": np.ones((1, 1)),
        "common": np.ones((1, 1)) * 1e6,
    }
    return Scores(**given | more)


def test_the_score_by_loops():
    rng = np.random.default_rng(0)
    world = random_world(rng)
    for _ in range(20):
        given = rollout(rng, *world, rng.normal(size=(4, 2, 2)))
        start, gain, _ = rollout_score(*given)
        np.testing.assert_allclose(start + gain, audit_score(*given))


def test_wrong_answers_have_unbiased_scores():
    """Two discounts, answers drawn at random: the mean of 4,000 scores is the value within four standard errors, and that of
    the answers alone is not."""
    rng = np.random.default_rng(1)
    P, c, pi, gamma = random_world(rng)
    q = 5 + 3 * rng.normal(size=(4, 2, 2))
    start, gain, control = np.moveaxis([rollout_score(*rollout(rng, P, c, pi, gamma, q)) for _ in range(4000)], 1, 0)
    both = start + gain
    for i in range(2):
        assert abs(control[:, i].mean()) < 4 * control[:, i].std() / np.sqrt(len(control))
        assert control[:, i].std() > 0.1
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
    more = scores(start, gain, resets=np.array([12]), reset_mean=np.array([[2.0]]), reset_variance=np.array([[4.0]]))
    found = audited(more)
    assert found.value[0] == pytest.approx((start.sum() + 12 * 2.0) / 16 + gain.mean())
    assert found.error[0] ** 2 == pytest.approx((start / 4 + gain).var(ddof=1) / 4 + (12 / 16) ** 2 * 4.0 / 12)


def test_blocks_are_weighted_by_what_was_known_before_them():
    """Two blocks of two and three rollouts, surprises 4 and 1: weights 2 / 4 and 3 / 1."""
    two = scores(
        np.zeros(5),
        np.array([1.0, 3.0, 6.0, 7.0, 8.0]),
        block=np.array([0, 0, 1, 1, 1]),
        resets=np.zeros(2, np.int64),
        reset_mean=np.zeros((2, 1)),
        reset_variance=np.zeros((2, 1)),
        surprise=np.array([[4.0], [1.0]]),
        common=np.full((2, 1), 1e6),
    )
    found = audited(two)
    share = np.array([0.5, 3.0]) / 3.5
    assert found.value[0] == pytest.approx(share @ [2.0, 7.0])
    assert found.error[0] ** 2 == pytest.approx(share**2 @ [2.0 / 2, 1.0 / 3])


def test_answers_off_by_a_constant_cost_nothing():
    """A world without an end that pays 1, answered with 0: a score is the number of steps, and with the chance of stopping
    subtracted every one of them is 1 / (1 - 0.9)."""
    rng, rows = np.random.default_rng(5), []
    for _ in range(20):
        n = int(rng.geometric(0.1))
        zero = np.zeros((n + 1, 1))
        rows.append(rollout_score(zero, zero[1:], zero[1:] + 1, zero[1:] + 0.9, np.full(n, 0.9)))
    start, gain, control = np.moveaxis(rows, 1, 0)
    found = audited(scores(start, gain, control=control))
    assert gain.std() > 3
    assert (found.value[0], found.error[0]) == (pytest.approx(10.0), pytest.approx(0.0, abs=1e-6))
    assert found.freedom[0] == 18


def test_a_single_rollout_says_nothing():
    found = audited(scores(np.zeros(1), np.ones(1)))
    assert np.isnan(found.value[0]) and np.isinf(found.error[0])


def test_coverage_where_a_rare_event_carries_the_value():
    """An event of 100 in one of 100 rollouts, 80 rollouts of ten steps after 5,000 steps: 2,000 intervals cover at least 93 %,
    and those of scores alone far fewer (zero events in 45 % of the runs)."""
    rng, hits, plain, truth = np.random.default_rng(3), 0, 0, 1.0
    for _ in range(2000):
        events = rng.binomial(500, 0.01)
        errors = np.zeros((5000, 1))
        errors[:events] = 100.0
        surprise, common = surprises(errors)
        gain = np.where(rng.random(80) < 0.01, 100.0, 0.0)
        given = scores(np.zeros(80), gain, steps=np.full(80, 10), surprise=surprise[None], common=common[None])
        for k, each in enumerate((given, given._replace(common=np.full((1, 1), 1e6)))):
            found = audited(each)
            inside = abs(found.value[0] - truth) <= quantile(found.freedom, 0.95)[0] * found.error[0]
            hits, plain = hits + (inside and k == 0), plain + (inside and k == 1)
    assert hits / 2000 >= 0.93
    assert plain / 2000 < 0.7


def test_coverage_of_ordinary_scores():
    """Three blocks of 4, 8 and 16 normal scores of falling spread, 2,000 runs: 95 % within three standard errors (1.5 %)."""
    rng, hits = np.random.default_rng(4), 0
    block, spread = np.repeat([0, 1, 2], [4, 8, 16]), np.array([4.0, 2.0, 1.0])
    for _ in range(2000):
        gain = 5.0 + spread[block] * rng.normal(size=28)
        none = {"resets": np.zeros(3, np.int64), "reset_mean": np.zeros((3, 1)), "reset_variance": np.zeros((3, 1))}
        known = {"surprise": spread[:, None] ** 2, "common": np.full((3, 1), 1e6)}
        found = audited(scores(np.zeros(28), gain, block=block, **none, **known))
        hits += abs(found.value[0] - 5.0) <= quantile(found.freedom, 0.95)[0] * found.error[0]
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)


def test_seeds_are_averaged():
    one, two = audited(scores(np.zeros(3), np.array([1.0, 2.0, 3.0]))), audited(scores(np.zeros(3), np.array([3.0, 4.0, 8.0])))
    value, error, _, rollouts, steps, cut = over_seeds(np.stack([one.columns, two.columns]))[0]
    assert (value, rollouts, steps, cut) == (3.5, 6, 6, 0)
    assert error == pytest.approx(np.hypot(one.error[0], two.error[0]) / 2)
