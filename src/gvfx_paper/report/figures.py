"""PNG figures: their style, labels at the ends of curves, and the drawing of every kind of figure."""

from __future__ import annotations

import functools
import io
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Circle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from gvfx.files import write_whole
from gvfx.report.page import Curves, Series
from gvfx_paper.report.maps import Maps, Pictures
from gvfx_paper.report.style import GOAL, MAP, PATHS, START, steps_label

# --- One style for every matplotlib figure: fonts, lines and sizes --------------------------------------------------

matplotlib.use("Agg")  # files only, no window
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


# --- Curves on logarithmic axes with their names at the ends of the lines: for one picture that is read without a legend

APART = 0.115  # of the height of the axes between two names, at least
WIDE = 26  # letters in a line of a name


def draw_labelled(exhibit: Curves) -> Any:
    """The curves; `exhibit.highlight` is thick, and the note stands below."""
    fig, (ax,) = figure(width=8.6, height=5.2)
    x = np.asarray(exhibit.x, dtype=float)
    for line in exhibit.series:
        thick = line.name == exhibit.highlight
        style = {"linewidth": 3.4 if thick else 2.0, "linestyle": (0, (2, 1.6)) if line.dashed else "-"}
        _draw_line(ax, exhibit, line, marker=None if line.dashed else "o", markersize=6 if thick else 4.5, **style)
    ends = [means[np.isfinite(means)][-1] for means in (np.asarray(line.mean, dtype=float) for line in exhibit.series)]
    ax.set(xscale="log", yscale="log", xlim=(x.min() * 0.93, x.max() * 1.04), xlabel=exhibit.x_label, ylabel=exhibit.y_label)
    ax.xaxis.set_major_locator(FixedLocator(x.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(steps_label))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=11)
    ax.xaxis.label.set_size(11.5)
    ax.yaxis.label.set_size(11.5)
    ax.set_title(exhibit.title, loc="left", fontsize=13, pad=12)
    low, high = np.log(ax.get_ylim())
    places = spread((np.log(ends) - low) / (high - low), APART)
    for line, end, place in zip(exhibit.series, ends, places, strict=True):
        name = textwrap.fill(f"{line.name}: {end:.2g}", WIDE)
        at, weight = (np.log(end) - low) / (high - low), "bold" if line.name == exhibit.highlight else "normal"
        text = {"color": line.colour, "fontsize": 11, "fontweight": weight, "va": "center", "linespacing": 1.05}
        link = {"arrowstyle": "-", "color": line.colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
        ax.annotate(name, xy=(1.0, at), xytext=(1.035, place), xycoords="axes fraction", arrowprops=link, **text)
    return fig


def _draw_line(ax: Any, exhibit: Curves, line: Series, **style: Any) -> None:
    """A line and its band, as far as the axes of the lines reach: a few skewed seeds can have bands over many decades."""
    mean, low, high = (np.asarray(v, dtype=float) for v in (line.mean, line.low, line.high))
    top = max((5 * np.nanmax(np.asarray(each.mean, dtype=float), initial=0.0) for each in exhibit.series), default=0.0)
    ax.plot(exhibit.x, mean, color=line.colour, **style)
    ax.fill_between(exhibit.x, np.maximum(low, mean * 0.02), np.minimum(high, top), color=line.colour, alpha=0.15, linewidth=0)


def spread(wanted: np.ndarray, apart: float) -> np.ndarray:
    """Places [n] near the wanted ones that are at least `apart` from each other, in the same order, moved as little as needed."""
    order = np.argsort(wanted, kind="stable")
    groups: list[list[float]] = []  # sums of what members want their group's first to be at, and sizes
    for value in wanted[order]:
        groups.append([float(value), 1.0])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] + groups[-2][1] * apart > groups[-1][0] / groups[-1][1]:
            total, size = groups.pop()
            before = groups[-1]
            before[0], before[1] = before[0] + total - size * before[1] * apart, before[1] + size
    placed = [total / size + k * apart for total, size in groups for k in range(int(size))]
    out = np.empty(len(wanted))
    out[order] = placed
    return out


# --- curves, maps over a grid, and pictures -----------------------------------------------------------------------------

MARKED = 12  # curves of so few points have markers


@styled
def draw(exhibit: Curves | Maps | Pictures) -> Any:
    """A figure of an exhibit: curves with their bands, maps at the last time (or the first and the last), or pictures."""
    if isinstance(exhibit, Pictures):
        fig = _draw_pictures(exhibit)
    elif isinstance(exhibit, Maps):
        fig = _draw_maps(exhibit)
    else:
        fig = draw_labelled(exhibit) if exhibit.highlight else _draw_curves(exhibit)
    words = textwrap.fill(exhibit.note, int(14.5 * fig.get_figwidth()))
    if fig.legends:  # which is below everything else
        fig.legends[0].set_title(words, {"size": 7.5})
        fig.set_figheight(fig.get_figheight() + 0.13 * (words.count("\n") + 1))
    else:
        fig.text(0.01, -0.02, words, fontsize=7.5, va="top")
    return fig


def _draw_pictures(exhibit: Pictures) -> Any:
    fig, axes = figure(columns=len(exhibit.columns), rows=len(exhibit.rows), width=1.9, height=1.5)
    fig.suptitle(exhibit.title, fontsize=10)
    for k, ax in enumerate(axes):
        row, column = divmod(k, len(exhibit.columns))
        name, pictures = exhibit.rows[row]
        ax.imshow(pictures[column])
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        if row == 0:
            ax.set_title(exhibit.columns[column], fontsize=8)
        if column == 0:
            ax.set_ylabel(textwrap.fill(name, 24), fontsize=8)
    return fig


def _draw_curves(exhibit: Curves) -> Any:
    fig, (ax,) = figure(width=6.2, height=4.0)
    means = np.concatenate([np.asarray(line.mean, dtype=float) for line in exhibit.series])
    means = means[np.isfinite(means)]  # a method all of whose runs diverged has none
    for line in exhibit.series:
        style = {"linestyle": "--" if line.dashed else "-", "marker": "o" if len(exhibit.x) <= MARKED else None, "markersize": 4}
        _draw_line(ax, exhibit, line, label=line.name, **style)
    for name, value in exhibit.reference:
        ax.axhline(value, color="#495057", linestyle=":", linewidth=1.2, label=name)
    if means.size and means.max() > 20 * max(means.min(), 1e-300):
        ax.set_yscale("log")
        if means.min() > 1e-3 and means.max() < 1e4:
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))  # 0.1, not 10^-1
            ax.yaxis.set_minor_formatter(FuncFormatter(lambda v, _: f"{v:g}" if f"{v:e}"[0] in "25" else ""))
    if len(exhibit.x_ticks):
        ax.set_xticks(exhibit.x_ticks)
        ax.tick_params(axis="x", labelsize=8)
    ax.xaxis.set_major_formatter(FuncFormatter(steps_label))
    ax.set_xlabel(exhibit.x_label)
    ax.set_ylabel(exhibit.y_label)
    ax.set_title(textwrap.fill(exhibit.title, 62), loc="left", fontsize=10)
    _legend_below(fig, ax)
    return fig


def _legend_below(fig: Any, ax: Any) -> None:
    """A legend under the axes, where it covers no data; the figure grows by its height."""
    handles, names = ax.get_legend_handles_labels()
    if not names:
        return
    fitting = max(1, int(fig.get_figwidth() / (0.065 * max(map(len, names)) + 0.65)))  # entries in a row
    rows = -(-len(names) // fitting)
    fig.set_figheight(fig.get_figheight() + 0.08 + 0.17 * rows)
    fig.legend(
        handles, names, loc="outside lower center", ncols=-(-len(names) // rows), fontsize=8, handlelength=2.8, alignment="left"
    )


def _draw_maps(exhibit: Maps) -> Any:
    views = [(panel.title, panel, -1) for panel in exhibit.panels]
    if exhibit.early:
        views = [(f"{panel.title}, step {exhibit.times[t]:,}", panel, t) for panel in exhibit.panels for t in (0, -1)]
    images = [np.array(panel.frames[t], dtype=float).reshape(exhibit.height, exhibit.width) for _, panel, t in views]
    for image in images:
        image.ravel()[list(exhibit.walls)] = np.nan
    columns = min(exhibit.columns or len(images), len(images))
    size = 5.0 if exhibit.numbers else 3.6 if columns <= 3 else 2.7
    fig, axes = figure(columns=columns, rows=-(-len(images) // columns), width=size, height=size - 0.1)
    for spare in axes[len(images) :]:
        spare.remove()
    axes, norm = axes[: len(images)], _shared_scale(images) if exhibit.log else None
    free = ~exhibit.goal_cells()
    free[list(exhibit.walls)] = False
    goals, radius = () if exhibit.numbers else exhibit.goals, exhibit.radius
    drawn = [_draw_map(ax, goals, image, title, norm, radius) for ax, image, (title, *_) in zip(axes, images, views, strict=True)]
    for ax, image, (_, panel, t) in zip(axes, images, views, strict=True):
        if exhibit.numbers:
            _write_numbers(ax, image, drawn[-1])
        if panel.arrows is not None:
            _draw_arrows(ax, np.asarray(panel.arrows[t], dtype=float).reshape(-1, 2), free, exhibit.width)
        for k, path in enumerate(panel.paths[t] if panel.paths is not None else []):
            x, y = np.asarray(path, dtype=float).T - 0.5
            ax.plot(x, y, color=PATHS[k % len(PATHS)], linewidth=0.9)
            ax.plot(x[0], y[0], "o", color=START, markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=4)
    fig.colorbar(drawn[-1], ax=axes, label=exhibit.unit, shrink=0.85, pad=0.02)
    step = exhibit.times[-1] if not exhibit.early else 0  # titles of panels have their own
    fig.suptitle(exhibit.title + (f", step {step:,}" if step else ""), fontsize=10)
    return fig


def _write_numbers(ax: Any, image: np.ndarray, shown: Any) -> None:
    """The value of every cell that has one, black on bright colours and white on dark ones, and lines between cells."""
    ax.set_facecolor("#f8f9fa")
    ax.set_xticks(np.arange(image.shape[1] - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(image.shape[0] - 1) + 0.5, minor=True)
    ax.grid(True, which="minor", color="#dee2e6", linewidth=0.5)
    ax.tick_params(which="minor", length=0)
    for (row, column), value in np.ndenumerate(image):
        if np.isfinite(value):
            bright = np.dot(shown.cmap(shown.norm(value))[:3], (0.299, 0.587, 0.114)) > 0.5
            ax.text(column, row, f"{value:g}", ha="center", va="center", fontsize=6.5, color="black" if bright else "white")


def _shared_scale(images: list[np.ndarray]) -> Any:
    """One logarithmic colour scale for all images."""
    everything = np.concatenate([image[np.isfinite(image)] for image in images])
    top, positive = max(float(everything.max()), 1e-12), everything[everything > 0]
    bottom = float(np.quantile(positive, 0.02)) if positive.size else top / 10
    return LogNorm(min(max(bottom, top * 1e-6), top / 10), top)


def _draw_map(ax: Any, goals: Any, image: np.ndarray, title: str, norm: Any, radius: float) -> Any:
    """One map: the image, walls in grey, goals (row, column) as green dots, with circles of `radius` cells if they are discs."""
    ax.set_facecolor("#adb5bd")
    if norm is not None:
        image = np.where(np.isnan(image), np.nan, np.maximum(image, norm.vmin))
    shown = ax.imshow(image, norm=norm, cmap=MAP, interpolation="nearest")
    for row, column in goals:
        ax.plot(column, row, "o", color=GOAL, markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=3)
        if radius:
            ax.add_patch(Circle((column, row), radius, fill=False, edgecolor=GOAL, linewidth=1.2, zorder=3))
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    ax.set_title(title, fontsize=10)
    return shown


def _draw_arrows(ax: Any, moves: np.ndarray, free: np.ndarray, width: int) -> None:
    """Mean moves (dx, dy down) [cell, 2] as arrows in the free cells; lengths are square-rooted, the longest spans a cell."""
    size = np.linalg.norm(moves, axis=1, keepdims=True)
    scaled = moves * np.sqrt(size / max(size[free].max(), 1e-12)) / np.maximum(size, 1e-12)
    row, column = np.divmod(np.flatnonzero(free), width)
    dx, dy = scaled[free].T
    ax.quiver(column, row, dx, dy, angles="xy", scale_units="xy", scale=1.15, pivot="mid", color="white", width=0.0045)
