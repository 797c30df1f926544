"""Command that lists names: list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gvfx.cli.names import class_name, short_name
from gvfx.cli.terminal import make_console, make_table


def list_all() -> None:
    """List settings, behaviours, learners, and the paper's tables and figures."""
    from gvfx.experiments.compare import SETTINGS
    from gvfx.experiments.settings.tabular import BEHAVIOURS
    from gvfx.learners.base import Learner
    from gvfx.names import public_classes
    from gvfx.reproduce import ITEMS

    console = make_console()
    settings = make_table("setting", "what", "GVFs", "steps", "paper")
    for name, setting in SETTINGS.items():
        settings.add_row(name, setting.title, str(len(setting.questions)), f"{setting.steps:,}", setting.section)
    console.print(settings)
    behaviours = make_table("behaviour", "short name", "what")
    for name in {class_name(name): name for name in BEHAVIOURS}.values():  # a class and its short name are one behaviour
        full, short = class_name(name), short_name(name)
        behaviours.add_row(full, "" if short == full else short, _behaviour(name, BEHAVIOURS))
    console.print(behaviours)
    learners = make_table("learner", "what")
    for name, kind in public_classes(Learner).items():
        learners.add_row(name, _first_line(kind))
    console.print(learners)
    items = make_table("item", "what", "paper's label")
    for name, item in ITEMS.items():
        items.add_row(name, item.title, item.label)
    console.print(items)
    console.print("gvfx reproduce tabular, deep, mujoco and limit make all items; gvfx report turns them into one page.")


def _behaviour(name: str, behaviours: Mapping[str, Callable[[float], Any]]) -> str:
    """What a behaviour is; of a variant (SR-greedy) how it differs from the behaviour it is named after."""
    made, stem = behaviours[name](0.5), name.partition("-")[0]
    if stem == name:
        return _first_line(made)
    plain = behaviours[stem](0.5)
    changed = [f.name for f in fields(made) if getattr(made, f.name) != getattr(plain, f.name)]
    if not changed:
        return f"{class_name(stem)}; another one in preset authors"
    return f"{class_name(stem)} with {', '.join(f'{field}={getattr(made, field)!r}' for field in changed)}"


def _first_line(thing: Any) -> str:
    return str((thing.__doc__ or "").strip().splitlines()[0])
