"""The continuous grid: its two forms agree with each other and with hand-made numbers."""

import dataclasses
import math
import subprocess
import sys
import warnings
from functools import lru_cache, partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gvfx.errors import InputError
from gvfx.experiments.specification import Experiment
from gvfx_paper.settings.continuous import CONTINUOUS
from gvfx_paper.worlds.continuous_grid import (
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
def test_a_world_is_hashable_and_survives_a_stored_experiment(make):
    world = make()
    again = Experiment.from_json(dataclasses.replace(CONTINUOUS.experiment("RoundRobin"), world=world).json).world
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
    [("gvfx", "jax numba scipy"), ("gvfx_paper.worlds.continuous_grid", "jax numba"), ("gvfx_paper.truths.lattice", "jax")],
)
def test_what_an_import_does_not_load(imported, absent):
    code = f"import {imported}, sys; print([name for name in {absent.split()} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("order", ["gvfx_paper, gymnasium", "gymnasium, gvfx_paper", "gvfx_paper.worlds.mujoco, gymnasium"])
def test_importing_gvfx_paper_registers_the_world_whichever_is_imported_first(order):
    code = f"import {order}; print(gymnasium.make({ENV_ID!r}).unwrapped.world.horizon)"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "500\n"


def test_gymnasium_finds_the_world_by_module_and_name():
    code = f"import gymnasium; print(gymnasium.make('gvfx_paper:{ENV_ID}').unwrapped.world.horizon)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "500"
