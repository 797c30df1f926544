"""Load results written by `Result.save`; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import GvfxError, InputError
from gvfx.files import NO_FILE
from gvfx.inputs import as_path, checked, shown
from gvfx.questions.gvf import GVF, expand
from gvfx.questions.reader import Gaussians, Targets
from gvfx.running.checkpoint import alike_arrays
from gvfx.running.predictor import NumberedPredictor, Predictor, TablePredictor, TwinQNetworks, from_arrays, network_predictor
from gvfx.running.result import CURVES, FORMAT, STOPS, TABLES, VERSION, Result, Snapshot
from gvfx.tensors import fit, misfit, read
from gvfx.types import Environment
from gvfx.worlds.spaces import space_from
from gvfx.worlds.spec import BoxActionSpec, is_environment, network_spec

AXES = {  # of each array the type and the axes (`gvfx.tensors.fit`)
    "weights": "float64 gvf",
    "steps": "int64 t",
    "mse": "float64 seed t gvf",
    "levels": "float64 seed t gvf",
    "episodes": "int64 seed t",
    "truth": "float seed gvf state",
    "seconds": "float64 seed",
    "mse_outside": "float64 seed t gvf",
    "expected": "float64 seed t gvf",
    "stopped": "int64 seed",
    "bounds": "float64 seed",
    "reached": "bool seed",
    "starts": "float64 seed gvf column",
    "differences": "float64 seed gvf gvf",
    "audits": "float64 seed gvf 6",
    "audit_differences": "float64 seed gvf gvf 2",
    "audit_bounds": "float64 seed gvf level 2",
}
OPTIONAL = ("mse_outside", "expected", *STOPS)
SHOWN = {  # likewise of each snapshot
    "values": "float seed gvf state",
    "variances": "float seed gvf state",
    "visits": "int seed state choice",
    "behaviour": "float seed state action",
    "levels": "float64 seed gvf",
    "standard_errors": "float seed gvf state",
    "policies": "float seed gvf state choice",
    "untried": "bool seed gvf state",
}
SOMETIMES = ("variances", "standard_errors", "policies", "untried")
TOLD: dict[str, Any] = {  # of what a file says about its run, where it says it
    **dict.fromkeys(
        ("behaviour", "learner", "environment", "where", "until", "chosen", "frontier", "run", "failed", "hash"), str
    ),
    **dict.fromkeys(("steps", "log"), int),
    **dict.fromkeys(("target", "audit"), (int, float)),
    **dict.fromkeys(("support", "not_resolved", "unseen", "effective", "compared"), dict),
    **dict.fromkeys(("collect", "decided", "diverged"), list),
}
WRONG = (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, AssertionError)


@checked
def load(path: str | Path, env: Environment | None = None, questions: Sequence[GVF] = ()) -> Result:
    """A result written by `Result.save`; a damaged, foreign or newer file is refused with a one-sentence error.

    env, questions: for networks, to predict at new observations (policies are not stored).
    """
    path = as_path(path, "path")
    if env is not None and not is_environment(env):
        raise InputError(f"env: {shown(env)} is not a Gymnasium environment; give the one of the run.")
    questions = expand(questions)
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
    _check(arrays, described, str(path))
    try:
        predictor = _predictor(arrays, described, str(path), env, questions)
    except WRONG as error:
        if isinstance(error, GvfxError):
            raise
        raise misfit(str(path), "its predictor is not complete") from None
    return Result(
        names=tuple(described["names"]),
        seeds=tuple(described["seeds"]),
        snapshots=tuple(
            Snapshot(step=step, **{name: arrays.get(f"{k}.{name}") for name in TABLES})  # type: ignore[arg-type]
            for k, step in enumerate(described["snapshots"])
        ),
        experiment=described["experiment"],
        predictor=predictor,
        **{name: arrays.get(name) for name in (*CURVES, *STOPS)},  # type: ignore[arg-type]
    )


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
            and all(isinstance(value, TOLD.get(name, object)) for name, value in described["experiment"].items())
            and _fits_questions(described["experiment"], described["names"])
            and type(described["first_state"]) is int
            and type(described.get("freedom", 0)) is int
            and ("actions" not in described or _all(str, described["actions"]))
        )
    except WRONG:
        good = False
    if not good:
        raise misfit(path, "its description is not complete")
    return described


def _all(kind: type, values: Any) -> bool:
    """Whether this is a list of some of a kind."""
    return isinstance(values, list) and bool(values) and all(type(value) is kind for value in values)


def _fits_questions(told: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether what is said question by question is said about these questions; raises one of WRONG if it is not of the kind."""
    numbers = [told[name] for name in ("support", "unseen", "effective") if told.get(name)]
    compared = told.get("compared", {"policies": names, "signals": names})
    return (
        all({*each} == {*names} and all(isinstance(n, int | float) for n in each.values()) for each in numbers)
        and all(isinstance(reason, str) for reason in told.get("not_resolved", {}).values())
        and all(len(compared[kind]) == len(names) for kind in ("policies", "signals"))
        and all({"action", "observation", "seen"} <= {*each} for each in told.get("collect", []))
        and all(isinstance(sentence, str) for each in told.get("decided", []) for sentence in each)
    )


def _check(arrays: Mapping[str, np.ndarray], described: Mapping[str, Any], path: str) -> None:
    """Refuse arrays that do not fit each other, the questions or the seeds."""
    wanted, optional = dict(AXES), [*OPTIONAL]
    for k in range(len(described["snapshots"])):
        wanted |= {f"{k}.{name}": axes for name, axes in SHOWN.items()}
        optional += [f"{k}.{name}" for name in SOMETIMES]
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
    named = {name for name in arrays if not name.startswith("answers.")}
    if odd := sorted((named - {*wanted} - extra) | (extra - named)):
        raise misfit(path, f"{odd[0]} is {'odd' if odd[0] in arrays else 'missing'}")
    for name in extra:
        fit(arrays, {name: "float state part" if name == "points" else "int64 state part"}, path)
        if len(arrays[name]) != sizes["state"]:
            raise misfit(path, f"{name} has shape {arrays[name].shape}")


def _network(arrays: Mapping[str, np.ndarray], gvfs: int, path: str) -> Any:
    """One seed's network or linear answers, of which nothing is missing and whose layers fit."""
    network = from_arrays(arrays)
    linear, twins = "supported" in arrays, 2 if "least" in arrays else 1
    axes = {"supported": "bool gvf"} if linear else {"unit": "float32 gvf", "centre": "float32 o", "spread": "float32 o"}
    depth = 0 if linear else sum(name.startswith("weight") for name in arrays) // twins
    for k in range(depth * twins):
        twin, layer = divmod(k, depth)
        axes |= {f"weight{k}": f"float32 {twin}th{layer} {twin}th{layer + 1}", f"bias{k}": f"float32 {twin}th{layer + 1}"}
    if fit(arrays, axes, path)["gvf"] != gvfs or not alike_arrays(arrays, network.arrays()):
        raise misfit(path, "its networks answer other questions")
    return network


def _predictor(
    arrays: dict[str, np.ndarray], described: dict[str, Any], path: str, env: Any, questions: Sequence[GVF]
) -> Predictor:
    """The predictor: tables, or every seed's network with the environment and questions, if they are given."""
    networks_stored = any(name.startswith("answers.") for name in arrays)
    spec = network_spec(env) if env is not None and networks_stored else None
    targets: Targets | Gaussians | None = None
    if spec is not None and questions:
        targets = Gaussians(questions, spec) if isinstance(spec, BoxActionSpec) else Targets(questions, spec.actions)
    if targets is not None and targets.names != tuple(described["names"]):
        raise InputError(f"questions: {path} answers {', '.join(described['names'])}; give the same questions.")
    seeds: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if name.startswith("answers."):
            _, k, own = name.split(".", 2)
            seeds.setdefault(int(k), {})[own] = array
    networks = [_network(seeds[k], len(described["names"]), path) for k in sorted(seeds)]
    if not networks:
        actions = tuple(described.get("actions", ()))
        if "space" in described:
            keys = tuple(tuple(key) for key in arrays["keys"].tolist())
            return NumberedPredictor(actions=actions, space=space_from(described["space"]), keys=keys)
        return TablePredictor(described["first_state"], described.get("freedom", 0), actions)
    if spec is not None and isinstance(spec, BoxActionSpec) != isinstance(networks[0], TwinQNetworks):
        raise InputError(f"env: {spec.name} has other actions than {path} was learned with; give the same environment.")
    return network_predictor(networks, arrays.get("points"), spec, targets)
