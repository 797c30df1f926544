"""Every kind of learner with every option: each works, or is refused with one sentence whose reason is mathematical.

The table is that of docs/options.md.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Sound, Walk
from helpers.recording import Blocks, Push, recorded

import gvfx
from gvfx.worlds.conversion import SteppedMDP

PAGE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_options.py"))
NETWORK = {"hidden": (8,), "batch": 16, "learning_starts": 40, "capacity": 400}
WALK = lambda rng: 3 + int(rng.integers(2))  # noqa: E731
EITHER = lambda rng: int(rng.integers(2))  # noqa: E731


def small_world():
    states = np.full((3, 2, 3), 1 / 3)
    return gvfx.MDP.from_matrix(states, terminal=[False, False, True], reward=np.ones((3, 2, 3)))


KINDS = {  # environment, action of a log, policy, learner
    "finite": (small_world, EITHER, [0.3, 0.7], gvfx.CertaintyEquivalence()),
    "tables": (Sound, EITHER, [0.3, 0.7], gvfx.CertaintyEquivalence()),
    "updates": (Sound, EITHER, [0.3, 0.7], gvfx.ExpectedSarsa()),
    "numbered": (Blocks, EITHER, [0.3, 0.7], gvfx.CertaintyEquivalence()),
    "linear": (Walk, WALK, [0.3, 0.7], gvfx.LinearCertaintyEquivalence()),
    "networks": (Walk, WALK, [0.3, 0.7], gvfx.Deep(**NETWORK)),
    "critics": (Push, lambda rng: rng.uniform(-2, 2, 1), gvfx.gaussian_policy([0.5], 0.5), gvfx.TwinCritics(**NETWORK)),
    "rollouts": (Walk, WALK, [0.3, 0.7], gvfx.Rollouts()),
}


def options_of(option, env, action, tmp_path):
    """The options of a run, with the number of its environments."""
    stepped = SteppedMDP(env()) if env is small_world else env()
    return {
        "start": {"where": "start"},
        "states": {"where": [stepped.reset(seed=0)[0]]},
        "audit": {"audit": 0.3, "where": "start"},
        "log": {"log": recorded(stepped, 120, action)} if option == "log" else {},
        "calibrate": {"calibrate": True},
        "own": {},
        "until": {"until": gvfx.error_below(1e9)},
        "decided": {"until": gvfx.error_below(1e9), "where": "start", "audit": 0.3},
        "checkpoint": {"checkpoint": tmp_path},
        "vector": {},
        "workers": {"workers": 2, "seeds": 2},
    }[option]


def test_the_page_is_what_make_options_writes():
    assert PAGE["page"]() == PAGE["PAGE"].read_text(), "docs/options.md is out of date; run `python docs/make_options.py`."
    assert list(KINDS) == list(PAGE["KINDS"])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:until", "ignore:.*an episode was truncated")
@pytest.mark.parametrize("option", PAGE["OPTIONS"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_works_or_is_refused_for_a_reason(kind, option, tmp_path):
    env, action, policy, learner = KINDS[kind]
    if (kind, option) == ("finite", "vector"):
        pytest.skip("there are no vectors of finite worlds")
    question = gvfx.GVF(gvfx.own_greedy() if option == "own" else policy, gvfx.Reward(), 0.8, name="reward")
    world = gym.vector.SyncVectorEnv([env] * 2) if option == "vector" else env()
    options = {"audit": 0.0, **options_of(option, env, action, tmp_path)}
    behaviour = None if option == "calibrate" or kind == "rollouts" else gvfx.Uniform()
    if kind == "rollouts" and option == "decided":
        options["audit"] = 0.0  # all of its episodes are what audits are

    def run():
        return gvfx.evaluate(world, [question], behaviour, learner, steps=160, **options)

    if (kind, option) in PAGE["REFUSED"]:
        with pytest.raises(gvfx.InputError, match=f"^{PAGE['REFUSED'][kind, option][0]}"):
            run()
    else:
        result = run()
        assert result.names == ("reward",) and np.isfinite(result.values[result.values == result.values]).any()
