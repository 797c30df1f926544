"""Ordinary environments and policies: nothing is refused, and nothing is said without cause.

Gymnasium's own environments, their vector forms and wrappers, those of other packages where they are installed, and small ones
of one's own, with policies written in all usual ways.  Each is checked, run, interrupted, continued and repeated from its
checkpoint with functions made anew.

Seen to fail when a game that ends without a move, as Blackjack does, counts as one that resets itself.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

import gvfx
from faults import own_environments as own
from faults.processes import warm_up
from faults.trials import Trials
from gvfx.worlds.spec import has_box_actions, spaces_of

FULL, FAST, SECONDS = 120, 4, 170
STEPS, HALF = 600, 300
EXPECTED = ("never fired", "no episode ended", "no episode terminated", "is left out", "steps were tried")
EXPECTED += ("middle action leaves", "StickyAction: ", "FrameStackObservation: ", "continues at step", "WARN", "os.fork()")


class Own(gym.Env[Any, Any]):
    """An environment by functions: `begin(rng)` gives a state, `move(state, action, rng)` the next one, a reward and an end."""

    def __init__(self, observations: Any, actions: Any, begin: Callable[..., Any], move: Callable[..., Any]) -> None:
        self.observation_space, self.action_space, self.begin, self.move = observations, actions, begin, move

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.begin(self.np_random)
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.state, reward, over = self.move(self.state, action, self.np_random)
        return self.state, float(reward), bool(over), False, {}


def _bandit() -> Any:
    pays = [0.2, 0.5, 0.9]
    return Own(Discrete(1), Discrete(3), lambda rng: 0, lambda s, a, rng: (0, rng.random() < pays[a], True))


def _contextual() -> Any:
    return Own(Discrete(4), Discrete(2), lambda rng: int(rng.integers(4)), lambda s, a, rng: (s, s * a, True))


def _tree() -> Any:
    """Two choices, then the end."""
    return Own(Discrete(7), Discrete(2), lambda rng: 0, lambda s, a, rng: (2 * s + 1 + int(a), s == 2, 2 * s + 1 + a > 2))


def _corridor() -> Any:
    return Own(Discrete(6), Discrete(2), lambda rng: 0, lambda s, a, rng: (s + int(a), a == 0, s + a == 5))


def _clock() -> Any:
    """Five moves, which the observation counts."""
    return Own(
        Tuple((Discrete(6), Discrete(3))),
        Discrete(3),
        lambda rng: (0, int(rng.integers(3))),
        lambda s, a, rng: ((s[0] + 1, int(rng.integers(3))), a == s[1], s[0] == 4),
    )


def _gambler() -> Any:
    return Own(
        Discrete(11),
        Discrete(2),
        lambda rng: 5,
        lambda s, a, rng: (n := min(10, max(0, s + (1 + int(a)) * (1 if rng.random() < 0.45 else -1))), n == 10, n in (0, 10)),
    )


def _random_walk() -> Any:
    """On the line, ended outside."""
    return Own(
        Box(-5, 5, (1,), np.float32),
        Discrete(2),
        lambda rng: np.zeros(1, np.float32),
        lambda s, a, rng: (n := np.clip(s + 2 * a - 1 + rng.normal(), -5, 5).astype(np.float32), n[0], abs(n[0]) > 4),
    )


def _fields() -> Any:
    space = Dict({"place": Discrete(4), "lamp": Discrete(2)})
    return Own(
        space,
        Discrete(2),
        lambda rng: {"place": 0, "lamp": int(rng.integers(2))},
        lambda s, a, rng: ({"place": (s["place"] + int(a)) % 4, "lamp": s["lamp"]}, s["lamp"], rng.random() < 0.1),
    )


def _choices() -> Any:
    return Own(Discrete(3), MultiDiscrete([2, 2]), lambda rng: 0, lambda s, a, rng: (int(a.sum()), s, rng.random() < 0.2))


def _named(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: gym.make(name, **options)


def _many(name: str, mode: str) -> Callable[[], Any]:
    how = {"vector_kwargs": {"autoreset_mode": gym.vector.AutoresetMode[mode]}}
    return lambda: gym.make_vec(name, 3, vectorization_mode="sync", **how)


def _environments() -> dict[str, Callable[[], Any]]:
    text = ("Blackjack-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4")
    control = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0")
    more = ("LunarLander-v3", "MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "deep-sea-treasure-v0", "four-room-v0")
    out = {name: _named(name) for name in (*text, *control, *more) if _works(name)}
    out["lake without slips"] = _named("FrozenLake-v1", is_slippery=False)
    out["rainy taxi"] = _named("Taxi-v4", is_rainy=True)
    out["fickle taxi"] = _named("Taxi-v4", fickle_passenger=True)
    out["natural Blackjack"] = _named("Blackjack-v1", natural=True)
    out["pole of Sutton and Barto"] = _named("CartPole-v1", sutton_barto_reward=True)
    out["CartPole-v1 of vectors"] = lambda: gym.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    out["FrozenLake-v1, asynchronous"] = lambda: gym.make_vec("FrozenLake-v1", 2, vectorization_mode="async")
    for name, mode in itertools.product(("FrozenLake-v1", "Blackjack-v1", "CartPole-v1"), gym.vector.AutoresetMode):
        out[f"{name}, {mode.name}"] = _many(name, mode.name)
    for name in ("Taxi-v4", "CliffWalking-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1"):
        out[f"{name}, vector"] = _many(name, "NEXT_STEP")
    wrapped: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "limited lake": ("FrozenLake-v1", lambda env: wrappers.TimeLimit(env, 10)),
        "limited taxi": ("Taxi-v4", lambda env: wrappers.TimeLimit(env, 7)),
        "limited pole": ("CartPole-v1", lambda env: wrappers.TimeLimit(env, 12)),
        "limited pendulum": ("Pendulum-v1", lambda env: wrappers.TimeLimit(env, 20)),
        "stacked": ("CartPole-v1", lambda env: wrappers.FrameStackObservation(env, 2)),
        "timed": ("CartPole-v1", wrappers.TimeAwareObservation),
        "flat": ("Blackjack-v1", wrappers.FlattenObservation),
        "other rewards": ("CliffWalking-v1", lambda env: wrappers.TransformReward(env, lambda r: r / 10)),
        "rescaled": ("Pendulum-v1", lambda env: wrappers.RescaleAction(env, -1.0, 1.0)),
        "limited car": ("MountainCarContinuous-v0", lambda env: wrappers.TimeLimit(env, 30)),
        "statistics": ("FrozenLake-v1", wrappers.RecordEpisodeStatistics),
        "sticky": ("CartPole-v1", lambda env: wrappers.StickyAction(env, 0.2)),
        "fewer numbers": ("CartPole-v1", _first_two),
    }
    for name, (inner, wrap) in wrapped.items():
        out[name] = lambda inner=inner, wrap=wrap: wrap(gym.make(inner))
    small = (_bandit, _contextual, _tree, _corridor, _clock, _gambler, _random_walk, _fields, _choices)
    out |= {f"own {make.__name__.strip('_')}": make for make in small}
    out |= {f"own {make.__name__}": make for make in (own.Ring, own.Pairs, own.Points, own.Pushed)}
    out |= {f"own {make.__name__}": make for make in (own.vector, own.vector_of_points)}
    return out


def _first_two(env: Any) -> Any:
    high = np.full(2, np.inf, np.float32)
    return wrappers.TransformObservation(env, lambda o: o[:2], Box(-high, high))


def _works(name: str) -> bool:
    """Whether an environment and what it needs are installed."""
    for package in ("minigrid", "mo_gymnasium"):
        try:
            __import__(package)
        except ImportError:
            continue
    try:
        gym.make(name).close()
    except (gym.error.Error, ImportError):
        return False
    return True


# --- policies -----------------------------------------------------------------------------------------------------------------


def _numbers(o: Any) -> np.ndarray:
    """An observation of any kind as numbers."""
    if isinstance(o, dict):
        return np.concatenate([_numbers(o[key]) for key in sorted(o)])
    return np.concatenate([_numbers(part) for part in o]) if isinstance(o, tuple) else np.ravel(np.asarray(o, float))


def _leaning(o: Any, n: int, slope: float = 0.1) -> np.ndarray:
    scores = slope * np.tanh(_numbers(o).sum()) * np.arange(n)
    return np.exp(scores) / np.exp(scores).sum()


class Net:
    """A network of one layer, with a method and as an object that is called."""

    def __init__(self, n: int) -> None:
        self.weights, self.n = np.random.default_rng(3).normal(size=(1, n)), n

    def scores(self, o: Any) -> np.ndarray:
        return np.tanh(_numbers(o).sum()) * self.weights[0]

    def probabilities(self, o: Any) -> np.ndarray:
        scores = self.scores(o)
        return np.exp(scores) / np.exp(scores).sum()

    def best(self, o: Any) -> int:
        return int(self.scores(o).argmax())

    __call__ = probabilities


def _by_jax(n: int) -> Any:
    import jax
    import jax.numpy as jnp

    weights = jnp.linspace(-1.0, 1.0, n)
    return lambda o: jax.nn.softmax(jnp.tanh(jnp.sum(jnp.asarray(o, float))) * weights)


def _policies(n: int, plain: bool) -> dict[str, Callable[[], Any]]:
    """Policies of n actions by how they are written; plain: whether observations are arrays or numbers."""

    def named(o: Any) -> np.ndarray:
        return _leaning(o, n)

    made = [lambda o, slope=slope: _leaning(o, n, slope) for slope in (0.1, 0.4, 0.9)]
    out: dict[str, Callable[[], Any]] = {
        "list": lambda: [1 / n] * n,
        "function": lambda: named,
        "lambda": lambda: lambda o: _leaning(o, n, 0.3),
        "of a loop": lambda: made[1],
        "partial": lambda: functools.partial(_leaning, n=n, slope=0.2),
        "method": lambda: Net(n).probabilities,
        "object": lambda: Net(n),
        "softmax": lambda: gvfx.softmax_policy(Net(n).scores),
        "best": lambda: gvfx.deterministic_policy(Net(n).best),
        "mixture": lambda: gvfx.mixture_policy([named, [1 / n] * n]),
        "uniform": gvfx.uniform_policy,
    }
    return out | ({"jax": lambda: _by_jax(n)} if plain else {})


def _gaussians(moves: Box) -> dict[str, Callable[[], Any]]:
    low, high = np.maximum(moves.low, -1.0), np.minimum(moves.high, 1.0)
    middle, width = (low + high) / 2, (high - low) / 2

    def lean(o: Any) -> np.ndarray:
        return middle + 0.3 * width * np.tanh(np.ravel(o)[0])

    return {
        "list": lambda: gvfx.gaussian_policy(middle, 0.3 * width),
        "function": lambda: gvfx.gaussian_policy(lean, 0.3 * width),
        "batched": lambda: gvfx.gaussian_policy(lambda o: middle + 0.2 * width * np.tanh(o[..., :1]), 0.3 * width),
        "partial": lambda: gvfx.gaussian_policy(functools.partial(lean), 0.2 * width),
    }


SIGNALS: dict[str, Callable[[], Any]] = {
    "reward": gvfx.Reward,
    "constant": lambda: 1.0,
    "function": lambda: lambda o, a, o2: float(_numbers(o2).sum()),
    "of five": lambda: lambda o, a, r, o2, info: float(np.sum(r)) + len(info),
}
DISCOUNTS: dict[str, Callable[[], Any]] = {
    "number": lambda: 0.9,
    "function": lambda: lambda o, a, o2: 0.9 if _numbers(o2).sum() > 0 else 0.8,
}


# --- trials -------------------------------------------------------------------------------------------------------------------


def run(trials: Trials) -> None:
    warm_up(jax=True)
    made = _environments()
    trials.note(f"{len(made)} environments")
    names = list(made)
    trials.random.shuffle(names)
    if trials.wanted <= FAST:
        names = [name for name in names if not has_box_actions(made[name]())]
    for name in itertools.cycle(names):
        if trials.done:
            break
        asked = _drawn(made[name], trials)
        with trials.scratch() as folder:
            said = _said(made[name], asked, folder / "run")
            trials.check(_kind(name), not said, f"{name}, {asked[0]}: {said}")


def _kind(name: str) -> str:
    return "own" if name.startswith("own") else "vector" if any(each in name for each in (", ", " of ")) else "plain"


def _drawn(make: Callable[[], Any], trials: Trials) -> tuple[str, Callable[[], list[gvfx.GVF]]]:
    """Three questions whose parts are written in ways drawn by chance: in words, and what makes them anew."""
    env = make()
    seen, moves = spaces_of(env)
    if has_box_actions(env):
        policies = _gaussians(moves)
    else:
        n = int(np.prod(moves.nvec)) if isinstance(moves, MultiDiscrete) else int(moves.n)
        policies = _policies(n, isinstance(seen, Box | Discrete | MultiDiscrete))
    env.close()
    ways = [tuple(trials.random.choice(list(each)) for each in (policies, SIGNALS, DISCOUNTS)) for _ in range(3)]

    def asked() -> list[gvfx.GVF]:
        return [gvfx.GVF(policies[p](), SIGNALS[c](), DISCOUNTS[d](), name=f"q{k}") for k, (p, c, d) in enumerate(ways)]

    return "; ".join(map(", ".join, ways)), asked


def _said(make: Callable[[], Any], asked: tuple[str, Callable[[], list[gvfx.GVF]]], folder: Path) -> str:
    """What is refused, or said without cause; empty if nothing is."""
    out: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            findings = gvfx.check(make(), asked[1](), steps=STEPS)
            out += [str(each) for each in findings if not any(text in each.sentence for text in EXPECTED)]
            _run(make(), asked[1](), folder, HALF)
            first, again = (_run(make(), asked[1](), folder) for _ in range(2))
            if not np.array_equal(first, again):
                out.append("another answer from the checkpoint")
        except Exception as error:
            out.append(f"{type(error).__name__}: {error}")
    texts = [str(each.message) for each in told if not issubclass(each.category, DeprecationWarning)]
    return "; ".join(out + [text for text in texts if not any(each in text for each in EXPECTED)])


def _run(env: Any, asked: list[gvfx.GVF], folder: Path, stop: int | None = None) -> np.ndarray:
    """Run with a checkpoint, or stop amid the run."""

    def interrupted(seed: int, steps: int, error: float) -> None:
        if stop is not None and steps >= stop:
            raise KeyError("stop")

    options: dict[str, Any] = {"audit": 0.0} if has_box_actions(env) else {}
    critics = {"hidden": (16, 16), "capacity": 640, "learning_starts": 64, "batch": 16, "updates": 1}
    learner = gvfx.TwinCritics(**critics) if has_box_actions(env) else None
    if isinstance(spaces_of(env)[0], Box) and learner is None:
        learner = gvfx.LinearCertaintyEquivalence(intervals=False)
    try:
        return gvfx.evaluate(
            env, asked, None, learner, steps=STEPS, evaluate_every=100, checkpoint=folder, checkpoint_every=0.0,
            progress=interrupted, **options,
        ).values  # fmt: skip
    except KeyError:
        return np.empty(0)
    finally:
        env.close()
