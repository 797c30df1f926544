"""How close to the statistical limit: behaviours times learners, measured against the optimum of the error theory.

For stationary cumulants the optimum's constant is known (`gvfx.design`), and MSE times steps divided by it is how many times
more data a method needs than the best possible behaviour.  With a drifting cumulant there is no such constant, and the paper's
own methods are the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from gvfx.evidence.uncertainty import error_below
from gvfx.experiments.specification import Experiment
from gvfx.running.costs import DESIGNS
from gvfx.theory.design import constant, optimal
from gvfx_paper.settings.tabular import paper

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

    preset: ClassVar[str] = "paper"

    @property
    @cache  # noqa: B019
    def experiment(self) -> Experiment:
        often = (self.method, self.learner) in MAIN
        measurements = 1 if self.steps is not None else MEASUREMENTS if often else FEWER
        made = paper[self.setting].experiment(self.method, "paper", self.learner, steps=self.steps, measurements=measurements)
        return made if self.target is None else replace(made, until=error_below(self.target))


STATIONARY_CURVES = [LimitCurve(s, m, learner) for s in STATIONARY for learner, methods in METHODS.items() for m in methods]
MAIN_CURVES = [LimitCurve(setting, *pair) for setting in STATIONARY for pair in MAIN]
DRIFT_CURVES = [LimitCurve(DRIFTING, *pair) for pair in DRIFT]
COVERAGE_CURVES = [LimitCurve(setting, "OptimalDesign", CE, COVERED_AFTER) for setting in TARGETS]
STOP_CURVES = [LimitCurve(setting, "OptimalDesign", CE, MOST_STEPS, target) for setting, target in TARGETS.items()]


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
