"""An experiment as pure data: hashable, with a JSON round trip, so that (hash, seed) identifies a result.

Worlds are stored by their recipe (or their arrays); behaviours, learners, questions and schedules by class and fields: those
of gvfx by class name, your own as "module:Class"; functions as "module:name" (`gvfx.experiments.own_parts`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.experiments.own_parts import PACKAGES, OwnParts, name_of, named_in
from gvfx.learners.base import Learner
from gvfx.names import HOME_OF
from gvfx.questions.gvf import GVF
from gvfx.running.plan import Plan
from gvfx.worlds.gridworld import gridworld
from gvfx.worlds.mdp import MDP
from gvfx.worlds.world import World

FORMAT = 1  # increased when the same specification would give other numbers
MAKERS = {"gridworld": gridworld}
NUMBERS = {"bool", "float16", "float32", "float64", *(f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64))}


@cache
def known_classes() -> dict[str, type]:
    """The dataclasses of gvfx that an experiment may contain, by name: all in modules that define a public name."""
    homes = sorted({home for home in HOME_OF.values() if home.startswith(PACKAGES)})
    found = [c for home in homes for c in vars(import_module(home)).values() if _is_dataclass(c) and c.__module__ == home]
    return {c.__name__: c for c in found}


def _is_dataclass(value: Any) -> bool:
    return isinstance(value, type) and dataclasses.is_dataclass(value)


@dataclass(frozen=True)
class Experiment:
    """World, questions, behaviour, learner, length and times of measurements."""

    world: World
    questions: tuple[GVF, ...]
    behaviour: Behaviour
    learner: Learner
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

    @cached_property
    def own_parts(self) -> tuple[str, ...]:
        """The names "module:name" of this experiment's classes and functions outside gvfx."""
        return named_in(json.loads(self.json))

    @classmethod
    def from_json(cls, text: str, classes: Iterable[Callable[..., Any]] = ()) -> Experiment:
        """The experiment stored in a text; text of another format is refused.

        classes: your own classes and functions that the text may name.  A text causes no import but of gvfx's own behaviours,
                 learners, questions and worlds: a class that is not listed must be in a module that is already imported.
        """
        own = OwnParts(classes)
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise InputError("experiment: the text is not that of an experiment; give what Experiment.json returned.")
            if data.pop("format", None) != FORMAT:
                raise InputError(f"experiment: written for another version of gvfx; this one reads format {FORMAT}.")
            return cls(**{key: decode(value, own) for key, value in data.items()})._checked()
        except InputError:
            raise
        except json.JSONDecodeError as error:
            raise InputError(f"experiment: not valid JSON ({error}).") from None
        except RecursionError:
            raise InputError("experiment: the text is nested too deeply; give what Experiment.json returned.") from None
        except (Exception, MemoryError) as error:  # whatever a constructor makes of wrong values
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"experiment: the text does not describe one ({what:.200}); give what Experiment.json returned."
            ) from None

    def _checked(self) -> Experiment:
        """This experiment, if its parts are of the right kinds."""
        Plan.checked(self.steps, self.evaluate_every, self.snapshots, self.average_episodes)
        kinds: dict[str, Any] = {"world": World, "behaviour": Behaviour, "learner": Learner, "until": ErrorBelow | None}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name}: {getattr(self, name)!r:.60} does not fit there; give what Experiment.json returned.")
        if not self.questions or not all(isinstance(q, GVF) for q in self.questions):
            raise InputError("questions: the text has something else than GVFs there; give what Experiment.json returned.")
        return self


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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        name = kind.__name__ if known_classes().get(kind.__name__) is kind else name_of(kind, field)
        return {"@": name, **_fields(value)}
    if callable(value):
        return {"@function": name_of(value, field)}
    raise InputError(f"{field}: {value!r:.60} cannot be stored as data; use numbers, text, arrays or frozen dataclasses.")


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data.

    A field added in a later version is left out at its default, or at the value `before` that older versions come closest to, so
    that older experiments keep their hashes.
    """
    kept = [f for f in dataclasses.fields(value) if not (is_later(f) and getattr(value, f.name) == value_before(f))]
    return {f.name: encode(getattr(value, f.name), f.name) for f in kept}


def is_later(f: Any) -> bool:
    """Whether a field was added in a later version than its class."""
    return bool(f.metadata.get("later")) or "before" in f.metadata


def value_before(f: Any) -> Any:
    """What a later field is where it is left out."""
    return f.metadata.get("before", f.default)


def decode(data: Any, own: OwnParts) -> Any:
    """The inverse of `encode`; lists become tuples.  own: the classes and functions outside gvfx that the data may name."""
    if isinstance(data, list):
        return tuple(decode(v, own) for v in data)
    if not isinstance(data, dict):
        return data
    if "@array" in data:
        if data["dtype"] not in NUMBERS:
            raise InputError(f"experiment: {data['dtype']!r:.40} is not a kind of number for an array.")
        return np.array(data["@array"], dtype=data["dtype"])
    if "@map" in data:
        return {k: decode(v, own) for k, v in data["@map"].items()}
    if "@world" in data:
        if data["@world"] not in MAKERS:
            raise InputError(f"world: {data['@world']!r} is not a known kind of world.")
        return MAKERS[data["@world"]](**decode(data["with"], own))
    if "@mdp" in data:
        return MDP(**decode(data["@mdp"], own))
    if "@function" in data:
        return own.function(data["@function"])
    name = str(data.get("@"))
    if ":" not in name and name not in known_classes():
        raise InputError(f"experiment: {name!r} is not a class of gvfx.")
    kind = own.dataclass(name) if ":" in name else known_classes()[name]
    before = {f.name: f.metadata["before"] for f in dataclasses.fields(kind) if "before" in f.metadata}
    return kind(**before | {k: decode(v, own) for k, v in data.items() if k != "@"})
