"""Gymnasium environments: sound ones, broken ones, and a log of FrozenLake."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import gvfx


class Clock(gym.Env):
    """Four ticks, each pays 1; an observation of any kind tells the time; ends by termination or truncation.

    Its actions are the matter of those who use it, and do nothing.
    """

    def __init__(self, terminates=True, kind="box"):
        self.terminates, self.kind = terminates, kind
        place = gym.spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = place if kind == "box" else gym.spaces.Dict({"a": place, "b": gym.spaces.Discrete(4)})

    def look(self):
        place = np.array([self.t / 4], np.float32)
        return place if self.kind == "box" else {"a": place, "b": min(self.t, 3)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        self.t += 1
        done = self.t == 4
        return self.look(), 1.0, done and self.terminates, done and not self.terminates, {"t": self.t}


def broken(kind, after, change):
    """An environment of a kind; what its steps return is changed after so many of them."""

    class Broken(kind):
        count = 0

        def step(self, action):
            self.count += 1
            return change(*super().step(action)) if self.count > after else super().step(action)

    return Broken()


def break_down(*values):
    raise RuntimeError("out of oil")


def not_a_number(observation, *rest):
    return np.array([np.nan], np.float32), *rest


BREAKS = [(break_down, "step raised RuntimeError: out of oil"), (not_a_number, "holds nan or infinity")]


class Sound(gym.Env):
    """A walk on a ring of five states that ends at 4; breaking one method breaks one promise."""

    observation_space: gym.Space = gym.spaces.Discrete(5)
    action_space: gym.Space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return self.show(), {}

    def step(self, action):
        self.s = (self.s + action + int(self.np_random.random() < 0.3)) % 5
        return self.show(), float(self.s == 3), self.s == 4, False, {"force": np.array([1.0, self.s])}

    def show(self):
        return self.s


class Vectors(Sound):
    observation_space = gym.spaces.Box(0, 5, (2,), np.float32)

    def show(self):
        return np.array([self.s, 1 - self.s % 2], np.float32)


def changed(base=Sound, **members):
    """An environment class with some members replaced."""
    return type("Broken", (base,), members)


def stepped(change):
    """`Sound` whose step's five values are passed through a function."""
    return changed(step=lambda self, action: change(self, *Sound.step(self, action)))


class Veiled(gym.Wrapper):
    """The same environment, its transition table out of reach."""


def lake_log():
    """A log in which every outcome of FrozenLake's table appears as often as it is likely: answers are exact."""
    env = gym.make("FrozenLake-v1")
    world, P = gvfx.from_gymnasium(env), env.unwrapped.P
    outcomes = [(s, a, s2, end, r, 0.25) for s in np.flatnonzero(world.live) for a in range(4) for _, s2, r, end in P[s][a]]
    names = ("observation", "action", "next_observation", "terminated", "reward", "behaviour_prob")
    log = {name: np.array(column) for name, column in zip(names, zip(*outcomes, strict=True), strict=True)}
    return world, {**log, "force": np.stack([log["reward"], log["observation"]], axis=1)}


HALF = [0.5, 0.5]


class Walk(gym.Env):
    """A point on a line that goes left or right, with noise; ends at the right, is cut after twelve steps."""

    observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
    action_space = gym.spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return self.look(), {}

    def look(self):
        return np.array([self.x, self.t / 12], np.float32)

    def step(self, action):
        assert action in (3, 4)
        self.x += 0.3 * (2 * action - 7) + 0.1 * self.np_random.normal()
        self.t += 1
        return self.look(), 1.0 + self.x, self.x > 1, self.t >= 12, {"x": self.x}


def leaning(observation):
    """A function of one observation."""
    return [0.8, 0.2] if observation[0] > 0 else [0.3, 0.7]


WALK_QUESTIONS = [
    gvfx.GVF(HALF, gvfx.Reward(), 0.9, name="reward"),
    gvfx.GVF(leaning, gvfx.Info("x"), lambda o, a, o2: 0.5 if o2[0] > 0.5 else 0.8, name="place"),
    gvfx.GVF(leaning, 2.0, 0.7, weight=3.0, name="two"),
]


class Pair(Sound):
    """A walk whose reward is a vector, as in MO-Gymnasium, and whose observation is a place and whether the last move slipped."""

    observation_space = gym.spaces.Tuple((gym.spaces.Discrete(5, start=1), gym.spaces.MultiBinary(2)))
    reward_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action):
        s, _, ended, cut, info = super().step(action)
        return self.show(), np.array([self.s == 3, -1], np.float32), ended, cut, info

    def show(self):
        return self.s + 1, np.array([self.s % 2, self.s > 2], np.int8)


class PairNamed(Pair):
    reward_names = ("coin", "fuel")


class Panel(gym.Env):
    """A counter from 0 to 5 that two switches move together; its observation holds a text that nobody can read."""

    action_space = gym.spaces.MultiDiscrete([2, 3])
    observation_space = gym.spaces.Dict({"count": gym.spaces.Box(0, 5, (1,), np.int64), "text": gym.spaces.Text(8)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return self.show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        on, speed = int(action[0]), int(action[1])
        self.s = min(5, self.s + on * speed) if self.np_random.random() < 0.8 else 0
        return self.show(), float(self.s), self.s == 5, False, {}

    def show(self):
        return {"count": np.array([self.s]), "text": f"at{self.s}"}


class Odometer(gym.Env):
    """An observation of whole numbers that never comes again."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 10**9, (1,), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = getattr(self, "t", 0)
        return np.array([self.t]), {}

    def step(self, action):
        self.t += 1
        return np.array([self.t]), 1.0, False, self.t % 50 == 0, {}
