"""Box actions: known values are found, endings, vectors, failures and bad input are handled, the update is Algorithm 2's."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.driving import driven
from helpers.environments import BREAKS, Clock, broken
from helpers.networks import TWINS
from scipy import stats

import gvfx
import gvfx_paper
from gvfx.learners.least_squares import Range
from gvfx.questions.policies import ROUNDS
from gvfx.questions.reader import Gaussians
from gvfx.report.result_page import write_answers
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.running.streams.critics_gym import uniforms
from gvfx.worlds.spec import box_action_spec

LOW, HIGH, GAMMA, SIGMA = -3.0, 5.0, 0.8, 0.5
SMALL = replace(TWINS, capacity=400, learning_starts=10_000)


class Line(gym.Env):
    """x' = 0.8 x + a / 2 from anywhere in [-2, 2], cut after some steps: values of linear policies are known."""

    limit = 5

    observation_space = gym.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gym.spaces.Box(LOW, HIGH, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-2, 2), 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        square, self.x, self.t = self.x**2, 0.8 * self.x + 0.5 * float(action[0]), self.t + 1
        return np.array([self.x], np.float32), square, False, self.t >= self.limit, {"x": self.x}


def back(observations):
    return -0.4 * observations


QUESTIONS = [
    gvfx.GVF(gvfx.gaussian_policy(back, SIGMA), gvfx.Reward(), GAMMA, name="square"),
    gvfx.GVF(gvfx.gaussian_policy([1.0], SIGMA), lambda o, a, o2: float(o[0]), GAMMA, name="place"),
    gvfx.GVF(gvfx.gaussian_policy(back, SIGMA), 1.0, lambda o, a, o2: 0.5 if o[0] > 0 else 0.0, name="until left"),
]
P = 1 / (1 - GAMMA * 0.6**2)  # the square's value is P x^2 + R, the place's A x + B
R = GAMMA * P * 0.25 * SIGMA**2 / (1 - GAMMA)
A = 1 / (1 - GAMMA * 0.8)
B = GAMMA * A * 0.5 / (1 - GAMMA)
LEFT = 1.9577  # "until left" at 1.5, by 20,000 simulated episodes (standard error 0.0004)
SEEN = np.linspace(-1.5, 1.5, 7, dtype=np.float32)[:, None]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    path = tmp_path_factory.mktemp("box") / "line.gvfx"
    result = gvfx.evaluate(Line(), QUESTIONS, steps=3200, save=path)
    return result, path


@pytest.mark.full
def test_known_values_are_found(answered):
    result, _ = answered
    x = SEEN[:, 0].astype(float)
    square, place, left = result.predict(SEEN)
    np.testing.assert_allclose(square, P * x**2 + R, atol=0.2)  # up to 0.10 on three seeds
    np.testing.assert_allclose(place, A * x + B, atol=0.15)  # values of 1.4 to 9.7
    assert left[[0, -1]] == pytest.approx([1, LEFT], abs=0.05)
    np.testing.assert_array_equal(result.predict(SEEN[2]), result.predict(SEEN)[:, 2])
    begun = result.predict(SEEN, [1.0])
    np.testing.assert_allclose(begun[0], x**2 + GAMMA * (P * (0.8 * x + 0.5) ** 2 + R), atol=0.3)  # up to 0.24 on three seeds
    assert begun[2, 0] == pytest.approx(1, abs=0.05)
    assert result.details.variances.shape == (1, 3, 64) and (result.details.variances > 0).all()


@pytest.mark.full
def test_answers_stay_within_what_the_cumulants_allow(answered):
    result, _ = answered
    (network,) = result.details.predictor.functions
    plain = replace(network, within=None)
    draws = result.details.predictor.targets(SEEN)
    free = plain.values(SEEN, draws)[0]
    low, high = np.quantile(free, [0.3, 0.7], axis=1)
    found = replace(network, within=Range(low, high)).values(SEEN, draws)[0]
    assert (found >= low[:, None] - 1e-9).all() and (found <= high[:, None] + 1e-9).all() and np.abs(found - free).max() > 0.1
    inside = network.within.clipped(plain.at(SEEN, draws[:, 0, 0]))
    np.testing.assert_array_equal(network.at(SEEN, draws[:, 0, 0]), inside)


@pytest.mark.full
def test_what_a_result_tells_and_keeps(answered, tmp_path):
    result, path = answered
    assert "steps as square " in result.summary() and "of its own 0%" in result.summary()
    assert len(result.rows()) == 3 * 64 and result.rows()[0]["low"] is None
    assert result.visits.sum() == 3200 and result.visits[..., :3].sum(axis=(0, 1)).min() > 300
    np.testing.assert_allclose(result.details.behaviour.sum(axis=2), 1, rtol=1e-5)
    again = gvfx.load(path, Line(), QUESTIONS)
    np.testing.assert_array_equal(again.predict(SEEN), result.predict(SEEN))
    np.testing.assert_array_equal(again.predict(SEEN[0], [1.0]), result.predict(SEEN[0], [1.0]))
    assert again.summary() == result.summary()
    write_answers(tmp_path / "page.html", again, path)
    assert "as square" in (tmp_path / "page.html").read_text()
    with pytest.raises(gvfx.InputError, match="^intervals: with Box actions they are available at the start alone"):
        result.intervals()
    with pytest.raises(gvfx.InputError, match="^action: .* does not lie in Box"):
        result.predict(SEEN[0], [9.0])
    with pytest.raises(gvfx.InputError, match="^env: a stored result"):
        gvfx.load(path).predict(SEEN[0], [1.0])
    with pytest.raises(gvfx.InputError, match="^env: CartPole-v1 has other actions"):
        gvfx.load(path, gym.make("CartPole-v1"))


def test_monte_carlo_knows_gaussian_policies():
    truth = gvfx.truth_of(changed(limit=99), QUESTIONS, SEEN[1::4], reset_to=put, max_episodes=100, horizon=35)
    x = SEEN[1::4, 0].astype(float)
    assert (np.abs(truth.values[0] - (P * x**2 + R)) < 4 * truth.standard_errors[0] + 1e-3).all()
    assert (np.abs(truth.values[1] - (A * x + B)) < 4 * truth.standard_errors[1] + 0.02).all()
    recorded = gvfx.truth_of(Line(), QUESTIONS[:1], 2, max_episodes=20, horizon=10)
    assert np.isfinite(recorded.values).all()


def put(env, point):
    env.unwrapped.x = float(point[0])
    return np.array(point, np.float32)


def test_draws_are_those_of_the_clipped_gaussian():
    policies = [gvfx.gaussian_policy([4.0], 2.0), gvfx.gaussian_policy(lambda o: np.array([1e9]), 1.0)]
    targets = Gaussians([gvfx.GVF(p, 0.0, 0.0, name=str(k)) for k, p in enumerate(policies)], box_action_spec(Line()))
    drawn = targets(SEEN)
    own = targets.spec.to_env_batch(drawn[:, :, 0].reshape(-1, 1))
    a, b = (LOW - 4) / 2, (HIGH - 4) / 2
    inside = stats.truncnorm(a, b, loc=4, scale=2).mean() * (stats.norm.cdf(b) - stats.norm.cdf(a))
    assert own.mean() == pytest.approx(inside + LOW * stats.norm.cdf(a) + HIGH * stats.norm.sf(b), abs=0.02)
    assert (drawn[:, :, 1] == 1).all() and np.isfinite(targets.each(SEEN)).all()
    rng = np.random.default_rng(0)
    assert np.mean([targets.sample(0, SEEN[0], rng) for _ in range(2000)]) == pytest.approx(own.mean(), abs=0.15)


class Ticks(Clock):
    """Actions are two by two."""

    action_space = gym.spaces.Box(-1, 1, (2, 2), np.float64)

    def step(self, action):
        assert self.action_space.contains(action)
        *values, info = super().step(action)
        return *values, {**info, "sum": action.sum()}


ANY = gvfx.gaussian_policy(np.zeros((2, 2)), [0.1, 0.2, 0.3, 0.4])
QUICK = gvfx.TwinCritics(hidden=(16,), worlds=8, batch=64, updates=4, capacity=1600, learning_starts=80, rate_q=1e-2, tau=0.1)


def test_truncation_bootstraps_and_termination_does_not():
    """Dict observations; a discount of one is no trouble where episodes terminate."""
    start = {"a": np.array([0.0], np.float32), "b": 0}
    questions = [gvfx.GVF(ANY, gvfx.Reward(), 0.5, name="half"), gvfx.GVF(ANY, gvfx.Reward(), 1.0, name="all")]
    ended = gvfx.evaluate(Ticks(True, "dict"), questions, gvfx.RoundRobin(), QUICK, steps=1600)
    np.testing.assert_allclose(ended.predict(start), [1.875, 4], atol=0.1)
    run = open_backend(Ticks(False, "dict"), questions, gvfx.Mixture(), SMALL, options=Options(Plan.checked(90, None, ())))
    stream = run.begin(0)
    stream.start()
    stream.advance(20)
    rows = stream.agent.seen_so_far()
    assert (rows[:, run.columns.following][:, 0] == 1).sum() == 5 and stream.stepper.episode == 5
    assert (rows[:, run.columns.discounts] == [0.5, 1.0]).all()  # what lies beyond the cut counts


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_however_they_reset(mode):
    env = SyncVectorEnv([Ticks] * 3, autoreset_mode=mode)
    questions = [gvfx.GVF(ANY, gvfx.Info("t"), 0.5), gvfx.GVF(ANY, gvfx.Info("sum"), 0.5)]
    run = open_backend(env, questions, gvfx.RoundRobin(), SMALL, options=Options(Plan.checked(90, None, ())))
    stream = run.begin(0)
    stream.start()
    stream.advance(90)
    rows, c = stream.agent.seen_so_far(), run.columns
    np.testing.assert_allclose(rows[:, c.following] - rows[:, c.observation], 0.25)  # no reset was taken for a transition
    np.testing.assert_allclose(rows[:, c.cumulants][:, :1], 4 * rows[:, c.following])
    np.testing.assert_allclose(rows[:, c.cumulants][:, 1], rows[:, c.action].sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(rows[:, c.discounts], np.where(rows[:, c.following] == 1, 0, 0.5).repeat(2, axis=1))
    np.testing.assert_allclose(rows[:, c.action].std(axis=0), [0.1, 0.2, 0.3, 0.4], rtol=0.3)
    assert stream.stepper.episode == pytest.approx(22, abs=1) and len(rows) == stream.t
    assert set(np.unique(rows[:, -1])) == {0, 1}  # in turn


def plain(network, x):
    for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        x = np.maximum(x @ np.asarray(w) + b, 0)
    return x @ np.asarray(network.weights[-1]) + np.asarray(network.biases[-1])


def test_the_update_is_algorithm_2_with_each_transitions_own_discounts():
    """One absorbed block: what is stored, and the losses of Q and M, against plain NumPy."""
    learner = gvfx.TwinCritics(
        hidden=(16,), worlds=8, batch=8, updates=1, capacity=80, learning_starts=40, trace=0.0, scaled=False, averaged=False
    )
    run = open_backend(Line(), QUESTIONS, gvfx.Hold(gvfx.GVFExplorer()), learner, options=Options(Plan.checked(90, None, ())))
    stream = run.begin(3)
    stream.start()
    stream.advance(47)
    before, scales, c = stream.agent.learning.critics, stream.agent.scales, run.columns
    q, m = (jax.tree.map(np.array, nets) for nets in (before.q, before.m))
    chance = np.random.default_rng()
    chance.bit_generator.state = stream.agent.updates.bit_generator.state
    rows = np.concatenate([stream.agent.seen_so_far(), np.zeros((1, run.width), np.float32)])
    stream.advance(48)
    rows[-1] = stream.agent.seen_so_far()[-1]
    x, x2, a = rows[:, c.observation], rows[:, c.following] * scales.spread + scales.centre, rows[:, c.action]
    x2[40:] = 0.8 * x[40:] + 0.5 * (1 + 4 * a[40:])
    np.testing.assert_allclose(x2, 0.8 * x + 0.5 * (1 + 4 * a), atol=1e-4)  # actions within [-1, 1]
    np.testing.assert_allclose(rows[:, c.notes], (np.concatenate([-0.4 * x2, np.ones_like(x)], axis=1) - 1) / 4, atol=1e-5)
    many = uniforms(chance, (1, 8, 1 + 2))[0]
    index = np.minimum(((0.5 + 0.5 * many[:, 0]) * 48).astype(int), 47)
    noise = stats.norm.ppf(0.5 + 0.5 * many[:, 1:])
    s, s2 = scales.scaled(x)[index], scales.scaled(x2)[index]
    cumulant = np.stack([x[:, 0] ** 2, x[:, 0], np.ones(48)], axis=1)[index] / scales.unit
    discount = np.stack([np.full(48, GAMMA), np.full(48, GAMMA), np.where(x[:, 0] > 0, 0.5, 0)], axis=1)[index]
    drawn = np.clip(rows[index][:, c.notes] + SIGMA / 4 * noise, -1, 1)  # [row, policy]
    told = {k: np.concatenate([s2, drawn[:, [k]]], axis=1) for k in (0, 1)}
    now = np.concatenate([s, a[index]], axis=1)
    member = [0, 1, 0]
    onward = np.stack([np.mean([plain(net, told[member[i]])[:, i] for net in q], axis=0) for i in range(3)], axis=1)
    low, high, steps = cumulant.min(axis=0), cumulant.max(axis=0), 1 / (1 - discount.max(axis=0))
    low, high = np.where(low < 0, low * steps, low), np.where(high > 0, high * steps, high)  # a sum may end at once
    target = np.clip(cumulant + discount * onward, low, high)
    want = sum(((target - plain(net, now)) ** 2).mean(axis=0) for net in q)
    np.testing.assert_allclose(stream.agent.losses.q, want, rtol=2e-3)
    soft = lambda net, x: np.logaddexp(plain(net, x), 0)  # noqa: E731
    new = [plain(jax.tree.map(np.array, net), now) for net in stream.agent.learning.critics.q]
    onward = np.stack([np.mean([soft(net, told[member[i]])[:, i] for net in m], axis=0) for i in range(3)], axis=1)
    aims = np.minimum((target - np.mean(new, axis=0)) ** 2 + discount**2 * onward, ((high - low) / 2) ** 2)
    want = sum(((aims - soft(net, now)) ** 2).mean(axis=0) for net in m)
    np.testing.assert_allclose(stream.agent.losses.m, want, rtol=2e-3)


@pytest.mark.parametrize("behaviour", [gvfx.Uniform(), gvfx.Actor(hidden=(8,))], ids=["uniform", "actor"])
def test_behaviours_of_their_own_and_the_same_seed_gives_the_same_bytes(behaviour):
    run = open_backend(Line(), QUESTIONS, behaviour, TWINS, options=Options(Plan.checked(90, None, ())))
    (one,), (two,) = driven(run, 5), driven(run, 5)
    assert one.visits[..., 3].sum() == 82  # the replay holds 80, two wait for it
    for name in ("values", "visits", "behaviour", "episodes"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert all((one.function.arrays()[k] == two.function.arrays()[k]).all() for k in one.function.arrays())
    assert driven(run, 6)[0].values.tobytes() != one.values.tobytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *BREAKS,
        (lambda o, r, *rest: (o, np.nan, *rest), "the reward is nan"),
    ],
)
def test_failures_are_named_and_what_was_learned_is_kept(change, words, tmp_path):
    path = tmp_path / "kept.gvfx"
    with pytest.raises(gvfx.EnvironmentFailed, match=rf"^Broken: episode 6, step 3: .*{words}") as caught:
        gvfx.evaluate(broken(Line, 33, change), QUESTIONS[:1], gvfx.RoundRobin(), SMALL, steps=100, save=path)
    assert caught.value.result.visits.sum() == 33
    assert np.array_equal(gvfx.load(path).values, caught.value.result.values)


def changed(**members):
    return type("Other", (Line,), members)()


@pytest.mark.parametrize(
    ("env", "policy", "words"),
    [
        (Line(), [0.5, 0.5], "^gvf1.policy: ConstantPolicy is for Discrete actions .* use gvfx.gaussian_policy"),
        (Line(), lambda o: [0.5], "^gvf1.policy: CallablePolicy is for Discrete actions"),
        (Line(), gvfx.gaussian_policy(lambda o: np.zeros(3), 1.0), r"^gvf1.policy: actions have shape \(3,\)"),
        (Line(), gvfx.gaussian_policy(lambda o: ["left"], 1.0), "^gvf1.policy: the function must return one action"),
        (Line(), gvfx.gaussian_policy(lambda o: [np.inf], 1.0), "^gvf1.policy: the middle action holds nan or infinity"),
        (Line(), gvfx.gaussian_policy(back, [1.0, 2.0]), "^gvf1.policy: sigma has 2 numbers"),
        (changed(action_space=gym.spaces.Box(0, np.inf)), gvfx.gaussian_policy(back, 1.0), "^action_space: .* is unbounded"),
        (changed(action_space=gym.spaces.Box(1, 1)), gvfx.gaussian_policy(back, 1.0), "^action_space: .* is empty"),
        (
            changed(action_space=gym.spaces.Box(0, 9, (4,), np.int64)),
            gvfx.gaussian_policy(back, 1.0),
            "^action_space: a Box of int64",
        ),
        (gym.make("CartPole-v1"), gvfx.gaussian_policy(back, 1.0), "^gvf1.policy: GaussianPolicy is for Box actions"),
    ],
)
def test_what_does_not_fit_is_named_by_evaluate_check_and_truth(env, policy, words):
    questions = [gvfx.GVF(policy, gvfx.Reward(), 0.9)]
    for ask in (lambda: gvfx.evaluate(env, questions, steps=20), lambda: gvfx.truth_of(env, questions, max_episodes=2)):
        with pytest.raises(gvfx.InputError, match=words):
            ask()
    assert any(words.removeprefix("^").split(":")[0] == f.field and f.severity == "error" for f in gvfx.check(env, questions, 50))


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, [1.0, 0.0], [], "wide"])
def test_a_spread_is_above_zero(sigma):
    with pytest.raises(gvfx.InputError, match="^sigma: "):
        gvfx.gaussian_policy(back, sigma)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learner": gvfx.Deep()}, "^learner: Deep needs Discrete actions; use gvfx.TwinCritics"),
        ({"behaviour": gvfx.OptimalDesign()}, "^behaviour: OptimalDesign does not support continuous actions"),
        ({"until": gvfx.error_below(0.1)}, "^until"),
    ],
)
def test_options_that_do_not_fit_are_named(options, words):
    with pytest.raises(gvfx.InputError, match=words):
        gvfx.evaluate(Line(), QUESTIONS[:1], steps=100, **options)


def test_check_passes_a_sound_environment_and_warns_of_actions_beyond_the_box():
    assert gvfx.check(Line(), QUESTIONS) == []
    (finding,) = gvfx.check(Line(), [gvfx.GVF(gvfx.gaussian_policy([7.0], 1.0), gvfx.Reward(), 0.9)])
    assert finding.severity == "warning" and "leaves Box" in finding.sentence


def test_policies_are_asked_once_per_observation_and_jax_functions_are_compiled():
    calls = []

    def counted(observations):
        calls.append(len(observations))
        return jnp.zeros((len(observations), 1))

    questions = [gvfx.GVF(gvfx.gaussian_policy(counted, 1.0, batched=True), gvfx.Reward(), 0.5, name=f"q{k}") for k in range(5)]
    run = open_backend(Line(), questions, gvfx.Mixture(), SMALL, options=Options(Plan.checked(90, None, ())))
    stream = run.begin(0)
    stream.start()
    stream.advance(30)
    before = len(calls)
    assert 3 < before <= 4 + ROUNDS and len(run.targets.distinct) == 1  # to check, look and trace; and again
    stream.advance(60)
    assert len(calls) == before


def test_trained_targets_are_policies_where_their_sizes_fit():
    pytest.importorskip("mujoco")
    walker = gym.make("gvfx/Walker-v0")
    target = gvfx_paper.Target.shipped("walker", "walk")
    seen = np.random.default_rng(0).normal(size=(3, 24))
    targets = Gaussians([gvfx.GVF(target, gvfx.Reward(), 0.9)], box_action_spec(walker))
    np.testing.assert_allclose(targets.each(seen)[:, 0], target.act(seen), rtol=1e-5)
    with pytest.raises(gvfx.InputError, match="^gvf1.policy: 'walker-walk' is for observations and actions of sizes"):
        Gaussians([gvfx.GVF(target, gvfx.Reward(), 0.9)], box_action_spec(Line())).each(SEEN)
