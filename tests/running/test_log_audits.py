"""Audits of logs in which some episodes followed a target policy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from helpers.audit_reference import audit_score
from helpers.recording import Push, recorded

import gvfx
from benchmarks.coverage import log_cases, log_intervals, log_of
from gvfx.running.log_table import Signals
from gvfx.running.logs import as_log, audited_log, folds
from gvfx.running.starts import values_at_start

GAMMA = 0.9
PI = np.array([0.3, 0.7])


def small(episodes=14, seed=0, on=lambda j: True):
    """A log of four states in a row; action 1 goes right, where episodes end."""
    rng, rows = np.random.default_rng(seed), []
    for j in range(episodes):
        s, ends = int(rng.integers(3)), False
        while not ends:
            a = int(rng.random() < (0.7 if on(j) else 0.5))
            after = max(0, s + 2 * a - 1)
            ends = after == 3
            reward, name = float(rng.normal() + s), "right" if on(j) else None
            row = {"observation": s, "action": a, "next_observation": after, "terminated": ends, "reward": reward}
            rows.append({**row, "policy": name})
            s = after
    return {name: [row[name] for row in rows] for name in rows[0]} | {"states": 4, "actions": 2}


def asked(gamma=GAMMA):
    return [gvfx.GVF(PI, gvfx.Reward(), gamma, name="right"), gvfx.GVF([0.5, 0.5], gvfx.Reward(), gamma, name="both")]


def plain_scores(log, fold):
    """Every episode's score by answers to the other folds: sweeps and loops alone."""
    s, a, after, ends, c = (np.array(log[name]) for name in tuple(log)[:5])
    episode = np.append(0, np.cumsum(ends)[:-1])
    out = []
    for j in range(len(fold)):
        kept = [t for t in range(len(s)) if fold[episode[t]] != fold[j]]
        v, q = np.zeros(4), np.zeros((4, 2))
        for _ in range(600):
            total, n = np.zeros((2, 4, 2))
            for t in kept:
                total[s[t], a[t]] += c[t] + GAMMA * (not ends[t]) * v[after[t]]
                n[s[t], a[t]] += 1
            assert (n[:3] > 0).all()
            q = total / np.maximum(n, 1)
            v = q @ PI
        own = np.flatnonzero(episode == j)
        out.append(audit_score(v[[s[own[0]], *after[own]]], q[s[own], a[own]], c[own], GAMMA * ~ends[own]))
    return np.array(out)


def test_scores_by_answers_without_the_fold():
    """All episodes follow the policy: the audit is the t interval of the plain scores."""
    log = small()
    check = gvfx.evaluate_log(log, asked()).audit()["right"]
    y = plain_scores(log, folds(np.tile([True, False], (14, 1))))
    assert check.value == pytest.approx(y.mean(), abs=1e-8)
    assert check.half == pytest.approx(2.1604 * y.std(ddof=1) / np.sqrt(14), rel=1e-3)
    assert (check.rollouts, check.steps, check.cut) == (14, len(log["action"]), 0)


def test_every_episode_is_left_out_of_the_answers_that_score_it():
    """Each fold is a set of whole episodes, every episode is in one, and the answers of a fold are read there alone."""
    log = as_log(small(on=lambda j: j % 3 == 0))
    begins = np.append(True, log.terminated[:-1])
    episode, masks, read = np.cumsum(begins) - 1, [], []

    def without(rows):
        masks.append(rows)

        def predicted(observations, actions):
            read.append((len(masks) - 1, observations))
            return np.zeros((2, len(observations), 2))

        return predicted

    zero, starts = np.zeros((len(begins), 2)), log.observation[begins]
    signals = Signals(zero + log.reward[:, None], zero + GAMMA * ~log.terminated[:, None], begins)
    columns = audited_log(
        log, asked(), signals, lambda s, a: (np.zeros((len(s), 2)), np.zeros((len(s), 2)), np.full((len(s), 2), 0.5)), without
    )
    assert len(masks) == 5 and (np.sum(masks, axis=0) == 1).all()
    for mask in masks:
        inside = {int(e) for e in episode[mask]}
        assert not inside & {int(e) for e in episode[~mask]} and any(e % 3 == 0 for e in inside)
    for k, seen in read:
        assert any(np.array_equal(seen, part) for part in (log.observation[masks[k]], log.next_observation[masks[k]], starts))
    assert columns[:, 3].tolist() == [5, 0]


def test_the_result_has_the_audited_value_and_says_so(tmp_path):
    log = small(60, seed=1, on=lambda j: j % 3 == 0)
    result = gvfx.evaluate_log(log, asked(), save=tmp_path / "log")
    value, check = result.value(), result.audit()
    assert result.details.audits.shape == (1, 2, 6)
    assert value["right"][:3] == gvfx.evaluate_log(log, asked(), audit=False).value()["right"][:3]  # a finite one of its own
    starts = result.details.starts * [1, np.inf, 1, np.inf, np.inf]
    unsure = values_at_start(replace(result.details, held=result.details.held | {"starts": starts}))
    assert (unsure["right"].value, unsure["right"].low) == (check["right"].value, check["right"].low)
    assert check["right"].rollouts == 20 and check["both"].rollouts == 0
    off = gvfx.evaluate_log(log, asked(), audit=False)
    assert off.details.audits is None and value["both"][:3] == off.value()["both"][:3]
    np.testing.assert_array_equal(off.details.starts, result.details.starts)
    said = [line for line in result.summary().splitlines() if "audited" in line]
    assert len(said) == 1 and said[0].startswith("right") and "off by" in said[0] and "(20 rollouts" in said[0]
    assert gvfx.load(tmp_path / "log").value()["right"][:3] == value["right"][:3]
    with pytest.raises(gvfx.InputError, match="^audit: this run was not audited; .*'policy'"):
        off.audit()


def test_questions_of_a_policy_share_its_episodes_under_any_of_its_names():
    log = small(30, on=lambda j: j % 2 == 0)
    questions = [gvfx.GVF(PI, gvfx.Reward(), g, name=f"right: {g}") for g in (0.5, 0.9)] + asked()[1:]
    found = {}
    for name in ("right", "right: 0.5", "right: 0.9"):
        column = [name if each else "" for each in log["policy"]]
        found[name] = gvfx.evaluate_log(log | {"policy": column}, questions).details.audits
        assert found[name][0, :, 3].tolist() == [15, 15, 0]
        np.testing.assert_array_equal(found[name], found["right"])


class Frame(dict):
    """A data frame as far as it is read."""

    columns = ("policy",)


def test_the_column_in_rows_episodes_and_frames():
    log = small(12, on=lambda j: j % 2 == 0)
    names = tuple(log)[:6]
    wanted = gvfx.evaluate_log(log, asked()).details.audits
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(log[name] for name in names), strict=True)]
    for row in rows:
        if row["policy"] is None:
            del row["policy"]
    ends = [0, *(t + 1 for t, over in enumerate(log["terminated"]) if over)]
    episodes = []
    for begin, end in itertools.pairwise(ends):
        part = {f"{name}s": log[name][begin:end] for name in ("action", "reward")}
        seen = [*log["observation"][begin:end], log["next_observation"][end - 1]]
        followed = {"policy": log["policy"][begin]} if log["policy"][begin] else {}
        episodes.append(part | {"observations": seen, "terminations": log["terminated"][begin:end]} | followed)
    for table in (rows, episodes, log | {"policy": [b"right" if each else float("nan") for each in log["policy"]]}):
        np.testing.assert_allclose(gvfx.evaluate_log(table, asked()).details.audits, wanted)
    frame = Frame({name: log[name] for name in names} | {"policy": [each or float("nan") for each in log["policy"]]})
    np.testing.assert_allclose(gvfx.evaluate_log(frame, asked()).details.audits, wanted)
    assert gvfx.evaluate_log(log | {"policy": [None] * len(rows)}, asked()).details.audits is None


def test_a_truncated_column_ends_episodes_that_go_on_where_they_were():
    """Two of three episodes that stay in state 0 are cut by the column; they rest on the answer there, and are counted."""
    n = 6
    log = {"observation": [0] * n, "action": [0, 1] * 3, "next_observation": [0] * n, "terminated": [False] * 5 + [True]}
    log |= {"reward": [1.0] * n, "truncated": [False, True] * 2 + [False] * 2, "policy": ["right"] * n, "states": 4}
    check = gvfx.evaluate_log(log, asked()).audit()["right"]
    assert (check.rollouts, check.steps, check.cut) == (3, 6, 2)


def test_a_single_episode_is_too_few():
    check = gvfx.evaluate_log(small(1), asked()).audit()["right"]
    assert np.isinf(check.half) and check.rollouts == 1


def test_a_signal_that_was_never_met_is_not_sure():
    log = small(20)
    log["reward"] = [0.0] * len(log["reward"])
    assert np.isinf(gvfx.evaluate_log(log, asked()).value()["right"].half)


@pytest.mark.full
@pytest.mark.parametrize("case", log_cases().values(), ids=list(log_cases()))
def test_coverage_with_the_exact_truth(case):
    """FrozenLake and a random MDP, 40 logs of 60 episodes, 30 % on policy: at least 93 % of the intervals contain the truth, and
    they are not wider than a fifth more than those of returns, which hold less often in FrozenLake."""
    covered, _, half, returns, _ = log_intervals(case, 60, range(3000, 3040))
    assert covered.mean() >= 0.93
    assert np.median(half / returns) < 1.2


def test_the_truth_of_the_simulated_worlds():
    case = log_cases()["FrozenLake"]
    assert case.truth == pytest.approx(float(gvfx.exact.values(case.world, [gvfx.GVF(case.policy, gvfx.Reward(), 0.95)])[0, 0]))
    assert {"target", None} == set(log_of(case, 20, 0)["policy"])


def test_box_observations():
    """x' = x / 2 + a / 4 pays x', from a uniform start: V is linear, and audited values of two discounts contain it."""
    rng, rows = np.random.default_rng(4), []
    for j in range(40):
        x, on = rng.random(), j % 4 == 0
        for t in range(25):
            a = int(rng.random() < (0.7 if on else 0.4))
            after = x / 2 + a / 4
            rows.append(([x], a, [after], False, after, t == 24, "right" if on else ""))
            x = after
    names = ("observation", "action", "next_observation", "terminated", "reward", "truncated", "policy")
    log = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    questions = [gvfx.GVF(PI, gvfx.Reward(), g, name=f"right {g}") for g in (0.5, 0.8)]
    result = gvfx.evaluate_log(log, questions)
    for g, check in zip((0.5, 0.8), result.audit().values(), strict=True):
        slope = 0.5 / (1 - 0.5 * g)
        truth = slope * 0.5 + 0.175 * (1 + g * slope) / (1 - g)
        assert abs(check.value - truth) < check.half < 0.2
        assert (check.rollouts, check.steps, check.cut) == (10, 250, 10)  # 0.4 % are left
    assert gvfx.evaluate_log(log, questions, audit=False).details.audits is None


@pytest.mark.parametrize(
    ("change", "gamma", "said"),
    [
        ({"policy": ["left"] * 4}, 0.9, "^policy: the column names 'left', which is unknown; choose from right, both"),
        ({"policy": ["right", None, "right", "right"]}, 0.9, "^policy: changes within an episode, in row 1"),
        ({"policy": ["right"] * 3}, 0.9, "^policy: give one name, or None, for each of 4 transitions"),
        ({"policy": [None, None, "sure", "sure"]}, 0.9, "^policy: in row 3 'sure' never takes action 0"),
        ({"policy": ["own"] * 4}, 0.9, "^policy: that of 'own' is found from the log"),
        (
            {"terminated": [False, True, False, False]},
            1.0,
            "^discount: that of 'right' is 1, and its episode from row 2 on did not",
        ),
    ],
)
def test_bad_columns_are_named(change, gamma, said):
    log = {"observation": [0, 1, 0, 1], "action": [1, 1, 1, 0], "next_observation": [1, 2, 1, 0], "states": 3}
    log |= {"terminated": [False, True, False, True], "reward": [1.0] * 4, "policy": ["right"] * 4, **change}
    questions = [
        *asked(gamma),
        gvfx.GVF([0, 1], 1.0, 0.5, name="sure"),
        gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.9, name="own"),
    ]
    with pytest.raises(gvfx.InputError, match=said):
        gvfx.evaluate_log(log, questions)


def test_a_share_is_refused():
    with pytest.raises(gvfx.InputError, match=r"^audit: 0.15 is not True or False"):
        gvfx.evaluate_log(small(2), asked(), audit=0.15)


def test_episodes_with_box_actions_are_audits_too():
    rng, policy = np.random.default_rng(2), gvfx.gaussian_policy([0.5], 0.5)
    turn = itertools.chain.from_iterable(itertools.repeat(k % 2 == 0, 10) for k in itertools.count())  # ten steps each
    log = recorded(Push(), 600, lambda r: np.clip(r.normal(0.5, 0.5, 1), -2, 2) if next(turn) else rng.uniform(-2, 2, 1))
    named = np.where(np.arange(600) // 10 % 2 == 0, "push", "")
    question = gvfx.GVF(policy, gvfx.Reward(), 0.8, name="push")
    learner = gvfx.TwinCritics(hidden=(16,), batch=32, learning_starts=40, capacity=400)
    result = gvfx.evaluate_log(log | {"policy": named}, [question], learner)
    audit, value = result.audit()["push"], result.value()["push"]
    truth = sum(0.8 ** (t - 1) * 0.05 * t for t in range(1, 11))
    assert audit.rollouts == 30 and value.low < truth < value.high < truth + 0.5
    without = gvfx.evaluate_log(log | {"policy": named}, [question], learner, audit=False)
    np.testing.assert_array_equal(result.values, without.values)
