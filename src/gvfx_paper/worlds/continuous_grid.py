"""The continuous grid: a unit square with four noisy moves and goal discs (paper, Sec. 7.2 and App. B.4).

`ContinuousGrid` is plain data.  `reset` and `step` are its dynamics as pure JAX functions (jit, vmap and scan them);
`ContinuousGridEnv` is the same world in NumPy behind Gymnasium's interface.  JAX is imported on first use only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.worlds.mdp import CompiledWorld

if TYPE_CHECKING:
    import jax

MOVES = ((-1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, -1.0))  # actions L, R, U, D = 0..3 as (x, y) directions; y points up
ENV_ID = "gvfx/ContinuousGrid-v0"

_DISC_AREA = {"euclidean": math.pi, "l1": 2.0}  # area of a disc of radius 1


@dataclass(frozen=True)
class Goal:
    """A disc around `at` that pays N(mean, sd^2) to its GVF when it is entered."""

    name: str
    at: tuple[float, float]
    mean: float
    sd: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"goals: {self.name!r} is not a name; give each goal a short text.")
        object.__setattr__(self, "at", _point(self.at, f"goals: {self.name!r}"))
        for field, low in (("mean", -math.inf), ("sd", 0.0)):
            value = _number(getattr(self, field), f"goals: {field} of {self.name!r}")
            if value < low:
                raise InputError(f"goals: sd of {self.name!r} is {value!r}; give a number of at least 0.")
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class ContinuousGrid(CompiledWorld):
    """The unit square: each move goes `step` in its direction, then both coordinates get noise U[-noise, noise] and are clipped.

    goals:    GVF i is about goals[i]: entering its disc pays N(mean, sd^2); entering any disc terminates the episode.
    strays:   centres of discs that terminate the episode and pay nothing.
    radius:   of every disc, in the given distance ("euclidean" or "l1").
    horizon:  steps after which an episode is truncated (terminated, with timeouts_terminate).
    Episodes start uniformly outside the goals' discs.
    """

    goals: tuple[Goal, ...]
    strays: tuple[tuple[float, float], ...] = ()
    step: float = 0.025
    noise: float = 0.01
    radius: float = 0.05
    distance: str = "euclidean"
    horizon: int = 500
    timeouts_terminate: bool = False

    planned_on_cells: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.goals or not all(isinstance(goal, Goal) for goal in self.goals):
            raise InputError("goals: give at least one Goal(name, (x, y), mean, sd).")
        object.__setattr__(self, "goals", tuple(self.goals))
        object.__setattr__(self, "strays", tuple(_point(at, "strays:") for at in self.strays))
        for field in ("step", "noise", "radius"):
            value = _number(getattr(self, field), field)
            if not (0 <= value <= 1 and (value > 0 or field == "noise")):
                raise InputError(f"{field}: {value!r} does not lie in (0, 1]; give a length in the unit square.")
            object.__setattr__(self, field, value)
        if self.distance not in _DISC_AREA:
            raise UnknownName("distance", str(self.distance), tuple(_DISC_AREA))
        if not isinstance(self.horizon, int | np.integer) or isinstance(self.horizon, bool) or self.horizon < 1:
            raise InputError(f"horizon: {self.horizon!r} is not a number of steps; give an integer of at least 1.")
        object.__setattr__(self, "horizon", int(self.horizon))
        if not isinstance(self.timeouts_terminate, bool):
            raise InputError(f"timeouts_terminate: {self.timeouts_terminate!r} is not a bool; give True or False.")
        names = [goal.name for goal in self.goals]
        if len(set(names)) < len(names):
            raise InputError(f"goals: two of {', '.join(names)} share one name; give each its own.")
        for one, other in combinations(self.centres, 2):
            if _distance(self, one, other) < 2 * self.radius - 1e-12:
                raise InputError(f"radius: the discs at {tuple(one)} and {tuple(other)} overlap; move them apart.")
        if self._covered > 0.5:
            raise InputError(f"radius: discs of {self.radius} cover too much of the square; give a smaller radius.")

    @property
    def centres(self) -> np.ndarray:
        """Centres of all discs [disc, 2], goals first, then strays."""
        return np.array([goal.at for goal in self.goals] + list(self.strays))

    @property
    def means(self) -> np.ndarray:
        """Mean cumulant of each goal [gvf]."""
        return np.array([goal.mean for goal in self.goals])

    @property
    def sds(self) -> np.ndarray:
        """Standard deviation of each goal's cumulant [gvf]."""
        return np.array([goal.sd for goal in self.goals])

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Which discs each point lies in, bool [..., disc], for points [..., 2]; a point on the rim is inside."""
        return _distance(self, np.asarray(points, float)[..., None, :], self.centres) <= self.radius + 1e-9

    @property
    def _covered(self) -> float:
        """Upper bound of the area that the goals' discs cover."""
        return len(self.goals) * _DISC_AREA[self.distance] * self.radius**2

    @property
    def draws(self) -> int:
        """Uniform draws per move: two for the noise, one for each cumulant."""
        return 2 + len(self.goals)

    @property
    def candidates(self) -> int:
        """Uniform points to draw for a start: all of them lie inside the goals' discs with probability below 1e-12."""
        return max(1, math.ceil(math.log(1e-12) / math.log(self._covered)))

    def open(self, questions: Sequence[Any], method: Any, options: Any) -> Any:
        """Linear features or networks, each with its own compiled loop."""
        from gvfx_paper.loops.opening import open_grid  # loops are built on worlds

        return open_grid(self, questions, method, options)

    def stepped(self, questions: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        from gvfx_paper.loops.opening import stepped_grid

        return stepped_grid(self, questions)


def paper_grid() -> ContinuousGrid:
    """The continuous grid of the paper's text; goal centres are the authors' (the text names the corners only)."""
    return ContinuousGrid((Goal("left", (0.05, 0.95), 100.0, 5.0), Goal("right", (0.95, 0.95), 50.0, 5.0)))


def authors_grid() -> ContinuousGrid:
    """The continuous grid of the authors' code: L1 discs, a larger sd, a stray terminal disc, timeouts treated as termination."""
    return ContinuousGrid(
        (Goal("left", (0.05, 0.95), 100.0, 10.0), Goal("right", (0.95, 0.95), 50.0, 5.0)),
        strays=((0.8, 0.1),),
        distance="l1",
        timeouts_terminate=True,
    )


PRESETS = {"paper": paper_grid, "authors": authors_grid}


def reset(world: ContinuousGrid, key: jax.Array) -> jax.Array:
    """A start position, float32 [2], uniform outside the goals' discs."""
    import jax

    return start(world, jax.random.uniform(key, (world.candidates, 2)))


def step(world: ContinuousGrid, key: jax.Array, position: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One move: (next position [2], cumulants [gvf], terminated).  The caller counts steps up to the horizon."""
    import jax

    return move(world, jax.random.uniform(key, (world.draws,)), position, action)


def start(world: ContinuousGrid, uniforms: jax.Array) -> jax.Array:
    """`reset` from draws of U[0, 1) [world.candidates, 2]: the first candidate outside all goals' discs."""
    import jax.numpy as jnp

    valid = ~_inside(world, uniforms[:, None, :], len(world.goals)).any(axis=1)
    return uniforms[jnp.argmax(valid)]


def move(
    world: ContinuousGrid, uniforms: jax.Array, position: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`step` from float32 draws of U[0, 1) [world.draws].

    Drawing for many steps at once is faster: a move then takes 0.3 microseconds; splitting a key at every step adds 2.
    """
    import jax
    import jax.numpy as jnp

    n = len(world.goals)
    noise = world.noise * (2 * uniforms[:2] - 1)
    moved = jnp.clip(position + world.step * jnp.array(MOVES, jnp.float32)[action] + noise, 0.0, 1.0)
    entered = _inside(world, moved, n + len(world.strays))
    # draws are multiples of 2^-23; shifted by half of that, none is 0 or 1
    normal = jax.scipy.special.ndtri(uniforms[2:] + 2.0**-24)
    pay = jnp.array(world.means, jnp.float32) + jnp.array(world.sds, jnp.float32) * normal
    return moved, jnp.where(entered[:n], pay, 0.0), entered.any()


def _inside(world: ContinuousGrid, points: jax.Array, discs: int) -> jax.Array:
    """Which of the first `discs` discs each point [..., 2] lies in, bool [..., disc]."""
    import jax.numpy as jnp

    away = jnp.abs(points - jnp.array(world.centres[:discs], jnp.float32))
    if world.distance == "l1":
        return away.sum(axis=-1) <= world.radius
    return (away * away).sum(axis=-1) <= world.radius**2


class ContinuousGridEnv(gymnasium.Env):
    """A ContinuousGrid behind Gymnasium's interface, in NumPy.

    Observation: the position, float32 [2].  Reward: the sum of the cumulants; info["cumulants"] has them per GVF [gvf].
    world: a ContinuousGrid or the name of a preset.  reset(options={"position": (x, y)}) starts at that position.
    """

    metadata = {"render_modes": []}

    def __init__(self, world: ContinuousGrid | str = "paper", render_mode: str | None = None) -> None:
        if isinstance(world, str):
            if world not in PRESETS:
                raise UnknownName("world", world, tuple(PRESETS))
            world = PRESETS[world]()
        if not isinstance(world, ContinuousGrid):
            kinds = ", ".join(PRESETS)
            raise InputError(f"world: {type(world).__name__} is not a world; give a ContinuousGrid or one of {kinds}.")
        if render_mode is not None:
            raise InputError(f"render_mode: {render_mode!r} is not supported; leave it out.")
        self.world = world
        self.render_mode = None
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)
        self._moves = world.step * np.array(MOVES)
        self._means, self._sds = world.means, world.sds
        self._position = np.zeros(2, np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        if options and "position" in options:
            self._position = np.array(_point(options["position"], "position:"), np.float32)
            return self._position.copy(), {}
        n = len(self.world.goals)
        while True:
            self._position = self.np_random.random(2, np.float32)
            if not self.world.inside(self._position)[:n].any():
                return self._position.copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise InputError(f"action: {action!r} is not an action; give 0, 1, 2 or 3 (left, right, up, down).")
        noise = self.np_random.uniform(-self.world.noise, self.world.noise, 2)
        self._position = np.clip(self._position + self._moves[action] + noise, 0.0, 1.0).astype(np.float32)
        self._steps += 1
        entered = self.world.inside(self._position)
        cumulants = np.zeros(len(self._means))
        for i in np.flatnonzero(entered[: len(cumulants)]):
            cumulants[i] = self.np_random.normal(self._means[i], self._sds[i])
        timeout = self._steps >= self.world.horizon
        terminated = bool(entered.any()) or (timeout and self.world.timeouts_terminate)
        return self._position.copy(), float(cumulants.sum()), terminated, timeout and not terminated, {"cumulants": cumulants}


def _distance(world: ContinuousGrid, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    away = np.abs(a - b)
    return away.sum(axis=-1) if world.distance == "l1" else np.hypot(away[..., 0], away[..., 1])


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {value!r} is not a number; give a finite number.") from None
    if not math.isfinite(number):
        raise InputError(f"{name}: {value!r} is not finite; give a finite number.")
    return number


def _point(value: Any, name: str) -> tuple[float, float]:
    try:
        x, y = (float(v) for v in value)
    except (TypeError, ValueError):
        raise InputError(f"{name} {value!r} is not a point; give (x, y).") from None
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise InputError(f"{name} ({x}, {y}) lies outside the unit square; give coordinates in [0, 1].")
    return x, y
