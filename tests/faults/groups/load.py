"""Load in small: long runs with flat memory and no open files left, many questions in a large world, a page of many figures."""

from __future__ import annotations

from collections.abc import Callable

from helpers.browser import chromium

from benchmarks.load import FIGURES, FLAT, OPENED, long_run, many_questions, page_of_figures, seconds_to_open
from benchmarks.study import apart
from faults.trials import Trials

FULL, FAST, SECONDS = 5, 2, 60
TABLES = 20  # of [question, state, action] that a run may hold at a time, beside what the program itself needs
PROGRAM = 300.0  # MB, while it compiles
PATIENCE = 30.0  # seconds


def run(trials: Trials) -> None:
    for trial in (
        _long("tables", 300_000),
        _page,
        _many("CertaintyEquivalence"),
        _many("ExpectedSarsa"),
        _long("linear", 30_000),
    ):
        if not trials.done:
            trial(trials)
    if trials.wanted > FAST:
        _long("networks", 12_000)(trials)


def _long(kind: str, steps: int) -> Callable[[Trials], None]:
    """A run whose memory may not grow once everything is compiled."""

    def trial(trials: Trials) -> None:
        found = apart(long_run, kind, steps)
        said = f"{steps:,} steps on {kind}: memory grew by {found['grown']:.1f} MB, open files by {found['files']:.0f}"
        if kind != "networks":  # whose memory is not known to be flat: it is measured, and not judged
            trials.check("long runs", found["grown"] <= FLAT and not found["files"], said)
        trials.note(said)

    return trial


def _many(learner: str, side: int = 32, policies: int = 5, signals: int = 20) -> Callable[[Trials], None]:
    """Many questions, whose memory may grow in proportion to questions times states."""

    def trial(trials: Trials) -> None:
        found = apart(many_questions, learner, side, policies, signals, 50_000)
        table = 8 * 4 * side * side * policies * signals / 2**20
        said = (
            f"{policies * signals} questions, {side * side} states, {learner}: {found['peak']:.0f} MB, {found['seconds']:.1f} s"
        )
        trials.check("many questions", found["peak"] <= PROGRAM + TABLES * table and found["seconds"] <= PATIENCE, said)
        trials.note(said)

    return trial


def _page(trials: Trials) -> None:
    """A page of many figures, which opens before they are drawn."""
    seconds = seconds_to_open(page_of_figures(FIGURES), chromium())
    said = f"{FIGURES} figures opened in {seconds:.2f} s"
    trials.check("pages", seconds <= OPENED, said)
    trials.note(said)
