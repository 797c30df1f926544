"""Races and kills on the folder for compiled code: python tools/cache_campaign.py [ROUNDS]

Each round begins with an empty folder.  In a race, two processes start together, compile the same loop and store it.  In a
kill, a process is killed while it writes an entry, and the same run is started again.  Every finished process must give the
bytes of a run that compiled everything itself, without a word on stderr.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = """
import hashlib
import gvfx
world = gvfx.gridworld(6, goals={"left": (0, 0), "right": (0, 5)}, slip=0.1)
questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(10, 1, at=goal), 0.9) for goal in ("left", "right")]
result = gvfx.evaluate(world, questions, gvfx.GVFExplorer(), gvfx.ExpectedSarsa(), steps=20_000, seeds=2)
print(hashlib.sha256(result.values.tobytes()).hexdigest())
"""


def start(folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "GVFX_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def failed(process: subprocess.Popen[str], expected: str) -> str:
    """What is wrong with a finished process; empty if nothing is."""
    out, err = process.communicate()
    if process.returncode or err:
        return f"exit code {process.returncode}: {err}"
    return "" if out == expected else "other bytes"


def killed_while_writing(folder: Path) -> bool:
    """Start a run and kill it as soon as it has begun to write an entry; False if it wrote them faster than we looked."""
    process = start(folder)
    pause = random.uniform(0, 0.0005)
    while process.poll() is None:
        if folder.is_dir() and any(name.endswith(".tmp") for name in os.listdir(folder)):
            time.sleep(pause)
            process.kill()
            process.communicate()
            return True
    process.communicate()
    return False


def main(rounds: int) -> int:
    wrong = hit = 0
    with tempfile.TemporaryDirectory() as scratch:
        first = start(Path(scratch) / "first")
        expected = first.communicate()[0]
        for k in range(rounds):
            both = [start(Path(scratch) / f"race{k}") for _ in range(2)]
            for problem in filter(None, [failed(process, expected) for process in both]):
                wrong += 1
                print(f"race {k}: {problem}")
        print(f"{rounds} races of two processes: {wrong} wrong or failed", flush=True)
        before = wrong
        for k in range(rounds):
            folder = Path(scratch) / f"kill{k}"
            for _ in range(10):
                if killed_while_writing(folder):
                    hit += 1
                    break
                for file in folder.iterdir():
                    file.unlink()
            if problem := failed(start(folder), expected):
                wrong += 1
                print(f"kill {k}: {problem}")
        print(f"{hit} kills while writing in {rounds} rounds: {wrong - before} wrong or failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
