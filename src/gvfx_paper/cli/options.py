"""Types of the options and arguments of the paper's commands, and the names that the shell completes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from gvfx.cli import options
from gvfx.cli.options import Kind, starting
from gvfx.cli.terminal import class_name, exchanged
from gvfx.errors import InputError, UnknownName
from gvfx.names import SHORT_NAMES

_SHORT = {name.lower(): short for name, short in SHORT_NAMES.items()}
DEVICES = ("cpu", "gpu", "tpu", "cuda", "rocm")


def _names_in(module: str, listed: str) -> Callable[[str], list[str]]:
    """Completes the names that a module lists, which is imported when they are asked for."""
    return lambda incomplete: starting(getattr(import_module(f"gvfx_paper.{module}"), listed), incomplete)


tabular_settings = _names_in("settings.tabular", "paper")
domains = _names_in("worlds.mujoco", "DOMAINS")


def items(incomplete: str) -> list[str]:
    """Tables and figures, and their groups."""
    from gvfx_paper.items import ITEMS, groups

    return starting([*ITEMS, *groups()], incomplete)


def presets(incomplete: str) -> list[str]:
    """The presets of `gvfx run`."""
    return starting(("paper", "authors", "stabilised", "recommended"), incomplete)


def _address(text: str, option: str) -> str:
    try:
        parts = urlsplit(text)
        good = bool(parts.scheme and (parts.hostname or parts.path)) and parts.port != 0
    except ValueError:  # a port that there cannot be
        good = False
    if not good or not re.fullmatch(r"[a-z]+://\S+", text):
        raise InputError(f"{option}: {text!r:.80} is not an address; give that of a Dask scheduler, such as tcp://host:8786.")
    return text


def _device(text: str, option: str) -> str:
    if text not in DEVICES:
        raise UnknownName(option, text, DEVICES)
    return text


Setting = Annotated[str, Kind(complete=options.settings)]
TabularSetting = Annotated[str, Kind(complete=tabular_settings)]
TabularSettings = Annotated[Sequence[str], Kind(complete=tabular_settings)]
Items = Annotated[Sequence[str], Kind(complete=items)]
Domain = Annotated[str, Kind(complete=domains)]
Preset = Annotated[str, Kind(complete=presets)]
Behaviour = Annotated[str, Kind(complete=options.behaviours, letter="-b")]
Learner = Annotated[str, Kind(complete=options.learners, letter="-l")]
Rate = Annotated[float, options.number(at_most=1)]
WORKERS = "Runs at the same time (default: the number of cores)."
Workers = Annotated[int, Kind(options.count(most=options.MOST_WORKERS).read, "N", sentence=WORKERS)]
DEVICE = "Where networks run: cpu, gpu or tpu; all seeds of an experiment in one loop."
Device = Annotated[str, Kind(_device, sentence=DEVICE)]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Where runs are stored, and who makes those that are missing.

    results: Folder of stored runs.
    cluster: Address of a Dask scheduler, tcp://host:port.
    steal: At the end also make runs that another process has begun, in case it is stopped.
    verify: Read every stored run again, also those that have not changed.
    """

    results: Annotated[Path, Kind(options.path(options.check_folder), "PATH")] = Path("results")
    workers: Workers | None = None
    cluster: Annotated[str, Kind(_address)] | None = None
    steal: bool = False
    verify: bool = False


def short_name(name: str) -> str:
    """A name with the paper's short name in place of the class name; names that have none stay as they are."""
    return exchanged(name, _SHORT)


def accepted_name(setting: Any, behaviour: str) -> str:
    """The spelling of a behaviour that a setting accepts; an unknown name is left to the setting, which lists its own."""
    for name in (class_name(behaviour), short_name(behaviour)):
        try:
            setting.experiment(name)
        except UnknownName:
            continue
        return name
    return behaviour


def workers_given(workers: int | None) -> int:
    """The value of --workers; by default the number of cores."""
    return workers or os.cpu_count() or 1
