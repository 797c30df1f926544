"""Malformed command lines: exit code 2 and one sentence, never a traceback."""

from __future__ import annotations

from faults.processes import forked, warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 1000, 20, 300


def run(trials: Trials) -> None:
    warm_up()
    while not trials.done:
        with trials.scratch() as folder:
            ended = forked("run", "nosuch", cwd=folder)
            trials.check("placeholder", ended.code == 2, f"{ended}")
