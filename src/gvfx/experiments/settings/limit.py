"""How close to the statistical limit: behaviours times learners, measured against the optimum of the error theory.

For stationary cumulants the optimum's constant is known (`gvfx.design`), and MSE times steps divided by it is how many times
more data a method needs than the best possible behaviour.  With a drifting cumulant there is no such constant, and the paper's
own methods are the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gvfx.evidence.uncertainty import error_below
from gvfx.experiments.settings.tabular import paper
from gvfx.experiments.specification import Experiment
from gvfx.running.planning import DESIGNS
from gvfx.theory.design import constant, optimal

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
MAIN = (("OptimalDesign", CE), ("GVFExplorer", SARSA))  # our best method and the paper's, measured more often
MEASUREMENTS, FEWER = 200, 20  # measurements per run, of those two and of all others
DRIFT = (MAIN[0], ("GVFExplorer", CE), ("Uniform", CE))  # in addition to the paper's methods when a cumulant drifts
COVERED_AFTER = 100_000  # steps after which intervals are checked
COVERAGE_RUNS = 400
TARGETS = {"same": 0.15, "distinct": 0.05, "semi-greedy": 0.5}  # settings of both studies, and their target errors
MOST_STEPS = 1_000_000  # maximum length of a run with a stopping rule
STOPS = 200


@dataclass(frozen=True)
class LimitCurve:
    """One behaviour with one learner on one setting; Expected Sarsa has the published rates."""

    setting: str
    method: str
    learner: str = CE
    steps: int | None = None  # None: the setting's, measured during the run; otherwise measured only at the end
    target: float | None = None  # the target error of the stopping rule

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


@cache
def _experiment(curve: LimitCurve) -> Experiment:
    often = (curve.method, curve.learner) in MAIN
    measurements = 1 if curve.steps is not None else MEASUREMENTS if often else FEWER
    made = paper[curve.setting].experiment(curve.method, "paper", curve.learner, steps=curve.steps, measurements=measurements)
    return made if curve.target is None else replace(made, until=error_below(curve.target))


def setting_curves(setting: str) -> list[LimitCurve]:
    """The curves of every behaviour and learner of a setting."""
    return [LimitCurve(setting, m, learner) for learner, methods in METHODS.items() for m in methods]


def stationary_curves() -> list[LimitCurve]:
    return [c for setting in STATIONARY for c in setting_curves(setting)]


def main_pairs() -> list[LimitCurve]:
    return [LimitCurve(setting, *pair) for setting in STATIONARY for pair in MAIN]


def drift_curves() -> list[LimitCurve]:
    return [LimitCurve(DRIFTING, *pair) for pair in DRIFT]


def coverage_curves() -> list[LimitCurve]:
    """OptimalDesign, for the coverage of its intervals."""
    return [LimitCurve(setting, "OptimalDesign", CE, COVERED_AFTER) for setting in TARGETS]


def stop_curves() -> list[LimitCurve]:
    """OptimalDesign with the stopping rule."""
    return [LimitCurve(setting, "OptimalDesign", CE, MOST_STEPS, target) for setting, target in TARGETS.items()]


@cache
def optimum(setting: str) -> float:
    """The limit of MSE times steps for the best stationary behaviour."""
    return optimal(paper[setting].world, paper[setting].questions).constant


@cache
def predicted(setting: str, method: str) -> float | None:
    """The theory's limit of MSE times steps, relative to the optimum, with certainty equivalence; None if unknown."""
    if method == "OptimalDesign":
        return 1.0
    made = DESIGNS.get({"RobustSampling": "Mixture"}.get(method, method))
    s = paper[setting]
    return None if made is None else constant(s.world, s.questions, made(s.world, s.questions)) / optimum(setting)
