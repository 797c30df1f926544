"""Exhibits on a terminal, in Markdown and as PNG files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gvfx.files import sweep_up, write_whole
from gvfx.report.page import DataTable, Page, Section, Summary, write_page
from gvfx_paper.items import ITEMS
from gvfx_paper.items.curves import AnyCurve, main_curves, tuned_curves
from gvfx_paper.items.exhibits import SECTIONS, VERSIONS, AllDiverged, Exhibit, Item, Source, build
from gvfx_paper.items.measures import Outcome, Verdict, final_errors, ranking, verdict
from gvfx_paper.report import statistics
from gvfx_paper.report.figures import draw, save
from gvfx_paper.report.maps import Pictures
from gvfx_paper.report.statistics import DIVERGED
from gvfx_paper.settings import continuous as grid
from gvfx_paper.settings.continuous import DeepCurve
from gvfx_paper.settings.tabular import MAIN, PRESETS, paper
from gvfx_paper.worlds.mujoco import NoMuJoCo


def print_table(console: Console, exhibit: Exhibit) -> None:
    """Print a table; an exhibit of another kind is left to its file."""
    if not isinstance(exhibit, DataTable):
        return
    table = Table(box=SIMPLE_HEAD, header_style="bold", title=f"{exhibit.title} ({exhibit.label})", title_justify="left")
    for column in exhibit.columns:
        table.add_column(column)
    best = set(exhibit.best or ())
    for r, row in enumerate(exhibit.rows):
        table.add_row(*(f"[bold]{escape(cell)}[/]" if (r, c) in best else escape(cell) for c, cell in enumerate(row)))
    console.print(table)
    if exhibit.note:
        console.print(f"[dim]{escape(exhibit.note)}[/]")


def markdown(exhibit: DataTable) -> str:
    """A table as Markdown, followed by the command that makes it."""
    best = set(exhibit.best or ())

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rows = [
        line(f"**{cell}**" if (r, c) in best else cell.replace("|", "\\|") for c, cell in enumerate(row))
        for r, row in enumerate(exhibit.rows)
    ]
    parts = [
        f"## {exhibit.title}",
        f"Paper: `{exhibit.label}`.",
        "\n".join([line(exhibit.columns), line("---" for _ in exhibit.columns), *rows]),
        exhibit.note,
        f"`{exhibit.provenance.command}`, seeds {exhibit.provenance.seeds}, {exhibit.provenance.versions}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_exhibits(folder: Path, item: Item, exhibits: list[Exhibit]) -> list[Path]:
    """Write the item's tables as one Markdown file and its figures as PNG files and films as GIF files; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep_up(folder)
    written = []
    tables = [e for e in exhibits if isinstance(e, DataTable)]
    if tables:
        written.append(folder / f"{item.name}.md")
        write_whole(written[-1], "\n".join(markdown(t) for t in tables).encode())
    for exhibit in exhibits:
        if not isinstance(exhibit, DataTable):
            written.append(folder / f"{exhibit.id}.png")
            save(draw(exhibit), written[-1])
        if isinstance(exhibit, Pictures) and exhibit.film:
            written.append(folder / f"{exhibit.id}.gif")
            write_whole(written[-1], exhibit.film)
    return written


# --- The report's page: a summary that takes a minute to read, and every item whose runs are in the store -----------
# All numbers come from stored results.  Two figures add simulated episodes, and their notes say so: the trajectories on the
# continuous grid and the stills of Walker and Cheetah show what a stored behaviour does.


def available(source: Source) -> dict[str, list[Exhibit]]:
    """The exhibits of every item whose runs are all in the store, by the item's name."""
    found = {}
    for name, item in ITEMS.items():
        if item.is_complete(source):
            try:
                found[name] = build(item, source)
            except (NoMuJoCo, AllDiverged):  # only the stills need the simulator and OpenGL
                continue
    return found


def write_report(path: Path, source: Source) -> list[str]:
    """Write the page of everything that is in the store; returns the names of the items that are not."""
    exhibits = available(source)
    page = Page(
        title="gvfx: many questions, one stream",
        subtitle="The experiments of Adaptive Exploration for Data-Efficient GVF Evaluations (NeurIPS 2024), reproduced",
        summary=summarise(source),
        sections=sections_of(exhibits),
        facts={"versions": VERSIONS, "results": str(source.store.folder.name), "written": time.strftime("%Y-%m-%d %H:%M")},
    )
    write_page(path, page)
    return [name for name in ITEMS if name not in exhibits]


def sections_of(exhibits: Mapping[str, Sequence[Exhibit]]) -> tuple[Section, ...]:
    """The sections that have exhibits; one that several items have (a sweep's surface) is shown once."""
    ranked = sorted((ITEMS[name] for name in exhibits), key=lambda item: item.rank)
    shown: set[str] = set()
    filled = []
    for section in dict.fromkeys([*SECTIONS, *(item.section for item in ranked)]):
        inside: list[Exhibit] = []
        for exhibit in (e for item in ranked if item.section == section for e in exhibits[item.name]):
            if exhibit.id not in shown:
                shown.add(exhibit.id)
                inside.append(exhibit)
        if inside:
            filled.append(replace(section, items=tuple(inside)))
    return tuple(filled)


# --- the summary -------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """The methods of one table's row: errors at the end [seed] by method, printed ones, and errors at tuned rates, if any."""

    name: str
    errors: dict[str, np.ndarray]
    printed: Mapping[str, float]
    tuned: dict[str, np.ndarray]

    def __str__(self) -> str:
        tuned = f"; with every method tuned by one protocol {ranking(self.tuned).clause}" if self.tuned else ""
        return f"{self.name}: at the published rates {ranking(self.errors).clause}{tuned}."

    def far_off(self) -> list[str]:
        """Printed numbers that differ from ours by more than a factor of two and lie outside our interval, in one sentence."""
        off = []
        for method, published in self.printed.items():
            ours = statistics.mean(self.errors[method]) if method in self.errors else statistics.NOTHING
            inside = verdict(published, ours) is Verdict.INSIDE
            if method in self.errors and not inside and not 0.5 < ours.value / published < 2:
                off.append(f"{method} {published:g} (ours {DIVERGED if ours.diverged else f'{ours.value:.3g}{ours.count}'})")
        sentence = f"Printed numbers that differ from ours by more than a factor of two, {self.name}: {', '.join(off)}."
        return [sentence] if off else []


def groups_of(source: Source, preset: str = "paper") -> tuple[list[Group], list[Group]]:
    """The tabular settings and the replays of the continuous grid that have been run."""

    def read(curves: Sequence[AnyCurve], item: str) -> dict[str, np.ndarray]:
        runs = source.of(ITEMS[item])
        return final_errors(runs, curves) if curves and runs.has(curves) else {}

    tabular = [
        Group(
            name,
            read(main_curves(name, preset), "table1"),
            paper[name].published,
            read(tuned_curves(name, source.tuned), "table1"),
        )
        for name in MAIN
    ]
    deep = [
        Group(f"continuous grid, {words}", read([DeepCurve(m, r, preset) for m in grid.METHODS], "table3"), grid.PUBLISHED[r], {})
        for r, words in (("uniform", "replay"), ("prioritised", "PER"))
    ]
    return [g for g in tabular if g.errors], [g for g in deep if g.errors]


def summarise(source: Source) -> Summary:
    """What was asked, who wins and how surely, and what failed to reproduce."""
    asked = (
        "Does acting in proportion to the return's standard deviation (GVFExplorer) need fewer steps than following the "
        "target policies, acting uniformly, SR or BPS, when many GVFs are learned from one stream?"
    )
    tabular, deep = groups_of(source)
    won = [ranking(g.errors).outcome is Outcome.HOLDS for g in tabular]
    won_tuned = {g.name: ranking(g.tuned).outcome is Outcome.HOLDS for g in tabular if g.tuned}
    headline = "No setting has been run yet."
    if tabular:
        headline = f"With the published learning rates GVFExplorer is clearly ahead in {sum(won)} of {len(won)} settings"
        headline += (
            f"; with every method tuned by one protocol, in {sum(won_tuned.values())} of {len(won)}." if won_tuned else "."
        )
    behind = ", ".join(name for name, wins in won_tuned.items() if not wins)
    close = []
    for preset in PRESETS:
        found = [(g, m) for g in groups_of(source, preset)[0] for m in g.printed if m in g.errors]
        ratios = [g.errors[m].mean() / g.printed[m] for g, m in found]
        near = sum(1 / 1.5 < r < 1.5 for r in ratios)
        if ratios:
            close.append(f"Printed errors: ours are within a factor of 1.5 for {near} of {len(ratios)} (preset {preset}).")
    failed = [
        *([f"The lead itself, once every method is tuned by one protocol: {behind}."] if behind else []),
        *(line for group in (*tabular, *deep) for line in group.far_off()),
        "Theorem 4.2, for two or more GVFs: docs/theory.md has a counterexample with two states.",
    ]
    return Summary(asked, headline, (*map(str, tabular), *close, *map(str, deep)), tuple(failed))
