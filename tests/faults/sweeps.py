"""Stored runs that several groups make: what they need, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ITEM = "value-error"  # two experiments of a fifth of a second


def runs(seeds: int) -> list[tuple[Any, int]]:
    """The runs of `gvfx reproduce value-error --seeds N`."""
    from gvfx_paper.items import chosen_items, curves_with_seeds

    return [(curve.experiment, seeds) for curve, _ in curves_with_seeds(chosen_items([ITEM]), {}, seeds)]


def stored(folder: Path) -> dict[str, bytes]:
    """The stored results below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}
