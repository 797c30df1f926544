"""What gvfx_paper adds to the command line of gvfx."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gvfx.cli.extensions import Extension, NamedSetting
from gvfx_paper.cli.paper import demo, reproduce, run, sweep, train_targets


def _later(module: str, name: str) -> Any:
    """A name of a module that is imported now, when a command needs it."""
    return getattr(import_module(f"gvfx_paper.{module}"), name)


def _find(name: str) -> NamedSetting:
    chosen = _later("settings.runs", "find_setting")(name)
    return NamedSetting(chosen.name, chosen.title, chosen.world, chosen.questions)


EXTENSION = Extension(
    commands=(run, demo, sweep, reproduce, train_targets),
    show=lambda console: _later("cli.stored", "show")(console),
    names=lambda: list(_later("settings.runs", "SETTINGS")),
    find=_find,
    page=lambda folder, out, seeds: _later("cli.stored", "report_folder")(folder, out, seeds),
)
