"""Results in files: kept at the end of a run, and loaded again; nothing is unpickled."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import GvfxError, InputError, StoreError, Unsaved, printable
from gvfx.files import NO_FILE, write_or_copy
from gvfx.inputs import as_path, checked, listed, shown
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.reader import Gaussians, Targets
from gvfx.running.checkpoint import KEPT, compared, of_questions, same_layout
from gvfx.running.predictor import FunctionPredictor, NumberedPredictor, Predictor, TablePredictor, TwinQNetworks, from_arrays
from gvfx.running.result import FORMAT, VERSION, Details, Result
from gvfx.running.schema import ARRAYS, Array, Snapshot, declared
from gvfx.tensors import fit, misfit, read
from gvfx.types import Environment
from gvfx.worlds.spaces import space_from
from gvfx.worlds.spec import BoxActionSpec, is_environment, network_spec

TEXTS = ["behaviour", "learner", "environment", "where", "until", "chosen", "inputs", "starts", "frontier"]
TEXTS += ["run", "failed", "hash"]
ENTRIES: dict[str, Any] = {  # types of what a file may say about its run
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(("steps", "log"), int),
    **dict.fromkeys(("target", "audit"), (int, float)),
    **dict.fromkeys(("support", "not_resolved", "unseen", "effective", "compared"), dict),
    **dict.fromkeys(("collect", "decided", "diverged"), list),
}
MALFORMED = (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, AssertionError)


def keep(result: Result, path: Path) -> None:
    """Save a result at the end of its run; if the disk is full by then, a copy in the temporary folder, and Unsaved is raised."""
    try:
        write_or_copy(path, result.save, "save")
    except StoreError as error:
        raise Unsaved(str(error), result) from None


@checked
def load(path: str | Path, env: Environment | None = None, questions: Sequence[GVF] = ()) -> Result:
    """A result written by `Result.save`; a damaged, foreign or newer file is refused with a one-sentence error.

    env, questions: for networks, to predict at new observations (policies are not stored).
    """
    path = as_path(path, "path")
    if env is not None and not is_environment(env):
        raise InputError(f"env: {shown(env)} is not a Gymnasium environment; give the one of the run.")
    asked = [questions] if isinstance(questions, GVF) else listed(questions, "questions", "gvfx.GVF(...)")
    questions = expand(asked)
    if path.exists() and not path.is_file():
        raise InputError(f"path: {path} {NO_FILE}; name a file written by result.save.")
    try:
        arrays, metadata = read(path)
    except OSError as error:
        raise InputError(f"path: cannot read {path} ({error.strerror}); name a file written by result.save.") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"path: {path} is not a result of gvfx; name a file written by result.save.")
    version = metadata.get("version", "none")
    if version != VERSION:
        raise InputError(f"path: {path} has version {version:.20}, this gvfx reads {VERSION}; use the gvfx that wrote it.")
    described = _described(metadata.get("result", ""), str(path))
    rows = _check(arrays, described, str(path))
    if asked:
        _compare(described.get(KEPT), asked, path)
    try:
        predictor = _predictor(arrays, described, str(path), env, questions)
    except MALFORMED as error:
        if isinstance(error, GvfxError):
            raise
        raise misfit(str(path), "its predictor is not complete") from None

    def taken(begin: str = "") -> dict[str, Any]:
        names = {row.in_result: f"{begin}{row.in_result}" for row in rows if (row.when == "k") == bool(begin)}
        return {name: arrays[key] for name, key in names.items() if key in arrays}

    snapshots = tuple(Snapshot(step, **taken(f"{k}.")) for k, step in enumerate(described["snapshots"]))
    names, seeds = tuple(described["names"]), tuple(described["seeds"])
    about = described["experiment"], described.get(KEPT)
    return Result(Details(names, arrays["weights"], seeds, snapshots, taken(), *about, predictor=predictor))


def _compare(kept: object, asked: Sequence[GVF], path: Path) -> None:
    """Refuse questions with other functions than the run had; say what cannot be compared."""

    def warn(what: str) -> None:
        if what:
            warnings.warn(
                f"questions: they are used with {path} without comparing {printable(what)}; if it has changed since, run again.",
                stacklevel=6,
            )

    if changed := compared(kept, of_questions(asked), warn):
        raise InputError(f"questions: {printable(changed)} is not as in the run of {path}; give the same, or run again.")


# --- whether a file holds what it should ------------------------------------------------------------------------------


def _described(text: str, path: str) -> dict[str, Any]:
    """What a file says about its result, checked."""
    try:
        described: dict[str, Any] = json.loads(text)
        good = (
            _all(str, described["names"])
            and _all(int, described["seeds"])
            and _all(int, described["snapshots"])
            and isinstance(described["experiment"], dict)
            and all(isinstance(value, ENTRIES.get(name, object)) for name, value in described["experiment"].items())
            and _fits_questions(described["experiment"], described["names"])
            and type(described["first_state"]) is int
            and type(described.get("freedom", 0)) is int
            and ("actions" not in described or _all(str, described["actions"]))
        )
    except MALFORMED:
        good = False
    if not good:
        raise misfit(path, "its description is not complete")
    return described


def _all(kind: type, values: Any) -> bool:
    """Whether this is a list of some of a kind."""
    return isinstance(values, list) and bool(values) and all(type(value) is kind for value in values)


def _fits_questions(about: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether what a file says question by question is about these questions; raises one of MALFORMED if it has another form."""
    numbers = [about[name] for name in ("support", "unseen", "effective") if about.get(name)]
    compared = about.get("compared", {"policies": names, "signals": names})
    return (
        all({*each} == {*names} and all(isinstance(n, int | float) for n in each.values()) for each in numbers)
        and all(isinstance(reason, str) for reason in about.get("not_resolved", {}).values())
        and all(len(compared[kind]) == len(names) for kind in ("policies", "signals"))
        and all({"action", "observation", "seen"} <= {*each} for each in about.get("collect", []))
        and all(isinstance(sentence, str) for each in about.get("decided", []) for sentence in each)
    )


def _check(arrays: Mapping[str, np.ndarray], described: Mapping[str, Any], path: str) -> list[Array]:
    """Which arrays a file may hold; refuses those that do not fit each other, the questions or the seeds."""
    named = {name for name in arrays if not name.startswith("answers.")}
    rows = [row for row in ARRAYS.values() if row.in_file]
    known = {"weights", "points", "keys"} | {row.in_result for row in rows}
    if any(name.split(".")[-1] not in known for name in named):
        rows += [row for row in declared().values() if row.in_file]
    wanted, optional = {"weights": "float64 gvf"}, []
    for row in rows:
        for begin in [f"{k}." for k in range(len(described["snapshots"]))] if row.when == "k" else [""]:
            wanted[begin + row.in_result] = row.in_file
            optional += [begin + row.in_result] if row.optional else []
    sizes = fit(arrays, wanted, path, optional)
    if (sizes["gvf"], sizes["seed"]) != (len(described["names"]), len(described["seeds"])):
        raise misfit(path, "it has other questions or seeds than it says")
    if sizes["choice"] and sizes["action"] and sizes["choice"] != sizes["action"]:
        raise misfit(path, "its visits and its behaviour are about other actions")
    if sizes.get("column", 3) not in (3, 5):
        raise misfit(path, f"starts has {sizes['column']} columns")
    if len(described.get("actions", ())) not in (0, sizes["choice"]):
        raise misfit(path, "it has other actions than it says")
    networks = {name.split(".")[1] for name in arrays if name.startswith("answers.")}
    if networks and networks != {str(k) for k in range(sizes["seed"])}:
        raise misfit(path, "it has not one network per seed")
    extra = {"points"} if networks else {"keys"} if "space" in described else set()
    if odd := sorted((named - {*wanted} - extra) | (extra - named)):
        raise misfit(path, f"{odd[0]} is {'odd' if odd[0] in arrays else 'missing'}")
    for name in extra:
        fit(arrays, {name: "float state part" if name == "points" else "int64 state part"}, path)
        if len(arrays[name]) != sizes["state"]:
            raise misfit(path, f"{name} has shape {arrays[name].shape}")
    return rows


def _function(arrays: Mapping[str, np.ndarray], gvfs: int, path: str) -> Any:
    """One seed's network or linear answers, of which nothing is missing and whose layers fit."""
    function = from_arrays(arrays)
    linear, twins = "supported" in arrays, 2 if "least" in arrays else 1
    axes = {"supported": "bool gvf"} if linear else {"unit": "float32 gvf", "centre": "float32 o", "spread": "float32 o"}
    depth = 0 if linear else sum(name.startswith("weight") for name in arrays) // twins
    for k in range(depth * twins):
        twin, layer = divmod(k, depth)
        axes |= {f"weight{k}": f"float32 {twin}th{layer} {twin}th{layer + 1}", f"bias{k}": f"float32 {twin}th{layer + 1}"}
    if fit(arrays, axes, path)["gvf"] != gvfs or not same_layout(arrays, function.arrays()):
        raise misfit(path, "its networks answer other questions")
    return function


def _predictor(
    arrays: dict[str, np.ndarray], described: dict[str, Any], path: str, env: Any, questions: Sequence[GVF]
) -> Predictor:
    """The predictor: tables, or what answers of every seed with the environment and questions, if they are given."""
    seeds: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if name.startswith("answers."):
            _, k, own = name.split(".", 2)
            seeds.setdefault(int(k), {})[own] = array
    if not seeds:
        actions = tuple(described.get("actions", ()))
        if "space" in described:
            keys = tuple(tuple(key) for key in arrays["keys"].tolist())
            return NumberedPredictor(actions=actions, space=space_from(described["space"]), keys=keys)
        return TablePredictor(described["first_state"], described.get("freedom", 0), actions)
    spec = None if env is None else network_spec(env)
    targets: Targets | Gaussians | None = None
    if spec is not None and questions:
        targets = Gaussians(questions, spec) if isinstance(spec, BoxActionSpec) else Targets(questions, spec.actions)
        if targets.names != tuple(described["names"]):
            raise InputError(f"questions: {path} answers {', '.join(described['names'])}; give the same questions.")
    functions = tuple(_function(seeds[k], len(described["names"]), path) for k in sorted(seeds))
    if spec is not None and isinstance(spec, BoxActionSpec) != isinstance(functions[0], TwinQNetworks):
        raise InputError(f"env: {spec.name} has other actions than {path} was learned with; give the same environment.")
    return FunctionPredictor(functions, arrays.get("points"), spec, targets)
