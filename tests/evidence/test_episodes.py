"""Episodes of the policies as evidence: unbiased for any answers, exact variances, and tests of what answers miss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from gvfx.evidence.episodes import (
    FEW,
    SUPPORT,
    Estimate,
    Scores,
    blended,
    depends_on_before,
    differences_over_seeds,
    estimate,
    missed,
    mixed,
    over_seeds,
    scores,
    surprises,
)
from gvfx.running.whole_episodes import Schedule, longest

STATES, ACTIONS, STEPS, GAMMA = 2, 2, 3, 0.9
P = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.4, 0.6], [0.9, 0.1]]])  # [state, action, next]
PAID = np.array([[1.0, -2.0], [0.5, 3.0]])  # [state, action]
POLICY = np.array([[0.6, 0.4], [0.1, 0.9]])
START = np.array([0.3, 0.7])


def paths() -> Iterator[tuple[float, list[int], list[int]]]:
    """Every path of STEPS steps: its probability, its states and its actions."""
    for states in itertools.product(range(STATES), repeat=STEPS + 1):
        for actions in itertools.product(range(ACTIONS), repeat=STEPS):
            chance = START[states[0]]
            for t, a in enumerate(actions):
                chance *= POLICY[states[t], a] * P[states[t], a, states[t + 1]]
            yield chance, list(states), list(actions)


def exact() -> tuple[np.ndarray, np.ndarray]:
    """Q [t, state, action] and V [t, state] of what is paid in STEPS steps."""
    q, v = np.zeros((STEPS, STATES, ACTIONS)), np.zeros((STEPS + 1, STATES))
    for t in reversed(range(STEPS)):
        q[t] = PAID + GAMMA * P @ v[t + 1]
        v[t] = (POLICY * q[t]).sum(axis=1)
    return q, v


def scored(states: list[int], actions: list[int], q: np.ndarray, terminates: bool = True) -> Scores:
    """The score of one path against answers q [t, state, action]."""
    v = np.array([(POLICY * own).sum(axis=1) for own in q] + [np.zeros(STATES) if terminates else (POLICY * q[-1]).sum(axis=1)])
    end = np.arange(STEPS) == STEPS - 1
    discount = np.where(end & terminates, 0.0, GAMMA)[:, None]
    paid = np.array([PAID[states[t], a] for t, a in enumerate(actions)])[:, None]
    errors = [discount[t, 0] * v[t + 1, states[t + 1]] - q[t, states[t], a] for t, a in enumerate(actions)]
    start, none = np.array([[v[0, states[0]]]]), np.zeros(1, np.int64)
    seen = np.array(states[:-1], float)[:, None]
    along = paid + np.array(errors)[:, None], paid, discount, seen
    return scores(*along, none, start, v[-1:, [states[-1]]], none, none, none, none)


@pytest.mark.parametrize("answers", ["none", "wrong", "exact"])
def test_the_score_is_unbiased_for_any_answers(answers):
    q, v = exact()
    given = {"none": 0 * q, "wrong": q + 1.0, "exact": q}[answers]
    each = [(chance, scored(s, a, given)) for chance, s, a in paths()]
    assert sum(chance * (own.start + own.gain)[0, 0] for chance, own in each) == pytest.approx(START @ v[0], rel=1e-12)
    agreeing = sum(chance * own.agreeing[0, 0] for chance, own in each)
    assert agreeing == pytest.approx(0.0, abs=1e-12) if answers == "exact" else agreeing > 0.1


def test_the_score_of_no_answers_is_the_return():
    own = scored([0, 1, 1, 0], [1, 0, 1], np.zeros((STEPS, STATES, ACTIONS)))
    assert own.start[0, 0] + own.gain[0, 0] == pytest.approx(-2.0 + GAMMA * 0.5 + GAMMA**2 * 3.0)
    assert own.length[0, 0] == pytest.approx(1 + GAMMA**2 + GAMMA**4) and not own.cut[0]
    assert own.paid[0, 0] == pytest.approx(own.gain[0, 0]) and own.left[0, 0] == 0


def test_a_cut_episode_leaves_the_rest_to_the_answer():
    q = np.random.default_rng(2).normal(size=(STEPS, STATES, ACTIONS))
    states, actions = [0, 1, 1, 0], [1, 0, 1]
    whole, cut = scored(states, actions, q), scored(states, actions, q, terminates=False)
    assert cut.cut[0] and not whole.cut[0] and cut.left[0, 0] == pytest.approx(GAMMA**STEPS)
    assert (cut.gain - whole.gain)[0, 0] == pytest.approx(GAMMA**STEPS * (POLICY[0] @ q[-1, 0]))


# --- the estimate ----------------------------------------------------------------------------------------------------


def drawn(gain: np.ndarray, start: np.ndarray | None = None) -> Scores:
    """Scores of two policies with a question each: gain [pair, policy]."""
    pairs, policies = gain.shape
    policy, pair = np.tile(np.arange(policies), pairs), np.repeat(np.arange(pairs), policies)
    own = np.full((len(policy), policies), np.nan)
    own[np.arange(len(policy)), policy] = gain.ravel()
    begun = np.zeros_like(own) if start is None else np.repeat(start, policies, axis=0)
    ones, none = np.where(np.isnan(own), np.nan, 1.0), np.zeros(len(policy), np.int64)
    lagged = np.zeros((*own.shape, 1))
    return Scores(pair, none, none + 3, none > 0, begun, own, 3 * ones, own**2, ones, none + 2, lagged, own, 0 * ones, begun)


def test_differences_have_the_variance_of_the_pairs():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=(9, 1)) + 0.1 * rng.normal(size=(9, 2))
    found = estimate(drawn(gain))
    assert np.allclose(found.value, gain.mean(axis=0))
    assert np.allclose(found.variance.diagonal(), gain.var(axis=0, ddof=1) / 9)
    assert found.variance[0, 1] == pytest.approx((gain[:, 0] - gain[:, 1]).var(ddof=1) / 9)
    assert (found.freedom == 8).all() and (found.episodes == 9).all() and (found.steps == 27).all()


def test_further_resets_share_the_starts():
    rng = np.random.default_rng(3)
    start, gain, more = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.normal(size=(1, 18, 2))
    found = estimate(drawn(gain, start), further=more)
    every = np.concatenate([start, more[0]])
    assert np.allclose(found.value, every.mean(axis=0) + gain.mean(axis=0))  # Eq. E2
    z = 0.25 * start + gain
    assert np.allclose(found.variance.diagonal(), z.var(axis=0, ddof=1) / 6 + 0.75**2 * more[0].var(axis=0, ddof=1) / 18)


def test_one_episode_has_a_value_without_an_error():
    found = estimate(drawn(np.array([[1.0, 2.0]])))
    assert np.allclose(found.value, [1.0, 2.0]) and np.isinf(found.error).all()


def test_rare_events_that_no_episode_met_widen():
    errors = np.zeros((1000, 2))
    errors[:5, 0] = 10.0  # one transition in 200
    quiet, surprise = drawn(np.full((8, 2), 0.01)), tuple(each[None] for each in surprises(errors))
    assert surprise[0][0, 0] == pytest.approx(0.5) and surprise[1][0, 0] == pytest.approx(100.0)
    found = estimate(quiet, surprise).variance.diagonal()
    assert found[0] == pytest.approx(0.5 * 24 / 64) and found[1] == pytest.approx(0.0, abs=1e-12)
    more = estimate(quiet._replace(length=100 * quiet.length), surprise).variance.diagonal()
    assert more[0] == pytest.approx(3.689 * 100 / 64, rel=1e-3)  # the upper limit of a Poisson mean if none was met
    met = quiet._replace(squares=np.where(np.isnan(quiet.gain), np.nan, 12.5), length=100 * quiet.length)
    assert estimate(met, surprise).variance[0, 0] == pytest.approx(5.572 * 100 / 64, rel=1e-3)  # if one was
    many = estimate(quiet._replace(length=FEW / 0.12 * quiet.length), surprise).variance.diagonal()
    assert many[0] == pytest.approx(0.0, abs=1e-12)


def alone(start, gain, fold=None) -> Scores:
    """Episodes of one question in folds; gain NaN where another policy was followed."""
    of = drawn(np.reshape(np.asarray(gain, float), (-1, 1)), np.reshape(np.asarray(start, float), (-1, 1)))
    return of if fold is None else of._replace(fold=np.asarray(fold))


NONE = np.nan


def test_other_episodes_give_the_starts_by_hand():
    """Three of five episodes: V(s_0) is the mean over all, the others' by the answers of every fold as it has scored episodes."""
    start, gain = np.array([1.0, 3.0, 6.0, 2.0, 4.0]), np.array([0.5, -0.5, 1.0, NONE, NONE])
    further = np.full((2, 5, 1), NONE)
    further[:, 3:, 0] = [[2.0, 4.0], [3.0, 6.0]]
    found = estimate(alone(start, gain, [0, 0, 1, 0, 1]), further=further)
    others = np.array([2 * 2 + 3, 2 * 4 + 6]) / 3
    assert found.value[0] == pytest.approx((start[:3].sum() + others.sum()) / 5 + gain[:3].mean())
    z = 0.6 * start[:3] + gain[:3] + 0.4 * np.array([3.0, 3.0, 4.5])
    apart = ((others - others.mean()) ** 2).sum() / 4 * 5 / 4
    assert found.variance[0, 0] == pytest.approx(z.var(ddof=1) / 3 + 0.4**2 * apart)
    assert found.episodes[0] == 3


@pytest.mark.parametrize("right", [True, False])
def test_coverage_with_starts_of_other_episodes(right):
    """2,000 logs of forty episodes, twelve of the policy: at least 93.5 % hold (95 % less three standard errors), whether the
    answers at the start are right or of the wrong sign, and narrower than by the twelve alone where they are right."""
    rng, hits, wide = np.random.default_rng(1), 0, []
    for _ in range(2000):
        begun, own = 2 * rng.normal(size=40), np.arange(40) < 12
        start = begun if right else -begun
        of = alone(start, np.where(own, 5 + begun - start + 0.5 * rng.normal(size=40), NONE))
        found = estimate(of, further=np.where(own, NONE, start)[None, :, None])
        hits += abs(found.value[0] - 5.0) <= found.halves()[0, 0]
        wide.append(found.error[0] / estimate(of).error[0])
    assert 0.935 <= hits / 2000 <= 0.98
    assert not right or np.median(wide) < 0.7


def test_coverage_where_a_rare_event_carries_the_value():
    """An event of 100 in one of 100 episodes, 80 episodes of the policy among 500 of ten steps: 2,000 intervals cover at least
    93 %, and those of scores alone far fewer."""
    rng, hits, plain = np.random.default_rng(3), 0, 0
    for _ in range(2000):
        met = np.where(rng.random(500) < 0.01, 100.0, 0.0)
        errors = np.zeros((5000, 1))
        errors[:500, 0] = met
        of = alone(np.zeros(500), np.where(np.arange(500) < 80, met, NONE))
        of = of._replace(length=np.where(np.isnan(of.gain), NONE, 10.0))
        for k, surprise in enumerate((tuple(each[None] for each in surprises(errors)), None)):
            found = estimate(of, surprise)
            inside = abs(found.value[0] - 1.0) <= found.halves()[0, 0]
            hits, plain = hits + (inside and k == 0), plain + (inside and k == 1)
    assert hits / 2000 >= 0.93
    assert plain / 2000 < 0.7


@pytest.mark.parametrize("both", [12, 6, 0])
def test_differences_are_covered(both):
    """Two policies of 12 episodes, of which some share their noise: 95 % of 2,000 intervals of the difference hold, within 2 %,
    and shared noise makes them narrow."""
    rng, hits, width = np.random.default_rng(7), 0, []
    for _ in range(2000):
        noise = rng.normal(size=12)
        other = np.where(np.arange(12) < both, noise, rng.normal(size=12)) + 0.1 * rng.normal(size=12)
        found = estimate(drawn(np.column_stack([5 + noise, 3 + other])))
        hits += abs(found.value[0] - found.value[1] - 2) <= found.halves()[0, 1]
        width.append(np.sqrt(found.variance[0, 1]))
    assert hits / 2000 == pytest.approx(0.95, abs=0.02)
    assert np.mean(width) == pytest.approx(np.sqrt((2 * (12 - both) / 12 + 0.01) / 12), rel=0.1)


def test_seeds_are_averaged():
    one, two = (estimate(drawn(np.array(gain)[:, None])) for gain in ([1.0, 2.0, 3.0], [3.0, 4.0, 8.0]))
    value, error, _, episodes, steps, cut = over_seeds(np.stack([one.arrays()["audit"], two.arrays()["audit"]]))[0]
    assert (value, episodes, steps, cut) == (3.5, 6, 18, 0)
    assert error == pytest.approx(np.hypot(one.error[0], two.error[0]) / 2)
    paired = estimate(drawn(np.random.default_rng(8).normal(size=(6, 2)))).arrays()["audit_differences"]
    error, freedom = differences_over_seeds(np.stack([paired, paired]))
    assert error[0, 1] == pytest.approx(paired[0, 1, 0] / np.sqrt(2)) and freedom[0, 1] == pytest.approx(10)


# --- model and episodes together -------------------------------------------------------------------------------------


def told(value: list[float], error: list[float]) -> Estimate:
    square = np.array(error) ** 2
    both = np.where(np.eye(len(square), dtype=bool), square, square[:, None] + square)
    many = np.full(len(square), 1000)
    return Estimate(np.array(value), both, np.full(both.shape, 1e9), many, many, many)


def test_a_model_that_agrees_makes_the_interval_narrower():
    found = told([1.0, 1.0], [0.1, 0.1])
    out = blended(found, np.array([1.05, 1.0]), np.full((2, 2), 0.01))
    alone, least = 0.196, SUPPORT * 0.196
    weight = 1 / (1 + SUPPORT**2)
    assert out.weight == pytest.approx([weight, weight], rel=1e-3)
    assert out.value == pytest.approx([1 + 0.05 * weight, 1.0], rel=1e-3)
    assert out.half.diagonal() == pytest.approx([weight * least + (1 - weight) * alone] * 2, rel=1e-3)


def test_a_difference_errs_by_no_more_than_both_values():
    out = blended(told([1.0, 1.0], [0.1, 0.5]), np.array([1.0, 1.0]), np.array([[0.5, 0.3], [0.3, 0.01]]))
    assert out.weight[0] < 0.5 < out.weight[1]
    assert max(out.half.diagonal()) < out.half[0, 1] <= out.half.diagonal().sum() * (1 + 1e-12)


def test_a_model_that_disagrees_hardly_counts():
    out = blended(told([1.0], [0.1]), np.array([3.0]), np.full((1, 1), 0.01))
    assert out.weight[0] < 0.01 and out.value[0] == pytest.approx(1.0, abs=0.01)
    assert 0.196 <= out.half[0, 0] < 0.25


def test_what_is_missing_is_left_to_the_other():
    unknown = Estimate(np.full(1, np.nan), np.full((1, 1), np.inf), np.ones((1, 1)), *np.zeros((3, 1)))
    alone = blended(unknown, np.array([2.0]), np.full((1, 1), 0.3))
    assert (alone.value[0], alone.half[0, 0]) == (2.0, 0.3)
    found = told([1.0, 1.0], [0.1, 0.1])
    for halves, trusted in ((np.full((2, 2), np.inf), True), (np.full((2, 2), 0.01), False)):
        out = blended(found, np.array([2.0, 2.0]), halves, trusted)
        assert np.allclose(out.value, 1.0) and np.allclose(out.half, found.halves())
    neither = blended(unknown, np.array([2.0]), np.full((1, 1), np.inf))
    assert neither.value[0] == 2.0 and np.isinf(neither.half[0, 0])


# --- does the observation determine what follows? ---------------------------------------------------------------------


def along(hidden: float, episodes: int = 60, steps: int = 20) -> Scores:
    """Episodes whose errors depend, by `hidden`, on where the episode was before."""
    rng = np.random.default_rng(4)
    seen = rng.normal(size=(episodes, steps, 2))
    errors = rng.normal(size=(episodes, steps))
    errors[:, 1:] += hidden * (seen[:, 1:, 0] - seen[:, :-1, 0])
    flat, first = errors.reshape(-1, 1), np.arange(episodes) * steps
    none, discount = np.zeros(episodes, np.int64), np.full((episodes * steps, 1), 0.9)
    pair = np.arange(episodes)
    return scores(flat, flat, discount, seen.reshape(-1, 2), first, *np.zeros((2, episodes, 1)), none, none[:1], pair, none)


def test_errors_that_depend_on_the_observation_before_are_found():
    assert depends_on_before(along(0.0)) > 0.05
    assert depends_on_before(along(0.3)) < 1e-6


def test_errors_that_agree_show_what_the_answers_miss():
    rng = np.random.default_rng(5)
    quiet = along(0.0)
    assert abs(missed(quiet)[0]) < 1.0
    off = 0.5 * rng.choice([-1.0, 1.0], size=60)  # answers off by a constant that differs between episodes
    errors = (off[:, None] + np.zeros((60, 20))).reshape(-1, 1)
    none, discount, first = np.zeros(60, np.int64), np.full((1200, 1), 0.9), np.arange(60) * 20
    seen, start = np.zeros((1200, 1)), np.zeros((60, 1))
    found = missed(scores(errors, errors, discount, seen, first, start, start, none, none[:1], first, none))
    assert found[0] > 5.0


# --- which policy acts next -------------------------------------------------------------------------------------------


def test_policies_get_equal_steps_and_then_what_they_need():
    schedule, taken = Schedule(2), np.zeros(2)
    for _ in range(60):
        p = schedule.next()
        schedule.begins(p)
        schedule.steps[p] += (10, 30)[p]
        taken[p] += 1
    assert taken.tolist() == [45, 15]
    member, many = np.array([0, 1]), np.full(2, 5)
    for variance, wanted in (([9.0, 1.0], [0.75, 0.25]), ([np.inf, 1.0], [0.75, 0.25])):
        found = Estimate(np.zeros(2), np.diag(np.array(variance) / 5), np.ones((2, 2)), many, 10 * many, 0 * many)
        schedule.spend(found, member)
        assert schedule.share == pytest.approx(wanted)
    schedule.spend(found._replace(variance=np.diag([1e6, 1.0])), member)
    assert schedule.share.min() >= 0.2


def test_every_second_step_is_left_to_another_behaviour_however_long_its_episodes_are():
    schedule, total, lengths, found = Schedule(2, 0.5), 0, {0: 40, 1: 20, -1: 3}, []
    while total < 2000:
        p = schedule.next(total)
        total += lengths[p]
        found.append(p)
        if p >= 0:
            schedule.steps[p] += lengths[p]
            schedule.begins(p)
    assert found[0] == 0 and found[1] == -1
    assert schedule.steps == pytest.approx([500, 500], abs=40)


def test_cuts_are_made_where_little_follows():
    assert longest(0.9) == 56 and longest(0.9, 0.01) == 44 and longest(0.0) == 1 and np.isinf(longest(1.0))


def test_pairs_that_all_went_alike_do_not_show_what_may_differ():
    gain = np.repeat(np.random.default_rng(6).normal(size=(20, 1)), 2, axis=1)
    of = drawn(gain)
    found = mixed(of, np.ones((1, 2), bool))
    assert found.variance[0, 1] == pytest.approx(3.69 / 20 * found.variance.diagonal().sum())
    once = of._replace(paid=of.paid + np.eye(40)[:, :1] * 0.5)  # one pair differs: its spread says how much
    assert mixed(once, np.ones((1, 2), bool)).variance[0, 1] < 1e-12
