"""The command line as data: every command and parameter of the CLI's own definition, and what kind of value each takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from gvfx.cli import app

KINDS = {  # of every parameter; (command, parameter) where commands differ
    "steps": "count",
    "seeds": "seeds",
    "workers": "count",
    "evaluate_every": "count",
    "every": "count",
    "points": "count",
    "max_episodes": "count",
    "pilot": "count from 0",
    "seed": "seed",
    "error": "positive",
    "precision": "positive",
    "relative": "positive",
    "absolute": "positive",
    "rate_q": "rate",
    "rate_m": "rate",
    "audit": "share",
    "until": "until",
    "where": "where",
    "setting": "name",
    "behaviour": "name",
    "learner": "name",
    "preset": "name",
    "which": "name",
    "domain": "name",
    "task": "name",
    "items": "item",
    "target": "target",
    "questions": "questions",
    "json": "output file",
    "save": "output file",
    "report": "output file",
    "out": "output file",
    "checkpoint": "output folder",
    "results": "stored runs",
    "track": "tracker",
    "cluster": "cluster",
    "device": "device",
    ("log", "audit"): "flag",
    ("log", "file"): "log",
    ("init", "file"): "new file",
    ("report", "folder"): "page of",
    ("reproduce", "out"): "output folder",
    ("demo", "out"): "output folder",
    ("train-targets", "folder"): "output folder",
    **dict.fromkeys(("trust", "calibrate", "quick", "progress", "steal", "verify", "help"), "flag"),
}
GOOD: dict[str, list[str]] = {  # a small command line that works, or at least begins well, without what is tried
    "run": ["same", "--steps", "50", "--seeds", "1", "--workers", "1"],
    "evaluate": ["pond.py:make", "--steps", "50"],
    "log": ["log.csv", "--questions", "questions.toml"],
    "plan": ["pond.py:make", "--pilot", "500"],
    "demo": ["--steps", "50", "--seeds", "1", "--workers", "1", "--no-picture"],
    "check": ["pond.py:make", "--steps", "50"],
    "truth": ["pond.py:make", "--max-episodes", "20"],
    "sweep": ["same", "--seeds", "1", "--workers", "1"],
    "reproduce": ["value-error", "--seeds", "1", "--workers", "1"],
    "report": ["pond.py:make", "--steps", "50"],
    "train-targets": ["walker", "walk"],
    "init": [],
    "list": [],
    "cache show": [],
    "cache clear": [],
}
LONG_RUNNING = ("sweep", "reproduce", "train-targets", "cache clear")  # values that may be good are not tried
ARGUMENTS = {"train-targets": ["domain", "task"], "reproduce": ["items"], "sweep": ["setting"], "run": ["setting"]}
ALSO = {
    "target": ("questions", "setting"),
    "page of": ("path", "log", "target"),
    "tracker": ("track",),
    "share": ("audit",),
    "log": ("log",),
    "item": ("item",),
    "questions": ("policies", "signals"),
}
TOO_LONG = {("demo", "steps", "007")}


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    command = typer.main.get_command(app) if command is None else command
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
    for name, each in (below or {}).items():
        yield from commands(each, (*path, name))


def kind_of(command: str, name: str) -> str | None:
    return KINDS.get((command, name), KINDS.get(name))  # type: ignore[call-overload, no-any-return]


def is_option(param: Any) -> bool:
    return bool(param.opts[0].startswith("-"))


def with_value(command: str, param: Any, value: str, form: int = 0) -> list[str]:
    """A good command line with this value for a parameter."""
    good = list(GOOD[command])
    if not is_option(param):
        place = ARGUMENTS.get(command, [param.name]).index(param.name)
        begun = good[:place] + ["--"] * value.startswith("-")
        rest = list(good[place + 1 :]) if good and not good[0].startswith("-") else good
        if begun[-1:] == ["--"]:  # what follows would be arguments too
            return [*command.split(), *rest, *begun, value]
        return [*command.split(), *begun, value, *rest]
    for option in param.opts:
        if option in good:
            at = good.index(option)
            good = good[:at] + good[at + 2 :]
    given = [f"{param.opts[0]}={value}"] if form else [param.opts[0], value]
    return [*command.split(), *good, *given]
