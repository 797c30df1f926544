"""How close to the statistical limit: behaviours times learners, measured against the optimum of the error theory.

Where cumulants stand still the optimum's constant is known (`gvfx.design`), and MSE times steps over it says how many times
more data than the best possible behaviour a method needs.  With a drifting cumulant there is no such constant: there the
paper's own methods are the measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gvfx.design import constant, optimal
from gvfx.experiments.paper import paper
from gvfx.experiments.specification import Experiment
from gvfx.running.planning import DESIGNS

CE, SARSA = "CertaintyEquivalence", "ExpectedSarsa"
STATIONARY = ("same", "distinct", "semi-greedy", "forty", "fourrooms-stationary")
AVERAGED = STATIONARY[:4]  # the settings of the paper among them
DRIFTING = "fourrooms"
METHODS = {  # learner -> behaviours
    CE: (
        "OptimalDesign",
        "GVFExplorer",
        "SecondMoment",
        "CharacteristicTime",
        "Uniform",
        "RobustSampling",
        "Mixture",
        "RoundRobin",
    ),
    SARSA: ("OptimalDesign", "GVFExplorer"),
}
TIMES = (100_000, 500_000, 2_000_000)
MEASUREMENTS = 200


@dataclass(frozen=True)
class LimitCurve:
    """One behaviour with one learner on one setting; Expected Sarsa has the published rates."""

    setting: str
    method: str
    learner: str = CE

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


@cache
def _experiment(curve: LimitCurve) -> Experiment:
    return paper[curve.setting].experiment(curve.method, "paper", curve.learner, measurements=MEASUREMENTS)


def setting_curves(setting: str) -> list[LimitCurve]:
    """Every behaviour with every learner it is shown with."""
    return [LimitCurve(setting, m, learner) for learner, methods in METHODS.items() for m in methods]


def stationary_curves() -> list[LimitCurve]:
    return [c for setting in STATIONARY for c in setting_curves(setting)]


@cache
def optimum(setting: str) -> float:
    """MSE times steps of the best stationary behaviour, as steps grow."""
    return optimal(paper[setting].world, paper[setting].questions).constant


@cache
def predicted(setting: str, method: str) -> float | None:
    """What MSE times steps over the optimum tends to with certainty equivalence, where the theory says it."""
    if method == "OptimalDesign":
        return 1.0
    made = DESIGNS.get({"RobustSampling": "Mixture"}.get(method, method))
    s = paper[setting]
    return None if made is None else constant(s.world, s.questions, made(s.world, s.questions)) / optimum(setting)
