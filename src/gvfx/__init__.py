"""gvfx: answer many predictive questions from one stream of experience, with as few steps as possible.

The public names are listed in `__init__.pyi`, which type checkers read too, and imported on first use.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium

__version__ = "0.1.0"

_LISTED = Path(__file__).with_suffix(".pyi").read_text()
_HOME_OF = {name: home for home, name in re.findall(r"^from (gvfx[\w.]*) import (\w+) as", _LISTED, re.MULTILINE)}
__all__ = sorted(_HOME_OF)

for _name, _entry_point, _kwargs in (
    ("gvfx/ContinuousGrid-v0", "gvfx.worlds.continuous_grid:ContinuousGridEnv", {}),
    ("gvfx/Walker-v0", "gvfx.worlds.control_env:ControlEnv", {"domain": "walker"}),
    ("gvfx/Cheetah-v0", "gvfx.worlds.control_env:ControlEnv", {"domain": "cheetah"}),
):
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_entry_point, kwargs=_kwargs)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gvfx' has no attribute {name!r}")
    home = _HOME_OF[name]
    module = import_module(home)
    value = getattr(module, name) if hasattr(module, name) else import_module(f"{home}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
