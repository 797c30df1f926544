"""The continuous grid's true values, found in two ways; what is shipped, kept and refused."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import lattice_solution
import lattice_truths
import numpy as np
import pytest

from gvfx.errors import InputError
from gvfx_paper.truths import lattice
from gvfx_paper.worlds.continuous_grid import (
    ContinuousGrid,
    Goal,
    authors_grid,
    paper_grid,
    step,
)

pytestmark = pytest.mark.compiled(6)  # calls of many steps
PI = lattice.PAPER_POLICIES


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
