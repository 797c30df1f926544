"""Policies, signals and discounts that reuse or change arrays, are random, remember or change: for chains of `faults.lying`.

Every function stands for an honest one: action 1 with probability `RIGHT[s]`, the signal s' + a / 2, the discount `GAMMA`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

import gvfx
from faults.lying import GAMMA

RIGHT = np.array([0.5, 0.5, 0.8, 0.8, 0.2])  # the probability of action 1, by state
OTHER = np.array([0.9, 0.1, 0.2, 0.3, 0.9])  # of a policy that has changed
SIGMA = 0.5  # of Box actions
HONEST = 0.2  # the share of the honest policy in a mixture
STEEP = 0.8  # the discount after a change is this times the first one


class Time:
    """What an environment and a function share: whether the environment has made so many steps."""

    def __init__(self, late: int) -> None:
        self.late, self.steps = late, 0


def place(observation: Any) -> int:
    return int(np.ravel(observation)[0])


def places(observations: Any) -> np.ndarray:
    return np.asarray(observations)[..., 0].astype(int)


def rows(right: np.ndarray) -> np.ndarray:
    """Probabilities [..., action]."""
    return np.stack([1 - right, right], axis=-1)


def honest(form: str, right: np.ndarray = RIGHT) -> Any:
    """The policy that is meant."""
    if form == "box":
        return gvfx.gaussian_policy(lambda o: middles(right[places(o)]), SIGMA)
    return lambda o: rows(right[place(o)])


def middles(right: np.ndarray) -> np.ndarray:
    """Middle actions [..., 1] with which actions are above 0 with these probabilities."""
    return SIGMA * ndtri(right)[..., None]


# --- arrays that are reused or changed ------------------------------------------------------------------------------------


def reused(form: str, batch: bool, kind: str) -> Any:
    """A policy that answers with one array again and again.  kind: "array", "part" (of a larger one) or "0-d"."""
    if kind == "0-d":
        action = np.array(0)

        def choose(o: Any) -> np.ndarray:
            action[...] = RIGHT[place(o)] > 0.5
            return action

        return gvfx.deterministic_policy(choose)
    held: dict[int, np.ndarray] = {}

    def policy(o: Any) -> np.ndarray:
        s = places(o) if batch else np.array(place(o))
        answer = middles(RIGHT[s]) if form == "box" else rows(RIGHT[s])
        out = held.setdefault(s.size, np.zeros((3, *answer.shape)))
        out = out[1] if kind == "part" else out.reshape(-1)[: answer.size].reshape(answer.shape)
        out[...] = answer
        return out

    return gvfx.gaussian_policy(policy, SIGMA, batch) if form == "box" else gvfx.callable_policy(policy, batch)


def in_place(form: str, batch: bool, kind: str) -> Any:
    """A policy that normalises what it is given, in place, or writes zeros into it after reading it ("spoils")."""

    def policy(o: Any) -> np.ndarray:
        s = places(o) if batch else np.array(place(o))
        if isinstance(o, np.ndarray) and kind == "spoils":
            o[...] = 0
        elif isinstance(o, np.ndarray):
            o -= 2
            s = places(o) + 2 if batch else np.array(place(o) + 2)
        return middles(RIGHT[s]) if form == "box" else rows(RIGHT[s])

    return gvfx.gaussian_policy(policy, SIGMA, batch) if form == "box" else gvfx.callable_policy(policy, batch)


# --- chance and memories ----------------------------------------------------------------------------------------------------


class Mood:
    """A function that answers for `OTHER` instead of `RIGHT` at some of its calls, or for what it remembers.

    kind: "sampled" (a drawn action), "noise", "rare" (1 call in 50), "last" (as at the observation before), "turns" (every second
          call), "seventh" (every seventh), "drifts" (with its calls), "later" (after so many calls), "trained" (with the
          environment's steps).
    """

    def __init__(self, form: str, kind: str, late: int, time: Time, seed: int, batch: bool) -> None:
        self.form, self.kind, self.late, self.time, self.batch = form, kind, late, time, batch
        self.rng, self.calls, self.last = np.random.default_rng(seed), 0, 0

    def __call__(self, o: Any) -> np.ndarray:
        s: Any = places(o) if self.batch else place(o)
        self.calls += 1
        right = self.right(s)
        self.last = int(np.ravel(s)[-1])
        return middles(right) if self.form == "box" else rows(right)

    def right(self, s: Any) -> np.ndarray:
        kind, right = self.kind, RIGHT[s]
        if kind == "sampled":
            return np.clip(self.rng.random(np.shape(s)) < right, 0.01, 0.99) if self.form == "box" else self._drawn(right)
        if kind == "noise":
            return np.clip(right + self.rng.uniform(-0.15, 0.15, np.shape(s)), 0.01, 0.99)
        if kind == "drifts":
            return right + (OTHER[s] - right) * min(1.0, self.calls / self.late)
        if kind == "last":
            return RIGHT[np.full_like(s, self.last)]
        return OTHER[s] if self.is_other() else np.asarray(right)

    def _drawn(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self.rng.random(np.shape(right)) < right, float)

    def is_other(self) -> bool:
        if self.kind == "rare":
            return bool(self.rng.random() < 0.02)
        if self.kind == "trained":
            return self.time.steps >= self.time.late
        return {"turns": self.calls % 2 == 0, "seventh": self.calls % 7 == 0, "later": self.calls > self.late}[self.kind]

    def mixed(self) -> list[np.ndarray]:
        """What the probabilities of action 1 [state] may be taken for without being wrong; none for memories."""
        share = {"sampled": 0.0, "noise": 0.0, "rare": 0.02, "seventh": 1 / 7}
        if self.kind in share:
            return [RIGHT + share[self.kind] * (OTHER - RIGHT)]
        return [RIGHT, OTHER] if self.kind in ("later", "trained", "drifts") else []


class Model:
    """Like a trained model of a library: `predict` draws an action."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def predict(self, o: Any) -> tuple[int, None]:
        return int(self.rng.random() < RIGHT[place(o)]), None


def moody(form: str, mood: Mood, way: str) -> Any:
    """The policy of a mood.  way: "function", "softmax", "mixture" or "predict" (which draws an action)."""
    if form == "box":
        return gvfx.gaussian_policy(mood, SIGMA)
    if way == "predict":
        model = Model(7)
        return gvfx.deterministic_policy(lambda o: model.predict(o)[0])
    if way == "softmax":
        return gvfx.softmax_policy(lambda o: np.log(np.clip(mood(o), 1e-9, 1)))
    return gvfx.mixture_policy([mood, honest(form)], [1 - HONEST, HONEST]) if way == "mixture" else mood


# --- signals and discounts ----------------------------------------------------------------------------------------------------


def signal_of(kind: str, seed: int = 0) -> Any:
    """The signal s' + a / 2 by a function of a kind: one that writes into what it is given, or answers with one array."""
    rng, out, two = np.random.default_rng(seed), np.zeros(()), np.zeros(2)

    def signal(o: Any, a: Any, r: Any, o2: Any, info: Any) -> Any:
        c = place(o2) + float(np.ravel(a)[0] > 0) / 2
        spoil(kind, {"observation": o, "action": a, "next": o2}, info)
        if kind == "0-d":
            out[...] = c
            return out
        if kind == "vector":
            two[...] = c
            return two
        return c + rng.uniform(-1, 1) if kind == "noise" else c

    return gvfx.Measure(signal, size=2) if kind == "vector" else signal


def spoil(kind: str, given: dict[str, Any], info: Any) -> None:
    """Write into one of the arguments of a signal."""
    if isinstance(given.get(kind), np.ndarray):
        given[kind][...] = 0
    if kind == "info":
        info.clear()
    if kind == "in info" and isinstance(info.get("signal"), np.ndarray):
        info["signal"][...] = 0


def discount_of(kind: str, late: int, seed: int) -> Callable[[Any, Any, Any], Any]:
    """The discount by a function of a kind, as of a signal; also random, with a memory, or another one later."""
    rng, out, calls = np.random.default_rng(seed), np.zeros(()), [0]

    def discount(o: Any, a: Any, o2: Any) -> Any:
        calls[0] += 1
        spoil(kind, {"observation": o, "action": a, "next": o2}, {})
        if kind == "0-d":
            out[...] = GAMMA
            return out
        if kind == "noise":
            return GAMMA + rng.uniform(-0.2, 0.2)
        if kind == "sampled":
            return float(rng.random() < GAMMA)
        if kind == "turns":
            return GAMMA + (0.2 if calls[0] % 2 else -0.2)
        return GAMMA * STEEP if kind == "later" and calls[0] > late else GAMMA

    return discount
