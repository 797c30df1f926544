"""The continuous grid of the paper (Sec. 7.2, App. B.4) as data: methods, replays, published and recommended settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Uniform
from gvfx.behaviours.optimal import OptimalDesign
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.variance_softmax import VarianceSoftmax
from gvfx.behaviours.wrappers import Blend, Epsilon, Floor
from gvfx.experiments.settings.choices import behaviours_for, checked, checked_method
from gvfx.experiments.settings.tabular import DISCOUNT, PI_1, PI_2
from gvfx.experiments.specification import Experiment
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.networks.deep import Deep
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF
from gvfx.schedules import Linear
from gvfx.worlds.continuous_grid import ContinuousGrid, authors_grid, paper_grid

STEPS = 1_000_000  # Table 3 (tab:mse_in_cont_env)
SEEDS = 10  # the paper has 50; `--seeds 50` runs them
EPSILON = Linear(1.0, 0.0, 4000)
SR_SEEDS = 5  # of SR, whose updates take four times as long
PRIORITY_SEEDS = 3  # of priorities other than the error of Q
AUTHORS_SEEDS = 2  # of the preset `authors`
METHODS = ("SR", "Mixture", "RoundRobin", "Uniform", "GVFExplorer")
OURS = "GVFExplorer"  # the paper's method
LINEAR = LinearCertaintyEquivalence.__name__
AUTHORS_METHODS = METHODS[1:]  # their SR on networks is another algorithm (a policy gradient), which gvfx does not have
RATES = {"GVFExplorer": 5e-3, "RoundRobin": 5e-4, "Mixture": 5e-4, "SR": 1e-3, "Uniform": 5e-3}  # Table 2; Uniform is ours
TUNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)
TUNING_STEPS, TUNING_SEEDS, FIRST_TUNING_SEED = 400_000, 4, 100  # rates are chosen on other seeds than those reported
REPLAYS = ("uniform", "prioritised")
PRESETS = ("paper", "authors", "stabilised", "recommended")
PUBLISHED = {  # Table 3
    "uniform": {"SR": 21.7, "Mixture": 18.25, "RoundRobin": 16.78, "GVFExplorer": 5.19},
    "prioritised": {"SR": 112.0, "Mixture": 14.7, "RoundRobin": 11.62, "GVFExplorer": 3.87},
}
PUBLISHED_LEADS = {"uniform": 69.0, "prioritised": 66.0}  # its last column, in percent
BEHAVIOURS: dict[str, Behaviour] = {
    **{name: kind() for name, kind in behaviours_for("networks").items()},
    "SR": SuccessorRepresentation(temperature=10.0),
    "Explorer+Uniform": Blend(GVFExplorer(), Uniform(), 0.5),
}
STABILISED: dict[str, Any] = {"m_output": "exp"}  # what the preset `stabilised` changes of GVFExplorer's learner: M in log space
AUTHORS_PER = (0.6, 0.2)  # alpha, beta_share in the authors' launchers: of the baselines,
AUTHORS_EXPLORER_PER = (0.8, 0.6)  # and of GVFExplorer
RECOMMENDED = Deep(rate_q=2e-3, rate_m=2e-3, capacity=1_000_000, final_rate=0.03, waves=32)
RECOMMENDED_METHODS = ("Uniform", "GVFExplorer", "Explorer+Uniform")
TRIAL_STEPS = 500_000
TRIAL_RATES = (5e-3, 1e-3)
TRIALS: dict[str, tuple[Behaviour, float, dict[str, Any]]] = {  # one change at a time: behaviour, floor, learner's options
    "as printed": (GVFExplorer(), 1e-3, {}),
    "M at least 0.1 (as the authors)": (GVFExplorer(smallest_m=0.1), 1e-3, {}),
    "M at least 1": (GVFExplorer(smallest_m=1.0), 1e-3, {}),
    "learning rates fall to 3 %": (GVFExplorer(), 1e-3, {"final_rate": 0.03}),
    "mu at least 0.05": (GVFExplorer(), 0.05, {}),
    "mu at least 0.1": (GVFExplorer(), 0.1, {}),
    "M in log space": (GVFExplorer(), 1e-3, STABILISED),
}


@dataclass(frozen=True)
class DeepCurve:
    """One line of a continuous-grid figure."""

    method: str
    replay: str = "uniform"
    preset: str = "paper"  # one of PRESETS
    priority: str = "q"
    rate: float | None = None
    steps: int = STEPS
    first_seed: int = 0
    trial: str | None = None  # one of TRIALS

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
        preset = checked("preset", preset, dict.fromkeys(PRESETS))
        learner = checked("learner", learner or "Deep", {"Deep": None, LINEAR: None})
        steps = self.steps if steps is None else steps
        if learner == LINEAR:
            return self._linear(behaviour, preset, steps, measurements)
        behaviour = checked_method(behaviour, BEHAVIOURS)
        deep = self._learner(behaviour, preset, rate_q, rate_m, {"replay": replay, "priority": priority})
        return Experiment(
            world=authors_grid() if preset == "authors" else self.world,
            questions=self.questions,
            behaviour=self._behaviour(behaviour, preset),
            learner=deep,
            steps=steps,
            evaluate_every=max(1, steps // measurements // deep.block) * deep.block,
            snapshots=(steps * 9 // 10,) if steps == STEPS else (),
        )

    def _linear(self, name: str, preset: str, steps: int, measurements: int) -> Experiment:
        """A behaviour with linear features instead of networks."""
        known: dict[str, Behaviour] = {b: BEHAVIOURS[b] for b in BEHAVIOURS if "linear" in BEHAVIOURS[b].supports}
        name = checked_method(name, {"OptimalDesign": OptimalDesign(), **known})
        return Experiment(
            world=authors_grid() if preset == "authors" else self.world,
            questions=self.questions,
            behaviour=OptimalDesign() if name == "OptimalDesign" else self._behaviour(name, preset),
            learner=LinearCertaintyEquivalence(),
            steps=steps,
            evaluate_every=max(1, steps // measurements),
        )

    def _behaviour(self, name: str, preset: str) -> Behaviour:
        """A method's behaviour, random early on; the authors' code has no lower bound on its probabilities."""
        if preset == "authors":
            return Epsilon(VarianceSoftmax() if name == OURS else BEHAVIOURS[name], EPSILON)
        return Floor(Epsilon(BEHAVIOURS[name], EPSILON))

    def _learner(self, name: str, preset: str, rate_q: float | None, rate_m: float | None, replay: dict[str, Any]) -> Deep:
        if preset == "recommended":
            q = rate_q or RECOMMENDED.rate_q
            return replace(RECOMMENDED, rate_q=q, rate_m=rate_m or q, **replay)
        q = rate_q or RATES.get(name, 5e-3)
        deep = Deep(rate_q=q, rate_m=rate_m or q, **replay, **(STABILISED if preset == "stabilised" and name == OURS else {}))
        if preset != "authors":
            return deep
        alpha, beta_share = AUTHORS_EXPLORER_PER if name == OURS else AUTHORS_PER
        return replace(deep, m_every=4, alpha=alpha, beta_share=beta_share)


CONTINUOUS = ContinuousSetting()


@cache
def _experiment(curve: DeepCurve) -> Experiment:
    experiment = CONTINUOUS.experiment(
        curve.method, curve.preset, rate_q=curve.rate, steps=curve.steps, replay=curve.replay, priority=curve.priority
    )
    if curve.trial is None:
        return experiment
    behaviour, floor, options = TRIALS[curve.trial]
    learner = replace(experiment.learner, **options)  # type: ignore[type-var]
    return replace(experiment, behaviour=Floor(Epsilon(behaviour, EPSILON), floor), learner=learner)


def table_curves() -> list[DeepCurve]:
    """Table 3: every method with both replays."""
    return [DeepCurve(m, r) for r in REPLAYS for m in METHODS]


def tuned_curve(method: str, replay: str, rate: float) -> DeepCurve:
    """A method at a rate of its own, GVFExplorer in the preset `stabilised`."""
    own = None if rate == RATES[method] else rate  # the published rate has the same runs
    return DeepCurve(method, replay, "stabilised" if method == OURS else "paper", rate=own)


def tuning_curve(method: str, rate: float) -> DeepCurve:
    """One point of the tuning protocol, on seeds that no other figure has."""
    return replace(tuned_curve(method, "uniform", rate), rate=rate, steps=TUNING_STEPS, first_seed=FIRST_TUNING_SEED)


def tuning_curves() -> list[DeepCurve]:
    """The tuning protocol of every method: four learning rates."""
    return [tuning_curve(m, rate) for m in METHODS for rate in TUNING_RATES]


def trial_curve(trial: str, rate: float) -> DeepCurve:
    """GVFExplorer with one change, at a learning rate, on the seeds that choose settings."""
    return DeepCurve(OURS, rate=rate, steps=TRIAL_STEPS, first_seed=FIRST_TUNING_SEED, trial=trial)


def trial_curves() -> list[DeepCurve]:
    return [trial_curve(trial, rate) for trial in TRIALS for rate in TRIAL_RATES]


def recommended_curves() -> list[DeepCurve]:
    return [DeepCurve(m, preset="recommended") for m in RECOMMENDED_METHODS]
