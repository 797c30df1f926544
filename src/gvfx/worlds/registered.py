"""Environments by the names under which they are registered with Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium

from gvfx.errors import InputError


def registered(name: str, field: str = "world") -> Any:
    """The environment of a registered name, newly made; an InputError if Gymnasium cannot make it."""
    try:
        return gymnasium.make(name)
    except Exception as error:  # whatever the environment raises when it is made
        said = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{field}: Gymnasium cannot make {name!r} ({said}); give an environment or a registered name.") from None
