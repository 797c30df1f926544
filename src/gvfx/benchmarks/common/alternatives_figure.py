"""The figure of `gvfx bench alternatives`: errors against environment steps and against processor seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.ticker import FuncFormatter

from gvfx.report.colours import SAFE, STEPS, steps_label
from gvfx.report.style import figure, styled

HUES = {  # by the beginning of a method's name
    "rollouts": SAFE[2],
    "gvfx, its own steps": SAFE[3],
    "gvfx, policies in turn": "#009e73",
    "gvfx, on the log": "#56b4e9",
    "FQE, defaults": SAFE[0],
    "FQE, sensible": SAFE[1],
}


class Measured(NamedTuple):
    """Root mean squared errors of one method with their standard errors, and seconds, by the number of steps."""

    name: str
    steps: tuple[int, ...]
    errors: tuple[float, ...]
    spreads: tuple[float, ...]
    seconds: tuple[float, ...]


@styled
def draw_alternatives(found: Mapping[str, Sequence[Measured]]) -> Any:
    """One row per case: errors against steps on the left, against seconds on the right; fewer updates of FQE are dotted."""
    fig, axes = figure(columns=2, rows=len(found), width=4.4, height=3.0)
    shown: dict[str, Any] = {}
    for row, (title, lines) in enumerate(found.items()):
        left, right = axes[2 * row], axes[2 * row + 1]
        most = {line.name.rsplit(", ", 1)[0]: line.name for line in lines if line.name.startswith("FQE")}  # the last of each
        for line in lines:
            family = next(name for name in HUES if line.name.startswith(name))
            dotted = line.name not in (family, most.get(family))
            style = {"color": HUES[family], "marker": "o", "linestyle": ":" if dotted else "-"}
            drawn = left.errorbar(line.steps, line.errors, line.spreads, **style)
            right.errorbar(line.seconds, line.errors, line.spreads, **style)
            shown.setdefault(line.name, drawn)
        left.set_title(title, loc="left")
        left.set_ylabel("root mean squared error")
        for ax, label in ((left, STEPS), (right, "processor seconds")):
            ax.set(xscale="log", yscale="log", xlabel=label)
        left.set_xticks(lines[0].steps)
        left.xaxis.set_major_formatter(FuncFormatter(steps_label))
        left.minorticks_off()
    fig.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=2, frameon=False)
    return fig
