"""The rule that ends a run when it is decided which policy is better."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import gvfx
from gvfx.evidence.decisions import Decided, Decision, Joint, quantile
from gvfx.questions.gvf import Contest

ABC = Contest("reward", (0, 1, 2), ("a", "b", "c"))


def joint(values, error=0.1, stake=0.0, unseen=(), freedom=0.0):
    """Independent values with equal errors; unseen: those that may rest on what was never seen."""
    size = len(values)
    errors = np.full((size, size), error * 2**0.5)
    np.fill_diagonal(errors, error)
    is_open = np.isin(np.arange(size), unseen)
    return Joint(np.array(values, float), errors, is_open, is_open, np.full(size, stake), freedom)


def rule(contests=(ABC,), **options):
    return Decision(Decided(**options), contests)


def test_the_best_is_decided_when_all_others_are_surely_worse():
    """Two one-sided comparisons at the first look: each may be wrong with 0.05 / 2 / 2."""
    z = quantile(0.0125) * 0.1 * 2**0.5
    for gap, decided in ((1.01, True), (0.99, False)):
        bound, counts = rule().bound(joint([1, 1 - gap * z, 0]), 0)
        assert (bound < 0) == decided and counts and bound == pytest.approx(z - gap * z)
    assert rule().bound(joint([1, 1 - 1.01 * z, 0]), 1)[0] > 0  # a second look is stricter
    assert rule(confidence=0.99).bound(joint([1, 1 - 1.01 * z, 0]), 0)[0] > 0
    pair = Contest("reward", (0, 2), ("a", "c"))
    assert rule((pair,)).bound(joint([1, 5, 1 - z]), 0)[0] < 0  # one comparison; question 1 is not asked about
    assert rule((ABC, pair)).bound(joint([1, 1 - 1.01 * z, 0]), 0)[0] > 0  # three in all
    t = quantile(0.0125, 4) * 0.1 * 2**0.5
    assert rule().bound(joint([1, 0.5, 0], freedom=4), 0)[0] == pytest.approx(t - 0.5)


def test_every_difference_has_its_own_freedom():
    values, free = joint([1, 0.5, 0.0]), np.full((3, 3), 0.0)
    free[0, 1] = free[1, 0] = 3
    mixed = dataclasses.replace(values, freedom=free)
    bounds = [-0.5 + quantile(0.0125, 3) * 0.1 * 2**0.5, -1 + quantile(0.0125) * 0.1 * 2**0.5]
    assert rule().bound(mixed, 0)[0] == pytest.approx(max(bounds)) and bounds[0] > bounds[1]


def test_outcomes_never_shown_keep_it_open():
    """They are asked about only where everything else is decided."""
    sure, asked = joint([5, 0, 0]), []
    later = dataclasses.replace(sure, unshown=lambda: asked.append(1) or np.full(3, 4.9))
    assert rule().bound(later, 0)[0] > 0 and rule().verdicts(later, 0)[0].open == ("b", "c") and len(asked) == 1
    assert rule().bound(dataclasses.replace(joint([5, 5, 0]), unshown=lambda: 1 / 0), 0)[0] > 0


def test_lower_is_better_is_the_rule_for_minus_the_values():
    sign, lowest = joint([-2, 0, -1]), rule(lower_is_better=True)
    for values in ([2, 0, 1], [2, 0, 0.1], [1, 1, 1]):
        costs, gains = joint(values), joint([-v for v in values])
        assert lowest.bound(costs, 1) == rule().bound(gains, 1)
        np.testing.assert_array_equal(lowest.weights(costs), rule().weights(gains))
        (low,), (high,) = lowest.verdicts(costs, 0), rule().verdicts(gains, 0)
        assert (low.best, low.beaten, low.open) == (high.best, high.beaten, high.open)
    assert str(lowest.verdicts(joint([2, 0, 1]), 0)[0]) == "reward: b is the best, below a and c"
    assert str(rule().verdicts(sign, 0)[0]) == "reward: b is the best, above a and c"


def test_runs_about_costs_and_about_their_negatives_end_together():
    world = gvfx.gridworld(4, goals={"fall": (0, 3), "end": (3, 3)})

    def run(paid, **options):
        policies = {"left": [0.7, 0.1, 0.1, 0.1], "right": [0.1, 0.7, 0.1, 0.1]}
        asked = [gvfx.GVF(row, gvfx.Constant(paid, at="fall"), 0.9, name=name) for name, row in policies.items()]
        return gvfx.evaluate(world, asked, steps=20_000, until=gvfx.decided(**options))

    costs, gains = run(1.0, lower_is_better=True), run(-1.0)
    assert costs.stopped == gains.stopped and costs.stopped[0] < 20_000
    assert costs.details.experiment["decided"][0][0].replace("below", "above") == gains.details.experiment["decided"][0][0]


def test_words():
    said = {
        "reward: a is the best, above b and c": (rule(), [2, 0, 1]),
        "reward: not decided; a leads, and c may still be better": (rule(), [2, 0, 1.9]),
        "reward: no difference above the margin of 1 between b, a and c": (rule(margin=1.0), [2, 2.1, 1.9]),
        "reward: b is the best, above a, with no difference above the margin of 0.6 in favour of c": (
            rule(margin=0.6),
            [1, 2.1, 1.9],
        ),
        "reward: a is above 1.5, b is below 1.5, c is not decided against 1.5": (rule(threshold=1.5), [2, 1, 1.49]),
        "reward: a and b are above 1.5, c is within 0.4 of 1.5": (rule(threshold=1.5, margin=0.4), [2, 3, 1.49]),
    }
    for sentence, (decision, values) in said.items():
        (verdict,) = decision.verdicts(joint(values), 0)
        assert str(verdict) == sentence
        assert bool(verdict.open) == (decision.bound(joint(values), 0)[0] >= 0)


def test_what_was_never_seen_keeps_it_open():
    values = [5, 0, 0]
    assert rule().bound(joint(values), 0)[0] < 0
    assert rule().bound(joint(values, unseen=[2]), 0) == (np.inf, False)
    assert rule().bound(joint(values, unseen=[0]), 0) == (np.inf, False)
    assert rule(threshold=1.0).bound(joint(values, unseen=[1]), 0) == (np.inf, False)
    assert rule().bound(joint(values, stake=4.9), 0)[0] > 0 and rule().bound(joint(values, stake=4.0), 0)[0] < 0


def test_weights_are_those_of_what_is_still_open():
    np.testing.assert_array_equal(rule().weights(joint([2, 1.9, 0])), [1, 1, 0])
    np.testing.assert_array_equal(rule().weights(joint([2, 1.9, 0], unseen=[2])), [1, 1, 1])
    np.testing.assert_array_equal(rule().weights(joint([2, 0.5, 0])), [1, 1, 0])  # nothing is open: the closest rival
    np.testing.assert_array_equal(rule(margin=0.1).weights(joint([2, 1.9, 1.8])), [1, 1, 1])
    np.testing.assert_array_equal(rule(threshold=1.9).weights(joint([2, 1.9, 0])), [1, 1, 0])
    other = Contest("steps", (3, 4), ("a", "b"))
    np.testing.assert_array_equal(rule((ABC, other)).weights(joint([2, 1, 0, 7, 7])), [0, 0, 0, 1, 1])


@pytest.mark.parametrize("margin", [0.0, pytest.param(0.05, marks=pytest.mark.full)])
def test_decisions_are_seldom_wrong_under_repeated_looks(margin):
    """600 sequences of 30 looks at means of growing samples, the best by 0.1: at most 5 % wrong, and three standard errors.

    Without the correction for looks many more are.
    """
    rng = np.random.default_rng(1)
    sizes = np.unique((20 * 1.15 ** np.arange(30)).astype(int))
    sums = rng.normal([0.1, 0.0, 0.0], 1.0, (600, sizes[-1], 3)).cumsum(axis=1)[:, sizes - 1]
    wrong = naive = 0
    for means in sums / sizes[:, None]:
        for look, (size, mean) in enumerate(zip(sizes, means, strict=True)):
            now = joint(mean, size**-0.5)
            if rule(margin=margin).bound(now, look)[0] < 0:
                (verdict,) = rule(margin=margin).verdicts(now, look)
                wrong += verdict.best != ("a",)
                break
        naive += any(
            rule(margin=margin).bound(joint(mean, size**-0.5), 0)[0] < 0 and mean.argmax() > 0
            for size, mean in zip(sizes, means, strict=True)
        )
    assert wrong / 600 < 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5
    assert naive > 2 * wrong


def test_bad_input():
    questions = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=f"p{k}") for k, p in enumerate((0.1, 0.5, 0.9))]
    for options, said in (
        ({"best": ["p0"]}, "^best: .'p0'. is one policy, which is always the best"),
        ({"best": ["p0", "q"]}, "^best: 'q' is unknown; choose from p0, p1, p2"),
        ({"best": "p0"}, "^best: 'p0' does not fit; give a list"),
        ({"signal": "height"}, "^signal: 'height' is unknown; choose from reward"),
        ({"margin": -1.0}, "^margin: -1.0 is not a difference"),
        ({"confidence": 95}, "^confidence: 95 lies outside"),
        ({"threshold": np.inf}, "^threshold: inf is not a value"),
    ):
        with pytest.raises(gvfx.InputError, match=said):
            gvfx.decided(**options).on(questions)
    with pytest.raises(gvfx.InputError, match="^compare: no two questions"):
        gvfx.decided().on(questions[:1])
    assert gvfx.decided(threshold=1.0).on(questions[:1]).comparisons == 1
    assert gvfx.decided(["p0", "p2"]).on(questions).contests[0].members == (0, 2)


# --- runs --------------------------------------------------------------------------------------------------------------


def bandit(*means, sd=1.0):
    """One state and one step; every policy has an arm of its own."""
    P = np.zeros((2, len(means), 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, True])
    paid = gvfx.table_cumulant([means, [0] * len(means)], [[sd] * len(means), [0] * len(means)])
    return world, [gvfx.GVF(row, paid, 0.9, name=name) for name, row in zip("abcd", np.eye(len(means)), strict=False)]


def decide(world, questions, until, **options):
    options = {"steps": 20_000, "evaluate_every": 20_000} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gvfx.evaluate(world, questions, until=until, **options)


@pytest.mark.slow
def test_runs_end_when_the_best_is_sure():
    """40 runs: at most 5 % may be wrong, and 6 of 40 would be three standard errors more; all are decided, most soon."""
    result = decide(*bandit(1.0, 0.7, 0.0), gvfx.decided(), seeds=40)
    said = [each[0] for each in result.details.experiment["decided"]]
    assert result.reached.all() and sum("a is the best" not in each for each in said) < 6
    assert np.median(result.stopped) < 3000
    assert "until: decided in 40 of 40 runs" in result.summary() and result.details.experiment["where"] == "start"
    beaten = result.visits[:, 0].astype(float)
    assert np.median(beaten[:, 2] / beaten[:, 1]) < 0.7  # an arm that is out of the race is not pulled on


@pytest.mark.full
def test_ties_end_with_a_margin_only():
    tie = bandit(1.0, 1.0)
    assert not decide(*tie, gvfx.decided(), steps=3000).reached.any()
    result = decide(*tie, gvfx.decided(margin=0.3), seeds=10)
    said = [each[0] for each in result.details.experiment["decided"]]
    assert result.reached.all() and sum("no difference above the margin of 0.3" in each for each in said) >= 8
    with pytest.warns(UserWarning, match="^until: 1 of 1 runs ended before a decision .*; give more steps, or a margin"):
        gvfx.evaluate(*tie, until=gvfx.decided(), steps=500)


def test_thresholds():
    result = decide(*bandit(1.0, 0.0), gvfx.decided(threshold=0.5), seeds=4)
    assert result.details.experiment["decided"] == [["tablecumulant: a is above 0.5, b is below 0.5"]] * 4
    alone = decide(*(part if k == 0 else part[:1] for k, part in enumerate(bandit(1.0, 0.0))), gvfx.decided(threshold=0.5))
    assert alone.details.experiment["decided"][0][0].endswith("a is above 0.5") and "until: " in alone.summary()


def test_linear_features_decide_or_say_why_not():
    """CartPole: a policy that leans against the fall lives longer than chance, beyond doubt; a tie stays open."""

    def leaning(share):
        return lambda observation: [1 - share, share] if observation[2] > 0 else [share, 1 - share]

    asked = {"leaning": leaning(0.95), "chance": leaning(0.5), "also chance": leaning(0.5001)}
    questions = [gvfx.GVF(pi, gvfx.Reward(), 0.95, name=name) for name, pi in asked.items()]
    options = {"learner": gvfx.LinearCertaintyEquivalence(), "steps": 4000, "evaluate_every": 4000}
    easy = decide("CartPole-v1", questions[:2], gvfx.decided(), **options)
    assert easy.reached.all() and easy.stopped[0] < 4000
    assert easy.details.experiment["decided"] == [["reward: leaning is the best, above chance"]]
    with pytest.warns(UserWarning, match="^until: 1 of 1 runs ended before a decision"):
        hard = gvfx.evaluate("CartPole-v1", questions[1:], until=gvfx.decided(), **options | {"steps": 600})
    assert not hard.reached.any() and "not decided" in hard.details.experiment["decided"][0][0]


def test_a_rare_reward_keeps_it_open():
    """Nothing was ever paid: no decision, although all differences are exactly 0."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1], P[0, 1] = 1, [0.0, 0.9999, 0.0001]
    P[1:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0, 0], horizon=5)
    door = gvfx.Constant(1e6, at=2)
    questions = [gvfx.GVF(row, door, 0.9, name=name) for name, row in (("sure", [1, 0]), ("rare", [0, 1]))]
    result = decide(world, questions, gvfx.decided(margin=1.0), steps=300)
    assert not result.reached.any() and np.isinf(result.details.bounds).all()


def test_a_decision_resumes_from_its_checkpoint(tmp_path):
    world, questions = bandit(1.0, 0.8, 0.0)
    whole = decide(world, questions, gvfx.decided())
    kept = decide(world, questions, gvfx.decided(), checkpoint=tmp_path)
    again = decide(world, questions, gvfx.decided(), checkpoint=tmp_path)
    for each in (kept, again):
        np.testing.assert_array_equal(each.values, whole.values)
        assert each.details.experiment["decided"] == whole.details.experiment["decided"] and each.stopped == whole.stopped
    with pytest.raises(gvfx.StoreError, match="another experiment"):
        decide(world, questions, gvfx.decided(margin=0.1), checkpoint=tmp_path)


def test_where_and_learners_are_checked():
    world, questions = bandit(1.0, 0.8)
    with pytest.raises(gvfx.InputError, match="^where: decided"):
        decide(world, questions, gvfx.decided(), where=[0])
    with pytest.raises(gvfx.InputError, match="^until: the error of this learner"):
        decide(world, questions, gvfx.decided(), learner=gvfx.ExpectedSarsa(), behaviour=gvfx.Uniform())
    own = dataclasses.replace(questions[0], policy=gvfx.own_greedy(), name="own")
    with pytest.raises(gvfx.InputError, match="^until: .* policies found during the run"):
        decide(world, [*questions, own], gvfx.decided())
