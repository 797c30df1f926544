"""gvfx_paper: the experiments of the GVFExplorer paper (NeurIPS 2024), written with what any user of gvfx can use.

Settings, tables and figures; the continuous grid and the MuJoCo domains with their compiled loops and true values; the authors'
variants; target policies trained by TD3.  `gymnasium.make("gvfx_paper:gvfx/ContinuousGrid-v0")` makes the environments.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium

from gvfx.running.schema import declare

HOME_OF = {  # public name -> the module that defines it, imported on first use
    "ContinuousGrid": "gvfx_paper.worlds.continuous_grid",
    "Domain": "gvfx_paper.worlds.mujoco",
    "EpisodicExpectedSarsa": "gvfx_paper.authors",
    "RandomPolicies": "gvfx_paper.authors",
    "Target": "gvfx_paper.targets",
    "VarianceSoftmax": "gvfx_paper.authors",
    "paper": "gvfx_paper.settings.tabular",
}
PARTS = tuple(home for name, home in HOME_OF.items() if name != "paper")  # modules with parts of experiments (`gvfx.parts`)

__all__ = sorted(HOME_OF)

for _name, _entry_point, _kwargs in (
    ("gvfx/ContinuousGrid-v0", "gvfx_paper.worlds.continuous_grid:ContinuousGridEnv", {}),
    ("gvfx/Walker-v0", "gvfx_paper.worlds.mujoco:MujocoEnv", {"domain": "walker"}),
    ("gvfx/Cheetah-v0", "gvfx_paper.worlds.mujoco:MujocoEnv", {"domain": "cheetah"}),
):
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_entry_point, kwargs=_kwargs)

declare("mse_outside", "t gvf", "continuous grid: mean squared error in the cells outside the goals' discs")
declare("actor", "weight", "MuJoCo domains: the behaviour's actor at the end", single=True)
declare("critics", "twin", "likewise: the twins of M, if the behaviour chooses by them", single=True)


def __getattr__(name: str) -> Any:
    if name not in HOME_OF:
        raise AttributeError(f"module 'gvfx_paper' has no attribute {name!r}")
    return getattr(import_module(HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
