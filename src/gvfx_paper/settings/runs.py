"""Run behaviours on a setting by name, each with the learning rate published for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gvfx.experiments.specification import Experiment
from gvfx.running.evaluate import evaluate
from gvfx.running.result import Result
from gvfx_paper.settings.choices import checked
from gvfx_paper.settings.continuous import CONTINUOUS, ContinuousSetting
from gvfx_paper.settings.domains import DOMAIN_SETTINGS, MujocoSetting
from gvfx_paper.settings.tabular import METHODS, Setting, paper

AnySetting = Setting | ContinuousSetting | MujocoSetting
SETTINGS: Mapping[str, AnySetting] = {**paper, CONTINUOUS.name: CONTINUOUS, **DOMAIN_SETTINGS}


def find_setting(name: str) -> AnySetting:
    """A setting of the paper by name; an unknown name raises an error with the closest ones."""
    return SETTINGS[checked("setting", name, SETTINGS)]


def run_experiment(e: Experiment, **options: Any) -> Result:
    """Run an experiment with options of `gvfx.evaluate`."""
    return evaluate(e.world, e.questions, e.behaviour, e.learner, **{"steps": e.plan, "until": e.until, **options})


def run_behaviour(
    setting: AnySetting,
    behaviour: str,
    learner: str | None = None,
    *,
    preset: str = "paper",
    steps: int | None = None,
    rate_q: float | None = None,
    rate_m: float | None = None,
    evaluate_every: int | None = None,
    **options: Any,
) -> Result:
    """Run one behaviour on one setting; learning rates default to the published ones, options are those of `gvfx.evaluate`
    (an audited world is stepped like an unknown environment, one seed after the other)."""
    e = setting.experiment(behaviour, preset, learner, rate_q, rate_m, steps, measurements=20)
    if options.get("audit"):
        options["workers"] = 1
    return run_experiment(e if evaluate_every is None else replace(e, evaluate_every=evaluate_every), **options)


def compare(setting: Setting, behaviours: Sequence[str] = METHODS, **options: Any) -> dict[str, Result]:
    """Run several behaviours on one setting with the same options, seeds and steps."""
    return {name: run_behaviour(setting, name, **options) for name in behaviours}
