"""Commands for the folder in which compiled code is kept: cache show, cache clear."""

from __future__ import annotations

import typer

from gvfx.cli.checks import Command
from gvfx.cli.terminal import make_console, make_table
from gvfx.compilation.folder import KINDS, Folder, current
from gvfx.errors import InputError

cache = typer.Typer(
    help="Show or clear the folder in which compiled code is kept, so that a second start does not compile again.",
    epilog="The folder is GVFX_CACHE_DIR, or gvfx in the user's cache folder.",
    no_args_is_help=True,
)


@cache.command(cls=Command)
def show() -> None:
    """Show the folder, what it holds and its size."""
    place = _folder()
    entries, console = place.entries(), make_console()
    table = make_table("compiled code", "entries", "MB")
    for kind, what in KINDS.items():
        sizes = [entry.size for entry in entries if entry.path.suffix == f".{kind}"]
        table.add_row(what, str(len(sizes)), f"{sum(sizes) / 1e6:.1f}")
    console.say(f"folder: {place.path}")
    console.print(table)
    console.say(f"limit: {place.limit / 1e6:.0f} MB; what was used least recently is removed first")


@cache.command(cls=Command)
def clear() -> None:
    """Remove all compiled code; the next start compiles again."""
    place = _folder()
    make_console().say(f"removed {place.clear()} entries from {place.path}")


def _folder() -> Folder:
    place = current()
    if place is None:
        raise InputError("cache: there is no folder for compiled code; set GVFX_CACHE_DIR to a folder of yours.")
    return place
