"""Stepping an environment from Python: resets, signals, endings, and failures that name where they happened.

Steppers write each transition into an agent: an object with arrays state, action, following, alive, ended, counts, fresh,
c and gamma, whose first axis [lane] runs over the environments that are stepped together.  The environment's spec
(`gvfx.worlds.spec`) determines what `state` holds: a number for tables, a vector for networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from gvfx.errors import EnvironmentFailed, GvfxError, TookTooLong, said_by
from gvfx.questions.reader import Reader
from gvfx.questions.signals import SignalFailed, as_reward
from gvfx.running.step_limit import limited
from gvfx.worlds.answers import copied, truths, why_reset, why_step, wrong_reward
from gvfx.worlds.first_copy import autoreset_mode
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


class _Stepper:
    """What both steppers share: calls of the environment, whose failures name the episode and the step."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        self.spec, self.reader = spec, reader
        self.env_step, self.env_reset = limited(spec.env.step), limited(spec.env.reset)
        self.episode = self.age = 0
        self.seen_now: list[Any] = []  # the current observations, one per lane, as the environment returned them
        self.seen_next: list[Any] = []  # the observations after the last step, before any reset

    def began(self, **options: Any) -> Any:
        """The observation of a reset."""
        try:
            observation, _ = self.env_reset(**options)
        except BaseException as error:
            self.end(error, why_reset(error))
        return observation

    def end(self, error: BaseException, what: str) -> NoReturn:
        """Raise the failure; a request to end the program, such as SystemExit, stays what it is."""
        if isinstance(error, Exception | TookTooLong):
            raise self.failed(what) from error
        error.add_note(f"{self.spec.name}: episode {self.episode}, step {self.age}")
        raise error

    def seen(self, observation: Any, where: str = "") -> Any:
        """What a learner sees."""
        try:
            return self.spec.seen(observation)
        except BadObservation as error:
            raise self.failed(f"{where}{error}") from None
        except GvfxError:
            raise
        except Exception as error:
            raise self.failed(f"{where}the observation {observation!r:.60} cannot be read ({said_by(error)}).") from error

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.spec.name, self.episode, self.age, what)

    def signal_failed(self, error: Exception, info: Any, where: str = "") -> EnvironmentFailed:
        """The failure of a question's cumulant or discount."""
        if not isinstance(info, Mapping):
            return self.failed(f"{where}info is {info!r:.40}; return a dict.")
        return self.failed(f"{where}{error if isinstance(error, SignalFailed) else f'a signal raised {said_by(error)}'}")


class SingleStepper(_Stepper):
    """One environment in lane 0, reset here when an episode ends."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        super().__init__(spec, reader)
        self.first_action = None if isinstance(spec, BoxActionSpec) or spec.listed else spec.first_action
        self.copies = reader.reads_observations  # which an environment may overwrite in its next step

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        self._reset(agent, seed=reset_seed(seed, t))

    def _reset(self, agent: Any, **options: Any) -> None:
        self.age = 0
        observation = self.began(**options)
        agent.state[0] = self.seen(observation)
        agent.fresh[0] = True
        self.seen_now = [copied(observation) if self.copies else observation]

    def reset(self, agent: Any, seed: int | None = None) -> None:
        """Begin a new episode now, with the environment's chance from a seed if it is given."""
        self._reset(agent, **({} if seed is None else {"seed": seed}))

    def observe_resets(self, n: int) -> list[Any]:
        """The first observations of n episodes that are not continued; the caller resets afterwards."""
        out = []
        for _ in range(n):
            observation = self.began()
            self.seen(observation)
            out.append(copied(observation))
        return out

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen action, read the signals and learn; returns how many episodes ended."""
        chosen = agent.action[0]
        action = self.spec.to_env(chosen) if self.first_action is None else int(chosen) + self.first_action
        try:
            following, reward, terminated, truncated, info = self.env_step(action)
        except BaseException as error:
            self.end(error, why_step(error))
        s = self.seen(following)
        if self.copies:
            following = copied(following)
        self.seen_next = [following]
        if not (reward.__class__ is float and -math.inf < reward < math.inf) and (wrong := wrong_reward(reward)):
            raise self.failed(f"the reward is {wrong}; return finite numbers.")
        try:
            self.reader.read(self.seen_now[0], action, reward, following, info, agent.c[0], agent.gamma[0])
        except Exception as error:
            raise self.signal_failed(error, info) from error
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
            self._reset(agent)
            return 1
        agent.state[0] = s
        self.seen_now = self.seen_next
        return 0

    def flag(self, value: Any, name: str) -> bool:
        """Whether an episode ended: True, False, 1 or 0, nothing else."""
        flags = truths(value, ())
        if flags is None:
            raise self.failed(f"{name} is {value!r:.40}; return True or False.")
        return bool(flags)


class VectorStepper(_Stepper):
    """A vector environment with one lane per environment, in any autoreset mode."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        super().__init__(spec, reader)
        self.mode = autoreset_mode(spec.env)
        self.resets = np.zeros(spec.lanes, bool)  # lanes that only reset in the next step

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        self.seen_now = self.split(self.began(seed=reset_seed(seed, t)))
        self.see(agent.state, self.seen_now)
        agent.fresh[:] = True
        self.resets[:] = False

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen actions, read the signals and learn; returns how many episodes ended."""
        actions = self.spec.to_env_batch(agent.action)
        try:
            given, rewards, terminated, truncated, info = self.env_step(actions)
        except BaseException as error:
            self.end(error, why_step(error))
        given = self.split(given)
        terminated, truncated = self.flags(terminated, "terminated"), self.flags(truncated, "truncated")
        ended = (terminated | truncated) & ~self.resets
        following = self.finals(given, ended, info) if self.mode == "SAME_STEP" else list(given)
        rewards = self.checked_rewards(rewards)
        for k in np.flatnonzero(~self.resets).tolist():
            try:
                own = _own_info(info, k, bool(ended[k]) and self.mode == "SAME_STEP") if self.reader.reads_info else {}
                before, action, reward = self.seen_now[k], self.spec.to_env(agent.action[k]), as_reward(rewards[k])
                self.reader.read(before, action, reward, following[k], own, agent.c[k], agent.gamma[k])
            except Exception as error:
                raise self.signal_failed(error, info, f"environment {k}: ") from error
        self.see(agent.following, following)
        self.seen_next = following
        agent.alive[:] = ~terminated
        agent.ended[:] = ended
        agent.counts[:] = ~self.resets
        learn(agent)
        if self.mode == "DISABLED" and ended.any():
            given = self.split(self.began(options={"reset_mask": ended}))
        agent.fresh[:] = self.resets if self.mode == "NEXT_STEP" else ended
        self.resets = ended if self.mode == "NEXT_STEP" else self.resets
        self.see(agent.state, given)
        self.seen_now = given
        self.age += 1
        self.episode += int(ended.sum())
        return int(ended.sum())

    def split(self, observations: Any) -> list[Any]:
        """One observation per lane, copied."""
        try:
            out = self.spec.split(observations)
        except BadObservation as error:
            raise self.failed(str(error)) from None
        except Exception as error:
            raise self.failed(f"the observations {observations!r:.60} do not fit their space ({said_by(error)}).") from error
        if len(out) != self.spec.lanes:
            raise self.failed(f"there are {len(out)} observations; return one for each of {self.spec.lanes} environments.")
        return out

    def flags(self, values: Any, name: str) -> np.ndarray:
        """Which episodes ended: bool [lane]."""
        flags = truths(values, (self.spec.lanes,))
        if flags is None:
            raise self.failed(f"{name} is {values!r:.60}; return True or False for each of {self.spec.lanes} environments.")
        return flags

    def finals(self, given: list[Any], ended: np.ndarray, info: Any) -> list[Any]:
        """What followed each action; the last observations of episodes come in info."""
        following = list(given)
        for k in np.flatnonzero(ended).tolist():
            try:
                following[k] = info["final_obs"][k]
            except (TypeError, LookupError):
                what = f"environment {k}: info has no last observation of its episode; return it as info['final_obs'][{k}]."
                raise self.failed(what) from None
        return following

    def checked_rewards(self, rewards: Any) -> np.ndarray:
        """One finite reward, or vector of them, per lane."""
        lanes = self.spec.lanes
        try:
            array = np.asarray(rewards)
        except Exception:  # rows of different lengths, and objects that refuse
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub" or array.shape[:1] != (lanes,) or array.ndim > 2:
            raise self.failed(f"the rewards are {rewards!r:.60}; return an array with one for each of {lanes} environments.")
        wrong = ~np.isfinite(array).reshape(lanes, -1).all(axis=1)
        if wrong.any():
            k = int(wrong.argmax())
            raise self.failed(f"the reward of environment {k} is {array[k]}; return finite numbers.")
        return array

    def see(self, into: np.ndarray, observations: list[Any]) -> None:
        for k, observation in enumerate(observations):
            into[k] = self.seen(observation, f"environment {k}: ")


def _own_info(info: dict[str, Any], k: int, last: bool) -> dict[str, Any]:
    """The info of one environment of a vector environment (from `final_info` for the step that ended its episode)."""
    if last and "final_info" in info:
        info = info["final_info"]
    return {key: values[k] for key, values in info.items() if not key.startswith("_") and info.get(f"_{key}", _ALL)[k]}


class _All:
    def __getitem__(self, k: int) -> bool:
        return True


_ALL = _All()
