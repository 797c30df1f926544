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
import importlib
import logging
import re
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePath
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

import numpy as np

PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis)})
NONE: frozenset[str] = frozenset()
GLOBALS, ATTRIBUTES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"}), frozenset({"LOAD_ATTR", "LOAD_METHOD"})


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
        elif isinstance(thing, types.ModuleType):
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
        elif isinstance(
            thing, type | np.ufunc | FunctionType | types.BuiltinFunctionType | types.BuiltinMethodType
        ) and self._of_a_library(thing):
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

    def _module(self, module: types.ModuleType, attributes: frozenset[str]) -> None:
        self.text("module", module.__name__)
        if not self._of_a_library(module):
            for name in sorted(attributes & vars(module).keys()):
                self.text(name)
                self.add(vars(module)[name], attributes)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        attributes = names_of(code, ATTRIBUTES)
        self.add(code)
        self.add(function.__defaults__, attributes)
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())), attributes)
        for name, value in self._held(function):
            self.text(name)
            self.add(value, attributes)
        for name in sorted(names_of(code, GLOBALS)):
            self.text(name)
            if name in function.__globals__ and name not in self._passed_over(code):
                self.add(function.__globals__[name], attributes)

    def _held(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        """What a function holds of its surroundings, by name."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name not in self._passed_over(function.__code__):
                try:
                    yield name, cell.cell_contents
                except ValueError:  # it has no value yet
                    yield name, "no value"

    def _passed_over(self, code: CodeType) -> frozenset[str]:
        """The variables of a function whose values do not count."""
        return NONE

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
def names_of(code: CodeType, operations: frozenset[str]) -> frozenset[str]:
    """The names that operations of some kind use, in a function and in those defined inside it."""
    return frozenset(i.argval for c in codes_in(code) for i in dis.get_instructions(c) if i.opname in operations)


# --- Which variables a function changes while it runs: memories, counters and buffers, which say nothing about what it does
# Read from its byte code: names that are assigned, containers into which something is stored, and those of which a method that
# changes them is called.  A change through another name is not noticed.


ASSIGNMENTS = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF"})
INTO = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
READS = GLOBALS | ATTRIBUTES | {"LOAD_DEREF"}
CHANGING = (
    "add append appendleft clear copyto difference_update discard extend extendleft fill insert intersection_update itemset "
    "pop popitem popleft put remove reverse rotate setdefault shuffle sort symmetric_difference_update update"
)
WORDS = frozenset(CHANGING.split())
OPERATIONS = frozenset(dis.opmap[name] for name in (*ASSIGNMENTS, *INTO) if name in dis.opmap)


@cache
def changed_by(code: CodeType) -> frozenset[str]:
    """The names of global variables, closure variables and attributes that a function, or one inside it, changes."""
    return frozenset(name for each in codes_in(code) for name in _changed(each) if name)


def _changed(code: CodeType) -> Iterator[str]:
    if OPERATIONS.isdisjoint(code.co_code[::2]) and WORDS.isdisjoint(code.co_names):
        return
    latest: dict[object, str] = {}  # the last name that is read in an expression, by where the expression begins
    before = ""  # the name that was read just before
    for each in dis.get_instructions(code):
        begins = each.positions and (each.positions.lineno, each.positions.col_offset)
        if each.opname in ASSIGNMENTS:
            yield each.argval
        elif each.opname in INTO:
            yield latest.get(begins, "")  # x of x[i] and o.x[i][j]
        elif each.opname in READS and each.argval in WORDS:
            yield before or latest.get(begins, "")  # x of o.x.append and x[i].append
        before = each.argval if each.opname in READS else ""
        if before or each.opname.startswith("CALL"):
            latest[begins] = before


# --- What a function reads while it runs from outside the program, or by a name that it makes up: files, settings, other modules


ASKING = ("__import__", "eval", "exec", "globals", "input", "open")  # functions of Python's own
READING = (  # attributes of modules, classes and paths
    "environ fromfile genfromtxt getenv import_module load load_model loadtxt memmap read_bytes read_csv read_parquet read_text"
)
OUTSIDE_NAMES = frozenset((*ASKING, *READING.split()))


@cache
def outside_of(code: CodeType) -> str:
    """A name by which a function, or one inside it, reads from outside; empty if there is none."""
    for each in codes_in(code):
        before = ""
        for step in dis.get_instructions(each) if not set(each.co_names).isdisjoint(OUTSIDE_NAMES) else ():
            attribute = step.opname in ATTRIBUTES and not before.startswith(("LOAD_FAST", "LOAD_ATTR"))  # not of an object
            if step.argval in (READING.split() if attribute else ASKING if step.opname in GLOBALS else ()):
                return str(step.argval)
            before = step.opname
    return ""


IMPORTS = frozenset({"IMPORT_NAME"})
RUN = frozenset({"__call__", "reset", "step"})  # methods that are called in a run
RANDOM = frozenset({"_np_random", "_np_random_seed", "np_random"})  # attributes of Gymnasium, which are made when they are needed
GENERATORS = ("numpy.random", "random")
OUTSIDE = (  # whose objects stand for something outside the program
    "_ctypes _io _socket _ssl _thread asyncio ctypes http io multiprocessing mmap socket sqlite3 ssl subprocess threading"
)
BUILT_IN = (list, dict, set, frozenset, int, float, complex, str, bytes, bytearray)
PARTS: dict[type, tuple[str, ...]] = {  # of objects that are known by some of their attributes
    partial: ("func", "args", "keywords"),
    property: ("fget", "fset", "fdel"),
    cached_property: ("func",),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    re.Pattern: ("pattern", "flags"),
}
DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType)
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
        self._in_class = False  # inside a class, where only the methods that run may not read from outside

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
        elif isinstance(thing, dict | types.MappingProxyType):
            items = (
                sorted(thing.items(), key=lambda item: item[0]) if all(type(key) is str for key in thing) else list(thing.items())
            )
            self._row("mapping", [part for item in items for part in item], attributes)
        elif isinstance(thing, int | float | complex | str | bytes | bytearray):
            self.text(repr(thing))
        elif isinstance(thing, types.BuiltinMethodType) and isinstance(thing.__self__, types.ModuleType | type(None)):
            raise Unknown("a compiled function")
        elif isinstance(thing, types.MethodType | types.BuiltinMethodType):
            self.text("method", thing.__name__)
            self.add(getattr(thing, "__func__", None))
            self.add(thing.__self__, attributes | {thing.__name__})
        elif parts := next((names for kind, names in PARTS.items() if isinstance(thing, kind)), ()):
            self._row(type(thing).__name__, [getattr(thing, name) for name in parts], attributes)
        elif isinstance(thing, type):
            self._class(thing)
        elif (inner := _inside(thing)) is not None:
            self._row(type(thing).__name__, (inner,), attributes)
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

    # --- functions ---------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> None:
        super()._function(function)
        code = function.__code__
        for name in sorted(names_of(code, IMPORTS)):
            self._imported(name, names_of(code, ATTRIBUTES | {"IMPORT_FROM"}))
        if not self._in_class:
            self._outside([code])

    def _imported(self, name: str, attributes: frozenset[str]) -> None:
        """A module that a function imports when it is called, if it is there: pictures may need a package that runs do not."""
        top = name.partition(".")[0]
        found = None if top in sys.modules else find_spec(top)
        library = _library_of(name) if found is None else _package(top, found.origin, True)
        if library is None:
            with suppress(ImportError):
                self.add(importlib.import_module(name), attributes)
        self.libraries.add(library or "")

    def _outside(self, codes: Iterable[CodeType]) -> None:
        for code in codes:
            if name := outside_of(code):
                self._not_known(f"what {code.co_name} reads by {name}")

    def _passed_over(self, code: CodeType) -> frozenset[str]:
        return changed_by(code)

    def _constants(self, code: CodeType) -> tuple[Any, ...]:
        return _constants(code)

    # --- libraries ---------------------------------------------------------------------------------------------------

    def _of_a_library(self, thing: Any) -> bool:
        return _library_of(_home(thing)) is not None

    def _library(self, thing: Any) -> None:
        """By name; a function that a library has made holds what it was given, such as the user's function."""
        super()._library(thing)
        self.libraries.add(_library_of(_home(thing)) or "")
        if isinstance(thing, FunctionType):
            if "<lambda>" in thing.__qualname__:
                self.add(thing.__code__)
            for name, value in self._held(thing):
                self.text(name)
                self.add(value)
            if thing.__closure__ or "<locals>" in thing.__qualname__:
                self.add(thing.__defaults__)
        elif isinstance(thing, types.BuiltinMethodType) and not isinstance(thing.__self__, types.ModuleType | type(None)):
            self.add(thing.__self__)

    def _module(self, module: types.ModuleType, attributes: frozenset[str]) -> None:
        name = _library_of(module.__name__)
        self.libraries.add(name or "")
        if name is None and id(module) in self._seen:
            self.text("again", module.__name__)
            return
        self._seen[id(module)] = (len(self._seen), module)
        super()._module(module, attributes)
        self._seen.pop(id(module))  # other functions read other attributes of it

    # --- classes and objects -----------------------------------------------------------------------------------------

    def _class(self, kind: type) -> None:
        """A class of the user's: its methods, attributes and bases."""
        self.text("class", kind.__name__)
        for base in kind.__bases__:
            self.add(base)
        own = {name: value for name, value in vars(kind).items() if not _is_made(name, value)}
        changed = frozenset(name for value in own.values() for code in _codes(value) for name in changed_by(code))
        before, self._in_class = self._in_class, True
        for name in sorted(own.keys() - changed):
            self.text(name)
            self.add(own[name])
        self._in_class = before

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
        codes = _running(kind.__mro__, attributes | RUN)
        self._outside(_running([base for base in kind.__mro__ if not self._of_a_library(base)], attributes | RUN))
        changed = frozenset().union(*map(changed_by, codes)) | RANDOM
        read = frozenset(name for code in codes for each in codes_in(code) for name in each.co_names)
        for name in sorted(state.keys() - changed):
            self.text(name)
            self.add(state[name], read)
        self._quiet = before


# --- what a thing is --------------------------------------------------------------------------------------------------


def _home(thing: Any) -> str:
    """The module in which a thing is defined."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, types.BuiltinMethodType) and isinstance(getattr(thing, "__self__", None), types.ModuleType):
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
    return isinstance(call, types.WrapperDescriptorType) and _library_of(kind.__module__) != ""


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


def _running(kinds: Sequence[type], names: frozenset[str]) -> list[CodeType]:
    """The code of the methods of classes with some names, of those that they call, and of all properties."""
    found: list[CodeType] = []
    left, done = set(names), set()
    for base in kinds:
        found += [code for value in vars(base).values() if isinstance(value, property) for code in _codes(value)]
    while left:
        name = left.pop()
        done.add(name)
        for base in kinds:
            codes = _codes(vars(base).get(name)) if name != "__init__" else []
            found += codes
            left |= {each for code in codes for inner in codes_in(code) for each in inner.co_names} - done
    return found


def _is_made(name: str, value: Any) -> bool:
    """Whether an attribute of a class is one that Python or a library makes for every class."""
    does = (callable(value) or hasattr(value, "__get__")) and not isinstance(value, DESCRIPTORS)
    return name == "_abc_impl" or (name[:2] == name[-2:] == "__" and not does)


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
