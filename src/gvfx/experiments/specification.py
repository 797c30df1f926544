"""An experiment as pure data: hashable, with a JSON round trip, so that (hash, seed) identifies a result.

Worlds are stored by their recipe or arrays; behaviours, learners, questions and schedules by class and fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.evidence.uncertainty import ErrorBelow
from gvfx.inputs import listed
from gvfx.learners.base import Learner
from gvfx.names import HOME_OF
from gvfx.questions.gvf import GVF
from gvfx.running.checkpoint import Made, made_of
from gvfx.running.plan import Plan
from gvfx.running.schema import GROUP
from gvfx.worlds.gridworld import gridworld
from gvfx.worlds.mdp import MDP, World

# --- The caller's classes and functions in a stored experiment, written as "module:name" ----------------------------
# Decoding a text imports nothing but modules of gvfx that define parts of experiments.  A name is looked up among the objects
# that the caller passes, then in modules that are already imported, if they define it.  Worker processes import the names that
# the caller's own objects have, and no others.  A script goes by the name of its file, whether it is run or imported.


PARTS = ("behaviours", "evidence", "learners", "questions", "schedules", "worlds")  # where gvfx defines parts of an experiment
PACKAGES = tuple(f"gvfx.{name}" for name in PARTS)


def name_of(value: Any, field: str) -> str:
    """ "module:name" of a frozen dataclass or function at the top level of a module; all others are refused."""
    home, name = getattr(value, "__module__", "?"), getattr(value, "__qualname__", "?")
    what = "class" if isinstance(value, type) else "function"
    if "<" in name or "." in name or getattr(sys.modules.get(home), name, None) is not value:
        raise InputError(
            f"{field}: a {what} inside a stored experiment must be named module:{what}; {name} is not, so define it at the "
            "top level of a module."
        )
    if isinstance(value, type) and not is_frozen(value):
        raise InputError(f"{field}: {name} cannot be stored; write @dataclass(frozen=True) above the class.")
    if home in ("__main__", "__mp_main__"):  # the second in worker processes, which run the script again
        home = _script()
        if home is None:
            raise InputError(f"{field}: {name} is defined in an interactive session; define it in a file to store it.")
    return f"{home}:{name}"


def named_in(data: Any) -> tuple[str, ...]:
    """The names of classes and functions outside gvfx in an encoded experiment, sorted."""
    if isinstance(data, list):
        return tuple(sorted({name for part in data for name in named_in(part)}))
    if not isinstance(data, dict):
        return ()
    here = [str(data[key]) for key in ("@", "@function") if ":" in str(data.get(key))]
    return tuple(sorted({*here, *named_in(list(data.values()))}))


def imported(names: Iterable[str]) -> list[Callable[..., Any]]:
    """Import the classes and functions of these names; only for names that the caller's own objects have."""
    found = []
    for full in names:
        home, _, name = full.partition(":")
        try:
            module = _loaded(home) or import_module(home)
            found.append(getattr(module, name))
        except (ImportError, AttributeError):
            raise InputError(
                f"experiment: this worker cannot import {full}; install its module where every worker's Python finds it."
            ) from None
    return found


def content_of(names: tuple[str, ...]) -> Made | None:
    """The content that the classes and functions of these names have now; None without names."""
    return made_of(zip(names, imported(names), strict=True)) if names else None


class OwnParts:
    """The classes and functions outside gvfx that an experiment's text may name."""

    def __init__(self, given: Iterable[Callable[..., Any]] = ()) -> None:
        self.given = {name_of(part, "classes"): part for part in listed(given, "classes", "classes and functions")}

    def find(self, full: str, what: str, fits: Callable[[Any], bool]) -> Any:
        """The class or function of a name; `what` and `fits` say which of the two it must be."""
        home, _, name = full.partition(":")
        module = None if home.split(".")[0] in sys.stdlib_module_names else _loaded(home)
        found = self.given.get(full, getattr(module, name, None))
        if found is None or (full not in self.given and getattr(found, "__module__", None) != getattr(module, "__name__", "")):
            raise InputError(
                f"experiment: {full} is named by the text but not known to your program; pass it, as in "
                f"Experiment.from_json(text, classes=[{name}])."
            )
        if not fits(found):
            raise InputError(f"experiment: {full} is not {what}.")
        return found


def is_function(part: Any) -> bool:
    return callable(part) and not isinstance(part, type)


def is_frozen(kind: Any) -> bool:
    params: Any = getattr(kind, "__dataclass_params__", None)
    return isinstance(kind, type) and params is not None and params.frozen


def _script() -> str | None:
    """The module name of the script that is run; None in an interactive session."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return Path(file).stem if file else None


def _loaded(home: str) -> ModuleType | None:
    """A module that is already imported, or one of gvfx that defines parts of experiments; the script that is run is found by the
    name of its file."""
    if home.split(".")[0] != "gvfx":
        return sys.modules["__main__"] if home == _script() else sys.modules.get(home)
    if not f"{home}.".startswith(tuple(f"{package}." for package in PACKAGES)):  # a text must not be able to import it
        return None
    try:
        return import_module(home)
    except ImportError:
        return None


FORMAT = 1  # increased when the same specification would give other numbers
MAKERS = {"gridworld": gridworld}
NUMBERS = {"bool", "float16", "float32", "float64", *(f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64))}


@cache
def known_classes() -> dict[str, type]:
    """The dataclasses that an experiment may contain by their bare names: those in modules that define a public name of gvfx, and
    the modules that installed packages add, each in a tuple `PARTS`."""
    added = {home for point in entry_points(group=GROUP) for home in point.load().PARTS}
    homes = sorted({home for home in HOME_OF.values() if home.startswith(PACKAGES)} | added)
    found = [c for home in homes for c in vars(import_module(home)).values() if isinstance(c, type) and c.__module__ == home]
    return {c.__name__: c for c in found if dataclasses.is_dataclass(c)}


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

    @property
    def plan(self) -> Plan:
        """Its length and the times of its measurements and snapshots."""
        return Plan.checked(self.steps, self.evaluate_every, self.snapshots, self.average_episodes)

    @property
    def made_of(self) -> Made | None:
        """The content of those classes and functions now; None if there are none."""
        return content_of(self.own_parts)

    @classmethod
    def from_json(cls, text: str, classes: Iterable[Callable[..., Any]] = ()) -> Experiment:
        """The experiment stored in a text; text of another format is refused.

        classes: your own classes and functions that the text may name; one that is not listed must be imported already.
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
        _ = self.plan  # refuses wrong times
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
    """The fields of a dataclass as plain data; one added `later` is left out at the value that older versions come closest to.
    A value whose meaning changed has another `text`, so that what was stored before is of another experiment."""
    kept = [
        f
        for f in dataclasses.fields(value)
        if not {"later", "before"} & {*f.metadata} or getattr(value, f.name) != value_before(f)
    ]
    return {f.name: encode(_text(f, getattr(value, f.name)), f.name) for f in kept}


def _text(f: Any, value: Any) -> Any:
    texts = f.metadata.get("text")
    return texts.get(value, value) if texts else value


def _meant(f: Any, written: Any) -> Any:
    """The inverse of `_text`; a value that stands for an earlier meaning is refused."""
    texts = f.metadata.get("text", {})
    if texts and written in texts:
        raise InputError(f"experiment: {f.name}={written!r} was written when it meant something else; make the experiment again.")
    return next((value for value, text in texts.items() if text == written), written)


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
        return own.find(data["@function"], "a function", is_function)
    name = str(data.get("@"))
    if ":" not in name and name not in known_classes():
        raise InputError(f"experiment: {name!r} is not a class of gvfx.")
    kind = own.find(name, "a frozen dataclass", is_frozen) if ":" in name else known_classes()[name]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    before = {name: f.metadata["before"] for name, f in fields.items() if "before" in f.metadata}
    given = {k: decode(v, own) for k, v in data.items() if k != "@"}
    return kind(**before | {k: _meant(fields[k], v) if k in fields else v for k, v in given.items()})
