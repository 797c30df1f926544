"""Public signatures are typed, and none of them says Any."""

from __future__ import annotations

import inspect
import typing
from types import ModuleType, SimpleNamespace

import gvfx
from gvfx.names import HOME_OF
from gvfx.running.schema import Part


def parts_of(hint):
    """A type hint and all that it is made of."""
    yield hint
    for part in typing.get_args(hint):
        for inner in part if isinstance(part, list) else [part]:  # the parameters of a Callable are a list
            yield from parts_of(inner)


def functions_of(name, thing):
    """The public functions of a function, a class (methods and properties, inherited ones too) or a module."""
    if isinstance(thing, ModuleType):
        inner = [n for n in getattr(thing, "__all__", vars(thing)) if not n.startswith("_")]
        for each in inner:
            value = getattr(thing, each)
            if getattr(value, "__module__", None) == thing.__name__:
                yield from functions_of(f"{name}.{each}", value)
    elif isinstance(thing, type):
        yield name, thing  # its fields
        for each, value in inspect.getmembers_static(thing):
            value = value.fget if isinstance(value, property) else getattr(value, "func", value)
            value = getattr(value, "__func__", value)
            ours = str(getattr(value, "__module__", None)).startswith("gvfx")
            if ours and inspect.isfunction(value) and (not each.startswith("_") or each in ("__init__", "__call__")):
                yield f"{name}.{each}", value
    elif inspect.isfunction(thing):
        yield name, thing
    else:
        yield name, type(thing)


# what modules import for type checkers alone
FOR_TYPE_CHECKERS = {"Part": Part, "Result": gvfx.Result, "pandas": SimpleNamespace(DataFrame=object), "Figure": object}
PUBLIC = [pair for name in sorted(HOME_OF) for pair in functions_of(name, getattr(gvfx, name))]


def test_every_public_signature_has_types_and_none_is_any():
    found = []
    for name, thing in PUBLIC:
        hints = typing.get_type_hints(thing, localns=FOR_TYPE_CHECKERS)
        hints = {field: hint for field, hint in hints.items() if not field.startswith("_")}
        found += [f"{name}: {field} is Any" for field, hint in hints.items() if any(p is typing.Any for p in parts_of(hint))]
        if inspect.isfunction(thing):
            missing = {*inspect.signature(thing).parameters, "return"} - set(hints) - {"self", "cls"}
            found += [f"{name}: no type for {field}" for field in sorted(missing)]
    assert not found


def test_public_functions_are_found():
    names = {name for name, _ in PUBLIC}
    assert {"evaluate", "Result.predict", "Result.error", "GVF", "testing.check_behaviour", "exact.values"} <= names
