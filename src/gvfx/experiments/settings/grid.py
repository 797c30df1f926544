"""The continuous grid of the paper (Sec. 7.2, App. B.4) as data: methods, replays, published and recommended settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Uniform
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.wrappers import Blend, Epsilon, Floor
from gvfx.experiments.settings.choices import behaviours_for, checked, checked_method
from gvfx.experiments.settings.tabular import DISCOUNT, PI_1, PI_2
from gvfx.experiments.specification import Experiment
from gvfx.learners.networks.deep import Deep
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF
from gvfx.schedules import Linear
from gvfx.worlds.continuous_grid import ContinuousGrid, authors_grid, paper_grid

STEPS = 1_000_000  # Table 3 (tab:mse_in_cont_env)
SEEDS = 10  # the paper has 50; `--seeds 50` runs them
EPSILON = Linear(1.0, 0.0, 4000)
METHODS = ("SR", "Mixture", "RoundRobin", "Uniform", "GVFExplorer")
RATES = {"GVFExplorer": 5e-3, "RoundRobin": 5e-4, "Mixture": 5e-4, "SR": 1e-3, "Uniform": 5e-3}  # Table 2; Uniform is ours
TUNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)
TUNING_STEPS, TUNING_SEEDS = 400_000, 2
PRIORITY_SEEDS = 2
REPLAYS = ("uniform", "prioritised")
PRESETS = ("paper", "authors", "recommended")
PUBLISHED = {  # Table 3
    "uniform": {"SR": 21.7, "Mixture": 18.25, "RoundRobin": 16.78, "GVFExplorer": 5.19},
    "prioritised": {"SR": 112.0, "Mixture": 14.7, "RoundRobin": 11.62, "GVFExplorer": 3.87},
}
BEHAVIOURS: dict[str, Behaviour] = {
    **{name: kind() for name, kind in behaviours_for("networks").items()},
    "SR": SuccessorRepresentation(temperature=10.0),
    "Explorer+Uniform": Blend(GVFExplorer(), Uniform(), 0.5),
}
RECOMMENDED = Deep(rate_q=2e-3, rate_m=2e-3, capacity=1_000_000, final_rate=0.03, waves=32)
RECOMMENDED_METHODS = ("Uniform", "GVFExplorer", "Explorer+Uniform")


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


@dataclass(frozen=True)
class ContinuousSetting:
    """The continuous grid as a setting for any behaviour with networks, with presets paper, authors and recommended."""

    name: str = "continuous"
    title: str = "Continuous grid, two goals, networks"
    section: str = "Sec. 7.2, App. B.4"
    steps: int = STEPS
    world: ContinuousGrid = field(default_factory=paper_grid)
    questions: tuple[GVF, ...] = field(default_factory=lambda: questions())

    def experiment(
        self,
        behaviour: str,
        preset: str = "paper",
        learner: str | None = None,
        rate_q: float | None = None,
        rate_m: float | None = None,
        steps: int | None = None,
        measurements: int = 50,
        replay: str = "uniform",
        priority: str = "q",
    ) -> Experiment:
        """One curve as data; both rates default to the published one (rate_m to rate_q)."""
        behaviour = checked_method(behaviour, BEHAVIOURS)
        preset = checked("preset", preset, dict.fromkeys(PRESETS))
        checked("learner", learner or "Deep", {"Deep": None})
        steps = self.steps if steps is None else steps
        if preset == "recommended":
            q = rate_q or RECOMMENDED.rate_q
            deep = replace(RECOMMENDED, rate_q=q, rate_m=rate_m or q, replay=replay, priority=priority)  # type: ignore[arg-type]
        else:
            q = rate_q or RATES.get(behaviour, 5e-3)
            m_every = 4 if preset == "authors" else 8
            deep = Deep(rate_q=q, rate_m=rate_m or q, m_every=m_every, replay=replay, priority=priority)  # type: ignore[arg-type]
        return Experiment(
            world=authors_grid() if preset == "authors" else self.world,
            questions=self.questions,
            behaviour=Floor(Epsilon(BEHAVIOURS[behaviour], EPSILON)),
            learner=deep,
            steps=steps,
            evaluate_every=max(1, steps // measurements // deep.block) * deep.block,
            snapshots=(steps * 9 // 10,) if steps == STEPS else (),
        )


CONTINUOUS = ContinuousSetting()


@cache
def _experiment(curve: DeepCurve) -> Experiment:
    return CONTINUOUS.experiment(
        curve.method, curve.preset, rate_q=curve.rate, steps=curve.steps, replay=curve.replay, priority=curve.priority
    )


def table_curves() -> list[DeepCurve]:
    """Table 3: every method with both replays."""
    return [DeepCurve(m, r) for r in REPLAYS for m in METHODS]


def tuning_curves() -> list[DeepCurve]:
    """The tuning protocol of every method: four learning rates."""
    return [DeepCurve(m, rate=rate, steps=TUNING_STEPS) for m in METHODS for rate in TUNING_RATES]


def recommended_curves() -> list[DeepCurve]:
    return [DeepCurve(m, preset="recommended") for m in RECOMMENDED_METHODS]
