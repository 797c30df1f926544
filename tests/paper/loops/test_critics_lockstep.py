"""Twin critics on MuJoCo's worlds: runs, their resumption, as an experiment, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from helpers.critics import ONE_STEP, SMALL, WORLD, make_agent, plain
from helpers.driving import driven

from gvfx.behaviours.explorer import Actor, GVFExplorer, MixtureActor
from gvfx.behaviours.fixed import Mixture, RoundRobin
from gvfx.behaviours.rivals import SuccessorRepresentation
from gvfx.behaviours.wrappers import Alternate, Hold
from gvfx.errors import Diverged, InputError
from gvfx.experiments.specification import Experiment
from gvfx.learners.networks.learners import Deep, TwinCritics
from gvfx.questions.gvf import GVF
from gvfx.questions.signals import Constant, Signal
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx_paper.algorithm2 import ACTORS, CRITICS
from gvfx_paper.loops.critics_lockstep import AsLearned, CriticsLockstep
from gvfx_paper.loops.lookahead import ROLLOUTS
from gvfx_paper.worlds.mujoco import CHEETAH


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
        pytest.param(Actor(share=0.5, hidden=(8,)), replace(ONE_STEP, hidden=(8,), updates=2), id="small actor"),
        pytest.param(
            Hold(MixtureActor(hidden=(8,))), replace(SMALL, hidden=(8,), lookahead=2, refresh_every=16), id="mixture actor"
        ),
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
    assert ("actor" in whole.extra) == behaviour.needs_actor


@pytest.mark.parametrize(
    "behaviour",
    [Actor(hidden=(8,)), Hold(MixtureActor(hidden=(8,)), steps=5), Hold(GVFExplorer(), steps=5), RoundRobin()],
    ids=["actor", "mixture", "M", "none"],
)
def test_stored_weights_act_as_the_behaviour_did_at_the_end(questions, truth, behaviour):
    """The stored networks give what the run measured at its end: the actor its middle actions, M's critics their variances."""
    learner = replace(SMALL, hidden=(8,), updates=2)
    run = CriticsLockstep(WORLD, questions, behaviour, learner, Plan.checked(160, 160, ()), truth)
    (part,) = driven(run, 3)
    assert ("actor" in part.extra) == behaviour.needs_actor
    assert ("critics" in part.extra) == (behaviour.needs_variance and not behaviour.needs_actor)
    assert {"actor", "critics"} & {*part.arrays()} == {"actor", "critics"} & {*part.extra}
    again = AsLearned(run, part.extra.get("actor"), part.extra.get("critics"), worlds=3)
    points, actions, critics = np.float32(truth.observations), np.float32(truth.actions), again.learning.critics
    if behaviour.needs_actor:
        seen = run.agent.scaled(critics, points)
        middle = run.agent.actor.middle(again.learning.actor, seen, run.agent.middles(points))
        np.testing.assert_allclose(middle, part.behaviour[-1], rtol=1e-5)
    elif behaviour.needs_variance:
        m = run.predict(critics.m, critics, points, actions, 2)
        np.testing.assert_allclose(np.transpose(m), part.variances[-1], rtol=1e-5)
        with pytest.raises(InputError, match="weights"):
            AsLearned(run, None, part.extra["critics"][:-1])
    followed = np.array([again.act(np.zeros((3, 17)), np.random.default_rng(k))[1] for k in range(40)])
    mixture = isinstance(getattr(behaviour, "behaviour", None), MixtureActor)
    allowed = {2, 3} if mixture else {2} if behaviour.needs_actor else {0, 1}
    assert followed.shape == (40, 3) and set(followed.ravel()) <= allowed
    if isinstance(behaviour, Hold):  # a choice is kept for five steps on average
        assert 0 < np.mean(followed[1:] != followed[:-1]) < 0.3


def test_a_number_that_is_not_finite_stops_the_run(questions, truth):
    run = CriticsLockstep(WORLD, questions, RoundRobin(), replace(SMALL, rate_q=1e30), Plan.checked(320, 160, ()), truth=truth)
    with pytest.raises(Diverged, match=r"the loss of Q of 'walk' became (nan|inf) at step \d+ \(seed 0\)"):
        driven(run, 0)


def test_targets_far_beyond_what_is_possible_stop_the_run(questions, truth):
    """A diverging run names the step, the GVF and the value, long before a number is infinite."""
    learner = replace(ONE_STEP, bounded=False, rate_q=1.0, target_every=1, tau=1.0)
    run = CriticsLockstep(WORLD, questions, RoundRobin(), learner, Plan.checked(320, 160, ()), truth=truth)
    with pytest.raises(Diverged, match=r"the target of Q of '(walk|run)' became \d+\S* at step \d+ \(seed 0\)"):
        driven(run, 0)


def test_answers_look_ahead_and_stay_within_the_possible_range(questions, truth):
    """Two steps of the model with each GVF's policy and then Q, against plain NumPy."""
    learner = replace(SMALL, hidden=(8,), lookahead=2)
    run = CriticsLockstep(WORLD, questions, RoundRobin(), learner, Plan.checked(160, 160, ()), truth)
    stream = run.begin(3)
    stream.advance(160)
    critics, agent = stream.worlds.state.learning.critics, run.agent
    points, actions = np.float32(truth.observations), np.float32(truth.actions)
    scaling = critics.scaling
    noise = np.asarray(jax.random.normal(jax.random.key(0), (2, ROLLOUTS, 5, 6)))
    for i, q in enumerate(questions):
        found = np.zeros((ROLLOUTS, 5))
        for r in range(ROLLOUTS):
            seen, action = np.float64(scaling.scaled(points)), np.float64(actions)
            for h in range(2):
                out = plain(critics.model.averaged, seen, action)
                seen = np.clip(seen + out[:, :17] * np.float64(critics.model.change), -10, 10)
                found[r] += 0.99**h * np.clip(out[:, 17 + i], critics.seen[0][i], critics.seen[1][i])
                raw = seen * np.float64(scaling.spread) + np.float64(scaling.centre)
                action = np.clip(q.policy.act(np.float32(raw)) + q.policy.sigma * noise[h, r], -1, 1)
            at_the_end = np.mean([plain(net, seen, action) for net in critics.target_q], axis=0)[:, i]
            found[r] += 0.99**2 * at_the_end * np.float64(scaling.unit)[i]
        low, high = critics.seen[:, i] / (1 - 0.99)
        expected = np.clip(found.mean(axis=0), low, high)
        np.testing.assert_allclose(run.answers(critics, points, actions)[:, i], expected, rtol=2e-3, atol=2e-3)
    far = critics._replace(target_q=jax.tree.map(lambda x: x + 50, critics.target_q))
    answers = np.asarray(run.answers(far, points, actions))
    assert (answers <= np.asarray(agent.critics.range(critics))[1] + 1e-3).all()


def test_experiment_has_a_json_round_trip(questions):
    experiment = Experiment(CHEETAH, questions, ACTORS["paper"], CRITICS["paper"], steps=1600, evaluate_every=160)
    again = Experiment.from_json(experiment.json)
    assert again == experiment and again.hash == experiment.hash
    assert Experiment(CHEETAH, questions, Actor(), CRITICS["paper"], 1600, 160).hash != experiment.hash


def test_bad_input_is_one_sentence(questions, targets, truth):
    plan = Plan.checked(320, 160, ())
    cases = [
        (lambda: TwinCritics(aggregate="max"), "aggregate"),
        (lambda: TwinCritics(tau=1.5), "tau"),
        (lambda: TwinCritics(rate_q=float("nan")), "rate_q"),
        (lambda: TwinCritics(capacity=1001), "capacity"),
        (lambda: TwinCritics(m_every=3), "m_every"),
        (lambda: TwinCritics(trace=1.5), "trace"),
        (lambda: TwinCritics(entropy_in_target=True), "entropy_in_target"),
        (lambda: TwinCritics(lookahead=-1), "lookahead"),
        (lambda: TwinCritics(refresh_every=0), "refresh_every"),
        (lambda: MixtureActor(residual=-1.0), "residual"),
        (lambda: MixtureActor(floor=2.0), "floor"),
        (lambda: MixtureActor(rate=0.0), "rate"),
        (lambda: MixtureActor(updates=0), "updates"),
        (lambda: Alternate(Mixture(), share=1.0), "share"),
        (lambda: Alternate(Mixture(), GVFExplorer()), "other"),
        (lambda: Actor(direction="up"), "direction"),
        (lambda: Actor(kl_weight=-1), "kl_weight"),
        (lambda: Actor(share=0), "share"),
        (lambda: open_backend(CHEETAH, questions, RoundRobin(), Deep(), options=Options(plan)), "learner: Deep does not fit"),
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
