"""Every kind of file that gvfx writes and reads again, and what must be true after one of them was damaged.

`made()` makes one of each.  `Container.check(folder)` uses the file in a folder as gvfx does; it returns what went wrong, or an
empty text if the damage was noticed (in a sentence, or by making the file anew) or does not change anything.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from helpers.experiments import EXPERIMENTS

import gvfx
import gvfx_paper
from gvfx.compilation.folder import Folder
from gvfx.errors import Diverged, GvfxError
from gvfx.experiments import executors
from gvfx.experiments import store as index
from gvfx.experiments.store import Divergence, Store
from gvfx.experiments.sweep import run_all, stored_result
from gvfx.report.result_page import page_of
from gvfx.running import drive
from gvfx.running.saved import load
from gvfx_paper.settings.runs import find_setting
from gvfx_paper.targets import SHIPPED, Target, read_target
from gvfx_paper.truths.lattice import continuous_truth

SAVED = Path(__file__).parents[1] / "data" / "saved-0.1.0"
SEEDS = 3
RUNS = [(e, SEEDS) for e in EXPERIMENTS]


@dataclass(frozen=True)
class Container:
    """A kind of file: a folder that holds one (and what belongs to it), its name there, and how it is used."""

    name: str
    folder: Path
    file: str
    check: Callable[[Path], str]
    packed: bool = True  # in the layout of gvfx.tensors
    is_text: bool = False

    @property
    def raw(self) -> bytes:
        return (self.folder / self.file).read_bytes()


def copied(container: Container, to: Path) -> Path:
    """A copy of the container's folder."""
    return Path(shutil.copytree(container.folder, to / "copy", symlinks=True))


# --- stores ----------------------------------------------------------------------------------------------------------


def results(folder: Path) -> dict[str, bytes]:
    kept = (*folder.rglob("*.safetensors"), *folder.rglob("experiment.json"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(kept) if p.is_file() and not p.is_symlink()}


def indexed(folder: Path) -> None:
    """Let the store of a folder know that all its files are whole, as if they had been written long ago."""
    before, index.RECENT = index.RECENT, -1.0
    store = Store(folder)
    good = all(store.has(e, seed) for e, seeds in RUNS for seed in range(seeds))
    store.save_indices()
    index.RECENT = before
    assert good
    time.sleep(0.01)  # more than a tick of the clock that stamps files


def store_check(expected: dict[str, bytes]) -> Callable[[Path], str]:
    """After running what is missing, all results are what they were, and can be used."""

    def check(folder: Path) -> str:
        run_all(Store(folder), RUNS, workers=1)
        for experiment, seeds in RUNS:
            stored_result(Store(folder), experiment, seeds)
        found = results(folder)
        wrong = [name for name, raw in expected.items() if found.get(name) != raw]
        return f"other bytes in {', '.join(wrong)}" if wrong else ""

    return check


def divergence_check(record: bytes, result: bytes) -> Callable[[Path], str]:
    """The record is what it was, or the run was made again."""

    def check(folder: Path) -> str:
        run_all(Store(folder), [(EXPERIMENTS[0], [7])], workers=1)
        path = Store(folder).path(EXPERIMENTS[0], 7)
        if path.is_file():
            return "" if path.read_bytes() == result else "another result"
        return "" if path.with_suffix(".diverged.json").read_bytes() == record else "another record"

    return check


def checkpoint_check(expected: bytes) -> Callable[[Path], str]:
    def check(folder: Path) -> str:
        made = executors.run_task(EXPERIMENTS[0].json, 5, str(folder))
        return "" if made.raw == expected else "another result after resuming"

    return check


# --- single files ----------------------------------------------------------------------------------------------------


def saved_check(file: str, original: Path) -> Callable[[Path], str]:
    """What is loaded says what it said, as far as it is there, on a page too."""
    right = load(original)

    def check(folder: Path) -> str:
        result = load(folder / file)
        result.summary()
        page_of(result, folder / file)
        result.rows()
        for name in ("mse", "episodes", "truth", "weights", "steps", "expected", "starts", "stopped", "bounds"):
            mine, theirs = getattr(result.details, name), getattr(right.details, name)
            if mine is not None and not _same(mine, theirs):
                return f"another {name}"
        for mine, theirs in zip(result.details.snapshots, right.details.snapshots, strict=True):
            for name in ("values", "variances", "visits", "behaviour", "standard_errors", "policies"):
                if getattr(mine, name) is not None and not _same(getattr(mine, name), getattr(theirs, name)):
                    return f"another {name}"
        return ""

    return check


def _same(mine: np.ndarray, theirs: np.ndarray | None) -> bool:
    return theirs is not None and mine.dtype == theirs.dtype and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")


@cache
def grid() -> gvfx_paper.ContinuousGrid:
    return find_setting("continuous").world


def truth_of(folder: Path) -> np.ndarray:
    world = grid()
    return continuous_truth(world, np.full((len(world.goals), 4), 0.25), 0.9, episodes=2, cache=folder).values


def truth_check(expected: np.ndarray) -> Callable[[Path], str]:
    return lambda folder: "" if _same(truth_of(folder), expected) else "other values"


def target_check(digest: str) -> Callable[[Path], str]:
    def check(folder: Path) -> str:
        read_target.cache_clear()
        target = Target.load(folder / "target.safetensors")
        target.middles(np.zeros((1, 24)), (6,))
        return "" if target.digest == digest else "other weights"

    return check


def compiled_check(folder: Path) -> str:
    kept = Folder(folder).read("key", "loop")
    return "" if kept in (None, b"code" * 100) else "other code"


# --- all of them -----------------------------------------------------------------------------------------------------


def _store(folder: Path) -> list[Container]:
    run_all(Store(folder), RUNS, workers=1)
    indexed(folder)
    check, (first, second) = store_check(results(folder)), (e.hash for e in EXPERIMENTS)
    return [
        Container("results", folder, f"{first}/seed-0001.safetensors", check),
        Container("index", folder, f"{first}/index.json", check, packed=False, is_text=True),
        Container("experiment.json", folder, f"{second}/experiment.json", check, packed=False, is_text=True),
    ]


def _divergence(folder: Path) -> list[Container]:
    error = Diverged("table of M", float("inf"), 6, 7, "left")
    Store(folder).save_divergence(EXPERIMENTS[0], Divergence.of(EXPERIMENTS[0].hash, error))
    path = next(folder.rglob("*.diverged.json"))
    check = divergence_check(path.read_bytes(), executors.run_task(EXPERIMENTS[0].json, 7).raw)
    return [Container("divergence", folder, str(path.relative_to(folder)), check, packed=False, is_text=True)]


def _checkpoints(folder: Path) -> list[Container]:
    before, drive.CHECKPOINT_EVERY = drive.CHECKPOINT_EVERY, 0.0
    check = checkpoint_check(executors.run_task(EXPERIMENTS[0].json, 5, str(folder)).raw)
    drive.CHECKPOINT_EVERY = before
    paths = sorted(folder.rglob("*.checkpoint"))
    return [Container("checkpoint", folder, str(path.relative_to(folder)), check) for path in paths]


def _saved(folder: Path) -> list[Container]:
    out = []
    for path in [*sorted(SAVED.glob("*.gvfx")), _compared(folder / "compared.gvfx")]:
        own = folder / path.stem
        own.mkdir(parents=True)
        shutil.copy(path, own / path.name)
        out.append(Container(f".gvfx ({path.stem})", own, path.name, saved_check(path.name, path)))
    return out


def _truth(folder: Path) -> list[Container]:
    check = truth_check(truth_of(folder))
    return [Container("truth cache", folder, next(folder.glob("*.safetensors")).name, check)]


def _target(folder: Path) -> list[Container]:
    folder.mkdir()
    shutil.copy(SHIPPED / "walker-walk.safetensors", folder / "target.safetensors")
    return [Container("target", folder, "target.safetensors", target_check(Target("walker-walk").digest))]


def _compiled(folder: Path) -> list[Container]:
    folder.mkdir(mode=0o700)
    Folder(folder).write("key", "loop", b"code" * 100)
    return [Container("compiled code", folder, "key.loop", compiled_check, packed=False)]


MAKERS = {
    "store": _store,
    "divergence": _divergence,
    "checkpoints": _checkpoints,
    "saved": _saved,
    "truth": _truth,
    "target": _target,
    "compiled": _compiled,
}


def made(folder: Path) -> list[Container]:
    """One container of each kind, in a folder."""
    return [container for name, make in MAKERS.items() for container in make(folder / name)]


def _compared(path: Path) -> Path:
    """A result with values at the start and comparisons of policies."""
    world = gvfx.gridworld(4, {"left": (0, 0), "right": (3, 3)}, horizon=30)
    policies = {"up": [0.7, 0.1, 0.1, 0.1], "even": [0.25] * 4}
    goals = {goal: gvfx.Distractor(10, 1, at=goal) for goal in ("left", "right")}
    asked = [gvfx.GVF(p, signal, 0.9, name=f"{n}: {g}") for n, p in policies.items() for g, signal in goals.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gvfx.evaluate(world, asked, steps=2000, seeds=2, where="start", progress=False, save=path)
    return path


def outcome(container: Container, folder: Path) -> str:
    """What is wrong after the container's file in this folder was damaged; empty if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return container.check(folder)
        except GvfxError as error:
            return "" if str(error).strip() and "\n" not in str(error) else f"no sentence: {error!r}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def tuned_mutations() -> list[tuple[str, str]]:
    """Texts of tuned.json that must be refused."""
    good = {"same": {"Uniform": [0.1, 0.8], "GVFExplorer": [0.1, 0.8]}}
    odd: list[object] = [None, 7, "x", [], {"a": 1}, [0.1], [0.1, 0.8, 0.9], ["0.1", "0.8"], [-0.1, 0.8], [0, 0.8], [1e300, 0.8]]
    odd += [[True, 0.8], [[0.1], 0.8], [float("nan"), 0.8], [float("inf"), 0.8], [0.1, float("-inf")]]
    texts = [json.dumps({"same": {"Uniform": value}}) for value in odd]
    wrong: list[object] = [None, 7, "x", [], {"same": []}, {"same": "x"}, {"sane": {}}, {"same": {"Unifrm": [0.1, 0.8]}}]
    texts += [json.dumps(value) for value in wrong]
    text = json.dumps(good)
    texts += [text[:k] for k in range(0, len(text), 7)] + ["[" * 100_000, text + "x", "\ufeff" + text, "\0" * 20]
    return [(repr(text[:60]), text) for text in texts]
