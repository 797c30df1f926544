"""The one loop, on every backend: killed, interrupted or failing, what was learned is kept and the run can be continued."""

from __future__ import annotations

import signal
import warnings
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from helpers.critics import SMALL as CRITICS
from helpers.critics import WORLD
from helpers.environments import Sound, Veiled, break_down, broken
from helpers.networks import DEEP, TWINS
from helpers.scanned import BEHAVIOUR, SMALL, questions

import gvfx
from gvfx.errors import Diverged
from gvfx.questions.signals import Signal
from gvfx.running.backends import open_backend
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.drive import Interrupted, Interruption, drive
from gvfx.running.plan import Options, Plan
from gvfx.running.tracking import Calls, Listeners
from gvfx_paper.loops.critics_lockstep import CriticsLockstep
from gvfx_paper.targets import Target
from gvfx_paper.worlds.continuous_grid import paper_grid

PLAN = Plan.checked(480, 80, (240,))
REWARD = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="reward")]
SWING = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.9, name="swing")]


def table_compiled():
    world = gvfx.gridworld(4, {"goal": (0, 0)})
    asked = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(10, 1, at="goal"), 0.9, name="goal")]
    return open_backend(world, asked, options=Options(PLAN))


def table_gym():
    return open_backend(
        Veiled(gym.make("FrozenLake-v1")), REWARD, gvfx.RoundRobin(), gvfx.CertaintyEquivalence(), options=Options(PLAN)
    )


def network_scanned(learner=SMALL):
    return open_backend(paper_grid(), questions(), BEHAVIOUR, learner, options=Options(PLAN))


def network_gym(learner=DEEP):
    return open_backend(gym.make("CartPole-v1"), REWARD, gvfx.Epsilon(gvfx.GVFExplorer()), learner, options=Options(PLAN))


def critics_lockstep(behaviour=None, learner=CRITICS):
    generator = np.random.default_rng(1)
    observations, actions = generator.normal(size=(5, 17)), generator.uniform(-1, 1, (5, 6))
    truth = SimpleNamespace(observations=observations, actions=actions, values=generator.uniform(0, 10, (5, 2)))
    asked = [gvfx.GVF(Target.shipped("cheetah", task), Signal(task), 0.99, name=task) for task in WORLD.tasks]
    return CriticsLockstep(WORLD, asked, behaviour or gvfx.Hold(gvfx.GVFExplorer()), learner, PLAN, truth)


def critics_gym():
    return open_backend(gym.make("Pendulum-v1"), SWING, gvfx.Hold(gvfx.GVFExplorer()), TWINS, options=Options(PLAN))


OF_THE_PAPER = [(network_scanned, SMALL), (critics_lockstep, CRITICS)]
BACKENDS = [
    *(table_compiled, table_gym, network_gym, critics_gym),
    *(pytest.param(make, marks=pytest.mark.full) for make, _ in OF_THE_PAPER),
]


class Crash(Exception):
    """Nobody expects it: the run is gone as if killed."""


@pytest.mark.parametrize("make", BACKENDS, ids=lambda make: make.__name__)
def test_a_run_that_is_killed_or_interrupted_is_continued(make, tmp_path):
    run = make()
    own_world = not run.one_environment
    (whole,) = drive(run, run.begin(3))

    def crash(seed, t, error):
        if t == 320:
            raise Crash

    keep = lambda name: Checkpoints(tmp_path / name, "seed-0003", "test")  # noqa: E731
    with pytest.raises(Crash):
        drive(run, run.begin(3), listeners=Listeners(Calls(crash)), checkpoints=keep("killed"), checkpoint_every=0.0)
    since = int(keep("killed").load()["drive"][1])
    assert 240 <= since < 320
    continued(run, keep("killed"), whole, own_world, 240, since)

    asked = Interruption()

    def interrupt(seed, t, error):
        if t == 160:
            asked.signum = signal.SIGINT

    with pytest.raises(Interrupted, match=r"^interrupted at step \d+; the run is kept in .*; start it again") as caught:
        drive(run, run.begin(3), listeners=Listeners(Calls(interrupt)), checkpoints=keep("stopped"), interruption=asked)
    (part,) = caught.value.parts
    assert caught.value.exit_code == 130 and 160 < caught.value.step < 480
    assert part.steps.tolist() == [80, 160] and part.snapshot_steps.tolist()[-1] == caught.value.step
    assert np.isfinite(part.values).all() and part.values.shape[1:] == whole.values.shape[1:]
    continued(run, keep("stopped"), whole, own_world, 160, caught.value.step)


@pytest.mark.compiled(2)
def test_checkpoints_are_written_between_measurements_too(tmp_path):
    world = gvfx.gridworld(4, {"goal": (0, 0)})
    asked = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(10, 1, at="goal"), 0.9, name="goal")]
    learner = gvfx.ExpectedSarsa()
    run = open_backend(world, asked, gvfx.Uniform(), learner, options=Options(Plan.checked(100_000, 100_000, ())))
    (whole,) = drive(run, run.begin(3))
    keep = Checkpoints(tmp_path, "seed-0003", "test")

    def crash(seed, t, error):
        raise Crash

    with pytest.raises(Crash):
        drive(run, run.begin(3), listeners=Listeners(Calls(crash)), checkpoints=keep, checkpoint_every=0.0)
    assert 0 < keep.load()["drive"][1] < 100_000
    (part,) = drive(run, run.begin(3), checkpoints=keep)
    assert all(array.tobytes() == part.arrays()[name].tobytes() for name, array in whole.arrays().items())


def continued(run, checkpoints, whole, same, measured, since):
    """The run goes on from a checkpoint to its end; a world of ours gives the same bytes, an environment a new episode."""
    stream = run.begin(3)
    heard = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        listeners = Listeners(Calls(lambda seed, t, error: heard.append(t)))
        (part,) = drive(run, stream, listeners=listeners, checkpoints=checkpoints)
    assert heard == [t for t in PLAN.evaluations if t > measured]
    assert part.steps.tolist() == list(PLAN.evaluations) and part.snapshot_steps.tolist() == list(PLAN.snapshots)
    if same:
        assert not said
        assert all(array.tobytes() == part.arrays()[name].tobytes() for name, array in whole.arrays().items())
    else:
        assert f"continues at step {since}; the environment itself is not stored" in str(said[0].message)
        assert np.isfinite(part.values).all()
    (again,) = drive(run, run.begin(3), checkpoints=checkpoints)  # a finished run gives its result at once
    assert all(array.tobytes() == again.arrays()[name].tobytes() for name, array in part.arrays().items())


@pytest.mark.parametrize(
    ("kind", "asked", "learner"),
    [
        (Sound, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9)], gvfx.CertaintyEquivalence()),
        (lambda: gym.make("CartPole-v1").unwrapped, REWARD, replace(DEEP, capacity=480)),
        (lambda: gym.make("Pendulum-v1").unwrapped, SWING, replace(TWINS, capacity=480)),
    ],
    ids=["table_gym", "network_gym", "critics_gym"],
)
def test_an_environment_that_fails_keeps_what_was_learned_and_can_be_continued(kind, asked, learner, tmp_path):
    env = kind()
    failing = broken(type(env), 200, break_down)
    failing.spec = getattr(env, "spec", None)
    options = {"steps": 480, "evaluate_every": 80, "save": tmp_path / "kept.gvfx", "checkpoint": tmp_path / "runs"}
    with pytest.raises(gvfx.EnvironmentFailed, match="out of oil") as caught:
        gvfx.evaluate(failing, asked, gvfx.RoundRobin(), learner, **options)
    result = caught.value.result
    assert result.steps.tolist() == [80, 160] and result.details.snapshots[-1].step == 200 and "out of oil" in result.summary()
    assert gvfx.load(tmp_path / "kept.gvfx").values.tobytes() == result.values.tobytes()
    failing.count = -1000  # mended
    with pytest.warns(UserWarning, match="continues at step 200; the environment itself is not stored"):
        whole = gvfx.evaluate(failing, asked, gvfx.RoundRobin(), learner, **options)
    assert whole.steps.tolist() == [80, 160, 240, 320, 400, 480] and whole.visits.sum() == 480


@pytest.mark.parametrize(
    ("make", "learner"), [(network_gym, DEEP), *(pytest.param(*each, marks=pytest.mark.full) for each in OF_THE_PAPER)]
)
def test_a_number_that_is_not_finite_keeps_what_was_measured_before(make, learner, tmp_path):
    run = make(learner=replace(learner, rate_q=1e30, learning_starts=200))
    with pytest.raises(Diverged) as caught:
        drive(run, run.begin(0), checkpoints=Checkpoints(tmp_path, "seed", "test"), checkpoint_every=0.0)
    (part,) = caught.value.parts
    assert len(part.steps) < len(PLAN.evaluations)
    if make is network_gym:  # an environment has no truth
        assert np.nanmax(np.abs(part.values)) < 1e3
    else:
        assert np.isfinite(part.mse).all()
