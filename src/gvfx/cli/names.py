"""Names of behaviours on the command line: the class names of the library; the paper's short names are accepted too."""

from __future__ import annotations

from typing import Any

from gvfx.errors import InputError, UnknownName
from gvfx.names import SHORT_NAMES, as_call, public_classes

_CLASSES = {short.lower(): name for name, short in SHORT_NAMES.items()}
_SHORT = {name.lower(): short for name, short in SHORT_NAMES.items()}


def class_name(name: str) -> str:
    """A name with the paper's short name written out: SR-greedy is SuccessorRepresentation-greedy."""
    return _exchanged(name, _CLASSES)


def short_name(name: str) -> str:
    """A name with the paper's short name in place of the class name; names that have none stay as they are."""
    return _exchanged(name, _SHORT)


def _exchanged(name: str, names: dict[str, str]) -> str:
    stem, dash, variant = name.partition("-")
    return names.get(stem.lower(), stem) + dash + variant


def accepted_name(setting: Any, behaviour: str) -> str:
    """The spelling of a behaviour that a setting accepts; an unknown name is left to the setting, which lists its own."""
    for name in (class_name(behaviour), short_name(behaviour)):
        try:
            setting.experiment(name)
        except UnknownName:
            continue
        return name
    return behaviour


def made_by_name(field: str, name: str | None, base: type[Any]) -> Any:
    """A behaviour or learner with its defaults, by class name or short name; None without a name."""
    if name is None:
        return None
    classes = public_classes(base)
    kind = {known.lower(): known for known in classes}.get(class_name(name).lower())
    if kind is None:
        raise UnknownName(field, name, list(classes))
    if as_call(classes[kind]).endswith("(...)"):
        raise InputError(f"{field}: {kind} needs arguments; use it from Python, {as_call(classes[kind])}, or choose another.")
    return classes[kind]()
