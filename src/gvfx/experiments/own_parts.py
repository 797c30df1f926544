"""The caller's classes and functions in a stored experiment, written as "module:name".

Decoding a text imports nothing but modules of gvfx that define parts of experiments.  A name is looked up among the objects that
the caller passes, then in modules that are already imported; the standard library and names that a module merely imports are
excluded.  Worker processes receive, with the text, the names that the caller's own objects have, and import only those
(`imported`).  A script that is run goes by the name of its file, so that a class has the same name whether its file is run or
imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gvfx.errors import InputError
from gvfx.inputs import listed

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


class OwnParts:
    """The classes and functions outside gvfx that an experiment's text may name."""

    def __init__(self, given: Iterable[Callable[..., Any]] = ()) -> None:
        self.given = {name_of(part, "classes"): part for part in listed(given, "classes", "classes and functions")}

    def dataclass(self, full: str) -> Any:
        """A frozen dataclass by its name "module:Class"."""
        found = self._find(full)
        if not is_frozen(found):
            raise InputError(f"experiment: {full} is not a frozen dataclass.")
        return found

    def function(self, full: str) -> Callable[..., Any]:
        """A function by its name "module:name"."""
        found = self._find(full)
        if not callable(found) or isinstance(found, type):
            raise InputError(f"experiment: {full} is not a function.")
        return found

    def _find(self, full: str) -> Any:
        if full in self.given:
            return self.given[full]
        home, _, name = full.partition(":")
        module = None if home.split(".")[0] in sys.stdlib_module_names else _loaded(home)
        found = getattr(module, name, None)
        if found is None or getattr(found, "__module__", None) != getattr(module, "__name__", ""):
            raise InputError(
                f"experiment: {full} is named by the text but not known to your program; pass it, as in "
                f"Experiment.from_json(text, classes=[{name}])."
            )
        return found


def is_frozen(kind: Any) -> bool:
    """Whether this is a frozen dataclass."""
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
    if home.split(".")[0] == "gvfx":
        return _of_gvfx(home)
    return sys.modules["__main__"] if home == _script() else sys.modules.get(home)


def _of_gvfx(home: str) -> ModuleType | None:
    """A module of gvfx that defines parts of experiments; None for all others, which a text must not be able to import."""
    if not f"{home}.".startswith(tuple(f"{package}." for package in PACKAGES)):
        return None
    try:
        return import_module(home)
    except ImportError:
        return None
