"""Walker and Cheetah, two domains of the DeepMind Control Suite in MuJoCo, many worlds stepped together (paper, Sec. 7.3).

A control step sets the motors, takes `substeps` steps of physics and reads the observation and the cumulants of *all*
tasks of the domain.  With h the torso's height, z the upward part of its axis, v the forward speed
of the centre of mass and L the angular momentum about it:

    stand         = (3 * standing + (1 + z) / 2) / 4,  standing = 0.1^(((1.2 - h) / 0.6)^2), 1 from h = 1.2 up
    walker walk   = stand * (1 + 5 * clip(v, 0, 1)) / 6
    walker flip   = stand * (1 + 5 * clip(L / 5, 0, 1)) / 6
    cheetah walk  = clip(v / 2, 0, 1)
    cheetah run   = clip(v / 10, 0, 1)

Episodes never terminate; they are truncated at the horizon, up to which the caller counts steps.  MuJoCo is imported on
first use only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError, UnknownName, install

MUJOCO_VERSION = "3.17.0"  # the first with `mujoco.batch`, the last that dm_control runs on
MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Domain:
    """A robot and its tasks, each with a cumulant."""

    name: str
    tasks: tuple[str, ...]
    observation_size: int
    action_size: int
    substeps: int  # of physics in one control step
    horizon: int = 1000


WALKER = Domain("walker", ("walk", "flip"), 24, 6, 10)
CHEETAH = Domain("cheetah", ("walk", "run"), 17, 6, 1)
DOMAINS = {"walker": WALKER, "cheetah": CHEETAH}


class NoMuJoCo(InputError):
    """The simulator, or OpenGL for rendering, is unavailable."""


class UnstableWorld(InputError):
    """A simulation that broke down: its state is no longer finite, or MuJoCo had to reset it."""


def domain_named(name: str) -> Domain:
    """The domain of this name."""
    if name not in DOMAINS:
        raise UnknownName("domain", str(name), tuple(DOMAINS))
    return DOMAINS[name]


def import_mujoco() -> Any:
    """The module `mujoco`, checked for its version; on Linux it renders with EGL unless MUJOCO_GL is set."""
    if sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported
    try:
        import mujoco
    except ImportError:
        raise NoMuJoCo(f"mujoco: not installed; run {install('mujoco')}.") from None
    if mujoco.__version__ != MUJOCO_VERSION:
        raise NoMuJoCo(f"mujoco: version {mujoco.__version__} is installed, {MUJOCO_VERSION} is needed; run {install('mujoco')}.")
    return mujoco


@lru_cache
def load_model(name: str) -> Any:
    """The compiled model (mujoco.MjModel) of a domain."""
    mujoco = import_mujoco()
    model = mujoco.MjModel.from_xml_path(str(MODELS / f"{name}.xml"))
    if name == "cheetah":
        mujoco.mj_setTotalmass(model, 14.0)
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class Lockstep:
    """N worlds of one domain stepped together on mujoco.batch.Batch.

    Every world evolves exactly as it would alone, bit for bit, for any number of worlds and threads.
    """

    def __init__(self, domain: Domain, worlds: int, threads: int = 1) -> None:
        for name, value in (("worlds", worlds), ("threads", threads)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name}: {value!r}; give an integer of at least 1.")
        mujoco = import_mujoco()
        from mujoco.batch import Batch

        self.domain, self.worlds = domain, int(worlds)
        model = load_model(domain.name)
        self._batch = batch = Batch(model, self.worlds, int(threads), persistent=True)  # persistent: nothing is computed twice
        self._velocities = mujoco.mjtStage.mjSTAGE_VEL.value  # compute all that depends on positions and velocities
        self._accelerations = mujoco.mjtStage.mjSTAGE_ACC.value
        self._control, self._positions, self._times = batch.bind("ctrl"), batch.bind("qpos"), batch.bind("time")
        self._warnings = batch.warning[:, mujoco.mjtWarning.mjWARN_BADQPOS.value :, 1]  # bad position ... bad control
        self._read_observations, self._read_cumulants = _READERS[domain.name](batch, model.sensor("torso_subtreelinvel").adr[0])
        self._seconds = domain.substeps * model.opt.timestep
        self._steps = np.zeros(self.worlds, np.int64)
        # a reset draws the limited joints within their limits, and the pitch of a walker's torso from all angles
        drawn = model.jnt_limited.astype(bool)
        low, high = np.where(drawn[:, None], model.jnt_range, [-np.pi, np.pi]).T
        if domain.name == "walker":
            drawn = drawn | (model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE.value)
        self._drawn = np.flatnonzero(drawn)
        self._low, self._high = low[drawn], high[drawn]

    def reset(self, generator: np.random.Generator, which: np.ndarray | None = None) -> np.ndarray:
        """Start new episodes in the worlds `which` (indices; None: all); the observations [world, o] of all worlds."""
        chosen = self._chosen(which)
        batch = self._batch
        batch.reset(chosen, stage=0)
        self._positions[np.ix_(chosen, self._drawn)] = generator.uniform(self._low, self._high, (len(chosen), len(self._drawn)))
        self._steps[chosen] = 0
        if self.domain.name == "cheetah":  # let it fall without control
            batch.step(chosen, nstep=200)
            self._check()
            self._times[chosen] = 0.0
        batch.forward(chosen, stage=self._accelerations)
        return self.observations()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One control step of all worlds: (observations [world, o], cumulants [world, task]).

        actions: [world, a], clipped to [-1, 1].
        """
        if np.shape(actions) != self._control.shape:
            raise InputError(f"actions: shape {np.shape(actions)}; give {self._control.shape} for these worlds.")
        self._steps += 1
        if not np.isfinite(actions).all():
            raise self._unstable(int(np.argmin(np.isfinite(actions).all(axis=1))), "action")
        np.clip(actions, -1.0, 1.0, out=self._control)
        self._batch.step(nstep=self.domain.substeps, stage=self._velocities)
        if self._warnings.any():
            self._check()
        return self.observations(), self._read_cumulants()

    def observations(self) -> np.ndarray:
        """The observations of the present states [world, o]."""
        out = np.empty((self.worlds, self.domain.observation_size))
        self._read_observations(out)
        return out

    def get_state(self) -> np.ndarray:
        """Everything that the future depends on, including the solver's warm start, [world, k]."""
        return self._batch.state.copy()

    def set_state(self, states: np.ndarray, which: np.ndarray | None = None) -> None:
        """Put the worlds `which` (None: all) into states [len(which), k] of `get_state`; replaying from them is exact."""
        chosen = self._chosen(which)
        states = np.asarray(states, float)
        if states.shape != (len(chosen), self._batch.nstate):
            raise InputError(f"states: shape {states.shape}; give {(len(chosen), self._batch.nstate)} from get_state.")
        if not np.isfinite(states).all():
            raise InputError("states: not all numbers are finite; give states from get_state.")
        self._batch.state[chosen] = states
        self._steps[chosen] = np.rint(self._times[chosen] / self._seconds)
        self._batch.forward(chosen, stage=self._velocities)

    def _chosen(self, which: np.ndarray | None) -> np.ndarray:
        """Indices of worlds, checked."""
        if which is None:
            return np.arange(self.worlds)
        chosen = np.asarray(which)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or (np.diff(chosen) <= 0).any() or not _within(chosen, self.worlds):
            raise InputError(f"which: {which!r}; give increasing indices of worlds from 0 to {self.worlds - 1}.")
        return chosen

    def _check(self) -> None:
        """Raise UnstableWorld for the first world that MuJoCo warned about."""
        broken = self._warnings.any(axis=1)
        if not broken.any():
            return
        world = int(np.argmax(broken))
        what = ("position", "velocity", "acceleration", "action")[int(np.argmax(self._warnings[world]))]
        self._warnings[:] = 0
        raise self._unstable(world, what)

    def _unstable(self, world: int, what: str) -> UnstableWorld:
        return UnstableWorld(
            f"{self.domain.name}: world {world} broke down at step {self._steps[world]} (its {what} is not finite or too large); "
            "reset it and check its actions."
        )


def _within(indices: np.ndarray, size: int) -> bool:
    return not len(indices) or bool(indices[0] >= 0 and indices[-1] < size)


# ------------------------------------------------------------------------------------------------ observations, cumulants

Reader = tuple[Callable[[np.ndarray], None], Callable[[], np.ndarray]]  # writes observations into an array; returns cumulants


def _walker(batch: Any, speed: int) -> Reader:
    """Walker's observations: orientations of the seven bodies (xx and xz of each), height, velocities; and its cumulants."""
    velocities, axes = batch.bind("qvel"), batch.bind("xmat")[:, 1:]
    heights, upright = batch.bind("xpos")[:, 1, 2], axes[:, 0, 8]
    speeds, spins = batch.bind("sensordata")[:, speed], batch.bind("subtree_angmom")[:, 1, 1]
    worlds = len(heights)

    def observations(out: np.ndarray) -> None:
        out[:, 0:14:2] = axes[:, :, 0]
        out[:, 1:14:2] = axes[:, :, 2]
        out[:, 14] = heights
        out[:, 15:] = velocities

    def cumulants() -> np.ndarray:
        missing = np.maximum(1.2 - heights, 0.0) / 0.6
        stand = (3 * np.exp(np.log(0.1) * missing * missing) + (1 + upright) / 2) / 4
        out = np.empty((worlds, 2))
        np.clip(speeds, 0.0, 1.0, out=out[:, 0])
        np.clip(spins / 5.0, 0.0, 1.0, out=out[:, 1])
        return stand[:, None] * (5 * out + 1) / 6

    return observations, cumulants


def _cheetah(batch: Any, speed: int) -> Reader:
    """Cheetah's observations: positions except the horizontal one, velocities; and its cumulants."""
    positions, velocities, speeds = batch.bind("qpos"), batch.bind("qvel"), batch.bind("sensordata")[:, speed, None]
    full = np.array([2.0, 10.0])

    def observations(out: np.ndarray) -> None:
        out[:, :8] = positions[:, 1:]
        out[:, 8:] = velocities

    def cumulants() -> np.ndarray:
        return np.clip(speeds / full, 0.0, 1.0)

    return observations, cumulants


_READERS: dict[str, Callable[[Any, int], Reader]] = {"walker": _walker, "cheetah": _cheetah}
