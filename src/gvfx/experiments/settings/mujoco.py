"""Walker and Cheetah (paper, Sec. 7.3, App. MuJoCo) as data: methods, presets, and variants of the behaviour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gvfx.behaviours import actor
from gvfx.behaviours.base import Behaviour
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
FRESH = 20  # the first seed of what is reported; settings were chosen on seeds 100 and above
DISCOUNT = 0.99  # the paper gives none
MEASUREMENTS = 25
METHODS = ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")
HELD = "Mixture, held"
EXPLORER: dict[str, Behaviour] = {
    "paper": actor.PAPER,
    "stabilised": actor.STABILISED,
    "recommended": Hold(actor.MixtureActor()),
}

Change = tuple[dict[str, Any], dict[str, Any]]  # to the critics, to the actor
PRINTED = "as printed"
INTERVENTIONS: dict[str, Change] = {  # one change to Algorithm 2 as printed at a time
    PRINTED: ({}, {}),
    "entropy out of the targets": ({"entropy_in_target": False}, {}),
    "M normalised in the actor's loss": ({}, {"normalised": True}),
    "KL weight 10, to each target": ({}, {"kl_weight": 10.0, "kl_to": "each"}),
    "KL weight 100, to each target": ({}, {"kl_weight": 100.0, "kl_to": "each"}),
    "layer normalisation": ({"layer_norm": True}, {}),
    "target entropy -6": ({}, {"target_entropy": -6.0}),
    "moving average of target networks": ({"target_every": 1, "tau": 0.005}, {}),
}
INTERVENTION_STEPS, INTERVENTION_SEEDS = 24_000, 3
OPTIONS: dict[str, Change] = {  # one change to the recommended critics at a time, tried with RoundRobin on Cheetah
    "layer normalisation": ({"layer_norm": True}, {}),
    "half as many updates": ({"updates": 4}, {}),
    "32 units per layer": ({"hidden": (32, 32)}, {}),
}
OPTION_SEEDS = 2
CHANGES = {("paper", name): change for name, change in INTERVENTIONS.items()} | {
    ("recommended", name): change for name, change in OPTIONS.items()
}

LOOKAHEADS = (0, 5)
LOOKAHEAD_SEEDS = 3
LONGER = {"cheetah": (1_000_000,)}
LONGER_SEEDS = 1


@dataclass(frozen=True)
class MujocoCurve:
    """One line of a figure of Walker or Cheetah."""

    setting: str  # the domain's name
    method: str
    preset: str = "recommended"
    steps: int = STEPS
    change: str = PRINTED  # of CHANGES, beside the preset; this one changes nothing
    lookahead: int = 0
    first_seed: int = FRESH

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
        change: str = PRINTED,
        lookahead: int = 0,
    ) -> Experiment:
        """One curve as data; both rates default to the preset's (rate_m to rate_q)."""
        known = behaviours(checked("preset", preset, EXPLORER))
        checked("learner", learner or "TwinCritics", {"TwinCritics": None})
        critics = continuous.PRESETS[preset]
        if rate_q or rate_m:
            critics = replace(critics, rate_q=rate_q or critics.rate_q, rate_m=rate_m or rate_q or critics.rate_m)
        steps = self.steps if steps is None else steps
        behaves = known[checked("behaviour", behaviour, known)]
        if change != PRINTED:
            of_critics, of_actor = CHANGES[preset, change]
            critics = replace(critics, **of_critics)
            behaves = replace(behaves, **of_actor) if of_actor else behaves  # type: ignore[type-var]
        if lookahead or steps > critics.capacity:
            critics = replace(critics, lookahead=lookahead, capacity=max(critics.capacity, steps))
        every = max(1, steps // measurements // critics.worlds) * critics.worlds
        return Experiment(
            world=self.world,
            questions=self.questions,
            behaviour=behaves,
            learner=critics,
            steps=steps,
            evaluate_every=every,
            snapshots=tuple(range(every, steps + 1, every)),
        )


def behaviours(preset: str) -> dict[str, Behaviour]:
    """Behaviours for Box actions by name; GVFExplorer is the preset's."""
    named = {name: kind() for name, kind in behaviours_for("box_actions").items()}
    return {**named, "GVFExplorer": EXPLORER[preset], HELD: Hold(Mixture())}


DOMAIN_SETTINGS = {name: MujocoSetting(name) for name in DOMAINS}


@cache
def _experiment(curve: MujocoCurve) -> Experiment:
    setting, c = DOMAIN_SETTINGS[curve.setting], curve
    return setting.experiment(c.method, c.preset, steps=c.steps, change=c.change, lookahead=c.lookahead)


def figure_curves(preset: str) -> list[MujocoCurve]:
    """Every method on both domains."""
    return [MujocoCurve(name, method, preset) for name in DOMAINS for method in figure_methods(preset)]


def figure_methods(preset: str) -> tuple[str, ...]:
    """The methods of a figure: the paper's; or all of them and, because our explorer holds its choices, Mixture with Hold."""
    return (*METHODS, HELD) if preset == "recommended" else tuple(m for m in METHODS if m != "Mixture")


def intervention_curves() -> list[MujocoCurve]:
    """GVFExplorer as printed, with one change at a time."""
    return [MujocoCurve(d, "GVFExplorer", "paper", INTERVENTION_STEPS, change) for d in DOMAINS for change in INTERVENTIONS]


def option_curves() -> list[MujocoCurve]:
    """RoundRobin on Cheetah with the recommended critics, and with one change at a time."""
    return [MujocoCurve("cheetah", "RoundRobin", change=change) for change in (PRINTED, *OPTIONS)]


def lookahead_curves() -> list[MujocoCurve]:
    """The recommended method with answers that look ahead."""
    return [MujocoCurve(d, "GVFExplorer", lookahead=steps) for d in DOMAINS for steps in LOOKAHEADS]


def longer_curves() -> list[MujocoCurve]:
    """The recommended method with more steps."""
    return [MujocoCurve(d, "GVFExplorer", steps=steps) for d in LONGER for steps in (STEPS, *LONGER[d])]
