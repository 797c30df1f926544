"""Exhibits on a terminal, in Markdown and as PNG files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gvfx.files import sweep_up, write_whole
from gvfx.report.page import DataTable, Page, Section, Summary, write_page
from gvfx_paper.items import ITEMS
from gvfx_paper.items.curves import main_curves, tuned_curves
from gvfx_paper.items.exhibits import SECTIONS, VERSIONS, AllDiverged, Exhibit, Item, Source, build
from gvfx_paper.items.measures import Outcome, Ranking, Verdict, final_errors, ranking, verdict
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


@dataclass(frozen=True)
class Standing:
    """Who is ahead on one setting, at the published rates and, where they have been run, at tuned ones."""

    setting: str
    published: Ranking
    tuned: Ranking | None

    def __str__(self) -> str:
        tuned = f"; with every method tuned by one protocol {self.tuned.clause}" if self.tuned else ""
        return f"{self.setting}: at the published rates {self.published.clause}{tuned}."


def summarise(source: Source) -> Summary:
    """What was asked, who wins and how surely, and what failed to reproduce."""
    asked = (
        "Does acting in proportion to the return's standard deviation (GVFExplorer) need fewer steps than following the "
        "target policies, acting uniformly, SR or BPS, when many GVFs are learned from one stream?"
    )
    table1 = ITEMS["table1"]
    curves = {name: main_curves(name) for name in MAIN}
    errors = {name: final_errors(source, c, table1.seeds) for name, c in curves.items() if source.has(c, table1.seeds)}
    standings = [Standing(name, ranking(found), _when_tuned(source, table1, name)) for name, found in errors.items()]
    on_networks, off_on_networks = _networks(source)
    close = (line for preset in PRESETS for line in _close_numbers(source, table1, preset))
    behind = ", ".join(s.setting for s in standings if s.tuned is not None and s.tuned.outcome is not Outcome.HOLDS)
    failed = [
        *([f"The lead itself, once every method is tuned by one protocol: {behind}."] if behind else []),
        *(line for name, found in errors.items() for line in _far_off(name, found, paper[name].published)),
        *off_on_networks,
        "Theorem 4.2, for two or more GVFs: docs/theory.md has a counterexample with two states.",
    ]
    return Summary(asked, _headline(source, standings), (*map(str, standings), *close, *on_networks), tuple(failed))


def _when_tuned(source: Source, item: Item, setting: str) -> Ranking | None:
    curves = tuned_curves(setting, source.tuned)
    return ranking(final_errors(source, curves, item.seeds)) if curves and source.has(curves, item.seeds) else None


def _headline(source: Source, standings: Sequence[Standing]) -> str:
    if not standings:
        return "No setting has been run yet."
    wins = sum(s.published.outcome is Outcome.HOLDS for s in standings)
    headline = f"With the published learning rates GVFExplorer is clearly ahead in {wins} of {len(standings)} settings"
    if any(tuned_curves(s.setting, source.tuned) for s in standings):
        tuned_wins = sum(s.tuned is not None and s.tuned.outcome is Outcome.HOLDS for s in standings)
        headline += f"; with every method tuned by one protocol, in {tuned_wins} of {len(standings)}"
    return headline + "."


def _networks(source: Source) -> tuple[list[str], list[str]]:
    """The continuous grid with networks: who is ahead with each replay, and which printed numbers are far off."""
    seeds, sentences, off = ITEMS["table3"].seeds, [], []
    for replay, words in (("uniform", "replay"), ("prioritised", "PER")):
        curves = [DeepCurve(m, replay) for m in grid.METHODS]
        if source.has(curves, seeds):
            errors = final_errors(source, curves, seeds)
            sentences.append(f"continuous grid, {words}: at the published rates {ranking(errors).clause}.")
            off += _far_off(f"continuous grid, {words}", errors, grid.PUBLISHED[replay])
    return sentences, off


def _close_numbers(source: Source, item: Item, preset: str) -> list[str]:
    """How many of our errors are close to the printed ones, in one preset."""
    ratios: list[float] = []
    for name in MAIN:
        curves = [c for c in main_curves(name, preset) if c.method in paper[name].published]
        if source.has(curves, item.seeds):
            errors = final_errors(source, curves, item.seeds)
            ratios += [e.mean() / paper[name].published[m] for m, e in errors.items()]
    close = sum(1 / 1.5 < r < 1.5 for r in ratios)
    return [f"Printed errors: ours are within a factor of 1.5 for {close} of {len(ratios)} (preset {preset})."] if ratios else []


def _far_off(setting: str, errors: Mapping[str, np.ndarray], printed: Mapping[str, float]) -> list[str]:
    """Printed numbers that differ from ours by more than a factor of two and lie outside our interval, in one sentence."""
    off = []
    for method, published in printed.items():
        if method not in errors:
            continue
        ours = statistics.mean(errors[method])
        if verdict(published, ours) is not Verdict.INSIDE and not 0.5 < ours.value / published < 2:
            off.append(f"{method} {published:g} (ours {DIVERGED if ours.diverged else f'{ours.value:.3g}{ours.count}'})")
    return [f"Printed numbers that differ from ours by more than a factor of two, {setting}: {', '.join(off)}."] if off else []
