"""gvfx: answer many predictive questions from one stream of experience, with as few steps as possible.

The public names are listed in `__init__.pyi`, which type checkers read too, and imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium

from gvfx.names import HOME_OF

__version__ = "0.2.0"  # the only place that says it; pyproject.toml reads it here

__all__ = sorted(HOME_OF)

for _name, _entry_point, _kwargs in (
    ("gvfx/ContinuousGrid-v0", "gvfx.worlds.continuous_grid:ContinuousGridEnv", {}),
    ("gvfx/Walker-v0", "gvfx.worlds.mujoco_env:MujocoEnv", {"domain": "walker"}),
    ("gvfx/Cheetah-v0", "gvfx.worlds.mujoco_env:MujocoEnv", {"domain": "cheetah"}),
):
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_entry_point, kwargs=_kwargs)


def __getattr__(name: str) -> Any:
    if name not in HOME_OF:
        raise AttributeError(f"module 'gvfx' has no attribute {name!r}")
    home = HOME_OF[name]
    found = None if home == __name__ else getattr(import_module(home), name, None)
    value = import_module(f"{home}.{name}") if found is None else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
