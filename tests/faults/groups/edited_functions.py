"""A function is edited and the command repeated: never the old answer, nor a mixture; without an edit the run goes on.

What is edited (code, defaults, globals, closures, partials, objects, arrays) in a policy, signal, discount or environment, after
a finished run, amid one, in a store of results and in a saved result; every start is a process of its own, in another folder, or
with the same code as a cell of a notebook.  Stores take functions with known MDPs alone.

Seen to fail when functions are known by their names alone (edited), and when line numbers count (unchanged cell).
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import gvfx
from faults.processes import Ended, called, warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 400, 24, 300
PATIENCE = 120.0
STEPS = {"tables": 400, "numbered": 400, "features": 400, "known": 400, "networks": 300, "box": 300}
SLOW = ("networks", "box")
NUMBER = {  # a function `number`, whose value is edited
    "code": "def number(): return @",
    "default": "def number(k=@): return k",
    "keyword": "def number(*, k=@): return k",
    "global": "K = @\ndef number(): return K",
    "helper": "def inner(): return @\ndef number(): return inner()",
    "closure": "def make(k): return lambda: k\nnumber = make(@)",
    "partial": "import functools\ndef given(k): return k\nnumber = functools.partial(given, @)",
    "object": "class Held:\n    def __init__(self, k): self.k = k\n    def __call__(self): return self.k\nnumber = Held(@)",
    "method": "class Held:\n    k = @\n    def ask(self): return self.k\nnumber = Held().ask",
    "array": "TABLE = np.array([0.0, @])\ndef number(): return float(TABLE[1])",
}
PLACES = ("policy", "signal", "discount", "environment")
MODULE = """
import gymnasium as gym
import numpy as np
import gvfx
from faults import own_environments as worlds

{number}

KIND = {kind!r}
BASES = {{"numbered": worlds.Pairs, "features": worlds.Points, "networks": worlds.Points, "box": worlds.Pushed}}

def share(o):
    p = {policy}
    return np.array([p, 1 - p])

def mean(o):
    return 0.0 * o[..., :1] + {policy}

def signal(o, a, o2):
    return {signal}

def discount(o, a, o2):
    return {discount}

def questions():
    policy = gvfx.gaussian_policy(mean, 0.5) if KIND == "box" else share
    return [gvfx.GVF(policy, gvfx.Reward() if {place!r} == "environment" else signal, discount, name="asked")]

class World(BASES.get(KIND, worlds.Ring)):
    def step(self, action):
        o, _, ended, cut, info = super().step(action)
        return o, {environment}, ended, cut, info

def world():
    if KIND == "known":
        return gvfx.MDP.from_matrix(np.full((4, 2, 4), 0.25), reward=np.full((4, 2, 4), {environment}))
    return World()
"""


class Trial(NamedTuple):
    kind: str
    way: str
    place: str
    edit: str


def run(trials: Trials) -> None:
    warm_up()
    for trial in _chosen(trials):
        if trials.done:
            break
        with trials.scratch() as folder:
            _tried(trial, folder, trials)


def _chosen(trials: Trials) -> list[Trial]:
    """Every kind with every way and place, with an edit drawn by chance; then others, but not on networks, which compile."""
    ways = ("finished", "unfinished", "load", "store")
    every = [Trial(*each) for each in itertools.product(STEPS, ways, PLACES, NUMBER) if _applies(*each)]
    trials.random.shuffle(every)
    if trials.wanted <= FAST:
        return [trial for trial in every if trial.kind not in SLOW]
    trials.note(f"{len(every)} combinations of {len(NUMBER)} edits")
    once: dict[tuple[str, str, str], Trial] = {trial[:3]: trial for trial in every}
    return [*once.values(), *(trial for trial in every if trial.kind not in SLOW and once[trial[:3]] != trial)]


def _applies(kind: str, way: str, place: str, edit: str) -> bool:
    if way == "store":  # keeps functions at the top level of a module, in worlds of gvfx
        return kind == "known" and place != "environment"
    return not (way == "load" and place == "environment")  # which loading does not ask


def _tried(trial: Trial, folder: Path, trials: Trials) -> None:
    """Run, repeat the same from another folder, edit, repeat: what each of them says."""
    _write(trial, folder, "0.3")
    first = _said(trial, folder, folder, first=True)
    if "values" not in first:
        trials.failed(trial.kind, f"{trial}, the first time: {first}")
        return
    unfinished = folder / "kept"
    if trial.way == "unfinished":
        shutil.copytree(folder / "run", unfinished)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    cell = trials.random.random() < 0.5
    same = _said(trial, folder, elsewhere, cell=cell)
    good = "refused" not in same and "failed" not in same and same["warned"] in ("", "continues")
    good = good and (trial.way == "unfinished" or same.get("values") == first.get("values"))
    kind = f"unchanged{' cell' * cell}, {trial.way}"
    trials.check(kind, good, f"{trial}, {kind}: {first}, then {same}")
    if trial.way == "unfinished":
        shutil.rmtree(folder / "run")
        unfinished.rename(folder / "run")
    _write(trial, folder, "0.6")
    edited = _said(trial, folder, folder)
    named = (
        "mine:"
        if trial.way == "store"
        else "the environment"
        if trial.place == "environment"
        else f"the {trial.place} of 'asked'"
    )
    if trial.way == "store":
        good = named in edited["warned"] and edited.get("values") not in (None, first.get("values"))
    else:
        good = named in edited.get("refused", "") and "values" not in edited
    trials.check(f"edited, {trial.way}", good, f"{trial}, edited: {edited}")


def _write(trial: Trial, folder: Path, value: str) -> None:
    number = NUMBER[trial.edit].replace("@", value)
    used = {**dict.fromkeys(PLACES, "0.5"), "signal": "0.5 + float(np.sum(a))", trial.place: "number()"}
    (folder / "mine.py").write_text(MODULE.format(number=number, place=trial.place, kind=trial.kind, **used))


def _as_cell(folder: Path) -> None:
    """Make the module from its text under another file name and with other line numbers, as a notebook does."""
    sys.modules["mine"] = module = ModuleType("mine")
    text = "# the same cell\n\n\n" + (folder / "mine.py").read_text()
    exec(compile(text, "<cell 7>", "exec", dont_inherit=True), vars(module))


def _said(trial: Trial, folder: Path, cwd: Path, first: bool = False, cell: bool = False) -> dict[str, Any]:
    """What a process of its own says: its values, or why it refused.  cell: the module is run as a cell of a notebook."""
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)

    def process() -> None:
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(folder))
        if cell:
            _as_cell(folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                said = {"values": np.asarray(WAYS[trial.way](trial, folder, first)).tolist()}
            except gvfx.GvfxError as error:
                said = {"refused": str(error)}
        texts = [str(each.message) for each in caught if str(each.message).startswith(("checkpoint", "results", "questions"))]
        said["warned"] = "continues" if texts and all("continues at" in text for text in texts) else "; ".join(texts)
        answer.write_text(json.dumps(said))

    ended: Ended = called(process, cwd=cwd, timeout=PATIENCE)
    return json.loads(answer.read_text()) if answer.exists() else {"failed": f"{ended.code} {ended.err[-800:]}", "warned": ""}


def _evaluated(trial: Trial, **options: Any) -> Any:
    import mine  # type: ignore[import-not-found]

    learner = {
        "features": gvfx.LinearCertaintyEquivalence(intervals=False),
        "networks": gvfx.Deep(capacity=320, learning_starts=50),
        "box": gvfx.TwinCritics(hidden=(16, 16), capacity=320, learning_starts=50, batch=16, updates=1),
    }.get(trial.kind, gvfx.CertaintyEquivalence())
    audit = {"audit": 0.0} if trial.kind in SLOW else {}
    given = {"steps": STEPS[trial.kind], "evaluate_every": 50, "progress": False} | audit | options
    behaviour = None if trial.kind in SLOW else gvfx.Uniform()
    return gvfx.evaluate(mine.world(), mine.questions(), behaviour, learner, **given)


def _finished(trial: Trial, folder: Path, first: bool) -> Any:
    return _evaluated(trial, checkpoint=folder / "run").values


def _unfinished(trial: Trial, folder: Path, first: bool) -> Any:
    def stop(seed: int, steps: int, error: float) -> None:
        if steps >= 150:
            raise KeyError("stop")

    if not first:
        return _evaluated(trial, checkpoint=folder / "run").values
    try:
        _evaluated(trial, checkpoint=folder / "run", checkpoint_every=0, progress=stop)
    except KeyError:
        return []
    raise AssertionError("not interrupted")


def _loaded(trial: Trial, folder: Path, first: bool) -> Any:
    if first:
        return _evaluated(trial, save=folder / "result.gvfx").values
    import mine

    return gvfx.load(folder / "result.gvfx", mine.world() if trial.kind != "known" else None, mine.questions()).values


def _stored(trial: Trial, folder: Path, first: bool) -> Any:
    import mine

    from gvfx.experiments.specification import Experiment
    from gvfx.experiments.store import Store
    from gvfx.experiments.sweep import run_all, stored_result

    asked = tuple(mine.questions())
    experiment = Experiment(mine.world(), asked, gvfx.Uniform(), gvfx.CertaintyEquivalence(), STEPS["known"], 100)
    store = Store(folder / "results")
    run_all(store, [(experiment, 1)])
    return stored_result(store, experiment, 1).values


WAYS: dict[str, Callable[[Trial, Path, bool], Any]] = {
    "finished": _finished,
    "unfinished": _unfinished,
    "load": _loaded,
    "store": _stored,
}
