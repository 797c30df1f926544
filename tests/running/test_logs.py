"""Answers from a log of transitions: right where the log covers the question, honest where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.environments import Sound, lake_log

import gvfx
from gvfx.running.earlier import learn_from_log
from gvfx.running.streams.table_gym import SteppedTables


@pytest.fixture(scope="module")
def lake():
    return lake_log()


def test_a_log_that_covers_everything_gives_the_exact_values(lake, tmp_path):
    world, log = lake
    ends = lambda s, a, s2: 0.5 if s2 % 2 else 0.9  # noqa: E731
    questions = [
        gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="goal"),
        gvfx.GVF([0.1, 0.4, 0.4, 0.1], lambda s, a, s2: s2, ends, name="signal"),
        gvfx.GVF(gvfx.uniform_policy(), 1.0, 1.0, name="length"),
    ]
    result = gvfx.evaluate_log(log, questions, save=tmp_path / "log.gvfx")
    exact = gvfx.exact.values(world, questions)
    np.testing.assert_allclose(result.values[0][:, world.live], exact[:, world.live], atol=1e-6)
    assert result.details.experiment["support"] == pytest.approx({"goal": 1, "signal": 1, "length": 1})
    assert (
        result.details.experiment["effective"]["goal"] == pytest.approx(1)
        and result.details.experiment["effective"]["signal"] < 0.8
    )
    assert "WARNING" not in result.summary() and "collect next: action" in result.summary()
    low, high = np.moveaxis(result.intervals()[:, world.live], -1, 0)
    assert (low <= exact[:, world.live] + 1e-6).all() and (exact[:, world.live] - 1e-6 <= high).all()
    assert np.array_equal(gvfx.load(tmp_path / "log.gvfx").values, result.values)


def test_further_columns_are_info(lake):
    _, log = lake
    questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Info("force", size=2), 0.0, name="f")]
    assert gvfx.evaluate_log(log, questions).predict(14) == pytest.approx([0.25, 14])


def test_choices_never_tried_are_warned_of(lake):
    _, log = lake
    kept = {name: column[log["action"] != 3] for name, column in log.items()}
    table = gvfx.Log(**{name: kept[name] for name in gvfx.Log._fields if name in kept}, actions=4, states=16)
    result = gvfx.evaluate_log(table, [gvfx.GVF([0, 0, 0.6, 0.4], gvfx.Reward(), 0.9, name="up")])
    assert result.details.experiment["support"]["up"] == pytest.approx(0.6)
    assert "WARNING: 40% of its choices were never tried" in result.summary()
    assert np.isinf(result.intervals(0)).all()  # nobody ever went up
    first = result.details.experiment["collect"][0]
    assert (first["action"], first["seen"]) == (3, 0)


def never_up(log):
    kept = {name: column[log["action"] != 3] for name, column in log.items()}
    questions = [
        gvfx.GVF([0, 0, 0, 1.0], gvfx.Reward(), 0.9, name="up"),
        gvfx.GVF([0, 0, 0.6, 0.4], gvfx.Reward(), 0.9, name="right"),
    ]
    return gvfx.evaluate_log(kept | {"states": 16}, questions)


def test_answers_that_nothing_was_tried_for_are_not_known(lake, tmp_path):
    result = never_up(lake[1])
    result.save(tmp_path / "log.gvfx")
    for found in (result, gvfx.load(tmp_path / "log.gvfx")):
        assert np.isnan(found.predict(0)[0]) and np.isfinite(found.predict(0)[1])
        assert found.intervals(0)[0].tolist() == [-np.inf, np.inf]
        value = found.value()["up"]
        assert np.isnan(value.value) and (value.low, value.high) == (-np.inf, np.inf)
        assert np.isfinite(found.value()["right"].value)
        rows = {(row["question"], row["observation"]): row for row in found.rows()}
        assert np.isnan(rows["up", 0]["prediction"]) and rows["up", 0]["low"] is None
        assert rows["right", 0]["prediction"] == found.predict(0)[1]
        assert "up     not known: nothing was tried that its policy does" in found.summary()
        (difference,) = found.compare().differences
        assert np.isnan(difference.difference) and (difference.low, difference.high) == (-np.inf, np.inf)


def test_what_to_collect_is_a_table(lake, tmp_path):
    result = never_up(lake[1])
    rows = result.details.collect
    assert set(rows[0]) == {"observation", "action", "seen", "gain"}
    gains = [row["gain"] for row in rows]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0
    assert len({(row["observation"], row["action"]) for row in rows}) == len(rows) > 5
    assert all(row["seen"] == result.visits[0, row["observation"], row["action"]] for row in rows)
    assert rows[0]["action"] == 3
    assert result.summary().count(" times)") == 5  # the first few
    result.save(tmp_path / "log.gvfx")
    assert gvfx.load(tmp_path / "log.gvfx").details.collect == rows
    assert gvfx.evaluate(gvfx.gridworld(), [gvfx.GVF([0.25] * 4, 1.0, 0.9)], steps=10).details.collect == []


def test_a_log_is_counted_like_the_run_that_made_it():
    """The same transitions, once as they come and once as a log: answers and intervals are equal."""
    env, rng, rows = Sound(), np.random.default_rng(0), []
    s, _ = env.reset(seed=0)
    for _ in range(600):
        a = int(rng.integers(2))
        s2, r, terminated, truncated, _ = env.step(a)
        rows.append((s, a, s2, terminated, r))
        s = env.reset()[0] if terminated or truncated else s2
    names = ("observation", "action", "next_observation", "terminated", "reward")
    log = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    questions = [gvfx.GVF([0.3, 0.7], gvfx.Reward(), 0.9)]
    result = gvfx.evaluate_log({**log, "states": 5}, questions)
    count, total, onward = np.zeros((3, 5, 2))
    v = np.zeros(5)
    for _ in range(400):  # plain sweeps over the log (Eq. 5, averaged)
        count[:], total[:] = 0, 0
        np.add.at(count, (log["observation"], log["action"]), 1)
        np.add.at(
            total, (log["observation"], log["action"]), log["reward"] + 0.9 * ~log["terminated"] * v[log["next_observation"]]
        )
        v = (np.array([0.3, 0.7]) * total / np.maximum(count, 1)).sum(axis=1)
    np.testing.assert_allclose(result.values[0, 0], v, atol=1e-8)
    assert np.isfinite(result.intervals(0)).all()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"action": None}, "log: has no column 'action'"),
        ({"action": [0.5, 1]}, "gvf1.policy: ConstantPolicy is for Discrete actions"),
        ({"reward": [1.0]}, "reward"),
        ({"reward": [1.0, float("nan")]}, "reward"),
        ({"behaviour_prob": [0.5, 0.0]}, "behaviour_prob"),
        ({"states": 1}, "states"),
    ],
)
def test_bad_columns_are_named(change, field):
    log = {"observation": [0, 1], "action": [0, 1], "next_observation": [1, 0], "terminated": [False, True], **change}
    log = {name: column for name, column in log.items() if column is not None}
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        gvfx.evaluate_log(log, [gvfx.GVF([0.5, 0.5], 1.0, 0.9)])


def test_endless_sums_are_refused():
    log = {"observation": [0], "action": [0], "next_observation": [0], "terminated": [False]}
    with pytest.raises(gvfx.InputError, match="^discount: the values of .* do not converge in this log"):
        gvfx.evaluate_log(log, [gvfx.GVF([1.0], 1.0, 1.0)])


def moves(steps, action, observe=lambda x: x, low=-1.0, high=1.0):
    """A walk between two ends; action(rng) pushes it."""
    rng, rows, x = np.random.default_rng(1), [], np.zeros(2)
    for _ in range(steps):
        a = action(rng)
        x2 = np.clip(x + 0.25 * np.append(np.sign(np.ravel(a)[:1]), 1.0), low, high)
        rows.append((observe(x), a, observe(x2), x2[0], x2[1] >= 1.0))
        x = np.zeros(2) if x2[1] >= 1.0 else x2
    names = ("observation", "action", "next_observation", "reward", "terminated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


SMALL = {"hidden": (8,), "batch": 16, "learning_starts": 40, "capacity": 400}


@pytest.mark.parametrize(
    ("log", "policy", "learner"),
    [
        (moves(300, lambda rng: rng.integers(2), lambda x: np.round(4 * x).astype(int)), [0.3, 0.7], None),
        (moves(300, lambda rng: rng.integers(2), lambda x: np.round(4 * x).astype(int)), [0.3, 0.7], gvfx.ExpectedSarsa(0.2)),
        (moves(300, lambda rng: rng.integers(2)), [0.3, 0.7], gvfx.Deep(**SMALL)),
        (moves(300, lambda rng: rng.uniform(-1, 1, 1)), gvfx.gaussian_policy([0.5], 0.5), gvfx.TwinCritics(**SMALL)),
    ],
    ids=["numbered", "numbered, updates", "networks", "critics"],
)
def test_every_learner_reads_a_log(log, policy, learner, tmp_path):
    question = gvfx.GVF(policy, gvfx.Reward(), 0.5, name="reward")
    result = gvfx.evaluate_log(log, [question], learner, save=tmp_path / "log.gvfx")
    kind = type(learner).__name__ if learner is not None else "CertaintyEquivalence"
    assert result.details.experiment["learner"].startswith(kind) and result.steps.tolist() == [300]
    assert result.visits.sum() == 300 and result.details.episodes[0, 0] == log["terminated"].sum()
    value = result.value()["reward"]
    assert np.isfinite(value.value) and (kind != "CertaintyEquivalence" or value.low < value.value < value.high)
    assert np.array_equal(gvfx.load(tmp_path / "log.gvfx").values, result.values, equal_nan=True)


def test_a_log_of_whole_numbers_and_of_their_states_have_the_same_answers():
    log = moves(400, lambda rng: rng.integers(2), lambda x: np.round(4 * x).astype(int))
    question = gvfx.GVF([0.3, 0.7], gvfx.Reward(), 0.5, name="reward")
    numbers = {tuple(row): s for s, row in enumerate(np.unique(np.vstack([log["observation"], log["next_observation"]]), axis=0))}
    states = {n: np.array([numbers[tuple(row)] for row in log[n]]) for n in ("observation", "next_observation")}
    one, other = (gvfx.evaluate_log(given, [question]) for given in (log, log | states))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-10)
    np.testing.assert_allclose(one.details.starts[..., 0], other.details.starts[..., 0], rtol=1e-10)
    np.testing.assert_allclose(one.details.starts, other.details.starts, rtol=0.03)  # draws go by the states' numbers
    assert [row["gain"] for row in one.details.collect] == pytest.approx([row["gain"] for row in other.details.collect])


def test_a_log_of_whole_numbers_is_counted_at_once_as_row_by_row(monkeypatch):
    rng = np.random.default_rng(5)
    seen = rng.integers(0, 6, (601, 2))
    columns = {"observation": seen[:-1], "action": rng.integers(0, 3, 600), "next_observation": seen[1:]}
    log = columns | {"terminated": rng.random(600) < 0.05, "reward": rng.random(600)}
    questions = [
        gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="all"),
        gvfx.GVF(gvfx.callable_policy(lambda o: [0.5, 0.5, 0] if o[0] > 2 else [0, 0, 1]), gvfx.Reward(), 0.8, name="some"),
    ]
    at_once = gvfx.evaluate_log(log, questions)
    monkeypatch.setattr(SteppedTables, "take_log", learn_from_log)
    by_row = gvfx.evaluate_log(log, questions)
    assert by_row.details.predictor.keys == at_once.details.predictor.keys and len(by_row.details.predictor.keys) == 36
    assert np.array_equal(by_row.visits, at_once.visits) and at_once.visits.sum() == 600
    for name in ("values", "starts", "standard_errors"):
        np.testing.assert_allclose(getattr(by_row.details, name), getattr(at_once.details, name), rtol=1e-10)
