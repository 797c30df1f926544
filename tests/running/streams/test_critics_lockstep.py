"""Twin critics on MuJoCo's worlds: runs, their resumption, as an experiment, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.critics import SMALL, WORLD, make_agent
from helpers.driving import driven

from gvfx.behaviours.actor import PAPER as PAPER_ACTOR
from gvfx.behaviours.actor import Actor
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture, RoundRobin
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.wrappers import Hold
from gvfx.errors import Diverged, InputError
from gvfx.experiments.specification import Experiment
from gvfx.learners.networks.actor_critic import squashed_mean
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.twin_critics import PAPER, TwinCritics
from gvfx.questions.cumulants import Constant, Signal
from gvfx.questions.gvf import GVF
from gvfx.running.backends import open_backend
from gvfx.running.plan import Plan
from gvfx.running.streams.critics_lockstep import AsLearned, CriticsLockstep
from gvfx.worlds.mujoco import CHEETAH


@pytest.fixture(scope="module")
def questions(targets):
    return tuple(GVF(t, Signal(name), 0.99, name=name) for t, name in zip(targets, CHEETAH.tasks, strict=True))


@pytest.fixture(scope="module")
def truth():
    generator = np.random.default_rng(1)
    return SimpleNamespace(
        observations=generator.normal(size=(5, 17)),
        actions=generator.uniform(-1, 1, (5, 6)),
        values=generator.uniform(0, 10, (5, 2)),
    )


@pytest.mark.parametrize(
    ("behaviour", "learner"),
    [
        pytest.param(Actor(share=0.5, hidden=(8,)), replace(SMALL, hidden=(8,), updates=1), id="small actor"),
        pytest.param(Actor(share=0.5), SMALL, id="actor", marks=pytest.mark.slow),
        pytest.param(Hold(GVFExplorer()), SMALL, id="explorer", marks=pytest.mark.slow),  # fast: tests/running/test_drive.py
    ],
)
def test_killed_and_resumed_gives_the_same_bytes(questions, truth, behaviour, learner, tmp_path):
    run = CriticsLockstep(WORLD, questions, behaviour, learner, Plan.checked(480, 160, (320,)), truth)
    (whole,) = driven(run, 7)

    def stop(seed, step, error):
        if step == 320:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driven(run, 7, progress=stop, folder=tmp_path)
    assert list(tmp_path.glob("*.checkpoint"))
    heard = []
    (resumed,) = driven(run, 7, folder=tmp_path, progress=lambda seed, done, error: heard.append(done))
    assert heard == [320, 480]  # not from the beginning
    for name, array in whole.arrays().items():
        assert array.tobytes() == resumed.arrays()[name].tobytes(), name
    assert whole.mse.shape == (3, 2) and whole.values.shape == (2, 2, 5)
    assert (whole.actor.size > 0) == behaviour.needs_actor


@pytest.mark.parametrize(
    "behaviour", [Actor(hidden=(8,)), Hold(GVFExplorer(), steps=5), RoundRobin()], ids=["actor", "M", "none"]
)
def test_stored_weights_act_as_the_behaviour_did_at_the_end(questions, truth, behaviour):
    """The stored networks give what the run measured at its end: the actor its middle actions, M's critics their variances."""
    learner = replace(SMALL, hidden=(8,), updates=1)
    run = CriticsLockstep(WORLD, questions, behaviour, learner, Plan.checked(160, 160, ()), truth)
    (part,) = driven(run, 3)
    assert (part.actor.size > 0) == behaviour.needs_actor
    assert (part.critics.size > 0) == (behaviour.needs_variance and not behaviour.needs_actor)
    assert ("critics" in part.arrays()) == (part.critics.size > 0)
    again = AsLearned(run, part.actor, part.critics, worlds=3)
    points, actions = np.float32(truth.observations), np.float32(truth.actions)
    if behaviour.needs_actor:
        np.testing.assert_allclose(squashed_mean(again.learning.actor.actor, points), part.behaviour[-1], rtol=1e-5)
    elif behaviour.needs_variance:
        m = run.predict(again.learning.critics.m, points, actions)
        np.testing.assert_allclose(np.transpose(m), part.variances[-1], rtol=1e-5)
        with pytest.raises(InputError, match="weights"):
            AsLearned(run, None, part.critics[:-1])
    followed = np.array([again.act(np.zeros((3, 17)), np.random.default_rng(k))[1] for k in range(40)])
    assert followed.shape == (40, 3) and set(followed.ravel()) <= ({2} if behaviour.needs_actor else {0, 1})
    if isinstance(behaviour, Hold):  # a choice is kept for five steps on average
        assert 0 < np.mean(followed[1:] != followed[:-1]) < 0.3


def test_a_number_that_is_not_finite_stops_the_run(questions, truth):
    run = CriticsLockstep(WORLD, questions, RoundRobin(), replace(SMALL, rate_q=1e30), Plan.checked(320, 160, ()), truth=truth)
    with pytest.raises(Diverged, match=r"the loss of Q of 'walk' became (nan|inf) at step \d+ \(seed 0\)"):
        driven(run, 0)


def test_experiment_has_a_json_round_trip(questions):
    experiment = Experiment(CHEETAH, questions, PAPER_ACTOR, PAPER, steps=1600, evaluate_every=160)
    again = Experiment.from_json(experiment.json)
    assert again == experiment and again.hash == experiment.hash
    assert Experiment(CHEETAH, questions, Actor(), PAPER, 1600, 160).hash != experiment.hash


def test_bad_input_is_one_sentence(questions, targets, truth):
    plan = Plan.checked(320, 160, ())
    cases = [
        (lambda: TwinCritics(aggregate="max"), "aggregate"),
        (lambda: TwinCritics(tau=1.5), "tau"),
        (lambda: TwinCritics(rate_q=float("nan")), "rate_q"),
        (lambda: TwinCritics(capacity=1001), "capacity"),
        (lambda: TwinCritics(m_every=3), "m_every"),
        (lambda: Actor(direction="up"), "direction"),
        (lambda: Actor(kl_weight=-1), "kl_weight"),
        (lambda: Actor(share=0), "share"),
        (lambda: open_backend(CHEETAH, questions, RoundRobin(), Deep(), plan=plan), "learner: Deep does not fit"),
        (lambda: make_agent(targets, SuccessorRepresentation(), SMALL), "continuous actions"),
        (lambda: Hold(Mixture(), steps=0.5), "steps"),
        (lambda: make_agent(targets, Actor(updates=9), SMALL), "updates"),
        (
            lambda: CriticsLockstep(WORLD, questions, RoundRobin(), SMALL, Plan.checked(321, 160, ()), truth=truth),
            "evaluate_every",
        ),
    ]
    walk = questions[0]
    for wrong, field in (
        (replace(walk, cumulant=Constant(1.0)), "walk.cumulant"),
        (replace(walk, policy=[0.5, 0.5]), "walk.policy"),
        (replace(walk, discount=lambda s, a, n: 0.9), "walk.discount"),
    ):
        cases.append((lambda wrong=wrong: CriticsLockstep(WORLD, [wrong], RoundRobin(), SMALL, plan, truth=truth), field))
    for make, field in cases:
        with pytest.raises(InputError, match=field) as caught:
            make()
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
