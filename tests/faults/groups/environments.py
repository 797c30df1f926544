"""Environments that misbehave: an error that names the field, the episode and the step, and keeps what was learned so far.

Observations, rewards, endings and infos of wrong types and shapes, NaN and infinities; resets and steps that raise, end the
program, hang or crash it; environments that print, fork and start threads, which must not matter.  Through evaluate (tables,
numbered observations, linear features, vector environments), check, truth_of and plan.
"""

from __future__ import annotations

import json
import resource
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import gvfx
import gvfx.running.drive as driving
from faults.misbehaving import Walk, faults, reset_faults
from faults.processes import called, warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 400, 40, 150
BATCH, LIMIT = 20, 90
STEPS = 60
FORMS = ("tables", "numbered", "linear", "vector")
WAYS = ("check", "truth_of", "plan")


class Trial(NamedTuple):
    """way: a form of evaluate, or another function; at: the calls before the fault."""

    way: str
    fault: str
    at: int


def run(trials: Trials) -> None:
    warm_up()
    warnings.simplefilter("ignore")
    for way in FORMS:
        _evaluated(way, None, trials.folder)
    for way in WAYS:
        OTHERS[way](Walk("tables"))
    left = _chosen(trials)
    while left and not trials.done:
        batch, left = left[:BATCH], left[BATCH:]
        with trials.scratch() as folder:
            left = _tried(batch, folder, trials) + left


def _chosen(trials: Trials) -> list[Trial]:
    known = list(faults()) + list(reset_faults())
    ways = [*FORMS, *WAYS]
    every = [Trial(way, fault, trials.random.choice((0, 3, 17))) for way in ways for fault in known if _applies(way, fault)]
    trials.random.shuffle(every)
    trials.note(f"{len(known)} faults, {len(every)} combinations with {len(ways)} uses")
    return every[: trials.wanted]


def _applies(way: str, fault: str) -> bool:
    word = _fault(fault)[0]
    if way in WAYS and word in ("hangs", "crash"):
        return False  # only evaluate has a limit and checkpoints
    if way == "vector" and fault.startswith(("info", "fine", "changes spaces")):
        return False  # one info, ending and space is none of several environments
    if way == "linear" and fault.endswith((" -1", " 99", " 1.5")) and "observ" in fault:
        return False  # numbers that a Box may hold
    return not (way == "check" and fault == "a list of five")


def _fault(name: str) -> tuple[str, Any]:
    return faults().get(name) or reset_faults()[name]


def _tried(batch: list[Trial], folder: Path, trials: Trials) -> list[Trial]:
    """Try a batch in one process; returns those that it did not come to."""
    journal = folder / "journal"
    journal.touch()
    ended = called(lambda: _all(batch, journal, folder), cwd=folder, timeout=LIMIT * 3)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for trial, (good, detail) in zip(batch, lines, strict=False):
        trials.check(trial.way, good, f"{trial}: {detail}")
    left = batch[len(lines) :]
    if not left:
        return []
    first = left[0]
    if _fault(first.fault)[0] == "crash":
        again = called(lambda: _resumed(first, folder / str(len(lines))), cwd=folder, timeout=LIMIT)
        trials.check(first.way, again.code == 0, f"{first}: {ended.code}, then {again.code}: {again.err[-800:]}")
    else:
        trials.failed(first.way, f"{first}: the process ended with {ended.code}: {ended.err[-800:]}")
    return left[1:]


def _all(batch: list[Trial], journal: Path, folder: Path) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with journal.open("a") as file:
        for k, trial in enumerate(batch):
            own = folder / str(k)
            own.mkdir()
            print(json.dumps(_one(trial, own)), file=file, flush=True)


def _one(trial: Trial, folder: Path) -> tuple[bool, str]:
    word, change = _fault(trial.fault)
    if trial.way in FORMS:
        return _through_evaluate(trial, word, folder)
    try:
        found = OTHERS[trial.way](_made(trial, "tables"))
    except gvfx.GvfxError as error:
        return word != "fine" and _named(word, str(error)), str(error)
    except BaseException as error:
        return word == "ends" and type(error).__module__ != "gvfx", f"{type(error).__name__}: {error!s:.200}"
    if isinstance(found, list) and any(finding.severity == "error" for finding in found):
        said = "; ".join(map(str, found))
        return word not in ("fine", "ends") and _named(word, said), said
    harmless = word in ("fine", "info") or _unread(trial)
    return harmless, f"accepted ({found!r:.200})"


def _unread(trial: Trial) -> bool:
    """Whether the fault is not met, or in what a function does not read: FirstCopy and tables read no info here."""
    return "reset" in trial.fault and trial.at > 0


def _named(word: str, said: str) -> bool:
    words = {"ends": [""], "hangs": ["step_limit"], "info": ["info", "asked"]}.get(word, word.split("|"))
    return any(one in said for one in words) and said.count("\n") < 3


def _made(trial: Trial, form: str) -> Any:
    name = trial.fault
    change = faults()[name][1] if name in faults() else None
    at_reset = reset_faults()[name][1] if name in reset_faults() else None
    at = trial.at if at_reset is None else min(trial.at, 2)
    if form == "vector":
        at = min(at, 9) if at_reset is None else 0  # which makes fewer calls, and one reset
    return Walk(form, change, at, at_reset)


def _through_evaluate(trial: Trial, word: str, folder: Path) -> tuple[bool, str]:
    """A run must fail in words and keep what it has learned, or be as without the fault."""
    kept = folder / "kept.gvfx"
    try:
        result = _evaluated(trial.way, trial, folder)
    except gvfx.GvfxError as error:
        said = str(error)
        inside = isinstance(error, gvfx.RunError)
        met = inside and error.result is not None
        wanted = trial.at > 0 and trial.way != "vector" and not trial.fault.startswith("reset")
        good = _named(word, said) and word not in ("fine", "ends") and (not wanted or (met and kept.exists()))
        if inside and not isinstance(error, gvfx.EnvironmentFailed):
            good = False
        if good and met:
            gvfx.load(kept)
        return good and (not inside or ("episode" in said and "step" in said)), f"{type(error).__name__}: {said} (kept: {met})"
    except BaseException as error:
        met = getattr(error, "result", None) is not None and kept.exists()
        wanted = trial.at > 0 and trial.way != "vector" and not trial.fault.startswith("reset")
        return word == "ends" and (met or not wanted), f"{type(error).__name__}: {error!s:.200} (kept: {met})"
    if word == "info" or (word != "fine" and "reset" in trial.fault and trial.at > 0):
        return True, ""
    same = np.array_equal(result.values, _evaluated(trial.way, None, folder).values)
    return word == "fine" and same, f"ran on, {'with the same' if same else 'with other'} values"


def _evaluated(way: str, trial: Trial | None, folder: Path, **options: Any) -> gvfx.Result:
    form = "tables" if way == "vector" else way
    make: Callable[[], Any] = lambda: Walk(form) if trial is None else _made(trial, form)  # noqa: E731
    env: Any = _together(trial) if way == "vector" else make()
    asked = [gvfx.GVF([0.5, 0.5], gvfx.Info("signal") if way == "numbered" else gvfx.Reward(), 0.9, name="asked")]
    limits = {} if trial is None or _fault(trial.fault)[0] != "hangs" else {"step_limit": 0.3}
    kept = {} if trial is None else {"save": folder / "kept.gvfx"}
    return gvfx.evaluate(
        env,
        asked,
        gvfx.Uniform(),
        _learner(way),
        steps=STEPS,
        progress=False,
        evaluate_every=5,
        **limits,
        **kept,
        **_continued(trial, folder),
    )


LANES = 4


def _together(trial: Trial | None) -> Any:
    """A vector environment of walks whose joined answers have the fault."""
    fault = None if trial is None else _made(trial, "vector")

    class Walks(gymnasium.vector.SyncVectorEnv):
        calls = resets = 0

        def reset(self, **options: Any) -> Any:
            self.resets += 1
            answer = super().reset(**options)
            met = fault is not None and fault.on_reset is not None and self.resets > fault.at
            return fault.on_reset(fault, list(answer)) if met else answer

        def step(self, actions: Any) -> Any:
            self.calls += 1
            answer = super().step(actions)
            met = fault is not None and fault.change is not None and self.calls > fault.at
            return fault.change(fault, list(answer)) if met else answer

    return Walks([lambda: Walk("tables")] * LANES)


def _continued(trial: Trial | None, folder: Path) -> dict[str, Any]:
    """A run that crashes has checkpoints, after every measurement."""
    if trial is None or _fault(trial.fault)[0] != "crash":
        return {}
    driving.CHECKPOINT_EVERY = 0.0
    return {"checkpoint": folder / "checkpoints"}


def _learner(way: str) -> Any:
    return gvfx.LinearCertaintyEquivalence(intervals=False) if way == "linear" else gvfx.CertaintyEquivalence()


def _resumed(trial: Trial, folder: Path) -> None:
    """The same run continues where the crash was; the environment is the same, but counts so low that nothing crashes."""
    told: list[str] = []
    warnings.showwarning = lambda message, *_, **__: told.append(str(message))  # type: ignore[assignment]
    warnings.simplefilter("always")
    signal.alarm(LIMIT)
    env: Any = _together(trial) if trial.way == "vector" else _made(trial, trial.way)
    env.calls = -STEPS  # which runs change, so that it is no part of what the environment is
    asked = [gvfx.GVF([0.5, 0.5], gvfx.Info("signal") if trial.way == "numbered" else gvfx.Reward(), 0.9, name="asked")]
    options = {"steps": STEPS, "progress": False, "evaluate_every": 5, "checkpoint": folder / "checkpoints"}
    result = gvfx.evaluate(env, asked, gvfx.Uniform(), _learner(trial.way), **options)
    assert result.details.snapshots[-1].step == STEPS
    if trial.at > 10 and trial.way != "vector":
        assert any("continues at step" in text for text in told), told


def _check(env: Any) -> Any:
    return gvfx.check(env, [gvfx.GVF([0.5, 0.5], gvfx.Info("signal"), 0.9, name="asked")], steps=60)


def _truth(env: Any) -> Any:
    return gvfx.truth_of(env, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="asked")], max_episodes=20, horizon=50)


def _plan(env: Any) -> Any:
    return gvfx.plan(env, [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="asked")], error=0.1, pilot=2000, draws=20)


OTHERS = {"check": _check, "truth_of": _truth, "plan": _plan}
