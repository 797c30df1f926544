"""The public names of gvfx as data: where each one lives, and the public classes of one kind.

`__init__.pyi` is the only list; everything that needs to know "all behaviours" or "all learners" asks here.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

HOME_OF: dict[str, str] = {  # public name -> the module that defines it
    name: home
    for home, name in re.findall(
        r"^from (gvfx[\w.]*) import (\w+) as", Path(__file__).with_name("__init__.pyi").read_text("utf-8"), re.MULTILINE
    )
}
SHORT_NAMES = {"BehaviourPolicySearch": "BPS", "SuccessorRepresentation": "SR"}  # class -> the paper's name of the method


def public_classes(base: type[Any]) -> dict[str, type[Any]]:
    """The public classes derived from `base` that can be built, by name; they live in the package of `base` or below."""
    package = base.__module__.rpartition(".")[0]
    homes = {name: home for name, home in HOME_OF.items() if home.startswith(f"{package}.")}
    found = {name: getattr(import_module(home), name) for name, home in homes.items()}
    derived = {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, base)}
    return {name: kind for name, kind in derived.items() if kind is not base and not inspect.isabstract(kind)}


def kinds_of(kind: type) -> frozenset[str]:
    """The kinds of learning that a behaviour or learner supports; for one that wraps others, the most it can support."""
    declared: Any = getattr(kind, "supports", None)
    return declared if isinstance(declared, frozenset) else getattr(kind, "wraps", frozenset())


def wraps_others(kind: type) -> bool:
    """Whether what it supports depends on what it is given."""
    return not isinstance(getattr(kind, "supports", None), frozenset)


def as_call(kind: type) -> str:
    """How to write an object of a class: gvfx.Uniform(), or gvfx.Floor(...) where it needs arguments."""
    needed = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    prefix = "gvfx." if HOME_OF.get(kind.__name__) == kind.__module__ else ""
    return f"{prefix}{kind.__name__}({'...' if needed else ''})"
