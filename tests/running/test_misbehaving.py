"""Environments that misbehave: the run names the field, the episode and the step, and keeps what was learned."""

from __future__ import annotations

import re
import threading
import time

import gymnasium
import numpy as np
import pytest
from faults.misbehaving import Stop, Walk, doing, put, raising

import gvfx

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="asked")]


def run(env, questions=QUESTIONS, **options):
    return gvfx.evaluate(env, questions, gvfx.Uniform(), steps=40, progress=False, **options)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (1, "1", "reward"),
        (1, None, "reward"),
        (1, float("inf"), "reward"),
        (1, 10**400, "reward"),
        (1, np.ones((2, 2)), "reward"),
        (2, "False", "terminated"),
        (2, float("nan"), "terminated"),
        (2, 2, "terminated"),
        (2, None, "terminated"),
        (2, np.array([True, False]), "terminated"),
        (3, "no", "truncated"),
        (0, None, "observation"),
        (0, 99, "observation"),
    ],
)
def test_wrong_answers_of_a_step(place, value, said, tmp_path):
    kept = tmp_path / "kept.gvfx"
    with pytest.raises(gvfx.EnvironmentFailed, match=rf"episode \d+, step \d+: .*{said}") as caught:
        run(Walk("tables", put(place, value), 10), save=kept)
    assert caught.value.result.details.snapshots[-1].step == 10
    assert gvfx.load(kept).details.snapshots[-1].step == 10


@pytest.mark.parametrize("form", ["tables", "linear"])
@pytest.mark.parametrize("size", [1e51, -1e154, 1e300])
def test_a_reward_too_large_to_be_computed_with_is_named_and_what_was_learned_is_kept(form, size):
    said = rf"episode \d+, step \d+: .*asked.cumulant: {re.escape(f'{size:g}')} is too large; divide the signal, so that it stays"
    with pytest.raises(gvfx.EnvironmentFailed, match=said) as caught:
        run(Walk(form, put(1, size), 10))
    assert caught.value.result.details.snapshots[-1].step == 10


def test_the_largest_reward_has_the_intervals_of_a_small_one():
    """Intervals need the fourth powers of sums of rewards."""
    small, large = (np.array(run(Walk("tables", put(1, size), 10)).value()["asked"][:3]) / size for size in (1e12, 1e50))
    assert np.allclose(small, large)


@pytest.mark.parametrize("flag", [np.bool_(False), 0, np.array(False), np.array(0)])
def test_endings_that_are_zero_or_one(flag):
    assert np.array_equal(run(Walk("tables", put(3, flag), 10)).values, run(Walk("tables")).values)


@pytest.mark.parametrize("place", [2, 3])
def test_endings_of_a_vector_environment(place):
    class Vector(gymnasium.vector.SyncVectorEnv):
        def step(self, actions):
            values = list(super().step(actions))
            values[place] = np.array(["False", "False"])
            return tuple(values)

    with pytest.raises(gvfx.EnvironmentFailed, match="terminated" if place == 2 else "truncated"):
        run(Vector([lambda: Walk("tables")] * 2))


def test_rewards_of_a_vector_environment():
    class Vector(gymnasium.vector.SyncVectorEnv):
        def step(self, actions):
            seen, _, *rest = super().step(actions)
            return (seen, ["a", "b"], *rest)

    with pytest.raises(gvfx.EnvironmentFailed, match="rewards"):
        run(Vector([lambda: Walk("tables")] * 2))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, Stop])
def test_what_ends_the_program_passes_and_keeps_what_was_learned(error, tmp_path):
    kept = tmp_path / "kept.gvfx"
    with pytest.raises(error) as caught:
        run(Walk("tables", raising(error), 10), save=kept)
    assert caught.value.result.details.snapshots[-1].step == 10 and kept.exists()
    assert any("episode" in note for note in caught.value.__notes__)


def test_a_progress_function_that_raises_keeps_what_was_learned():
    def progress(seed, step, error):
        if step == 20:
            raise LookupError("enough")

    with pytest.raises(LookupError) as caught:
        gvfx.evaluate(Walk("tables"), QUESTIONS, gvfx.Uniform(), steps=40, evaluate_every=10, progress=progress)
    assert caught.value.result.details.snapshots[-1].step == 20


def test_an_info_that_is_none():
    asked = [gvfx.GVF([0.5, 0.5], gvfx.Info("signal"), 0.9, name="asked")]
    with pytest.raises(gvfx.EnvironmentFailed, match="info is None; return a dict"):
        run(Walk("tables", put(4, None), 5), asked)


def test_an_array_that_is_overwritten_does_not_change_earlier_observations():
    class InPlace(Walk):
        def observed(self):
            self.buffer[:] = self.place
            return self.buffer

    def moved(observation, action, following):
        return float(following[0] - observation[0])

    asked = [gvfx.GVF([0.5, 0.5], moved, 0.9, name="moved")]
    learner = gvfx.LinearCertaintyEquivalence(intervals=False)
    own, plain = (
        gvfx.evaluate(kind("linear"), asked, gvfx.Uniform(), learner, steps=60, progress=False) for kind in (InPlace, Walk)
    )
    assert np.array_equal(own.values, plain.values) and plain.values.any()


def test_a_step_that_hangs_is_interrupted():
    begun = time.monotonic()
    with pytest.raises(gvfx.EnvironmentFailed, match=r"step took more than 0\.5 s, the step_limit") as caught:
        run(Walk("tables", doing(lambda: time.sleep(60)), 10), step_limit=0.5)
    assert time.monotonic() - begun < 40
    assert caught.value.result.details.snapshots[-1].step == 10


def test_outside_the_main_thread_a_hanging_step_is_warned_about():
    told: list[str] = []

    def work():
        with pytest.warns(UserWarning, match="has not returned for") as found:
            run(Walk("tables", doing(lambda: time.sleep(0.02)), 39), step_limit=0.005)
        told.extend(str(one.message) for one in found)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert any("cannot be interrupted" in text for text in told)


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "x", 10**400])
def test_limits_that_are_none(limit):
    with pytest.raises(gvfx.InputError, match="step_limit"):
        run(Walk("tables"), step_limit=limit)


@pytest.mark.parametrize(("place", "value", "said"), [(2, "no", "terminated"), (1, "1", "reward"), (0, -1, "observation")])
def test_truth_of_checks_every_step(place, value, said):
    with pytest.raises(gvfx.EnvironmentFailed, match=rf"episode \d+, step \d+: .*{said}"):
        gvfx.truth_of(Walk("tables", put(place, value), 7), QUESTIONS, max_episodes=10, horizon=20)


@pytest.mark.parametrize(
    ("place", "value", "said"), [(2, "no", "terminated"), (1, "1", "reward"), (0, [[1], [1, 2]], "observation")]
)
def test_check_finds_wrong_answers(place, value, said):
    found = gvfx.check(Walk("tables", put(place, value), 7), steps=20)
    assert any(finding.severity == "error" and finding.field == said for finding in found)
