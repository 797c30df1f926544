"""What environments return: flags and rewards that are checked and copied, and when vector environments begin new episodes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorObservationWrapper, VectorRewardWrapper
from gymnasium.vector.utils import iterate

from gvfx.errors import InputError, TookTooLong, error_text
from gvfx.worlds.spaces import same_observation
from gvfx.worlds.spec import layers, stacked_actions

# --- What the resets and steps of an environment return and raise, checked and in words -----------------------------


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


PLAIN = frozenset({int, float, bool, str, type(None), np.bool_, np.int64, np.int32, np.float64, np.float32})  # cannot be changed


def own(given: Any) -> Any:
    """What a user's function gets: a copy that it may change, of arrays, also in dicts, tuples and lists; other objects as
    they are."""
    kind = given.__class__
    if kind in PLAIN:
        return given
    if kind is np.ndarray or isinstance(given, np.ndarray):
        return given.copy()
    if kind is dict:
        return {key: value if value.__class__ in PLAIN else own(value) for key, value in given.items()}
    if isinstance(given, tuple):
        parts = [own(value) for value in given]
        return kind._make(parts) if hasattr(kind, "_make") else tuple(parts)
    if kind is list:
        return [own(value) for value in given]
    if isinstance(given, dict):
        out = copy.copy(given)
        for key, value in given.items():
            out[key] = own(value)
        return out
    return given


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
    return f"reset raised {error_text(error)}; if it needs options, give it a wrapper that gives its options."


def why_step(error: BaseException) -> str:
    """The description of an error in a step."""
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error):
        return "step did not return (observation, reward, terminated, truncated, info); wrap or update an old Gym environment."
    return f"step {error}." if isinstance(error, TookTooLong) else f"step raised {error_text(error)}"


# --- When a vector environment begins new episodes: as it declares, and as its endings show -------------------------
# Gymnasium's modes: in NEXT_STEP the step after an end only resets; in SAME_STEP the step that ends an episode returns the first
# observation of the next one, and the last in info["final_obs"]; in DISABLED nothing happens until `reset` with a mask.


FIELD = 'metadata["autoreset_mode"]'
MODES = {"nextstep": "NEXT_STEP", "samestep": "SAME_STEP", "disabled": "DISABLED"}
ALLOWED = "NEXT_STEP, SAME_STEP or DISABLED"
FINAL = "final_obs"  # where SAME_STEP puts the last observations
FINALS = (FINAL, "final_observation", "terminal_observation")  # as other versions and libraries call them
PATIENCE = 3  # resets with a mask that may change other environments' observations, as noise in a wrapper may


def declared_mode(env: Any) -> str | None:
    """The mode that an environment, or one inside it, declares: the enum, its value or its name; None if none does."""
    for layer in layers(env):
        metadata = getattr(layer, "metadata", None)
        mode = metadata.get("autoreset_mode") if isinstance(metadata, Mapping) else None
        mode = getattr(layer, "autoreset_mode", None) if mode is None else mode
        if mode is not None:
            text = str(getattr(mode, "name", mode)).rpartition(".")[2]
            known = MODES.get("".join(letter for letter in text.lower() if letter.isalnum()))
            if known is None:
                raise InputError(f"{FIELD}: {mode!r:.40} is no mode; declare {ALLOWED}.")
            return known
    return None if hasattr(gymnasium.vector, "AutoresetMode") else "NEXT_STEP"  # the only one before Gymnasium 1.1


class Autoreset:
    """The mode of one vector environment, which every ending confirms or contradicts (InputError)."""

    def __init__(self, env: Any) -> None:
        self.mode = declared_mode(env)  # None until the first ending
        self.notice = ""  # how the mode was found, if it was not declared
        self.zero = not any(isinstance(layer, VectorRewardWrapper) for layer in layers(env))  # whether resets have rewards of 0
        self.exact = not any(isinstance(layer, VectorObservationWrapper) for layer in layers(env))
        self.changed = 0  # resets with a mask after which other environments had changed

    def ended(self, lanes: list[int], given: list[Any], info: Any) -> None:
        """Compare the observations [lane] that came with the ends of episodes with the mode, or find it."""
        if not lanes:
            return
        shown = next((key for k in lanes if (key := other_final(info, k, given[k]))), "")
        if self.mode is None:
            if shown != FINAL:
                raise InputError(f"{FIELD}: is missing; declare {ALLOWED}, so that the ends of episodes are read correctly.")
            self.mode = "SAME_STEP"
            self.notice = f"{FIELD}: is missing; info[{FINAL!r}] shows that it is SAME_STEP; declare it."
        elif shown and self.mode != "SAME_STEP":
            raise InputError(f"{FIELD}: says {self.mode}, but info[{shown!r}] shows SAME_STEP; declare that.")

    def reset_step(self, lanes: list[int], rewards: Any, over: np.ndarray) -> None:
        """Compare what a step that only resets some lanes (NEXT_STEP) returned there; over [lane]: terminated or truncated."""
        for k in lanes:
            if over[k] or (self.zero and np.any(rewards[k])):
                what = "ends the next one" if over[k] else f"has a reward of {rewards[k]}"
                raise InputError(
                    f"{FIELD}: says NEXT_STEP, but the step after the end of an episode {what} and is no reset; declare "
                    "SAME_STEP or DISABLED."
                )

    def masked(self, lanes: list[int], before: list[Any], after: list[Any]) -> None:
        """Compare the observations of lanes that a reset with a mask (DISABLED) must leave alone."""
        self.changed += self.exact and any(not same_observation(before[k], after[k]) for k in lanes)
        if self.changed >= PATIENCE:
            raise InputError("reset: changes environments that options['reset_mask'] leaves out; reset those in the mask only.")


def other_final(info: Any, k: int | None, given: Any) -> str:
    """The entry of info with another last observation than the given one, or ""; k: the lane, None in a plain environment."""
    if k is not None and isinstance(info, list | tuple) and k < len(info):  # one dict per lane
        info, k = info[k], None
    if not isinstance(info, Mapping):
        return ""
    if k is None:
        return next((key for key in FINALS if info.get(key) is not None and not _same(info[key], given)), "")
    for key in FINALS:
        mask = info.get(f"_{key}")
        if mask is not None and not mask[k]:
            continue
        last = info[key][k] if key in info else None
        if (mask is not None and last is None) or (last is not None and not _same(last, given)):
            return key
    return ""


def _same(one: Any, other: Any) -> bool:
    try:
        return same_observation(one, other)
    except (TypeError, ValueError, AttributeError):
        return False


# --- The first copy of a vector environment as a plain environment, in every autoreset mode; the others take the same actions


class FirstCopy:
    """A plain environment; `reset` without a seed begins the first copy's next episode."""

    def __init__(self, env: Any) -> None:
        self.env, self.copies = env, int(env.num_envs)
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self.spec, self.metadata = getattr(env, "spec", None), env.metadata
        self.autoreset = Autoreset(env)
        self.following: Any = None  # after SAME_STEP: the first observation of the next episode
        self.last: Any = None  # the last action, which a reset in the next step needs

    @property
    def mode(self) -> str | None:
        """When new episodes begin; None until that is known."""
        return self.autoreset.mode

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if "seed" in options or self.last is None:
            observations, info = self.env.reset(**options)
        elif self.mode == "SAME_STEP":
            return self.following, {}
        elif self.mode == "NEXT_STEP":
            observations, rewards, terminated, truncated, info = self.env.step(self._all(self.last))
            self.autoreset.reset_step([0], rewards, np.logical_or(terminated, truncated))
        else:
            mask = np.arange(self.copies) == 0
            observations, info = self.env.reset(options={"reset_mask": mask})
        return self._first(observations), _own(info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.last = action
        observations, rewards, terminated, truncated, info = self.env.step(self._all(action))
        flags = [truths(values, (self.copies,)) for values in (terminated, truncated)]
        if flags[0] is None or flags[1] is None:  # whoever steps this says so
            return self._first(observations), rewards[0], np.ravel(terminated)[0], np.ravel(truncated)[0], _own(info)
        ended = flags[0] | flags[1]
        following, own = self._first(observations), _own(info)
        if ended[0]:
            self.autoreset.ended([0], [following], info)
        if self.mode == "SAME_STEP" and ended[0]:
            if "final_obs" not in info:
                raise InputError("info: has no last observation of an episode; return it as info['final_obs'][0].")
            self.following, following = following, info["final_obs"][0]
            own = _own(info.get("final_info", {}))
        others = ended & (np.arange(self.copies) > 0)
        if self.mode == "DISABLED" and others.any():
            after, _ = self.env.reset(options={"reset_mask": others})
            self.autoreset.masked([0], [following], [following if ended[0] else self._first(after)])
        reward = rewards[0] if np.ndim(rewards[0]) else float(rewards[0])
        return following, reward, bool(flags[0][0]), bool(flags[1][0]), own

    def _all(self, action: Any) -> Any:
        return stacked_actions(self.action_space, [action] * self.copies)

    def _first(self, observations: Any) -> Any:
        first = next(iter(iterate(self.env.observation_space, observations)))
        return first.item() if isinstance(first, np.generic) else copy.deepcopy(first)


def _own(info: dict[str, Any]) -> dict[str, Any]:
    return {
        key: values[0]
        for key, values in info.items()
        if not key.startswith("_") and not isinstance(values, dict) and (f"_{key}" not in info or info[f"_{key}"][0])
    }
