"""A hash of everything that compiled code depends on: its functions, the functions and constants they use, its argument types.

Two functions with equal fingerprints compile to the same code.  The hash covers byte code, constants, names, default values,
closure cells and the global variables that a function names, followed through every compiled function it calls.  Whatever
cannot be followed raises `Unknown`; such a function is compiled in every process.
"""

from __future__ import annotations

import dis
import enum
import hashlib
from functools import cache
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np
from numba import types
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher

LIBRARIES = ("builtins", "math", "cmath", "operator", "numpy", "numba")  # known by their versions
formulas: WeakSet[FunctionType] = WeakSet()  # plain functions that compiled code may call, of which their own code is compiled


class Unknown(Exception):
    """Something whose content cannot be hashed."""


class Fingerprint:
    """A hash under construction; `records` are the named tuple classes of the argument types, in their order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # id -> position, and the object itself, so that its id stays its own
        self.records: list[type] = []
        self.dispatchers: list[Any] = []

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def text(self, *parts: object) -> None:
        """Add strings; their lengths are added too, so that no two sequences look alike."""
        for part in parts:
            raw = str(part).encode()
            self._hash.update(b"%d:" % len(raw) + raw)

    def add(self, thing: Any, attributes: frozenset[str] = frozenset()) -> None:
        """Add a function, constant, class or module; of a module, the attributes that the code may read."""
        if thing is None or thing is Ellipsis or type(thing) in (bool, int, float, complex, str, bytes):
            self.text(type(thing).__name__, repr(thing))
        elif isinstance(thing, ModuleType):
            self._module(thing, attributes)
        elif id(thing) in self._seen:
            self.text("again", self._seen[id(thing)][0])
        else:
            self._seen[id(thing)] = (len(self._seen), thing)
            self._content(thing)

    def _content(self, thing: Any) -> None:
        if isinstance(thing, Dispatcher):
            self._dispatcher(thing)
        elif isinstance(thing, CodeType):
            self._code(thing)
        elif isinstance(thing, FunctionType) and not _of_a_library(thing):
            if thing not in formulas:
                raise Unknown(f"the Python function {thing.__qualname__}")
            self.text("function")
            self._function(thing)
        elif isinstance(thing, np.ndarray | np.generic):
            if thing.dtype.hasobject:
                raise Unknown("an array of Python objects")
            self.text("array", thing.dtype.descr, thing.shape, hashlib.sha256(thing.tobytes()).hexdigest())
        elif isinstance(thing, enum.Enum):
            self.text("enum", type(thing).__module__, type(thing).__qualname__, thing.name)
            self.add(thing.value)
        elif isinstance(thing, tuple):
            self.text("tuple", len(thing))
            if type(thing) is not tuple:
                self.add(type(thing))
            for part in thing:
                self.add(part)
        elif isinstance(thing, frozenset):
            self.text("set", *sorted(map(repr, thing)))
        elif isinstance(thing, types.Type):
            self.text("type", thing)
        elif isinstance(thing, np.dtype):
            self.text("dtype", thing.descr)
        elif isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
            self.text("record", thing.__module__, thing.__qualname__, *thing._fields)
            self.add(tuple(getattr(thing, "_field_defaults", {}).items()))
        elif isinstance(thing, type | np.ufunc | FunctionType | BuiltinFunctionType | BuiltinMethodType) and _of_a_library(thing):
            self.text("library", getattr(thing, "__module__", ""), getattr(thing, "__qualname__", thing.__name__))
        else:
            raise Unknown(f"{type(thing).__name__} {thing!r}")

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        self.text("module", module.__name__)
        if not _of_a_library(module):
            for name in sorted(attributes & vars(module).keys()):
                self.text(name)
                self.add(vars(module)[name], attributes)

    def _dispatcher(self, dispatcher: Any) -> None:
        if dispatcher._compiler.pipeline_class is not Compiler:
            raise Unknown("a compiler of its own")
        self.dispatchers.append(dispatcher)
        self.text("compiled", *(f"{k}={sorted(v) if isinstance(v, set) else v!r}" for k, v in _options(dispatcher)))
        self._function(dispatcher.py_func)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        attributes = _names(code, "LOAD_ATTR", "LOAD_METHOD")
        self.add(code)
        self.add(function.__defaults__)
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.text(name)
            self.add(cell.cell_contents, attributes)
        for name in sorted(_names(code, "LOAD_GLOBAL", "LOAD_NAME")):
            self.text(name)
            if name in function.__globals__:
                self.add(function.__globals__[name], attributes)

    def _code(self, code: CodeType) -> None:
        self.text("code", code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags, code.co_code.hex())
        self.text(*code.co_names, "|", *code.co_varnames, "|", *code.co_freevars, "|", *code.co_cellvars)
        self.text(getattr(code, "co_exceptiontable", b"").hex())
        for constant in code.co_consts:
            self.add(constant)

    def add_argument(self, kind: Any) -> None:
        """Add an argument's type: a number, an array of numbers, or a (named) tuple of them, with the names of its fields."""
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            self.records.append(kind.instance_class)
            self.add(kind.instance_class)
        if isinstance(kind, types.Tuple | types.UniTuple | types.NamedTuple | types.NamedUniTuple):
            self.text("tuple", len(kind))
            for part in kind:
                self.add_argument(part)
        elif isinstance(kind, types.Number | types.Boolean | types.NoneType):
            self.text("number", kind)
        elif isinstance(kind, types.Array) and isinstance(kind.dtype, types.Number | types.Boolean):
            self.text("array", kind.dtype, kind.ndim, kind.layout, kind.mutable, kind.aligned)
        else:
            raise Unknown(f"an argument of type {kind}")


def _options(dispatcher: Any) -> list[tuple[str, Any]]:
    options = {**dispatcher.targetoptions, **{f"local {k}": str(v) for k, v in dispatcher.locals.items()}}
    for name, value in options.items():
        if not isinstance(value, bool | int | str | set | frozenset | None):
            raise Unknown(f"the option {name}={value!r}")
    return sorted(options.items())


def _of_a_library(thing: Any) -> bool:
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None) or type(thing).__module__
    return name.partition(".")[0] in LIBRARIES


def _codes(code: CodeType) -> list[CodeType]:
    """A code object and those of the functions defined inside it."""
    return [code, *(inner for const in code.co_consts if isinstance(const, CodeType) for inner in _codes(const))]


@cache
def _names(code: CodeType, *operations: str) -> frozenset[str]:
    """The names that operations of some kind use, in a function and in those defined inside it."""
    return frozenset(i.argval for c in _codes(code) for i in dis.get_instructions(c) if i.opname in operations)
