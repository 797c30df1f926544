"""The application: every command with its examples, and what errors and signals become (one sentence and an exit code)."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gvfx.cli.bench import bench
from gvfx.cli.cache import cache
from gvfx.cli.checks import Command
from gvfx.cli.environments import check, truth
from gvfx.cli.evaluate import evaluate
from gvfx.cli.experiments import reproduce, sweep
from gvfx.cli.init import init
from gvfx.cli.listing import list_all
from gvfx.cli.log import log
from gvfx.cli.plan import plan
from gvfx.cli.report import report
from gvfx.cli.run import demo, run
from gvfx.cli.stopping import exit_if_stopped, install_handlers, raise_if_stopped, sentence_and_code
from gvfx.cli.targets import train_targets
from gvfx.cli.terminal import flush_streams, prepare_streams, remove_unused
from gvfx.errors import GvfxError, InputError
from gvfx.text import printable

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
            about = f"{error.filename!s:.200}: " if error.filename else ""
            sentence, code = f"{about}{error.strerror or error}; free some space, or name another file or folder.", 1
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
    """Entry point of `gvfx`."""
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
    said = re.sub(r"\x1b\[[0-9;]*m", "", str(message))  # Gymnasium's are coloured
    print(printable(f"gvfx: warning: {' '.join(said.split())}"), file=sys.stderr)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from gvfx import __version__

        print(f"gvfx {__version__}")
        raise typer.Exit


def _examples(*lines: str) -> str:
    """The end of a command's help, one line each."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


app.command("list", cls=Command)(list_all)
app.command(
    cls=Command,
    epilog=_examples(
        "gvfx run distinct --steps 2000000 --seeds 5 --json out.json",
        "gvfx run same --behaviour SuccessorRepresentation --evaluate-every 100000",
        "gvfx run continuous --preset recommended",
    ),
)(run)
app.command(cls=Command, epilog=_examples("gvfx init", "gvfx init my_robot.py", "gvfx init questions.toml"))(init)
app.command(
    cls=Command,
    epilog=_examples(
        "gvfx evaluate my_questions.py:make --steps 20000 --report answers.html",
        "gvfx evaluate my_module:make --until 0.01 --where start --save answers.gvfx --checkpoint run",
        "gvfx evaluate FrozenLake-v1 --questions questions.toml --json -",
    ),
)(evaluate)
app.command(
    cls=Command,
    epilog=_examples("gvfx log runs.csv --questions questions.toml", "gvfx log runs.parquet --questions questions.toml --json -"),
)(log)
app.command(
    cls=Command,
    epilog=_examples(
        "gvfx plan distinct --error 0.05",
        "gvfx plan same --error 0.05 --pilot 100000",
        "gvfx plan my_module:make --error 0.01 --pilot 20000",
        "gvfx plan FrozenLake-v1 --questions questions.toml --error 0.001",
    ),
)(plan)
app.command(cls=Command, epilog=_examples("gvfx demo --setting same --out demo"))(demo)
app.command(cls=Command, epilog=_examples("gvfx check my_module:make", "gvfx check FrozenLake-v1 --questions questions.toml"))(
    check
)
app.command(cls=Command, epilog=_examples("gvfx truth my_module:make --points 20 --precision 0.01"))(truth)
app.command(cls=Command, epilog=_examples("gvfx sweep", "gvfx sweep same distinct --seeds 3 --workers 2"))(sweep)
app.command(cls=Command, epilog=_examples("gvfx reproduce table1 drift --seeds 5", "gvfx reproduce tabular"))(reproduce)
app.command(
    cls=Command,
    epilog=_examples(
        "gvfx report results",
        "gvfx report answers.gvfx --out answers.html",
        "gvfx report my_module:make --steps 20000 --out answers.html",
    ),
)(report)
app.command("train-targets", cls=Command, epilog=_examples("gvfx train-targets walker walk --seed 0"))(train_targets)
app.command(cls=Command, epilog=_examples("gvfx bench tabular --quick"))(bench)
app.add_typer(cache, name="cache")
