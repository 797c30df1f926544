"""Load results written by `Result.save`; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import as_path, checked
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Gaussians, Targets
from gvfx.running.predictor import NumberedPredictor, Predictor, TablePredictor, TwinQNetworks, from_arrays, network_predictor
from gvfx.running.result import CURVES, FORMAT, STOPS, TABLES, VERSION, Result, Snapshot
from gvfx.tensors import unpack
from gvfx.types import Environment
from gvfx.worlds.spaces import space_from
from gvfx.worlds.spec import BoxActionSpec, network_spec


@checked
def load(path: str | Path, env: Environment | None = None, questions: Sequence[GVF] = ()) -> Result:
    """A result written by `Result.save`; a damaged, foreign or newer file is refused with a one-sentence error.

    env, questions: for networks, to predict at new observations (policies are not stored).
    """
    path = as_path(path, "path")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"path: cannot read {path} ({error.strerror}); name a file written by result.save.") from None
    arrays, metadata = unpack(raw, str(path))
    if metadata.get("format") != FORMAT:
        raise InputError(f"path: {path} is not a result of gvfx; name a file written by result.save.")
    if metadata["version"] != VERSION:
        raise InputError(
            f"path: {path} has version {metadata['version']}, this gvfx reads {VERSION}; use the gvfx that wrote it."
        )
    described = json.loads(metadata["result"])
    return Result(
        names=tuple(described["names"]),
        seeds=tuple(described["seeds"]),
        snapshots=tuple(
            Snapshot(step=step, **{name: arrays.get(f"{k}.{name}") for name in TABLES})  # type: ignore[arg-type]
            for k, step in enumerate(described["snapshots"])
        ),
        experiment=described["experiment"],
        predictor=_predictor(arrays, described, str(path), env, questions),
        **{name: arrays.get(name) for name in (*CURVES, *STOPS)},  # type: ignore[arg-type]
    )


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
    networks = [from_arrays(seeds[k]) for k in sorted(seeds)]
    if not networks:
        actions = tuple(described.get("actions", ()))
        if "space" in described:
            keys = tuple(tuple(key) for key in arrays["keys"].tolist())
            return NumberedPredictor(actions=actions, space=space_from(described["space"]), keys=keys)
        return TablePredictor(described["first_state"], described.get("freedom", 0), actions)
    if spec is not None and isinstance(spec, BoxActionSpec) != isinstance(networks[0], TwinQNetworks):
        raise InputError(f"env: {spec.name} has other actions than {path} was learned with; give the same environment.")
    return network_predictor(networks, arrays.get("points"), spec, targets)
