"""A user's own learner with standard errors of its own: stopping rules, decisions and comparisons rest on them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import gvfx
from gvfx.errors import InputError
from gvfx.evidence.uncertainty import standard_errors
from gvfx.worlds.conversion import SteppedMDP


@dataclass(frozen=True)
class Cautious(gvfx.Learner):
    """Certainty equivalence with error bars that are `times` as wide."""

    times: float = 2.0
    supports: ClassVar[frozenset[str]] = frozenset({"tables"})
    needs_evidence: ClassVar[bool] = True
    bounds_errors: ClassVar[bool] = True

    def rule(self, sizes, variance):
        return gvfx.CertaintyEquivalence().rule(sizes, variance)

    def begin(self, asked, world):
        return gvfx.CertaintyEquivalence().begin(asked, world)

    def values(self, state, model):
        return model.values

    def standard_errors(self, state, model):
        return self.times * standard_errors(model)


LEFT, RIGHT = gvfx.constant_policy([0.4, 0.1, 0.4, 0.1]), gvfx.constant_policy([0.1, 0.4, 0.1, 0.4])


def asked():
    pays = {"at": "corner"}
    return [gvfx.GVF(policy, gvfx.Constant(1.0, **pays), 0.8, name=name) for name, policy in (("up", LEFT), ("down", RIGHT))]


def grid():
    return gvfx.gridworld(3, {"corner": (0, 0)})


def run(learner, **options):
    return gvfx.evaluate(grid(), asked(), gvfx.Uniform(), learner, **{"steps": 20_000, **options})


@pytest.mark.parametrize("where", [None, "start"])
def test_a_stopping_rule_ends_the_run_when_its_errors_are_small(where):
    result = run(Cautious(), until=gvfx.error_below(4e-3), where=where, evaluate_every=100)
    assert result.reached.all() and 100 < result.stopped[0] < 20_000
    assert result.details.bounds[0] < 4e-3 and result.details.mse[0, -1].mean() < 4e-3
    wider = run(Cautious(4.0), until=gvfx.error_below(4e-3), where=where, evaluate_every=100)
    assert wider.stopped[0] > result.stopped[0]


def test_values_and_differences_have_its_intervals():
    one, two = run(Cautious(1.0), steps=4000), run(Cautious(2.0), steps=4000)
    assert np.allclose(2 * one.details.snapshots[-1].standard_errors, two.details.snapshots[-1].standard_errors)
    for name, value in one.value().items():
        assert 0 < value.half < np.inf
        assert two.value()[name].half == pytest.approx(2 * value.half)
    (near,), (far,) = one.compare(policies=None).differences, two.compare(policies=None).differences
    assert far.high - far.low == pytest.approx(2 * (near.high - near.low))
    halves = sum(value.half for value in one.value().values())
    assert (near.high - near.low) / 2 == pytest.approx(halves)  # correlations are not known, so errors add up


def test_a_decision_rests_on_them():
    result = run(Cautious(), until=gvfx.decided(), steps=50_000)
    assert result.reached.all() and result.stopped[0] < 50_000
    best = max(result.value().items(), key=lambda item: item[1].truth)[0]
    assert result.compare().ranking[0].question == best


def test_the_same_in_an_environment_that_is_stepped():
    questions = [gvfx.GVF(LEFT, gvfx.Reward(), 0.8, name="up"), gvfx.GVF(RIGHT, gvfx.Reward(), 0.8, name="down")]
    env = SteppedMDP(gvfx.gridworld(3, {"corner": (0, 0)}))
    env.reward = [[[float(s == 0) for s in row] for row in rows] for rows in env.next]
    options = {"steps": 20_000, "where": "start", "until": gvfx.error_below(1e-2)}
    result = gvfx.evaluate(env, questions, gvfx.Uniform(), Cautious(), **options)
    assert result.reached.all() and result.stopped[0] < 20_000
    assert all(np.isfinite(value.half) for value in result.value().values())


def test_a_learner_that_declares_nothing_is_refused():
    @dataclass(frozen=True)
    class Bold(Cautious):
        bounds_errors: ClassVar[bool] = False

    with pytest.raises(InputError, match="until: the error of this learner cannot be bounded"):
        run(Bold(), until=gvfx.error_below(1e-3))
