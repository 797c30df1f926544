"""The continuous grid: its two forms agree with each other and with hand-made numbers; its truth is found in two ways."""

import dataclasses
import json
import math
import subprocess
import sys
import warnings
from functools import lru_cache, partial

import gymnasium
import jax
import jax.numpy as jnp
import lattice_solution
import lattice_truths
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gvfx.errors import InputError
from gvfx.truths import lattice
from gvfx.worlds.continuous_grid import (
    ENV_ID,
    ContinuousGrid,
    ContinuousGridEnv,
    Goal,
    authors_grid,
    move,
    paper_grid,
    reset,
    start,
    step,
)

LEFT, RIGHT, UP, DOWN = range(4)
SAMPLES = 20_000
PI = lattice.PAPER_POLICIES


@lru_cache
def compiled(world):
    return jax.jit(jax.vmap(partial(step, world), in_axes=(0, None, None)))


def moves_in_jax(world, position, action, samples=SAMPLES, seed=0):
    keys = jax.random.split(jax.random.key(seed), SAMPLES)
    out = compiled(world)(keys, jnp.array(position, jnp.float32), action)
    return [np.asarray(part, float)[:samples] for part in out]


def moves_in_numpy(world, position, action, samples=SAMPLES, seed=0):
    env = ContinuousGridEnv(world)
    env.reset(seed=seed)
    rows = []
    for _ in range(samples):
        env.reset(options={"position": position})
        observation, _, terminated, _, info = env.step(action)
        rows.append((observation, info["cumulants"], terminated))
    return [np.array(part, float) for part in zip(*rows, strict=True)]


def close(sample, mean, sd):
    """Whether the sample's mean and spread fit, within 4.5 standard errors."""
    n = len(sample)
    return abs(sample.mean() - mean) < 4.5 * sd / math.sqrt(n) and abs(sample.std() - sd) < 4.5 * sd / math.sqrt(n)


@pytest.fixture(scope="module", params=[moves_in_jax, moves_in_numpy], ids=["jax", "numpy"])
def moves(request):
    return request.param


# ------------------------------------------------------------------------------------------------ dynamics


@pytest.mark.parametrize("action, dx, dy", [(LEFT, -0.025, 0.0), (RIGHT, 0.025, 0.0), (UP, 0.0, 0.025), (DOWN, 0.0, -0.025)])
def test_a_move_goes_one_step_plus_uniform_noise_in_both_coordinates(moves, action, dx, dy):
    position, cumulants, terminated = moves(paper_grid(), (0.4, 0.5), action, 4000)
    away = position - [0.4 + dx, 0.5 + dy]
    assert np.abs(away).max() <= 0.01 + 1e-6 and np.abs(away).max() > 0.0098
    assert close(away[:, 0], 0.0, 0.01 / math.sqrt(3)) and close(away[:, 1], 0.0, 0.01 / math.sqrt(3))
    assert abs(np.corrcoef(away.T)[0, 1]) < 4.5 / math.sqrt(len(away))
    assert not cumulants.any() and not terminated.any()


def test_both_forms_agree_in_distribution_where_a_disc_is_entered_by_some_moves_only():
    jaxed = moves_in_jax(paper_grid(), (0.12, 0.93), LEFT)
    numpied = moves_in_numpy(paper_grid(), (0.12, 0.93), LEFT)
    chance = jaxed[2].mean()
    assert 0.1 < chance < 0.9
    for a, b in ((jaxed[2], numpied[2]), (jaxed[0][:, 0], numpied[0][:, 0]), (jaxed[0][:, 1], numpied[0][:, 1])):
        assert abs(a.mean() - b.mean()) < 4.5 * math.sqrt((a.var() + b.var()) / SAMPLES)
        assert abs(a.std() - b.std()) < 4.5 * a.std() / math.sqrt(SAMPLES)
    a, b = jaxed[1][jaxed[2] > 0, 0], numpied[1][numpied[2] > 0, 0]
    assert close(a, 100.0, 5.0) and close(b, 100.0, 5.0)
    for position, cumulants, terminated in (jaxed, numpied):
        inside = np.hypot(*(position - [0.05, 0.95]).T) <= 0.05
        assert (inside == (terminated > 0)).mean() > 0.9995  # float32 may differ on the rim itself
        assert not cumulants[terminated == 0].any() and not cumulants[:, 1].any()


def test_walls_stop_a_move(moves):
    position, _, _ = moves(paper_grid(), (0.02, 0.5), LEFT, 4000)  # lands at U[-0.015, 0.005]: three quarters hit the wall
    stopped = position[:, 0] == 0.0
    assert close(stopped, 0.75, math.sqrt(0.75 * 0.25)) and position.min() == 0.0
    position, _, _ = moves(paper_grid(), (0.5, 1.0), UP, 200)
    assert (position[:, 1] == 1.0).all()


def test_a_stray_ends_the_episode_and_pays_nothing(moves):
    position, cumulants, terminated = moves(authors_grid(), (0.8, 0.1), LEFT, 500)
    assert terminated.all() and not cumulants.any()
    assert not moves(paper_grid(), (0.8, 0.1), LEFT, 500)[2].any()


def test_the_l1_disc_is_a_diamond(moves):
    corner = (0.05 + 0.035 + 0.025, 0.95 + 0.035)  # lands around (0.035, 0.035) from the centre: in the circle, not the diamond
    quiet = dataclasses.replace(paper_grid(), noise=0.001)
    assert moves(quiet, corner, LEFT, 100)[2].any()
    assert not moves(dataclasses.replace(quiet, distance="l1"), corner, LEFT, 100)[2].any()


def test_starts_are_uniform_outside_the_goals_in_both_forms():
    wide = dataclasses.replace(paper_grid(), goals=(Goal("middle", (0.5, 0.5), 1.0),), radius=0.3)
    keys = jax.random.split(jax.random.key(1), SAMPLES)
    jaxed = np.asarray(jax.jit(jax.vmap(partial(reset, wide)))(keys), float)
    env = ContinuousGridEnv(wide)
    env.reset(seed=3)
    numpied = np.array([env.reset()[0] for _ in range(4000)], float)
    free = 1 - math.pi * 0.3**2
    for points in (jaxed, numpied):
        assert (np.hypot(*(points - 0.5).T) > 0.3).all()
        strip = points[:, 0] < 0.2  # wholly outside the disc
        assert close(strip, 0.2 / free, math.sqrt(0.2 / free * (1 - 0.2 / free)))
        assert abs(points.mean() - 0.5) < 4.5 * points.std() / math.sqrt(points.size)


def test_a_scan_of_moves_equals_the_same_moves_one_by_one():
    world = paper_grid()
    keys = jax.random.split(jax.random.key(5), 50)
    actions = jnp.arange(50) % 4

    def body(position, given):
        position, cumulants, terminated = step(world, given[0], position, given[1])
        return position, (position, cumulants, terminated)

    _, scanned = jax.jit(lambda at: jax.lax.scan(body, at, (keys, actions)))(jnp.array([0.1, 0.9]))
    position = jnp.array([0.1, 0.9])
    one = jax.jit(partial(step, world))
    for k in range(50):
        position, cumulants, terminated = one(keys[k], position, actions[k])
        np.testing.assert_allclose(position, scanned[0][k], atol=1e-6)
        assert terminated == scanned[2][k]
        np.testing.assert_allclose(cumulants, scanned[1][k], rtol=1e-5)
    assert scanned[2].any()
    assert position.dtype == jnp.float32 and cumulants.shape == (2,) and scanned[2].dtype == bool


def test_move_and_start_are_step_and_reset_on_given_draws():
    world, key = paper_grid(), jax.random.key(2)
    at = jnp.array([0.5, 0.5])
    draws = jax.random.uniform(key, (world.draws,))
    np.testing.assert_array_equal(move(world, draws, at, UP)[0], step(world, key, at, UP)[0])
    candidates = jnp.array([[0.05, 0.95], [0.95, 0.94], [0.3, 0.7], [0.2, 0.2]])
    np.testing.assert_array_equal(start(world, candidates), candidates[2])
    extremes = [jnp.full(4, u).at[:2].set(0.5) for u in (0.0, 1 - 2.0**-23)]  # the least and largest float32 draws
    pay = jax.jit(lambda u: move(world, u, jnp.array([0.05, 0.9]), UP)[1])
    pays = [pay(u) for u in extremes]
    assert np.isfinite(pays).all() and pays[0][0] < 75 and pays[1][0] > 125


# ------------------------------------------------------------------------------------------------ plain data


def test_presets_follow_the_text_and_the_authors_code():
    paper, authors = paper_grid(), authors_grid()
    assert (paper.step, paper.noise, paper.radius, paper.horizon, paper.distance) == (0.025, 0.01, 0.05, 500, "euclidean")
    assert [(g.name, g.at, g.mean, g.sd) for g in paper.goals] == [
        ("left", (0.05, 0.95), 100, 5),
        ("right", (0.95, 0.95), 50, 5),
    ]
    assert paper.strays == () and not paper.timeouts_terminate
    assert [g.sd for g in authors.goals] == [10, 5] and authors.strays == ((0.8, 0.1),)
    assert authors.distance == "l1" and authors.timeouts_terminate


@pytest.mark.parametrize("make", [paper_grid, authors_grid])
def test_a_world_is_hashable_and_survives_json(make):
    world = make()
    again = ContinuousGrid.from_dict(json.loads(json.dumps(world.as_dict())))
    assert again == world and hash(again) == hash(world)
    assert {world: 1}[make()] == 1 and paper_grid() != authors_grid()


GOAL = Goal("a", (0.5, 0.5), 1.0)


@pytest.mark.parametrize(
    "field, make",
    [
        ("goals", lambda: ContinuousGrid(())),
        ("goals", lambda: ContinuousGrid((("a", (0.5, 0.5), 1.0, 1.0),))),
        ("goals", lambda: ContinuousGrid((GOAL, Goal("a", (0.1, 0.1), 1.0)))),
        ("goals", lambda: Goal("a", (0.5, 1.5), 1.0)),
        ("goals", lambda: Goal("a", 0.5, 1.0)),
        ("goals", lambda: Goal("", (0.5, 0.5), 1.0)),
        ("goals", lambda: Goal("a", (0.5, 0.5), math.nan)),
        ("sd", lambda: Goal("a", (0.5, 0.5), 1.0, -1.0)),
        ("strays", lambda: ContinuousGrid((GOAL,), strays=((2.0, 0.0),))),
        ("step", lambda: ContinuousGrid((GOAL,), step=0.0)),
        ("step", lambda: ContinuousGrid((GOAL,), step="far")),
        ("noise", lambda: ContinuousGrid((GOAL,), noise=-0.1)),
        ("radius", lambda: ContinuousGrid((GOAL,), radius=0.45)),
        ("radius", lambda: ContinuousGrid((GOAL, Goal("b", (0.52, 0.5), 1.0)))),
        ("distance", lambda: ContinuousGrid((GOAL,), distance="manhattan")),
        ("horizon", lambda: ContinuousGrid((GOAL,), horizon=0)),
        ("horizon", lambda: ContinuousGrid((GOAL,), horizon=2.5)),
        ("timeouts_terminate", lambda: ContinuousGrid((GOAL,), timeouts_terminate="yes")),
        ("world", lambda: ContinuousGrid.from_dict({"goals": [], "sizes": 3})),
        ("goals", lambda: ContinuousGrid.from_dict({})),
        ("world", lambda: ContinuousGridEnv("papre")),
        ("world", lambda: ContinuousGridEnv(3)),
        ("render_mode", lambda: ContinuousGridEnv(render_mode="human")),
        ("action", lambda: ContinuousGridEnv().step(4)),
        ("position", lambda: ContinuousGridEnv().reset(options={"position": (0.5, -1.0)})),
    ],
)
def test_bad_input_is_named(field, make):
    with pytest.raises(InputError, match=field):
        make()


# ------------------------------------------------------------------------------------------------ Gymnasium


@pytest.mark.parametrize("world", ["paper", "authors"])
def test_gymnasiums_own_check_passes_without_a_warning(world):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(ENV_ID, world=world)
        check_env(env.unwrapped)
    assert env.unwrapped.world == {"paper": paper_grid, "authors": authors_grid}[world]()


def test_a_seeded_episode_repeats_and_its_reward_is_the_sum_of_the_cumulants():
    def play():
        env = gymnasium.make(ENV_ID)
        env.reset(seed=7, options={"position": (0.12, 0.93)})
        rows = []
        for _ in range(200):
            observation, reward, terminated, truncated, info = env.step(LEFT)
            assert reward == info["cumulants"].sum() and observation in env.observation_space
            rows.append((*observation, reward))
            if terminated:
                return rows
        raise AssertionError("never entered")

    rows = play()
    assert rows == play() and 80 < rows[-1][2] < 120 and all(row[2] == 0 for row in rows[:-1])


@pytest.mark.parametrize("ends", [False, True])
def test_the_horizon_truncates_or_ends_as_the_world_says(ends):
    world = dataclasses.replace(paper_grid(), horizon=3, timeouts_terminate=ends)
    env = gymnasium.make(ENV_ID, world=world)
    for _ in range(2):  # the count starts again with each episode
        env.reset(seed=0, options={"position": (0.5, 0.5)})
        flags = [env.step(DOWN)[2:4] for _ in range(3)]
        assert flags == [(False, False), (False, False), (ends, not ends)]


def test_an_episode_that_is_not_ended_by_a_goal_has_500_steps():
    env = gymnasium.make(ENV_ID)
    env.reset(seed=0, options={"position": (0.5, 0.1)})
    flags = [env.step(DOWN)[2:4] for _ in range(500)]
    assert set(flags[:499]) == {(False, False)} and flags[499] == (False, True)


@pytest.mark.parametrize(
    "imported, absent",
    [("gvfx", "jax numba scipy"), ("gvfx.worlds.continuous_grid", "jax numba"), ("gvfx.truths.lattice", "jax")],
)
def test_what_an_import_does_not_load(imported, absent):
    code = f"import {imported}, sys; print([name for name in {absent.split()} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("order", ["gvfx, gymnasium", "gymnasium, gvfx", "gvfx.worlds.continuous_grid, gymnasium"])
def test_importing_gvfx_registers_the_world_whichever_is_imported_first(order):
    code = f"import {order}; print(gymnasium.make({ENV_ID!r}).unwrapped.world.horizon)"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "500\n"


def test_gymnasium_finds_the_world_by_module_and_name():
    code = f"import gymnasium; print(gymnasium.make('gvfx:{ENV_ID}').unwrapped.world.horizon)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "500"


# ------------------------------------------------------------------------------------------------ the truth


def test_the_evaluation_points_are_the_cell_centres():
    points = lattice.lattice_points()
    np.testing.assert_allclose(points[[0, 1, 20, 399]], [[0.025, 0.025], [0.075, 0.025], [0.025, 0.075], [0.975, 0.975]])
    for world in (paper_grid(), dataclasses.replace(authors_grid(), strays=())):
        inside = world.inside(points)
        assert inside.sum(axis=0).tolist() == [4, 4]  # the authors' rim runs through the centres; a rim is inside


def test_simulation_of_a_straight_walk_is_known_by_hand():
    walk = ContinuousGrid((Goal("east", (0.5, 0.5), 10.0, 3.0),), noise=0.0)
    points = np.array([[0.03, 0.5], [0.5, 0.5], [0.7, 0.5]])  # 17 steps reach x = 0.455; a step inside pays; moving away
    values, errors = lattice.simulate(walk, [[0, 1, 0, 0]], 0.9, points, 100)
    np.testing.assert_allclose(values[0], [10 * 0.9**16, 10.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(errors, 0.0, atol=1e-7)


def test_simulation_reads_each_action_by_its_probability():
    """From the middle of four discs one step decides: V_i = mean_i * P(the action towards goal i)."""
    around = tuple(
        Goal(name, at, 10.0) for name, at in zip("LRUD", ((0.4, 0.5), (0.6, 0.5), (0.5, 0.6), (0.5, 0.4)), strict=True)
    )
    world = ContinuousGrid(around, step=0.1, noise=0.005)
    policy = np.array([0.1, 0.2, 0.3, 0.4])
    values, errors = lattice.simulate(world, np.tile(policy, (4, 1)), 0.5, np.array([[0.5, 0.5]]), 50_000)
    np.testing.assert_allclose(errors[:, 0], 10 * np.sqrt(policy * (1 - policy) / 50_000), rtol=0.02)
    assert (np.abs(values[:, 0] - 10 * policy) < 4.5 * errors[:, 0]).all()
    one_sided, _ = lattice.simulate(world, np.tile([0.0, 0.0, 1.0, 0.0], (4, 1)), 0.5, np.array([[0.5, 0.5]]), 1000)
    np.testing.assert_allclose(one_sided[:, 0], [0, 0, 10, 0])


def test_simulation_agrees_with_the_world_itself():
    """The same returns, from the JAX step."""
    world, discount, at = authors_grid(), 0.9, jnp.array([0.1, 0.9])
    logits = jnp.log(jnp.array(PI[0]))

    def episode(key):
        def body(carry, key):
            position, weight = carry
            act, go = jax.random.split(key)
            position, cumulants, terminated = step(world, go, position, jax.random.categorical(act, logits))
            return (position, jnp.where(terminated, 0.0, weight * discount)), weight * cumulants[0]

        return jax.lax.scan(body, (at, jnp.float32(1.0)), jax.random.split(key, 60))[1].sum()

    returns = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 5000)), float)
    values, errors = lattice.simulate(world, PI, discount, np.array([at], float), 50_000)
    assert abs(returns.mean() - values[0, 0]) < 4.5 * math.hypot(returns.std() / math.sqrt(5000), errors[0, 0])
    assert returns.mean() > 10


def test_simulation_depends_on_seed_and_point_but_not_on_workers():
    points = lattice.lattice_points()[[360, 361, 380]]
    one = lattice.simulate(paper_grid(), PI, 0.9, points, 500, seed=1)
    two = lattice.simulate(paper_grid(), PI, 0.9, points, 500, seed=1, workers=2)
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one[0], lattice.simulate(paper_grid(), PI, 0.9, points, 500, seed=2)[0])
    same = lattice.simulate(paper_grid(), PI, 0.9, points[[0, 0]], 500, seed=1)[0]
    assert same[0, 0] != same[0, 1]


def test_the_numerical_solution_of_one_step_is_the_overlap_of_noise_and_disc():
    """With discount 0, V = mean * P(landing in the disc)."""
    world = ContinuousGrid((Goal("a", (0.525, 0.5), 10.0),), noise=0.02, distance="l1")
    right = lattice_solution.solve(world, [[0, 1, 0, 0]], 0.0, 81).reshape(20, 20)  # [y, x]
    # from (0.475, 0.475) the box is [0.48, 0.52] x [0.455, 0.495]; u + v >= 0.95 + 0.025 is inside the diamond
    corner = 1 - 0.5 * (0.975 - 0.48 - 0.455) ** 2 / 0.04**2
    np.testing.assert_allclose(right[9, 9], 10 * corner, rtol=1e-9)
    wall = ContinuousGrid((Goal("a", (0.01, 0.475), 10.0),), noise=0.02)
    left = lattice_solution.solve(wall, [[1, 0, 0, 0]], 0.0, 81).reshape(20, 20)
    np.testing.assert_allclose(left[9, 0], 10.0, rtol=1e-9)  # x is stopped by the wall inside the disc


@pytest.mark.parametrize("distance", ["euclidean", "l1"])
def test_simulation_and_numerical_solution_agree_with_discs_across_the_walls(distance):
    goals = (Goal("corner", (0.02, 0.97), 80.0), Goal("side", (0.6, 0.0), -40.0))
    world = ContinuousGrid(goals, strays=((1.0, 0.55),), noise=0.02, radius=0.08, distance=distance)
    policies = [[0.3, 0.2, 0.3, 0.2], [0.2, 0.2, 0.2, 0.4]]
    solved = lattice_solution.solve(world, policies, 0.95, 161)
    chosen = np.array([0, 11, 12, 31, 33, 52, 219, 239, 321, 340, 360, 361, 380, 381, 383])
    values, errors = lattice.simulate(world, policies, 0.95, lattice.lattice_points()[chosen], 20_000)
    assert (np.abs(values - solved[:, chosen]) < 4 * errors + 0.02).all()
    assert (np.abs(values).max(axis=1) > [20, 10]).all()


SHIPPED = [(paper_grid, 62.73, 12.957, 0.004), (authors_grid, 51.39, None, 0.02)]


@pytest.mark.parametrize("make, over_all, over_outside, noise", SHIPPED)
def test_the_shipped_truth_scores_a_zero_predictor_as_known_and_is_precise(make, over_all, over_outside, noise):
    truth = lattice.shipped_truth(make(), PI, 0.99)
    zeros = np.zeros((2, 400))
    assert truth.points.shape == (400, 2) and truth.values.shape == truth.standard_errors.shape == (2, 400)
    assert truth.mse(zeros).mean() == pytest.approx(over_all, rel=0.01)
    assert truth.noise.mean() < noise
    assert truth.outside.sum() == (392 if make is paper_grid else 388)
    if over_outside is not None:
        np.testing.assert_allclose(truth.mse(zeros), [101.8, 23.2], rtol=0.02)
        assert truth.mse(zeros, outside_only=True).mean() == pytest.approx(over_outside, rel=0.02)


@pytest.mark.parametrize("make", [paper_grid, authors_grid])
def test_the_shipped_truth_agrees_with_the_numerical_solution_everywhere(make):
    truth = lattice.shipped_truth(make(), PI, 0.99)
    solved = lattice_solution.solve(make(), PI, 0.99, 401)
    assert (np.abs(truth.values - solved) < 4 * truth.standard_errors + 0.01).all()
    often_paid = truth.values > 10 * truth.standard_errors.clip(1e-9)
    z = (truth.values - solved)[often_paid] / truth.standard_errors[often_paid]
    assert len(z) > 60 and 0.5 < (z**2).mean() < 1.6  # the standard errors are neither too small nor too large


def test_the_shipped_truth_is_found_again_by_fresh_episodes():
    truth = lattice.shipped_truth(paper_grid(), PI, 0.99)
    chosen = [300, 360, 361, 363, 379, 380, 399]
    values, errors = lattice.simulate(paper_grid(), PI, 0.99, truth.points[chosen], 4000, seed=99)
    apart = np.abs(values - truth.values[:, chosen]) / np.hypot(errors, truth.standard_errors[:, chosen]).clip(1e-3)
    assert apart.max() < 4.5


def test_a_truth_is_shipped_only_for_its_own_parameters():
    world = paper_grid()
    assert lattice.shipped_truth(dataclasses.replace(world, horizon=100, timeouts_terminate=True), PI, 0.99) is not None
    assert lattice.shipped_truth(dataclasses.replace(world, noise=0.011), PI, 0.99) is None
    assert lattice.shipped_truth(world, PI[::-1], 0.99) is None
    assert lattice.shipped_truth(world, PI, 0.98) is None


def test_a_truth_is_kept_and_a_damaged_file_is_made_again(tmp_path, monkeypatch):
    world = paper_grid()

    def ask(discount=0.5, seed=0):
        return lattice.continuous_truth(world, PI, discount, 3, seed, tmp_path / "cache")

    first = ask()
    (path,) = (tmp_path / "cache").iterdir()
    raw = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(lattice, "simulate", None)  # a kept truth needs no simulation
        again = ask()
        with pytest.raises(TypeError):
            ask(seed=1)
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.standard_errors, again.standard_errors)
    assert first.outside.sum() == again.outside.sum() == 392
    ask(discount=0.6)
    (other,) = (file for file in (tmp_path / "cache").iterdir() if file != path)
    for damaged in (raw[:-1], raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:], b"", other.read_bytes()):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(ask().values, first.values)
        assert path.read_bytes() == raw
    np.testing.assert_array_equal(lattice.continuous_truth(world, PI, 0.5, 3).values, first.values)


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cache"):
        lattice.continuous_truth(paper_grid(), PI, 0.5, 1, cache=tmp_path / "file")


@pytest.mark.parametrize(
    "field, changes",
    [
        ("policies", {"policies": PI[:1]}),
        ("policies", {"policies": PI * 2}),
        ("policies", {"policies": [[1.5, -0.5, 0, 0], [1, 0, 0, 0]]}),
        ("policies", {"policies": "pi"}),
        ("discount", {"discount": 1.0}),
        ("discount", {"discount": None}),
        ("episodes", {"episodes": 0}),
        ("episodes", {"episodes": 1.5}),
        ("seed", {"seed": -1}),
        ("workers", {"workers": 0}),
        ("world", {"world": "paper"}),
    ],
)
def test_bad_questions_are_named(field, changes):
    asked = {"world": paper_grid(), "policies": PI, "discount": 0.9, "episodes": 1} | changes
    with pytest.raises(InputError, match=field):
        lattice.continuous_truth(**asked)


def test_what_cannot_be_simulated_or_solved_is_named():
    with pytest.raises(InputError, match="points"):
        lattice.simulate(paper_grid(), PI, 0.9, np.array([[0.5, 1.2]]), 1)
    with pytest.raises(InputError, match="nodes"):
        lattice_solution.solve(paper_grid(), PI, 0.9, 201)
    with pytest.raises(InputError, match="noise"):
        lattice_solution.solve(dataclasses.replace(paper_grid(), noise=0.0), PI, 0.9)


def test_remaking_the_shipped_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lattice_truths, "solve", lambda *_: np.zeros((2, 400)))
    lattice_truths.main(["paper_grid", "--episodes", "2"], tmp_path)
    assert "2 episodes a point" in capsys.readouterr().out
    monkeypatch.setattr(lattice, "SHIPPED", tmp_path)
    assert lattice.shipped_truth(paper_grid(), PI, 0.99) is not None
    assert lattice.shipped_truth(authors_grid(), PI, 0.99) is None
    with pytest.raises(InputError, match="worlds"):
        lattice_truths.main(["torus"], tmp_path)


def test_a_sampled_trajectory_stays_on_the_map_and_goes_where_the_behaviour_says():
    from gvfx.reproduce.grid import SIDE, trajectory

    up = np.zeros((SIDE * SIDE, 4))
    up[:, 2] = 1.0
    path = trajectory(up, seed=1)
    assert path.min() >= 0 and path.max() <= SIDE
    assert path[-1, 1] < 1.0 and np.all(np.diff(path[:, 1])[:-1] <= 0.2 + 1e-6)  # upwards on the map is towards row 0
    assert np.array_equal(path, trajectory(up, seed=1))
