"""One look for every figure: colours by method, fonts, and the log-scaled colour map of the maps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import matplotlib

matplotlib.use("Agg")  # files only, no window

import matplotlib.pyplot as plt

P = ParamSpec("P")
R = TypeVar("R")
COLOURS = {  # one hue per method, readable side by side and in grey
    "GVFExplorer": "#c2255c",
    "RoundRobin": "#1c7ed6",
    "Mixture": "#0ca678",
    "Uniform": "#868e96",
    "SR": "#f08c00",
    "BPS": "#7048e8",
    "OptimalDesign": "#212529",
    "SecondMoment": "#f76707",
    "CharacteristicTime": "#0b7285",
    "RobustSampling": "#9775fa",
    "Explorer+Uniform": "#5f3dc4",
}
SPARE = ["#2b8a3e", "#5f3dc4", "#a61e4d", "#0b7285", "#e67700", "#495057"]
MAP = "inferno"
GOAL = "#51cf66"
PATHS = ["#74c0fc", "#ffffff", "#ffd43b", "#faa2c1", "#63e6be"]  # of trajectories over a map
LABELS = {"GVFExplorer": "GVFExplorer", "Mixture": "MixturePolicy", "Uniform": "UniformPolicy"}  # the paper's names

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


def colour(name: str, index: int = 0) -> str:
    """A method's colour; unknown names take spare ones in order."""
    return COLOURS.get(name, SPARE[index % len(SPARE)])


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
    """Write a figure and let go of it."""
    with plt.rc_context(RC):
        fig.savefig(path)
    plt.close(fig)


def steps_label(value: float, _position: Any = None) -> str:
    """1500000 -> '1.5M'."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
