"""Command that writes a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks, options
from gvfx.cli.evaluate import evaluate
from gvfx.cli.terminal import check_output, make_console
from gvfx.errors import InputError


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A results folder of `gvfx reproduce` or `gvfx sweep`, a file written by Result.save; or your own environment "
            "as in `gvfx evaluate`, which is then run.",
            callback=checks.path,
        ),
    ] = Path("results"),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The HTML file (default: FOLDER/report.html, FILE with .html, or report.html).",
            callback=checks.output_file,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="Use only the first N seeds (default: each item's own number).",
            metavar="N",
            callback=checks.count(most=checks.MOST_SEEDS),
        ),
    ] = None,
    questions: options.Questions = None,
    trust: options.Trust = False,
    steps: options.Steps = "100000",
) -> None:
    """Write one self-contained HTML page about a results folder, one saved result, or your own environment and questions."""
    if not folder.is_dir() and (folder.suffix == ".py" or not folder.exists()) and _is_own(folder):
        page = out or Path("report.html")
        check_output(page, "--out")
        evaluate(str(folder), questions, trust, steps, seeds or 1, page=page)
        return
    if folder.is_file():
        from gvfx.report.answers import write_answers
        from gvfx.running.saved import load

        page = out or folder.with_suffix(".html")
        check_output(page, "--out")
        write_answers(page, load(folder), folder)
        make_console().say(f"wrote {page}")
        return
    from gvfx.experiments.store import Store
    from gvfx.reproduce import Source
    from gvfx.reproduce.curves import load_tuned
    from gvfx.reproduce.summary import write_report

    if not folder.is_dir():
        raise InputError(f"folder: {folder} does not exist; run `gvfx reproduce tabular` first.")
    page = out or folder / "report.html"
    check_output(page, "--out")
    missing = write_report(page, Source(Store(folder), seeds, load_tuned(folder)))
    make_console().say(f"wrote {page}")
    if missing:
        make_console().say(f"not run yet, so left out: {', '.join(missing)}")


def _is_own(folder: Path) -> bool:
    from gvfx.running.loading import is_own

    return is_own(str(folder))
