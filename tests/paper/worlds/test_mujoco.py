"""Walker and Cheetah: the same physics, rewards and resets as dm_control's; states and errors."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from helpers.mujoco_worlds import BOTH, mujoco, rng

from gvfx.errors import InputError
from gvfx_paper.worlds import mujoco as domains
from gvfx_paper.worlds import mujoco as mujoco_render
from gvfx_paper.worlds.mujoco import CHEETAH, DOMAINS, WALKER, Lockstep, MujocoEnv, UnstableWorld, load_model

WHOLE = mujoco.mjtState.mjSTATE_INTEGRATION.value


def moves(domain, *shape, seed=1):
    return rng(seed).uniform(-1, 1, (*shape, domain.action_size))


def suite(domain):
    """dm_control's environment and its physics."""
    from dm_control import suite

    task = {"walker": "walk", "cheetah": "run"}[domain.name]
    environment = suite.load(domain.name, task, {"random": 0}, {"flat_observation": True})
    environment.reset()
    return environment


def expected_cumulants(domain, physics):
    """The tasks' rewards written out with dm_control's `tolerance`."""
    from dm_control.utils.rewards import tolerance

    def linear(value, goal, margin, at_margin):
        return tolerance(value, (goal, np.inf), margin, sigmoid="linear", value_at_margin=at_margin)

    speed = physics.named.data.sensordata["torso_subtreelinvel"][0]
    if domain is CHEETAH:
        return [linear(speed, 2, 2, 0), linear(speed, 10, 10, 0)]
    standing = tolerance(physics.torso_height(), (1.2, np.inf), 0.6)
    stand = (3 * standing + (1 + physics.torso_upright()) / 2) / 4
    spin = physics.named.data.subtree_angmom["torso"][1]
    return [stand * (5 * linear(speed, 1, 0.5, 0.5) + 1) / 6, stand * (5 * linear(spin, 5, 2.5, 0.5) + 1) / 6]


# ------------------------------------------------------------------------------------------------ physics


@BOTH
def test_the_model_compiles_to_dm_controls(domain):
    ours, theirs = load_model(domain.name), suite(domain).physics.model.ptr
    seen_only = ("cam_", "light_", "mat_", "tex_", "name", "geom_matid")
    compared = 0
    for name in dir(theirs):
        value = getattr(theirs, name)
        if isinstance(value, np.ndarray) and not name.startswith((*seen_only, "_")):
            np.testing.assert_array_equal(getattr(ours, name), value, name)
            compared += 1
    assert compared > 200
    for name in dir(theirs.opt):
        if not name.startswith("_") and not callable(getattr(theirs.opt, name)):
            np.testing.assert_array_equal(getattr(ours.opt, name), getattr(theirs.opt, name), name)


@BOTH
def test_lockstep_is_single_stepping_is_dm_control_bit_for_bit(domain):
    actions = moves(domain, 1000, 3)
    worlds = Lockstep(domain, 3)
    worlds.reset(rng())
    environment, model = suite(domain), load_model(domain.name)
    physics, single = environment.physics, mujoco.MjData(model)
    state = worlds.get_state()[1]
    for data, of in ((single, model), (physics.data.ptr, physics.model.ptr)):
        mujoco.mj_setState(of, data, state, WHOLE)
        mujoco.mj_forward(of, data)
    mujoco.mj_setState(model, single, state, WHOLE)  # mj_forward may move the warm start
    mujoco.mj_setState(physics.model.ptr, physics.data.ptr, state, WHOLE)
    end = np.empty(len(state))
    for t in range(1000):
        observations, cumulants = worlds.step(actions[t])
        single.ctrl[:] = actions[t, 1]
        mujoco.mj_step(model, single, domain.substeps)
        step = environment.step(actions[t, 1])
        np.testing.assert_array_equal(observations[1], step.observation["observations"])
        np.testing.assert_allclose(cumulants[1], expected_cumulants(domain, physics), rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            cumulants[1, domain.tasks.index("walk" if domain is WALKER else "run")], step.reward, atol=1e-12
        )
        for of, data in ((model, single), (physics.model.ptr, physics.data.ptr)):
            mujoco.mj_getState(of, data, end, WHOLE)
            np.testing.assert_array_equal(worlds.get_state()[1], end)
    assert step.last()  # dm_control's episode is as long as ours
    assert domain.horizon == 1000


@BOTH
def test_cumulants_where_random_actions_do_not_lead(domain):
    worlds, physics = Lockstep(domain, 1), suite(domain).physics
    seen = []
    for seed in range(100):
        worlds.reset(rng(seed))
        state = worlds.get_state()
        state[0, 1:19] += rng(seed).normal(0, [0.1] * 9 + [6.0] * 9)
        worlds.set_state(state)
        _, cumulants = worlds.step(moves(domain, 1, seed=seed))
        mujoco.mj_setState(physics.model.ptr, physics.data.ptr, worlds.get_state()[0], WHOLE)
        mujoco.mj_forward(physics.model.ptr, physics.data.ptr)
        np.testing.assert_allclose(cumulants[0], expected_cumulants(domain, physics), rtol=0, atol=1e-12)
        seen.append(cumulants[0])
    assert (np.ptp(seen, axis=0) > 0.5).all() and np.min(seen) >= 0 and np.max(seen) <= 1


def test_walker_stands_for_one_sixth():
    worlds = Lockstep(WALKER, 1)
    worlds.reset(rng())
    state = worlds.get_state()
    state[0, 1:] = 0.0  # upright in its first position, at rest
    worlds.set_state(state)
    np.testing.assert_allclose(worlds._read_cumulants(), [[1 / 6, 1 / 6]], rtol=1e-12)
    assert worlds.observations()[0, 14] == 1.3


# ------------------------------------------------------------------------------------------------ resets and states


def test_walkers_start_in_any_pose():
    worlds = Lockstep(WALKER, 2000)
    observations = worlds.reset(rng())
    state, model = worlds.get_state(), load_model("walker")
    positions = state[:, 1:10]
    limits = np.where(model.jnt_limited[:, None] == 1, model.jnt_range, [-np.pi, np.pi])[2:]
    assert (state[:, 0] == 0).all() and (positions[:, :2] == 0).all() and (state[:, 10:19] == 0).all()
    assert ((positions[:, 2:] >= limits[:, 0]) & (positions[:, 2:] <= limits[:, 1])).all()
    spread = np.ptp(positions[:, 2:], axis=0) / np.ptp(limits, axis=1)
    assert (spread > 0.99).all()
    np.testing.assert_array_equal(observations[:, 15:], 0)


def test_cheetahs_start_after_200_steps_without_control():
    worlds, model = Lockstep(CHEETAH, 5), load_model("cheetah")
    worlds.reset(rng(3))
    limited = model.jnt_limited == 1
    low, high = model.jnt_range[limited].T
    for world, drawn in enumerate(rng(3).uniform(low, high, (5, 6))):
        data = mujoco.MjData(model)
        data.qpos[limited] = drawn
        mujoco.mj_step(model, data, 200)
        np.testing.assert_array_equal(worlds.get_state()[world, :19], [0.0, *data.qpos, *data.qvel])


@BOTH
def test_only_the_chosen_worlds_are_reset(domain):
    worlds = Lockstep(domain, 4)
    worlds.reset(rng())
    worlds.step(moves(domain, 4))
    before, seen = worlds.get_state(), worlds.observations()
    observations = worlds.reset(rng(1), np.array([1, 3]))
    after = worlds.get_state()
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    np.testing.assert_array_equal(observations[[0, 2]], seen[[0, 2]])
    assert (after[[1, 3], 0] == 0).all() and (observations[[1, 3]] != seen[[1, 3]]).any(axis=1).all()
    alone = Lockstep(domain, 2)
    np.testing.assert_array_equal(alone.reset(rng(1)), observations[[1, 3]])
    np.testing.assert_array_equal(worlds.reset(rng(2), np.array([], int)), observations)


@BOTH
def test_replaying_from_a_state_is_exact(domain):
    worlds, actions = Lockstep(domain, 3), moves(domain, 300, 3)
    worlds.reset(rng())
    for action in actions[:100]:
        worlds.step(action)
    state, seen = worlds.get_state(), worlds.observations()
    first = [worlds.step(action) for action in actions[100:]]
    fresh = Lockstep(domain, 4, threads=2)
    fresh.reset(rng(9))
    fresh.set_state(state, np.array([0, 2, 3]))
    for again, rows in ((worlds, [0, 1, 2]), (fresh, [0, 2, 3])):
        again.set_state(state, np.array(rows))
        np.testing.assert_array_equal(again.get_state()[rows], state)
        np.testing.assert_array_equal(again.observations()[rows], seen)
        for action, (observations, cumulants) in zip(actions[100:], first, strict=True):
            padded = np.zeros((again.worlds, domain.action_size))
            padded[rows] = action
            o, c = again.step(padded)
            np.testing.assert_array_equal(o[rows], observations)
            np.testing.assert_array_equal(c[rows], cumulants)
    without = state.copy()
    without[:, 19:28] = 0.0  # the warm start
    worlds.set_state(without)
    assert any(
        (worlds.step(action)[0] != observations).any() for action, (observations, _) in zip(actions[100:], first, strict=True)
    )


@BOTH
def test_what_is_returned_is_never_changed_later(domain):
    worlds = Lockstep(domain, 2)
    kept = [worlds.reset(rng()), worlds.observations(), worlds.get_state(), *worlds.step(moves(domain, 2))]
    copies = [array.copy() for array in kept]
    for action in moves(domain, 5, 2):
        worlds.step(action)
    worlds.reset(rng(1))
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@BOTH
def test_actions_are_clipped(domain):
    a, b = Lockstep(domain, 2), Lockstep(domain, 2)
    a.reset(rng()), b.reset(rng())
    actions = 3 * moves(domain, 2)
    np.testing.assert_array_equal(a.step(actions)[0], b.step(np.clip(actions, -1, 1))[0])


# ------------------------------------------------------------------------------------------------ errors


@BOTH
def test_an_unstable_world_is_named_and_the_others_go_on(domain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
    worlds = Lockstep(domain, 4)
    worlds.reset(rng())
    worlds.step(moves(domain, 4))
    state = worlds.get_state()
    state[2, 10:19] = 1e9
    worlds.set_state(state)
    with pytest.raises(UnstableWorld, match=f"{domain.name}: world 2 .* step 2 "):
        worlds.step(moves(domain, 4))
    worlds.reset(rng(1), np.array([2]))
    observations, _ = worlds.step(moves(domain, 4))
    assert np.isfinite(observations).all()


@BOTH
def test_an_action_that_is_no_number_is_named_and_changes_nothing(domain):
    worlds = Lockstep(domain, 3)
    worlds.reset(rng())
    before, actions = worlds.get_state(), moves(domain, 3)
    actions[1, 4] = np.nan
    with pytest.raises(UnstableWorld, match=f"{domain.name}: world 1 .* step 1 .*action"):
        worlds.step(actions)
    np.testing.assert_array_equal(worlds.get_state(), before)


def test_bad_input_is_named(monkeypatch):
    worlds = Lockstep(WALKER, 2)
    state = worlds.get_state()
    cases = [
        ("worlds", lambda: Lockstep(WALKER, 0)),
        ("threads", lambda: Lockstep(WALKER, 1, 1.5)),
        ("domain", lambda: domains.domain_named("runner")),
        ("actions", lambda: worlds.step(np.zeros((3, 6)))),
        ("which", lambda: worlds.reset(rng(), np.array([1, 0]))),
        ("which", lambda: worlds.reset(rng(), np.array([2]))),
        ("which", lambda: worlds.reset(rng(), np.array([True, False]))),
        ("states", lambda: worlds.set_state(state[:1])),
        ("states", lambda: worlds.set_state(np.full_like(state, np.nan))),
        ("task", lambda: gymnasium.make("gvfx/Walker-v0", task="run")),
        ("render_mode", lambda: MujocoEnv(render_mode="human")),
        ("width", lambda: mujoco_render.render(WALKER, state[0], 0, 10)),
        ("state", lambda: mujoco_render.render(WALKER, state, 10, 10)),
    ]
    for field, call in cases:
        with pytest.raises(InputError, match=rf"^{field}: "):
            call()


def test_a_missing_or_other_mujoco_says_what_to_install(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(mujoco, "__version__", "4.0.0")
        with pytest.raises(InputError, match=r"4\.0\.0 .* 3\.17\.0 .* pip install 'gvfx\[mujoco\]'"):
            Lockstep(WALKER, 1)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InputError, match=r"^mujoco: not installed; run pip install 'gvfx\[mujoco\]' \(in a checkout: .*\)\.$"):
        Lockstep(WALKER, 1)


def test_mujoco_is_imported_on_first_use_only():
    modules = "sys, gvfx, gymnasium, gvfx_paper.worlds.mujoco, gvfx_paper.truths.trajectories"
    code = f"import {modules}; assert 'mujoco' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_domains():
    for name, domain in DOMAINS.items():
        model = load_model(name)
        assert domain.name == name and domains.domain_named(name) is domain
        assert (model.nu, Lockstep(domain, 1).observations().shape) == (domain.action_size, (1, domain.observation_size))
        assert domain.substeps * model.opt.timestep == {"walker": 0.025, "cheetah": 0.01}[name]
