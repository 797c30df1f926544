"""World: what gvfx can step by itself."""

from __future__ import annotations

from gvfx.worlds.continuous_grid import ContinuousGrid
from gvfx.worlds.mdp import MDP
from gvfx.worlds.mujoco import Domain

# A finite world of your own is an MDP (`gvfx.MDP.from_matrix`, `gvfx.gridworld`, or a subclass that fills in its arrays);
# every other world of your own is a Gymnasium environment, which `gvfx.evaluate` steps as it is.
World = MDP | ContinuousGrid | Domain
