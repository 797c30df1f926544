"""Functions compiled by numba in plain Python, for comparing the two."""

from __future__ import annotations

from types import CellType, FunctionType, ModuleType
from typing import Any


def in_plain_python(function: Any, made: dict[int, Any] | None = None) -> Any:
    """A function compiled by numba as the Python it was written in, with every compiled function that it calls."""
    made = {} if made is None else made
    if isinstance(function, ModuleType):
        return _PlainModule(function, made)
    source = getattr(function, "py_func", None)
    if not isinstance(source, FunctionType):
        return function
    if id(source) not in made:
        cells = tuple(CellType() for _ in source.__closure__ or ())
        scope = dict(source.__globals__)
        made[id(source)] = FunctionType(source.__code__, scope, source.__name__, source.__defaults__, cells)
        scope |= {n: in_plain_python(scope[n], made) for n in source.__code__.co_names if n in scope}
        for cell, old in zip(cells, source.__closure__ or (), strict=True):
            cell.cell_contents = in_plain_python(old.cell_contents, made)
    return made[id(source)]


class _PlainModule:
    """A module whose compiled functions are plain."""

    def __init__(self, module: ModuleType, made: dict[int, Any]) -> None:
        self._module, self._made = module, made

    def __getattr__(self, name: str) -> Any:
        return in_plain_python(getattr(self._module, name), self._made)
