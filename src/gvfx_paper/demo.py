"""The one-minute demo: six behaviours on one setting, which one wins, and figures that show why."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gvfx.report.page import UNKNOWN, Curves, Series
from gvfx.running.result import Result
from gvfx_paper.items.exhibits import AVERAGE, arrows, grid_maps, on_grid, visited
from gvfx_paper.report import statistics
from gvfx_paper.report.figures import draw, save
from gvfx_paper.report.maps import Maps, Panel
from gvfx_paper.report.style import colour
from gvfx_paper.settings.tabular import Setting


def write_figures(setting: Setting, results: dict[str, Result], folder: Path) -> list[Path]:
    """Write learning curves, value-error maps, variance maps and behaviour arrows as PNG files; returns their paths."""
    world, first = setting.world, next(iter(results.values()))
    explorer, shown = results["GVFExplorer"], {name: results[name] for name in ("RoundRobin", "GVFExplorer")}
    folder.mkdir(parents=True, exist_ok=True)

    def line(name: str, error: np.ndarray) -> Series:
        return Series(name, *statistics.mean_curve(error), colour(name))

    def maps(key: str, panels: list[Panel], unit: str) -> Maps:
        return grid_maps(key, setting.title, world, [0], panels, unit)

    def value_error(r: Result) -> np.ndarray:
        return on_grid(world, np.abs(r.values - r.details.truth).mean(axis=(0, 1)))  # E_i |V - V_hat|, averaged over seeds

    assert explorer.details.variances is not None
    variances = zip(explorer.names[:4], explorer.details.variances.mean(axis=0))
    ways = [(name, visited(world, r.visits), arrows(world, r.details.behaviour.mean(axis=0))) for name, r in shown.items()]
    title, lines = f"{setting.title}: {len(first.seeds)} seeds", [line(name, r.error) for name, r in results.items()]
    drawn: list[Curves | Maps] = [
        Curves("learning-curves", title, "", first.steps, lines, AVERAGE, UNKNOWN),
        maps("value-error", [Panel(name, [value_error(r)]) for name, r in shown.items()], "absolute value error"),
        maps("variance", [Panel(f"variance of {name}", [on_grid(world, m)]) for name, m in variances], "estimated variance M"),
        maps("behaviour", [Panel(name, [share], [moves]) for name, share, moves in ways], "visits, % of steps"),
    ]
    for exhibit in drawn:
        save(draw(exhibit), folder / f"{exhibit.id}.png")
    return [folder / f"{exhibit.id}.png" for exhibit in drawn]


def verdict(results: dict[str, Result]) -> str:
    """Which behaviour wins and by how much, in one or two sentences."""
    final = {name: result.error[:, -1] for name, result in results.items()}
    ranked = sorted(final, key=lambda name: final[name].mean())
    best, second = ranked[0], ranked[1]
    ratio = final[second].mean() / final[best].mean()
    seeds = len(final[best])
    sure = seeds > 1 and statistics.improvement(final[best], final[second]).low > 0
    text = f"{best} has the lowest error, {ratio:.1f} times below {second}"
    text += "." if sure else f"; with {seeds} seeds that lead is within the noise."
    baselines = [n for n in ranked if n != "GVFExplorer"]
    if best != "GVFExplorer" and "GVFExplorer" in final:
        place = ranked.index("GVFExplorer") + 1
        text += f" GVFExplorer is number {place} of {len(ranked)}."
    elif "RoundRobin" in baselines:
        text += f" RoundRobin, the plain choice, is {final['RoundRobin'].mean() / final[best].mean():.0f} times above it."
    return text
