"""A page with every kind of item; `PYTHONPATH=tests python -m helpers.pages FOLDER` writes it with screenshots."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from gvfx.report.page import Curves, DataTable, Intervals, Page, Provenance, Section, Series, Summary, write_page
from gvfx.running.summary import Interval, IntervalPanel
from gvfx_paper.report.maps import Maps, Panel
from helpers.browser import Browser

AWKWARD = "</script><b>x</b> \"quoted\" & 'single' \u2028 <!-- ünï"


HUES = {
    "GVFExplorer": "#c2255c",
    "RoundRobin": "#1c7ed6",
    "MixturePolicy": "#0ca678",
    "UniformPolicy": "#868e96",
    "SR": "#f08c00",
}


MADE = Provenance(
    "gvfx reproduce fig:grid_simple --seeds 25", "0 to 24", "gvfx 0.1.0, numpy 2.3.1, Python 3.12.3", "9f2c51d7a0be4c1e"
)


def demo() -> Page:
    """A page with every kind of item, gaps in the data and names that try to break out."""
    random = np.random.default_rng(0)
    steps = np.arange(100_000, 2_000_001, 100_000)
    series = []
    for k, (name, hue) in enumerate(HUES.items()):
        mean = 900 * np.exp(-steps / (3e5 + 2e5 * k)) * random.uniform(0.85, 1.15, len(steps)) + 4 + 6 * k
        series.append(Series(name, mean, mean * 0.8, mean * 1.25, hue))
    holes = np.where(np.arange(len(steps)) % 7 == 3, np.nan, 40 + 300 / np.arange(1, len(steps) + 1))
    series.append(Series(AWKWARD, holes, np.where(holes > 60, -np.inf, holes - 45), holes + 30, "#5f3dc4", dashed=True))
    curves = Curves(
        "grid-simple",
        "Distinct goals, Expected Sarsa",
        "fig:grid_simple",
        steps,
        series,
        "MSE, averaged over GVFs",
        MADE,
        "Mean of 25 seeds; the band is a 95 % bootstrap interval.",
        [("lowest error any behaviour can reach", 3.2)],
    )
    near = Curves(
        "near",
        "A measure near one",
        "",
        [1000.0, 2000.0, 3000.0],
        [Series("ratio", [0.98, 1.0, 1.01], [0.95, 0.97, 1.0], [1.0, 1.03, 1.02], "#1c7ed6")],
        "ratio to the optimum",
        MADE,
    )
    rates = [0.1, 0.25, 0.5, 0.8, 0.9, 0.95]
    sensitivity = Curves(
        "rates",
        "An error by learning rate",
        "",
        rates,
        [Series("error", [r * r for r in rates], rates, rates, "#c2255c")],
        "MSE",
        MADE,
        x_label="minimum learning rate of Q",
        x_ticks=rates,
    )
    size, times = 20, [100_000, 500_000, 1_000_000, 2_000_000]
    rows, columns = np.mgrid[:size, :size]
    walls = [size * 10 + c for c in range(size) if c not in (4, 15)]
    goals = [(0, 0), (0, size - 1)]

    def panel(name: str, rate: float, when: list[int] = times) -> Panel:
        frames = []
        for time in when:
            values = np.exp(-rate * time / 1e6) * (0.2 + np.exp(-np.hypot(rows, columns - 9) / 6)) * 90
            values[(rows == 10) & ~np.isin(columns, (4,))] = np.nan
            frames.append((values * random.uniform(0.8, 1.2, values.shape)).ravel())
        move = np.stack([columns - 9.5, rows - 19.0], axis=-1)
        return Panel(name, frames, [move.reshape(-1, 2)] * len(when))

    errors = Maps(
        "error-maps",
        "Where the error is",
        "fig:value_error",
        size,
        size,
        walls,
        goals,
        times,
        [
            Panel(p.title, p.frames, paths=[[np.array([(3.5, 3.5), (3.5, 0.5), (0.5, 0.5)])]] * len(p.frames))
            for p in (panel("RoundRobin", 0.9), panel("GVFExplorer", 2.2))
        ],
        True,
        "absolute value error",
        MADE,
        "Move the slider to see learning proceed.",
    )
    moves = Maps(
        "moves",
        "Where the behaviour goes",
        "",
        size,
        size,
        walls,
        [(0.5, 0.5), (0.5, size - 1.5)],
        times[-1:],
        [panel(AWKWARD, 1.0, times[-1:])],
        False,
        "visits, %",
        MADE,
        radius=1.0,
        columns=1,
    )
    grown = Maps(
        "grown", "Early and late", "", size, size, walls, goals, times, [panel("M", 1.0)], True, "variance", MADE, early=True
    )
    few = np.full(size * size, np.nan)
    few[[0, size - 1]] = 31, 100
    written = Maps(
        "written", "Two values", "", size, size, [], goals, [0], [Panel("value", [few])], False, "value", MADE, numbers=True
    )
    table = DataTable(
        "final",
        "Error after two million steps",
        "tab:final",
        ["Method", "Distinct goals", "Semi-greedy", "Four rooms", "Forty questions", "Steps to 10 % error", "Verdict"],
        [
            ["GVFExplorer", "4.1 ± 0.3", "2.2 ± 0.1", "10.4 ± 1.2", "7.9 ± 0.4", "410,000", "agrees"],
            ["RoundRobin", "10.2 ± 0.9", "2.9 ± 0.2", "18.8 ± 2.0", "11.3 ± 0.8", "1,200,000", "agrees"],
            [AWKWARD, "16.0 ± 1.1", "–", "9.7 ± 1.0", "15.2 ± 1.5", "not reached", "differs"],
        ],
        [(0, 1), (0, 2), (2, 3), (0, 4)],
        MADE,
    )
    rows = [Interval("careful", 0.6, 0.5, 0.7, 0.75), Interval(AWKWARD, 0.3, np.nan, np.nan), Interval("x" * 70, 0.1, 0.0, 0.2)]
    forest = Intervals(
        "forest",
        "Values at the start",
        "",
        [IntervalPanel("value", rows, "#0b7285"), IntervalPanel("difference", rows[:1], "#a61e4d", zero=True)],
        MADE,
    )
    return Page(
        "Many questions, one stream",
        "Six behaviours compared on the paper's settings, with the same learner and the same seeds.",
        Summary(
            "Does a behaviour that minimises the variance of its answers need fewer steps than asking each question in turn?",
            "Yes: GVFExplorer reaches the error of RoundRobin with a third of the steps on three of four settings.",
            (
                "Final error 4.1 against 10.2 on distinct goals; 25 seeds, paired difference 6.1, 95 % interval 5.2 to 7.0.",
                "The lead grows with the number of questions: a factor of 1.3 with two and 2.5 with forty.",
                f"Certainty is low for {AWKWARD}, which has gaps.",
            ),
            ("Four rooms: SR ends below GVFExplorer (9.7 against 10.4), the paper says the opposite.",),
        ),
        (
            Section(
                "curves",
                "Learning curves",
                "Every method shares one learner.\n\nOnly the behaviour differs.",
                (curves, near, sensitivity),
            ),
            Section("maps", "Maps", f"A map per method, named {AWKWARD}.", (errors, moves, grown, written)),
            Section("intervals", "Intervals", "Values with intervals.", (forest,)),
            Section("tables", AWKWARD, "All numbers in one place.", (table,)),
        ),
        {"gvfx": "0.1.0", "seeds": "0 to 24", "written": "2025-01-01 12:00 UTC", AWKWARD: AWKWARD},
    )


def shots(folder: Path) -> None:
    """The demo page and its screenshots: light and dark, wide and narrow."""
    folder.mkdir(parents=True, exist_ok=True)
    write_page(folder / "report.html", demo())
    with Browser() as tab:
        for dark in (False, True):
            for width in (1200, 420):
                tab.look(dark, width)
                tab.open(folder / "report.html")
                tab.screenshot(folder / f"{'dark' if dark else 'light'}-{width}.png")


if __name__ == "__main__":
    shots(Path(sys.argv[1]))
