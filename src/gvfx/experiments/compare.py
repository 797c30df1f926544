"""Run several behaviours on one setting, each with the learning rate published for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gvfx.experiments.paper import AVERAGE_EPISODES, BEHAVIOURS, METHODS, PRESETS, Setting, checked
from gvfx.running.evaluate import evaluate
from gvfx.running.result import Result

CompareProgress = Callable[[str, int, int, float], None]  # (behaviour, seed, steps done, current error)


def run_behaviour(
    setting: Setting,
    behaviour: str,
    learner: str = "ExpectedSarsa",
    *,
    steps: int | None = None,
    seeds: int | Iterable[int] = 1,
    rate_q: float | None = None,
    rate_m: float | None = None,
    evaluate_every: int | None = None,
    snapshots: Iterable[int] = (),
    preset: str = "paper",
    workers: int = 1,
    progress: CompareProgress | None = None,
) -> Result:
    """One behaviour on one setting; rates default to the published ones."""
    behaviour = checked("behaviour", behaviour, BEHAVIOURS)
    preset = checked("preset", preset, dict.fromkeys(PRESETS))
    rate = rate_q if rate_q is not None else setting.rate(behaviour)
    return evaluate(
        setting.world,
        setting.questions,
        setting.behaviour(behaviour, rate, preset),
        setting.learner(learner, rate, rate_m, behaviour, preset),
        steps=setting.steps if steps is None else steps,
        seeds=seeds,
        evaluate_every=evaluate_every,
        snapshots=snapshots,
        average_episodes=AVERAGE_EPISODES if preset == "authors" else 0,
        workers=workers,
        progress=None if progress is None else lambda seed, done, error: progress(behaviour, seed, done, error),
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
    """Several behaviours on one setting, at the same seeds and steps."""
    return {
        name: run_behaviour(setting, name, steps=steps, seeds=seeds, workers=workers, progress=progress) for name in behaviours
    }
