"""Golden runs: record what every kind of run computes, or check that a change left it alone.

    python tools/golden.py record golden.npz     before a change
    python tools/golden.py check golden.npz      after it: every number must have the same bytes

The runs are short, cover every backend with two seeds each, and use the public API alone, so that the same file can be
recorded by one version of gvfx and checked by another on the same machine.  `--only` picks runs by a part of their name.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gvfx
import gvfx_paper
from gvfx.experiments.executors import run_task

FIELDS = ("steps", "mse", "levels", "episodes", "truth", "expected", "mse_outside", "actors", "stopped", "bounds", "points")
TABLES = ("values", "variances", "visits", "behaviour", "levels", "standard_errors", "policies")
SEEDS = (0, 3)
RUNS: dict[str, Callable[[], dict[str, np.ndarray]]] = {}


def golden(make: Callable[[], Any]) -> Callable[[], Any]:
    RUNS[make.__name__] = lambda: arrays_of(make())
    return make


def arrays_of(result: Any) -> dict[str, np.ndarray]:
    """A result's arrays by name."""
    if isinstance(result, dict):
        return result
    result = getattr(result, "details", result)
    out = {name: field(result, name) for name in FIELDS if field(result, name) is not None}
    for k, snapshot in enumerate(result.snapshots):
        out |= {f"{k}.{name}": field(snapshot, name) for name in TABLES if field(snapshot, name) is not None}
    return out


def field(held: Any, name: str) -> np.ndarray | None:
    """An array of a result or of one of its snapshots, wherever this version of gvfx has it."""
    extra = getattr(held, "extra", {})
    found = extra.get(name, extra.get(name.removesuffix("s"), getattr(held, name, None)))
    return None if found is None else np.asarray(found)


def grid() -> tuple[Any, list[Any]]:
    world = gvfx.gridworld(6, {"left": (0, 0), "right": (0, 5)})
    left = gvfx.GVF(gvfx.constant_policy([0.4, 0.1, 0.4, 0.1]), gvfx.Distractor(100, 5, at="left"), 0.9, name="left")
    right = gvfx.GVF(gvfx.constant_policy([0.1, 0.4, 0.4, 0.1]), gvfx.Distractor(50, 5, at="right"), 0.95, weight=2, name="right")
    return world, [left, right]


def on_grid(behaviour: Any, learner: Any, **options: Any) -> Any:
    return gvfx.evaluate(*grid(), behaviour, learner, **{"steps": 4000, "seeds": SEEDS, "snapshots": (1000,)} | options)


@golden
def table_explorer() -> Any:
    return on_grid(gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer())), gvfx.ExpectedSarsa(0.2))


@golden
def table_robin_importance() -> Any:
    return on_grid(gvfx.RoundRobin(), gvfx.ImportanceSampling(0.2))


@golden
def table_successor() -> Any:
    return on_grid(gvfx.Floor(gvfx.SuccessorRepresentation(rate=0.3)), gvfx.ExpectedSarsa(0.2))


@golden
def table_search_episodic() -> Any:
    behaviour = gvfx.Blend(gvfx.BehaviourPolicySearch(rate=0.3), gvfx.Mixture(), 0.5)
    options: dict[str, Any] = {"average_episodes": 50}
    if "average_episodes" not in inspect.signature(gvfx.evaluate).parameters:
        from gvfx.running.plan import Plan

        options = {"steps": Plan.checked(4000, None, (1000,), 50), "snapshots": ()}
    return on_grid(behaviour, gvfx_paper.EpisodicExpectedSarsa(0.2), **options)


@golden
def table_optimal() -> Any:
    return on_grid(None, None)


@golden
def table_optimal_until() -> Any:
    return on_grid(None, None, steps=60_000, until=gvfx.error_below(2.0), workers=2)


@golden
def table_calibrated_drifter() -> Any:
    world, questions = grid()
    drifter = gvfx.GVF(gvfx.uniform_policy(), gvfx.Drifter(0.5, 100, at="right"), 0.9, name="drifter")
    return gvfx.evaluate(world, [questions[0], drifter], steps=4000, seeds=SEEDS)


@golden
def table_own_policies() -> Any:
    world, questions = grid()
    own = [gvfx.GVF(gvfx.own_greedy(0.1), q.cumulant, q.discount, name=q.name) for q in questions]
    return gvfx.evaluate(world, own, steps=4000, seeds=SEEDS)


@golden
def table_frozen_lake() -> Any:
    lake = gymnasium.make("FrozenLake-v1")
    return gvfx.evaluate(lake, [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95)], steps=3000, seeds=SEEDS)


class Chain(gymnasium.Env):
    """A chain of eight states that does not show its table."""

    observation_space = gymnasium.spaces.Discrete(8, start=2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.age = int(self.np_random.integers(3)), 0
        return self.at + 2, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        moves = bool(action) ^ bool(self.np_random.random() < 0.2)
        self.at = min(7, self.at + 1) if moves else max(0, self.at - 1)
        self.age += 1
        return self.at + 2, float(self.at), self.at == 7, self.age >= 30, {"energy": [1.0, float(self.at == 3)]}


def chain_questions() -> list[Any]:
    right = gvfx.constant_policy([0.3, 0.7])
    return [
        gvfx.GVF(right, gvfx.Reward(), 0.9, name="reward"),
        gvfx.GVF(gvfx.uniform_policy(), gvfx.Info("energy", size=2), lambda s, a, s2: 0.5 if s2 == 5 else 0.9, name="energy"),
    ]


@golden
def gym_table_optimal() -> Any:
    return gvfx.evaluate(Chain(), chain_questions(), steps=3000, seeds=SEEDS, snapshots=(500,))


@golden
def gym_table_until() -> Any:
    return gvfx.evaluate(Chain(), chain_questions()[:1], steps=30_000, seeds=SEEDS, until=gvfx.error_below(0.5))


@golden
def gym_table_explorer_vector() -> Any:
    lanes = gymnasium.vector.SyncVectorEnv([Chain] * 3)
    behaviour = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
    return gvfx.evaluate(lanes, chain_questions(), behaviour, gvfx.ExpectedSarsa(0.2), steps=3000, seeds=SEEDS)


@golden
def gym_table_own() -> Any:
    return gvfx.evaluate(Chain(), [gvfx.GVF(gvfx.own_greedy(), gvfx.Reward(), 0.9)], steps=3000, seeds=SEEDS)


def on_continuous_grid(behaviour: str, **options: Any) -> dict[str, np.ndarray]:
    """A run of the continuous grid as sweeps make it, stored and packed."""
    from gvfx_paper.settings.runs import find_setting

    e = find_setting("continuous").experiment(behaviour, "paper", None, None, None, 4000, measurements=4)
    return packed(e, **options)


def packed(experiment: Any, **options: Any) -> dict[str, np.ndarray]:
    raw = [np.frombuffer(run_task(experiment.json, seed, **options)[0], np.uint8) for seed in SEEDS]
    return {f"seed {seed}": bytes_ for seed, bytes_ in zip(SEEDS, raw, strict=True)}


@golden
def network_scanned_explorer() -> Any:
    return on_continuous_grid("GVFExplorer")


@golden
def network_scanned_successor() -> Any:
    return on_continuous_grid("SR")


@golden
def network_scanned_checkpointed() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return on_continuous_grid("RoundRobin", checkpoints=folder)


def poles() -> list[Any]:
    def leaning(o: np.ndarray) -> np.ndarray:
        right = 1 / (1 + np.exp(-8 * (o[..., 2] + 0.5 * o[..., 3])))
        return np.stack([1 - right, right], axis=-1)

    return [
        gvfx.GVF(leaning, gvfx.Reward(), 0.95, name="lean"),
        gvfx.GVF(gvfx.uniform_policy(), lambda o, a, o2: float(abs(o2[0])), 0.9, name="away"),
    ]


@golden
def gym_network_default() -> Any:
    return gvfx.evaluate(gymnasium.make("CartPole-v1"), poles(), steps=2400, seeds=SEEDS)


@golden
def gym_network_successor_vector() -> Any:
    lanes = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    behaviour = gvfx.Epsilon(gvfx.SuccessorRepresentation())
    return gvfx.evaluate(lanes, poles(), behaviour, gvfx.Deep(capacity=2400, learning_starts=400), steps=2400, seeds=SEEDS)


def on_cheetah(behaviour: Any, learner: Any, **options: Any) -> dict[str, np.ndarray]:
    from dataclasses import replace

    from gvfx_paper.settings.runs import find_setting

    e = find_setting("cheetah").experiment("GVFExplorer", "recommended", None, None, None, 1600, measurements=2)
    return packed(replace(e, behaviour=behaviour, learner=learner), **options)


SMALL = {"hidden": (16, 16), "capacity": 1600, "learning_starts": 320, "batch": 32, "updates": 2}


@golden
def critics_lockstep_held() -> Any:
    return on_cheetah(gvfx.Hold(gvfx.GVFExplorer()), gvfx.TwinCritics(**SMALL))


@golden
def critics_lockstep_actor() -> Any:
    learner = gvfx.TwinCritics(**SMALL, aggregate="min", entropy_in_target=True, trace=0)
    with tempfile.TemporaryDirectory() as folder:
        return on_cheetah(gvfx.Actor(), learner, checkpoints=folder)


def swings() -> list[Any]:
    return [
        gvfx.GVF(gvfx.gaussian_policy(lambda o: -o[..., 2:3], 0.3), gvfx.Reward(), 0.9, name="damp"),
        gvfx.GVF(gvfx.gaussian_policy([0.0], 0.5), lambda o, a, o2: float(o2[0]), 0.8, name="still"),
    ]


@golden
def gym_critics_default() -> Any:
    learner = gvfx.TwinCritics(**SMALL)
    return gvfx.evaluate(gymnasium.make("Pendulum-v1"), swings(), None, learner, steps=1600, seeds=SEEDS)


@golden
def gym_critics_robin_vector() -> Any:
    lanes = gymnasium.make_vec("Pendulum-v1", num_envs=3, vectorization_mode="sync")
    return gvfx.evaluate(lanes, swings(), gvfx.RoundRobin(), gvfx.TwinCritics(**SMALL), steps=1600, seeds=SEEDS)


@golden
def log_table() -> Any:
    rng = np.random.default_rng(5)
    s, a = rng.integers(0, 5, 500), rng.integers(0, 2, 500)
    s2 = np.clip(s + np.where(rng.random(500) < 0.8, 2 * a - 1, 0), 0, 4)
    columns = {"observation": s, "action": a, "next_observation": s2, "terminated": s2 == 4, "reward": 1.0 * s2}
    answer = getattr(gvfx, "evaluate_log", gvfx.evaluate)
    return answer(columns, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9), gvfx.GVF([0.1, 0.9], gvfx.Reward(), 0.9)])


def hashes() -> dict[str, np.ndarray]:
    """The names of all experiments that the paper's and our own items need."""
    try:
        from gvfx_paper.items import ITEMS
    except ImportError:
        from gvfx_paper.items.catalogue import ITEMS  # 0.1.0
    tuned = {"same": {"GVFExplorer": (0.1, 0.8), "Mixture": (0.25, 0.8)}}
    return {name: np.array([c.experiment.hash for c in item.needs(tuned)], "S16") for name, item in ITEMS.items()}


RUNS["experiment_hashes"] = hashes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = dict(np.load(given.file)) if given.what == "check" else {}
    out, wrong = {}, []
    for name, make in RUNS.items():
        if given.only not in name:
            continue
        begun = time.perf_counter()
        made = {f"{name}/{field}": array for field, array in make().items()}
        out |= made
        if given.what == "check":
            before = {field: array for field, array in known.items() if field.startswith(f"{name}/")}
            bad = [f for f in {*before, *made} if f not in made or f not in before or not same(before[f], made[f])]
            wrong += bad
            verdict = "changed: " + ", ".join(sorted(bad)) if bad else "the same bytes"
        else:
            verdict = f"{len(made)} arrays"
        print(f"{name}: {verdict} ({time.perf_counter() - begun:.0f} s)", flush=True)
    if given.what == "record":
        np.savez_compressed(given.file, **out)
    sys.exit(1 if wrong else 0)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


if __name__ == "__main__":
    main()
