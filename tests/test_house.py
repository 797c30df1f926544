"""Rules of the house that no linter knows: imports at the top, no long files, few methods that replace others."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
from pathlib import Path

from gvfx import running

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EXTRAS = {  # optional packages, and rich, which only a progress bar needs
    "rich",
    "jax",
    "equinox",
    "optax",
    "mujoco",
    "dm_control",
    "distributed",
    "torch",
    "stable_baselines3",
    "d3rlpy",
    "structlog",
    "tensorboardX",
    "wandb",
    "pandas",
    "polars",
    "pyarrow",
}

SLOW = "matplotlib.figure"  # takes longer to import than all of gvfx
OPENING = "gvfx_paper.loops.opening"  # a world opens its own loop, which is built on worlds


def imported(node):
    """The modules that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def file_of(module):
    path = ROOT / "src" / Path(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


def needs_an_extra(module, seen=()):
    """Whether importing a module imports an extra at its top, itself or by another module of gvfx."""
    if module.split(".")[0] in EXTRAS:
        return True
    path = file_of(module)
    if path is None or module in seen:
        return False
    inner = [name for node in ast.parse(path.read_text()).body for name in imported(node)]
    return any(needs_an_extra(name, (*seen, module)) for name in inner if name.split(".")[0] in {"gvfx", "gvfx_paper", *EXTRAS})


def test_imports_stand_at_the_top_but_for_extras_and_commands():
    found = []
    for path in SOURCES:
        if "cli" in path.parts:
            continue  # commands import what they need when they run
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for modules in map(imported, ast.walk(function)):
                    if modules and not {SLOW, OPENING} & {*modules} and not any(map(needs_an_extra, modules)):
                        found.append(f"{path.name}: {function.name} imports {modules[0]}")
    assert not found


def test_no_file_is_long():
    files = [path for folder in ("src", "tests", "examples", "tools") for path in (ROOT / folder).rglob("*")]
    long = {str(p): n for p in files if p.suffix in (".py", ".js", ".css") and (n := len(p.read_text().splitlines())) > 600}
    assert not long


LIBRARY = [path for path in SOURCES if "gvfx" in path.relative_to(ROOT / "src").parts]
MOST_LINES, MOST_WITH_ONE_READER, MOST_NAMES_TWICE = 100, 20, 3


def test_no_function_is_long():
    long = {
        f"{path.name}: {node.name}": lines
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (lines := node.end_lineno - node.lineno + 1) > MOST_LINES
    }
    assert not long


def test_few_modules_have_one_reader():
    """Of those that are not empty: a module that only one other module imports needs a reason."""
    some = [path for path in LIBRARY if path.read_text().strip()]
    modules = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts): path for path in some}
    readers = {module: set() for module in modules}
    for path in [*SOURCES, *(ROOT / "benchmarks").rglob("*.py"), ROOT / "src" / "gvfx" / "__init__.pyi"]:
        for name in {name for node in ast.walk(ast.parse(path.read_text())) for name in imported(node)} & {*modules}:
            if modules[name] != path:
                readers[name].add(path)
    assert len([name for name, found in readers.items() if len(found) == 1]) <= MOST_WITH_ONE_READER


def test_few_files_share_a_name():
    names = [path.name for path in LIBRARY if path.name != "__init__.py"]
    assert len({name for name in names if names.count(name) > 1}) <= MOST_NAMES_TWICE


def concrete(found):
    kinds = property, functools.cached_property, classmethod, staticmethod
    return (inspect.isfunction(found) or isinstance(found, kinds)) and not getattr(found, "__isabstractmethod__", False)


def test_few_methods_of_runs_replace_others():
    """A class of `running` is abstract or final: what differs is passed in, or declared and not yet written."""
    found = []
    for module in (importlib.import_module(each.name) for each in pkgutil.walk_packages(running.__path__, "gvfx.running.")):
        for cls in (each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__):
            bases = [vars(base) for base in cls.__mro__[1:] if base.__module__.startswith("gvfx")]
            own = [name for name, each in vars(cls).items() if not name.startswith("__") and concrete(each)]
            found += [f"{cls.__name__}.{name}" for name in own if any(concrete(base.get(name)) for base in bases)]
    assert len(found) <= 8, found
