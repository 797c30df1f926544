"""Mistakes that new users made: each is refused in one sentence that names the field and says what to do instead."""

from __future__ import annotations

import logging
import os
import re

import gymnasium as gym
import numpy as np
import pytest
from helpers.command_line import invoke
from helpers.environments import Sound, Vectors, changed, stepped

import gvfx
from gvfx.running.plan import Plan

HALF, UNIFORM = [0.5, 0.5], gvfx.uniform_policy()
QUESTION = [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="q")]
LAKE = [gvfx.GVF(UNIFORM, gvfx.Reward(), 0.9, name="q")]
WORLD = gvfx.gridworld(3, goals={"g": (0, 0)})
LOOP = gvfx.MDP.from_matrix(np.full((2, 2, 2), 0.5))
ENDS = (";", "choose", "give", "use", "write", "did you mean", "must", "name")  # a sentence that says what to do


def boom(*arguments):
    raise RuntimeError("boom")


def run(questions=QUESTION, *method, **options):
    return gvfx.evaluate(Sound(), questions, *method, **({"steps": 300} | options))


def asked(policy=HALF, cumulant=1.0, discount=0.9, **options):
    return run([gvfx.GVF(policy, cumulant, discount, **options)])


def on(env, question=QUESTION[0]):
    return gvfx.evaluate(env, [question], steps=300)


def method(behaviour=None, learner=None):
    return gvfx.evaluate(WORLD, [gvfx.GVF(UNIFORM, 1.0, 0.9)], behaviour, learner, steps=100)


@pytest.fixture(scope="module")
def result():
    return run()


MISTAKES = {
    # the numbers of a run
    "steps=1.5": (lambda: run(steps=1.5), "steps"),
    "steps=-1": (lambda: run(steps=-1), "steps"),
    "steps as text": (lambda: run(steps="1000"), "steps"),
    "steps=None": (lambda: run(steps=None), "steps"),
    "steps=True": (lambda: run(steps=True), "steps"),
    "steps=inf": (lambda: run(steps=float("inf")), "steps"),
    "too many measurements": (lambda: run(steps=10**18, evaluate_every=1), "evaluate_every"),
    "evaluate_every as text": (lambda: run(evaluate_every="x"), "evaluate_every"),
    "evaluate_every=0": (lambda: run(evaluate_every=0), "evaluate_every"),
    "seeds as text": (lambda: run(seeds="three"), "seeds"),
    "seeds=1.5": (lambda: run(seeds=1.5), "seeds"),
    "seeds=None": (lambda: run(seeds=None), "seeds"),
    "seeds=-1": (lambda: run(seeds=-1), "seeds"),
    "the same seed twice": (lambda: run(seeds=[0, 0]), "seeds"),
    "a seed meant as a count": (lambda: run(seeds=10**9), "seeds"),
    "a seed too large": (lambda: run(seeds=[10**20]), "seeds"),
    "seed=-3": (lambda: run(seed=-3), "seed"),
    "seed as text": (lambda: run(seed="a"), "seed"),
    "snapshots=5": (lambda: run(snapshots=5), "snapshots"),
    "snapshots=None": (lambda: run(snapshots=None), "snapshots"),
    "average_episodes as text": (lambda: run(steps=Plan.checked(9, None, (), "x")), "average_episodes"),
    "a plan and its times": (lambda: run(steps=Plan.checked(9, None, ()), evaluate_every=3), "steps"),
    "workers=0": (lambda: run(workers=0), "workers"),
    "workers as text": (lambda: run(workers="2"), "workers"),
    "calibrate as text": (lambda: run(calibrate="yes"), "calibrate"),
    "audit=2": (lambda: run(audit=2), "audit"),
    "audit=True": (lambda: run(audit=True), "audit"),
    # when to stop, where errors count
    "until=0.01": (lambda: run(until=0.01), "until"),
    "until as text": (lambda: run(until="0.01"), "until"),
    "until without a call": (lambda: run(until=gvfx.error_below), "until"),
    "error_below as text": (lambda: gvfx.error_below("a"), "until"),
    "error_below(0)": (lambda: gvfx.error_below(0), "target"),
    "confidence=95": (lambda: gvfx.error_below(0.1, confidence=95), "confidence"),
    "confidence as text": (lambda: gvfx.error_below(0.1, confidence="95%"), "until"),
    "margin as text": (lambda: gvfx.decided(margin="a"), "margin"),
    "threshold as text": (lambda: gvfx.decided(threshold="0"), "threshold"),
    "nothing to decide": (lambda: run(until=gvfx.decided()), "compare"),
    "where=99": (lambda: run(where=[99]), "where"),
    "where as a wrong word": (lambda: run(where="begin"), "where"),
    "where as a function": (lambda: run(where=lambda s: 1), "where"),
    # behaviours and learners
    "behaviour as a class": (lambda: run(QUESTION, gvfx.RoundRobin), "behaviour"),
    "behaviour as text": (lambda: run(QUESTION, "Uniform"), "behaviour"),
    "a learner as behaviour": (lambda: run(QUESTION, gvfx.ExpectedSarsa()), "behaviour"),
    "a policy as behaviour": (lambda: run(QUESTION, lambda o: 0), "behaviour"),
    "behaviour=3": (lambda: run(QUESTION, 3), "behaviour"),
    "learner as text": (lambda: run(QUESTION, None, "Deep"), "learner"),
    "a behaviour as learner": (lambda: run(QUESTION, None, gvfx.Uniform()), "learner"),
    "a learner for other actions": (lambda: run(QUESTION, None, gvfx.TwinCritics()), "learner"),
    "a wrapped class": (lambda: method(gvfx.Epsilon(gvfx.Uniform)), "behaviour"),
    "a number as schedule": (lambda: method(gvfx.Epsilon(gvfx.Uniform(), 0.1)), "behaviour"),
    "floor as text": (lambda: method(gvfx.Floor(gvfx.Uniform(), "x")), "behaviour"),
    "floor=2": (lambda: method(gvfx.Floor(gvfx.Uniform(), 2)), "floor"),
    "a blend with a number": (lambda: method(gvfx.Blend(gvfx.Uniform(), 3)), "behaviour"),
    "growth as text": (lambda: gvfx.OptimalDesign(growth="x"), "behaviour"),
    "a rate as text": (lambda: method(gvfx.Uniform(), gvfx.ExpectedSarsa(rate_q="x")), "learner"),
    "a rate of 2": (lambda: method(gvfx.Uniform(), gvfx.ExpectedSarsa(rate_q=2.0)), "rate_q"),
    "capacity as text": (lambda: gvfx.Deep(capacity="x"), "learner"),
    # files, progress, trackers
    "save=3": (lambda: run(save=3), "save"),
    "save=True": (lambda: run(save=True), "save"),
    "an empty path": (lambda: run(save=""), "save"),
    "save in no folder": (lambda: run(save=f"{__file__}/x.gvfx"), "save"),
    "save as a folder": (lambda: run(save="/tmp"), "save"),
    "save in a device": (lambda: run(save="/dev/null"), "save"),
    "a name too long": (lambda: run(save="x" * 5000), "save"),
    "checkpoint=True": (lambda: run(checkpoint=True), "checkpoint"),
    "checkpoint in a file": (lambda: run(checkpoint=__file__), "checkpoint"),
    "progress as text": (lambda: run(progress="x"), "progress"),
    "progress of one argument": (lambda: run(progress=lambda t: None), "progress"),
    "track=3": (lambda: run(track=3), "track"),
    "track in a folder": (lambda: run(track="/tmp"), "track"),
    "track as a class": (lambda: run(track=gvfx.TensorBoard), "track"),
    "a logger of Python": (lambda: run(track=logging.getLogger()), "track"),
    "track of no argument": (lambda: run(track=lambda: None), "track"),
    # worlds
    "no world": (lambda: gvfx.evaluate(None, QUESTION), "world"),
    "an unknown name": (lambda: gvfx.evaluate("FrozenPuddle-v1", LAKE), "world"),
    "a class as world": (lambda: gvfx.evaluate(Sound, QUESTION), "world"),
    "a function as world": (lambda: gvfx.evaluate(lambda: Sound(), QUESTION), "world"),
    "a list of worlds": (lambda: gvfx.evaluate([Sound()], QUESTION), "world"),
    "arguments exchanged": (lambda: gvfx.evaluate(QUESTION, Sound()), "world"),
    "goals without names": (lambda: gvfx.gridworld(3, goals=(0, 0)), "goals"),
    "a world without an end": (lambda: gvfx.evaluate(LOOP, [gvfx.GVF(UNIFORM, 1.0, 1.0)], steps=100), "discount"),
    # questions
    "no questions": (lambda: run([]), "questions"),
    "questions=None": (lambda: run(None), "questions"),
    "questions=3": (lambda: run(3), "questions"),
    "questions as text": (lambda: run("reward"), "questions"),
    "questions by name": (lambda: run({"a": QUESTION[0]}), "questions"),
    "tuples as questions": (lambda: run([(HALF, 1.0)]), "questions"),
    "one name twice": (lambda: run(QUESTION + QUESTION), "name"),
    "name=5": (lambda: asked(name=5), "name"),
    "discount as text": (lambda: asked(discount="0.9"), "discount"),
    "discount=True": (lambda: asked(discount=True), "discount"),
    "discount=1.1": (lambda: asked(discount=1.1), "discount"),
    "discount=None": (lambda: asked(discount=None), "discount"),
    "a discount of one argument": (lambda: asked(discount=lambda s: 0.9), "discount"),
    "weight=-1": (lambda: asked(weight=-1), "weight"),
    "policy=None": (lambda: asked(None), "policy"),
    "policy as text": (lambda: asked("uniform"), "policy"),
    "probabilities that sum to 1.1": (lambda: asked([0.5, 0.6]), "policy"),
    "three probabilities": (lambda: asked([0.2, 0.3, 0.5]), "gvf1.policy"),
    "a policy that returns an action": (lambda: asked(lambda s: 1), "gvf1.policy"),
    "a policy that returns logits": (lambda: asked(lambda s: [-1.0, 2.0]), "gvf1.policy"),
    "a policy that returns nothing": (lambda: asked(lambda s: None), "gvf1.policy"),
    "a policy that raises": (lambda: asked(boom), "gvf1.policy"),
    "a policy of two arguments": (lambda: asked(lambda s, a: 0.5), "gvf1.policy"),
    "a policy without a call": (lambda: asked(gvfx.uniform_policy), "gvf1.policy"),
    "a policy for other actions": (lambda: asked(gvfx.gaussian_policy([0.0], 0.5)), "gvf1.policy"),
    "an action that is none": (lambda: asked(gvfx.deterministic_policy(lambda s: 9)), "gvf1.policy"),
    "a mixture of 3": (lambda: gvfx.mixture_policy(3), "policies"),
    "a number as function": (lambda: gvfx.callable_policy(3), "function"),
    "no signal": (lambda: asked(cumulant=None), "cumulant"),
    "a signal as text": (lambda: asked(cumulant="reward"), "cumulant"),
    "a signal as a class": (lambda: asked(cumulant=gvfx.Info), "cumulant"),
    "a signal of two arguments": (lambda: asked(cumulant=lambda s, a: 1), "cumulant"),
    "Measure(3)": (lambda: gvfx.Measure(3), "cumulant"),
    "Constant as text": (lambda: gvfx.Constant("x"), "Constant.value"),
    "a huge constant": (lambda: gvfx.Constant(1e160), "Constant.value"),
    "a huge spread": (lambda: gvfx.Distractor(0, 1e160), "Distractor.sd"),
    "a huge table": (lambda: run(gvfx.GVF(gvfx.uniform_policy(), gvfx.table_cumulant([1e160, 0]))), "TableCumulant.mean"),
    "a huge reward": (lambda: gvfx.MDP.from_matrix(np.full((2, 2, 2), 0.5), reward=np.full((2, 2, 2), 1e160)), "reward"),
    "size as text": (lambda: gvfx.Info("force", size="2"), "cumulant"),
    # forecasts, checks, true values
    "plan: error as text": (lambda: gvfx.plan("FrozenLake-v1", LAKE, "0.1"), "error"),
    "plan: error=None": (lambda: gvfx.plan("FrozenLake-v1", LAKE, None), "error"),
    "plan: pilot as text": (lambda: gvfx.plan(Sound(), QUESTION, 0.1, pilot="x"), "pilot"),
    "plan: no pilot": (lambda: gvfx.plan(Sound(), QUESTION, 0.1), "pilot"),
    "plan: draws=0": (lambda: gvfx.plan("FrozenLake-v1", LAKE, 0.1, draws=0), "draws"),
    "check: steps=-1": (lambda: gvfx.check(Sound(), QUESTION, steps=-1), "steps"),
    "check: seed as text": (lambda: gvfx.check(Sound(), QUESTION, seed="x"), "seed"),
    "truth: no questions": (lambda: gvfx.truth_of(Sound(), []), "questions"),
    "truth: precision as text": (lambda: gvfx.truth_of(Sound(), QUESTION, precision="x"), "precision"),
    "truth: episodes as text": (lambda: gvfx.truth_of(Sound(), QUESTION, max_episodes="x"), "max_episodes"),
    "truth: a world of gvfx": (lambda: gvfx.truth_of(WORLD, LAKE), "env"),
    "truth: reset_to=3": (lambda: gvfx.truth_of(Sound(), QUESTION, [1], reset_to=3), "reset_to"),
    "load(3)": (lambda: gvfx.load(3), "path"),
    "load a folder": (lambda: gvfx.load("/tmp"), "path"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_that_names_the_field(name):
    call, field = MISTAKES[name]
    with pytest.raises(gvfx.InputError, match=rf"^{re.escape(field)}(\[\d+\])?: ") as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said and said.endswith(".") and any(word in said for word in ENDS), said


OF_RESULTS = {
    "predict as text": (lambda r: r.predict("start"), "observation"),
    "predict(None)": (lambda r: r.predict(None), "observation"),
    "predict(99)": (lambda r: r.predict(99), "observation"),
    "level=95": (lambda r: r.intervals(0, level=95), "level"),
    "level as text": (lambda r: r.intervals(0, level="95%"), "level"),
    "value: level=2": (lambda r: r.value(2), "level"),
    "compare: level as text": (lambda r: r.compare(level="95%"), "level"),
    "save in no folder": (lambda r: r.save(f"{__file__}/x.gvfx"), "path"),
    "save=3": (lambda r: r.save(3), "path"),
    "save without a name": (lambda r: r.save(""), "path"),
}


@pytest.mark.parametrize("name", OF_RESULTS)
def test_a_mistake_with_a_result_is_named(name, result):
    call, field = OF_RESULTS[name]
    with pytest.raises(gvfx.InputError, match=f"^{field}: ") as caught:
        call(result)
    assert "\n" not in str(caught.value)


ENVIRONMENTS = {
    "old reset": (changed(reset=lambda self: 0), QUESTION[0], "old Gym environment"),
    "old step": (stepped(lambda self, o, r, e, t, i: (o, r, e, i)), QUESTION[0], "old Gym environment"),
    "terminated as text": (
        stepped(lambda self, o, r, e, t, i: (o, r, "no", t, i)),
        QUESTION[0],
        "terminated is 'no'; return True",
    ),
    "terminated=None": (stepped(lambda self, o, r, e, t, i: (o, r, None, t, i)), QUESTION[0], "terminated is None"),
    "truncated=2": (stepped(lambda self, o, r, e, t, i: (o, r, e, 2, i)), QUESTION[0], "truncated is 2"),
    "terminated twice": (stepped(lambda self, o, r, e, t, i: (o, r, np.array([e, e]), t, i)), QUESTION[0], "terminated is array"),
    "no reward": (stepped(lambda self, o, r, *rest: (o, None, *rest)), QUESTION[0], "the reward is None"),
    "an infinite reward": (stepped(lambda self, o, r, *rest: (o, np.inf, *rest)), QUESTION[0], "is inf"),
    "an observation outside": (changed(show=lambda self: 77), QUESTION[0], "lies outside its space"),
    "a signal that raises": (Sound, gvfx.GVF(HALF, lambda s, a, s2: boom(), 0.9, name="q"), "q.cumulant: the function raised"),
    "a signal that is text": (Sound, gvfx.GVF(HALF, lambda s, a, s2: "x", 0.9, name="q"), "q.cumulant: 'x' is not a number"),
    "a signal of two numbers": (Sound, gvfx.GVF(HALF, lambda s, a, s2: [1, 2], 0.9, name="q"), "q.cumulant: is a vector"),
    "a key that is missing": (
        Sound,
        gvfx.GVF(HALF, gvfx.Info("nope"), 0.9, name="q"),
        "info: has no 'nope'; its keys are 'force'",
    ),
    "a discount of 2": (Sound, gvfx.GVF(HALF, 1.0, lambda s, a, s2: 2.0, name="q"), "q.discount: 2.0 lies outside"),
    "a discount that raises": (Sound, gvfx.GVF(HALF, 1.0, lambda s, a, s2: boom(), name="q"), "q.discount: the function raised"),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_mistake_of_an_environment_is_named_where_it_happens(name):
    make, question, words = ENVIRONMENTS[name]
    with pytest.raises(gvfx.EnvironmentFailed, match=re.escape(words)) as caught:
        on(make(), question)
    assert "\n" not in str(caught.value) and "episode 0, step" in str(caught.value)


def test_flags_of_numpy_and_whole_numbers_end_episodes():
    plain = on(Sound())
    for kind in (np.bool_, int, np.int64):
        same = on(stepped(lambda self, o, r, e, t, i, kind=kind: (o, r, kind(e), kind(t), i))())
        assert np.array_equal(same.values, plain.values)


def test_a_policy_that_raises_in_the_middle_of_a_run_keeps_what_was_learned():
    seen = []

    def late(observation):
        seen.append(observation)
        if len(seen) == 2000:
            raise RuntimeError("boom")  # once: the answers so far need the policy too
        return HALF

    question = gvfx.GVF(gvfx.callable_policy(late, batched=False), gvfx.Reward(), 0.9, name="q")
    with pytest.raises(gvfx.InputError, match="^q.policy: the function raised RuntimeError: boom") as caught:
        gvfx.evaluate(Vectors(), [question], steps=5000)
    assert isinstance(caught.value, gvfx.RunError) and caught.value.result is not None
    assert 0 < caught.value.result.details.snapshots[-1].step < 5000


def test_an_endless_sum_is_warned_of_and_unsure():
    endless = stepped(lambda self, o, r, e, t, i: (o, r, False, e, i))
    with pytest.warns(UserWarning, match="discount: q adds up without an end"):
        out = gvfx.evaluate(endless(), [gvfx.GVF(HALF, gvfx.Reward(), 1.0, name="q")], steps=300)
    assert np.isinf(out.intervals(0)).all()


def test_a_tracker_that_fails_is_left_out_and_the_run_continues(tmp_path):
    def failing(numbers):
        raise OSError("disk full")

    with pytest.warns(UserWarning, match=r"^track: a tracker raised OSError \(disk full\); the run continues without it"):
        out = run(track=[failing, tmp_path / "run.jsonl"])
    assert np.array_equal(out.values, run().values) and len((tmp_path / "run.jsonl").read_text().splitlines()) == 21


def test_a_plan_can_be_gone_through():
    plan = gvfx.plan("FrozenLake-v1", LAKE, 0.01)
    assert list(plan) == [cost.name for cost in plan.costs] and len(plan) == len(plan.costs) and "optimum" in plan
    assert dict(plan.items())["optimum"].steps == plan["optimum"].steps and plan.get("GVFExplor") is None
    with pytest.raises(gvfx.InputError, match="^name: 'optimim' is unknown; did you mean 'optimum'"):
        plan["optimim"]
    with pytest.raises(gvfx.InputError, match="^name: '0' is unknown"):
        plan[0]


def test_names_of_gymnasium_are_accepted_everywhere():
    assert gvfx.check("FrozenLake-v1", LAKE, steps=4000) == []
    assert gvfx.truth_of("FrozenLake-v1", LAKE, max_episodes=60).names == ("q",)
    (finding,) = [f for f in gvfx.check(boom, LAKE) if f.field == "env"]
    assert "raised RuntimeError (boom)" in finding.sentence


def test_check_names_an_extra_that_is_missing(monkeypatch):
    monkeypatch.setattr("gvfx.running.check.find_spec", lambda name: None)
    wide = gym.wrappers.FlattenObservation(gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 4))
    found = gvfx.check(wide, [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="q")], steps=50)
    (finding,) = (f for f in found if f.severity == "error")
    assert finding.field == "jax" and "pip install 'gvfx[deep]'" in finding.sentence
    pushed = [gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), gvfx.Reward(), 0.9)]
    assert "jax" in [f.field for f in gvfx.check(gym.make("Pendulum-v1"), pushed, steps=300)]
    assert gvfx.check(gym.make("CartPole-v1"), [gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="q")], steps=50) == []  # 4 numbers


def test_outputs_replace_no_device_and_follow_links(tmp_path, result):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(gvfx.InputError, match="^path: .*pipe is a device, a pipe or a folder"):
        result.save(tmp_path / "pipe")
    (tmp_path / "real").mkdir()
    (tmp_path / "link.gvfx").symlink_to(tmp_path / "real" / "a.gvfx")
    result.save(tmp_path / "link.gvfx")
    assert (tmp_path / "link.gvfx").is_symlink() and gvfx.load(tmp_path / "real" / "a.gvfx").names == result.names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.gvfx", "pipe", "real"]  # nothing is left behind


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device", "a"),
            "a: No space left on device; free some space, or name another file or folder.",
        ),
        (
            OSError(30, "Read-only file system", "a"),
            "a: Read-only file system; make it writable, or name another file or folder.",
        ),
        (OSError(36, "File name too long", "x" * 5000), f"{'x' * 200}...{'x' * 59}: File name too long; give a shorter name."),
        (OSError(22, "Invalid argument"), "the system says: Invalid argument; run it again."),
        (
            OSError(24, "Too many open files"),
            "the system says: Too many open files; close some files, or allow more of them (ulimit -n).",
        ),
    ],
    ids=lambda given: str(given)[:40],
)
def test_an_error_of_the_system_is_one_sentence_that_fits_it(error, said, monkeypatch):
    def fail(*given):
        raise error

    monkeypatch.setattr("gvfx.running.check.check", fail)
    done = invoke("check", "FrozenLake-v1", "--steps", "50")
    assert done.exit_code == 1 and done.stderr == f"gvfx: {said}\n"


def test_long_names_are_shortened_in_sentences():
    with pytest.raises(
        gvfx.InputError, match=r"^save: cannot write x{200}\.\.\.x{60} \(File name too long\); give a shorter name\.$"
    ):
        run(save="x" * 5000)
