"""Answers from logs with continuous observations."""

from __future__ import annotations

import numpy as np
import pytest

import gvfx

RNG = np.random.default_rng(0)
N = 1500


def drift(action_of=None, seed=1):
    """A log of a point on [0, 1] that moves left or right; it pays its place, and no episode ends."""
    rng = np.random.default_rng(seed)
    x = np.empty(N + 1)
    x[0] = 0.5
    action = rng.integers(0, 2, N) if action_of is None else np.full(N, action_of)
    for t in range(N):
        x[t + 1] = np.clip(x[t] + 0.1 * (2 * action[t] - 1) + 0.02 * rng.normal(), 0, 1)
    return {
        "observation": x[:-1, None],
        "action": action,
        "next_observation": x[1:, None],
        "terminated": np.zeros(N, bool),
        "reward": x[1:],
        "actions": 2,
    }


RIGHT = [gvfx.GVF([0.0, 1.0], gvfx.Reward(), 0.9, name="right"), gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="both")]


def test_values_and_intervals_of_a_world_that_is_known():
    result = gvfx.evaluate_log(drift(), RIGHT)
    assert result.predict(np.array([1.0]))[0] == pytest.approx(9.9, abs=0.15)  # at the right end it stays near 1
    low, high = result.intervals(np.array([0.5]), level=0.999)[1]
    assert low < 5.0 < high  # by symmetry
    assert high - low < 1.5
    assert result.details.experiment["support"] == {"right": pytest.approx(1.0, abs=0.02), "both": pytest.approx(1.0, abs=0.02)}
    assert result.intervals().shape == (2, 64, 2)


def test_an_action_never_tried_has_no_support_and_infinite_intervals():
    result = gvfx.evaluate_log(drift(action_of=0), RIGHT)
    assert result.details.experiment["support"]["right"] == 0.0
    assert np.isinf(result.intervals(np.array([0.2]))).all()
    assert "WARNING: 100% of its choices were never tried" in result.summary()
    assert np.isnan(result.predict(np.array([0.2]))[0]) and np.isfinite(result.predict(np.array([0.2]))[1])
    assert np.isnan(result.value()["right"].value) and np.isinf(result.value()["right"].low)
    assert "right  not known" in result.summary()
    first = result.details.collect[0]
    assert (first["action"], first["seen"], len(first["observation"])) == (1, 0, 1)


def test_what_to_collect_is_where_little_was_tried():
    log = drift()
    kept = (log["action"] == 0) | (log["observation"][:, 0] < 0.5)
    log = {name: column[kept] if np.ndim(column) else column for name, column in log.items()}
    best = gvfx.evaluate_log(log, RIGHT).details.collect[:3]
    assert all(row["action"] == 1 and row["observation"][0] > 0.4 for row in best)


def test_effective_shares_with_behaviour_probabilities():
    result = gvfx.evaluate_log(drift() | {"behaviour_prob": np.full(N, 0.5)}, RIGHT)
    assert result.details.experiment["effective"]["both"] == pytest.approx(1.0)
    assert result.details.experiment["effective"]["right"] == pytest.approx(0.5, abs=0.05)


def test_functions_of_observations_get_arrays():
    def lean(o):
        assert isinstance(o, np.ndarray)
        return [0.2, 0.8] if o[0] < 0.5 else [0.8, 0.2]

    result = gvfx.evaluate_log(drift(), [gvfx.GVF(lean, lambda o, a, o2: float(o2[0] > 0.5), 0.5)])
    assert 0 < result.predict(np.array([0.5]))[0] < 2


def test_a_result_is_saved_and_loaded(tmp_path):
    result = gvfx.evaluate_log(drift(), RIGHT, save=tmp_path / "log")
    assert np.allclose(gvfx.load(tmp_path / "log").intervals(), result.intervals(), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"observation": np.full((N, 1), np.nan)}, "observation: holds nan, infinity or"),
        ({"next_observation": np.zeros((N, 2))}, "next_observation: its shape differs"),
        ({"action": np.full(N, -1)}, "action: is -1 in row 0; give one whole number"),
        ({"actions": 1}, "actions: the log has action 1 and 1 actions were given"),
        ({"observation": np.full((N, 1), "a")}, "observation: holds 'a' .str., not numbers"),
    ],
)
def test_bad_columns_are_named(change, said):
    with pytest.raises(gvfx.InputError, match=said):
        gvfx.evaluate_log(drift() | change, RIGHT)


def test_own_policies_are_refused():
    with pytest.raises(gvfx.InputError, match="own_greedy"):
        gvfx.evaluate_log(drift(), [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.9)])
