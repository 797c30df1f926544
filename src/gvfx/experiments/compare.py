"""Run behaviours on a setting by name, each with the learning rate published for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gvfx.evidence.decisions import Decided
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.experiments.settings.choices import checked
from gvfx.experiments.settings.grid import CONTINUOUS, ContinuousSetting
from gvfx.experiments.settings.mujoco import DOMAIN_SETTINGS, MujocoSetting
from gvfx.experiments.settings.tabular import METHODS, Setting, paper
from gvfx.questions.where import WhereLike
from gvfx.running.evaluate import evaluate
from gvfx.running.result import Result

CompareProgress = Callable[[str, int, int, float], None]  # (behaviour, seed, steps done, current error)
AnySetting = Setting | ContinuousSetting | MujocoSetting
SETTINGS: Mapping[str, AnySetting] = {**paper, CONTINUOUS.name: CONTINUOUS, **DOMAIN_SETTINGS}


def find_setting(name: str) -> AnySetting:
    """A setting of the paper by name; an unknown name raises an error with the closest ones."""
    return SETTINGS[checked("setting", name, SETTINGS)]


def run_behaviour(
    setting: AnySetting,
    behaviour: str,
    learner: str | None = None,
    *,
    steps: int | None = None,
    seeds: int | Iterable[int] = 1,
    rate_q: float | None = None,
    rate_m: float | None = None,
    evaluate_every: int | None = None,
    preset: str = "paper",
    calibrate: bool = False,
    workers: int = 1,
    progress: CompareProgress | None = None,
    save: Path | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: float | None = None,
    until: ErrorBelow | Decided | None = None,
    where: WhereLike = None,
    audit: float | None = None,
) -> Result:
    """Run one behaviour on one setting; learning rates default to the published ones; `until` and `audit` as in
    `evaluate` (an audited world is stepped like an unknown environment, one seed after the other)."""
    e = setting.experiment(behaviour, preset, learner, rate_q, rate_m, steps, measurements=20)
    if evaluate_every is not None:
        e = replace(e, evaluate_every=evaluate_every)
    return evaluate(
        e.world,
        e.questions,
        e.behaviour,
        e.learner,
        steps=e.steps,
        seeds=seeds,
        evaluate_every=e.evaluate_every,
        snapshots=e.snapshots,
        average_episodes=e.average_episodes,
        until=until,
        calibrate=calibrate,
        where=where,
        audit=audit,
        workers=1 if audit else workers,
        progress=None if progress is None else lambda seed, done, error: progress(behaviour, seed, done, error),
        save=save,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )


def compare(
    setting: Setting,
    behaviours: Sequence[str] = METHODS,
    *,
    steps: int,
    seeds: int,
    workers: int = 1,
    progress: CompareProgress | None = None,
) -> dict[str, Result]:
    """Run several behaviours on one setting with the same seeds and steps."""
    return {
        name: run_behaviour(setting, name, steps=steps, seeds=seeds, workers=workers, progress=progress) for name in behaviours
    }
