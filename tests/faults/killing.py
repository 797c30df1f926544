"""Chains of kills: a command is killed, started again, killed again, ... and at last let run to its end.

What it has written then is compared with what the same command writes undisturbed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faults.injection import CHANGES, arm, count
from faults.processes import Ended, called, command, forked
from faults.trials import Trials
from gvfx.running.saved import load
from gvfx.tensors import unpack

OPERATIONS = (*CHANGES, "lock", "unlink")
LONG_AGO = 2 * 3600.0  # seconds: temporary files of this age belong to a process that was killed
CONTINUES = re.compile(r"seed (\d+) continues at step ([\d,]+);")
LONGEST = 8  # kills in a chain
PATIENCE = 120.0  # seconds


@dataclass(frozen=True)
class Case:
    """A command that is killed."""

    kind: str  # the row in which its kills are counted
    backend: str
    arguments: tuple[object, ...]  # files are named relative to the folder in which it runs
    share: int  # kills of the full campaign
    steps: int = 0  # of each seed; 0 for a store of results
    same: bool = True  # whether the result must be that of an undisturbed run, to the byte
    lanes: int = 1  # environments that are stepped together
    chain: int = 0  # kills in a chain; 0: 1 to 8
    anew: bool = False  # whether in a new Python process, as users start it, instead of a fork
    prepared: bool = True  # whether it runs in this process first, to compile; not with JAX, whose threads cannot be copied
    before: Callable[[], None] = lambda: None  # called in the fork first
    below: str = ""  # the folder whose operations count for kills at chosen points: that in which it runs
    env: dict[str, str] | None = None  # of a new process

    @property
    def name(self) -> str:
        return f"{self.backend}: gvfx {' '.join(map(str, self.arguments))}"

    def started(self, folder: Path, kill_after: float | None = None, operation: int | None = None) -> Ended:
        """The command, killed after so many seconds, at an operation on files, or not at all."""
        if self.anew:
            return command(*self.arguments, cwd=folder, kill_after=kill_after, timeout=PATIENCE, env=self.env)

        def before() -> None:
            self.before()
            if operation is not None:
                arm(folder / self.below, operation, kinds=OPERATIONS)

        return forked(*self.arguments, cwd=folder, kill_after=kill_after, before=before, timeout=PATIENCE)


@dataclass(frozen=True)
class Undisturbed:
    """What a command writes and how long it takes if nobody kills it."""

    contents: dict[str, object]
    operations: int
    seconds: float


def _compile(case: Case, folder: Path) -> None:
    """Run a command in this process, so that its copies find everything compiled."""
    from gvfx.cli import main

    before = sys.argv
    sys.argv = ["gvfx", *map(str, case.arguments)]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    sys.argv = before


def undisturbed(case: Case, trials: Trials) -> Undisturbed | None:
    """Run a command once to its end; None if it fails, which is then recorded."""
    with trials.scratch() as folder:
        if not (case.anew or not case.prepared or case.below):
            _compile(case, folder)
    with trials.scratch() as folder:
        ended = case.started(folder)
        if ended.code != 0 or ended.traceback:
            trials.failed(case.kind, f"{case.name}, undisturbed: {ended}")
            return None
    with trials.scratch() as folder, trials.scratch() as aside:

        def counted() -> None:
            from gvfx.cli import main

            case.before()
            arm(folder / case.below, 0, kinds=OPERATIONS)
            sys.argv = ["gvfx", *map(str, case.arguments)]
            try:
                main()
            finally:
                (aside / "count").write_text(str(count()))

        ended = case.started(folder) if case.anew else called(counted, cwd=folder, timeout=PATIENCE)
        operations = 0 if case.anew else int((aside / "count").read_text())
        return Undisturbed(contents(folder), operations, ended.seconds)


class Kills:
    """The kills of one campaign, and where they fell."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.where: Counter[str] = Counter()
        self.backends: Counter[str] = Counter()

    def chains(self, case: Case, wanted: int) -> None:
        """Kill a command until so many kills are made."""
        normal = undisturbed(case, self.trials)
        made = 0
        while normal is not None and made < wanted and not self.trials.done:
            with self.trials.scratch() as folder:
                killed = self._chain(
                    case, normal, folder, min(wanted - made, case.chain or self.trials.random.randint(1, LONGEST))
                )
            made += max(1, killed)

    def _chain(self, case: Case, normal: Undisturbed, folder: Path, length: int) -> int:
        """One chain; returns the number of kills."""
        draw, said = self.trials.random, []
        at_operations = not case.anew
        steps: dict[str, int] = {}
        kills, wrong = 0, ""
        for _ in range(length):
            points = {"operation": draw.randint(1, normal.operations)} if at_operations and draw.random() < 0.5 else {}
            moment = {} if points else {"kill_after": draw.uniform(0.02, normal.seconds)}
            said.append(str(points or moment))
            ended = case.started(folder, **points, **moment)  # type: ignore[arg-type]
            wrong = wrong or continued(ended, steps)
            if ended.code != -signal.SIGKILL:
                break  # finished before
            kills += 1
            newest = checkpoints(folder)
            wrong = wrong or _backwards(steps, newest)
            steps = newest
            self._note(case, steps)
        wrong = wrong or self._finished(case, normal, folder, steps)
        if wrong:
            self.trials.failed(case.kind, f"{case.name}, killed at {', '.join(said)}: {wrong}")
        else:
            self.trials.passed(case.kind, kills)
            self.backends[case.backend] += kills
        return kills

    def _note(self, case: Case, steps: dict[str, int]) -> None:
        """Count where a kill fell."""
        between = any(0 < step < case.steps for step in steps.values()) if case.steps else bool(steps)
        self.where["between" if between else "outside"] += 1

    def _finished(self, case: Case, normal: Undisturbed, folder: Path, steps: dict[str, int]) -> str:
        """Let the command run to its end; what is wrong with what it has written, in words."""
        _age(folder)
        twin = folder.with_name(f"{folder.name}-twin")
        if not case.same:
            shutil.copytree(folder, twin)
        try:
            ended = case.started(folder)
            if ended.code != 0 or ended.traceback:
                return f"started again: {ended}"
            found = contents(folder)
            wrong = continued(ended, steps)
            if wrong or case.same:
                return wrong or differences(normal.contents, found) or leftovers(folder)
            again = case.started(twin)
            wrong = different_track(normal.contents, found) or answered(folder / "result.gvfx", case.steps, case.lanes)
            wrong = wrong or (f"started again a second time: {again}" if again.code else differences(found, contents(twin)))
            return wrong or leftovers(folder)
        finally:
            shutil.rmtree(twin, ignore_errors=True)


def continued(ended: Ended, steps: dict[str, int]) -> str:
    """What is wrong with how a command went on from checkpoints at these steps (by their names)."""
    if ended.traceback:
        return f"a traceback: {ended.err[-2000:]}"
    for seed, step in CONTINUES.findall(ended.err):
        expected = steps.get(f"seed-{int(seed):04d}")
        if int(step.replace(",", "")) != expected:
            return f"seed {seed} continued at step {step}, its newest checkpoint is of {expected}"
    return ""


def checkpoints(folder: Path) -> dict[str, int]:
    """The steps of the newest checkpoints, by the names of their runs."""
    found: dict[str, int] = {}
    for path in folder.rglob("*.checkpoint"):
        raw = path.read_bytes()
        (size,) = struct.unpack("<Q", raw[:8])
        step = int(json.loads(raw[8 : 8 + size])["__metadata__"]["step"])
        run = re.sub(r"^run/|(?<=seed-\d{4}).*$", "", str(path.relative_to(folder)))
        found[run] = max(found.get(run, 0), step)
    return found


def _backwards(before: dict[str, int], after: dict[str, int]) -> str:
    """Whether a run fell back behind a checkpoint that it had: it did not continue from it."""
    lost = {run: (step, after[run]) for run, step in before.items() if run in after and after[run] < step}
    return f"checkpoints at earlier steps than before: {lost}" if lost else ""


def _age(folder: Path) -> None:
    """Make temporary files old, as if the killed processes had left them long ago."""
    then = time.time() - LONG_AGO
    for path in folder.rglob("*.tmp"):
        os.utime(path, (then, then))


def leftovers(folder: Path) -> str:
    """Files that a finished command should not leave."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.suffix in (".tmp", ".claim", ".damaged")]
    left = [str(path) for path in found if path.parts[0] != "cache"]  # which is swept up when more code is compiled
    return f"left behind: {', '.join(sorted(left)[:4])}" if left else ""


def contents(folder: Path) -> dict[str, object]:
    """What a command has written, without the seconds that it took; of JSON lines the complete ones, each once."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or path.suffix in (".checkpoint", ".tmp", ".claim") or name.startswith(("cache", ".faults")):
            continue
        if path.suffix == ".gvfx":
            arrays, metadata = unpack(path.read_bytes(), name)
            found[name] = {k: (v.dtype.str, v.shape, v.tobytes()) for k, v in arrays.items() if k != "seconds"}, metadata
        elif path.suffix == ".jsonl":
            found[name] = _lines(path)
        else:
            found[name] = path.read_bytes()
    return found


def _lines(path: Path) -> dict[str, str]:
    """The complete lines of a log by what they are about; a line that was cut off by a kill is none."""
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        about = [said.pop(key, None) for key in ("experiment", "seed", "step")]
        said.pop("seconds", None)
        found[json.dumps(about)] = json.dumps(said)
    return found


def differences(expected: dict[str, object], found: dict[str, object]) -> str:
    """The first difference, in words; a stored run's line in runs.jsonl may be missing.

    Which files were found whole (index.json) depends on when they were looked at.
    """
    for name in sorted({*expected, *found}):
        if name.endswith("index.json"):
            continue
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} should not be there"
        if name.endswith("runs.jsonl"):
            lines, known = found[name], expected[name]
            assert isinstance(lines, dict) and isinstance(known, dict)
            if not lines.items() <= known.items():
                return f"{name} has other lines"
        elif expected[name] != found[name]:
            return f"{name} has other bytes{_where(expected[name], found[name])}"
    return ""


def _where(expected: object, found: object) -> str:
    """Which arrays of a result differ."""
    if not (isinstance(expected, tuple) and isinstance(found, tuple)):
        return ""
    arrays = [k for k in sorted({*expected[0], *found[0]}) if expected[0].get(k) != found[0].get(k)]
    return f": {', '.join(arrays)}" + (f"; {expected[1]} and {found[1]}" if expected[1] != found[1] else "")


def different_track(expected: dict[str, object], found: dict[str, object]) -> str:
    """Whether measurements are missing in the logs."""
    for name in expected:
        if name.endswith(".jsonl") and {*expected[name]} != {*found.get(name, {})}:  # type: ignore[misc,call-overload]
            return f"{name}: lines are missing, or there are others"
    return ""


def answered(path: Path, steps: int, lanes: int) -> str:
    """What is wrong with the result of a run that was continued in so many environments, which are stepped together."""
    result = load(path)
    if result.details.snapshots[-1].step != steps or result.steps[-1] != steps:
        return f"{result.details.snapshots[-1].step} steps instead of {steps}"
    seen = result.visits.sum(axis=(0, 2)) > 0
    if result.details.points is None and not 0 <= result.visits.sum() - steps * len(result.seeds) < lanes:
        return f"{result.visits.sum()} visits in {steps} steps"
    return "" if np.isfinite(result.values[:, :, seen]).all() else "answers are not finite"
