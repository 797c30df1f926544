"""The command line.  Heavy modules are imported in command bodies, so --help is instant.

`app` and `main` are those of `gvfx.cli.application`, which loads the commands of other packages: they import this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("app", "main"):
        return getattr(import_module("gvfx.cli.application"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
