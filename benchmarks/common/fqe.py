"""d3rlpy's fitted Q evaluation on a log of episodes, for `python -m benchmarks alternatives`.

d3rlpy asks a trained algorithm for the next actions.  Here they are drawn from the policy in question, so that a stochastic
policy is evaluated as it is.  d3rlpy leaves out the last row of an episode that ends by a time limit, which has no following
observation there; so such episodes get one row more, and all transitions are used.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

Draw = Callable[[np.ndarray], np.ndarray]  # actions for observations [n, o]: [n], or [n, a] of a Box
Episode = dict[str, np.ndarray]  # observations with the last one, actions, rewards, terminations
DRAWS = 30  # actions per observation in the value of a state


class Fitted(NamedTuple):
    """The value at the start after some updates, and the processor time of fitting until then."""

    updates: int
    value: float
    seconds: float


class _Target:
    """A policy in the place of a trained algorithm; `impl` is what d3rlpy asks for next actions."""

    def __init__(self, draw: Draw, discrete: bool) -> None:
        self.draw, self.discrete, self.impl = draw, discrete, self
        self.scaler: Any = None

    def predict_best_action(self, x: Any) -> Any:
        import torch

        seen = x if self.scaler is None else self.scaler.reverse_transform(x)
        drawn = self.draw(seen.numpy())
        return torch.tensor(drawn, dtype=torch.int64 if self.discrete else torch.float32)


def installed() -> bool:
    """Whether d3rlpy can be imported."""
    return importlib.util.find_spec("d3rlpy") is not None


def versions() -> str:
    """Of what FQE is made with."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("d3rlpy", "torch"))


def defaults(discount: float) -> Any:
    """d3rlpy's defaults but for the discount: Adam at 1e-4, batches of 100, two layers of 256."""
    import d3rlpy

    return d3rlpy.ope.FQEConfig(gamma=discount)


def sensible(discount: float) -> Any:
    """What one would try next: ten times the learning rate, larger batches, a target that follows sooner, standardised inputs."""
    import d3rlpy

    scaler = d3rlpy.preprocessing.StandardObservationScaler()
    return d3rlpy.ope.FQEConfig(
        gamma=discount, learning_rate=1e-3, batch_size=256, target_update_interval=20, observation_scaler=scaler
    )


def fit(episodes: Sequence[Episode], draw: Draw, config: Any, updates: Sequence[int], seed: int) -> list[Fitted]:
    """Fit to episodes and ask at the numbers of updates."""
    import d3rlpy
    import structlog
    import torch

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    d3rlpy.seed(seed)
    torch.set_num_threads(1)
    discrete = np.asarray(episodes[0]["actions"]).dtype.kind == "i"
    target, begun = _Target(draw, discrete), time.process_time()
    fqe = (d3rlpy.ope.DiscreteFQE if discrete else d3rlpy.ope.FQE)(target, config)
    target.scaler = config.observation_scaler
    starts = np.stack([e["observations"][0] for e in episodes]).astype(np.float32)
    found: list[Fitted] = []
    asking = 0.0

    def ask(_: Any, __: int, done: int) -> None:
        nonlocal asking
        if done in updates:
            now = time.process_time()
            found.append(Fitted(done, _start_value(fqe, starts, draw), now - begun - asking))
            asking += time.process_time() - now

    fqe.fit(
        _dataset(episodes, discrete),
        n_steps=max(updates),
        n_steps_per_epoch=max(updates),
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        callback=ask,
    )
    return found


def _dataset(episodes: Sequence[Episode], discrete: bool) -> Any:
    import d3rlpy

    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts")}
    for e in episodes:
        over = bool(e["terminations"][-1])
        size = len(e["actions"]) + (not over)  # with the row that is left out
        last = np.arange(size) == size - 1
        columns["observations"].append(e["observations"][:size].astype(np.float32))
        columns["actions"].append(_longer(e["actions"].reshape(len(e["actions"]), -1), size))
        columns["rewards"].append(_longer(e["rewards"].astype(np.float32)[:, None], size))
        columns["terminals"].append((last & over).astype(np.float32))
        columns["timeouts"].append((last & (not over)).astype(np.float32))
    space = d3rlpy.constants.ActionSpace.DISCRETE if discrete else d3rlpy.constants.ActionSpace.CONTINUOUS
    return d3rlpy.dataset.MDPDataset(**{name: np.concatenate(parts) for name, parts in columns.items()}, action_space=space)


def _longer(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows, the last one again if one is missing."""
    return np.concatenate([rows, rows[-1:]])[:size]


def _start_value(fqe: Any, starts: np.ndarray, draw: Draw) -> float:
    """The mean of Q over first observations and drawn actions."""
    return float(np.mean([fqe.predict_value(starts, draw(starts)).mean() for _ in range(DRAWS)]))
