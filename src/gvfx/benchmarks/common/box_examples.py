"""The worlds of `gvfx bench continuous`, from 2 to 12 numbers in an observation."""

from __future__ import annotations

import numpy as np

from gvfx.benchmarks.common.box_worlds import Batch, BoxWorld, chances, evenly

Rng = np.random.Generator


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


NOISY_CARTPOLE = BoxWorld(
    "CartPole with 8 noise inputs",
    12,
    2,
    begin=lambda rng, n: np.concatenate([rng.uniform(-0.05, 0.05, (n, 4)), rng.normal(size=(n, 8))], axis=1),
    step=_noisy_cartpole,
    policies=CARTPOLE.policies,
    signals=CARTPOLE.signals,
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


def _acrobot_seen(s: Batch) -> Batch:
    return np.stack([np.cos(s[:, 0]), np.sin(s[:, 0]), np.cos(s[:, 1]), np.sin(s[:, 1]), s[:, 2], s[:, 3]], axis=1)


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
    observe=_acrobot_seen,
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


def _righting(tilt: np.ndarray) -> np.ndarray:
    return np.where(tilt > 0.1, 3, np.where(tilt < -0.1, 2, 1))


LANDER = BoxWorld(
    "lander in the wind",
    6,
    4,
    begin=lambda rng, n: rng.uniform([-0.5, 0.5, -0.2, -0.2, -0.3, -0.1], [0.5, 1.5, 0.2, 0.2, 0.3, 0.1], (n, 6)),
    step=_lander,
    policies={
        "random": evenly(4),
        "upright": lambda o: chances(_righting(o[..., 4] + o[..., 5]), 0.8, 4),
        "falling": lambda o: chances(np.zeros(o.shape[:-1]), 0.7, 4),
    },
    signals={
        "hard landing": lambda o: np.where(o[..., 1] <= 0, o[..., 3] ** 2, 0.0),
        "tilt": lambda o: np.abs(o[..., 4]),
    },
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
