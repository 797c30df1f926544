"""What gvfx_paper adds to the command line of gvfx."""

from __future__ import annotations

from pathlib import Path

from gvfx.cli.extensions import Extension, NamedSetting
from gvfx.cli.terminal import Terminal
from gvfx_paper.cli.paper import demo, reproduce, run, sweep, train_targets


def _show(console: Terminal) -> None:
    from gvfx_paper.cli.stored import show

    show(console)


def _names() -> list[str]:
    from gvfx_paper.settings.runs import SETTINGS

    return list(SETTINGS)


def _find(name: str) -> NamedSetting:
    from gvfx_paper.settings.runs import find_setting

    chosen = find_setting(name)
    return NamedSetting(chosen.name, chosen.title, chosen.world, chosen.questions)


def _page(folder: Path, out: Path | None, seeds: int | None) -> None:
    from gvfx_paper.cli.stored import report_folder

    report_folder(folder, out, seeds)


EXTENSION = Extension(
    commands=(run, demo, sweep, reproduce, train_targets),
    show=_show,
    names=_names,
    find=_find,
    page=_page,
)
