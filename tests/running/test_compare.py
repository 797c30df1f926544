"""result.compare(): pairs, ranks and words; on tables, in environments, from logs, in features, saved and loaded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import invoke
from helpers.environments import Sound, Vectors, Walk, lake_log
from helpers.networks import DEEP
from helpers.worlds import small_world

import gvfx
from gvfx.evidence.decisions import quantile
from gvfx.report.result_page import page_of
from gvfx.running.comparing import _draws, _ranks

ROWS = {"up": [0.1, 0.3, 0.5, 0.1], "even": [0.2, 0.3, 0.3, 0.2], "any": [0.25] * 4}


def questions(signals=("left", "right")):
    paid = {"left": gvfx.Distractor(10, 2, at="left"), "right": gvfx.Distractor(5, 1, at="right")}
    return [gvfx.GVF(row, paid[s], 0.9, name=f"{name} {s}") for s in signals for name, row in ROWS.items()]


@pytest.fixture(scope="module")
def result():
    return gvfx.evaluate(small_world(), questions(), steps=5000, seeds=2)


def test_all_pairs_of_every_signal(result):
    found = result.compare()
    assert found.signals == ("left", "right") and len(found.differences) == 6 and len(found.ranking) == 6
    values = result.value()
    for d in found.differences:
        one, two = values[f"{d.policy} {d.signal}"], values[f"{d.other} {d.signal}"]
        assert d.difference == pytest.approx(one.value - two.value) and d.truth == pytest.approx(one.truth - two.truth)
        assert d.difference >= 0 and d.better >= 0.5  # the better one first
        assert d.high - d.low < 2 * 0.9 * np.hypot(one.half, two.half)
    for r in found.ranking:
        v = values[r.question]
        assert (r.value, r.low, r.high) == pytest.approx((v.value, v.low, v.high)) and sum(r.ranks) == pytest.approx(1)
    order = [r.value for r in found.ranking if r.signal == "left"]
    assert order == sorted(order, reverse=True) and [r.rank for r in found.ranking] == [1, 2, 3] * 2
    assert found.rows()[0]["policy"] == found.differences[0].policy


def test_one_difference_and_its_mirror(result):
    found = result.compare(["up", "even"], "left")
    (d,) = found.differences
    mirrored = found.difference(d.other, d.policy)
    assert mirrored.difference == -d.difference and mirrored.low == -d.high and mirrored.better == pytest.approx(1 - d.better)
    assert found.difference(d.policy, d.other) == d
    with pytest.raises(gvfx.InputError, match="choose two of"):
        found.difference("up", "any")
    narrow = result.compare(["up", "even"], "left", level=0.5).differences[0]
    assert narrow.high - narrow.low == pytest.approx(0.344134 * (d.high - d.low), rel=1e-3)


def test_where_lower_is_better_the_smallest_comes_first(result):
    usual, found = result.compare(signal="left"), result.compare(signal="left", lower_is_better=True)
    assert [r.policy for r in found.ranking] == [r.policy for r in usual.ranking][::-1]
    assert str(found).startswith("left (lower is better)")
    for d in found.differences:
        other = usual.difference(d.policy, d.other)
        assert (d.difference, d.low, d.high) == pytest.approx((other.difference, other.low, other.high)) and d.difference <= 0
        assert d.better == pytest.approx(1 - other.better) and d.better >= 0.5
    for r, last in zip(found.ranking, usual.ranking[::-1], strict=True):
        assert r.ranks == pytest.approx(last.ranks[::-1], abs=0.02) and (r.low, r.high) == (last.low, last.high)
    with pytest.raises(gvfx.InputError, match="lower_is_better"):
        result.compare(lower_is_better="crash")


def test_simultaneous_intervals_are_wider_and_say_so(result):
    each, together = result.compare(), result.compare(simultaneous=True)
    for one, all_ in zip(each.differences, together.differences, strict=True):
        assert 1.1 < (all_.high - all_.low) / (one.high - one.low) < 2.64 / 1.96  # Bonferroni over six would be 2.64
        assert one.better == all_.better
    assert "holds with 95 %, not for all 6 together" in str(each)
    assert "for all 6 differences together with 95 %" in str(together)


def test_probabilities_of_ranks_are_those_of_the_joint_distribution():
    """Two values with a strong correlation: the difference decides, not the separate errors."""
    errors = np.array([[1.0, 0.1], [0.1, 1.0]])
    draws = _draws(errors, 0.0)
    assert draws.std(axis=0) == pytest.approx([1, 1], rel=0.03) and (draws[:, 0] - draws[:, 1]).std() == pytest.approx(
        0.1, rel=0.03
    )
    assert _ranks(np.array([0.1, 0.0]), draws)[0, 0] == pytest.approx(0.8413, abs=0.01)
    assert _draws(np.array([[1.0, np.inf], [np.inf, np.inf]]), 0.0) is None


def test_a_saved_result_compares_as_before(result, tmp_path):
    result.save(tmp_path / "kept")
    loaded = gvfx.load(tmp_path / "kept")
    assert str(loaded.compare()) == str(result.compare())
    page = page_of(loaded, Path("kept"))
    section = next(s for s in page.sections if s.id == "compare")
    ranks = next(item for item in section.items if item.id == "ranking-1")
    assert [row[0] for row in ranks.rows] == ["1", "2", "3"]
    assert ranks.rows[0][1] == result.compare().ranking[0].policy
    forest = next(item for item in section.items if item.id == "forest-1")
    assert [len(panel.rows) for panel in forest.panels] == [3, 3] and forest.panels[1].zero


def test_nothing_is_kept_where_nothing_is_compared(tmp_path):
    alone = gvfx.evaluate(small_world(), questions()[:1], steps=500, save=tmp_path / "alone")
    assert "compared" not in alone.details.experiment and b"differences" not in (tmp_path / "alone").read_bytes()
    assert all(s.id != "compare" for s in page_of(alone, Path("alone")).sections)
    with pytest.raises(gvfx.InputError, match="^compare: no two questions"):
        alone.compare()


def test_unknown_names(result):
    with pytest.raises(gvfx.InputError, match="^policies: 'down' is unknown; choose from up, even, any"):
        result.compare(["up", "down"])
    with pytest.raises(gvfx.InputError, match="^signal: 'middle' is unknown; choose from left, right"):
        result.compare(signal="middle")
    with pytest.raises(gvfx.InputError, match="^level: "):
        result.compare(level=95)


def test_learners_without_intervals_do_not_compare():
    pair = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=str(p)) for p in (0.2, 0.8)]
    steps = gvfx.evaluate(Sound(), pair, gvfx.Uniform(), gvfx.ExpectedSarsa(0.2), steps=200, where="start")
    networks = gvfx.evaluate(Vectors(), pair, learner=DEEP, steps=200)
    for each in (steps, networks):
        with pytest.raises(gvfx.InputError, match="^compare: this learner has no intervals"):
            each.compare()
        assert all(s.id != "compare" for s in page_of(each, Path("no")).sections)


def audited_result(errors=None):
    """Three seeds of a made-up run on networks with audits: values 3, 2 and 1, each with an error of 0.1 per seed."""
    pair = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=name) for name, p in (("a", 0.2), ("b", 0.5), ("c", 0.8))]
    steps = gvfx.evaluate(Sound(), pair, gvfx.Uniform(), gvfx.ExpectedSarsa(0.2), steps=200, where="start", seeds=3)
    rows = [[value, 0.1, 9.0, 10, 100, 0] for value in (3.0, 2.0, 1.0)]
    held = steps.details.held | {"audits": np.array([rows] * 3), "audit_differences": errors}
    return gvfx.Result(dataclasses.replace(steps.details, held=held))


def test_audits_are_compared_where_there_is_no_other_ground():
    """Errors of the mean of three seeds; independent values without paired ones, Welch's and Satterthwaite's freedom."""
    found = audited_result().compare()
    d = found.difference("a", "b")
    half = quantile(0.025, 3 * 18) * 0.1 * (2 / 3) ** 0.5
    assert d.difference == pytest.approx(1) and (d.high - d.low) / 2 == pytest.approx(half)
    assert (found.ranking[0].high - 3) == pytest.approx(quantile(0.025, 27) * 0.1 / 3**0.5)
    assert found.ranking[0].ranks[0] > 0.99 and "each interval of a difference holds with 95 %" in str(found)


def test_paired_audits_have_errors_of_their_own(tmp_path):
    paired = np.zeros((3, 3, 3, 2))
    paired[..., 0], paired[..., 1] = 0.03, 4.0
    paired[:, range(3), range(3)] = 0.1, 9.0
    result = audited_result(paired)
    result.save(tmp_path / "paired.gvfx")
    for each in (result, gvfx.load(tmp_path / "paired.gvfx")):
        d = each.compare().difference("c", "a")
        assert (d.high - d.low) / 2 == pytest.approx(quantile(0.025, 12) * 0.03 / 3**0.5) and d.difference == pytest.approx(-2)
        wide = each.compare(simultaneous=True).difference("c", "a")
        assert wide.high - wide.low > d.high - d.low
    paired[1, 0, 0, 0] = paired[1, 0, 1:, 0] = paired[1, 1:, 0, 0] = np.inf
    some = audited_result(paired).compare()
    assert np.isinf(some.difference("a", "b").high) and np.isfinite(some.difference("b", "c").high)


def test_environments_and_logs():
    world, log = lake_log()
    lake = [gvfx.GVF(row, gvfx.Reward(), 0.9, name=name) for name, row in (("any", [0.25] * 4), ("on", [0.1, 0.4, 0.4, 0.1]))]
    (d,) = gvfx.evaluate_log(log, lake).compare().differences
    truth = gvfx.exact.values(world, lake)[:, 0]
    assert d.policy == "on" and (not np.isfinite(d.low) or d.low < truth[1] - truth[0] < d.high)
    pair = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.9, name=str(p)) for p in (0.2, 0.8)]
    found = gvfx.evaluate(Sound(), pair, steps=2000).compare()
    assert np.isnan(found.differences[0].truth) and found.signals == ("reward",)


def test_linear_features():
    """A walk: the error of the difference comes from the same half-samples, and a decision can be made."""
    pair = [gvfx.GVF([p, 1 - p], gvfx.Reward(), 0.8, name=name) for name, p in (("left", 0.7), ("right", 0.2))]
    result = gvfx.evaluate(Walk(), pair, steps=1500, evaluate_every=1500)
    (d,) = result.compare().differences
    separate = np.hypot(*(v.half for v in result.value().values()))
    assert 0 < (d.high - d.low) / 2 < 1.5 * separate and np.isfinite(d.better)
    assert result.details.differences.shape == (1, 2, 2)


@pytest.mark.full
def test_command_line():
    options = ("-b", "OptimalDesign", "-l", "CertaintyEquivalence", "--steps", 4000, "--seeds", 1)
    tied = invoke("run", "same", *options, "--until", "decided:1000").output
    assert "no difference above the margin of 1000 between" in tied and "value at the start" not in tied
    assert "until: 'soon' is not" in invoke("run", "same", *options, "--until", "soon").output
