"""The one-minute demo: six behaviours on one setting, which one wins, and figures that show why."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gvfx.experiments.settings.tabular import Setting
from gvfx.report import figures
from gvfx.report.style import save
from gvfx.running.result import Result


def write_figures(setting: Setting, results: dict[str, Result], folder: Path) -> list[Path]:
    """Write learning curves, value-error maps, variance maps and behaviour arrows as PNG files; returns their paths."""
    world = setting.world
    first = next(iter(results.values()))
    explorer, robin = results["GVFExplorer"], results["RoundRobin"]
    folder.mkdir(parents=True, exist_ok=True)

    def value_error(result: Result) -> np.ndarray:
        return np.abs(result.values - result.truth).mean(axis=(0, 1))  # E_i |V - V_hat|, averaged over seeds

    assert explorer.variances is not None
    drawn = {
        "learning-curves.png": figures.learning_curves(
            first.steps, {name: r.error for name, r in results.items()}, f"{setting.title}: {len(first.seeds)} seeds"
        ),
        "value-error.png": figures.maps(
            world,
            [("RoundRobin", value_error(robin)), ("GVFExplorer", value_error(explorer))],
            "absolute value error",
        ),
        "variance.png": figures.maps(
            world,
            [(f"variance of {name}", explorer.variances.mean(axis=0)[i]) for i, name in enumerate(explorer.names[:4])],
            "estimated variance M",
        ),
        "behaviour.png": figures.behaviour_arrows(
            world,
            [
                (name, results[name].behaviour.mean(axis=0), results[name].visits.mean(axis=0).sum(axis=1))
                for name in ("RoundRobin", "GVFExplorer")
            ],
        ),
    }
    for name, fig in drawn.items():
        save(fig, folder / name)
    return [folder / name for name in drawn]


def verdict(results: dict[str, Result]) -> str:
    """Which behaviour wins and by how much, in one or two sentences."""
    final = {name: result.error[:, -1] for name, result in results.items()}
    ranked = sorted(final, key=lambda name: final[name].mean())
    best, second = ranked[0], ranked[1]
    ratio = final[second].mean() / final[best].mean()
    gap = final[second] - final[best]
    seeds = len(gap)
    sure = gap.mean() > 2 * gap.std(ddof=1) / seeds**0.5 if seeds > 1 else False
    text = f"{best} has the lowest error, {ratio:.1f} times below {second}"
    text += "." if sure else f"; with {seeds} seeds that lead is within the noise."
    baselines = [n for n in ranked if n != "GVFExplorer"]
    if best != "GVFExplorer" and "GVFExplorer" in final:
        place = ranked.index("GVFExplorer") + 1
        text += f" GVFExplorer is number {place} of {len(ranked)}."
    elif "RoundRobin" in baselines:
        text += f" RoundRobin, the plain choice, is {final['RoundRobin'].mean() / final[best].mean():.0f} times above it."
    return text
