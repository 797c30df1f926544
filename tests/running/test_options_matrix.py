"""Every kind of learner with every option: each works, or is refused with one sentence whose reason is mathematical."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers.environments import Sound, Walk
from helpers.recording import Blocks, Push, recorded

import gvfx

NETWORK = {"hidden": (8,), "batch": 16, "learning_starts": 40, "capacity": 400}
KINDS = {  # environment, action of a log, policy, learner
    "tables": (Sound, lambda rng: int(rng.integers(2)), [0.3, 0.7], gvfx.CertaintyEquivalence()),
    "updates": (Sound, lambda rng: int(rng.integers(2)), [0.3, 0.7], gvfx.ExpectedSarsa()),
    "numbered": (Blocks, lambda rng: int(rng.integers(2)), [0.3, 0.7], gvfx.CertaintyEquivalence()),
    "linear": (Walk, lambda rng: 3 + int(rng.integers(2)), [0.3, 0.7], gvfx.LinearCertaintyEquivalence()),
    "networks": (Walk, lambda rng: 3 + int(rng.integers(2)), [0.3, 0.7], gvfx.Deep(**NETWORK)),
    "critics": (Push, lambda rng: rng.uniform(-2, 2, 1), gvfx.gaussian_policy([0.5], 0.5), gvfx.TwinCritics(**NETWORK)),
}
REFUSED = {  # the beginning of the sentence, for each combination that is refused
    ("updates", "until"): "until: the error of this learner cannot be bounded",  # it keeps no counts
    ("networks", "until"): "until: the error of this learner cannot be bounded",
    ("critics", "until"): "until: the error of this learner cannot be bounded",
    ("networks", "states"): "where: networks learn everywhere in the same way",
    ("critics", "states"): "where: networks learn everywhere in the same way",
    ("linear", "own"): "policy: own_greedy and own_softmax need Discrete observations",  # a maximum over fits is biased
    ("networks", "own"): "policy: own_greedy and own_softmax need Discrete observations",
    ("critics", "own"): ".*policy: ",
    ("critics", "calibrate"): "calibrate: behaviours for Box actions cannot be calibrated",
} | {(kind, "workers"): "workers: must be 1 for a single environment" for kind in KINDS}


def options_of(option, env, action, tmp_path):
    """The options of a run, with the number of its environments."""
    observation = env().reset(seed=0)[0]
    return {
        "start": {"where": "start"},
        "states": {"where": [observation]},
        "audit": {"audit": 0.3, "where": "start"},
        "log": {"log": recorded(env(), 120, action)} if option == "log" else {},
        "calibrate": {"calibrate": True},
        "own": {},
        "until": {"until": gvfx.error_below(1e9)},
        "checkpoint": {"checkpoint": tmp_path},
        "vector": {},
        "workers": {"workers": 2, "seeds": 2},
    }[option]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:until")
@pytest.mark.parametrize(
    "option", ["start", "states", "audit", "log", "calibrate", "own", "until", "checkpoint", "vector", "workers"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_it_works_or_is_refused_for_a_reason(kind, option, tmp_path):
    env, action, policy, learner = KINDS[kind]
    question = gvfx.GVF(gvfx.own_greedy() if option == "own" else policy, gvfx.Reward(), 0.8, name="reward")
    world = gym.vector.SyncVectorEnv([env] * 2) if option == "vector" else env()
    options = {"audit": 0.0, **options_of(option, env, action, tmp_path)}

    def run():
        return gvfx.evaluate(world, [question], gvfx.Uniform() if option != "calibrate" else None, learner, steps=160, **options)

    if (kind, option) in REFUSED:
        with pytest.raises(gvfx.InputError, match=f"^{REFUSED[kind, option]}"):
            run()
    else:
        result = run()
        assert result.names == ("reward",) and np.isfinite(result.values[result.values == result.values]).any()
