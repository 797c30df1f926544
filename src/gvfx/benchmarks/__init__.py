"""Measurements of speed and accuracy, each with a bar: every module here is a benchmark of `gvfx bench` (docs/benchmarks.md)."""

from __future__ import annotations

import pkgutil


def names() -> list[str]:
    """The names of the benchmarks."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
