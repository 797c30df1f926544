"""What the resets and steps of an environment return and raise, checked and in words."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gvfx.errors import TookTooLong, said_by


def truths(values: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """True, False, 0 and 1 of this shape as booleans; None for anything else."""
    if isinstance(values, np.ndarray) and values.dtype == bool and values.shape == shape:
        return values
    try:
        array = np.asarray(values)
    except Exception:  # rows of different lengths, and objects that refuse
        return None
    if array.shape != shape or array.dtype.kind not in "fiub" or not ((array == 0) | (array == 1)).all():
        return None
    return array.astype(bool)


def copied(observation: Any) -> Any:
    """A copy that the environment cannot overwrite."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    return observation if isinstance(observation, int | np.generic) else copy.deepcopy(observation)


def wrong_reward(reward: Any) -> str:
    """What is wrong with a reward; empty for a finite number, or a vector of them."""
    try:
        array = np.asarray(reward)
        numbers = array.dtype.kind in "fiub" and array.ndim <= 1 and array.size > 0
        bad = array[~np.isfinite(array)] if numbers else array
    except Exception:
        return f"{reward!r:.40}"
    if not numbers:
        return f"{reward!r:.40}"
    return f"{bad.ravel()[0]}" if bad.size else ""


def why_reset(error: BaseException) -> str:
    """The description of an error in a reset."""
    if isinstance(error, ValueError | TypeError) and ("unpack" in str(error) or "'seed'" in str(error)):
        return "reset(seed=...) did not return (observation, info), as Gymnasium requires; wrap or update an old Gym environment."
    if isinstance(error, TookTooLong):
        return f"reset {error}."
    return f"reset raised {said_by(error)}; if it needs options, give it a wrapper that gives its options."


def why_step(error: BaseException) -> str:
    """The description of an error in a step."""
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error):
        return "step did not return (observation, reward, terminated, truncated, info); wrap or update an old Gym environment."
    return f"step {error}." if isinstance(error, TookTooLong) else f"step raised {said_by(error)}"
