"""Worlds with continuous observations whose true values are cheap: each is simulated for many states at once.

A world is a few functions over arrays of states.  `make` gives the Gymnasium environment: for CartPole and Acrobot it is
Gymnasium's own, whose dynamics are written here again for the true values (a test holds them equal).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

import gvfx

Batch = np.ndarray  # [n, ...]
Rng = np.random.Generator
HORIZON = 300  # steps of an episode in worlds of our own


@dataclass(frozen=True, eq=False)
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
        """Every policy with every signal, each a function of its own."""
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

    def error(self, answers: np.ndarray) -> float:
        """The squared error of answers [gvf, point] over the variance of the true values, averaged over questions."""
        return float((((answers - self.values) / self.values.std(axis=1)[:, None]) ** 2).mean())


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
    shape, repeated = (len(world.signals), len(states), episodes), np.repeat(states, episodes, axis=0)
    values = [returns_from(world, repeated, policy, rng)[0].reshape(shape).mean(axis=2) for policy in world.policies.values()]
    return BoxTruth(world.observe(states).astype(np.float32), np.concatenate(values))


def returns_from(
    world: BoxWorld, states: Batch, policy: Callable[[np.ndarray], np.ndarray], rng: Rng, least: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """Discounted sums of all signals [signal, n] from states [n, ...], one episode each, until what follows counts less than
    `least`, and the episodes' steps [n]."""
    out, steps = np.zeros((len(world.signals), len(states))), np.zeros(len(states), np.int64)
    going, weight = np.arange(len(states)), 1.0
    while len(going) and weight > least:
        chances = policy(world.observe(states).astype(np.float32)).cumsum(axis=1)
        action = (rng.random((len(states), 1)) > chances[:, :-1]).sum(axis=1)
        states, ended = world.step(states, action, rng)
        seen = world.observe(states).astype(np.float32)
        for k, signal in enumerate(world.signals.values()):
            out[k, going] += weight * signal(seen)
        steps[going] += 1
        states, going, weight = states[~ended], going[~ended], weight * world.discount
    return out, steps


def chances(prefers: np.ndarray, share: float, actions: int) -> np.ndarray:
    """Probabilities [..., action]: `share` of the preferred action [...], the rest evenly on the others."""
    out = np.full((*np.shape(prefers), actions), (1 - share) / (actions - 1))
    np.put_along_axis(out, np.asarray(prefers)[..., None].astype(int), share, axis=-1)
    return out


def evenly(actions: int) -> Callable[[np.ndarray], np.ndarray]:
    """The uniform policy."""
    return lambda o: np.full((*o.shape[:-1], actions), 1 / actions)


# --- Gymnasium's own -------------------------------------------------------------------------------------------------


def _cartpole(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    force, cos, sin = np.where(action == 1, 10.0, -10.0), np.cos(s[:, 2]), np.sin(s[:, 2])
    shared = (force + 0.05 * s[:, 3] ** 2 * sin) / 1.1
    turn = (9.8 * sin - cos * shared) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    speed = shared - 0.05 * turn * cos / 1.1
    after = s + 0.02 * np.stack([s[:, 1], speed, s[:, 3], turn], axis=1)
    return after, (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > 12 * 2 * np.pi / 360)


CARTPOLE = BoxWorld(
    "CartPole",
    4,
    2,
    begin=lambda rng, n: rng.uniform(-0.05, 0.05, (n, 4)),
    step=_cartpole,
    policies={
        "random": evenly(2),
        "balancing": lambda o: chances(o[..., 2] + o[..., 3] >= 0, 0.9, 2),
        "careless": lambda o: chances(o[..., 2] + 0.5 * o[..., 3] >= 0.05, 0.7, 2),
    },
    signals={"time upright": lambda o: np.ones(o.shape[:-1]), "distance": lambda o: np.abs(o[..., 0])},
    own="CartPole-v1",
)


def _noisy_cartpole(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    after, ended = _cartpole(s[:, :4], action, rng)
    return np.concatenate([after, rng.normal(size=(len(s), 8))], axis=1), ended


NOISY_CARTPOLE = replace(
    CARTPOLE,
    name="CartPole with 8 noise inputs",
    numbers=12,
    begin=lambda rng, n: np.concatenate([rng.uniform(-0.05, 0.05, (n, 4)), rng.normal(size=(n, 8))], axis=1),
    step=_noisy_cartpole,
    own=None,
)


def _acrobot_slopes(s: Batch, torque: Batch) -> Batch:
    """Time derivatives of both angles and speeds."""
    a1, a2, v1, v2 = s.T
    d1 = 0.25 + (1 + 0.25 + np.cos(a2)) + 2
    d2 = 0.25 + 0.5 * np.cos(a2) + 1
    phi2 = 0.5 * 9.8 * np.cos(a1 + a2 - np.pi / 2)
    phi1 = -0.5 * v2**2 * np.sin(a2) - v2 * v1 * np.sin(a2) + 1.5 * 9.8 * np.cos(a1 - np.pi / 2) + phi2
    turn2 = (torque + d2 / d1 * phi1 - 0.5 * v1**2 * np.sin(a2) - phi2) / (0.25 + 1 - d2**2 / d1)
    return np.stack([v1, v2, -(d2 * turn2 + phi1) / d1, turn2], axis=1)


def _acrobot(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    torque, dt = action - 1.0, 0.2
    k1 = _acrobot_slopes(s, torque)
    k2 = _acrobot_slopes(s + dt / 2 * k1, torque)
    k3 = _acrobot_slopes(s + dt / 2 * k2, torque)
    k4 = _acrobot_slopes(s + dt * k3, torque)
    after = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    after[:, :2] = (after[:, :2] + np.pi) % (2 * np.pi) - np.pi
    after[:, 2:] = np.clip(after[:, 2:], [-4 * np.pi, -9 * np.pi], [4 * np.pi, 9 * np.pi])
    return after, -np.cos(after[:, 0]) - np.cos(after[:, 0] + after[:, 1]) > 1.0


ACROBOT = BoxWorld(
    "Acrobot",
    6,
    3,
    begin=lambda rng, n: rng.uniform(-0.1, 0.1, (n, 4)),
    step=_acrobot,
    policies={
        "random": evenly(3),
        "pumping": lambda o: chances(np.where(o[..., 4] > 0, 2, 0), 0.8, 3),
        "idle": lambda o: chances(np.ones(o.shape[:-1]), 0.6, 3),
    },
    signals={"lowness": lambda o: o[..., 0], "speed": lambda o: np.abs(o[..., 4]) / 4},
    observe=lambda s: np.stack([f(s[:, k]) for k in (0, 1) for f in (np.cos, np.sin)] + [s[:, 2], s[:, 3]], axis=1),
    own="Acrobot-v1",
)


# --- our own ---------------------------------------------------------------------------------------------------------


def _puddle(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    moves = 0.05 * np.array([[-1, 0], [1, 0], [0, 1], [0, -1]])
    after = np.clip(s + moves[action] + rng.normal(scale=0.01, size=s.shape), 0, 1)
    return after, after.sum(axis=1) > 1.9


PUDDLE = BoxWorld(
    "puddle",
    2,
    4,
    begin=lambda rng, n: rng.uniform(0, 0.9, (n, 2)),
    step=_puddle,
    policies={
        "random": evenly(4),
        "right": lambda o: chances(np.ones(o.shape[:-1]), 0.7, 4),
        "diagonal": lambda o: chances(np.where(o[..., 0] < o[..., 1], 1, 2), 0.7, 4),
    },
    signals={
        "wet": lambda o: np.maximum(0, 1 - 4 * np.hypot(o[..., 0] - 0.5, o[..., 1] - 0.5)),
        "arrived": lambda o: (o.sum(axis=-1) > 1.9).astype(float),
    },
)


def _pendulum(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    torque = 2.0 * (action - 1.0) + rng.normal(scale=0.5, size=len(s))
    speed = np.clip(s[:, 1] + 0.05 * (15 * np.sin(s[:, 0]) + 3 * torque), -8, 8)
    angle = (s[:, 0] + 0.05 * speed + np.pi) % (2 * np.pi) - np.pi
    return np.stack([angle, speed], axis=1), np.zeros(len(s), bool)


PENDULUM = BoxWorld(
    "pendulum",
    3,
    3,
    begin=lambda rng, n: rng.uniform([-np.pi, -1], [np.pi, 1], (n, 2)),
    step=_pendulum,
    policies={
        "random": evenly(3),
        "pumping": lambda o: chances(np.where(o[..., 2] > 0, 2, 0), 0.8, 3),
        "braking": lambda o: chances(np.where(o[..., 2] > 0, 0, 2), 0.8, 3),
    },
    signals={"height": lambda o: o[..., 0], "speed": lambda o: np.abs(o[..., 2]) / 8},
    observe=lambda s: np.stack([np.cos(s[:, 0]), np.sin(s[:, 0]), s[:, 1]], axis=1),
)


def _tanks(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    rain = np.maximum(0, 0.9 * s[:, 2] + rng.normal(scale=0.05, size=len(s)) + 0.02)
    demand = 0.95 * s[:, 3] + 0.05 * 0.3 + rng.normal(scale=0.02, size=len(s))
    flow = np.minimum(np.array([0.0, 0.1, 0.3])[action], s[:, 0])
    upper = np.clip(s[:, 0] - flow + 0.5 * rain, 0, 1)
    lower = np.clip(s[:, 1] + flow - 0.5 * np.maximum(demand, 0), 0, 1)
    return np.stack([upper, lower, rain, demand], axis=1), np.zeros(len(s), bool)


TANKS = BoxWorld(
    "two tanks",
    4,
    3,
    begin=lambda rng, n: rng.uniform([0.2, 0.2, 0, 0.2], [0.8, 0.8, 0.3, 0.4], (n, 4)),
    step=_tanks,
    policies={
        "random": evenly(3),
        "by level": lambda o: chances(np.where(o[..., 1] < 0.3, 2, np.where(o[..., 1] < 0.6, 1, 0)), 0.9, 3),
        "thrifty": lambda o: chances(np.zeros(o.shape[:-1]), 0.8, 3),
    },
    signals={"shortage": lambda o: np.maximum(0, 0.2 - o[..., 1]) * 5, "overflow": lambda o: (o[..., 0] >= 1).astype(float)},
)


def _lander(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    x, y, vx, vy, tilt, spin = s.T
    thrust, turn = np.array([0, 0.16, 0, 0])[action], np.array([0, 0, 0.05, -0.05])[action]
    vx = vx + 0.1 * (thrust * 10 * -np.sin(tilt)) / 10 + rng.normal(scale=0.01, size=len(s))
    vy = vy + 0.1 * (thrust * 10 * np.cos(tilt) - 0.6) + rng.normal(scale=0.01, size=len(s))
    spin = 0.95 * spin + turn
    after = np.stack([x + 0.1 * vx, y + 0.1 * vy, vx, vy, np.clip(tilt + 0.1 * spin, -1.5, 1.5), spin], axis=1)
    return after, after[:, 1] <= 0


LANDER = BoxWorld(
    "lander in the wind",
    6,
    4,
    begin=lambda rng, n: rng.uniform([-0.5, 0.5, -0.2, -0.2, -0.3, -0.1], [0.5, 1.5, 0.2, 0.2, 0.3, 0.1], (n, 6)),
    step=_lander,
    policies={
        "random": evenly(4),
        "upright": lambda o: chances(np.select([(tilt := o[..., 4] + o[..., 5]) > 0.1, tilt < -0.1], [3, 2], 1), 0.8, 4),
        "falling": lambda o: chances(np.zeros(o.shape[:-1]), 0.7, 4),
    },
    signals={"hard landing": lambda o: np.where(o[..., 1] <= 0, o[..., 3] ** 2, 0.0), "tilt": lambda o: np.abs(o[..., 4])},
)


def _masses(s: Batch, action: Batch, rng: Rng) -> tuple[Batch, Batch]:
    at, speed = s[:, :4], s[:, 4:]
    padded = np.pad(at, ((0, 0), (1, 1)))
    force = padded[:, :-2] + padded[:, 2:] - 2 * at - 0.2 * speed + rng.normal(scale=0.1, size=at.shape)
    force[:, 0] += action - 1.0
    speed = speed + 0.2 * force
    return np.concatenate([at + 0.2 * speed, speed], axis=1), np.zeros(len(s), bool)


MASSES = BoxWorld(
    "four masses on springs",
    8,
    3,
    begin=lambda rng, n: rng.normal(scale=0.5, size=(n, 8)),
    step=_masses,
    policies={
        "random": evenly(3),
        "damping": lambda o: chances(np.where(o[..., 4] > 0, 0, 2), 0.9, 3),
        "driving": lambda o: chances(np.where(o[..., 4] > 0, 2, 0), 0.9, 3),
    },
    signals={"swing of the last": lambda o: o[..., 3] ** 2, "push": lambda o: np.maximum(0, o[..., 0])},
)

TUNED = (CARTPOLE, NOISY_CARTPOLE)  # worlds that settings were chosen on
FRESH = (ACROBOT, PUDDLE, PENDULUM, TANKS, LANDER, MASSES)
