"""Walker and Cheetah (paper, Sec. 7.3, App. MuJoCo) as data: methods, presets, and variants of the behaviour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx_paper.algorithm2 import ACTORS, CRITICS
from gvfx_paper.settings.choices import behaviours_for, checked
from gvfx_paper.targets import Target
from gvfx_paper.worlds.mujoco import DOMAINS, Domain

STEPS = 100_000  # the paper gives none
SEEDS = 5  # as the paper
FRESH = 20  # the first seed of what is reported; settings were chosen on seeds 100 and above
DISCOUNT = 0.99  # the paper gives none
MEASUREMENTS = 25
METHODS = ("RoundRobin", "Mixture", "Uniform", "GVFExplorer")
HELD = "Mixture, held"

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
    @cache  # noqa: B019
    def experiment(self) -> Experiment:
        made = DOMAIN_SETTINGS[self.setting].experiment
        return made(self.method, self.preset, steps=self.steps, change=self.change, lookahead=self.lookahead)


def questions(domain: Domain) -> tuple[gvfx.GVF, ...]:
    """One GVF per task: how much of the task's reward its target policy will collect."""
    return tuple(gvfx.GVF(Target.shipped(domain.name, task), gvfx.Signal(task), DISCOUNT, name=task) for task in domain.tasks)


@dataclass(frozen=True)
class MujocoSetting:
    """A domain as a setting for any behaviour with continuous actions and twin critics, with presets paper and recommended."""

    name: str
    section: ClassVar[str] = "Sec. 7.3, App. MuJoCo"
    steps: ClassVar[int] = STEPS

    @property
    def world(self) -> Domain:
        return DOMAINS[self.name]

    @property
    def title(self) -> str:
        return f"{self.name.capitalize()}: {' and '.join(self.world.tasks)}, continuous actions"

    @property
    def questions(self) -> tuple[gvfx.GVF, ...]:
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
        known = behaviours(checked("preset", preset, ACTORS))
        checked("learner", learner or "TwinCritics", {"TwinCritics": None})
        critics = CRITICS[preset]
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
        snapshots = tuple(range(every, steps + 1, every))
        return Experiment(self.world, self.questions, behaves, critics, steps, every, snapshots)


def behaviours(preset: str) -> dict[str, gvfx.Behaviour]:
    """Behaviours for Box actions by name; GVFExplorer is the preset's."""
    named = {name: kind() for name, kind in behaviours_for("box_actions").items()}
    return {**named, "GVFExplorer": ACTORS[preset], HELD: gvfx.Hold(gvfx.Mixture())}


DOMAIN_SETTINGS = {name: MujocoSetting(name) for name in DOMAINS}
FIGURE_METHODS = {  # the paper's; or all of them and, because our explorer holds its choices, Mixture with Hold
    **dict.fromkeys(("paper", "stabilised"), tuple(m for m in METHODS if m != "Mixture")),
    "recommended": (*METHODS, HELD),
}
FIGURES = {p: [MujocoCurve(d, m, p) for d in DOMAINS for m in methods] for p, methods in FIGURE_METHODS.items()}
_PRINTED = ("GVFExplorer", "paper", INTERVENTION_STEPS)  # with one change at a time
INTERVENTION_CURVES = [MujocoCurve(d, *_PRINTED, change) for d in DOMAINS for change in INTERVENTIONS]
OPTION_CURVES = [MujocoCurve("cheetah", "RoundRobin", change=change) for change in (PRINTED, *OPTIONS)]
LOOKAHEAD_CURVES = [MujocoCurve(d, "GVFExplorer", lookahead=steps) for d in DOMAINS for steps in LOOKAHEADS]
LONGER_CURVES = [MujocoCurve(d, "GVFExplorer", steps=steps) for d in LONGER for steps in (STEPS, *LONGER[d])]
