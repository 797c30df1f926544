"""calibrate=True through gvfx.evaluate: resumed exactly, errors with the same weights as the behaviour, and what is refused."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.driving import driven
from helpers.environments import Sound, Vectors, Veiled
from helpers.networks import DEEP
from helpers.recording import Push
from helpers.scanned import BEHAVIOUR, questions, runner
from helpers.worlds import small_world, two_questions

import gvfx
from gvfx.behaviours.wrappers import Calibrated
from gvfx.questions.gvf import calibrated_weights
from gvfx.running.backends import open_backend
from gvfx.running.plan import Method, Options, Plan
from gvfx.running.streams.table_compiled import TableCompiled

EXPLORER = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
HALF = [0.5, 0.5]
UNEQUAL = [  # in `Sound` and `Vectors`; the second pays a thousand times as much as the first
    gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="small"),
    gvfx.GVF([0.2, 0.8], lambda o, a, r, o2, info: 1000 * r, 0.9, name="large"),
]


class Stop(Exception):
    pass


def stopping(at):
    def stop(seed, done, error):
        if done == at:
            raise Stop

    return stop


def equal(a, b):
    first, second = a.arrays(), b.arrays()
    return first.keys() == second.keys() and all(first[k].tobytes() == second[k].tobytes() for k in first)


def table_backend():
    options = Options(Plan.checked(800, 80, (400,)), calibrate=True)
    return TableCompiled(small_world(), two_questions(), Method(Calibrated(EXPLORER), gvfx.ExpectedSarsa()), options)


def grid_backend():
    return runner(behaviour=Calibrated(BEHAVIOUR), calibrate=True)


@pytest.mark.parametrize("backend", [table_backend, pytest.param(grid_backend, marks=pytest.mark.full)])
def test_the_same_bytes_again_and_resumed(backend, tmp_path):
    run = backend()
    (whole,) = driven(run, 3)
    assert equal(whole, driven(run, 3)[0])
    with pytest.raises(Stop):
        driven(run, 3, progress=stopping(480), folder=tmp_path)
    assert equal(whole, driven(backend(), 3, folder=tmp_path)[0])


@pytest.mark.parametrize(
    ("env", "learner", "found"),
    [
        (Sound, gvfx.ExpectedSarsa(0.2), lambda stream: stream.agent.at.behaviour.scales),
        (Vectors, DEEP, lambda stream: stream.agent.decider.states[0].scales),
    ],
    ids=["table", "network"],
)
def test_scales_survive_a_checkpoint_in_an_environment(env, learner, found):
    backend = open_backend(env(), UNEQUAL, EXPLORER, learner, options=Options(Plan.checked(1000, None, ()), calibrate=True))
    stream, other = backend.begin(0), backend.begin(0)
    stream.start()
    stream.advance(300)
    other.restore(stream.state())
    assert found(stream).square[1] > 1e5 * found(stream).square[0] > 0
    for kept, restored in zip(found(stream), found(other), strict=True):
        np.testing.assert_array_equal(kept, restored)


def test_errors_are_weighted_by_true_scales_where_they_are_known():
    world, asked = small_world(), two_questions()
    result = gvfx.evaluate(world, asked, EXPLORER, gvfx.ExpectedSarsa(), steps=800, calibrate=True)
    squares = (gvfx.exact.values(world, asked)[:, world.live] ** 2).mean(axis=1)
    np.testing.assert_allclose(result.details.weights[0] / result.details.weights[1], 2.0 * squares[1] / squares[0])
    assert result.details.experiment["calibrate"] is True and result.details.experiment["behaviour"] == repr(EXPLORER)
    backend, plain = grid_backend(), runner()
    values = backend.truth.values
    np.testing.assert_allclose(backend.weights, calibrated_weights(values, np.full(400, 1 / 400)))
    np.testing.assert_array_equal(backend.engine.weights, plain.engine.weights)  # the behaviour divides them by its own scales
    assert "calibrate" not in plain.described()


@pytest.mark.parametrize(("env", "learner"), [(Sound, gvfx.CertaintyEquivalence()), (Vectors, DEEP)], ids=["table", "network"])
def test_estimated_errors_are_weighted_by_the_answers(env, learner):
    heard = []
    options = {"steps": 480, "evaluate_every": 480, "progress": lambda seed, done, error: heard.append(error)}
    result = gvfx.evaluate(env(), UNEQUAL, EXPLORER, learner, calibrate=True, **options)
    visited = result.visits[0].sum(axis=1) > 0
    squares = (result.values[0][:, visited] ** 2).mean(axis=1)
    assert squares[1] > 1e5 * squares[0]
    np.testing.assert_allclose(result.details.weights[0] / result.details.weights[1], squares[1] / squares[0])
    shares = result.details.weights / result.details.weights.sum()
    assert heard == pytest.approx([result.details.expected[0, -1] @ shares], rel=1e-6)
    plain = gvfx.evaluate(env(), UNEQUAL, gvfx.Uniform(), learner, **options)
    assert plain.details.weights.tolist() == [1, 1] and heard[1] == pytest.approx(plain.details.expected[0, -1].mean())


@pytest.mark.full
@pytest.mark.compiled(12)
def test_plans_and_stops_in_an_environment_count_relative_errors():
    """FrozenLake with its table hidden, one question in units of a thousandth."""
    env, pi = gym.make("FrozenLake-v1"), gvfx.uniform_policy()
    asked = [gvfx.GVF(pi, gvfx.Reward(), 0.95, name="goal"), gvfx.GVF(pi, lambda s, a, s2: 1000 * (s2 % 3), 0.9, name="third")]
    known = gvfx.plan(env, asked, 1e-3, calibrate=True, draws=50)
    pilot = gvfx.plan(Veiled(env), asked, 1e-3, pilot=30_000, calibrate=True, draws=50)
    assert pilot["optimum"].steps == pytest.approx(known["optimum"].steps, rel=0.25)
    relative, also, absolute = (
        gvfx.evaluate(Veiled(env), asked, gvfx.Uniform(), steps=60_000, calibrate=c, until=gvfx.error_below(0.03, relative=r))
        for c, r in ((False, True), (True, True), (True, False))
    )
    assert relative.stopped[0] == also.stopped[0] < 60_000
    assert absolute.stopped[0] < 60_000 and absolute.details.expected[0, -1, 1] > 1.0  # far above the target, in its own units


class HiddenGrid(gym.Env):
    """The small grid, its table hidden; `info` tells what acting in its goals pays, N(1, 0.1) and N(1000, 100)."""

    action_space = gym.spaces.Discrete(4)

    def __init__(self):
        self.world = small_world()
        self.observation_space = gym.spaces.Discrete(self.world.states)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s, self.t = int(self.np_random.choice(self.world.states, p=self.world.start)), 0
        return self.s, {}

    def step(self, action):
        draws = {"left": self.np_random.normal(1, 0.1), "right": self.np_random.normal(1000, 100)}
        info = {name: draw * (self.s in self.world.places[name]) for name, draw in draws.items()}
        self.s = int(self.np_random.choice(self.world.next[self.s, action], p=self.world.prob[self.s, action]))
        self.t += 1
        return self.s, 0.0, bool(self.world.terminal[self.s]), self.t >= 20, info


SIDES = [gvfx.GVF(pi, gvfx.Info(name), 0.9) for pi, name in (([0.4, 0.1, 0.4, 0.1], "left"), ([0.1, 0.4, 0.1, 0.4], "right"))]


def test_optimal_design_visits_both_goals_alike():
    """In twelve seeds: 89 to 105 and 432 to 450 visits of three runs without calibration, 341 to 357 and 360 to 381 with it."""
    options = {"steps": 3000, "evaluate_every": 3000}
    visits = []
    for calibrate in (False, True):
        result = gvfx.evaluate(HiddenGrid(), SIDES, gvfx.OptimalDesign(first=300), calibrate=calibrate, **options)
        visits.append(result.visits[0, [0, 3]].sum(axis=1))
    assert 3 * visits[0][0] < visits[0][1] and 0.67 < visits[1][0] / visits[1][1] < 1.5


def test_the_explorer_answers_the_small_question_too():
    """In fifteen seeds the relative error of `left` falls a hundredfold."""
    world, learner = small_world(), gvfx.ExpectedSarsa(gvfx.Linear(1.0, 0.02, 4000), 0.1, initial_q=0.0)
    truth = gvfx.exact.values(world, [gvfx.GVF(SIDES[0].policy, gvfx.Constant(1.0, at="left"), 0.9)])[0, world.live]
    off = []
    for calibrate in (False, True):
        result = gvfx.evaluate(HiddenGrid(), SIDES, gvfx.Floor(gvfx.GVFExplorer()), learner, steps=4000, calibrate=calibrate)
        off.append(((result.values[0, 0, world.live] - truth) ** 2).mean())
    assert off[1] < off[0] / 10


def test_another_calibration_is_another_experiment(tmp_path):
    options = {"steps": 300, "checkpoint": tmp_path}
    gvfx.evaluate(Sound(), UNEQUAL, calibrate=True, **options)
    with pytest.raises(gvfx.StoreError, match=r"^checkpoint: .* belongs to another experiment"):
        gvfx.evaluate(Sound(), UNEQUAL, **options)


def test_critics_divide_weights_by_the_scales_of_their_answers():
    asked = [gvfx.GVF(gvfx.gaussian_policy([0.5], 0.5), lambda o, a, r, o2, info: 30.0, 0.8, name="large")]
    asked = [gvfx.GVF(asked[0].policy, 1.0, 0.8, name="small"), *asked]
    learner = gvfx.TwinCritics(hidden=(16,), batch=32, learning_starts=40, capacity=400)
    options = Options(Plan.checked(600, None, ()), calibrate=True)
    backend = open_backend(Push(), asked, gvfx.Hold(gvfx.GVFExplorer()), learner, options=options)
    stream, other = backend.begin(0), backend.begin(0)
    stream.start()
    stream.advance(600)
    scales = stream.agent.calibration
    assert 200 < scales.square[1] / scales.square[0] < 3000  # the true ratio is 900
    np.testing.assert_allclose(stream.agent.weights, scales.factor * stream.agent.scales.unit**2, rtol=1e-5)
    other.restore(stream.state())
    np.testing.assert_array_equal(other.agent.calibration.square, scales.square)
    plain = open_backend(Push(), asked, gvfx.RoundRobin(), learner, options=options).begin(0)
    assert plain.agent.calibration is None  # a behaviour that reads no variance has no use for them


def test_questions_of_the_grid_keep_their_own_weights_too():
    asked = [gvfx.GVF(q.policy, q.cumulant, q.discount, weight=w) for q, w in zip(questions(), (1.0, 4.0), strict=True)]
    backend = open_backend(
        runner().world, asked, BEHAVIOUR, runner().learner, options=Options(Plan.checked(80, 80, ()), calibrate=True)
    )
    np.testing.assert_allclose(backend.weights / grid_backend().weights, [1.0, 4.0])
    assert np.asarray(backend.begin(0).now.acting[0]).tolist() == [1.0, 4.0]
