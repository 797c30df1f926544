"""Run groups of the fault campaign: python -m faults [GROUP ...] (from the folder tests, or with it in PYTHONPATH).

Every group runs in a process of its own, two at a time.  Prints a table of counts and every failure; exit code 1 if there is
one, or if a group could not make all of its trials within the time.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from faults import groups
from faults.injection import preloaded
from faults.trials import Trials

HEAD = """# The fault campaign

`make test-faults` makes this table; `PYTHONPATH=tests python -m faults GROUP --out FILE` makes single rows of it. What is tried
is described in `tests/faults`, and what gvfx keeps in each case in [when things go wrong](../durability.md).

"""


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(groups.__path__))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"default: all of {', '.join(names())}")
    parser.add_argument("--fast", action="store_true", help="a few trials of each, as in make test")
    parser.add_argument("--trials", type=int, help="trials per group, instead of its own number")
    parser.add_argument("--seed", type=int, default=0, help="of what is random; the same seed tries the same things")
    parser.add_argument("--jobs", type=int, default=2, help="groups at the same time")
    parser.add_argument("--minutes", type=float, default=30.0, help="after which no new trial begins")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="failures of a group that are printed")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file, whose other rows stay")
    parser.add_argument("--one", nargs=2, metavar=("FOLDER", "JSON"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [name for name in given.groups if name not in names()]
    if unknown:
        parser.error(f"there is no group {unknown[0]!r}; the groups are {', '.join(names())}")
    chosen = given.groups or [name for name in names() if not given.fast or group_named(name).FAST]
    if given.one:
        return _one(chosen[0], given)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gvfx-faults-") as scratch:
        env = preloaded(Path(scratch))
        longest_first = sorted(chosen, key=lambda name: -getattr(group_named(name), "SECONDS", 0))
        with ThreadPoolExecutor(given.jobs) as pool:
            made = pool.map(lambda name: _started(name, given, begun, Path(scratch), env), longest_first)
            found = dict(zip(longest_first, made))
    rows = [row(name, found[name]) for name in chosen]
    print("\n".join(table(rows)))
    for name in chosen:
        for kind, detail in found[name]["failures"][: given.show]:
            print(f"\nFAILED {name}, {kind}: {detail[:3000]}")
    failed = sum(len(found[name]["failures"]) for name in chosen)
    tried = sum(sum(found[name]["tried"].values()) for name in chosen)
    short = [name for name in chosen if sum(found[name]["tried"].values()) < found[name]["wanted"]]
    if short:
        print(f"\nout of time before all trials were made: {', '.join(short)}")
    print(f"\n{tried - failed} passed, {failed} failed")
    if given.out:
        write_table(given.out, rows)
    return 1 if failed or short else 0


def group_named(name: str) -> Any:
    return import_module(f"faults.groups.{name}")


def _started(name: str, given: argparse.Namespace, begun: float, scratch: Path, env: dict[str, str]) -> dict[str, Any]:
    """Run a group in a process of its own."""
    result, folder = scratch / f"{name}.json", scratch / name
    folder.mkdir()
    left = max(0.0, given.minutes - (time.monotonic() - begun) / 60)
    call = [sys.executable, "-m", "faults", name, "--seed", str(given.seed), "--minutes", str(left)]
    call += ["--fast"] * given.fast + ([] if given.trials is None else ["--trials", str(given.trials)])
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), env.get("PYTHONPATH")]))
    started = time.monotonic()
    done = subprocess.run(
        [*call, "--one", str(folder), str(result)],
        env={**env, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if not result.exists():
        said = f"the group itself ended with {done.returncode}: {(done.stdout + done.stderr)[-2500:]}"
        return {"tried": {"group": 1}, "failures": [("group", said)], "notes": [], "wanted": 1, "seconds": 0.0}
    return {**json.loads(result.read_text()), "seconds": time.monotonic() - started}


def _one(name: str, given: argparse.Namespace) -> int:
    """This process runs one group and writes what it found."""
    group = group_named(name)
    wanted = given.trials or (group.FAST if given.fast else group.FULL)
    folder, result = map(Path, given.one)
    trials = Trials(wanted, given.seed, folder, 60 * given.minutes)
    group.run(trials)
    result.write_text(json.dumps(trials.as_json()))
    return 0


def row(name: str, found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    tried, failed = sum(found["tried"].values()), len(found["failures"])
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(found["tried"].items()))
    about = "; ".join([kinds, *found["notes"]])
    return [name, str(tried), str(tried - failed), str(failed), f"{found['seconds']:.0f}", about]


def write_table(path: Path, rows: list[list[str]]) -> None:
    """Write the table to a file; rows of groups that were not run this time stay as they are."""
    old = [line.strip("| ").split(" | ") for line in (path.read_text().splitlines() if path.exists() else []) if line[:1] == "|"]
    merged = {line[0]: line for line in [*old[2:], *rows]}
    path.write_text(HEAD + "\n".join(table([merged[name] for name in sorted(merged)])) + "\n", encoding="utf-8")


def table(rows: list[list[str]]) -> list[str]:
    """Markdown."""
    lines = [["group", "tried", "passed", "failed", "seconds", "what"], ["---"] * 6, *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
