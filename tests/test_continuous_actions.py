"""Continuous actions: Algorithm 2 against a plain NumPy reference, TD3, target policies, runs and their resumption."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gvfx.behaviours.actor import PAPER as PAPER_ACTOR
from gvfx.behaviours.actor import Actor
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture, RoundRobin, Uniform
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.wrappers import Hold
from gvfx.errors import InputError
from gvfx.experiments.specification import Experiment
from gvfx.experiments.train_targets import Snapshot, _enough, train_targets
from gvfx.learners.networks.actor_critic import squashed_sample
from gvfx.learners.networks.critic_updates import Question
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.replay import columns
from gvfx.learners.networks.soft_actor import Surroundings
from gvfx.learners.networks.td3 import TD3, TD3Agent
from gvfx.learners.networks.twin_critics import PAPER, TwinCritics
from gvfx.questions.cumulants import Constant, Signal
from gvfx.questions.gvf import GVF
from gvfx.questions.target_policies import Target, actor, write_target
from gvfx.running.checkpoint import flatten
from gvfx.running.evaluate import Plan, make_runner
from gvfx.running.streams.critic_agent import GVFAgent
from gvfx.running.streams.critics_lockstep import Diverged, LockstepRunner
from gvfx.running.streams.lockstep_loop import Staggered
from gvfx.worlds.control import CHEETAH, Lockstep

SMALL = TwinCritics(hidden=(16, 16), batch=32, capacity=800, learning_starts=80, worlds=4, updates=2)
WORLD = replace(CHEETAH, horizon=40)
SIGMAS = np.float32([0.2, 0.3])


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """Two target policies with random weights."""
    generator, folder, made = np.random.default_rng(0), tmp_path_factory.mktemp("targets"), []
    for name, sigma in zip(("walk", "run"), SIGMAS, strict=True):
        sizes = (17, 8, 6)
        weights = [generator.normal(0, 0.3, (a, b)) for a, b in pairwise(sizes)]
        write_target(folder / f"{name}.safetensors", weights, [np.zeros(b) for b in sizes[1:]], {"task": name})
        made.append(Target.load(folder / f"{name}.safetensors", float(sigma)))
    return tuple(made)


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


# --- densities ---------------------------------------------------------------------------------------------------------


def test_squashed_gaussian_integrates_to_one():
    net = Heads(np.random.default_rng(0), 3, (8,), (2, 1))
    noise = jnp.linspace(-8, 8, 20_001)[:, None]
    action, log_prob = squashed_sample(net, jnp.ones((len(noise), 3)), noise)
    assert np.trapezoid(np.exp(np.float64(log_prob)), np.float64(action[:, 0])) == pytest.approx(1, abs=1e-3)


def test_squashed_log_probability_stays_finite_far_out():
    net = Heads(np.random.default_rng(0), 3, (8,), (2, 1))
    _, log_prob = squashed_sample(net, jnp.ones((2, 3)), jnp.array([[30.0], [-30.0]]))
    assert np.isfinite(log_prob).all()


def test_target_density_integrates_to_one_and_matches_draws(targets):
    target, observation = targets[0], np.ones((1, 17), np.float32)
    grid = np.linspace(-3, 3, 2001)
    middle = target.act(observation)[0]
    points = np.repeat(middle[None], len(grid), axis=0)
    points[:, 0] = grid
    density = np.exp(target.log_prob(observation, points))
    others = (target.sigma * math.sqrt(2 * math.pi)) ** 5  # the other five coordinates are at their middles
    assert np.trapezoid(density, grid) * others == pytest.approx(1, abs=1e-4)
    draws = target.sample(np.repeat(observation, 20_000, axis=0), np.random.default_rng(0))
    assert draws.std(axis=0)[np.abs(middle) < 0.3] == pytest.approx(target.sigma, rel=0.03)


# --- target policies ---------------------------------------------------------------------------------------------------


def test_target_acts_alike_in_numpy_and_jax(targets):
    observations = np.random.default_rng(2).normal(size=(7, 17)).astype(np.float32)
    assert isinstance(targets[0].act(observations), np.ndarray)
    assert np.allclose(targets[0].act(observations), targets[0].act(jnp.asarray(observations)), atol=1e-6)


def test_target_refuses_other_weights_and_unknown_names(targets):
    with pytest.raises(InputError, match="weights of .* are others"):
        Target(targets[0].name, digest="0" * 16)
    with pytest.raises(InputError, match="target: 'walker-wlk' is unknown"):
        Target("walker-wlk")
    with pytest.raises(InputError, match="sigma"):
        Target(targets[0].name, sigma=0.0)
    with pytest.raises(InputError, match="continuous actions"):
        targets[0].table(3, 4)


@pytest.mark.parametrize("name", ["walker-walk", "walker-flip", "cheetah-walk", "cheetah-run"])
def test_shipped_targets_are_mid_level(name):
    target = Target.shipped(*name.split("-"))
    assert 300 <= float(target.facts["return"]) <= 600
    assert target.facts["command"] == f"gvfx train-targets {name.replace('-', ' ')} --seed {target.facts['seed']}"


# --- Algorithm 2 against a plain reference -----------------------------------------------------------------------------


def plain(net, *inputs):
    """A network's outputs in double precision."""
    x = np.concatenate([np.float64(i) for i in inputs], axis=-1)
    for w, b in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = np.maximum(x @ np.float64(w) + np.float64(b), 0)
    x = x @ np.float64(net.weights[-1]) + np.float64(net.biases[-1])
    x = np.log1p(np.exp(x)) if net.positive else x
    return x.reshape(*x.shape[:-1], *net.shape)


def plain_mu(net, observation, noise):
    """An action of the squashed Gaussian and its log-density."""
    out = plain(net, observation)
    mean, log_sd = out[:, 0], -2 + 3 * np.tanh(out[:, 1])
    before = mean + np.exp(log_sd) * noise
    action = np.tanh(before)
    density = -0.5 * noise**2 - log_sd - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2)
    return action, density.sum(axis=1)


def plain_targets(agent, learning, rows, noise, discounts):
    """Q_tar, delta_Q and M_tar as printed in Algorithm 2, or as recommended, one GVF and one row at a time."""
    c, learner = agent.columns, agent.described
    s, a, s2, cumulants = (rows[:, part] for part in (c.observation, c.action, c.following, c.cumulants))
    middles = rows[:, c.notes].reshape(len(rows), 2, 6)
    agg = np.min if learner.aggregate == "min" else np.mean
    bonus = np.zeros(len(rows))
    if learner.entropy_in_target:
        _, log_mu = plain_mu(learning.actor.actor, s2, noise[:, 12:18])
        bonus = -np.exp(np.float64(learning.actor.log_alpha)) * log_mu
    q_tar, delta, m_tar = np.empty((3, len(rows), 2))
    for n in range(len(rows)):
        for i in range(2):
            drawn = np.clip(middles[n, i] + SIGMAS[i] * noise[n, 6 * i : 6 * i + 6], -1, 1)
            q_next = agg([plain(net, s2[n], drawn)[i] for net in learning.critics.target_q])
            m_next = agg([plain(net, s2[n], drawn)[i] for net in learning.critics.target_m])
            low, high = (e(cumulants[:, i]) / (1 - discounts[i]) if learner.bounded else 0 for e in (np.min, np.max))
            q_tar[n, i] = cumulants[n, i] + discounts[i] * (q_next + bonus[n])
            q_tar[n, i] = np.clip(q_tar[n, i], low, high) if learner.bounded else q_tar[n, i]
            delta[n, i] = q_tar[n, i] - agg([plain(net, s[n], a[n])[i] for net in learning.critics.q])
            m_tar[n, i] = delta[n, i] ** 2 + discounts[i] ** 2 * (m_next + bonus[n])
            m_tar[n, i] = np.clip(m_tar[n, i], 0, ((high - low) / 2) ** 2) if learner.bounded else m_tar[n, i]
    return q_tar, delta, m_tar


def make_agent(targets, behaviour, learner):
    asked = Question(np.float32([0.99, 0.9]), (0, 1), SIGMAS)
    return GVFAgent(WORLD, targets, asked, np.float32([1.0, 2.0]), behaviour, learner, steps=1000)


def make_batch(agent, batch=8):
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(batch, agent.columns.width)).astype(np.float32)
    rows[:, agent.columns.action] = generator.uniform(-1, 1, (batch, 6))
    rows[:, agent.columns.notes] = generator.uniform(-1, 1, (batch, 12))
    return rows, generator.normal(size=(batch, agent.learn_draws)).astype(np.float32)


def plain_step(nets, rows, columns, targets, rate):
    """The first step of Adam on the twins' plain loss: every number moves by the rate against its gradient's sign."""

    def loss(nets):
        x = jnp.concatenate([rows[:, columns.observation], rows[:, columns.action]], axis=1)
        return sum(((targets - net(x)) ** 2).sum() / len(rows) for net in nets)

    gradient = jax.grad(loss)(nets)
    return jax.tree.map(lambda p, g: p - rate * g / (jnp.abs(g) + 1e-8), nets, gradient)


@pytest.mark.parametrize("learner", [replace(PAPER, hidden=(16, 16)), SMALL], ids=["printed", "recommended"])
@pytest.mark.parametrize("far", [0.0, 300.0], ids=["near", "beyond the bounds"])
def test_update_is_algorithm_2(targets, learner, far):
    agent = make_agent(targets, Actor(), learner)
    learning = agent.begin(np.random.default_rng(3))
    other = agent.begin(np.random.default_rng(4))  # target networks that differ from the networks
    for net in (*other.critics.q, *other.critics.m):
        net.biases[-1] = net.biases[-1] + jnp.float32([far, -far])
    critics = learning.critics._replace(target_q=other.critics.q, target_m=other.critics.m)
    learning = learning._replace(critics=critics)
    rows, noise = make_batch(agent)
    fresh, q_losses, m_losses = jax.jit(agent.update, static_argnums=4)(critics, learning.actor, rows, noise, True)

    q_tar, _, _ = plain_targets(agent, learning, rows, noise, (0.99, 0.9))
    c = agent.columns
    said = [plain(net, rows[:, c.observation], rows[:, c.action]) for net in critics.q]
    assert np.allclose(q_losses, sum(((q_tar - x) ** 2).mean(axis=0) for x in said), rtol=1e-4)
    stepped = plain_step(critics.q, rows, c, q_tar, learner.rate_q)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in zip(jax.tree.leaves(fresh.q), jax.tree.leaves(stepped), strict=True))

    updated = learning._replace(critics=critics._replace(q=fresh.q))  # the TD error is the updated Q's, from the same Q_tar
    _, delta, m_tar = plain_targets(agent, updated, rows, noise, (0.99, 0.9))
    said = [plain(net, rows[:, c.observation], rows[:, c.action]) for net in critics.m]
    assert np.abs(delta).max() > 0.1
    extremes = rows[:, c.cumulants].min(axis=0), rows[:, c.cumulants].max(axis=0)
    assert np.array_equal(fresh.seen, extremes)
    if far and learner.bounded:
        assert np.allclose(q_tar[:, 0], extremes[1][0] / 0.01) and np.allclose(q_tar[:, 1], extremes[0][1] / 0.1)
    assert np.allclose(m_losses, sum(((m_tar - x) ** 2).mean(axis=0) for x in said), rtol=1e-4)
    stepped = plain_step(critics.m, rows, c, m_tar, learner.rate_m)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in zip(jax.tree.leaves(fresh.m), jax.tree.leaves(stepped), strict=True))

    for new, old, net in ((fresh.target_q, critics.target_q, fresh.q), (fresh.target_m, critics.target_m, fresh.m)):
        share = learner.tau if learner.target_every == 1 else 0.0  # the first of 200 updates copies nothing
        for x, y, z in zip(*(jax.tree.leaves(tree) for tree in (new, old, net)), strict=True):
            assert np.allclose(x, (1 - share) * y + share * z, atol=1e-6)


def test_target_networks_are_copied_every_so_many_updates(targets):
    agent = make_agent(targets, RoundRobin(), replace(SMALL, tau=1.0, target_every=2))
    critics = agent.begin(np.random.default_rng(3)).critics
    old = critics.target_q[0].weights[0]
    rows, noise = make_batch(agent)
    one, _, _ = agent.update(critics, None, rows, noise, False)
    two, _, _ = agent.update(one, None, rows, noise, False)
    assert (one.target_q[0].weights[0] == old).all()
    assert (two.target_q[0].weights[0] == two.q[0].weights[0]).all()


@pytest.mark.parametrize(
    "behaviour",
    [
        PAPER_ACTOR,
        Actor(direction="raise", kl_to="mixture", kl_weight=2.0),
        Actor(direction="lower", kl_to="each", kl_weight=0.5, normalised=False),
        Actor(direction="optimal"),
    ],
    ids=["printed", "raise", "lower", "optimal"],
)
def test_actor_loss_is_the_plain_one(targets, behaviour):
    agent = make_agent(targets, behaviour, replace(SMALL, aggregate="min"))
    learning = agent.begin(np.random.default_rng(3))
    rows, noise = make_batch(agent)
    c, alpha = agent.columns, 0.3
    s, middles, noise = rows[:, c.following], rows[:, c.notes].reshape(-1, 2, 6), noise[:, -6:]
    around = Surroundings(s, middles, SIGMAS, np.float32([1.0, 2.0]))
    assert agent.actor is not None
    value, log_mu = agent.actor.loss(learning.actor.actor, learning.critics.m, jnp.float32(alpha), around, noise)

    action, plain_log_mu = plain_mu(learning.actor.actor, s, noise)
    m = np.min([plain(net, s, action) for net in learning.critics.m], axis=0)
    z = (action[:, None] - middles) / SIGMAS[:, None]
    log_pi = (-0.5 * z**2 - np.log(SIGMAS)[:, None] - 0.5 * np.log(2 * np.pi)).sum(axis=2)
    score = m @ [1.0, 2.0]
    if behaviour.normalised:
        score = score / score.mean()
    near = np.log(np.exp(log_pi).mean(axis=1)) if behaviour.kl_to == "mixture" else log_pi.mean(axis=1)
    sign = {"raise": 1, "lower": -1, "optimal": 0}[behaviour.direction]
    expected = alpha * plain_log_mu - sign * score + behaviour.kl_weight * (plain_log_mu - near)
    if behaviour.direction == "optimal":
        expected = plain_log_mu - 0.5 * np.log(np.exp(2 * log_pi) @ np.diag([1.0, 2.0]) * m @ np.ones(2))
    assert np.allclose(log_mu, plain_log_mu, rtol=1e-4)
    assert float(value) == pytest.approx(expected.mean(), rel=1e-3)


def test_temperature_holds_the_entropy_at_its_target(targets):
    agent = make_agent(targets, Actor(target_entropy=-3.0), SMALL)
    learning = agent.begin(np.random.default_rng(3))
    rows, noise = make_batch(agent)
    _, log_mu = plain_mu(learning.actor.actor, rows[:, agent.columns.following], noise[:, -6:])
    acting, _ = agent.update_actor(learning.actor, learning.critics, rows, noise)
    lower = -log_mu.mean() > -3.0  # too random: alpha falls
    assert (float(acting.log_alpha) < float(learning.actor.log_alpha)) == lower


def test_gradient_of_the_actor_is_that_of_finite_differences(targets):
    agent = make_agent(targets, Actor(normalised=False), SMALL)  # the mean that normalises counts as a constant
    assert agent.actor is not None
    with jax.enable_x64(True):
        learning = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, float)), agent.begin(np.random.default_rng(3)))
        rows, noise = (np.float64(x) for x in make_batch(agent))
        middles = rows[:, agent.columns.notes].reshape(-1, 2, 6)
        around = Surroundings(rows[:, agent.columns.following], middles, SIGMAS, np.ones(2))

        def loss(bias):
            net = eqx.tree_at(lambda net: net.biases[-1], learning.actor.actor, bias)
            return agent.actor.loss(net, learning.critics.m, jnp.float64(0.3), around, noise[:, -6:])[0]

        bias = learning.actor.actor.biases[-1]
        gradient = jax.grad(loss)(bias)
        for k in (0, 5, 6, 11):  # means and log standard deviations
            step = jnp.zeros_like(bias).at[k].set(1e-5)
            difference = float(loss(bias + step) - loss(bias - step)) / 2e-5
            assert float(gradient[k]) == pytest.approx(difference, rel=1e-4, abs=1e-6)


# --- TD3 ---------------------------------------------------------------------------------------------------------------


def test_td3_target_and_first_step_are_the_plain_ones():
    agent = TD3Agent(TD3(hidden=(16, 16)), columns(17, 6, 2), task=1)
    learning = agent.begin(np.random.default_rng(3))
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(8, agent.columns.width)).astype(np.float32)
    noise = (3 * generator.normal(size=(8, 6))).astype(np.float32)
    c, s2 = agent.columns, rows[:, agent.columns.following]
    action = np.clip(np.tanh(plain(learning.target_actor, s2)) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
    q = np.min([plain(net, s2, action)[:, 0] for net in learning.target_critics], axis=0)
    target = rows[:, c.cumulants][:, 1] + 0.99 * q
    assert np.allclose(agent.critic_target(learning, rows, noise), target, atol=1e-5)
    fresh, _ = agent.update_critics(learning, rows, noise)
    stepped = plain_step(learning.critics, rows, c, target[:, None], 1e-3)
    pairs = zip(jax.tree.leaves(fresh.critics), jax.tree.leaves(stepped), strict=True)
    assert all(np.allclose(x, y, atol=1e-5) for x, y in pairs)


def test_td3_finds_the_best_action():
    """One state, cumulant 1 - (a - 0.5)^2: the actor goes to 0.5."""
    agent = TD3Agent(TD3(hidden=(16, 16), discount=0.0, tau=0.05, rate=3e-3), columns(1, 1, 1), task=0)
    learning, learn = agent.begin(np.random.default_rng(0)), jax.jit(agent.learn)
    generator = np.random.default_rng(1)
    for _ in range(250):
        action = generator.uniform(-1, 1, (4, 64, 1))
        ones = np.ones_like(action)
        rows = np.concatenate([ones, action, ones, 1 - (action - 0.5) ** 2], axis=2).astype(np.float32)
        learning, _ = learn(learning, rows, generator.normal(size=(4, 64, 1)).astype(np.float32))
    assert float(jnp.tanh(learning.actor(jnp.ones(1)))[0]) == pytest.approx(0.5, abs=0.15)


def test_training_a_target_stops_where_it_should(tmp_path):
    snapshots = [Snapshot(k, mean, spread, ()) for k, (mean, spread) in enumerate([(100, 5), (400, 160), (700, 9), (800, 9)])]
    assert not _enough(snapshots[:1]) and not _enough(snapshots[:2]) and not _enough(snapshots[:3])
    assert _enough(snapshots)  # outgrown
    assert _enough([Snapshot(1, 400, 50, ())])  # good
    assert not _enough(snapshots[2:])  # no mid-level one was met
    with pytest.raises(InputError, match="task: 'runn' is unknown"):
        train_targets(CHEETAH, "runn", 0, tmp_path)


@pytest.mark.slow
def test_training_writes_a_target_that_acts(tmp_path, monkeypatch):
    monkeypatch.setattr("gvfx.experiments.train_targets.MID_LEVEL", (0.0, 1000.0))
    monkeypatch.setattr("gvfx.experiments.train_targets.SNAPSHOT_EVERY", 320)
    monkeypatch.setattr("gvfx.experiments.train_targets.EPISODES", 2)
    learner = TD3(hidden=(16, 16), batch=32, capacity=1600, learning_starts=160)
    seen = []
    path = train_targets(WORLD, "walk", 0, tmp_path, seen.append, learner, longest=320)
    target = Target.load(path)
    assert len(seen) == 1 and target.facts["steps"] == "320"
    observations = np.random.default_rng(0).normal(size=(3, 17))
    assert np.allclose(target.act(observations), actor(seen[0].layers, observations))


# --- behaviours --------------------------------------------------------------------------------------------------------


def test_rules_choose_what_to_follow():
    chance, pull = jnp.array([[0.1, 0.9], [0.4, 0.9], [0.6, 0.9], [0.9, 0.9]]), jnp.ones((4, 2))
    turns = RoundRobin().box_action_rule()
    state = turns.begin(4, 2)
    assert turns.choose(state, chance, pull)[1].tolist() == [0, 1, 0, 1]
    state = turns.episode_end(state, jnp.array([True, False, False, True]))
    assert turns.choose(state, chance, pull)[1].tolist() == [1, 1, 0, 0]
    assert Mixture().box_action_rule().choose((), chance, pull)[1].tolist() == [0, 0, 1, 1]
    assert Uniform().box_action_rule().choose((), chance, pull)[1].tolist() == [2, 2, 2, 2]
    half = Actor(share=0.5).box_action_rule()
    assert half.choose(half.begin(4, 2), chance, pull)[1].tolist() == [2, 2, 0, 1]
    more = GVFExplorer().box_action_rule()
    assert more.choose((), chance, jnp.array([[1.0, 3.0]] * 4))[1].tolist() == [0, 1, 1, 1]


def test_hold_keeps_a_choice_until_chance_or_the_episode_ends_it():
    rule, pull = Hold(Mixture(), steps=4).box_action_rule(), jnp.ones((2, 2))
    state, which = rule.choose(rule.begin(2, 2), jnp.array([[0.1, 0.9], [0.9, 0.9]]), pull)
    assert which.tolist() == [0, 1]
    state, which = rule.choose(state, jnp.array([[0.9, 0.3], [0.1, 0.2]]), pull)
    assert which.tolist() == [0, 0]
    state = rule.episode_end(state, jnp.array([True, False]))
    state, which = rule.choose(state, jnp.array([[0.9, 0.9], [0.9, 0.9]]), pull)
    assert which.tolist() == [1, 0]


def test_pull_is_the_importance_weight_of_theorem_4_1(targets):
    agent = make_agent(targets, GVFExplorer(), SMALL)
    critics = agent.begin(np.random.default_rng(3)).critics
    generator = np.random.default_rng(4)
    seen = generator.normal(size=(3, 17)).astype(np.float32)
    middles, draws = (generator.uniform(-0.1, 0.1, (3, 2, 6)).astype(np.float32) for _ in range(2))
    got = agent.pull(critics, seen, middles, draws)
    for n in range(3):
        for i in range(2):
            m = np.mean([plain(net, seen[n], draws[n, i]) for net in critics.m], axis=0)
            z = (draws[n, i] - middles[n]) / SIGMAS[:, None]
            pi = np.exp(-0.5 * (z**2).sum(axis=1)) / (SIGMAS * np.sqrt(2 * np.pi)) ** 6
            assert float(got[n, i]) == pytest.approx(np.sqrt((np.array([1.0, 2.0]) * pi**2 * m).sum()) / pi.sum(), rel=1e-3)


# --- the loop ----------------------------------------------------------------------------------------------------------


def test_worlds_are_staggered_and_truncations_keep_the_real_next_observation(targets):
    agent = make_agent(targets, RoundRobin(), SMALL)
    stream = Staggered(WORLD, agent, seed=3)
    assert stream.ages.tolist() == [0, 10, 20, 30]
    twin = Lockstep(WORLD, 4)
    ended = []
    for step in range(1, 12):
        twin.set_state(stream.simulator.get_state())
        actions = np.asarray(stream.state.actions)
        rows = stream.advance()
        following, cumulants = twin.step(actions)
        assert np.allclose(rows[:, agent.columns.following], following, atol=1e-5)
        assert np.allclose(rows[:, agent.columns.cumulants], cumulants, atol=1e-6)
        if stream.episodes > len(ended):
            ended.append(step)
            assert not np.allclose(stream.observations[3], following[3], atol=1e-3)
    assert ended == [10]
    stored = np.asarray(stream.state.replay.rows[: 11 * 4])
    middles = np.stack([t.act(stored[:, agent.columns.following]) for t in targets], axis=1).reshape(44, 12)
    assert np.allclose(stored[:, agent.columns.notes], middles, atol=1e-5)


@pytest.mark.parametrize(
    "behaviour",
    [pytest.param(Actor(share=0.5), id="actor", marks=pytest.mark.slow), pytest.param(Hold(GVFExplorer()), id="explorer")],
)
def test_killed_and_resumed_gives_the_same_bytes(questions, truth, behaviour, tmp_path):
    run = LockstepRunner(WORLD, questions, behaviour, SMALL, Plan.checked(480, 160, (320,)), "id", truth)
    whole = run(7)

    def stop(seed, step, error):
        if step == 320:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(7, stop, tmp_path, checkpoint_every=0.0)
    assert list(tmp_path.glob("*.checkpoint"))
    resumed = run(7, None, tmp_path, checkpoint_every=0.0)
    assert not list(tmp_path.glob("*.checkpoint"))
    for name, array in whole.arrays().items():
        assert array.tobytes() == resumed.arrays()[name].tobytes(), name
    assert whole.mse.shape == (3, 2) and whole.values.shape == (2, 2, 5)
    assert (whole.actor.size > 0) == behaviour.needs_actor


def test_streams_are_named_so_behaviours_start_from_the_same_networks(targets):
    first = Staggered(WORLD, make_agent(targets, RoundRobin(), SMALL), seed=1)
    second = Staggered(WORLD, make_agent(targets, Uniform(), SMALL), seed=1)
    for x, y in zip(flatten(first.state.learning).values(), flatten(second.state.learning).values(), strict=True):
        assert (x == y).all()
    assert (first.observations == second.observations).all()


def test_a_number_that_is_not_finite_stops_the_run(questions, truth):
    run = LockstepRunner(WORLD, questions, RoundRobin(), replace(SMALL, rate_q=1e30), Plan.checked(320, 160, ()), truth=truth)
    with pytest.raises(Diverged, match=r"the loss of Q of 'walk' became (nan|inf) at step \d+ \(seed 0\)"):
        run(0)


# --- as an experiment --------------------------------------------------------------------------------------------------


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
        (lambda: make_runner(CHEETAH, questions, RoundRobin(), Deep(), plan), "learner: Deep does not fit"),
        (lambda: make_agent(targets, SuccessorRepresentation(), SMALL), "continuous actions"),
        (lambda: Hold(Mixture(), steps=0.5), "steps"),
        (lambda: make_agent(targets, Actor(updates=9), SMALL), "updates"),
        (
            lambda: LockstepRunner(WORLD, questions, RoundRobin(), SMALL, Plan.checked(321, 160, ()), truth=truth),
            "evaluate_every",
        ),
    ]
    walk = questions[0]
    for wrong, field in (
        (replace(walk, cumulant=Constant(1.0)), "walk.cumulant"),
        (replace(walk, policy=[0.5, 0.5]), "walk.policy"),
        (replace(walk, discount=lambda s, a, n: 0.9), "walk.discount"),
    ):
        cases.append((lambda wrong=wrong: LockstepRunner(WORLD, [wrong], RoundRobin(), SMALL, plan, truth=truth), field))
    for make, field in cases:
        with pytest.raises(InputError, match=field) as caught:
            make()
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
