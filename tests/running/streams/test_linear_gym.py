"""Linear learning in environments stepped from Python: what is kept, endings, vectors, plans, resuming, failures."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.environments import BREAKS, Clock, Walk, broken
from helpers.environments import WALK_QUESTIONS as QUESTIONS

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.running.streams.linear import LinearGym
from gvfx.running.streams.network_gym import NetworkGym

UNIFORM = gvfx.Uniform()


class Ticking(Clock):
    action_space = gym.spaces.Discrete(2)


class Timeless(Walk):
    """The walk without its clock: what follows the last step of an episode is seen at other times too."""

    def look(self):
        return np.array([self.x, 0.0], np.float32)


def backend(env=None, behaviour=UNIFORM, learner=None, steps=600, questions=QUESTIONS, **more):
    return open_backend(env or Walk(), questions, behaviour, learner, options=Options(Plan.checked(steps, steps, ()), **more))


def driven(run, seed=0, steps=600):
    stream = run.begin(seed)
    stream.start()
    for stop in sorted(stop for stop in {*stream.agent.stops, steps} if stop <= steps):
        stream.advance(stop)
        stream.agent.pause(stop)
    return stream


def test_transitions_are_kept_as_they_were_made():
    made = []

    class Watched(Walk):
        def reset(self, **more):
            observation, info = super().reset(**more)
            self.seen = observation
            return observation, info

        def step(self, action):
            out = super().step(action)
            made.append((self.seen, action - 3, out[0], out[1], out[2]))
            self.seen = out[0]
            return out

    data = driven(backend(Watched())).agent.data
    assert len(data) == len(made) == 600
    for t, (seen, action, following, reward, terminated) in enumerate(made):
        assert np.array_equal(data.observation[t], seen)
        assert np.array_equal(data.following[t], following)
        assert data.action[t] == action
        assert data.cumulant[t, 0] == pytest.approx(reward)
        assert data.discount[t].tolist() == ([0, 0, 0] if terminated else [0.9, 0.5 if following[0] > 0.5 else 0.8, 0.7])
        assert np.allclose(data.pi[t, 0], [0.5, 0.8 if following[0] > 0 else 0.3])
    assert data.member.tolist() == [0, 1, 1]
    assert (np.diff(data.episode) == data.first[1:]).all()


def test_terminations_end_sums_and_truncations_do_not():
    for terminates, expected in ((True, [1.9, 1.0]), (False, [10.0, 10.0])):
        result = gvfx.evaluate(Ticking(terminates), [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)], UNIFORM, steps=400)
        values = result.predict(np.array([[0.5], [0.75]], np.float32))[0]
        assert np.allclose(values, expected, atol=0.05)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_in_every_mode_keep_the_same_kind_of_transitions(mode):
    env = SyncVectorEnv([Walk] * 3, autoreset_mode=mode)
    stream = driven(backend(env, steps=300), steps=300)
    data = stream.agent.data
    assert len(data) >= 300
    assert data.first.sum() == len(np.unique(data.episode))
    late = data.following[:, 1] > 0.99  # cut after twelve steps, never the observation of a new episode
    assert (np.abs(data.following[:, 1] - data.observation[:, 1] - 1 / 12) < 1e-5).all()
    assert (data.discount[late & (data.following[:, 0] <= 1), 0] == 0.9).all()


def test_capacity_keeps_a_random_sample_and_says_so():
    learner = gvfx.LinearCertaintyEquivalence(capacity=200)
    run = backend(learner=learner)
    stream = driven(run)
    assert len(stream.agent.data) == 200
    assert stream.agent.at.kept.used.tolist() == [200, 600]
    ages = np.sort(stream.agent.data.episode / stream.agent.at.t[1])
    assert abs(ages.mean() - 0.5) < 0.1  # the whole run, not its beginning or end
    result = gvfx.evaluate(Walk(), QUESTIONS, UNIFORM, learner, steps=600)
    assert result.details.experiment["kept"] == "a random 200 of 600 transitions"


def test_the_same_seed_gives_the_same_run_whenever_it_is_measured():
    runs = [gvfx.evaluate(Walk(), QUESTIONS, steps=900, evaluate_every=every, seed=3) for every in (900, 100)]
    assert np.array_equal(runs[0].values, runs[1].values)
    assert np.array_equal(runs[0].details.behaviour, runs[1].details.behaviour)


def test_a_run_continues_from_its_state():
    run = backend(behaviour=gvfx.OptimalDesign(first=100), steps=900)
    whole = driven(run, steps=500)
    other = run.begin(0)
    other.restore({name: array.copy() for name, array in whole.state().items()})
    assert other.t == 500
    assert np.array_equal(other.agent.data.observation, whole.agent.data.observation)
    assert np.array_equal(other.agent.at.behaviour.table, whole.agent.at.behaviour.table)
    points = whole.agent.data.observation[:5]
    assert np.array_equal(other.agent.at.cells(points), whole.agent.at.cells(points))
    pi = np.full((1, 2, 3), 0.5)
    assert np.array_equal(
        other.agent.answers(False, True)[0].values(points, pi), whole.agent.answers(False, True)[0].values(points, pi)
    )


def test_checkpoints_of_a_finished_run_give_its_result_again(tmp_path):
    first, again = (gvfx.evaluate(Walk(), QUESTIONS, steps=500, seed=1, checkpoint=tmp_path) for _ in range(2))
    assert np.array_equal(first.values, again.values)


def test_designs_on_cells_plan_and_other_behaviours_run_too():
    for behaviour in (gvfx.OptimalDesign(first=100), gvfx.GVFExplorer(), gvfx.RoundRobin(), gvfx.Mixture()):
        stream = driven(backend(behaviour=behaviour, steps=1100), steps=1100)
        mu = stream.agent.probabilities(stream.agent.data.observation[:20], np.full((20, 2, 2), 0.5))
        assert np.allclose(mu.sum(axis=1), 1)
        assert len(np.unique(stream.agent.at.cells(stream.agent.data.observation))) > (1 if behaviour.needs_variance else 0)


def test_plain_defaults_are_linear_for_few_numbers_and_networks_for_many():
    class Wide(Walk):
        observation_space = gym.spaces.Box(-5, 5, (13,), np.float32)

    assert isinstance(backend(behaviour=None), LinearGym)
    assert isinstance(backend(Wide(), behaviour=None), NetworkGym)
    assert isinstance(backend(learner=gvfx.Deep()), NetworkGym)
    assert isinstance(backend(behaviour=gvfx.SuccessorRepresentation()), NetworkGym)


def test_intervals_predictions_and_saved_results(tmp_path):
    result = gvfx.evaluate(Walk(), QUESTIONS, steps=600)
    assert result.intervals().shape == (3, 64, 2)
    between = result.intervals(np.array([0.0, 0.0], np.float32))
    assert (between[:, 0] <= result.predict(np.array([0.0, 0.0], np.float32))).all()
    narrow, wide = (np.diff(result.intervals(level=level)).mean() for level in (0.5, 0.95))
    assert wide / narrow == pytest.approx(2.7764 / 0.74070, rel=1e-3)  # Student's t with 4 degrees of freedom
    result.save(tmp_path / "result")
    again = gvfx.load(tmp_path / "result", Walk(), QUESTIONS)
    assert np.allclose(again.intervals(), result.intervals(), atol=1e-5)
    assert np.allclose(again.predict(np.array([0.1, 0.2], np.float32)), result.predict(np.array([0.1, 0.2], np.float32)))


def test_a_run_stops_once_its_error_is_known_to_be_small():
    result = gvfx.evaluate(Timeless(), QUESTIONS[:1], steps=20_000, evaluate_every=20_000, until=gvfx.error_below(3.0))
    assert result.stopped[0] < 20_000
    assert result.details.bounds[0] < 3.0


@pytest.mark.parametrize(("change", "said"), BREAKS)
def test_environments_that_fail_are_named(change, said):
    with pytest.raises(gvfx.EnvironmentFailed, match=said):
        gvfx.evaluate(broken(Ticking, 30, change), [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)], UNIFORM, steps=100)
