"""A small run of every backend, large enough for its linear algebra to be split over threads where nothing prevents that."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium
import numpy as np

import gvfx
import gvfx_paper
from gvfx_paper.settings.runs import find_setting

SEEDS = (0, 3)
CRITICS = {"hidden": (64, 64), "capacity": 800, "learning_starts": 160, "batch": 64, "updates": 2}


class Ring(gymnasium.Env):
    """A ring of 300 states that does not show its table."""

    metadata: ClassVar[dict[str, Any]] = {}
    observation_space = gymnasium.spaces.Discrete(300)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.age = int(self.np_random.integers(300)), 0
        return self.at, {}

    def step(self, action):
        self.at = int(self.at + (action - 1) * self.np_random.integers(1, 40)) % 300
        self.age += 1
        return self.at, float(np.sin(self.at)), self.at == 7, self.age >= 50, {}


def _leaning(o):
    right = 1 / (1 + np.exp(-8 * (o[..., 2] + 0.5 * o[..., 3])))
    return np.stack([1 - right, right], axis=-1)


def poles() -> list[gvfx.GVF]:
    return [
        gvfx.GVF(_leaning, gvfx.Reward(), 0.95, name="lean"),
        gvfx.GVF(gvfx.uniform_policy(), lambda o, a, o2: float(abs(o2[0])), 0.9, name="away"),
    ]


def swings() -> list[gvfx.GVF]:
    return [
        gvfx.GVF(gvfx.gaussian_policy(lambda o: -o[..., 2:3], 0.3), gvfx.Reward(), 0.9, name="damp"),
        gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), lambda o, a, o2: float(o2[0]), 0.8, name="still"),
    ]


def ring_questions() -> list[gvfx.GVF]:
    return [gvfx.GVF([0.2, 0.3, 0.5], gvfx.Reward(), 0.95, name="right"), gvfx.GVF([0.6, 0.2, 0.2], gvfx.Reward(), 0.9)]


def _evaluated(world: Any, questions: Any, behaviour: Any = None, learner: Any = None, **options: Any) -> gvfx.Result:
    return gvfx.evaluate(world, questions, behaviour, learner, **{"seeds": SEEDS} | options)


def _table_compiled(**options: Any) -> gvfx.Result:
    setting = gvfx_paper.paper["same"]
    return _evaluated(setting.world, setting.questions, **{"steps": 8000, "evaluate_every": 2000} | options)


def _table_gym(**options: Any) -> gvfx.Result:
    return _evaluated(Ring(), ring_questions(), gvfx.Uniform(), **{"steps": 3000, "evaluate_every": 1000} | options)


def _linear_compiled(**options: Any) -> gvfx.Result:
    setting = find_setting("continuous")
    learner = gvfx.LinearCertaintyEquivalence()
    questions = list(setting.experiment("GVFExplorer").questions)
    return _evaluated(setting.world, questions, None, learner, **{"steps": 3000, "evaluate_every": 1000} | options)


def _linear_gym(**options: Any) -> gvfx.Result:
    return _evaluated(gymnasium.make("CartPole-v1"), poles(), **{"steps": 1500, "evaluate_every": 500, "seeds": 1} | options)


def _network_scanned(**options: Any) -> gvfx.Result:
    e = find_setting("continuous").experiment("GVFExplorer", "paper", None, None, None, 2000, measurements=2)
    return _evaluated(e.world, e.questions, e.behaviour, e.learner, **{"steps": 2000, "evaluate_every": 1000} | options)


def _network_gym(**options: Any) -> gvfx.Result:
    learner = gvfx.Deep(capacity=1200, learning_starts=200)
    given = {"steps": 1200, "evaluate_every": 400, "seeds": 1, "audit": 0.0} | options
    return _evaluated(gymnasium.make("CartPole-v1"), poles(), None, learner, **given)


def _critics_lockstep(**options: Any) -> gvfx.Result:
    e = find_setting("cheetah").experiment("GVFExplorer", "recommended", None, None, None, 800, measurements=2)
    e = replace(e, behaviour=gvfx.Hold(gvfx.GVFExplorer()), learner=gvfx.TwinCritics(**CRITICS))
    return _evaluated(e.world, e.questions, e.behaviour, e.learner, **{"steps": 800, "evaluate_every": 400, "seeds": 1} | options)


def _critics_gym(**options: Any) -> gvfx.Result:
    given = {"steps": 800, "evaluate_every": 400, "seeds": 1, "audit": 0.0} | options
    return _evaluated(gymnasium.make("Pendulum-v1"), swings(), None, gvfx.TwinCritics(**CRITICS), **given)


def _log(**options: Any) -> gvfx.Result:
    rng = np.random.default_rng(5)
    s, a = rng.integers(0, 300, 5000), rng.integers(0, 3, 5000)
    s2 = (s + (a - 1) * rng.integers(1, 40, 5000)) % 300
    columns = {"observation": s, "action": a, "next_observation": s2, "terminated": s2 == 7, "reward": np.sin(s2)}
    return gvfx.evaluate_log(columns, ring_questions(), **options)


def _log_box(**options: Any) -> gvfx.Result:
    rng = np.random.default_rng(6)
    o, a = rng.uniform(-1, 1, (1200, 2)), rng.integers(0, 2, 1200)
    o2 = np.clip(o + 0.2 * (2 * a[:, None] - 1) + rng.normal(0, 0.1, o.shape), -1, 1)
    columns = {"observation": o, "action": a, "next_observation": o2, "terminated": o2[:, 0] > 0.95, "reward": o2[:, 1]}
    return gvfx.evaluate_log(columns, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9), gvfx.GVF([0.1, 0.9], gvfx.Reward(), 0.8)])


COMPILED = {"table_compiled": _table_compiled, "linear_compiled": _linear_compiled}
STEPPED = {"table_gym": _table_gym, "linear_gym": _linear_gym}
LOGS = {"log": _log, "log_box": _log_box}
OWN_NETWORKS = {"network_scanned": _network_scanned, "critics_lockstep": _critics_lockstep}
NETWORKS = OWN_NETWORKS | {"network_gym": _network_gym, "critics_gym": _critics_gym}
BACKENDS: dict[str, Callable[..., gvfx.Result]] = COMPILED | STEPPED | LOGS | NETWORKS
KNOWN_WORLDS = {*COMPILED, *OWN_NETWORKS}  # which can be resumed to the same bytes, and run in threads


SHOWN = ("values", "variances", "visits", "behaviour", "standard_errors", "expected at")
NOT_COMPARED = {  # with other times of measurement: what is not what was learned
    "network_gym": SHOWN,  # the observations at which tables are shown are chosen at the first measurement
    "linear_gym": ("expected at",),  # the expected error is computed anew only after the data have grown
    "linear_compiled": ("expected at",),
}


def digests(result: gvfx.Result) -> dict[str, str]:
    """A digest of every number of a result, of the curves by time."""
    out: dict[str, Any] = {f"mse at {t}": result.mse[:, k] for k, t in enumerate(result.steps)}
    out |= (
        {f"expected at {t}": result.details.expected[:, k] for k, t in enumerate(result.steps)}
        if result.details.expected is not None
        else {}
    )
    last = result.details.snapshots[-1]
    names = ("values", "variances", "visits", "behaviour", "standard_errors", "policies")
    out |= {name: getattr(last, name) for name in names if getattr(last, name) is not None}
    held = ("starts", "differences", "audits", "truth")
    out |= {name: getattr(result.details, name) for name in held if getattr(result.details, name) is not None}
    for k, network in enumerate(getattr(result.details.predictor, "networks", ())):
        out |= {f"network {k} {name}": array for name, array in network.arrays().items()}
    if result.details.has_intervals:
        out["intervals"] = result.intervals()
    if result.details.starts is not None and len(result.names) > 1:
        out["value"] = np.array([[v.value, v.low, v.high] for v in result.value().values()])
    return {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12] for name, array in out.items()}


def quiet(make: Callable[..., gvfx.Result], **options: Any) -> dict[str, str]:
    """The digests of a run, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digests(make(**options))
