"""Figures with matplotlib: learning curves, maps over a grid world, and pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter

from gvfx.report.colours import GOAL, LABELS, MAP, PATHS, START, colour, steps_label
from gvfx.report.page import Curves, Maps, Pictures
from gvfx.report.style import figure, styled
from gvfx.running.result import standard_error
from gvfx.worlds.mdp import MDP


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
    ax.set_xlabel("environment steps")
    ax.set_ylabel("MSE, averaged over GVFs")
    ax.set_title(title, loc="left")
    ax.legend(fontsize=8.5)
    return fig


@styled
def draw(exhibit: Curves | Maps | Pictures) -> Any:
    """A figure of an exhibit: curves with their bands, maps at the last time, or pictures."""
    if isinstance(exhibit, Pictures):
        return _draw_pictures(exhibit)
    return _draw_curves(exhibit) if isinstance(exhibit, Curves) else _draw_maps(exhibit)


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
            exhibit.steps, mean, color=line.colour, label=LABELS.get(line.name, line.name), linestyle="--" if line.dashed else "-"
        )
        ax.fill_between(exhibit.steps, np.maximum(low, mean * 0.02), high, color=line.colour, alpha=0.16, linewidth=0)
    for name, value in exhibit.reference:
        ax.axhline(value, color="#495057", linestyle=":", linewidth=1.2, label=name)
    if means.size and means.max() > 20 * max(means.min(), 1e-300):
        ax.set_yscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(steps_label))
    ax.set_xlabel("environment steps")
    ax.set_ylabel(exhibit.y_label)
    ax.set_title(textwrap.fill(exhibit.title, 62), loc="left", fontsize=10)
    crowded = len(exhibit.series) > 6
    ax.legend(fontsize=8, **({"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if crowded else {}))
    return fig


def _draw_maps(exhibit: Maps) -> Any:
    images = [np.array(panel.frames[-1], dtype=float).reshape(exhibit.height, exhibit.width) for panel in exhibit.panels]
    for image in images:
        image.ravel()[list(exhibit.walls)] = np.nan
    columns = min(exhibit.columns or len(images), len(images))
    size = 3.6 if columns <= 3 else 2.7
    fig, axes = figure(columns=columns, rows=-(-len(images) // columns), width=size, height=size - 0.1)
    for spare in axes[len(images) :]:
        spare.remove()
    axes = axes[: len(images)]
    titles = [p.title for p in exhibit.panels]
    shown = _shared_scale(axes, images, titles, exhibit.goals, exhibit.log, exhibit.radius)
    free = ~exhibit.goal_cells()
    free[list(exhibit.walls)] = False
    for ax, panel in zip(axes, exhibit.panels, strict=True):
        if panel.arrows is not None:
            _draw_arrows(ax, np.asarray(panel.arrows[-1], dtype=float).reshape(-1, 2), free, exhibit.width, "white")
        for k, path in enumerate(panel.paths[-1] if panel.paths is not None else []):
            x, y = np.asarray(path, dtype=float).T - 0.5
            ax.plot(x, y, color=PATHS[k % len(PATHS)], linewidth=0.9)
            ax.plot(x[0], y[0], "o", color=START, markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=4)
    fig.colorbar(shown, ax=axes, label=exhibit.unit, shrink=0.85, pad=0.02)
    if exhibit.times[-1]:
        fig.suptitle(f"{exhibit.title}, step {exhibit.times[-1]:,}", fontsize=10)
    return fig


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
