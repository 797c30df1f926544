"""Command that writes a file to start from: init."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gvfx.cli import checks
from gvfx.cli.terminal import check_output, make_console
from gvfx.errors import InputError
from gvfx.files import write_new

TEMPLATES = {".py": "environment.py", ".toml": "questions.toml"}


def init(
    file: Annotated[
        Path,
        typer.Argument(
            help="The file to write: .py for an environment and its questions, .toml for questions about a Gymnasium "
            "environment.",
            callback=checks.path,
        ),
    ] = Path("my_questions.py"),
) -> None:
    """Write a commented file to start from, which works as it is; refuses to overwrite a file."""
    template = TEMPLATES.get(file.suffix)
    if template is None:
        raise InputError(f"file: {file} ends neither in .py nor in .toml; give a name that does.")
    text = resources.files("gvfx.cli").joinpath("templates", template).read_text(encoding="utf-8").replace(template, str(file))
    try:
        if not file.exists():
            check_output(file, "file")
        write_new(file, text.encode())
    except FileExistsError:
        raise InputError(f"file: {file} exists and is not overwritten; give another name.") from None
    except OSError as error:
        raise InputError(f"file: cannot write {file} ({error.strerror}); give another name.") from None
    asked = f"{file}:make" if file.suffix == ".py" else f"FrozenLake-v1 --questions {file}"
    make_console().say(f"wrote {file}; try: gvfx evaluate {asked} --steps 20000")
