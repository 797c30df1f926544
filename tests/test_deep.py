"""The scanned engine equals a plain step-by-step reference, resumes exactly, and stops at the first bad number."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx.learners.networks.deep import Deep
from gvfx.learners.networks.heads import Heads
from gvfx.running.checkpoint import Checkpoints, flatten, unflatten
from gvfx.running.evaluate import Plan
from gvfx.running.streams import scanned_loop as scanned
from gvfx.running.streams.network_scanned import Diverged, NetworkRunner
from gvfx.worlds import continuous_grid
from gvfx.worlds.continuous_grid import paper_grid

POLICIES = np.array([[0.175, 0.175, 0.25, 0.4], [0.25, 0.15, 0.25, 0.35]])
SMALL = Deep(hidden=(16, 16), batch=8, capacity=64, learning_starts=32, target_every=20)
BEHAVIOUR = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Linear(1.0, 0.1, 100)))


def engine(learner=SMALL, behaviour=BEHAVIOUR, world=None, steps=10_000):
    return scanned.Engine(
        world or paper_grid(), POLICIES, np.array([0.99, 0.9]), np.array([1.0, 2.0]), np.arange(2), behaviour, learner, steps
    )


# --- the plain reference -----------------------------------------------------------------------------------------


def numpy_network(net):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in zip(net.weights, net.biases, strict=True)]


def forward(layers, x, positive):
    """Outputs [batch, 4, 2] and what the backward pass needs."""
    kept = [x]
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
        kept.append(x)
    z = x @ layers[-1][0] + layers[-1][1]
    out = np.logaddexp(z, 0) if positive else z
    return out.reshape(len(z), 4, 2), kept, z


def gradients(layers, kept, z, d_out, positive):
    d = d_out.reshape(z.shape)
    if positive:
        d = d / (1 + np.exp(-z))
    grads = []
    for k in range(len(layers) - 1, -1, -1):
        grads.insert(0, (kept[k].T @ d, d.sum(axis=0)))
        if k:
            d = (d @ layers[k][0].T) * (kept[k] > 0)
    return grads


class Adam:
    def __init__(self, layers, rate):
        self.m = [[np.zeros_like(p) for p in layer] for layer in layers]
        self.v = [[np.zeros_like(p) for p in layer] for layer in layers]
        self.t, self.rate = 0, rate

    def step(self, layers, grads):
        self.t += 1
        out = []
        for k, layer in enumerate(layers):
            new = []
            for j, p in enumerate(layer):
                self.m[k][j] = 0.9 * self.m[k][j] + 0.1 * grads[k][j]
                self.v[k][j] = 0.999 * self.v[k][j] + 0.001 * grads[k][j] ** 2
                m, v = self.m[k][j] / (1 - 0.9**self.t), self.v[k][j] / (1 - 0.999**self.t)
                new.append(p - self.rate * m / (np.sqrt(v) + 1e-8))
            out.append(tuple(new))
        return out


def reference(e, seed, blocks):
    """Algorithm 1 in NumPy, one step after the other, with the engine's random keys."""
    learner, world = e.learner, e.world
    start = e.begin(seed)
    q, m = numpy_network(start.learning.q), numpy_network(start.learning.m)
    target_q, target_m = q, m
    adam_q, adam_m = Adam(q, learner.rate_q), Adam(m, learner.rate_m)
    keys = start.keys
    o, age, t, rows, episodes = np.asarray(start.observation), 0, 0, [], 0
    pi, gamma, weights = POLICIES.T, np.array([0.99, 0.9]), np.array([1.0, 2.0])
    for _ in range(blocks):
        both = [jax.random.split(keys[k]) for k in range(4)]
        keys = [pair[0] for pair in both]
        act = jax.random.uniform(both[1][1], (learner.block,))
        move_key, start_key = jax.random.split(both[0][1])
        moving = jax.random.uniform(move_key, (learner.block, world.draws))
        starting = jax.random.uniform(start_key, (learner.block, world.candidates, 2))
        for k in range(learner.block):
            out = forward(m, np.asarray(o, float)[None], True)[0][0]
            score = np.sqrt((weights * pi**2 * out).sum(axis=1))
            mu = score / score.sum()
            epsilon = max(1 - 0.9 * t / 100, 0.1)
            mu = (1 - epsilon) * mu + epsilon / 4
            mu = 1e-3 + (1 - 4e-3) * np.maximum(mu - 1e-3, 0) / np.maximum(mu - 1e-3, 0).sum()
            a = int((float(act[k]) >= np.cumsum(mu)[:-1]).sum())
            following, c, ended = continuous_grid.move(world, moving[k], o, a)
            age += 1
            rows.append([*np.asarray(o), *np.asarray(following), *np.asarray(c), 0.0 if ended else 1.0, a])
            o = following
            if ended or age >= world.horizon:
                o, age = continuous_grid.start(world, starting[k]), 0
                episodes += 1
            t += 1
        if t >= learner.learning_starts:
            u = np.asarray(jax.random.uniform(both[3][1], (3 * learner.batch,)))
            stored = min(len(rows), learner.capacity)
            index = np.minimum((u * np.float32(stored)).astype(int), stored - 1)
            kept = np.zeros((learner.capacity, 8))
            for n, row in enumerate(rows):
                kept[n % learner.capacity] = row
            for number in range(3):
                batch = kept[index[number * learner.batch : (number + 1) * learner.batch]]
                obs, nxt, c, alive, a = batch[:, :2], batch[:, 2:4], batch[:, 4:6], batch[:, 6:7], batch[:, 7].astype(int)
                each = np.arange(len(batch))
                v = (pi * forward(target_q, nxt, False)[0]).sum(axis=1)
                out, cache, z = forward(q, obs, False)
                delta = c + alive * gamma * v - out[each, a]
                if number < 2:
                    d = np.zeros_like(out)
                    d[each, a] = -2 * delta / len(batch)
                    q = adam_q.step(q, gradients(q, cache, z, d, False))
                else:
                    v_m = (pi * forward(target_m, nxt, True)[0]).sum(axis=1)
                    out, cache, z = forward(m, obs, True)
                    error = delta**2 + (alive * gamma) ** 2 * v_m - out[each, a]
                    d = np.zeros_like(out)
                    d[each, a] = -2 * error / len(batch)
                    m = adam_m.step(m, gradients(m, cache, z, d, True))
        if t // learner.target_every > (t - learner.block) // learner.target_every:
            target_q, target_m = q, m
    return q, m, target_q, np.array(rows), episodes


def test_the_scan_equals_the_reference():
    e = engine()
    state = e.advance(e.begin(5), 20)
    q, m, target_q, rows, episodes = reference(e, 5, 20)
    kept = np.zeros((64, 8))
    for n, row in enumerate(rows):
        kept[n % 64] = row
    np.testing.assert_allclose(state.replay.rows, kept, atol=1e-6)
    assert int(state.episodes) == episodes and int(state.t) == 160
    for ours, theirs in ((q, state.learning.q), (m, state.learning.m), (target_q, state.learning.target_q)):
        for (w, b), w_jax, b_jax in zip(ours, theirs.weights, theirs.biases, strict=True):
            np.testing.assert_allclose(w_jax, w, rtol=2e-3, atol=2e-4)
            np.testing.assert_allclose(b_jax, b, rtol=2e-3, atol=2e-4)
    assert int(state.visits.sum()) == 160


# --- properties --------------------------------------------------------------------------------------------------


def test_truncation_bootstraps_and_termination_does_not():
    world = dataclasses.replace(paper_grid(), horizon=10)
    silent = dataclasses.replace(SMALL, learning_starts=10**6)
    e = engine(silent, gvfx.Uniform(), world)
    rows = np.asarray(e.advance(e.begin(0), 8).replay.rows)
    paid = rows[:, 4:6].any(axis=1)
    assert (rows[~paid, 6] == 1).all()
    cut = dataclasses.replace(world, timeouts_terminate=True)
    e = engine(silent, gvfx.Uniform(), cut)
    rows = np.asarray(e.advance(e.begin(0), 8).replay.rows)
    assert (rows[:, 6] == 0).sum() >= 6


COMPILED_OFTEN = [("GVFExplorer", "prioritised"), ("SuccessorRepresentation", "uniform")]
COMPILED_SELDOM = [
    pytest.param(b, r, marks=pytest.mark.slow)
    for b in ("GVFExplorer", "RoundRobin", "Mixture", "Uniform", "SuccessorRepresentation")
    for r in ("uniform", "prioritised")
    if (b, r) not in COMPILED_OFTEN
]


@pytest.mark.parametrize(("behaviour", "replay"), [*COMPILED_OFTEN, *COMPILED_SELDOM])
def test_every_behaviour_runs_with_both_replays(behaviour, replay):
    e = engine(dataclasses.replace(SMALL, replay=replay), gvfx.Floor(gvfx.Epsilon(getattr(gvfx, behaviour)())))
    state = e.advance(e.begin(1), 30)
    assert int(state.trouble.step) == -1
    assert int(state.visits.sum()) == 240
    mu = np.asarray(e.probabilities(state.acting, state.learning, state.t, state.observation))
    assert mu.sum() == pytest.approx(1, abs=1e-5) and mu.min() >= 1e-3 - 1e-6


@pytest.mark.parametrize("priority", ["m", *(pytest.param(p, marks=pytest.mark.slow) for p in ("q", "sr"))])
def test_every_priority_changes_what_is_sampled(priority):
    behaviour = gvfx.SuccessorRepresentation() if priority == "sr" else gvfx.GVFExplorer()
    e = engine(dataclasses.replace(SMALL, replay="prioritised", priority=priority), behaviour)
    state = e.advance(e.begin(1), 30)
    p = np.asarray(state.replay.priorities[:64])
    assert (p > 0).all() and p.std() > 0


def test_the_rule_on_networks_is_the_rule_on_tables():
    from test_behaviours import GVFS, SIZES

    from gvfx.questions.gvf import stack

    world = gvfx.gridworld(3, {"goal": (0, 0)})
    questions = [gvfx.GVF(np.full(4, 0.25), gvfx.Constant(1, at="goal"), name=str(i), weight=1.0 + i) for i in range(GVFS)]
    asked = stack(questions, world)
    rng = np.random.default_rng(0)
    for behaviour in (BEHAVIOUR, gvfx.Blend(gvfx.GVFExplorer(), gvfx.Uniform(), 0.3), gvfx.RoundRobin(), gvfx.Mixture()):
        pi, m = rng.dirichlet(np.ones(4), GVFS).T.copy(), rng.exponential(size=(4, GVFS))
        mu = np.empty(4)
        behaviour.rule(SIZES).probabilities(behaviour.begin(asked, world), 50, 0, 0, pi, m, mu)
        rule = behaviour.network_rule()
        ours = rule.probabilities(rule.begin(np.asarray(asked.weights)), 50, pi, m, None)
        if not isinstance(behaviour, gvfx.Mixture):  # on tables the mixture is taken from the questions
            np.testing.assert_allclose(ours, mu, rtol=1e-5)


def test_waves_join_the_inputs_and_are_never_trained():
    heads = Heads(jax.random.key(1), 2, (16,), (4, 2), waves=3)
    x = np.array([[0.2, 0.9], [0.5, 0.5]], np.float32)
    turns = x @ np.asarray(heads.frequencies)
    triangle = [np.abs((t % 1) - 0.5) * 4 - 1 for t in (turns, turns + 0.25)]
    hidden = np.maximum(np.concatenate([x, *triangle], axis=1) @ heads.weights[0] + heads.biases[0], 0)
    np.testing.assert_allclose(heads(x).reshape(2, 8), hidden @ heads.weights[1] + heads.biases[1], rtol=1e-4, atol=1e-5)
    e = engine(dataclasses.replace(SMALL, waves=3))
    before, after = e.begin(0), e.advance(e.begin(0), 12)
    assert np.array_equal(before.learning.q.frequencies, after.learning.q.frequencies)
    assert not np.array_equal(before.learning.q.weights[0], after.learning.q.weights[0])


def test_an_experiment_without_waves_is_written_as_before_there_were_any():
    parts = (paper_grid(), tuple(questions()), BEHAVIOUR)
    plain, waved = (Experiment(*parts, dataclasses.replace(SMALL, waves=k), 160, 80) for k in (0, 5))
    assert "waves" not in plain.json and '"waves":5' in waved.json.replace(" ", "")
    assert Experiment.from_json(waved.json) == waved and Experiment.from_json(plain.json) == plain


def questions():
    return [gvfx.GVF(POLICIES[i], gvfx.Signal(name), 0.99, name=name) for i, name in enumerate(("left", "right"))]


def runner(steps=800, learner=SMALL):
    return NetworkRunner(paper_grid(), questions(), BEHAVIOUR, learner, Plan.checked(steps, 80, (400,)), "test")


def parts_equal(a, b):
    first, second = a.arrays(), b.arrays()
    return first.keys() == second.keys() and all(first[k].tobytes() == second[k].tobytes() for k in first)


def test_same_seed_same_bytes_and_resuming_changes_nothing(tmp_path):
    run = runner()
    whole = run(3)
    assert parts_equal(whole, run(3)) and not parts_equal(whole, run(4))

    class Stop(Exception):
        pass

    def stop_midway(seed, done, error):
        if done == 480:
            raise Stop

    with pytest.raises(Stop):
        run(3, stop_midway, checkpoints=tmp_path, checkpoint_every=0.0)
    assert list(tmp_path.glob("*.checkpoint"))
    resumed = runner()(3, checkpoints=tmp_path)
    assert parts_equal(whole, resumed)
    assert not list(tmp_path.glob("*.checkpoint"))


@pytest.mark.slow
def test_seeds_together_are_the_seeds_alone_and_resume_exactly(tmp_path):
    run = runner()
    both = run.together((3, 4))
    for seed, part in zip((3, 4), both, strict=True):
        alone = run(seed)
        assert np.array_equal(part.visits[0], alone.visits[0])  # the same draws; sums may differ in their last bits
        np.testing.assert_allclose(part.mse, alone.mse, rtol=1e-2)

    def stop_midway(seed, done, error):
        if done == 480:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.together((3, 4), stop_midway, checkpoints=tmp_path, checkpoint_every=0.0)
    resumed = runner().together((3, 4), checkpoints=tmp_path)
    assert all(parts_equal(a, b) for a, b in zip(both, resumed, strict=True))


@pytest.mark.slow
def test_a_device_runs_all_missing_seeds_and_one_that_is_not_there_is_named(tmp_path):
    e = Experiment(paper_grid(), tuple(questions()), BEHAVIOUR, SMALL, 160, 80)
    store = Store(tmp_path / "a")
    tally = run_all(store, [(e, 3)], device="cpu")
    assert (tally.done, tally.found) == (3, 0) and all(store.has(e, seed) for seed in range(3))
    assert run_all(store, [(e, 3)], device="cpu").done == 0
    with pytest.raises(gvfx.InputError, match="device.*'tpu'"):
        run_all(Store(tmp_path / "b"), [(e, 1)], device="tpu")


def test_a_damaged_checkpoint_leaves_the_one_before(tmp_path):
    keeper = Checkpoints(tmp_path, "seed-0000", "me")
    for step in (1, 2, 3):
        keeper.save(step, {"x": np.array([step])})
    newest = keeper.paths[0]
    raw = bytearray(newest.read_bytes())
    raw[-1] ^= 1
    newest.write_bytes(raw)
    assert Checkpoints(tmp_path, "seed-0000", "me").load()["x"] == [2]
    newest.write_bytes(raw[:20])
    assert Checkpoints(tmp_path, "seed-0000", "me").load()["x"] == [2]
    with pytest.raises(gvfx.InputError, match="another experiment"):
        Checkpoints(tmp_path, "seed-0000", "you").load()


def test_flatten_and_unflatten_are_inverse():
    e = engine()
    state = e.advance(e.begin(0), 6)
    arrays = flatten(state)
    again = unflatten(e.begin(1), arrays)
    for a, b in zip(jax.tree.leaves(arrays), jax.tree.leaves(flatten(again)), strict=True):
        np.testing.assert_array_equal(a, b)
    on, other = e.advance(again, 3), e.advance(state, 3)  # both states are given away here
    np.testing.assert_array_equal(on.replay.rows, other.replay.rows)
    arrays.pop(next(iter(arrays)))
    with pytest.raises(gvfx.InputError, match="checkpoint"):
        unflatten(on, arrays)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_gvf(tmp_path):
    wild = dataclasses.replace(SMALL, rate_q=1e30)
    run = runner(learner=wild)
    with pytest.raises(Diverged, match=r"loss of Q of 'left' became .* at step \d+ \(seed 0\)"):
        run(0, checkpoints=tmp_path, checkpoint_every=0.0)


def test_a_cumulant_that_is_not_finite_is_named():
    goals = tuple(dataclasses.replace(g, mean=3e38, sd=3e38) if g.name == "right" else g for g in paper_grid().goals)
    world = dataclasses.replace(paper_grid(), goals=goals, radius=0.2, step=0.1)
    e = engine(world=world, behaviour=gvfx.Uniform())
    state = e.begin(0)
    for _ in range(60):
        state = e.advance(state, 5)
        if int(state.trouble.step) >= 0:
            break
    assert int(state.trouble.gvf) == 1 and int(state.trouble.kind) in (1, 2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"capacity": 25_001}, "capacity"),
        ({"batch": 0}, "batch"),
        ({"rate_q": -1.0}, "rate_q"),
        ({"replay": "lifo"}, "replay"),
        ({"priority": "x"}, "priority"),
        ({"beta": 2.0}, "beta"),
        ({"waves": -1}, "waves"),
    ],
)
def test_bad_options_are_named(options, field):
    with pytest.raises(gvfx.InputError, match=f"^{field}"):
        Deep(**options)


def test_questions_that_do_not_fit_are_named():
    plan = Plan.checked(80, 80, ())
    with pytest.raises(gvfx.InputError, match="gvf1.cumulant"):
        NetworkRunner(paper_grid(), [gvfx.GVF(POLICIES[0], 1.0)], BEHAVIOUR, SMALL, plan)
    with pytest.raises(gvfx.InputError, match="evaluate_every"):
        NetworkRunner(paper_grid(), questions(), BEHAVIOUR, SMALL, Plan.checked(90, 9, ()))
    with pytest.raises(gvfx.InputError, match="tables only"):
        NetworkRunner(paper_grid(), questions(), gvfx.BehaviourPolicySearch(), SMALL, plan)


def test_evaluate_runs_networks_too():
    result = gvfx.evaluate(paper_grid(), questions(), BEHAVIOUR, SMALL, steps=160, seeds=2, evaluate_every=80)
    assert result.mse.shape == (2, 2, 2) and result.mse_outside.shape == (2, 2, 2)
    assert result.values.shape == (2, 2, 400)
    with pytest.raises(gvfx.InputError, match="^learner"):
        gvfx.evaluate(paper_grid(), questions(), BEHAVIOUR, gvfx.ExpectedSarsa(), steps=80)
    with pytest.raises(gvfx.InputError, match="^learner"):
        gvfx.evaluate(gvfx.gridworld(3), questions(), BEHAVIOUR, SMALL, steps=80)
