"""Environments that misbehave: a walk of few states in several forms, with a fault at one of its calls."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

N = 5  # states


class Stop(BaseException):
    """What no `except Exception` catches."""


class Unprintable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("not printable")


def deeper() -> Any:
    return deeper()


class Walk(gymnasium.Env[Any, Any]):
    """A walk over N states that ends at the last one.

    form:   of observations and actions: "tables", "numbered", "linear" or "box".
    change: is called with (environment, the five values) at step `at` and returns what the step returns then.
    """

    def __init__(self, form: str, change: Callable[[Walk, list[Any]], Any] | None = None, at: int = 0, reset: Any = None) -> None:
        spaces: dict[str, Any] = {"tables": Discrete(N), "vector": Discrete(N), "numbered": MultiDiscrete([N, 2])}
        self.observation_space: Any = spaces.get(form, Box(0, N, (1,), np.float32))
        self.action_space: Any = Box(-1, 1, (1,), np.float32) if form == "box" else Discrete(2)
        self.form, self.change, self.at, self.on_reset = form, change, at, reset
        self.calls = self.resets = 0
        self.buffer = np.zeros(1, np.float32)

    def observed(self) -> Any:
        if self.form == "tables":
            return self.place
        return np.array([self.place, 0]) if self.form == "numbered" else np.array([self.place], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.age = 0, 0
        self.resets += 1
        if self.on_reset is not None and self.resets > self.at:
            return self.on_reset(self, [self.observed(), {}])
        return self.observed(), {"signal": 1.0}

    def step(self, action: Any) -> Any:
        forward = float(np.ravel(action)[0]) > 0
        self.place = min(N - 1, self.place + 1) if forward else max(0, self.place - 1)
        self.age += 1
        ended = self.place == N - 1
        values = [self.observed(), float(forward), ended, self.age >= 30, {"signal": 1.0}]
        self.calls += 1
        if self.change is not None and self.calls > self.at:
            return self.change(self, values)
        return tuple(values)


def put(k: int, value: Any) -> Callable[[Walk, list[Any]], Any]:
    """A fault that returns another value in place k."""

    def change(env: Walk, values: list[Any]) -> Any:
        values[k] = value() if callable(value) and not isinstance(value, type) else value
        return tuple(values)

    return change


def doing(action: Callable[[], Any]) -> Callable[[Walk, list[Any]], Any]:
    """A fault that does something and then returns the values."""

    def change(env: Walk, values: list[Any]) -> Any:
        action()
        return tuple(values)

    return change


def raising(error: type[BaseException], *said: Any) -> Callable[[Walk, list[Any]], Any]:
    def change(env: Walk, values: list[Any]) -> Any:
        raise error(*said)

    return change


def _fork() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def _same_array(env: Walk, values: list[Any]) -> Any:
    env.buffer[:] = env.place
    values[0] = env.buffer
    return tuple(values)


def _thread() -> None:
    threading.Thread(target=time.sleep, args=(0.001,)).start()


def _new_spaces(env: Walk, values: list[Any]) -> Any:
    env.observation_space, env.action_space = Discrete(99), Discrete(7)
    return tuple(values)


NAN, INF = float("nan"), float("inf")
OBSERVATIONS = [None, "text", NAN, [1, 2, 3], {}, {"a": 1}, object(), -1, 99, 10**400, 1.5, np.full((2, 2), 1.0)]
OBSERVATIONS += [np.array(["a"]), np.array([None], object), np.array([NAN]), np.array([INF]), np.array([1j]), np.array([1e308])]
REWARDS = [None, "1", "", b"1", NAN, INF, -INF, 10**400, [1.0, "x"], {}, object(), 1j, np.array(["x"]), np.ones((2, 2)), [NAN]]
FLAGS = [None, "no", "False", "", b"", NAN, INF, 2, -1, 0.5, [], [True], [True, False], {}, object(), 1j, np.array([True, False])]
FLAGS += [np.array("True"), np.array([], bool), np.array(None, object)]
INFOS = [None, [], "info", 5, {}, {"signal": None}, {"signal": NAN}, {"signal": "x"}, {"signal": [1, 2]}]
ANSWERS = [None, (), (0, 0.0, False, {}), (0, 0.0, False, False, {}, 1), "abcde", 5, {}, object()]
ERRORS: list[tuple[type[BaseException], tuple[Any, ...]]] = [
    (RuntimeError, ("broken",)),
    (KeyError, ("missing",)),
    (AssertionError, ()),
    (MemoryError, ()),
    (RecursionError, ("too deep",)),
    (StopIteration, ()),
    (OSError, (28, "No space left on device")),
    (ValueError, ("two\nlines " + "long " * 500,)),
    (UserWarning, ("a warning",)),
    (Unprintable, ()),
]
ENDS: list[tuple[type[BaseException], tuple[Any, ...]]] = [(KeyboardInterrupt, ()), (SystemExit, (3,)), (Stop, ())]


@cache
def faults() -> dict[str, tuple[str, Any]]:
    """name -> (the word that the message must have, or "fine", "ends", "crash" or "hangs"; the change)."""
    out: dict[str, tuple[str, Any]] = {}
    for k, word, values in (
        (0, "observation", OBSERVATIONS),
        (1, "reward", REWARDS),
        (2, "terminated", FLAGS),
        (3, "truncated", FLAGS),
        (4, "info", INFOS),
    ):
        for value in values:
            out[f"{word} {value!r:.30}"] = word, put(k, value)
    for flag in (np.bool_(False), 0, np.array(False), np.array(0)):
        out[f"fine terminated {flag!r}"] = "fine", put(3, flag)
    for answer in ANSWERS:
        out[f"step returns {answer!r:.30}"] = "step|observation", lambda env, values, answer=answer: answer
    for error, said in ERRORS:
        out[f"step raises {error.__name__}"] = "step", raising(error, *said)
    out["step recurses without an end"] = "step", doing(deeper)
    for error, said in ENDS:
        out[f"step raises {error.__name__}"] = "ends", raising(error, *said)
    out |= {
        "a list of five": ("fine", lambda env, values: values),
        "prints": ("fine", doing(lambda: print("hello"))),
        "starts threads": ("fine", doing(_thread)),
        "forks": ("fine", doing(_fork)),
        "changes spaces": ("fine", _new_spaces),
        "changes the seed of NumPy": ("fine", doing(lambda: np.random.seed(0))),  # noqa: NPY002
        "hangs": ("hangs", doing(lambda: time.sleep(60))),
        "hangs and catches errors": ("hangs", doing(_stubborn)),
        "os._exit": ("crash", doing(lambda: os._exit(9))),
        "abort": ("crash", doing(os.abort)),
        "segmentation fault": ("crash", doing(lambda: os.kill(os.getpid(), signal.SIGSEGV))),
    }
    return out


def _stubborn() -> None:
    for _ in range(600):
        try:
            time.sleep(0.1)
        except Exception:
            sys.stdout.write("")


@cache
def reset_faults() -> dict[str, tuple[str, Any]]:
    out: dict[str, tuple[str, Any]] = {}
    for answer in (None, 0, (0,), (0, {}, 1), "ab", object()):
        out[f"reset returns {answer!r:.30}"] = "reset|observation", lambda env, values, answer=answer: answer
    for value in OBSERVATIONS:
        out[f"reset observes {value!r:.30}"] = "observation", put(0, value)
    for error, said in ERRORS:
        out[f"reset raises {error.__name__}"] = "reset", raising(error, *said)
    for error, said in ENDS:
        out[f"reset raises {error.__name__}"] = "ends", raising(error, *said)
    out["reset hangs"] = "hangs", doing(lambda: time.sleep(60))
    return out
