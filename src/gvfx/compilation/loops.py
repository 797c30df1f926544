"""Functions compiled by numba, kept on disk between processes.

numba's own cache misses whenever a closure holds compiled functions, and compares records by their class and not by their
fields.  Here the key is the `Fingerprint` of all that the code depends on.  Functions that only compiled code calls are part of
their callers.  Symbols carry a random word per process, because numba's counters begin at one in each.
"""

from __future__ import annotations

import io
import os
import pickle
import platform
import secrets
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba import njit, types
from numba.core import config, sigutils
from numba.core.caching import NullCache, _Cache
from numba.core.compiler import Compiler, CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import NumbaPickler
from numba.extending import overload

from gvfx.compilation import folder
from gvfx.content import Content, Unknown

# --- A hash of everything that compiled code depends on: its functions, the functions and constants they use, its argument types
# Two functions with equal fingerprints compile to the same code.  Only compiled functions, and plain ones that compiled code may
# call, are followed.  Whatever cannot be followed raises `Unknown`; such a function is compiled in every process.


LIBRARIES = ("builtins", "math", "cmath", "operator", "numpy", "numba")  # known by their versions
formulas: WeakSet[FunctionType] = WeakSet()  # plain functions that compiled code may call, of which their own code is compiled


class Fingerprint(Content):
    """A hash under construction; `records` are the named tuple classes of the argument types, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[type] = []
        self.dispatchers: list[Any] = []

    def _content(self, thing: Any, attributes: frozenset[str]) -> None:
        if isinstance(thing, Dispatcher):
            self._dispatcher(thing)
        elif isinstance(thing, FunctionType) and thing not in formulas and not self._of_a_library(thing):
            raise Unknown(f"the Python function {thing.__qualname__}")
        else:
            super()._content(thing, attributes)

    def _other(self, thing: Any, attributes: frozenset[str]) -> None:
        if isinstance(thing, np.ndarray):
            raise Unknown("an array of Python objects")
        if isinstance(thing, frozenset):
            self.text("set", *sorted(map(repr, thing)))
        elif isinstance(thing, types.Type):
            self.text("type", thing)
        elif isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
            self.text("record", thing.__module__, thing.__qualname__, *thing._fields)
            self.add(tuple(getattr(thing, "_field_defaults", {}).items()))
        else:
            super()._other(thing, attributes)

    def _of_a_library(self, thing: Any) -> bool:
        name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None) or type(thing).__module__
        return name.partition(".")[0] in LIBRARIES

    def _dispatcher(self, dispatcher: Any) -> None:
        if dispatcher._compiler.pipeline_class is not Compiler:
            raise Unknown("a compiler of its own")
        self.dispatchers.append(dispatcher)
        self.text("compiled", *(f"{k}={sorted(v) if isinstance(v, set) else v!r}" for k, v in _options(dispatcher)))
        self._function(dispatcher.py_func)

    def add_argument(self, kind: Any) -> None:
        """Add an argument's type: a number, an array of numbers or records, or a (named) tuple of them, with its fields."""
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            self.records.append(kind.instance_class)
            self.add(kind.instance_class)
        if isinstance(kind, types.Tuple | types.UniTuple | types.NamedTuple | types.NamedUniTuple):
            self.text("tuple", len(kind))
            for part in kind:
                self.add_argument(part)
        elif isinstance(kind, types.Number | types.Boolean | types.NoneType):
            self.text("number", kind)
        elif isinstance(kind, types.Array) and isinstance(kind.dtype, types.Number | types.Boolean | types.Record):
            self.text("array", kind.dtype, kind.ndim, kind.layout, kind.mutable, kind.aligned)
        else:
            raise Unknown(f"an argument of type {kind}")


def _options(dispatcher: Any) -> list[tuple[str, Any]]:
    options = {**dispatcher.targetoptions, **{f"local {k}": str(v) for k, v in dispatcher.locals.items()}}
    for name, value in options.items():
        if not isinstance(value, bool | int | str | set | frozenset | None):
            raise Unknown(f"the option {name}={value!r}")
    return sorted(options.items())


KIND = "loop"
SETTINGS = (  # numba's settings that change the code it makes
    *("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "USING_SVML"),
    *("ENABLE_AVX", "ENABLE_PROFILING", "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS", "EXTEND_VARIABLE_LIFETIMES"),
)
_named: WeakSet[FunctionType] = WeakSet()  # functions whose symbols carry this process's word
_word = secrets.token_hex(8)


def inlined(callable: bool = False, **options: Any) -> Callable[[Any], Any]:
    """A decorator for functions that compiled code calls; with the options of `numba.njit`.

    Python cannot call them unless `callable`: entry points for Python would cost a quarter of the time to compile.
    """
    without = {} if callable else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return lambda function: _compiled(function, _Watched, options | without)


def stored(**options: Any) -> Callable[[Any], Any]:
    """A decorator for functions that Python calls, kept on disk once compiled; with the options of `numba.njit`."""
    return lambda function: _compiled(function, _Stored, options)


@cache
def from_python(function: Any) -> Any:
    """A function that only compiled code can call, as one that Python can call."""

    @stored()
    def call(*args: Any) -> Any:
        return function(*args)

    return call


def _compiled(function: Any, kind: type[_Watched], options: dict[str, Any]) -> Any:
    made = njit(**options)(function)
    if isinstance(made, Dispatcher):  # not if numba is switched off
        _name(function)
        kind(made).install()
    return made


def formula(function: Any) -> Any:
    """A decorator for plain functions that compiled code may call too."""
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    _name(twin)
    formulas.add(function)

    @overload(function, strict=False)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return twin

    return function


def _name(function: FunctionType) -> None:
    _named.add(function)
    function.__qualname__ = f"{function.__qualname__}_{_word}"


def _after_fork() -> None:
    """Give a forked process a word of its own."""
    global _word
    before, _word = _word, secrets.token_hex(8)
    for function in _named:
        function.__qualname__ = function.__qualname__.replace(before, _word)


os.register_at_fork(after_in_child=_after_fork)


class _Watched(_Cache):
    """Remembers the content with which a function was compiled; numba freezes global variables at that moment."""

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher
        self.compiled_as: set[str] = set()

    def install(self) -> None:
        self.dispatcher._cache = self
        if "no_cpython_wrapper" in self.dispatcher.targetoptions:
            self.dispatcher.add_overload = self._add_overload
            self.dispatcher._compile_for_args = self._refuse

    def _add_overload(self, cres: Any) -> None:
        """Make a compiled version known to compiled callers, and not to Python: numba would call a null pointer."""
        self.dispatcher.overloads[tuple(cres.signature.args)] = cres

    def _refuse(self, *args: Any, **kwargs: Any) -> None:
        name = self.dispatcher.__name__
        raise TypeError(f"{name} is compiled into other functions; call {name}.py_func, or from_python({name}).")

    def load_overload(self, sig: Any, target_context: Any) -> None:
        self.compiled_as.add(_content(self.dispatcher))

    def up_to_date(self) -> bool:
        """Whether every compiled version of the function has its present content."""
        return not self.dispatcher.overloads or self.compiled_as == {_content(self.dispatcher)}

    def save_overload(self, sig: Any, data: Any) -> None: ...
    def enable(self) -> None: ...
    def disable(self) -> None: ...
    def flush(self) -> None: ...

    @property
    def cache_path(self) -> None:
        return None


class _Stored(_Watched):
    """Loads a function from the folder for compiled code, or stores it there."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        super().load_overload(sig, target_context)
        found = self._key(sig, target_context.codegen())
        place = folder.current()
        if found is None or place is None:
            return None
        key, known = found
        raw = place.read(key, KIND)
        if raw is None:
            return None
        try:
            needed, reduced = _Unpickler(io.BytesIO(raw), known.records).load()
            _provide(needed, target_context)
            return CompileResult._rebuild(target_context, *reduced)
        except Exception:  # whatever a file of ours holds that cannot be loaded is compiled anew
            place.drop(key, KIND)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if data.lifted or data.objectmode or data.library.has_dynamic_globals:
            return  # its code holds addresses of this process
        found = self._key(sig, data.codegen)
        place = folder.current()
        if found is None or place is None:
            return
        key, known = found
        caches = (each._cache if isinstance(each._cache, _Watched) else _Watched(each) for each in known.dispatchers)
        if not all(watched.up_to_date() for watched in caches):
            return
        raw = io.BytesIO()
        try:
            pickler: Any = _Pickler(raw, known.records)
            pickler.dump((_needed(data.library), data._reduce()))
        except (pickle.PicklingError, TypeError, AttributeError):
            return
        place.write(key, KIND, raw.getvalue())

    def _key(self, sig: Any, codegen: Any) -> tuple[str, Fingerprint] | None:
        """The key of the function with some argument types, with what it was made of; None if it cannot be known."""
        known = Fingerprint()
        try:
            known.add(self.dispatcher)
            for kind in sigutils.normalize_signature(sig)[0]:
                known.add_argument(kind)
        except Unknown:
            return None
        for dispatcher in known.dispatchers:
            if isinstance(dispatcher._cache, NullCache):  # a function compiled by numba.njit
                dispatcher._cache = _Watched(dispatcher)
                dispatcher._cache.compiled_as = {_content(dispatcher)} if dispatcher.overloads else set()
        known.text(*_versions(), *(getattr(config, name, None) for name in SETTINGS), codegen.magic_tuple())
        return known.hexdigest(), known


def _needed(library: Any) -> tuple[str, ...]:
    """The names of the functions that compiled code calls and does not contain."""
    declared = (f.name for f in library._final_module.functions if f.is_declaration)
    return tuple(name for name in declared if not name.startswith("llvm."))


def _provide(needed: tuple[str, ...], target_context: Any) -> None:
    """Make functions known to the linker; loading all of numba's, which takes 0.2 seconds, only if its runtime is not enough."""
    rtsys.initialize(target_context)
    if any(llvm.address_of_symbol(name) is None for name in needed):
        target_context.refresh()


def _content(dispatcher: Any) -> str:
    content = Fingerprint()
    try:
        content.add(dispatcher)
    except Unknown:
        return ""
    return content.hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    return (platform.python_version(), platform.python_implementation(), numba.__version__, llvmlite.__version__, np.__version__)


class _Pickler(NumbaPickler):
    """Writes the named tuple classes of the arguments as their places among the arguments, so that classes stay the same."""

    def __init__(self, file: Any, records: list[type]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
        self._places = {id(record): k for k, record in enumerate(records)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._places.get(id(obj)) if isinstance(obj, type) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, records: list[type]) -> None:
        super().__init__(file)
        self._records = records

    def persistent_load(self, pid: Any) -> type:
        return self._records[pid]
