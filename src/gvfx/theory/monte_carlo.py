"""True values by Monte Carlo: the mean return of episodes under each target policy, for environments that can be reset.

What is cut off from a return is bounded by (product of the discounts so far) * max|c| / (1 - max discount) and reported
(`residuals`).  A TimeLimit is disabled meanwhile, because truncation is not part of the question.
"""

from __future__ import annotations

import copy
import operator
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gvfx.errors import EnvironmentFailed, GvfxError, InputError, error_text
from gvfx.inputs import is_real, listed, shown, whole
from gvfx.questions.gvf import GVF, expand, on_rewards
from gvfx.questions.reader import Gaussians, Reader, Targets
from gvfx.questions.signals import as_reward
from gvfx.threads import one_thread
from gvfx.types import Described, Environment, Function
from gvfx.worlds.returns import truths, why_reset, why_step, wrong_reward
from gvfx.worlds.spaces import BadObservation, label_of, same_observation
from gvfx.worlds.spec import (
    DiscreteSpec,
    actions_of,
    box_action_spec,
    discrete_spec,
    environment_name,
    has_box_actions,
    is_environment,
    layers,
    random_action,
    registered,
)

NEGLIGIBLE = 1e-6  # product of discounts at which an episode is stopped
FEW, MANY = 50, 1000  # episodes before a standard error is trusted; the same if all returns were equal
RARE = 25  # episodes with a return other than 0 before one is trusted: fewer do not show how often a rare goal is reached


@dataclass(frozen=True, eq=False)
class MonteCarlo:
    """Estimated true values with their standard errors."""

    names: tuple[str, ...]
    points: tuple[object, ...]  # the observations at which they hold; "start" stands for the start distribution
    values: np.ndarray  # [gvf, point]
    standard_errors: np.ndarray  # [gvf, point]
    residuals: np.ndarray  # [gvf, point] bound on the mean return that was cut off
    episodes: np.ndarray  # [gvf, point]
    precise: np.ndarray  # [gvf, point] whether the requested precision was reached

    def __repr__(self) -> str:
        worst = float(self.standard_errors.max())
        return f"MonteCarlo({len(self.names)} questions at {len(self.points)} points, standard errors up to {worst:.3g})"

    def to_json(self) -> Described:
        points = [label_of(p) for p in self.points]
        arrays = ("values", "standard_errors", "residuals", "episodes", "precise")
        return {"names": list(self.names), "points": points, **{name: getattr(self, name).tolist() for name in arrays}}


@one_thread()
def truth_of(
    env: Environment | str,
    questions: Sequence[GVF],
    points: int | Sequence[object] | None = None,
    *,
    reset_to: Function | None = None,
    precision: float | None = None,
    relative: float | None = None,
    max_episodes: int = 10_000,
    horizon: int = 10_000,
    seed: int = 0,
) -> MonteCarlo:
    """The questions' true values at some points, by Monte Carlo, up to a precision.

    points:       None: the start distribution.  A number: that many states met on random walks, reached again by replaying the
                  walk from its seed, after which `env.np_random` gets a new seed.  Otherwise the points, with `reset_to`.
    reset_to:     a function reset_to(env, point) that puts the environment into a point and returns the observation.
    precision:    stop at this standard error.
    relative:     stop at this standard error divided by the value, after 25 returns other than 0; or at `precision`.
    max_episodes: largest number of episodes per point and policy.
    horizon:      steps after which an episode is cut.
    """
    env = registered(env, "env") if isinstance(env, str) else env
    if not is_environment(env) or hasattr(env, "num_envs"):
        raise InputError(
            "env: a vector environment or a world of gvfx cannot be reset as needed; give one Gymnasium environment."
        )
    for field, wanted in (("precision", precision), ("relative", relative)):
        if wanted is not None and not (is_real(wanted) and wanted > 0):
            raise InputError(f"{field}: {shown(wanted)} is not a precision; give a number above 0.")
    max_episodes, horizon, seed = whole(max_episodes, "max_episodes"), whole(horizon, "horizon"), whole(seed, "seed", least=0)
    if reset_to is not None and not callable(reset_to):
        raise InputError(f"reset_to: {reset_to!r:.40} cannot be called; give a function of an environment and a point.")
    if max_episodes < 2 or horizon < 1:
        raise InputError(f"max_episodes: {max_episodes} and horizon: {horizon} are too few; give at least 2 and 1.")
    asked = expand(on_rewards(questions, env))
    if not asked:
        raise InputError("questions: the list is empty; give at least one GVF.")
    try:
        spec: DiscreteSpec | None = discrete_spec(env)
    except InputError:
        spec = None
    targets: Targets | Gaussians
    if has_box_actions(env):
        targets = Gaussians(asked, box_action_spec(env))
    else:
        states, first = (spec.skeleton.states, spec.first_state) if spec else (None, 0)
        targets = Targets(asked, len(actions_of(env)), states, first)
    with _no_time_limit(env):
        starts = _starts(env, points, reset_to, np.random.default_rng([seed, 1]))
        rolls = [
            _Rolls(env, spec, asked, targets, k, start, horizon, np.random.default_rng([seed, 2, k, j]))
            for k in range(len(targets.distinct))
            for j, start in enumerate(starts)
        ]
        going = rolls
        while going:
            for roll in going:
                roll.more(max(FEW, int(0.2 * roll.count)), max_episodes)
            going = [r for r in going if r.count < max_episodes and not r.precise(precision, relative).all()]
    out = [np.zeros((len(asked), len(starts)), kind) for kind in (float, float, float, int, bool)]
    for n, roll in enumerate(rolls):
        own = roll.mean, roll.error, roll.residual, roll.count, roll.precise(precision, relative)
        for column, part in zip(out, own, strict=True):
            column[roll.members, n % len(starts)] = part
    return MonteCarlo(targets.names, tuple(s.point for s in starts), *out)


def _actor(env: Any, targets: Targets | Gaussians, k: int) -> Callable[[Any, np.random.Generator], Any]:
    """A function that draws an action of the k-th distinct policy at an observation."""
    if isinstance(targets, Gaussians):
        return lambda observation, rng: targets.sample(k, observation, rng)
    actions, first, arrays = actions_of(env), targets.first, env.observation_space.shape is not None
    policy, field = list(targets.distinct.items())[k]
    table = np.cumsum(targets.tables[k], axis=1).tolist() if targets.tables is not None else None

    def act(observation: Any, rng: np.random.Generator) -> Any:
        if table is not None:
            chances = table[_row(observation, first, len(table))]
        else:
            batch = np.asarray(observation)[None] if arrays else [observation]
            chances = policy.at(batch, targets.actions, field)[0].cumsum().tolist()
        return copy.copy(actions[min(bisect_right(chances, rng.random() * chances[-1]), len(chances) - 1)])

    return act


def _row(observation: Any, first: int, states: int) -> int:
    """The number of a Discrete observation, counted from 0."""
    row = int(operator.index(observation)) - first
    if not 0 <= row < states:
        raise BadObservation(f"it lies outside its space of {states} states")
    return row


class _Rolls:
    """Episodes from one start under one target policy, and the mean returns of all questions about it."""

    def __init__(
        self,
        env: Any,
        spec: DiscreteSpec | None,
        asked: list[GVF],
        targets: Targets | Gaussians,
        k: int,
        start: _Start,
        horizon: int,
        rng: np.random.Generator,
    ) -> None:
        self.members = np.flatnonzero(targets.member == k)
        self.reader = Reader([asked[i] for i in self.members], spec)
        self.env, self.start, self.horizon, self.rng = env, start, horizon, rng
        self.act = _actor(env, targets, k)
        self.count = 0
        self.mean, self.squares, self.left, self.top = np.zeros((4, len(self.members)))
        self.largest = np.zeros(len(self.members))  # largest discount seen
        self.paid = np.zeros(len(self.members), int)  # episodes with a return other than 0

    def more(self, episodes: int, at_most: int) -> None:
        for _ in range(min(episodes, at_most - self.count)):
            total, weight = self._episode()
            self.count += 1
            delta = total - self.mean
            self.mean += delta / self.count
            self.squares += delta * (total - self.mean)
            self.left += weight
            self.paid += total != 0

    def _episode(self) -> tuple[np.ndarray, np.ndarray]:
        """A return per question, and the product of discounts at its last step (0 after termination)."""
        try:
            env, observation = self.start.begin(self.env, self.rng)
        except GvfxError:
            raise
        except Exception as error:
            raise self._failed(0, why_reset(error)) from error
        (c,), (gamma,) = self.reader.begin()
        total, weight = np.zeros(len(c)), np.ones(len(c))
        for t in range(self.horizon):
            try:
                action = self.act(observation, self.rng)
            except (BadObservation, LookupError, TypeError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise self._failed(t, f"the observation {observation!r:.60} cannot be read ({error_text(error)}).") from error
            try:
                following, reward, terminated, truncated, info = env.step(action)
            except Exception as error:
                raise self._failed(t, why_step(error)) from error
            if wrong := wrong_reward(reward):
                raise self._failed(t, f"the reward is {wrong}; return finite numbers.")
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                if truths(flag, ()) is None:
                    raise self._failed(t, f"{name} is {flag!r:.40}; return True or False.")
            try:
                self.reader.read(observation, action, as_reward(reward), following, info, c, gamma)
            except InputError as error:
                raise self._failed(t, str(error)) from error
            total += weight * c
            weight *= gamma
            np.maximum(self.top, np.abs(c), out=self.top)
            np.maximum(self.largest, gamma, out=self.largest)
            if terminated:
                return total, np.zeros(len(c))
            if truncated or weight.max() < NEGLIGIBLE:
                break
            observation = following
        return total, weight

    def _failed(self, step: int, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(environment_name(self.env), self.count, step, what)

    @property
    def error(self) -> np.ndarray:
        return np.sqrt(self.squares / max(1, self.count - 1) / self.count)

    @property
    def residual(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = self.left / self.count * self.top / (1 - self.largest)
        return np.where(self.left * self.top > 0, bound, 0.0)

    def precise(self, precision: float | None, relative: float | None) -> np.ndarray:
        """Whether each question's standard error is small enough: of returns that are equal or mostly 0, only after many."""
        error = self.error
        enough = np.zeros(len(error), bool)
        if precision is not None:
            enough |= error <= precision
        if relative is not None:
            enough |= (error <= relative * np.abs(self.mean)) & (self.paid > 0)
        enough &= (self.paid == 0) | (self.paid >= RARE)
        return enough & (self.count >= np.where(self.squares > 0, FEW, MANY))


class _Start(NamedTuple):
    """Where episodes start: begin(env, rng) returns an environment ready to be stepped and its observation."""

    point: Any
    begin: Callable[[Any, np.random.Generator], tuple[Any, Any]]


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _starts(env: Any, points: int | Sequence[object] | None, reset_to: Function | None, rng: np.random.Generator) -> list[_Start]:
    if points is None:
        return [_Start("start", lambda env, rng: (env, env.reset(seed=_seed(rng))[0]))]
    if isinstance(points, int):
        return [_walked_to(env, rng) for _ in range(whole(points, "points", least=1, most=100_000))]
    if reset_to is None:
        raise InputError("reset_to: points need a function reset_to(env, point) that puts the environment there.")

    def begin(env: Any, rng: np.random.Generator, point: object) -> tuple[Any, Any]:
        env.reset(seed=_seed(rng))
        return env, reset_to(env, point)

    return [_Start(point, partial(begin, point=point)) for point in listed(points, "points", "points")]


def _walked_to(env: Any, rng: np.random.Generator) -> _Start:
    """A state of a random walk of fewer than 20 steps, reached again by replaying the walk from its seed."""
    seed, depth, path = _seed(rng), int(rng.integers(20)), list[Any]()
    point = copy.deepcopy(env.reset(seed=seed)[0])
    while len(path) < depth:
        action = random_action(env.action_space, rng)
        following, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
        path.append(action)
        point = copy.deepcopy(following)

    def replayed(env: Any) -> Any:
        observation = env.reset(seed=seed)[0]
        for action in path:
            observation = env.step(action)[0]
        return observation

    def begin(env: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        replayed(env)
        env.unwrapped.np_random = np.random.default_rng(_seed(rng))  # other randomness than the walk's
        return env, point

    if same_observation(replayed(env), point):
        return _Start(point, begin)
    raise InputError(
        f"points: {environment_name(env)} does not reach the same state again from its seed; give points and reset_to instead."
    )


@contextmanager
def _no_time_limit(env: Any) -> Iterator[None]:
    """Disables the TimeLimit of an environment, and restores it afterwards."""
    limits = [layer for layer in layers(env) if type(layer).__name__ == "TimeLimit"]
    kept = [layer._max_episode_steps for layer in limits]
    for layer in limits:
        layer._max_episode_steps = sys.maxsize
    try:
        yield
    finally:
        for layer, steps in zip(limits, kept, strict=True):
            layer._max_episode_steps = steps
