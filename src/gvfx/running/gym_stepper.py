"""Stepping an environment from Python: resets, signals, endings, and failures that name where they happened.

Steppers write each transition into an agent: an object with arrays state, action, following, alive, ended, counts, fresh,
c and gamma, whose first axis [lane] runs over the environments that are stepped together.  The environment's spec
(`gvfx.worlds.spec`) determines what `state` holds: a number for tables, a vector for networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gvfx.errors import EnvironmentFailed
from gvfx.questions.reader import Reader
from gvfx.questions.signals import SignalFailed
from gvfx.worlds.spec import BadObservation, BoxActionSpec

NEW_EPISODE = "the environment itself is not stored, so it begins a new episode."


def stepper(spec: Any, reader: Reader) -> SingleStepper | VectorStepper:
    """The stepper of an environment, plain or vector."""
    return SingleStepper(spec, reader) if spec.single else VectorStepper(spec, reader)


def reset_seed(seed: int, t: int) -> int:
    """The seed of the first reset; a run that continues at step t gets a different one."""
    return seed if t == 0 else int(np.random.SeedSequence([seed, t]).generate_state(1)[0] >> 1)


class Lanes:
    """The arrays that steppers write, with observations as vectors; [lane] is one of the environments stepped together."""

    def __init__(self, lanes: int, size: int, action: np.ndarray, c: np.ndarray, gamma: np.ndarray) -> None:
        """size: length of an observation vector; action [lane, ...], cumulants c and discounts gamma [lane, gvf]."""
        self.state, self.following = np.zeros((2, lanes, size), np.float32)
        self.action, self.c, self.gamma = action, c, gamma
        self.alive = np.ones(lanes)  # 0 where the episode terminated
        self.ended = np.zeros(lanes, bool)  # terminated or truncated
        self.fresh = np.zeros(lanes, bool)  # an episode begins here
        self.counts = np.ones(lanes, bool)  # False: this was a reset, not a transition


class SingleStepper:
    """One environment in lane 0, reset here when an episode ends."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        self.spec, self.reader = spec, reader
        self.first_action = None if isinstance(spec, BoxActionSpec) else spec.first_action
        self.episode = self.age = 0
        self.seen_now: list[Any] = []  # the current observation, as the environment returned it
        self.seen_next: list[Any] = []  # the observation after the last step, before any reset

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        self._reset(agent, {"seed": reset_seed(seed, t)})

    def _reset(self, agent: Any, options: dict[str, Any]) -> None:
        self.age = 0
        try:
            observation, _ = self.spec.env.reset(**options)
        except Exception as error:
            raise self.failed(_why_reset(error)) from error
        agent.state[0] = self.seen(observation)
        agent.fresh[0] = True
        self.seen_now = [observation]

    def reset(self, agent: Any) -> None:
        """Begin a new episode now."""
        self._reset(agent, {})

    def observe_resets(self, n: int) -> list[Any]:
        """The first observations of n episodes that are not continued; the caller resets afterwards."""
        out = []
        for _ in range(n):
            try:
                observation, _ = self.spec.env.reset()
            except Exception as error:
                raise self.failed(_why_reset(error)) from error
            self.seen(observation)
            out.append(observation)
        return out

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen action, read the signals and learn; returns how many episodes ended."""
        chosen = agent.action[0]
        action = self.spec.to_env(chosen) if self.first_action is None else int(chosen) + self.first_action
        try:
            following, reward, terminated, truncated, info = self.spec.env.step(action)
        except Exception as error:
            raise self.failed(_why(error)) from error
        s = self.seen(following)
        self.seen_next = [following]
        if reward != reward:
            raise self.failed("the reward is nan; return finite numbers.")
        try:
            self.reader.read(self.seen_now[0], action, reward, following, info, agent.c[0], agent.gamma[0])
        except SignalFailed as error:
            raise self.failed(str(error)) from error
        except Exception as error:
            raise self.failed(f"a question's signal raised {type(error).__name__}: {error}") from error
        if terminated.__class__ is not bool or truncated.__class__ is not bool:
            terminated, truncated = self.flag(terminated, "terminated"), self.flag(truncated, "truncated")
        ended = terminated or truncated
        agent.following[0] = s
        agent.alive[0] = 0.0 if terminated else 1.0
        agent.ended[0] = ended
        learn(agent)
        self.age += 1
        if ended:
            self.episode += 1
            self._reset(agent, {})
            return 1
        agent.state[0] = s
        self.seen_now = self.seen_next
        return 0

    def seen(self, observation: Any) -> Any:
        try:
            return self.spec.seen(observation)
        except BadObservation as error:
            raise self.failed(str(error)) from None

    def flag(self, value: Any, name: str) -> bool:
        """Whether an episode ended: True, False, 1 or 0, nothing else."""
        if np.ndim(value) == 0 and not isinstance(value, str) and value in (False, True):
            return bool(value)
        raise self.failed(f"{name} is {value!r:.40}; return True or False.")

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.spec.name, self.episode, self.age, what)


class VectorStepper:
    """A vector environment with one lane per environment, in any autoreset mode."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        self.spec, self.reader = spec, reader
        self.mode = str(getattr(spec.env.metadata.get("autoreset_mode"), "name", "NEXT_STEP"))
        self.episode = self.age = 0
        self.resets = np.zeros(spec.lanes, bool)  # lanes that only reset in the next step
        self.seen_now: list[Any] = []  # the current observations, one per lane
        self.seen_next: list[Any] = []  # the observations after the last step, before any reset

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        try:
            given, _ = self.spec.env.reset(seed=reset_seed(seed, t))
        except Exception as error:
            raise self.failed(_why_reset(error)) from error
        self.seen_now = self.split(given)
        self.see(agent.state, self.seen_now)
        agent.fresh[:] = True
        self.resets[:] = False

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen actions, read the signals and learn; returns how many episodes ended."""
        actions = self.spec.to_env_batch(agent.action)
        try:
            given, rewards, terminated, truncated, info = self.spec.env.step(actions)
        except Exception as error:
            raise self.failed(_why(error)) from error
        given = self.split(given)
        ended = (terminated | truncated) & ~self.resets
        following = list(given)
        if self.mode == "SAME_STEP":  # the last observations of the episodes come in info
            for k in np.flatnonzero(ended).tolist():
                following[k] = info["final_obs"][k]
        if np.isnan(rewards).any():
            raise self.failed(f"the reward of environment {int(np.isnan(rewards).argmax())} is nan; return finite numbers.")
        for k in np.flatnonzero(~self.resets).tolist():
            own = _own_info(info, k, bool(ended[k]) and self.mode == "SAME_STEP") if self.reader.reads_info else {}
            try:
                before, action, reward = self.seen_now[k], self.spec.to_env(agent.action[k]), float(rewards[k])
                self.reader.read(before, action, reward, following[k], own, agent.c[k], agent.gamma[k])
            except SignalFailed as error:
                raise self.failed(f"environment {k}: {error}") from error
            except Exception as error:
                raise self.failed(f"environment {k}: a question's signal raised {type(error).__name__}: {error}") from error
        self.see(agent.following, following)
        self.seen_next = following
        agent.alive[:] = ~terminated
        agent.ended[:] = ended
        agent.counts[:] = ~self.resets
        learn(agent)
        if self.mode == "DISABLED" and ended.any():
            given = self.split(self.spec.env.reset(options={"reset_mask": ended})[0])
        agent.fresh[:] = self.resets if self.mode == "NEXT_STEP" else ended
        self.resets = ended if self.mode == "NEXT_STEP" else self.resets
        self.see(agent.state, given)
        self.seen_now = given
        self.age += 1
        self.episode += int(ended.sum())
        return int(ended.sum())

    def split(self, observations: Any) -> list[Any]:
        try:
            return self.spec.split(observations)
        except BadObservation as error:
            raise self.failed(str(error)) from None

    def see(self, into: np.ndarray, observations: list[Any]) -> None:
        for k, observation in enumerate(observations):
            try:
                into[k] = self.spec.seen(observation)
            except BadObservation as error:
                raise self.failed(f"environment {k}: {error}") from None

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.spec.name, self.episode, self.age, what)


def _why_reset(error: Exception) -> str:
    """The description of an error in a reset."""
    if isinstance(error, ValueError | TypeError) and ("unpack" in str(error) or "'seed'" in str(error)):
        return "reset(seed=...) did not return (observation, info), as Gymnasium requires; wrap or update an old Gym environment."
    return f"reset raised {type(error).__name__}: {error}"


def _why(error: Exception) -> str:
    """The description of an error in a step."""
    if isinstance(error, ValueError | TypeError) and "unpack" in str(error):
        return "step did not return (observation, reward, terminated, truncated, info); wrap or update an old Gym environment."
    return f"step raised {type(error).__name__}: {error}"


def _own_info(info: dict[str, Any], k: int, last: bool) -> dict[str, Any]:
    """The info of one environment of a vector environment (from `final_info` for the step that ended its episode)."""
    if last and "final_info" in info:
        info = info["final_info"]
    return {key: values[k] for key, values in info.items() if not key.startswith("_") and info.get(f"_{key}", _ALL)[k]}


class _All:
    def __getitem__(self, k: int) -> bool:
        return True


_ALL = _All()
