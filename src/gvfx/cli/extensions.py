"""Commands of other packages: what an entry point of the group `gvfx.commands` adds to the command line.

A package names an `Extension` in its own metadata, for example in pyproject.toml:

    [project.entry-points."gvfx.commands"]
    mine = "my_package.commands:EXTENSION"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gvfx.cli.terminal import Terminal
    from gvfx.questions.gvf import GVF

GROUP = "gvfx.commands"


class NamedSetting(NamedTuple):
    """A world and questions that a package knows by a name."""

    name: str
    title: str
    world: Any
    questions: Sequence[GVF]


@dataclass(frozen=True)
class Extension:
    """What a package adds."""

    commands: tuple[Callable[..., None], ...]  # as `gvfx.cli.options` reads them
    show: Callable[[Terminal], None] | None = None  # its part of `gvfx list`
    names: Callable[[], Iterable[str]] = tuple  # settings that `gvfx plan` accepts by name
    find: Callable[[str], NamedSetting] | None = None  # one of them; an unknown name raises an error that lists the closest
    page: Callable[[Path, Path | None, int | None], None] | None = None  # `gvfx report FOLDER`, with a page's name and seeds


@cache
def extensions() -> tuple[Extension, ...]:
    """Of all installed packages, in the order of their names."""
    return tuple(point.load() for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))
