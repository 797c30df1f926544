"""Exhibits on a terminal, in Markdown and as PNG files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gvfx.files import sweep_up, write_whole
from gvfx.report.figures import draw
from gvfx.report.page import DataTable, Pictures
from gvfx.report.style import save
from gvfx.reproduce.base import Exhibit, Item


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
        path = folder / f"{item.name}.md"
        write_whole(path, "\n".join(markdown(t) for t in tables).encode())
        written.append(path)
    for exhibit in exhibits:
        if not isinstance(exhibit, DataTable):
            path = folder / f"{exhibit.id}.png"
            save(draw(exhibit), path)
            written.append(path)
        if isinstance(exhibit, Pictures) and exhibit.film:
            path = folder / f"{exhibit.id}.gif"
            write_whole(path, exhibit.film)
            written.append(path)
    return written
