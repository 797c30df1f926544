"""Count the source files that one transition of CartPole passes, and the changes of file per environment step.

    python tools/path_of_a_transition.py

A call from one file of gvfx into another counts as a change of file; returning does not.  Files are counted over many
steps, learning included, once everything is compiled; changes per step are the median over steps.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan

SOURCE = str(Path(gvfx.__file__).parent)
STEPS = 2_000


def leaning(o: np.ndarray) -> np.ndarray:
    right = 1 / (1 + np.exp(-8 * (o[..., 2] + 0.5 * o[..., 3])))
    return np.stack([1 - right, right], axis=-1)


def main() -> None:
    questions = [gvfx.GVF(leaning, gvfx.Reward(), 0.95, name="lean")]
    run = open_backend(gymnasium.make("CartPole-v1"), questions, options=Options(Plan.checked(10_000, None, ())))
    stream = run.begin(0)
    stream.start()
    stream.advance(3_000)
    files: Counter[str] = Counter()
    changes: list[int] = []
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        name = frame.f_code.co_filename
        files[name] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        count += caller is not None and caller.f_code.co_filename != name

    for _ in range(STEPS):
        count = 0
        sys.setprofile(watch)
        stream.advance(stream.t + 1)
        sys.setprofile(None)
        changes.append(count)
    for name in sorted(files):
        print(f"{files[name] / STEPS:8.2f} calls per step  {Path(name).relative_to(SOURCE)}")
    print(f"{len(files)} files, {np.median(changes):g} changes of file per step (median; {np.mean(changes):.2f} on average)")


if __name__ == "__main__":
    main()
