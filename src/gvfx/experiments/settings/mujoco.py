"""Walker and Cheetah (paper, Sec. 7.3, App. MuJoCo) as data: methods, presets, and variants of the behaviour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gvfx.behaviours import actor
from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import Mixture
from gvfx.behaviours.wrappers import Hold
from gvfx.experiments.settings.choices import behaviours_for, checked
from gvfx.experiments.specification import Experiment
from gvfx.learners.networks import twin_critics as continuous
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF
from gvfx.questions.target_policies import Target
from gvfx.worlds.mujoco import DOMAINS, Domain

STEPS = 100_000  # the paper gives none
SEEDS = 5  # as the paper
DISCOUNT = 0.99  # the paper gives none
MEASUREMENTS = 25
METHODS = ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")
HELD = "Mixture, held"
EXPLORER: dict[str, Behaviour] = {"paper": actor.PAPER, "recommended": Hold(GVFExplorer())}
TRIAL_DOMAIN, TRIAL_SEEDS = "cheetah", 1  # too few seeds to rank the variants
TRIALS: dict[str, Behaviour] = {  # variants of GVFExplorer for continuous actions
    "actor raises M, KL 0.1": actor.Actor(kl_weight=0.1),
    "actor raises M, KL 1": actor.Actor(kl_weight=1.0),
    "actor raises M, KL 10": actor.Actor(kl_weight=10.0),
    "actor lowers M, KL 1": actor.Actor(direction="lower"),
    "actor drawn to mu*": actor.Actor(direction="optimal"),
    "actor drawn to mu*, half of the worlds": actor.Actor(direction="optimal", share=0.5),
    "GVFExplorer, not held": GVFExplorer(),
}


@dataclass(frozen=True)
class MujocoCurve:
    """One line of a figure of Walker or Cheetah."""

    setting: str  # the domain's name
    method: str
    preset: str = "recommended"
    steps: int = STEPS

    @property
    def experiment(self) -> Experiment:
        return _experiment(self)


def questions(domain: Domain) -> tuple[GVF, ...]:
    """One GVF per task: how much of the task's reward its target policy will collect."""
    return tuple(GVF(Target.shipped(domain.name, task), Signal(task), DISCOUNT, name=task) for task in domain.tasks)


@dataclass(frozen=True)
class MujocoSetting:
    """A domain as a setting for any behaviour with continuous actions and twin critics, with presets paper and recommended."""

    name: str

    @property
    def world(self) -> Domain:
        return DOMAINS[self.name]

    @property
    def title(self) -> str:
        return f"{self.name.capitalize()}: {' and '.join(self.world.tasks)}, continuous actions"

    @property
    def section(self) -> str:
        return "Sec. 7.3, App. MuJoCo"

    @property
    def steps(self) -> int:
        return STEPS

    @property
    def questions(self) -> tuple[GVF, ...]:
        return questions(self.world)

    def experiment(
        self,
        behaviour: str,
        preset: str = "paper",
        learner: str | None = None,
        rate_q: float | None = None,
        rate_m: float | None = None,
        steps: int | None = None,
        measurements: int = MEASUREMENTS,
    ) -> Experiment:
        """One curve as data; both rates default to the preset's (rate_m to rate_q)."""
        known = behaviours(checked("preset", preset, EXPLORER))
        checked("learner", learner or "TwinCritics", {"TwinCritics": None})
        critics = continuous.PRESETS[preset]
        if rate_q or rate_m:
            critics = replace(critics, rate_q=rate_q or critics.rate_q, rate_m=rate_m or rate_q or critics.rate_m)
        steps = self.steps if steps is None else steps
        return Experiment(
            world=self.world,
            questions=self.questions,
            behaviour=known[checked("behaviour", behaviour, known)],
            learner=critics,
            steps=steps,
            evaluate_every=max(1, steps // measurements // critics.worlds) * critics.worlds,
        )


def behaviours(preset: str) -> dict[str, Behaviour]:
    """Behaviours for Box actions by name; GVFExplorer is the preset's."""
    named = {name: kind() for name, kind in behaviours_for("box_actions").items()}
    return {**named, "GVFExplorer": EXPLORER[preset], HELD: Hold(Mixture()), **TRIALS}


DOMAIN_SETTINGS = {name: MujocoSetting(name) for name in DOMAINS}


@cache
def _experiment(curve: MujocoCurve) -> Experiment:
    return DOMAIN_SETTINGS[curve.setting].experiment(curve.method, curve.preset, steps=curve.steps)


def figure_curves(preset: str) -> list[MujocoCurve]:
    """Every method on both domains."""
    return [MujocoCurve(name, method, preset) for name in DOMAINS for method in figure_methods(preset)]


def figure_methods(preset: str) -> tuple[str, ...]:
    """The methods of a figure: the paper's; or all of them and, because our explorer holds its choices, Mixture with Hold."""
    return tuple(m for m in METHODS if m != "Mixture") if preset == "paper" else (*METHODS, HELD)


def trial_curves() -> list[MujocoCurve]:
    """Every variant of the explorer, with the recommended one and its baselines."""
    return [MujocoCurve(TRIAL_DOMAIN, m) for m in trial_methods()]


def trial_methods() -> tuple[str, ...]:
    return ("RoundRobin", HELD, "GVFExplorer", *TRIALS)
