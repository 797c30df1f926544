"""A hash of the content of functions, constants, classes and objects: what they do, not where they are.

It covers byte code, constants, names, default values, closure cells and the global variables that a function names, followed
through the functions that it calls; no address, file name or line number, so that it is the same in every process.  `Content` is
what its two kinds share: `gvfx.compilation.loops.Fingerprint` of compiled code, where everything must be known, and `Identity`
here, of a user's functions, objects and environments, which is the same in another process and another after an edit.

`Identity` follows the user's own functions and classes wherever they lead.  Libraries (installed packages, the standard library,
gvfx) are known by name, and their versions are kept beside the hash.  Objects are known by their class and state, arrays by their
numbers; what their methods change while they run (`changed_by`) is left out, so that an environment that was stepped is still the
same.  What cannot be looked into (compiled extensions, connections) is listed in `unknown`.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import hashlib
import logging
import re
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any
from weakref import ref

import numpy as np

PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis)})
NONE: frozenset[str] = frozenset()


class Unknown(Exception):
    """Something whose content cannot be hashed."""


class Content:
    """A hash under construction."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # id -> position, and the object itself, so that its id stays its own

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def text(self, *parts: object) -> None:
        """Add strings; their lengths are added too, so that no two sequences look the same."""
        for part in parts:
            raw = str(part).encode(errors="surrogatepass")
            self._hash.update(b"%d:" % len(raw) + raw)

    def add(self, thing: Any, attributes: frozenset[str] = NONE) -> None:
        """Add a function, constant, class or module; of a module, the attributes that the code may read."""
        if type(thing) in PLAIN:
            self.text(type(thing).__name__, repr(thing))
        elif isinstance(thing, ModuleType):
            self._module(thing, attributes)
        elif id(thing) in self._seen:
            self.text("again", self._seen[id(thing)][0])
        else:
            self._seen[id(thing)] = (len(self._seen), thing)
            self._content(thing, attributes)

    def _content(self, thing: Any, attributes: frozenset[str]) -> None:
        if isinstance(thing, CodeType):
            self._code(thing)
        elif isinstance(thing, FunctionType) and not self._of_a_library(thing):
            self.text("function")
            self._function(thing)
        elif isinstance(thing, np.ndarray | np.generic) and not thing.dtype.hasobject:
            self.text("array", thing.dtype.descr, thing.shape, hashlib.sha256(thing.tobytes()).hexdigest())
        elif isinstance(thing, enum.Enum):
            self.text("enum", type(thing).__module__, type(thing).__qualname__, thing.name)
            self.add(thing.value)
        elif isinstance(thing, tuple):
            self.text("tuple", len(thing))
            if type(thing) is not tuple:
                self.add(type(thing))
            for part in thing:
                self.add(part, attributes)
        elif isinstance(thing, np.dtype):
            self.text("dtype", thing.descr)
        elif isinstance(thing, type | np.ufunc | FunctionType | BuiltinFunctionType | BuiltinMethodType) and self._of_a_library(
            thing
        ):
            self._library(thing)
        else:
            self._other(thing, attributes)

    def _of_a_library(self, thing: Any) -> bool:
        """Whether this belongs to a library, which is known by its version."""
        raise NotImplementedError

    def _other(self, thing: Any, attributes: frozenset[str]) -> None:
        """Add what is nothing of the above."""
        raise Unknown(f"{type(thing).__name__} {thing!r}")

    def _library(self, thing: Any) -> None:
        self.text("library", getattr(thing, "__module__", ""), getattr(thing, "__qualname__", thing.__name__))

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        self.text("module", module.__name__)
        if not self._of_a_library(module):
            for name in sorted(attributes & vars(module).keys()):
                self.text(name)
                self.add(vars(module)[name], attributes)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        attributes = names_of(code, "LOAD_ATTR", "LOAD_METHOD")
        self.add(code)
        self.add(function.__defaults__, attributes)
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())), attributes)
        for name, value in self._held(function):
            self.text(name)
            self.add(value, attributes)
        for name in sorted(names_of(code, "LOAD_GLOBAL", "LOAD_NAME")):
            self.text(name)
            if name in function.__globals__ and self._is_read(function, name):
                self.add(function.__globals__[name], attributes)

    def _held(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        """What a function holds of its surroundings, by name."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield name, cell.cell_contents

    def _is_read(self, function: FunctionType, name: str) -> bool:
        """Whether the value of a global variable counts."""
        return True

    def _code(self, code: CodeType) -> None:
        self.text("code", code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags, code.co_code.hex())
        self.text(*code.co_names, "|", *code.co_varnames, "|", *code.co_freevars, "|", *code.co_cellvars)
        self.text(getattr(code, "co_exceptiontable", b"").hex())
        for constant in self._constants(code):
            self.add(constant)

    def _constants(self, code: CodeType) -> tuple[Any, ...]:
        return code.co_consts


def codes_in(code: CodeType) -> list[CodeType]:
    """A code object and those of the functions defined inside it."""
    return [code, *(inner for const in code.co_consts if isinstance(const, CodeType) for inner in codes_in(const))]


@cache
def names_of(code: CodeType, *operations: str) -> frozenset[str]:
    """The names that operations of some kind use, in a function and in those defined inside it."""
    return frozenset(i.argval for c in codes_in(code) for i in dis.get_instructions(c) if i.opname in operations)


# --- Which variables a function changes while it runs: memories, counters and buffers, which say nothing about what it does
# Read from its byte code: names that are assigned, containers into which something is stored, and those of which a method that
# changes them is called.  A change through another name is not noticed.


ASSIGNMENTS = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF"})
INTO = {"STORE_SUBSCR": 1, "DELETE_SUBSCR": 1, "STORE_SLICE": 2}  # what stands between the container and the operation
READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD"})
CHANGING = (
    "add append appendleft clear copyto difference_update discard extend extendleft fill insert intersection_update itemset "
    "pop popitem popleft put remove reverse rotate setdefault shuffle sort symmetric_difference_update update"
)
WORDS = frozenset(CHANGING.split())
OPERATIONS = frozenset(dis.opmap[name] for name in (*ASSIGNMENTS, *INTO) if name in dis.opmap)


@cache
def changed_by(code: CodeType) -> frozenset[str]:
    """The names of global variables, closure variables and attributes that a function, or one inside it, changes."""
    return frozenset(name for each in codes_in(code) for name in _changed(each))


def _changed(code: CodeType) -> Iterator[str]:
    if OPERATIONS.isdisjoint(code.co_code[::2]) and WORDS.isdisjoint(code.co_names):
        return
    found = list(dis.get_instructions(code))
    for k, each in enumerate(found):
        if each.opname in ASSIGNMENTS:
            yield each.argval
        elif each.opname in INTO:
            yield from _container(found, _before(found, k, INTO[each.opname]))
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in WORDS:
            yield from _container(found, k - 1)


def _container(found: list[dis.Instruction], k: int) -> Iterator[str]:
    """The name from which an expression that ends with instruction k takes its value: `x` of x, o.x, x[i] and x[i][j]."""
    while k >= 0:
        each = found[k]
        if each.opname in READS:
            yield each.argval
            return
        if not each.opname.startswith("BINARY_SUBSCR"):
            return
        k = _before(found, k, 1)


def _before(found: list[dis.Instruction], k: int, expressions: int) -> int:
    """The instruction before so many expressions, of which the last ends before instruction k."""
    if found[k - 1].opname == "SWAP":  # x[i] += ...: container and index were copied before
        while k > 0 and found[k - 1].opname != "COPY":
            k -= 1
        while k > 0 and found[k - 1].opname == "COPY":
            k -= 1
    k -= 1
    for _ in range(expressions):
        missing = 1
        while k >= 0:
            missing -= dis.stack_effect(found[k].opcode, found[k].arg, jump=False)
            k -= 1
            if missing <= 0:
                break
    return k


RUN = frozenset({"__call__", "reset", "step"})  # methods that are called in a run
RANDOM = frozenset({"_np_random", "_np_random_seed", "np_random"})  # attributes of Gymnasium, which are made when they are needed
MADE = (  # by Python for every class
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotate__ __annotate_func__ __firstlineno__ "
    "__static_attributes__ __abstractmethods__ _abc_impl __dataclass_fields__ __dataclass_params__ __match_args__ __slots__ "
    "__parameters__ __orig_bases__ __type_params__ __classcell__ __annotations_cache__"
)
GENERATORS = ("numpy.random", "random")
OUTSIDE = (  # whose objects stand for something outside the program
    "_ctypes _io _socket _ssl _thread asyncio ctypes http io multiprocessing mmap socket sqlite3 ssl subprocess threading"
)
BUILT_IN = (list, dict, set, frozenset, int, float, complex, str, bytes, bytearray)
DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
MOST, DEEPEST = 100_000, 60  # objects, and how deep they may be nested


class Identity(Content):
    """A hash under construction.

    unknown:   what could not be looked into, in words.
    libraries: the installed packages that the content names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unknown: list[str] = []
        self.libraries: set[str] = set()
        self._depth = self._count = 0
        self._quiet = False  # inside an environment of a library, whose version says what it does

    def add(self, thing: Any, attributes: frozenset[str] = NONE) -> None:
        self._count += 1
        if self._depth > DEEPEST or self._count > MOST:
            self._not_known(f"{_called(thing)} (too large)")
            return
        self._depth += 1
        try:
            if isinstance(thing, tuple | frozenset | CodeType | np.generic | np.dtype):  # the same object or not
                self._content(thing, attributes)
            else:
                super().add(thing, attributes)
        except (Exception, RecursionError):  # whatever an object does when it is looked at
            self._not_known(_called(thing))
        finally:
            self._depth -= 1

    def _not_known(self, what: str) -> None:
        self.text("unknown", what)
        if not self._quiet and what not in self.unknown:
            self.unknown.append(what)

    def _other(self, thing: Any, attributes: frozenset[str]) -> None:
        if type(thing) not in BUILT_IN and isinstance(thing, BUILT_IN):
            self.add(type(thing))
        if isinstance(thing, list | deque) or (isinstance(thing, np.ndarray) and thing.dtype.hasobject):
            self._row(type(thing).__name__, thing.ravel().tolist() if isinstance(thing, np.ndarray) else thing, attributes)
        elif isinstance(thing, set | frozenset):
            self.text("set", *sorted(self._apart(part, attributes) for part in thing))
        elif isinstance(thing, dict | MappingProxyType):
            self._mapping(thing, attributes)
        elif isinstance(thing, partial):
            self.text("partial")
            self._row("of", (thing.func, thing.args, thing.keywords), attributes)
        elif isinstance(thing, int | float | complex | str | bytes | bytearray):
            self.text(repr(thing))
        elif isinstance(thing, BuiltinMethodType) and isinstance(thing.__self__, ModuleType | type(None)):
            raise Unknown("a compiled function")
        elif isinstance(thing, MethodType | BuiltinMethodType):
            self.text("method", thing.__name__)
            self.add(getattr(thing, "__func__", None))
            self.add(thing.__self__, attributes | {thing.__name__})
        elif isinstance(thing, classmethod | staticmethod):
            self.text(type(thing).__name__)
            self.add(thing.__func__)
        elif isinstance(thing, property):
            self._row("property", (thing.fget, thing.fset, thing.fdel), attributes)
        elif isinstance(thing, cached_property):
            self._row("property", (thing.func,), attributes)
        elif isinstance(thing, type):
            self._class(thing)
        elif (inner := _inside(thing)) is not None:
            self._row(type(thing).__name__, (inner,), attributes)
        elif isinstance(thing, re.Pattern):
            self._row("pattern", (thing.pattern, thing.flags), attributes)
        elif isinstance(thing, PurePath):
            self.text("path", thing)
        elif isinstance(thing, (logging.Logger, ref, *DESCRIPTORS)):
            self.text(type(thing).__name__, getattr(thing, "__name__", ""))
        else:
            self._object(thing, attributes)

    def _row(self, kind: str, parts: Any, attributes: frozenset[str]) -> None:
        self.text(kind, len(parts))
        if all(type(part) in PLAIN for part in parts):
            self.text(repr(list(parts)))
            return
        for part in parts:
            self.add(part, attributes)

    def _apart(self, thing: Any, attributes: frozenset[str]) -> str:
        """The hash of a member of a set, whose order is not its own."""
        own = type(self)()
        own._depth, own._count, own._quiet = self._depth, self._count, self._quiet
        own.add(thing, attributes)
        self._count = own._count
        self.libraries |= own.libraries
        self.unknown += [each for each in own.unknown if each not in self.unknown]
        return own.hexdigest()

    def _mapping(self, thing: Mapping[Any, Any], attributes: frozenset[str]) -> None:
        items = list(thing.items())
        if all(type(key) is str for key in thing):
            items.sort(key=lambda item: item[0])
        self.text("mapping", len(items))
        for key, value in items:
            self.add(key)
            self.add(value, attributes)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _held(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        changed = changed_by(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name not in changed:
                try:
                    yield name, cell.cell_contents
                except ValueError:  # it has no value yet
                    yield name, "no value"

    def _is_read(self, function: FunctionType, name: str) -> bool:
        return name not in changed_by(function.__code__)

    def _constants(self, code: CodeType) -> tuple[Any, ...]:
        return _constants(code)

    # --- libraries ---------------------------------------------------------------------------------------------------

    def _of_a_library(self, thing: Any) -> bool:
        return _library_of(_home(thing)) is not None

    def _library(self, thing: Any) -> None:
        """By name; a function that a library has made holds what it was given, such as the user's function."""
        super()._library(thing)
        self._note(_library_of(_home(thing)))
        if isinstance(thing, FunctionType):
            if "<lambda>" in thing.__qualname__:
                self.add(thing.__code__)
            for name, value in self._held(thing):
                self.text(name)
                self.add(value)
            if thing.__closure__ or "<locals>" in thing.__qualname__:
                self.add(thing.__defaults__)
        elif isinstance(thing, BuiltinMethodType) and not isinstance(thing.__self__, ModuleType | type(None)):
            self.add(thing.__self__)

    def _module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        name = _library_of(module.__name__)
        self._note(name)
        if name is None and id(module) in self._seen:
            self.text("again", module.__name__)
            return
        self._seen[id(module)] = (len(self._seen), module)
        super()._module(module, attributes)
        self._seen.pop(id(module))  # other functions read other attributes of it

    def _note(self, library: str | None) -> None:
        if library:
            self.libraries.add(library)

    # --- classes and objects -----------------------------------------------------------------------------------------

    def _class(self, kind: type) -> None:
        """A class of the user's: its methods, attributes and bases."""
        self.text("class", kind.__name__)
        for base in kind.__bases__:
            self.add(base)
        own = {name: value for name, value in vars(kind).items() if name not in MADE.split()}
        changed = frozenset(name for value in own.values() for code in _codes(value) for name in changed_by(code))
        for name in sorted(own.keys() - changed):
            self.text(name)
            self.add(own[name])

    def _object(self, thing: Any, attributes: frozenset[str]) -> None:
        kind = type(thing)
        self.text("object")
        self.add(kind)
        if kind.__module__.startswith(GENERATORS) or isinstance(thing, np.random.Generator | np.random.RandomState):
            return  # its numbers are not part of the question
        if _is_outside(kind):
            raise Unknown("what it does is outside Python")
        if hasattr(kind, "__array__") and hasattr(kind, "shape"):  # numbers of JAX, torch or pandas
            self.add(np.asarray(thing.detach().cpu() if hasattr(thing, "detach") else thing))
            return
        if any(base.__name__ == "BaseAlgorithm" for base in kind.__mro__) and hasattr(thing, "policy"):  # Stable-Baselines3
            self.add(thing.policy, attributes)
            return
        state = _state(thing)
        if state is None:
            self._not_known(_called(thing))
            return
        is_environment = hasattr(kind, "step") and hasattr(kind, "reset")
        before, self._quiet = self._quiet, self._of_a_library(kind) and (self._quiet or is_environment)
        codes = _running(kind, attributes | RUN)
        changed = frozenset().union(*map(changed_by, codes)) | RANDOM
        read = frozenset(name for code in codes for each in codes_in(code) for name in each.co_names)
        for name in sorted(state.keys() - changed):
            self.text(name)
            self.add(state[name], read)
        self._quiet = before


# --- what a thing is --------------------------------------------------------------------------------------------------


def _home(thing: Any) -> str:
    """The module in which a thing is defined."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    if isinstance(thing, BuiltinMethodType) and isinstance(getattr(thing, "__self__", None), ModuleType):
        return str(getattr(thing.__self__, "__name__", ""))
    return getattr(thing, "__module__", None) or ("" if isinstance(thing, FunctionType) else type(thing).__module__)


def _library_of(home: str) -> str | None:
    """The installed package of a module; empty for the standard library and gvfx, None for the user's own modules."""
    top = home.partition(".")[0]
    return _package(top, getattr(sys.modules.get(top), "__file__", None), top in sys.modules)


@cache
def _package(top: str, file: str | None, loaded: bool) -> str | None:
    if top == "gvfx" or top in sys.builtin_module_names:
        return ""
    if not loaded or top in ("__main__", "__mp_main__"):
        return None
    if file is None:
        return "" if top in sys.stdlib_module_names else None
    where = Path(file).resolve()
    if {"site-packages", "dist-packages"} & {*where.parts}:
        return top
    return "" if top in sys.stdlib_module_names and where.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()) else None


@cache
def version_of(library: str) -> str:
    """The version of an installed package; empty if it does not say."""
    version = getattr(sys.modules.get(library), "__version__", None)
    if isinstance(version, str):
        return version
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def _called(thing: Any) -> str:
    """A thing in words, without an address."""
    name = getattr(thing, "__qualname__", None)
    kind = type(thing)
    return name if isinstance(name, str) else f"an object of {kind.__module__}.{kind.__qualname__}"


def _inside(thing: Any) -> Any:
    """The Python function inside a compiled one, of numba, JAX or functools."""
    for name in ("py_func", "__wrapped__"):
        inner = getattr(thing, name, None)
        if callable(inner) and not isinstance(thing, type):
            return inner
    return None


def _is_outside(kind: type) -> bool:
    """Whether objects of this class stand for something outside the program, or are called by code that Python cannot see."""
    if any(base.__module__.partition(".")[0] in OUTSIDE.split() for base in kind.__mro__):
        return True
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    return isinstance(call, WrapperDescriptorType) and _library_of(kind.__module__) != ""


def _state(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object; None if it has some that Python cannot see."""
    kind = type(thing)
    if dataclasses.is_dataclass(thing) and kind.__module__.startswith("gvfx."):
        return {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    if not hasattr(thing, "__dict__") and not slots:
        return _reduced(thing) if kind.__module__.partition(".")[0] in sys.stdlib_module_names else None
    lazy = {name for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)}
    found = {name: getattr(thing, name) for name in slots if hasattr(thing, name)} | getattr(thing, "__dict__", {})
    return {str(name): value for name, value in found.items() if name not in lazy}


def _slots(kind: type) -> tuple[str, ...]:
    named = vars(kind).get("__slots__", ())
    names = (named,) if isinstance(named, str) else tuple(named)
    hidden = (f"_{kind.__name__.lstrip('_')}{name}" if name[:2] == "__" != name[-2:] else name for name in names)
    return tuple(name for name in hidden if name not in ("__dict__", "__weakref__"))


def _reduced(thing: Any) -> dict[str, Any] | None:
    """What an object of the standard library would be pickled as."""
    if type(thing) is object:
        return {}
    made = thing.__reduce_ex__(2)
    if isinstance(made, str):
        return {"name": made}
    if getattr(made[0], "__name__", "") == "__newobj__" and len(made[1]) == 1 and not any(made[2:]):
        raise Unknown(_called(thing))
    return {"made": made[0], "of": made[1], "state": list(made[2:3])}


def _running(kind: type, names: frozenset[str]) -> list[CodeType]:
    """The code of the methods with some names, of those that they call, and of all properties."""
    found: list[CodeType] = []
    left, done = set(names), set()
    for base in kind.__mro__[:-1]:
        found += [code for value in vars(base).values() if isinstance(value, property) for code in _codes(value)]
    while left:
        name = left.pop()
        done.add(name)
        for base in kind.__mro__[:-1]:
            codes = _codes(vars(base).get(name)) if name != "__init__" else []
            found += codes
            left |= {each for code in codes for inner in codes_in(code) for each in inner.co_names} - done
    return found


def _codes(value: Any) -> list[CodeType]:
    """The code of a method or property."""
    if isinstance(value, property):
        return [] if value.fget is None else _codes(value.fget)
    function = getattr(value, "__func__", value)
    function = getattr(function, "__wrapped__", function)
    return [function.__code__] if isinstance(function, FunctionType) else []


@cache
def _constants(code: CodeType) -> tuple[Any, ...]:
    """The constants that the code reads: not its description."""
    if not (code.co_consts and isinstance(code.co_consts[0], str)):
        return code.co_consts
    used = any(i.opcode in dis.hasconst and i.arg == 0 for i in dis.get_instructions(code))
    return code.co_consts if used else (None, *code.co_consts[1:])
