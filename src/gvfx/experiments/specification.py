"""An experiment as pure data: hashable, with a JSON round trip, so that (hash, seed) names a result.

Worlds are stored by their recipe (or their arrays), behaviours, learners, questions and schedules by their class
name and fields, functions as "module:name".
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gvfx import schedules
from gvfx.behaviours import actor, explorer, fixed, optimal, rivals, search, successor, wrappers
from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence import uncertainty
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.learners import certainty as model
from gvfx.learners import episodic, tabular
from gvfx.learners.networks import deep
from gvfx.learners.networks import twin_critics as continuous
from gvfx.questions import cumulants, gaussian, own, policies, sb3, target_policies
from gvfx.questions.gvf import GVF
from gvfx.running.evaluate import AnyLearner, World
from gvfx.worlds import continuous_grid, control, gridworld
from gvfx.worlds.mdp import MDP

FORMAT = 1  # raised when the same specification would give other numbers
MAKERS = {"gridworld": gridworld.gridworld}
BEHAVIOURS = (actor, explorer, fixed, optimal, rivals, search, successor, wrappers)
LEARNERS = (continuous, deep, episodic, model, tabular)
QUESTIONS = (cumulants, policies, gaussian, own, sb3, target_policies)
PARTS = (*QUESTIONS, schedules, *BEHAVIOURS, *LEARNERS, continuous_grid, control, uncertainty)


def _known() -> dict[str, type]:
    found = [c for module in PARTS for c in vars(module).values() if isinstance(c, type) and dataclasses.is_dataclass(c)]
    return {c.__name__: c for c in [*found, GVF]}


@dataclass(frozen=True)
class Experiment:
    """World + questions, behaviour, learner, length and times of measurement."""

    world: World
    questions: tuple[GVF, ...]
    behaviour: Behaviour
    learner: AnyLearner
    steps: int
    evaluate_every: int
    snapshots: tuple[int, ...] = ()
    average_episodes: int = 0
    until: ErrorBelow | None = dataclasses.field(default=None, metadata={"later": True})

    @cached_property
    def json(self) -> str:
        """The canonical text: equal experiments give equal text."""
        return json.dumps({"format": FORMAT, **_fields(self)}, sort_keys=True, separators=(",", ":"))

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()[:16]

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """The experiment that was written; refuses text of another format."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"experiment: not valid JSON ({error}).") from None
        if data.pop("format", None) != FORMAT:
            raise InputError(f"experiment: written for another version of gvfx; this one reads format {FORMAT}.")
        return cls(**{key: decode(value) for key, value in data.items()})


def encode(value: Any, field: str) -> Any:
    """Plain data for a part of an experiment."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"@array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, list | tuple):
        return [encode(v, field) for v in value]
    if isinstance(value, Mapping):
        return {"@map": {str(k): encode(v, field) for k, v in value.items()}}
    if isinstance(value, MDP):
        if value.recipe is not None:
            return {"@world": value.recipe[0], "with": encode(value.recipe[1], field)}
        named = {
            n: getattr(value, n) for n in ("next", "prob", "start", "terminal", "horizon", "live", "features", "reward", "places")
        }
        return {"@mdp": encode(named, field)}
    if dataclasses.is_dataclass(value) and type(value).__name__ in _known():
        return {"@": type(value).__name__, **_fields(value)}
    if callable(value):
        home, name = getattr(value, "__module__", "?"), getattr(value, "__qualname__", "?")
        if "<" in name or "." in name or getattr(importlib.import_module(home), name, None) is not value:
            raise InputError(f"{field}: a function inside a stored experiment must be named module:function; {name} is not.")
        return {"@function": f"{home}:{name}"}
    raise InputError(f"{field}: {value!r:.60} cannot be stored as data.")


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data.

    A field added later is left out at its default, so that experiments written before keep their names.
    """
    kept = [f for f in dataclasses.fields(value) if not (f.metadata.get("later") and getattr(value, f.name) == f.default)]
    return {f.name: encode(getattr(value, f.name), f.name) for f in kept}


def decode(data: Any) -> Any:
    """The part that was encoded; lists come back as tuples."""
    if isinstance(data, list):
        return tuple(decode(v) for v in data)
    if not isinstance(data, dict):
        return data
    if "@array" in data:
        return np.array(data["@array"], dtype=data["dtype"])
    if "@map" in data:
        return {k: decode(v) for k, v in data["@map"].items()}
    if "@world" in data:
        if data["@world"] not in MAKERS:
            raise InputError(f"world: there is no maker called {data['@world']!r}.")
        return MAKERS[data["@world"]](**decode(data["with"]))
    if "@mdp" in data:
        return MDP(**decode(data["@mdp"]))
    if "@function" in data:
        home, name = data["@function"].split(":")
        return getattr(importlib.import_module(home), name)
    known = _known()
    if data.get("@") not in known:
        raise InputError(f"experiment: {data.get('@')!r} is not a part that gvfx knows.")
    return known[data["@"]](**{k: decode(v) for k, v in data.items() if k != "@"})
