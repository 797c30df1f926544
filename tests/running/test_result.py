"""A result: the same for the same seed, as rows and as text."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers.environments import Sound

import gvfx

HALF = [0.5, 0.5]


@pytest.fixture(scope="module")
def result():
    return gvfx.evaluate(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="r")], steps=400, seeds=2)


def test_a_result_has_at_most_twenty_names(result):
    assert len([name for name in dir(result) if not name.startswith("_")]) <= 20


def test_a_result_can_be_copied_and_sent_to_another_process(result):
    for again in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert again.names == result.names and again.details.truth.tobytes() == result.details.truth.tobytes()


def test_names_of_earlier_versions_answer_and_say_where_they_are_now(result):
    with pytest.warns(DeprecationWarning, match=r"^result.expected: is now result.details.expected; the old name answers until"):
        assert result.expected is result.details.expected
    with pytest.warns(DeprecationWarning, match=r"^result.levels: is now result.details.extra\['levels'\]"):
        assert result.levels is result.details.extra["levels"]
    with pytest.warns(DeprecationWarning, match=r"^result.critics: is now result.details.extra\['critics'\]"):
        assert result.critics is None
    with pytest.raises(AttributeError, match="^a result has no 'nonsense'"):
        result.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="has no 'levels'"):
        result.details.levels  # noqa: B018


def test_the_same_seed_gives_the_same_answers(result):
    again = gvfx.evaluate(Sound(), [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="r")], steps=400, seeds=2)
    assert np.array_equal(result.values, again.values) and not np.array_equal(result.values[0], result.values[1])


def test_results_as_rows_and_text(result):
    rows = result.rows()
    assert len(rows) == 5 and rows[0]["truth"] is None and sum(row["visits"] for row in rows) == 800
    assert rows[2]["prediction"] == pytest.approx(result.predict(2)[0]) and rows[2]["standard_error"] > 0
    assert "400 steps, 2 seeds, 4 of 5 states visited" in result.summary() and "MSE" not in result.summary()
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(gvfx.InputError, match="^pandas: not installed"):
            result.to_dataframe()
    else:
        assert list(result.to_dataframe().columns) == list(rows[0])
