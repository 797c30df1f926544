"""The continuous grid of the paper (Sec. 7.2, App. B.4) as data: methods, replays, published and recommended settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx_paper.authors import VarianceSoftmax
from gvfx_paper.settings.choices import behaviours_for, checked, checked_method
from gvfx_paper.settings.tabular import DISCOUNT, PI_1, PI_2
from gvfx_paper.worlds.continuous_grid import ContinuousGrid, authors_grid, paper_grid

STEPS = 1_000_000  # Table 3 (tab:mse_in_cont_env)
SEEDS = 10  # the paper has 50; `--seeds 50` runs them
EPSILON = gvfx.Linear(1.0, 0.0, 4000)
SR_SEEDS = 5  # of SR, whose updates take four times as long
PRIORITY_SEEDS = 3  # of priorities other than the error of Q
AUTHORS_SEEDS = 2  # of the preset `authors`
METHODS = ("SR", "Mixture", "RoundRobin", "Uniform", "GVFExplorer")
OURS = "GVFExplorer"  # the paper's method
LINEAR = gvfx.LinearCertaintyEquivalence.__name__
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
BEHAVIOURS: dict[str, gvfx.Behaviour] = {
    **{name: kind() for name, kind in behaviours_for("networks").items()},
    "SR": gvfx.SuccessorRepresentation(temperature=10.0),
    "Explorer+Uniform": gvfx.Blend(gvfx.GVFExplorer(), gvfx.Uniform(), 0.5),
}
STABILISED: dict[str, Any] = {"m_output": "exp"}  # what the preset `stabilised` changes of GVFExplorer's learner: M in log space
AUTHORS_PER = (0.6, 0.2)  # alpha, beta_share in the authors' launchers: of the baselines,
AUTHORS_EXPLORER_PER = (0.8, 0.6)  # and of GVFExplorer
RECOMMENDED = gvfx.Deep(rate_q=2e-3, rate_m=2e-3, capacity=1_000_000, final_rate=0.03, waves=32)
RECOMMENDED_METHODS = ("Uniform", "GVFExplorer", "Explorer+Uniform")
TRIAL_STEPS = 500_000
TRIAL_RATES = (5e-3, 1e-3)
TRIALS: dict[str, tuple[gvfx.Behaviour, float, dict[str, Any]]] = {  # one change at a time: behaviour, floor, learner's options
    "as printed": (gvfx.GVFExplorer(), 1e-3, {}),
    "M at least 0.1 (as the authors)": (gvfx.GVFExplorer(smallest_m=0.1), 1e-3, {}),
    "M at least 1": (gvfx.GVFExplorer(smallest_m=1.0), 1e-3, {}),
    "learning rates fall to 3 %": (gvfx.GVFExplorer(), 1e-3, {"final_rate": 0.03}),
    "mu at least 0.05": (gvfx.GVFExplorer(), 0.05, {}),
    "mu at least 0.1": (gvfx.GVFExplorer(), 0.1, {}),
    "M in log space": (gvfx.GVFExplorer(), 1e-3, STABILISED),
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

    setting: ClassVar[str] = "continuous"

    @property
    @cache  # noqa: B019
    def experiment(self) -> Experiment:
        options: dict[str, Any] = {"rate_q": self.rate, "steps": self.steps, "replay": self.replay, "priority": self.priority}
        made = CONTINUOUS.experiment(self.method, self.preset, **options)
        if self.trial is None:
            return made
        behaviour, floor, options = TRIALS[self.trial]
        learner = replace(made.learner, **options)  # type: ignore[type-var]
        return replace(made, behaviour=gvfx.Floor(gvfx.Epsilon(behaviour, EPSILON), floor), learner=learner)


def questions() -> tuple[gvfx.GVF, ...]:
    """The two GVFs: the paper's policies with the left and the right goal."""
    return tuple(gvfx.GVF(pi, gvfx.Signal(name), DISCOUNT, name=name) for pi, name in ((PI_1, "left"), (PI_2, "right")))


@dataclass(frozen=True)
class ContinuousSetting:
    """The continuous grid as a setting for any behaviour with networks, with presets paper, authors and recommended."""

    name: str = "continuous"
    title: str = "Continuous grid, two goals, networks"
    section: str = "Sec. 7.2, App. B.4"
    steps: int = STEPS
    world: ContinuousGrid = field(default_factory=paper_grid)
    questions: tuple[gvfx.GVF, ...] = field(default_factory=lambda: questions())

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
        asked = authors_grid() if preset == "authors" else self.world, self.questions
        if learner == LINEAR:
            known = {b: BEHAVIOURS[b] for b in BEHAVIOURS if "linear" in BEHAVIOURS[b].supports}
            name = checked_method(behaviour, {"OptimalDesign": None, **known})
            behaves = gvfx.OptimalDesign() if name == "OptimalDesign" else self._behaviour(name, preset)
            return Experiment(*asked, behaves, gvfx.LinearCertaintyEquivalence(), steps, max(1, steps // measurements))
        behaviour = checked_method(behaviour, BEHAVIOURS)
        deep = self._learner(behaviour, preset, rate_q, rate_m, {"replay": replay, "priority": priority})
        every = max(1, steps // measurements // deep.block) * deep.block
        snapshots = (steps * 9 // 10,) if steps == STEPS else ()
        return Experiment(*asked, self._behaviour(behaviour, preset), deep, steps, every, snapshots)

    def _behaviour(self, name: str, preset: str) -> gvfx.Behaviour:
        """A method's behaviour, random early on; the authors' code has no lower bound on its probabilities."""
        if preset == "authors":
            return gvfx.Epsilon(VarianceSoftmax() if name == OURS else BEHAVIOURS[name], EPSILON)
        return gvfx.Floor(gvfx.Epsilon(BEHAVIOURS[name], EPSILON))

    def _learner(self, name: str, preset: str, rate_q: float | None, rate_m: float | None, replay: dict[str, Any]) -> gvfx.Deep:
        if preset == "recommended":
            q = rate_q or RECOMMENDED.rate_q
            return replace(RECOMMENDED, rate_q=q, rate_m=rate_m or q, **replay)
        q = rate_q or RATES.get(name, 5e-3)
        stabilised = STABILISED if preset == "stabilised" and name == OURS else {}
        deep = gvfx.Deep(rate_q=q, rate_m=rate_m or q, **replay, **stabilised)
        if preset != "authors":
            return deep
        alpha, beta_share = AUTHORS_EXPLORER_PER if name == OURS else AUTHORS_PER
        return replace(deep, m_every=4, alpha=alpha, beta_share=beta_share)


CONTINUOUS = ContinuousSetting()
TABLE_CURVES = [DeepCurve(m, r) for r in REPLAYS for m in METHODS]
RECOMMENDED_CURVES = [DeepCurve(m, preset="recommended") for m in RECOMMENDED_METHODS]


def tuned_curve(method: str, replay: str, rate: float) -> DeepCurve:
    """A method at a rate of its own, GVFExplorer in the preset `stabilised`."""
    own = None if rate == RATES[method] else rate  # the published rate has the same runs
    return DeepCurve(method, replay, "stabilised" if method == OURS else "paper", rate=own)


def tuning_curve(method: str, rate: float) -> DeepCurve:
    """One point of the tuning protocol, on seeds that no other figure has."""
    return replace(tuned_curve(method, "uniform", rate), rate=rate, steps=TUNING_STEPS, first_seed=FIRST_TUNING_SEED)


def trial_curve(trial: str, rate: float) -> DeepCurve:
    """GVFExplorer with one change, at a learning rate, on the seeds that choose settings."""
    return DeepCurve(OURS, rate=rate, steps=TRIAL_STEPS, first_seed=FIRST_TUNING_SEED, trial=trial)


TUNING_CURVES = [tuning_curve(m, rate) for m in METHODS for rate in TUNING_RATES]
TRIAL_CURVES = [trial_curve(trial, rate) for trial in TRIALS for rate in TRIAL_RATES]
