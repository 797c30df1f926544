"""Calls of every public function, class and method with one or two wrong arguments: an error of gvfx that names the argument.

Calls and values are generated from the signatures (`faults.calls`, `faults.values`).  A value that a parameter cannot mean must
be refused by an error of gvfx that names the parameter or its question; any other value may be accepted or refused so.  Other
errors, more than 15 seconds, more than 4 GB and crashes are failures.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import gvfx
from faults.calls import NAME, Call, calls
from faults.processes import called, warm_up
from faults.trials import Trials
from faults.values import VALUES, accepts

FULL, FAST, SECONDS = 2000, 60, 250
BATCH = 40  # calls of one process
LIMIT = 60  # seconds of a call
MEMORY = 4 * 2**30  # bytes
OURS = (gvfx.GvfxError, gvfx.Interrupted)


class Trial(NamedTuple):
    """A call, and the labels of its wrong arguments by parameter."""

    call: int
    wrong: tuple[tuple[str, str], ...]


class TooSlow(BaseException):
    """A call that takes too long."""


def run(trials: Trials) -> None:
    warm_up()
    known = [call for call in calls() if trials.wanted > FAST or not call.compiles]
    chosen = _chosen(known, trials)
    for k in sorted({trial.call for trial in chosen}):  # compiled functions and cached results are shared by all processes
        with contextlib.chdir(trials.folder):
            known[k].use(_made(known[k], {}, trials.folder))
    while chosen and not trials.done:
        batch, chosen = chosen[:BATCH], chosen[BATCH:]
        with trials.scratch() as folder:
            left = _tried(known, batch, folder, trials)
        chosen = left + chosen


def _chosen(known: list[Call], trials: Trials) -> list[Trial]:
    """As many trials as wanted: the same number of every parameter as far as possible, one tenth of them pairs."""
    by_parameter = []
    for k, call in enumerate(known):
        for parameter in call.annotations():
            labels = [label for label in VALUES if not (label == "10**18" and parameter in call.endless)]
            trials.random.shuffle(labels)
            by_parameter.append([Trial(k, ((parameter, label),)) for label in labels])
    trials.random.shuffle(by_parameter)
    singles = [rest[depth] for depth in range(len(VALUES)) for rest in by_parameter if depth < len(rest)]
    pairs = []
    for k, call in enumerate(known):
        for one, other in combinations(call.annotations(), 2):
            first, second = (trials.random.choice([label for label in VALUES if label != "10**18"]) for _ in range(2))
            pairs.append(Trial(k, ((one, first), (other, second))))
    trials.random.shuffle(pairs)
    doubled = pairs[: trials.wanted // 10]
    out = singles[: trials.wanted - len(doubled)] + doubled
    trials.random.shuffle(out)
    trials.note(f"{len(known)} calls with {len(by_parameter)} parameters, {len(singles)} single mistakes possible")
    return out


def _tried(known: list[Call], batch: list[Trial], folder: Path, trials: Trials) -> list[Trial]:
    """Try a batch in one process; returns those that it did not come to."""
    journal = folder / "journal"
    journal.touch()
    ended = called(lambda: _all(known, batch, journal), cwd=folder, timeout=LIMIT * 3 + 60)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for trial, (good, detail) in zip(batch, lines, strict=False):
        trials.check(_kind(trial), good, f"{_shown(known, trial)}: {detail}")
    left = batch[len(lines) :]
    if left:
        trials.failed(_kind(left[0]), f"{_shown(known, left[0])}: the process ended with {ended.code}: {ended.err[-1500:]}")
    return left[1:]


def _kind(trial: Trial) -> str:
    return "one argument" if len(trial.wrong) == 1 else "two arguments"


def _shown(known: list[Call], trial: Trial) -> str:
    return f"{known[trial.call].name}({', '.join(f'{name}={label}' for name, label in trial.wrong)})"


def _all(known: list[Call], batch: list[Trial], journal: Path) -> None:
    """In the process: every call of a batch, a line of the journal each."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_slow)
    with journal.open("a") as file:
        for trial in batch:
            print(json.dumps(_one(known[trial.call], dict(trial.wrong))), file=file, flush=True)


def _too_slow(*_: Any) -> None:
    raise TooSlow


def _made(call: Call, wrong: dict[str, str], folder: Path) -> Any:
    """The result of a call in a folder, with some arguments replaced."""
    with contextlib.chdir(folder), open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        return call.function(**call.arguments() | {name: VALUES[label]() for name, label in wrong.items()})


def _one(call: Call, wrong: dict[str, str]) -> tuple[bool, str]:
    """Whether a call ended as it should, and what happened."""
    annotations = call.annotations()
    bad = [name for name, label in wrong.items() if label not in accepts(annotations[name]) | call.fine.get(name, set())]
    signal.alarm(LIMIT)
    try:
        call.use(_made(call, wrong, Path.cwd()))
    except OURS as error:
        signal.alarm(0)
        said = str(error)
        names = {name for given in wrong for name in (given, *call.aliases.get(given, ()))}
        named = any(re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", said, re.IGNORECASE) for name in (*names, NAME))
        return named and said.count("\n") < 3, f"{type(error).__name__}: {said}" + ("" if named else " (names no argument)")
    except TooSlow:
        return False, f"took more than {LIMIT} seconds"
    except BaseException as error:
        signal.alarm(0)
        return False, f"{type(error).__name__}: {error!s:.300}{_where(error)}"
    signal.alarm(0)
    return not bad, f"accepted {', '.join(f'{name}={wrong[name]}' for name in bad)}"


def _where(error: BaseException) -> str:
    """The last line of gvfx that an error passed."""
    at, where = error.__traceback__, ""
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        where = f" ({file.rpartition('/gvfx/')[2]}:{at.tb_lineno})" if "/gvfx/" in file else where
        at = at.tb_next
    return where
