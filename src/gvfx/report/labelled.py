"""Curves on logarithmic axes with their names at the ends of the lines: for one picture that is read without a legend."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from gvfx.report.colours import steps_label
from gvfx.report.page import Curves
from gvfx.report.style import figure

APART = 0.115  # of the height of the axes between two names, at least
WIDE = 26  # letters in a line of a name


def draw_labelled(exhibit: Curves) -> Any:
    """The curves; `exhibit.highlight` is thick, and the note stands below."""
    fig, (ax,) = figure(width=8.6, height=5.2)
    x = np.asarray(exhibit.x, dtype=float)
    ends = []
    for line in exhibit.series:
        mean, low, high = (np.asarray(v, dtype=float) for v in (line.mean, line.low, line.high))
        thick = line.name == exhibit.highlight
        style = {"linewidth": 3.4 if thick else 2.0, "linestyle": (0, (2, 1.6)) if line.dashed else "-"}
        ax.plot(x, mean, color=line.colour, marker=None if line.dashed else "o", markersize=6 if thick else 4.5, **style)
        ax.fill_between(x, np.maximum(low, mean * 0.02), high, color=line.colour, alpha=0.13, linewidth=0)
        ends.append(mean[np.isfinite(mean)][-1])
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
        ax.annotate(
            name,
            xy=(1.0, (np.log(end) - low) / (high - low)),
            xytext=(1.035, place),
            xycoords="axes fraction",
            color=line.colour,
            fontsize=11,
            fontweight="bold" if line.name == exhibit.highlight else "normal",
            va="center",
            linespacing=1.05,
            arrowprops={
                "arrowstyle": "-",
                "color": line.colour,
                "linewidth": 0.8,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
    fig.supxlabel(textwrap.fill(exhibit.note, 128), fontsize=8.5, color="#495057", x=0.01, ha="left")
    return fig


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
