"""gvfx: answer many predictive questions from one stream of experience, with as few steps as possible.

The public names are listed in `__init__.pyi`, which type checkers read too, and imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gvfx.names import HOME_OF

__version__ = "0.2.0"  # the only place that says it; pyproject.toml reads it here

__all__ = sorted(HOME_OF)

MOVED = dict.fromkeys(
    ("ContinuousGrid", "Domain", "EpisodicExpectedSarsa", "RandomPolicies", "Target", "VarianceSoftmax", "paper"), "gvfx_paper"
)


def __getattr__(name: str) -> Any:
    if name in MOVED:  # until 0.4
        raise AttributeError(f"gvfx.{name} is now {MOVED[name]}.{name}; write `from {MOVED[name]} import {name}`.")
    if name not in HOME_OF:
        raise AttributeError(f"module 'gvfx' has no attribute {name!r}")
    home = HOME_OF[name]
    found = None if home == __name__ else getattr(import_module(home), name, None)
    value = import_module(f"{home}.{name}") if found is None else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
