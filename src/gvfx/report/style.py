"""One style for every matplotlib figure: fonts, lines and sizes."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib

matplotlib.use("Agg")  # files only, no window

import matplotlib.pyplot as plt

from gvfx.files import write_whole

P = ParamSpec("P")
R = TypeVar("R")
RC: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 140,
    "savefig.bbox": "tight",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e9ecef",
    "grid.linewidth": 0.8,
    "axes.edgecolor": "#868e96",
    "axes.labelcolor": "#343a40",
    "xtick.color": "#495057",
    "ytick.color": "#495057",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "legend.frameon": False,
    "lines.linewidth": 1.9,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """A drawing function in the house style, leaving matplotlib's own settings as they were."""

    @functools.wraps(draw)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with plt.rc_context(RC):
            return draw(*args, **kwargs)

    return inner


def figure(columns: int = 1, rows: int = 1, width: float = 5.2, height: float = 3.6) -> tuple[Any, list[Any]]:
    """A figure and the flat list of its axes."""
    fig, axes = plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained")
    return fig, list(axes.ravel())


def save(fig: Any, path: Any) -> None:
    """Write a figure to a file and close it."""
    drawn = io.BytesIO()
    with plt.rc_context(RC):
        fig.savefig(drawn, format=Path(path).suffix[1:] or "png")
    plt.close(fig)
    write_whole(Path(path), drawn.getvalue())
