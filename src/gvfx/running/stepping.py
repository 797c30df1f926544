"""Stepping environments of Gymnasium, plain and vector: resets, signals, endings, time limits of a step, and failures that say
where they happened.
"""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Any, NoReturn, TypeVar

import numpy as np

from gvfx.errors import EnvironmentFailed, GvfxError, InputError, TookTooLong, error_text, printable
from gvfx.inputs import is_real
from gvfx.questions.reader import Reader
from gvfx.questions.signals import SignalFailed, as_reward
from gvfx.running.endings import Watch
from gvfx.worlds.returns import Autoreset, copied, other_final, truths, why_reset, why_step, wrong_reward
from gvfx.worlds.spaces import count_of
from gvfx.worlds.spec import BadObservation, BoxActionSpec, spaces_of

# --- A limit on the seconds that one reset or step of an environment may take (`evaluate(..., step_limit=)`) --------
# On the main thread of Linux and macOS a timer interrupts the step, unless it hangs in compiled code that never returns to
# Python.
# Where it cannot be interrupted, a warning says which call does not return.


Called = TypeVar("Called", bound=Callable[..., Any])
LONGEST = 1e6  # seconds


class StepLimit:
    """`with StepLimit(seconds):` every function made by `limited` in the block is interrupted after that time; None: never."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (is_real(seconds) and 0 < seconds <= LONGEST):
            raise InputError(f"step_limit: {seconds!r:.40} is not a time; give the seconds of one step, above 0.")
        self.seconds = seconds
        self.begun = 0.0  # when the call under way began; 0: none is
        self.interrupts = False
        self.over = threading.Event()

    def __enter__(self) -> StepLimit:
        self._token = _LIMIT.set(None if self.seconds is None else self)
        if self.seconds is not None:
            main = threading.current_thread() is threading.main_thread()
            self.interrupts = main and hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
            if self.interrupts:
                signal.signal(signal.SIGALRM, self._interrupt)
            threading.Thread(target=self._watch, args=(self.seconds,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        _LIMIT.reset(self._token)
        if self.interrupts:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def around(self, function: Called) -> Called:
        """The function with the limit."""
        seconds = self.seconds or 0.0

        def call(*arguments: Any, **options: Any) -> Any:
            self.begun = time.monotonic()
            if self.interrupts:
                signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
            try:
                return function(*arguments, **options)
            finally:
                if self.interrupts:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                self.begun = 0.0

        return call  # type: ignore[return-value]

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        if self.begun:
            raise TookTooLong(f"took more than {self.seconds:g} s, the step_limit")

    def _watch(self, seconds: float) -> None:
        """Warn once about a call that does not return, nor can be interrupted."""
        patience = 2 * seconds if self.interrupts else seconds
        while not self.over.wait(seconds / 4):
            begun = self.begun
            if begun and time.monotonic() - begun > patience:
                warnings.warn(
                    f"step_limit: the environment has not returned for {time.monotonic() - begun:.3g} s and cannot be "
                    "interrupted; end the process, and start it again with the same checkpoint= to continue.",
                    stacklevel=1,
                )
                return


_LIMIT: ContextVar[StepLimit | None] = ContextVar("step limit", default=None)


def limited(function: Called) -> Called:
    """A reset or step with the limit of this run; the function itself if there is none."""
    limit = _LIMIT.get()
    return function if limit is None else limit.around(function)


# --- Stepping an environment from Python: resets, signals, endings, and failures that name where they happened ------
# Steppers write each transition into an agent: an object with arrays state, action, following, alive, ended, counts, fresh,
# c and gamma, whose first axis [lane] runs over the environments that are stepped together.  The environment's spec
# (`gvfx.worlds.spec`) determines what `state` holds: a number for tables, a vector for networks.


NEW_EPISODE = "the environment itself is not stored, so it begins a new episode."


def stepper(spec: Any, reader: Reader) -> SingleStepper | VectorStepper:
    """The stepper of an environment, plain or vector."""
    return SingleStepper(spec, reader) if spec.single else VectorStepper(spec, reader)


def reset_seed(seed: int, t: int) -> int:
    """The seed of the first reset; a run that continues at step t gets a different one."""
    return seed if t == 0 else int(np.random.SeedSequence([seed, t]).generate_state(1)[0] >> 1)


class Lanes:
    """The arrays that steppers write; [lane] is one of the environments stepped together."""

    def __init__(self, state: np.ndarray, action: np.ndarray, c: np.ndarray, gamma: np.ndarray) -> None:
        """state [lane, ...]: observations; action [lane, ...], cumulants c and discounts gamma [lane, gvf]."""
        lanes = len(state)
        self.state, self.following = state, np.zeros_like(state)
        self.action, self.c, self.gamma = action, c, gamma
        self.alive = np.ones(lanes)  # 0 where the episode terminated
        self.ended = np.zeros(lanes, bool)  # terminated or truncated
        self.fresh = np.zeros(lanes, bool)  # an episode begins here
        self.counts = np.ones(lanes, bool)  # False: this was a reset, not a transition
        self.number = np.zeros(lanes, np.int64)  # of the episode
        self.t = np.zeros(1, np.int64)  # transitions so far


class _Stepper:
    """What both steppers share: calls of the environment, whose failures name the episode and the step."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        self.spec, self.reader = spec, reader
        self.env_step, self.env_reset = limited(spec.env.step), limited(spec.env.reset)
        self.episode = self.age = 0
        self.seen_now: list[Any] = []  # the current observations, one per lane, as the environment returned them
        self.seen_next: list[Any] = []  # the observations after the last step, before any reset
        self.watch: Watch | None = Watch(spec.lanes, count_of(spaces_of(spec.env)[0]) != 1, reader.reads_next)
        self.recording = True  # whether every transition is watched, and not only those that end episodes

    def watch_starts(self, agent: Any, **how: bool) -> None:
        """Watch the episodes that begin now."""
        if self.watch is not None:
            for k in np.flatnonzero(agent.fresh).tolist():
                self.watch.began(k, agent.state[k], **how)

    def watched(self, agent: Any, lane: int, after: Any, age: int, end: str) -> None:
        """Watch a transition, and say what the first episodes show; later ones are not watched."""
        if self.watch is None:
            return
        if self.watch.moved(lane, agent.state[lane], agent.action[lane], after, age, end):
            for sign in self.watch.signs():
                warnings.warn(printable(f"world: {sign}"), stacklevel=2)
        self.watch = None if self.watch.over else self.watch
        self.recording = self.watch is not None and self.watch.recording

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
            raise self.failed(f"{where}the observation {observation!r:.60} cannot be read ({error_text(error)}).") from error

    def failed(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(self.spec.name, self.episode, self.age, what)

    def signal_failed(self, error: Exception, info: Any, where: str = "") -> EnvironmentFailed:
        """The failure of a question's cumulant or discount."""
        if not isinstance(info, Mapping):
            return self.failed(f"{where}info is {info!r:.40}; return a dict.")
        return self.failed(f"{where}{error if isinstance(error, SignalFailed) else f'a signal raised {error_text(error)}'}")


class SingleStepper(_Stepper):
    """One environment in lane 0, reset here when an episode ends."""

    def __init__(self, spec: Any, reader: Reader) -> None:
        super().__init__(spec, reader)
        self.first_action = None if isinstance(spec, BoxActionSpec) or spec.listed else spec.first_action
        self.copies = reader.reads_observations  # which an environment may overwrite in its next step
        self.options: Callable[[], dict[str, int]] = dict  # gives those of every reset

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        self._reset(agent, **{"seed": reset_seed(seed, t), **self.options()})

    def _reset(self, agent: Any, **options: Any) -> None:
        self.age, before = 0, "" if self.watch is None else self.chance()
        observation = self.began(**options)
        if self.watch is not None and "seed" not in options:
            self.watch.reset(before, self.chance())
        agent.state[0] = self.seen(observation)
        agent.fresh[0] = True
        self.watch_starts(agent, seeded="seed" in options)
        self.seen_now = [copied(observation) if self.copies else observation]

    def chance(self) -> str:
        """The state of the environment's generator; empty if it has none, as one that is not of Gymnasium."""
        generator = getattr(getattr(self.spec.env, "unwrapped", None), "_np_random", None)
        return str(generator.bit_generator.state["state"]) if isinstance(generator, np.random.Generator) else ""

    def reset(self, agent: Any, seed: int | None = None) -> None:
        """Begin a new episode now, with the environment's chance from a seed if it is given."""
        self.watch, self.recording = None, False  # of what the environment itself does
        self._reset(agent, **({} if seed is None else {"seed": seed}))

    def cut(self, agent: Any) -> None:
        """End the episode here and begin the next."""
        self.episode += 1
        self._reset(agent, **self.options())

    def observe_resets(self, n: int, seed: int | None = None) -> list[Any]:
        """The first observations of n episodes that are not continued; the caller resets afterwards.  seed: of the first."""
        out = []
        for k in range(n):
            observation = self.began(**({} if k or seed is None else {"seed": seed}))
            self.seen(observation)
            out.append(copied(observation))
        return out

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen action, read the signals and learn; returns how many episodes ended."""
        chosen = agent.action[0]
        action = self.spec.to_env(chosen) if self.first_action is None else int(chosen) + self.first_action
        try:
            following, reward, terminated, truncated, info = self.env_step(action if action.__class__ is int else copied(action))
        except BaseException as error:
            self.end(error, why_step(error))
        s = self.seen(following)
        if self.copies and following.__class__ is not int:
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
        if ended or self.recording:
            self.note(agent, s, "terminated" if terminated else "truncated" if truncated else "", info)
        agent.following[0] = s
        agent.alive[0] = 0.0 if terminated else 1.0
        agent.ended[0] = ended
        learn(agent)
        self.age += 1
        if ended:
            self.episode += 1
            self._reset(agent, **self.options())
            return 1
        agent.state[0] = s
        self.seen_now = self.seen_next
        return 0

    def note(self, agent: Any, s: Any, end: str, info: Any) -> None:
        """Watch a transition to what a learner sees as s."""
        if end and (info.__class__ is not dict or info) and (key := other_final(info, None, self.seen_next[0])):
            what = f"info[{key!r}] is not the observation that came with the end, so that the environment resets itself in step"
            raise self.failed(f"{what}; return the last observation, and begin the next episode in reset.")
        self.watched(agent, 0, s, self.age, end)

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
        self.autoreset = Autoreset(spec.env)
        self.ages = np.zeros(spec.lanes, int)
        self.resets = np.zeros(spec.lanes, bool)  # lanes that only reset in the next step

    def begin(self, agent: Any, seed: int, t: int = 0) -> None:
        """The first reset, at step t of the run."""
        self.seen_now = self.split(self.began(seed=reset_seed(seed, t)))
        self.see(agent.state, self.seen_now)
        agent.fresh[:] = True
        self.resets[:] = False
        self.ages[:] = 0
        self.watch_starts(agent, seeded=True)

    def step(self, agent: Any, learn: Callable[[Any], None]) -> int:
        """Take the chosen actions, read the signals and learn; returns how many episodes ended."""
        actions = self.spec.to_env_batch(agent.action)
        try:
            given, rewards, terminated, truncated, info = self.env_step(actions)
        except BaseException as error:
            self.end(error, why_step(error))
        given = self.split(given)
        terminated, truncated = self.flags(terminated, "terminated"), self.flags(truncated, "truncated")
        ended, rewards = (terminated | truncated) & ~self.resets, self.checked_rewards(rewards)
        if ended.any() or self.resets.any():
            self.confirm(ended, given, terminated | truncated, rewards, info)
        following = self.finals(given, ended, info) if self.mode == "SAME_STEP" else list(given)
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
        if self.recording or (self.watch is not None and ended.any()):
            self.note(agent, ended)
        learn(agent)
        if self.mode == "DISABLED" and ended.any():
            given = self.reset_some(ended, given)
        agent.fresh[:] = self.resets if self.mode == "NEXT_STEP" else ended
        self.resets = ended if self.mode == "NEXT_STEP" else self.resets
        self.see(agent.state, given)
        self.watch_starts(agent, certain=self.mode != "NEXT_STEP")
        self.ages = np.where(agent.fresh, 0, self.ages + 1)
        self.seen_now = given
        self.age += 1
        self.episode += int(ended.sum())
        return int(ended.sum())

    @property
    def mode(self) -> str | None:
        """When episodes begin; None before the first ending of an environment that does not say it."""
        return self.autoreset.mode

    def confirm(self, ended: np.ndarray, given: list[Any], over: np.ndarray, rewards: np.ndarray, info: Any) -> None:
        """Compare ends of episodes, and steps that only reset, with the mode; over [lane]: terminated or truncated."""
        try:
            self.autoreset.reset_step(np.flatnonzero(self.resets).tolist(), rewards, over)
            self.autoreset.ended(np.flatnonzero(ended).tolist(), given, info)
        except InputError as error:
            raise self.failed(str(error)) from None
        if self.autoreset.notice:
            warnings.warn(printable(f"world: {self.autoreset.notice}"), stacklevel=2)
            self.autoreset.notice = ""

    def reset_some(self, ended: np.ndarray, given: list[Any]) -> list[Any]:
        """Reset the lanes whose episodes ended; the observations of all lanes."""
        out = self.split(self.began(options={"reset_mask": ended}))
        try:
            self.autoreset.masked(np.flatnonzero(~ended).tolist(), given, out)
        except InputError as error:
            raise self.failed(str(error)) from None
        return out

    def note(self, agent: Any, ended: np.ndarray) -> None:
        """Watch the transitions, which are written in the agent."""
        for k in np.flatnonzero(agent.counts & (ended | self.recording)).tolist():
            end = "" if not ended[k] else "truncated" if agent.alive[k] else "terminated"
            self.watched(agent, k, agent.following[k], int(self.ages[k]), end)

    def split(self, observations: Any) -> list[Any]:
        """One observation per lane, copied."""
        try:
            out = self.spec.split(observations)
        except BadObservation as error:
            raise self.failed(str(error)) from None
        except Exception as error:
            raise self.failed(f"the observations {observations!r:.60} do not fit their space ({error_text(error)}).") from error
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


def _own_info(info: Mapping[str, Any], k: int, last: bool) -> dict[str, Any]:
    """The info of one environment of a vector environment (from `final_info` for the step that ended its episode)."""
    if last and "final_info" in info:
        info = info["final_info"]
    return {
        key: _own_info(values, k, False) if isinstance(values, Mapping) else values[k]  # of RecordEpisodeStatistics
        for key, values in info.items()
        if not key.startswith("_") and info.get(f"_{key}", _ALL)[k]
    }


class _All:
    def __getitem__(self, k: int) -> bool:
        return True


_ALL = _All()
