"""Figures with matplotlib: learning curves, maps over a grid world, and pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter

from gvfx.report.colours import GOAL, LABELS, MAP, PATHS, START, STEPS, colour, steps_label
from gvfx.report.labelled import draw_labelled
from gvfx.report.page import Curves, Maps, Panel, Pictures
from gvfx.report.style import figure, styled
from gvfx.running.result import standard_error
from gvfx.worlds.mdp import MDP

MARKED = 12  # curves of so few points have markers


@styled
def learning_curves(steps: np.ndarray, errors: Mapping[str, np.ndarray], title: str = "") -> Any:
    """Mean error over steps with a band of one standard error; errors[name] is [seed, t]."""
    fig, (ax,) = figure()
    for k, (name, error) in enumerate(errors.items()):
        mean = error.mean(axis=0)
        spread = standard_error(error)
        hue = colour(name, k)
        ax.plot(steps, mean, color=hue, label=LABELS.get(name, name), zorder=3 if name == "GVFExplorer" else 2)
        ax.fill_between(steps, np.maximum(mean - spread, mean * 0.05), mean + spread, color=hue, alpha=0.16, linewidth=0)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(steps_label))
    ax.set_xlabel(STEPS)
    ax.set_ylabel("MSE, averaged over GVFs")
    ax.set_title(title, loc="left")
    _legend_below(fig, ax)
    return fig


@styled
def draw(exhibit: Curves | Maps | Pictures) -> Any:
    """A figure of an exhibit: curves with their bands, maps at the last time (or the first and the last), or pictures."""
    if isinstance(exhibit, Pictures):
        return _draw_pictures(exhibit)
    if isinstance(exhibit, Maps):
        return _draw_maps(exhibit)
    return draw_labelled(exhibit) if exhibit.highlight else _draw_curves(exhibit)


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
        mean, low, high = (np.asarray(v, dtype=float) for v in (line.mean, line.low, line.high))
        ax.plot(
            exhibit.x,
            mean,
            color=line.colour,
            label=LABELS.get(line.name, line.name),
            linestyle="--" if line.dashed else "-",
            marker="o" if len(exhibit.x) <= MARKED else None,
            markersize=4,
        )
        ax.fill_between(exhibit.x, np.maximum(low, mean * 0.02), high, color=line.colour, alpha=0.16, linewidth=0)
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
    fig.legend(handles, names, loc="outside lower center", ncols=-(-len(names) // rows), fontsize=8, handlelength=2.8)


def _views(exhibit: Maps) -> list[tuple[str, Panel, int]]:
    """What is drawn of maps: a title, the panel and the index of the time."""
    if not exhibit.early:
        return [(panel.title, panel, -1) for panel in exhibit.panels]
    return [(f"{panel.title}, step {exhibit.times[t]:,}", panel, t) for panel in exhibit.panels for t in (0, -1)]


def _draw_maps(exhibit: Maps) -> Any:
    views = _views(exhibit)
    images = [np.array(panel.frames[t], dtype=float).reshape(exhibit.height, exhibit.width) for _, panel, t in views]
    for image in images:
        image.ravel()[list(exhibit.walls)] = np.nan
    columns = min(exhibit.columns or len(images), len(images))
    size = 5.0 if exhibit.numbers else 3.6 if columns <= 3 else 2.7
    fig, axes = figure(columns=columns, rows=-(-len(images) // columns), width=size, height=size - 0.1)
    for spare in axes[len(images) :]:
        spare.remove()
    axes = axes[: len(images)]
    titles = [title for title, _, _ in views]
    shown = _shared_scale(axes, images, titles, () if exhibit.numbers else exhibit.goals, exhibit.log, exhibit.radius)
    free = ~exhibit.goal_cells()
    free[list(exhibit.walls)] = False
    for ax, image, (_, panel, t) in zip(axes, images, views, strict=True):
        if exhibit.numbers:
            _write_numbers(ax, image, shown)
        if panel.arrows is not None:
            _draw_arrows(ax, np.asarray(panel.arrows[t], dtype=float).reshape(-1, 2), free, exhibit.width, "white")
        for k, path in enumerate(panel.paths[t] if panel.paths is not None else []):
            x, y = np.asarray(path, dtype=float).T - 0.5
            ax.plot(x, y, color=PATHS[k % len(PATHS)], linewidth=0.9)
            ax.plot(x[0], y[0], "o", color=START, markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=4)
    fig.colorbar(shown, ax=axes, label=exhibit.unit, shrink=0.85, pad=0.02)
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


def _shared_scale(
    axes: Sequence[Any], images: list[np.ndarray], titles: Sequence[str], goals: Any, log: bool, radius: float = 0.0
) -> Any:
    """Images on one colour scale; returns the last, for the colour bar."""
    everything = np.concatenate([image[np.isfinite(image)] for image in images])
    norm: Any = None
    if log:
        top = max(float(everything.max()), 1e-12)
        positive = everything[everything > 0]
        bottom = float(np.quantile(positive, 0.02)) if positive.size else top / 10
        norm = LogNorm(min(max(bottom, top * 1e-6), top / 10), top)
        images = [np.where(np.isnan(image), np.nan, np.maximum(image, norm.vmin)) for image in images]
    for ax, image, title in zip(axes, images, titles, strict=True):
        shown = draw_map(ax, goals, image, title, norm, radius=radius)
    return shown


def cells(world: MDP, per_state: np.ndarray) -> np.ndarray:
    """Values per state as an image [height, width], NaN in walls."""
    layout = world.layout
    assert layout is not None, "only grid worlds have a map"
    image = np.array(per_state[: layout.height * layout.width], dtype=float).reshape(layout.height, layout.width)
    image[layout.walls] = np.nan
    return image


@styled
def maps(world: MDP, panels: Sequence[tuple[str, np.ndarray]], label: str) -> Any:
    """Maps side by side on one logarithmic colour scale; panels are (title, value per state)."""
    assert world.layout is not None
    fig, axes = figure(columns=len(panels), width=3.6, height=3.4)
    images = [cells(world, values) for _, values in panels]
    shown = _shared_scale(axes, images, [title for title, _ in panels], world.layout.goals.values(), log=True)
    fig.colorbar(shown, ax=axes, label=label, shrink=0.85)
    return fig


def draw_map(ax: Any, goals: Any, image: np.ndarray, title: str, norm: Any = None, cmap: str = MAP, radius: float = 0.0) -> Any:
    """One map: the image, walls in grey, goals (row, column) as green dots, with circles of `radius` cells if they are discs."""
    ax.set_facecolor("#adb5bd")
    shown = ax.imshow(image, norm=norm, cmap=cmap, interpolation="nearest")
    for row, column in goals:
        ax.plot(column, row, "o", color=GOAL, markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=3)
        if radius:
            ax.add_patch(Circle((column, row), radius, fill=False, edgecolor=GOAL, linewidth=1.2, zorder=3))
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    ax.set_title(title, fontsize=10)
    return shown


@styled
def behaviour_arrows(world: MDP, panels: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Any:
    """Where a behaviour goes: mean move of every cell as an arrow, over how often the cell was visited.

    panels are (title, probabilities [state, action], visits [state]).
    """
    layout = world.layout
    assert layout is not None
    fig, axes = figure(columns=len(panels), width=4.2, height=3.9)
    shares = [cells(world, 100 * visits / max(visits.sum(), 1)) for _, _, visits in panels]
    top = max(np.nanmax(share) for share in shares)
    norm: Any = LogNorm(max(top / 1e3, 1e-6), top)
    free = ~layout.walls
    for row, column in layout.goals.values():
        free[row, column] = False
    for ax, share, (title, mu, _) in zip(axes, shares, panels, strict=True):
        shown = draw_map(
            ax, layout.goals.values(), np.where(np.isnan(share), np.nan, np.maximum(share, norm.vmin)), title, norm, "Blues"
        )
        moves = mu[: layout.height * layout.width] @ np.array(layout.arrows, dtype=float)
        _draw_arrows(ax, moves[:, ::-1], free.ravel(), layout.width, "#d6336c")
    fig.colorbar(shown, ax=axes, label="visits, % of steps", shrink=0.85)
    return fig


def _draw_arrows(ax: Any, moves: np.ndarray, free: np.ndarray, width: int, hue: str) -> None:
    """Mean moves (dx, dy down) [cell, 2] as arrows in the free cells; lengths are square-rooted, the longest spans a cell."""
    size = np.linalg.norm(moves, axis=1, keepdims=True)
    scaled = moves * np.sqrt(size / max(size[free].max(), 1e-12)) / np.maximum(size, 1e-12)
    row, column = np.divmod(np.flatnonzero(free), width)
    dx, dy = scaled[free].T
    ax.quiver(column, row, dx, dy, angles="xy", scale_units="xy", scale=1.15, pivot="mid", color=hue, width=0.0045)
