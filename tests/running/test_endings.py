"""How episodes begin and end: what an environment declares, what its first episodes show, and what is refused."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from faults.lying import Chain, Chains, Hiding
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import Autoreset, RecordEpisodeStatistics, TimeLimit
from gymnasium.wrappers import vector as vector_wrappers

import gvfx
from gvfx.running.endings import Watch
from gvfx.worlds.returns import declared_mode

HALF = [0.5, 0.5]
NEXT = [gvfx.GVF(HALF, lambda s, a, s2: float(np.ravel(s2)[0]), 0.8, name="q")]
REWARD = [gvfx.GVF(HALF, gvfx.Reward(), 0.8, name="q")]


def run(env, questions=NEXT, steps=300):
    return gvfx.evaluate(env, questions, gvfx.Uniform(), steps=steps, progress=False)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_mode_is_declared_by_the_enum_its_value_or_its_name(mode):
    name = mode.name
    for text in (mode, mode.value, name, name.lower(), str(mode), name.replace("_", " ")):
        assert declared_mode(Chains("tables", "next", text)) == name
    assert declared_mode(Hiding(Chains("tables", "next", mode))) == name


def test_other_text_is_no_mode():
    with pytest.raises(gvfx.InputError, match=r'^metadata\["autoreset_mode"\]: .soon. is no mode; declare NEXT_STEP'):
        run(Chains("tables", "next", "soon"))
    assert [f.severity for f in gvfx.check(Chains("tables", "next", "soon"), NEXT)] == ["error"]


def test_a_mode_that_is_not_declared_is_found_or_asked_for():
    with pytest.warns(UserWarning, match=r"is missing; info\['final_obs'\] shows that it is SAME_STEP"):
        found = run(Chains("tables", "same", None))
    assert np.array_equal(found.values, run(Chains("tables", "same", "SAME_STEP")).values)
    (finding,) = gvfx.check(Chains("tables", "same", None), NEXT)
    assert finding.severity == "warning" and "shows that it is SAME_STEP" in finding.sentence
    for does in ("next", "disabled"):
        with pytest.raises(gvfx.EnvironmentFailed, match=r'metadata\["autoreset_mode"\]: is missing; declare NEXT_STEP'):
            run(Chains("tables", does, None))
        assert "is missing" in str(gvfx.check(Chains("tables", does, None), NEXT)[0])


@pytest.mark.parametrize(
    ("does", "says", "words"),
    [
        ("same", "NEXT_STEP", r"says NEXT_STEP, but info\['final_obs'\] shows SAME_STEP"),
        ("same", "DISABLED", r"says DISABLED, but info\['final_obs'\] shows SAME_STEP"),
        ("same, no last", "NEXT_STEP", "says NEXT_STEP, but the step after the end of an episode has a reward of"),
        ("disabled", "NEXT_STEP", "says NEXT_STEP, but the step after the end of an episode ends the next one"),
        ("same, no last", "SAME_STEP", "info has no last observation"),
        ("disabled, all", "DISABLED", r"reset: changes environments that options\['reset_mask'\] leaves out"),
    ],
)
def test_a_mode_that_the_ends_contradict_is_refused(does, says, words):
    with pytest.raises(gvfx.EnvironmentFailed, match=words):
        run(Chains("tables", does, says, paid=does != "disabled"))


def test_steps_without_rewards_contradict_a_mode_too():
    with pytest.warns(UserWarning, match="comes with `truncated` is the first of an episode"):
        run(Chains("tables", "same, no last", "NEXT_STEP", paid=False))


@pytest.mark.parametrize("form", ["tables", "numbered"])
@pytest.mark.parametrize("start", ["low", "anywhere"])
def test_plain_environments_that_reset_themselves_are_noticed(form, start):
    with pytest.warns(UserWarning, match="comes with `truncated` is the first of an episode in"):
        run(Chain(form, "resets itself", start=start))
    assert "step" in [f.field for f in gvfx.check(Chain(form, "resets itself", start=start), NEXT)]
    with pytest.raises(gvfx.EnvironmentFailed, match=r"info\['final_observation'\] is not the observation that came"):
        run(Chain(form, "resets itself and tells", start=start))


def test_a_reset_may_continue_where_an_episode_was_cut():
    class Going(Chain):
        def begin(self):
            self.s, self.age = getattr(self, "s", 0), 0

    assert run(Going()).visits.sum() == 300


def test_a_time_limit_as_terminated_is_noticed():
    with pytest.warns(UserWarning, match="12 of 12 episodes terminated after exactly 6 steps"):
        run(Chain("tables", "limit as terminated"))
    (finding,) = gvfx.check(Chain("tables", "limit as terminated"), NEXT)
    assert (finding.severity, finding.field) == ("warning", "terminated")


class Timed(Chain):
    """The same, but an observation shows the time."""

    def __init__(self, form):
        super().__init__(form, "limit as terminated")
        self.observation_space = gym.spaces.Discrete(40) if form == "tables" else gym.spaces.Box(-1, 9, (3,), np.float32)

    def look(self, s):
        age = getattr(self, "age", 0)
        return s + 5 * age if self.form == "tables" else np.array([s, np.sin(age), np.cos(age)], np.float32)


@pytest.mark.parametrize("form", ["tables", "linear"])
def test_equal_lengths_are_right_where_the_time_is_observed(form):
    assert gvfx.check(Timed(form), NEXT) == []


@pytest.mark.parametrize("fault", ["seeds itself", "seeds itself later"])
def test_a_reset_that_seeds_itself_is_noticed(fault):
    with pytest.warns(UserWarning, match="world: episodes with the same actions are the same, although there is chance"):
        run(Chain("tables", fault), steps=600)
    (finding,) = gvfx.check(Chain("tables", fault), NEXT)
    assert (finding.severity, finding.field) == ("warning", "reset")


def test_episodes_that_gvfx_itself_begins_with_equal_seeds_may_be_the_same():
    def watched(seeded):
        watch, rng = Watch(1, several=True, reads_next=True), np.random.default_rng(0)
        for _ in range(100):
            noise = np.random.default_rng(0).random(5) < 0.5  # the same in every episode
            watch.began(0, 0, seeded=seeded)
            for age, action in enumerate(rng.integers(2, size=5)):
                watch.moved(0, age, int(action), int(age + noise[age]), age, "terminated" if age == 4 and noise[0] else "")
                watch.now[0] = 0
        return watch.found()

    assert "reset" in watched(False) and "reset" not in watched(True)


def test_a_continuous_reset_that_seeds_itself_is_found_by_check():
    class Noisy(Chain):
        def look(self, s):
            return np.array([s + 0.1 * self.np_random.random()], np.float32)

    assert [f.field for f in gvfx.check(Noisy("linear", "seeds itself later"), NEXT)] == ["reset"]
    assert gvfx.check(Noisy("linear"), NEXT) == []


@pytest.mark.parametrize("signal", [gvfx.Constant(1.0, at=2), lambda s, a, s2: float(s == 2)])
def test_one_array_that_is_overwritten(signal):
    questions = [gvfx.GVF(HALF, signal, 0.8, name="q")]
    assert np.array_equal(run(Chain("tables", "one array"), questions).values, run(Chain("tables"), questions).values)


def test_an_environment_may_write_into_its_action():
    questions = [gvfx.GVF(HALF, lambda s, a, s2: float(a[0]), 0.8, name="q")]
    env = Chain("listed", "writes actions")
    assert np.array_equal(run(env, questions).values, run(Chain("listed"), questions).values)
    assert gvfx.check(env, questions) == []


def made(name, count=3, **options):
    return gym.make_vec(name, count, vectorization_mode="sync", **options)


ORDINARY = {
    **{name: lambda name=name: gym.make(name) for name in ("FrozenLake-v1", "Blackjack-v1", "CartPole-v1", "Acrobot-v1")},
    "slow cliff": lambda: TimeLimit(gym.make("CliffWalking-v1"), 20),
    "taxi": lambda: TimeLimit(gym.make("Taxi-v4"), 10),
    "autoreset": lambda: Autoreset(TimeLimit(gym.make("FrozenLake-v1"), 5)),
    "statistics": lambda: RecordEpisodeStatistics(gym.make("FrozenLake-v1")),
    "vector statistics": lambda: vector_wrappers.RecordEpisodeStatistics(made("FrozenLake-v1")),
    "other rewards": lambda: vector_wrappers.TransformReward(made("FrozenLake-v1"), lambda r: r + 1),
    "own vector": lambda: gym.make_vec("CartPole-v1", 2),
    "ring": lambda: Chain("tables", start="anywhere", cut=2),
    "one state": lambda: gym.wrappers.TransformObservation(Chain("tables", cut=1), lambda s: 0, gym.spaces.Discrete(1)),
    **{
        mode.name: lambda mode=mode: SyncVectorEnv([lambda: TimeLimit(gym.make("FrozenLake-v1"), 4)] * 3, autoreset_mode=mode)
        for mode in AutoresetMode
    },
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_environments_are_not_warned_about(name):
    """Warnings are errors in tests."""
    env = ORDINARY[name]()
    asked = [gvfx.GVF(gvfx.uniform_policy(), lambda s, a, s2: 1.0, 0.9, name="q")]
    assert [str(f) for f in gvfx.check(env, asked)] == []
    tables = type(getattr(env, "single_observation_space", env.observation_space)).__name__ != "Box"
    learner = gvfx.CertaintyEquivalence() if tables else gvfx.LinearCertaintyEquivalence(intervals=False)
    gvfx.evaluate(env, asked, gvfx.Uniform(), learner, steps=600, progress=False)
