"""Worlds with continuous observations whose true values are cheap: each is simulated for many states at once.

A world is a few functions over arrays of states.  `make` gives the Gymnasium environment: for CartPole and Acrobot it is
Gymnasium's own, whose dynamics are written here again for the true values (a test holds them equal).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

import gvfx

Batch = np.ndarray  # [n, ...]
HORIZON = 300  # steps of an episode in worlds of our own


@dataclass(frozen=True)
class BoxWorld:
    """Begin, step and observe, for many states at once."""

    name: str
    numbers: int  # in an observation
    actions: int
    begin: Callable[[np.random.Generator, int], Batch]  # n states
    step: Callable[[Batch, Batch, np.random.Generator], tuple[Batch, Batch]]  # following states, and whether they end
    policies: dict[str, Callable[[np.ndarray], np.ndarray]]  # from observations [..., o] to probabilities [..., action]
    signals: dict[str, Callable[[np.ndarray], np.ndarray]]  # of what follows, from observations [..., o]
    observe: Callable[[Batch], Batch] = lambda states: states
    discount: float = 0.95
    own: str | None = None  # the name of Gymnasium's environment

    def make(self) -> gymnasium.Env[Any, Any]:
        """The environment."""
        return BoxEnv(self) if self.own is None else gymnasium.make(self.own)

    def questions(self) -> list[gvfx.GVF]:
        """Every policy with every signal."""
        return [
            gvfx.GVF(_policy(policy), _signal(signal), self.discount, name=f"{who}: {what}")
            for who, policy in self.policies.items()
            for what, signal in self.signals.items()
        ]


def _policy(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], list[float]]:
    return lambda o: function(np.asarray(o)).tolist()


def _signal(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any, Any, Any], float]:
    return lambda o, a, o2: float(function(np.asarray(o2)))


class BoxEnv(gymnasium.Env):
    """One state of a BoxWorld behind Gymnasium's interface; every reward is 0."""

    metadata = {"render_modes": []}

    def __init__(self, world: BoxWorld) -> None:
        self.world = world
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (world.numbers,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(world.actions)
        self.state, self.age = np.zeros(0), 0

    def _seen(self) -> np.ndarray:
        return self.world.observe(self.state[None])[0].astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.age = self.world.begin(self.np_random, 1)[0], 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        after, ended = self.world.step(self.state[None], np.array([action]), self.np_random)
        self.state, self.age = after[0], self.age + 1
        return self._seen(), 0.0, bool(ended[0]), self.age >= HORIZON, {}


@dataclass(frozen=True)
class BoxTruth:
    """True values by Monte Carlo."""

    points: np.ndarray  # [point, o] observations
    values: np.ndarray  # [gvf, point], in the order of `questions`
    standard_errors: np.ndarray  # [gvf, point]
    units: np.ndarray = field(init=False)  # [gvf] standard deviations of the values over the points

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", self.values.std(axis=1))

    def error(self, answers: np.ndarray) -> float:
        """The squared error of answers [gvf, point] over the variance of the true values, averaged over questions."""
        return float((((answers - self.values) / self.units[:, None]) ** 2).mean())


def truth(world: BoxWorld, points: int = 40, episodes: int = 2000, seed: int = 11) -> BoxTruth:
    """True values at states of random walks that have not ended."""
    rng = np.random.default_rng(seed)
    met: list[np.ndarray] = []
    while len(met) < points:
        state = world.begin(rng, 1)
        for _ in range(int(rng.integers(0, 60))):
            after, ended = world.step(state, rng.integers(0, world.actions, 1), rng)
            if ended[0]:
                break
            state = after
        met.append(state[0])
    return truth_at(world, np.stack(met), episodes, rng)


def truth_at(world: BoxWorld, states: Batch, episodes: int, rng: np.random.Generator) -> BoxTruth:
    """True values at states [point, ...]."""
    values, errors = [], []
    for policy in world.policies.values():
        returns = _returns(world, np.repeat(states, episodes, axis=0), policy, rng)
        returns = returns.reshape(len(world.signals), len(states), episodes)
        values.append(returns.mean(axis=2))
        errors.append(returns.std(axis=2) / episodes**0.5)
    return BoxTruth(world.observe(states).astype(np.float32), np.concatenate(values), np.concatenate(errors))


def _returns(world: BoxWorld, states: Batch, policy: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Discounted sums of all signals [signal, n] from states [n, ...], one episode each, until what follows hardly counts."""
    out, going, weight = np.zeros((len(world.signals), len(states))), np.arange(len(states)), 1.0
    while len(going) and weight > 1e-4:
        chances = policy(world.observe(states).astype(np.float32)).cumsum(axis=1)
        action = (rng.random((len(states), 1)) > chances[:, :-1]).sum(axis=1)
        states, ended = world.step(states, action, rng)
        seen = world.observe(states).astype(np.float32)
        for k, signal in enumerate(world.signals.values()):
            out[k, going] += weight * signal(seen)
        states, going, weight = states[~ended], going[~ended], weight * world.discount
    return out


def chances(prefers: np.ndarray, share: float, actions: int) -> np.ndarray:
    """Probabilities [..., action]: `share` of the preferred action [...], the rest evenly on the others."""
    out = np.full((*np.shape(prefers), actions), (1 - share) / (actions - 1))
    np.put_along_axis(out, np.asarray(prefers)[..., None].astype(int), share, axis=-1)
    return out


def evenly(actions: int) -> Callable[[np.ndarray], np.ndarray]:
    """The uniform policy."""
    return lambda o: np.full((*o.shape[:-1], actions), 1 / actions)
