"""The application: every command with its examples, and what errors and signals become (one sentence and an exit code)."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gvfx.cli.commands import cache, check, evaluate, init, list_all, log, plan, report, truth
from gvfx.cli.extensions import extensions
from gvfx.cli.options import add
from gvfx.cli.terminal import (
    exit_if_stopped,
    flush_streams,
    install_handlers,
    prepare_streams,
    raise_if_stopped,
    remove_unused,
    sentence_and_code,
)
from gvfx.errors import GvfxError, InputError, printable, remedy, shortened

UsageError: type[Any] = typer.BadParameter.__bases__[0]  # click's, or that of typer's own copy of click


class Commands(TyperGroup):
    """All commands.  Invalid input exits with 2, a run or file that failed with 1, Ctrl-C with 130, SIGTERM with 143, each
    with one sentence on stderr."""

    def make_context(self, *given: Any, **extra: Any) -> Any:
        with _printable_usage():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                with _printable_usage():
                    return super().invoke(ctx)
            except Exception:
                raise_if_stopped()  # interrupted libraries raise errors of their own
                raise
            finally:
                remove_unused()
        except GvfxError as error:
            sentence, code = str(error), 2 if isinstance(error, InputError) else 1
        except KeyboardInterrupt as stop:
            sentence, code = sentence_and_code(stop)
        except BrokenPipeError:  # `gvfx list | head`
            raise
        except OSError as error:  # a full disk, a name that is too long
            about = error.filename or "the system says"
            sentence, code = shortened(f"{about}: {error.strerror or error}; {remedy(error)}."), 1
        except MemoryError:
            sentence, code = "there is not enough memory; ask for fewer states, steps or workers.", 1
        print(printable(f"gvfx: {sentence}"), file=sys.stderr)
        raise typer.Exit(code)


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Names in errors about the use of commands as text."""
    try:
        yield
    except UsageError as error:
        error.message = printable(error.message)
        raise


app = typer.Typer(
    cls=Commands,
    help="Answer many predictive questions (GVFs) from one stream of experience, with as few steps as possible.",
    epilog="Start with: gvfx demo, gvfx list, or for your own environment: gvfx init",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    prepare_streams()
    install_handlers()
    warnings.showwarning = _one_line
    try:
        app()
    except KeyboardInterrupt:
        exit_if_stopped(1)
        raise
    except SystemExit as end:
        exit_if_stopped(int(end.code or 0))
        reason = flush_streams()
        if reason is not None and not end.code:
            print(f"gvfx: cannot write the output ({reason}).", file=sys.stderr)
            raise SystemExit(1) from None
        raise


def _one_line(message: Warning | str, *where: object, **more: object) -> None:
    """Show a warning as one sentence, without the line of code that raised it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(message))  # Gymnasium's are coloured
    print(printable(f"gvfx: warning: {' '.join(text.split())}"), file=sys.stderr)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from gvfx import __version__

        print(f"gvfx {__version__}")
        raise typer.Exit


add(app, list_all, "list")
_command: Callable[..., None]
for _command in (init, evaluate, log, plan, check, truth, report):
    add(app, _command)
for _extension in extensions():
    for _command in _extension.commands:
        add(app, _command)
app.add_typer(cache, name="cache")
