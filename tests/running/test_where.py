"""Runs whose errors count at the start or in given states."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from helpers.command_line import invoke
from helpers.environments import WALK_QUESTIONS, Sound, Vectors, Veiled, Walk, changed, lake_log
from helpers.networks import DEEP, TWINS
from helpers.worlds import small_world, two_questions

import gvfx
from gvfx.report.result_page import page_of
from gvfx.running.plan import Plan
from gvfx_paper.settings.continuous import CONTINUOUS

HALF = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="r"), gvfx.GVF([0.2, 0.8], 1.0, 0.8, name="one")]
LAKE = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="r")]


def on_grid(where, **options):
    return gvfx.evaluate(small_world(), two_questions(), where=where, **{"steps": 4000, "seeds": 2} | options)


def test_the_error_is_that_of_the_start_value():
    world, result = small_world(), on_grid("start")
    away = (result.values - result.details.truth) @ world.start
    np.testing.assert_allclose(result.mse[:, -1], away**2)
    np.testing.assert_allclose(result.details.starts[:, :, 0], result.values @ world.start)
    value = result.value()
    for i, name in enumerate(result.names):
        own = result.details.starts[:, i]
        assert value[name].value == pytest.approx(own[:, 0].mean()) and value[name].truth == pytest.approx(own[0, 2])
        below, above = 1.96 * np.sqrt((own[:, 3:] ** 2).sum(axis=0)) / 2
        assert value[name].low == pytest.approx(value[name].value - below, rel=1e-4)
        assert value[name].high == pytest.approx(value[name].value + above, rel=1e-4)
    assert result.value(0.5)["gvf1"].half == pytest.approx(0.344134 * result.value()["gvf1"].half, rel=1e-3)
    with pytest.raises(gvfx.InputError, match="level:"):
        result.value(95)


def test_the_error_over_states_is_their_weighted_mean():
    result = on_grid({2: 3.0, 4: 1.0})
    squares = (result.values - result.details.truth)[:, :, [2, 4]] ** 2
    np.testing.assert_allclose(result.mse[:, -1], squares @ [0.75, 0.25])
    calibrated = on_grid("start", calibrate=True, seeds=1)
    shares = 1 / calibrated.details.starts[0, :, 2] ** 2
    np.testing.assert_allclose(calibrated.details.weights, [2, 1] * shares / shares.mean())


@pytest.mark.compiled(8)
def test_the_plan_goes_where_errors_count():
    """FrozenLake 8x8: by the exact importance, the visits of a plan for the start leave less than half of its error."""
    world = gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1", map_name="8x8"))
    need = gvfx.design.importance_of(world, LAKE, where="start")
    runs = [gvfx.evaluate(world, LAKE, steps=200_000, where=where) for where in ("start", None)]
    left = [(need / np.maximum(run.visits[0], 1)).sum() for run in runs]
    assert left[0] < 0.5 * left[1]


def test_summary_rows_and_page_lead_with_the_start(tmp_path):
    led, plain = on_grid("start", save=tmp_path / "led"), on_grid(None, save=tmp_path / "plain")
    lines = led.summary().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("gvf1"))
    assert "value at the start" in lines[first] and "truth" in lines[first]
    lines = plain.summary().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("gvf1"))
    assert "mean over visits" in lines[first] and any("value at the start" in line for line in lines)
    rows = led.rows()
    assert [row["observation"] for row in rows[:3]] == ["start", "start", 0] and rows[1]["question"] == "gvf2"
    assert rows[0]["low"] == pytest.approx(led.value()["gvf1"].low) and plain.rows()[0]["observation"] == 0
    for name, kept in (("led", led), ("plain", plain)):
        loaded = gvfx.load(tmp_path / name)
        np.testing.assert_array_equal(list(loaded.value().values()), list(kept.value().values()))
        page = page_of(loaded, Path(name))
        assert page.sections[0].id == "start"
        assert page.sections[0].items[0].panels[0].rows[0].value == loaded.value()["gvf1"].value
        assert page.sections[0].items[1].rows[0][:2] == ["gvf1", f"{loaded.value()['gvf1'].value:.4g}"]
    summary = page_of(led, Path("led")).summary
    assert summary.headline == f"gvf1: {led.value()['gvf1']} at the start."
    assert "of the value at the start" in summary.bullets[-1]


def test_files_without_start_values_can_be_read(tmp_path):
    stored = Path(__file__).parent.parent / "data" / "saved-0.1.0"
    old = next(path for path in sorted(stored.iterdir()) if path.suffix == ".gvfx")
    with pytest.raises(gvfx.InputError, match="^value: this run did not keep"):
        gvfx.load(old).value()


def test_a_checkpoint_belongs_to_its_where(tmp_path):
    once = on_grid("start", checkpoint=tmp_path, seeds=1)
    np.testing.assert_array_equal(once.mse, on_grid("start", checkpoint=tmp_path, seeds=1).mse)
    for where in (None, [1]):
        with pytest.raises(gvfx.StoreError, match="another experiment"):
            on_grid(where, checkpoint=tmp_path, seeds=1)


@pytest.mark.compiled(8)
def test_stepped_tables_learn_their_starts():
    """FrozenLake behind a wrapper: its one start is found, and its value is that of the state."""
    env = Veiled(gymnasium.make("FrozenLake-v1"))
    result = gvfx.evaluate(env, LAKE, steps=20_000, where="start")
    truth = gvfx.exact.values(gvfx.from_gymnasium(gymnasium.make("FrozenLake-v1")), LAKE)[0, 0]
    value = result.value()["r"]
    assert value.value == pytest.approx(result.predict(0)[0]) and value.low < truth < value.high and np.isnan(value.truth)
    low, high = result.intervals(0)[0]
    assert high - low <= 2 * value.half <= 1.2 * (high - low)  # a little more: another start may not have come up yet
    np.testing.assert_allclose(result.details.expected[0, -1], result.details.starts[0, :, 1] ** 2)


def test_stepped_tables_over_states():
    result = gvfx.evaluate(Sound(), HALF, steps=2000, where=[1, 2])
    errors = result.details.snapshots[-1].standard_errors[0][:, [1, 2]]
    np.testing.assert_allclose(result.details.expected[0, -1], (errors**2).mean(axis=1))
    unmet = gvfx.evaluate(changed(observation_space=gymnasium.spaces.Discrete(9))(), HALF, steps=500, where=[8])
    assert np.isnan(unmet.details.expected).all()


def test_learners_of_steps_keep_their_starts_if_asked():
    options = dict(behaviour=gvfx.Uniform(), learner=gvfx.ExpectedSarsa(0.2), steps=500)
    result = gvfx.evaluate(Sound(), HALF, where="start", **options)
    assert result.value()["r"].value == pytest.approx(result.predict(0)[0]) and np.isnan(result.value()["r"].low)
    with pytest.raises(gvfx.InputError, match="^value: .* where='start'"):
        gvfx.evaluate(Sound(), HALF, **options).value()


def test_logs():
    world, log = lake_log()
    questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95, name="r")]
    result = gvfx.evaluate_log(log, questions, where="start")
    assert result.details.experiment["where"] == "start" and result.summary()
    starts = result.details.models[0].evidence.starts[: world.states]
    np.testing.assert_allclose(result.details.starts[0, 0, 0], result.values[0, 0] @ (starts / starts.sum()))
    far = gvfx.evaluate_log(log, questions, where=[14])
    assert far.details.experiment["collect"] != gvfx.evaluate_log(log, questions, where=[0]).details.experiment["collect"]


@pytest.mark.full
@pytest.mark.compiled(8)
def test_plans():
    world, questions = small_world(), two_questions()
    costs = gvfx.plan(world, questions, 0.05, where="start", draws=20)
    best = gvfx.design.optimal(world, questions, where="start")
    assert costs["optimum"].steps == np.ceil(best.constant / 0.05)
    piloted = gvfx.plan(world, questions, 0.05, where="start", pilot=20_000, draws=20)
    assert piloted["optimum"].steps == pytest.approx(costs["optimum"].steps, rel=0.2)
    assert gvfx.plan(world, questions, 0.05, where=[1], pilot=20_000, draws=20)["Uniform"].steps != costs["Uniform"].steps


def test_continuous_observations():
    """A walk from one point, by a behaviour that is given: the mean over starts is the answer there, and its error that of the
    mean."""
    result = gvfx.evaluate(Walk(), WALK_QUESTIONS, gvfx.OptimalDesign(), steps=1500, where="start", evaluate_every=750)
    at = np.array([0, 0], np.float32)
    values = [v.value for v in result.value().values()]
    np.testing.assert_allclose(values, result.predict(at), rtol=1e-6)
    half = np.array([v.half for v in result.value().values()])
    wide = np.diff(result.intervals(at), axis=1)[:, 0] / 2
    assert (half >= wide * 0.999).all() and (half < 1.5 * wide).all()
    np.testing.assert_allclose(result.details.expected[0, -1], result.details.starts[0, :, 1] ** 2)
    points = np.array([[0, 0], [0.5, 0.5]], np.float32)
    over = gvfx.evaluate(Walk(), WALK_QUESTIONS, steps=1500, where=points, evaluate_every=750)
    errors = np.diff(over.intervals(points), axis=2)[:, :, 0] / 2 / over.details.predictor.quantile(0.025)
    np.testing.assert_allclose(over.details.expected[0, -1], (errors**2).mean(axis=1), rtol=1e-6)
    assert over.details.experiment["where"] == "2 observations" and over.value().keys() == result.value().keys()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("begin", "'begin' is unknown; give 'start', or a list of observations"),
        ([[1.0]], "does not fit its space"),
        ([[np.nan, 0.0]], "holds nan or infinity"),
        ([], "the list is empty"),
        (3, "3 is not an observation"),
    ],
)
def test_observations_are_checked(where, said):
    with pytest.raises(gvfx.InputError) as caught:
        gvfx.evaluate(Walk(), WALK_QUESTIONS, steps=10, where=where)
    assert str(caught.value).startswith("where: ") and said in str(caught.value)


def test_networks_have_start_values_with_a_spread():
    at = np.array([0, 1], np.float32)  # where every episode begins
    options = dict(learner=DEEP, steps=300, evaluate_every=300)
    for where in (None, "start"):
        result = gvfx.evaluate(Vectors(), HALF, where=where, **options)
        for i, value in enumerate(result.value().values()):
            assert value.value == pytest.approx(result.predict(at)[i], rel=1e-5) and np.isnan([value.low, value.truth]).all()
            assert value.spread == pytest.approx(result.details.spread(at)[i], rel=1e-4) and "spread" in str(value)
    np.testing.assert_allclose(result.details.expected[0, -1], result.details.spread(at) ** 2, rtol=1e-4)
    assert result.rows()[0]["spread"] == pytest.approx(result.value()["r"].spread)


def test_box_actions_have_start_values():
    env = gymnasium.make("Pendulum-v1", max_episode_steps=20)
    questions = [gvfx.GVF(gvfx.gaussian_policy(lambda o: np.zeros((len(o), 1)), 0.5), gvfx.Reward(), 0.9, name="still")]
    result = gvfx.evaluate(env, questions, learner=TWINS, steps=100, where="start", evaluate_every=100)
    value = result.value()["still"]
    assert np.isfinite(value.value) and np.isnan([value.low, value.spread]).all() and "value at the start" in result.summary()


def test_where_it_is_not_supported():
    with pytest.raises(gvfx.InputError, match="^where: networks learn everywhere in the same way; give 'start'"):
        gvfx.evaluate(Vectors(), HALF, learner=gvfx.Deep(), steps=10, where=[[0.0, 1.0]])
    with pytest.raises(gvfx.InputError, match="^where: .* on the continuous grid; give 'start'"):
        gvfx.evaluate(CONTINUOUS.world, CONTINUOUS.questions, learner=gvfx.LinearCertaintyEquivalence(), steps=10, where=[1])
    with pytest.raises(gvfx.InputError, match="^average_episodes:"):
        on_grid("start", learner=gvfx.ExpectedSarsa(), behaviour=gvfx.Uniform(), steps=Plan.checked(4000, None, (), 5))
    with pytest.raises(gvfx.InputError, match="^calibrate: with `where`"):
        gvfx.evaluate(Sound(), HALF, steps=10, where="start", calibrate=True)


@pytest.mark.full
@pytest.mark.compiled(8)
def test_command_line():
    options = ("-b", "OptimalDesign", "-l", "CertaintyEquivalence", "--steps", 4000, "--seeds", 1)
    assert "value at the start" in invoke("run", "distinct", *options, "--where", "start").stdout
    assert "state 3, state 17" in invoke("run", "distinct", *options, "--where", "3,17").stdout
    assert "where: 'begin' is unknown" in invoke("run", "distinct", *options, "--where", "begin").output
    assert "optimum" in invoke("plan", "distinct", "--error", 0.01, "--where", "start").stdout
