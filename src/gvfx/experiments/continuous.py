"""The continuous grid of the paper (Sec. 7.2, App. B.4) as data: methods, replays, published and recommended settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture, RoundRobin, Uniform
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.wrappers import Blend, Epsilon, Floor
from gvfx.cumulants import Signal
from gvfx.experiments.paper import DISCOUNT, PI_1, PI_2
from gvfx.experiments.specification import Experiment
from gvfx.gvf import GVF
from gvfx.learners.deep import Deep
from gvfx.schedules import Linear
from gvfx.worlds.continuous_grid import authors_grid, paper_grid

STEPS = 1_000_000  # Table 3 (tab:mse_in_cont_env)
SEEDS = 10  # the paper has 50; `--seeds 50` runs them
EPSILON = Linear(1.0, 0.0, 4000)
METHODS = ("SR", "Mixture", "RoundRobin", "Uniform", "GVFExplorer")
RATES = {"GVFExplorer": 5e-3, "RoundRobin": 5e-4, "Mixture": 5e-4, "SR": 1e-3, "Uniform": 5e-3}  # Table 2; Uniform is ours
TUNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)
TUNING_STEPS, TUNING_SEEDS = 400_000, 3
REPLAYS = ("uniform", "prioritised")
PUBLISHED = {  # Table 3
    "uniform": {"SR": 21.7, "Mixture": 18.25, "RoundRobin": 16.78, "GVFExplorer": 5.19},
    "prioritised": {"SR": 112.0, "Mixture": 14.7, "RoundRobin": 11.62, "GVFExplorer": 3.87},
}
BEHAVIOURS: dict[str, Behaviour] = {
    "SR": SuccessorRepresentation(temperature=10.0),
    "Mixture": Mixture(),
    "RoundRobin": RoundRobin(),
    "Uniform": Uniform(),
    "GVFExplorer": GVFExplorer(),
    "Explorer+Uniform": Blend(GVFExplorer(), Uniform(), 0.5),
}
RECOMMENDED = Deep(rate_q=2e-3, rate_m=2e-3, batch=256, capacity=1_000_000, final_rate=0.03)
RECOMMENDED_METHODS = ("Mixture", "Uniform", "GVFExplorer", "Explorer+Uniform")


@dataclass(frozen=True)
class DeepCurve:
    """One line of a continuous-grid figure."""

    method: str
    replay: str = "uniform"
    preset: str = "paper"  # "paper", "authors" or "recommended"
    priority: str = "q"
    rate: float | None = None
    steps: int = STEPS

    @property
    def setting(self) -> str:
        return "continuous"

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


def questions() -> tuple[GVF, ...]:
    """The two GVFs: the paper's policies with the left and the right goal."""
    return tuple(GVF(pi, Signal(name), DISCOUNT, name=name) for pi, name in ((PI_1, "left"), (PI_2, "right")))


@cache
def _experiment(curve: DeepCurve) -> Experiment:
    rate = curve.rate or RATES.get(curve.method, 5e-3)
    if curve.preset == "recommended":
        learner = RECOMMENDED if curve.rate is None else replace(RECOMMENDED, rate_q=curve.rate, rate_m=curve.rate)
    else:
        m_every = 4 if curve.preset == "authors" else 8
        learner = Deep(rate_q=rate, rate_m=rate, m_every=m_every, replay=curve.replay, priority=curve.priority)  # type: ignore[arg-type]
    pictures = (curve.steps * 9 // 10,) if curve.steps == STEPS else ()
    return Experiment(
        world=authors_grid() if curve.preset == "authors" else paper_grid(),
        questions=questions(),
        behaviour=Floor(Epsilon(BEHAVIOURS[curve.method], EPSILON)),
        learner=learner,
        steps=curve.steps,
        evaluate_every=curve.steps // 50,
        snapshots=pictures,
    )


def table_curves() -> list[DeepCurve]:
    """Table 3: every method with both replays."""
    return [DeepCurve(m, r) for r in REPLAYS for m in METHODS]


def tuning_curves() -> list[DeepCurve]:
    """One protocol for every method: four learning rates."""
    return [DeepCurve(m, rate=rate, steps=TUNING_STEPS) for m in METHODS for rate in TUNING_RATES]


def recommended_curves() -> list[DeepCurve]:
    return [DeepCurve(m, preset="recommended") for m in RECOMMENDED_METHODS]
