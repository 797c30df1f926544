"""Results as files: named arrays with a checksum, and plain JSON for the rest; nothing is ever unpickled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.files import write_whole
from gvfx.questions.gvf import GVF
from gvfx.questions.reader import Gaussians, Targets
from gvfx.running.predictor import Answers, CriticAnswers, from_arrays
from gvfx.running.result import Result, Snapshot
from gvfx.tensors import pack, unpack
from gvfx.worlds.spec import BoxActionSpec, network_spec

FORMAT, VERSION = "gvfx result", "1"
CURVES = ("weights", "steps", "mse", "levels", "episodes", "truth", "seconds", "mse_outside", "expected")
TABLES = ("values", "variances", "visits", "behaviour", "levels", "standard_errors", "policies")


def save(result: Result, path: Path) -> None:
    """Write a result whole or not at all."""
    arrays = {name: getattr(result, name) for name in CURVES if getattr(result, name) is not None}
    for k, snapshot in enumerate(result.snapshots):
        arrays |= {f"{k}.{name}": getattr(snapshot, name) for name in TABLES if getattr(snapshot, name) is not None}
    if result.points is not None:
        arrays["points"] = result.points
    for k, answers in enumerate(result.answers):
        arrays |= {f"answers.{k}.{name}": array for name, array in answers.arrays().items()}
    described = {
        "names": result.names,
        "seeds": result.seeds,
        "snapshots": [snapshot.step for snapshot in result.snapshots],
        "experiment": result.experiment,
        "first_state": result.first_state,
    }
    metadata = {"format": FORMAT, "version": VERSION, "result": json.dumps(described)}
    write_whole(path, pack({name: np.asarray(array) for name, array in arrays.items()}, metadata))


def load(path: str | Path, env: Any = None, questions: Sequence[GVF] = ()) -> Result:
    """A result that `Result.save` wrote; a damaged, foreign or newer file is refused in one sentence.

    env, questions: of networks, to predict at further observations (policies are not stored).
    """
    path = Path(path)
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
    spec = network_spec(env) if env is not None else None
    targets: Targets | Gaussians | None = None
    if spec is not None and questions:
        targets = Gaussians(questions, spec) if isinstance(spec, BoxActionSpec) else Targets(questions, spec.actions)
    if targets is not None and targets.names != tuple(described["names"]):
        raise InputError(f"questions: {path} answers {', '.join(described['names'])}; give the same questions.")
    answers = _answers(arrays)
    if spec is not None and answers and isinstance(spec, BoxActionSpec) != isinstance(answers[0], CriticAnswers):
        raise InputError(f"env: {spec.name} has other actions than {path} was learnt with; give the same environment.")
    return Result(
        names=tuple(described["names"]),
        seeds=tuple(described["seeds"]),
        snapshots=tuple(
            Snapshot(step=step, **{name: arrays.get(f"{k}.{name}") for name in TABLES})  # type: ignore[arg-type]
            for k, step in enumerate(described["snapshots"])
        ),
        experiment=described["experiment"],
        first_state=described["first_state"],
        answers=answers,
        points=arrays.get("points"),
        spec=spec,
        targets=targets,
        **{name: arrays.get(name) for name in CURVES},  # type: ignore[arg-type]
    )


def _answers(arrays: dict[str, np.ndarray]) -> tuple[Answers | CriticAnswers, ...]:
    """Every seed's network."""
    seeds: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if name.startswith("answers."):
            _, k, own = name.split(".")
            seeds.setdefault(int(k), {})[own] = array
    return tuple(from_arrays(seeds[k]) for k in sorted(seeds))
