"""gvfx: answer many predictive questions from one stream of experience, with as few steps as possible.

The public names are listed one by one below and imported on first use, so that `gvfx --help` stays instant.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gvfx import design as design
    from gvfx import exact as exact
    from gvfx.behaviours.actor import Actor as Actor
    from gvfx.behaviours.explorer import GVFExplorer as GVFExplorer
    from gvfx.behaviours.fixed import Follow as Follow
    from gvfx.behaviours.fixed import Mixture as Mixture
    from gvfx.behaviours.fixed import RandomPolicies as RandomPolicies
    from gvfx.behaviours.fixed import RoundRobin as RoundRobin
    from gvfx.behaviours.fixed import Uniform as Uniform
    from gvfx.behaviours.optimal import OptimalDesign as OptimalDesign
    from gvfx.behaviours.rivals import CharacteristicTime as CharacteristicTime
    from gvfx.behaviours.rivals import RobustSampling as RobustSampling
    from gvfx.behaviours.rivals import SecondMoment as SecondMoment
    from gvfx.behaviours.search import BehaviourPolicySearch as BehaviourPolicySearch
    from gvfx.behaviours.successor import SuccessorRepresentation as SuccessorRepresentation
    from gvfx.behaviours.wrappers import Blend as Blend
    from gvfx.behaviours.wrappers import Epsilon as Epsilon
    from gvfx.behaviours.wrappers import Floor as Floor
    from gvfx.behaviours.wrappers import Hold as Hold
    from gvfx.cumulants import Constant as Constant
    from gvfx.cumulants import Distractor as Distractor
    from gvfx.cumulants import Drifter as Drifter
    from gvfx.cumulants import Signal as Signal
    from gvfx.cumulants import table_cumulant as table_cumulant
    from gvfx.errors import InputError as InputError
    from gvfx.experiments.paper import paper as paper
    from gvfx.gvf import GVF as GVF
    from gvfx.learners.continuous import TwinCritics as TwinCritics
    from gvfx.learners.deep import Deep as Deep
    from gvfx.learners.episodic import EpisodicExpectedSarsa as EpisodicExpectedSarsa
    from gvfx.learners.model import CertaintyEquivalence as CertaintyEquivalence
    from gvfx.learners.tabular import ExpectedSarsa as ExpectedSarsa
    from gvfx.learners.tabular import ImportanceSampling as ImportanceSampling
    from gvfx.policies import callable_policy as callable_policy
    from gvfx.policies import constant_policy as constant_policy
    from gvfx.policies import deterministic_policy as deterministic_policy
    from gvfx.policies import from_sb3 as from_sb3
    from gvfx.policies import gaussian_policy as gaussian_policy
    from gvfx.policies import mixture_policy as mixture_policy
    from gvfx.policies import own_greedy as own_greedy
    from gvfx.policies import own_softmax as own_softmax
    from gvfx.policies import table_policy as table_policy
    from gvfx.policies import uniform_policy as uniform_policy
    from gvfx.running.evaluate import evaluate as evaluate
    from gvfx.running.logs import Log as Log
    from gvfx.running.planning import plan as plan
    from gvfx.running.result import Result as Result
    from gvfx.running.saved import load as load
    from gvfx.running.stepping import EnvironmentFailed as EnvironmentFailed
    from gvfx.running.tracking import JsonLines as JsonLines
    from gvfx.running.tracking import TensorBoard as TensorBoard
    from gvfx.running.tracking import WeightsAndBiases as WeightsAndBiases
    from gvfx.schedules import Fixed as Fixed
    from gvfx.schedules import Geometric as Geometric
    from gvfx.schedules import Linear as Linear
    from gvfx.signals import Info as Info
    from gvfx.signals import Measure as Measure
    from gvfx.signals import Reward as Reward
    from gvfx.uncertainty import error_below as error_below
    from gvfx.worlds.check import Finding as Finding
    from gvfx.worlds.check import check as check
    from gvfx.worlds.gridworld import four_rooms as four_rooms
    from gvfx.worlds.gridworld import gridworld as gridworld
    from gvfx.worlds.mdp import MDP as MDP
    from gvfx.worlds.monte_carlo import MonteCarlo as MonteCarlo
    from gvfx.worlds.monte_carlo import truth_of as truth_of
    from gvfx.worlds.target_policies import Target as Target
    from gvfx.worlds.toy_text import from_gymnasium as from_gymnasium

_HOMES = {
    "behaviours.actor": ["Actor"],
    "behaviours.explorer": ["GVFExplorer"],
    "behaviours.fixed": ["Follow", "Mixture", "RandomPolicies", "RoundRobin", "Uniform"],
    "behaviours.optimal": ["OptimalDesign"],
    "behaviours.rivals": ["CharacteristicTime", "RobustSampling", "SecondMoment"],
    "behaviours.search": ["BehaviourPolicySearch"],
    "behaviours.successor": ["SuccessorRepresentation"],
    "behaviours.wrappers": ["Blend", "Epsilon", "Floor", "Hold"],
    "cumulants": ["Constant", "Distractor", "Drifter", "Signal", "table_cumulant"],
    "errors": ["InputError"],
    "experiments.paper": ["paper"],
    "gvf": ["GVF"],
    "learners.continuous": ["TwinCritics"],
    "learners.deep": ["Deep"],
    "learners.episodic": ["EpisodicExpectedSarsa"],
    "learners.model": ["CertaintyEquivalence"],
    "learners.tabular": ["ExpectedSarsa", "ImportanceSampling"],
    "policies": [
        "callable_policy",
        "constant_policy",
        "deterministic_policy",
        "from_sb3",
        "gaussian_policy",
        "mixture_policy",
        "own_greedy",
        "own_softmax",
        "table_policy",
        "uniform_policy",
    ],
    "running.evaluate": ["evaluate"],
    "running.planning": ["plan"],
    "running.logs": ["Log"],
    "running.result": ["Result"],
    "running.saved": ["load"],
    "running.stepping": ["EnvironmentFailed"],
    "running.tracking": ["JsonLines", "TensorBoard", "WeightsAndBiases"],
    "schedules": ["Fixed", "Geometric", "Linear"],
    "uncertainty": ["error_below"],
    "signals": ["Info", "Measure", "Reward"],
    "worlds.check": ["Finding", "check"],
    "worlds.gridworld": ["four_rooms", "gridworld"],
    "worlds.mdp": ["MDP"],
    "worlds.monte_carlo": ["MonteCarlo", "truth_of"],
    "worlds.toy_text": ["from_gymnasium"],
    "worlds.target_policies": ["Target"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("design", "exact")
__all__ = sorted([*_HOME_OF, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"gvfx.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gvfx' has no attribute {name!r}")
    value = getattr(import_module(f"gvfx.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_ENVIRONMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "gvfx/ContinuousGrid-v0": ("gvfx.worlds.continuous_grid:ContinuousGridEnv", {}),
    "gvfx/Walker-v0": ("gvfx.worlds.control_env:ControlEnv", {"domain": "walker"}),
    "gvfx/Cheetah-v0": ("gvfx.worlds.control_env:ControlEnv", {"domain": "cheetah"}),
}


def _register(gymnasium: Any) -> None:
    for name, (entry_point, kwargs) in _ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point, kwargs=kwargs)


class _WhenGymnasiumIsImported:
    """Registers our environments once Gymnasium is imported: it has no plugins since 1.0, and `import gvfx` must not load it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == "gymnasium" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: Any) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if "gymnasium" in sys.modules:
    _register(sys.modules["gymnasium"])
else:
    sys.meta_path.insert(0, _WhenGymnasiumIsImported())
