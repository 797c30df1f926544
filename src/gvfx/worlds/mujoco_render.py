"""Images of Walker and Cheetah without a display, and their files: PNG for one image, GIF for several."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image, ImageDraw

from gvfx.errors import InputError
from gvfx.worlds.mujoco import Domain, NoMuJoCo, import_mujoco, load_model


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


def save_still(path: Path | str, image: np.ndarray) -> None:
    """Save one image as a PNG file."""
    Image.fromarray(image).save(path)


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
