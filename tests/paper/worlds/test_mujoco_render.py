"""Pictures and films of Walker and Cheetah."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from helpers.mujoco_worlds import BOTH
from PIL import Image

from gvfx.errors import InputError
from gvfx_paper.worlds import mujoco as mujoco_render


@BOTH
def test_pictures(domain, tmp_path):
    env = gymnasium.make(f"gvfx/{domain.name.title()}-v0", render_mode="rgb_array", width=160, height=120)
    env.reset(seed=0)
    try:
        images = [env.render()]
    except InputError as error:
        pytest.skip(str(error))
    for _ in range(20):
        env.step(env.action_space.sample())
    images.append(env.render())
    for image in images:
        assert image.shape == (120, 160, 3) and image.dtype == np.uint8
        assert image.std() > 10 and len(np.unique(image.reshape(-1, 3), axis=0)) > 100
        red, blue = image[..., 0].astype(int), image[..., 2].astype(int)
        assert (red > blue + 50).sum() > 50  # the orange torso is in the picture
    assert (images[0] != images[1]).any()
    state = env.unwrapped._world.get_state()[0]
    np.testing.assert_array_equal(mujoco_render.render(domain, state, 160, 120), images[1])

    mujoco_render.save_film(tmp_path / "film.gif", images)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 2 and film.size == (160, 120)
