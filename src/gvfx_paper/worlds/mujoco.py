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

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import gymnasium
import numpy as np
from PIL import Image, ImageDraw

from gvfx.errors import InputError, UnknownName, install
from gvfx.worlds.mdp import CompiledWorld

MUJOCO_VERSION = "3.17.0"  # the first with `mujoco.batch`, the last that dm_control runs on
MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Domain(CompiledWorld):
    """A robot and its tasks, each with a cumulant."""

    name: str
    tasks: tuple[str, ...]
    observation_size: int
    action_size: int
    substeps: int  # of physics in one control step
    horizon: int = 1000

    def open(self, questions: Sequence[Any], method: Any, options: Any) -> Any:
        """Twin critics in worlds that run in lockstep."""
        from gvfx_paper.loops.opening import open_domain  # loops are built on worlds

        return open_domain(self, questions, method, options)

    def stepped(self, questions: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        raise InputError(
            "audit: a MuJoCo domain, whose worlds run in lockstep, cannot be audited; give 0, or its Gymnasium twin."
        )


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
        ordered = chosen.ndim == 1 and chosen.dtype.kind in "iu" and (np.diff(chosen) > 0).all()
        if not ordered or (len(chosen) and (chosen[0] < 0 or chosen[-1] >= self.worlds)):
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


# --- observations, cumulants -----------------------------------------------------------------------------------------

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


# --- Images of Walker and Cheetah without a display, and their files: PNG for one image, GIF for several ------------


def render(domain: Domain, state: np.ndarray, width: int = 480, height: int = 360, camera: str = "side") -> np.ndarray:
    """An image of a state [k] of `Lockstep.get_state`, uint8 [height, width, 3]."""
    mujoco = import_mujoco()
    for name, value, most in (("width", width, 1920), ("height", height, 1080)):
        if not isinstance(value, int | np.integer) or not 1 <= value <= most:
            raise InputError(f"{name}: {value!r}; give a number of pixels from 1 to {most}.")
    renderer, data = _renderer(domain.name, int(width), int(height))
    parts = mujoco.mjtState.mjSTATE_INTEGRATION.value
    expected = (mujoco.mj_stateSize(load_model(domain.name), parts),)
    if np.shape(state) != expected:
        raise InputError(f"state: shape {np.shape(state)}; give one world's state, shape {expected}.")
    mujoco.mj_setState(load_model(domain.name), data, np.asarray(state, float), parts)
    mujoco.mj_forward(load_model(domain.name), data)
    renderer.update_scene(data, camera)
    return renderer.render()


@lru_cache(maxsize=4)
def _renderer(name: str, width: int, height: int) -> tuple[Any, Any]:
    mujoco = import_mujoco()
    model = load_model(name)
    try:
        renderer = mujoco.Renderer(model, height, width)
    except Exception as error:  # of any kind that the system's OpenGL raises
        raise NoMuJoCo(f"rendering: OpenGL is unavailable ({error}); set MUJOCO_GL to egl, osmesa or glfw.") from None
    atexit.register(renderer.close)  # before OpenGL is unloaded
    return renderer, mujoco.MjData(model)


def labelled(images: Sequence[tuple[str, np.ndarray]], columns: int) -> np.ndarray:
    """Images of one size in a grid with this number of columns, each with its name in the corner, uint8 [height, width, 3]."""
    height, width = images[0][1].shape[:2]
    sheet = Image.new("RGB", (columns * width, -(-len(images) // columns) * height))
    for k, (name, image) in enumerate(images):
        shown = Image.fromarray(image)
        ImageDraw.Draw(shown).text((4, 4), name, fill=(0, 0, 0))
        sheet.paste(shown, (k % columns * width, k // columns * height))
    return np.asarray(sheet)


def save_film(path: Path | str | IO[bytes], images: Iterable[np.ndarray], seconds: float = 0.05) -> None:
    """Save images as a looping GIF that shows each for `seconds`."""
    first, *rest = (Image.fromarray(image) for image in images)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0)


# --- Walker and Cheetah behind Gymnasium's interface: gymnasium.make("gvfx/Walker-v0"), gymnasium.make("gvfx/Cheetah-v0")


class MujocoEnv(gymnasium.Env):
    """One world of a domain of `gvfx_paper.worlds.mujoco`.

    Observation: float64 [o].  Reward: the cumulant of `task` (by default the domain's first); info["cumulants"] has the
    cumulants of all tasks by name.  Episodes are truncated at the domain's horizon (1000) and never terminate.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 40}

    def __init__(
        self,
        domain: Domain | str = "walker",
        task: str | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ) -> None:
        self.domain = domain_named(domain) if isinstance(domain, str) else domain
        self.task = self.domain.tasks[0] if task is None else task
        if self.task not in self.domain.tasks:
            raise UnknownName("task", str(task), self.domain.tasks)
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode: {render_mode!r} is not supported; give 'rgb_array' or leave it out.")
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.domain.observation_size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.domain.action_size,), np.float32)
        self._size = (width, height)
        self._world = Lockstep(self.domain, 1)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._world.reset(self.np_random)[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observations, cumulants = self._world.step(np.asarray(action, float)[None])
        self._steps += 1
        named = dict(zip(self.domain.tasks, cumulants[0].tolist(), strict=True))
        return observations[0], named[self.task], False, self._steps >= self.domain.horizon, {"cumulants": named}

    def render(self) -> np.ndarray | None:
        return render(self.domain, self._world.get_state()[0], *self._size) if self.render_mode else None
