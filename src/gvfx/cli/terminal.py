"""What commands print and write: the console, tables and files.  Names are shown as text: no markup, no escape sequences."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from gvfx.errors import InputError, StoreError, UnknownName, printable
from gvfx.files import check_writable, write_or_copy, write_whole
from gvfx.names import SHORT_NAMES, as_call, public_classes

# --- Names of behaviours on the command line: the class names of the library; the paper's short names are accepted too


_CLASSES = {short.lower(): name for name, short in SHORT_NAMES.items()}


def class_name(name: str) -> str:
    """A name with the paper's short name written out: SR-greedy is SuccessorRepresentation-greedy."""
    return exchanged(name, _CLASSES)


def exchanged(name: str, names: dict[str, str]) -> str:
    """A name whose first word, before a dash, is exchanged for that of `names`, if it is there."""
    stem, dash, variant = name.partition("-")
    return names.get(stem.lower(), stem) + dash + variant


def made_by_name(field: str, name: str | None, base: type[Any]) -> Any:
    """A behaviour or learner with its defaults, by class name or short name; None without a name."""
    if name is None:
        return None
    classes = public_classes(base)
    kind = {known.lower(): known for known in classes}.get(class_name(name).lower())
    if kind is None:
        raise UnknownName(field, name, list(classes))
    if as_call(classes[kind]).endswith("(...)"):
        raise InputError(f"{field}: {kind} needs arguments; use it from Python, {as_call(classes[kind])}, or choose another.")
    return classes[kind]()


NUMBERS = frozenset(
    {"GVFs", "steps", "MSE", "standard error", "steps/s", "learning rate", "value error, mean |V - V̂|", "value", "episodes"}
    | {"5% of runs by", "95% of runs by", "times the optimum", "truncation error, at most", "entries", "MB"}
)
STDOUT = Path("-")  # an output file that stands for stdout; everything else then goes to stderr
SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")  # of the terminal, in the environment
_made: list[Path] = []  # folders and files for output, the outermost first


class Terminal(Console):
    """A console that shows lines as they are."""

    def say(self, *lines: str) -> None:
        for line in lines:
            self.print(printable(line), highlight=False, markup=False, emoji=False, soft_wrap=True)

    def say_titled(self, title: str, line: str) -> None:
        self.print(Text.assemble((printable(title), "bold"), printable(line)), highlight=False, soft_wrap=True)


class PlainTable(Table):
    """A table whose cells are shown as they are."""

    def add_row(
        self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:  # rich's signature
        plain = (Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain, style=style, end_section=end_section)


def prepare_streams() -> None:
    """Let nothing in the environment break the output: closed streams, an encoding without our characters, a senseless size."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # until the process ends
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for name in SIZES:
        if not re.fullmatch(r"[1-9][0-9]{0,3}", os.environ.get(name, "80")):
            del os.environ[name]


def flush_streams() -> str | None:
    """Write what is left in the buffers; the reason if that fails, after which the rest of the output is dropped."""
    reason = None
    for handle, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:
            reason = error.strerror or str(error)
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
    return reason


def make_console(output: Path | None = None) -> Terminal:
    """The terminal; output to a file or a pipe is wide enough for every table.  output: the JSON file of the command."""
    aside = output == STDOUT
    seen = (sys.stderr if aside else sys.stdout).isatty()
    return Terminal(stderr=aside) if seen else Terminal(stderr=aside, width=160)


def make_table(*columns: str) -> Table:
    """An empty table; columns of numbers are aligned to the right."""
    table = PlainTable(box=SIMPLE_HEAD, header_style="bold")
    for k, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="right" if column in NUMBERS else "left", no_wrap=k == 0)
    return table


def check_name(path: Path, option: str) -> None:
    """Refuse a name that no file or folder can have, that is a link to itself, or that may not be looked at."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{option}: {path!s:.80} cannot be used ({reason}); give another name.") from None


def check_output(path: Path | None, option: str) -> None:
    """Refuse an output file that cannot be written, before any work is done; its folder is made (`remove_unused`)."""
    if path is None or path == STDOUT:
        return
    check_name(path, option)
    with suppress(OSError):  # which `check_writable` names
        _made.extend(each for each in (*reversed(path.parents), path) if not each.exists())
    check_writable(path, option)


def remove_unused() -> None:
    """Remove the folders and files that were made for output and are still empty: of a command that was refused or failed."""
    while _made:
        path = _made.pop()
        with suppress(OSError):
            if path.is_dir():
                path.rmdir()
            elif path.is_file() and not path.stat().st_size:
                path.unlink()


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file, whole or not at all; to stdout if the path is -."""
    text = json.dumps(data, indent=1)
    if path == STDOUT:
        print(text)
    else:
        write_whole(path, text.encode())


def write_outputs(console: Terminal, *outputs: tuple[str, Path | None, Callable[[Path], None]], failed: str = "") -> None:
    """Write the files of a command, after its answers were printed, and say so; outputs: option, path if given, what writes it.

    A file that cannot be written keeps none of the others back, and a copy is in the temporary folder (`write_or_copy`); the
    StoreError about it comes last.  failed: the sentence about an earlier file.
    """
    sentences = [failed] * bool(failed)
    for option, path, write in outputs:
        if path is None:
            continue
        if path == STDOUT:
            write(path)
            continue
        try:
            write_or_copy(path, write, option)
            console.say(f"wrote {path}")
        except StoreError as error:
            sentences.append(str(error))
    if sentences:
        raise StoreError(" ".join(sentences))


def finite(data: Any) -> Any:
    """Plain data with None in the place of numbers that JSON does not have: NaN and infinity."""
    if isinstance(data, dict):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


# --- Ctrl-C and SIGTERM: both stop a command in the same way, and running work can be saved on the way out ----------


WORDS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated by SIGTERM"}
LONGEST = 4.5  # seconds that a command may take to stop
AT_ONCE = 0.25  # seconds: a second signal within them is the same one, sent to the process and to its group
STILL = "gvfx: the environment has not finished its step yet; another Ctrl-C ends at once, and what was learned is lost."


class Stopped(KeyboardInterrupt):
    """A signal stopped the command.  A KeyboardInterrupt, so code that saves its work on Ctrl-C does so on SIGTERM too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_heard: list[int] = []  # all signals, in the order in which they came
_received: list[int] = []  # those that raised
_announced: list[bool] = []  # whether a sentence was asked for
_patient: list[bool] = []
_notes: list[str] = []  # what to add to the sentence about a stop


def install_handlers() -> None:
    """Make SIGINT and SIGTERM raise `Stopped` in the main thread; a second signal ends the process at once.

    A thread ends the process if the main thread, which may be compiling, has not done so in `LONGEST` seconds.
    """
    for number in WORDS:
        signal.signal(number, _stop)
    read, write = os.pipe()
    if hasattr(os, "set_blocking"):  # not on every Windows
        os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # signals to a copy are its own
    threading.Thread(target=_listen, args=(read,), daemon=True).start()


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Add this to the sentence about a stop inside the block."""
    _notes.append(text)
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(text)
        raise
    finally:
        _notes.remove(text)


def wait_for_steps() -> None:
    """Wait for as long as it takes for a step of the user's environment to end, so that what was learned can be kept."""
    _patient.append(True)


def _listen(pipe: int) -> None:
    """Pass signals on as they arrive, also those that the main thread has no time for; the first one starts the watch."""
    heard: SimpleQueue[int] = SimpleQueue()
    while True:
        number = os.read(pipe, 1)[0]
        if number in (*WORDS,):
            if not _heard:
                threading.Thread(target=_watch, args=(number, heard), daemon=True).start()
            else:
                heard.put(number)
            _heard.append(number)


def _watch(number: int, heard: SimpleQueue[int]) -> None:
    """End the process `LONGEST` seconds after the first signal, or soon after a second one."""
    time.sleep(AT_ONCE)
    while not heard.empty():
        heard.get()
    again = None
    try:
        again = heard.get(timeout=LONGEST - AT_ONCE)
    except Empty:
        if _patient:
            print(STILL, file=sys.stderr, flush=True)
            again = heard.get()
    if again is not None:
        time.sleep(AT_ONCE)  # for the main thread, which heard it too
        number = again
    for worker in multiprocessing.active_children():
        worker.kill()
    print(f"gvfx: {'; '.join([WORDS[signal.Signals(number)], *_notes])}.", file=sys.stderr, flush=True)
    os._exit(128 + number)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in WORDS:
        signal.signal(each, signal.SIG_DFL)
    _received.append(number)
    for worker in multiprocessing.active_children():
        worker.terminate()
    raise Stopped(number)


_stop.yields_to_runs = True  # type: ignore[attr-defined]  # `gvfx.running.drive` may take its place during a run


def raise_if_stopped() -> None:
    """For callbacks in worker threads, where signals raise nothing: raise `Stopped` if one was received."""
    if _received:
        raise Stopped(_received[0])


def sentence_and_code(stop: Any) -> tuple[str, int]:
    """What to print about a stop, with the notes added to it, and the exit code: 128 + the signal's number."""
    _announced.append(True)
    if hasattr(stop, "in_a_terminal"):  # gvfx.Interrupted: runs that ended in order
        return stop.in_a_terminal, stop.exit_code
    number = signal.Signals(next((n for n in stop.args if n in (*WORDS,)), signal.SIGINT))
    return "; ".join([WORDS[number], *getattr(stop, "__notes__", [])]) + ".", 128 + number


def exit_if_stopped(code: int) -> None:
    """End a stopped process without the interpreter's teardown, in which an interrupted JAX compilation can crash."""
    if _received:
        if not _announced:  # it came before or after the command itself
            sentence, code = sentence_and_code(Stopped(_received[0]))
            print(f"gvfx: {sentence}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
