"""Failing disks: every k-th file operation fails, folders vanish, handles run out; a sentence or a warning, nothing torn."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from helpers.experiments import EXPERIMENTS

import gvfx
from benchmarks.load import fill
from faults.injection import CHANGES, KINDS, arm, count
from faults.processes import Ended, called, forked, warm_up
from faults.trials import Trials
from gvfx import files
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx.tensors import unpack
from gvfx_paper.items import ITEMS
from gvfx_paper.items.curves import sweep_curves

FULL, FAST, SECONDS = 300, 8, 200
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EMFILE, errno.EDQUOT)
MADE = """
import gymnasium as gym
import gvfx

def lake():
    return gym.make("FrozenLake-v1"), [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="reward")]
"""
ROWS = [f"{k % 4},{k % 2},{(k + 1) % 4},1,0" for k in range(200)]
LOG = "\n".join(["observation,action,next_observation,reward,terminated", *ROWS, ""])
ASKED = 'discount = 0.9\n[policies]\nrandom = "uniform"\n[signals]\ngoal = "reward"\n'
ITEM = "value-error"


@dataclass(frozen=True)
class Case:
    """A command, or a function that makes runs, and the files that it needs."""

    name: str
    arguments: tuple[str, ...]
    function: Callable[[], None] | None = None
    store: str = ""  # a folder of made-up results that it reads

    def run(self, folder: Path, before: Callable[[], None] = lambda: None) -> Ended:
        function = self.function
        if function is None:
            return forked(*self.arguments, cwd=folder, before=before, timeout=120)

        def prepared() -> None:
            before()
            try:
                function()
            except gvfx.StoreError as error:
                raise SystemExit(f"gvfx: {error}") from None

        return called(prepared, cwd=folder, timeout=120)


def runs() -> None:
    run_all(Store("results"), [(e, 2) for e in EXPERIMENTS], workers=1)


OUTPUTS = ("--json", "out.json", "--save", "out.gvfx")
TRACKED = ("--report", "out.html", "--track", "out.jsonl", "--checkpoint", "kept")
CASES = (
    Case("run", ("run", "same", "--steps", "2000", "--seeds", "1", "--workers", "1", *OUTPUTS, "--checkpoint", "kept")),
    Case("evaluate", ("evaluate", "mine.py:lake", "--steps", "2000", *OUTPUTS, *TRACKED)),
    Case("plan", ("plan", "mine.py:lake", "--error", "0.01", "--pilot", "2000", "--json", "out.json")),
    Case("init", ("init", "new/mine.py")),
    Case("log", ("log", "log.csv", "--questions", "asked.toml", *OUTPUTS, "--report", "out.html")),
    Case("runs", (), runs),
    Case("sweep", ("sweep", "same", "--seeds", "1", "--workers", "1", "--results", "results"), store="swept"),
    Case("reproduce", ("reproduce", ITEM, "--seeds", "1", "--workers", "1", "--results", "results"), store="shown"),
    Case("report", ("report", "results", "--seeds", "1"), store="shown"),
    Case("report of a file", ("report", "given.gvfx", "--out", "pages/out.html")),
)
COSTLY = ("reproduce", "report")  # they draw figures for seconds


def run(trials: Trials) -> None:
    warm_up()
    _prepare(trials.folder)
    places: dict[tuple[str, tuple[str, ...]], int] = {}
    references = {}
    while not trials.done:
        case = trials.random.choice(CASES)
        if case.name in COSTLY and trials.random.random() > 0.2:
            continue
        with trials.scratch() as scratch:
            if case.name not in references:
                folder = _folder(trials.folder, scratch / "right", case)
                ended = case.run(folder)
                if ended.code != 0:
                    trials.failed("without a fault", f"{case.name}: {ended}")
                    return
                references[case.name] = _contents(folder)
            folder = _folder(trials.folder, scratch / "folder", case)
            kind, detail, before = _fault(trials, case, folder, places)
            ended = case.run(folder, before)
            said = _judged(ended, folder, references[case.name], detail)
            if not said:
                again = case.run(folder)
                if again.code != 0 and case.name == "init" and "exists and is not overwritten" in again.err:
                    again = Ended(0, "", "", 0.0)  # the file was finished before the fault
                said = f"afterwards: {again}" if again.code != 0 else _differences(_contents(folder), references[case.name])
            trials.check(kind, not said, f"{case.name}, {detail}: {said}")


def _fault(
    trials: Trials, case: Case, folder: Path, places: dict[tuple[str, tuple[str, ...]], int]
) -> tuple[str, str, Callable[[], None]]:
    """What goes wrong: its kind, how to repeat it, and what to call in the process."""
    rng, chance = trials.random, trials.random.random()
    if chance < 0.08:
        handles = rng.randrange(8, 25)
        return "few handles", f"ulimit -n {handles}", lambda: _limit(handles)
    if chance < 0.16:
        k = rng.randrange(4)
        return "deleted folder", f"the folder of write {k} is deleted before it", lambda: _vanish(folder, k)
    kinds = rng.choice((CHANGES, CHANGES, ("lock",), ("unlink",), tuple(KINDS)))
    if (case.name, kinds) not in places:
        with trials.scratch() as scratch:
            own = _folder(trials.folder, scratch / "count", case)
            case.run(own, lambda: _counting(own, kinds))
            counted = own.parent / "counted"
            places[case.name, kinds] = int(counted.read_text()) if counted.exists() else 1
    k = rng.randrange(1, max(2, places[case.name, kinds] + 1))
    error = errno.ENOLCK if kinds == ("lock",) else rng.choice(ERRORS)
    lasting = rng.random() < 0.5
    detail = f"operation {k} of {'+'.join(kinds)} fails with {errno.errorcode[error]}{', and all later ones' * lasting}"
    return errno.errorcode[error], detail, lambda: arm(folder, k, error, lasting, kinds)


def _counting(folder: Path, kinds: tuple[str, ...]) -> None:
    """Count the operations, and write their number when the process ends."""
    arm(folder, 0, errno.EIO, False, kinds)
    leave = os._exit

    def ending(code: int) -> None:
        (folder.parent / "counted").write_text(str(count()))
        leave(code)

    os._exit = ending  # type: ignore[assignment]


def _limit(handles: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (handles, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _vanish(folder: Path, k: int) -> None:
    """Delete everything in the folder of the k-th file, just before it is renamed."""
    real, seen = files.Path.replace, [0]

    def replace(self: Path, target: Path) -> Path:
        if self.suffix == ".tmp" and folder in Path(target).absolute().parents:
            seen[0] += 1
            if seen[0] == k + 1 and Path(target).absolute().parent != folder:
                shutil.rmtree(Path(target).parent)
        return real(self, target)

    files.Path.replace = replace  # type: ignore[method-assign]


# --- files -----------------------------------------------------------------------------------------------------------


def _prepare(folder: Path) -> None:
    """Made-up stores, and compiled code in this process, which its copies have too."""
    fill(folder / "swept", sweep_curves("same"), 1)
    fill(folder / "shown", [*ITEMS[ITEM].needs({})], 1)  # type: ignore[list-item]
    os.environ.setdefault("GVFX_CACHE_DIR", str(folder / "compiled"))
    time.sleep(0.1)


@cache
def _given(folder: Path) -> bytes:
    return (Path(__file__).parents[2] / "data" / "saved-0.1.0" / "table.gvfx").read_bytes()


def _folder(common: Path, folder: Path, case: Case) -> Path:
    """A folder with what a command needs."""
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(MADE)
    (folder / "log.csv").write_text(LOG)
    (folder / "asked.toml").write_text(ASKED)
    (folder / "given.gvfx").write_bytes(_given(common))
    if case.store:
        shutil.copytree(common / case.store, folder / "results")
    return folder


def _contents(folder: Path) -> dict[str, object]:
    """What is in the files of a folder, without times."""
    out: dict[str, object] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name, raw = str(path.relative_to(folder)), path.read_bytes()
        if path.suffix in (".gvfx", ".safetensors"):
            arrays, metadata = unpack(raw, name)
            arrays.pop("seconds", None)
            out[name] = ({k: (a.dtype.str, a.shape, a.tobytes()) for k, a in arrays.items()}, metadata)
        elif path.suffix == ".checkpoint":
            unpack(raw, name)
        elif path.suffix == ".json" and path.name != "index.json":
            data = json.loads(raw)
            out[name] = {k: v for k, v in data.items() if k != "seconds"} if isinstance(data, dict) else data
        elif path.suffix == ".jsonl":
            assert raw.endswith(b"\n") or not raw, f"{name} ends within a line"
            [json.loads(line) for line in raw.splitlines()]
        elif path.suffix == ".html":
            assert raw.rstrip().endswith(b"</html>"), f"{name} is torn"
            out[name] = "a page"
        elif path.suffix == ".png":
            assert raw.endswith(b"IEND\xaeB`\x82"), f"{name} is torn"
            out[name] = "a figure"
        elif path.suffix in (".md", ".py", ".toml", ".csv"):
            out[name] = raw
    return out


def _judged(ended: Ended, folder: Path, right: dict[str, object], detail: str) -> str:
    """What is wrong after a fault; empty if nothing is."""
    if ended.code not in (0, 1, 2) or ended.traceback:
        return f"{ended}"
    if ended.code and not ended.sentence:
        return f"no sentence: {ended}"
    if "unlink" not in detail and "open+write" not in detail and (left := [*folder.rglob("*.tmp")]):
        return f"left behind: {left}"
    try:
        found = _contents(folder)
    except Exception as error:
        return f"torn: {type(error).__name__}: {error}; {ended}"
    wrong = [name for name, content in found.items() if name in right and right[name] != content]
    if wrong:
        return f"other contents of {wrong}; {ended}"
    missing = [name for name in right if name not in found]
    if ended.code == 0 and missing and "warning" not in ended.err:
        return f"success without {missing}; {ended}"
    return ""


def _differences(found: dict[str, object], right: dict[str, object]) -> str:
    wrong = [name for name in right if found.get(name) != right[name]]
    return f"afterwards other contents of {wrong}" if wrong else ""
