"""The user's own functions, named by text: `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gvfx.errors import InputError

FORMS = "write module:function or path/to/file.py:function"


def split_target(target: str, field: str = "target") -> tuple[str, str]:
    """The module or file and the function that a text names; the function is empty if it names none.

    The function of a file alone is `make`, and so is that of a module alone, if its file is in this folder.
    """
    place, colon, name = target.rpartition(":")
    if colon and place and name.isidentifier():
        return place, name
    if target.endswith(".py") or Path(f"{target.replace('.', '/')}.py").is_file():
        return target, "make"
    if not target.strip() or (colon and not re.fullmatch(r"[\w.]+:[\w./-]+", target)):
        raise InputError(f"{field}: {target!r} does not name a function; {FORMS}.")
    return target, ""


def named(text: str, field: str = "target") -> tuple[Any, ModuleType]:
    """What `module:name` or `path/to/file.py:name` names, and its module."""
    place, name = split_target(text, field)
    if not name:
        raise InputError(f"{field}: {text!r} does not name a function; {FORMS}.")
    module = _from_file(place, field) if place.endswith(".py") else _from_path(place, field)
    if not hasattr(module, name):
        own = [k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise InputError(f"{field}: {place} has no {name!r}; its own functions are {', '.join(own) or 'none'}.")
    return getattr(module, name), module


def called(function: Callable[[], Any], what: str, field: str = "target") -> Any:
    """What the user's function returns; what it raises becomes one sentence with the line of the user's file."""
    try:
        return function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{what} raised {type(error).__name__}{_line(error)} ({_message(error)})"
        raise InputError(f"{field}: {said}; correct it there.") from error


def _from_path(name: str, field: str) -> ModuleType:
    """A module by its name, looked for in the present folder first."""
    _search_first(os.getcwd())
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # of a package above it
        found = None
    if found is None:
        raise InputError(f"{field}: there is no module {name!r} to import from this folder; {FORMS}.")
    module: ModuleType = called(lambda: importlib.import_module(name), f"importing {name}", field)
    return module


def _from_file(place: str, field: str) -> ModuleType:
    """A file as a module; it is run once."""
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise InputError(f"{field}: there is no file {place}; {FORMS}, or make one with gvfx init.")
    known = [m for m in sys.modules.values() if getattr(m, "__file__", None) == str(path) and m.__name__ != "__main__"]
    if known:
        return known[0]
    _search_first(str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"file_{len(sys.modules)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the suffix is .py
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module  # dataclasses look their module up
    try:
        called(lambda: loader.exec_module(module), f"running {place}", field)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_first(folder: str) -> None:
    """Look for modules in this folder before all others."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _message(error: BaseException) -> str:
    """What an error says, on one line; the user's own may fail to say anything."""
    try:
        return " ".join(str(error).split()).rstrip(".") or "no message"
    except Exception:
        return "its message cannot be read"


def _line(error: BaseException) -> str:
    """The file and line at which an error was raised: the innermost outside gvfx and installed packages."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" in {Path(error.filename).name}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith("<")]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
