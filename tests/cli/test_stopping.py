"""Commands that are stopped: signals, exit codes and progress bars."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
import typer
from helpers.command_line import invoke
from typer.testing import CliRunner

from gvfx.cli import terminal as stopping
from gvfx.cli.application import Commands

SENTENCES = {signal.SIGINT: "gvfx: interrupted by Ctrl-C.\n", signal.SIGTERM: "gvfx: terminated by SIGTERM.\n"}
IN_A_RUN = r"gvfx: (interrupted|terminated) at step [\d,]+; with --checkpoint FOLDER the same command could continue it.\n"
WITH_A_WORKER = """
import multiprocessing, os, signal, time
from gvfx.cli import terminal as stopping

stopping.install_handlers()
worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
worker.start()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt as stop:
    worker.join()
    stop.add_note("saved")
    print(worker.exitcode, *stopping.sentence_and_code(stop), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""

WITHOUT_TIME = """
import os, signal, sys, time
from gvfx.cli import terminal as stopping

stopping.LONGEST, patient = 0.6, "patient" in sys.argv
stopping.install_handlers()
signal.signal(signal.SIGINT, lambda *_: None)  # as if the main thread were compiling
if patient:
    stopping.wait_for_steps()
else:
    (note := stopping.noted("finished runs are kept")).__enter__()
begun = time.monotonic()
os.kill(os.getpid(), signal.SIGINT)
while time.monotonic() < begun + 30:
    time.sleep(1.2)
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("number", "state", "seeds"),
    [
        (signal.SIGINT, "compiling", 1),
        (signal.SIGTERM, "compiling", 1),
        (signal.SIGTERM, "learning", 1),
        (signal.SIGINT, "learning", 3),
    ],
)
def test_a_signal_ends_a_run_with_one_sentence(number, state, seeds, tmp_path, tmp_path_factory):
    """Sent once the progress bar shows the state; several seeds run in threads, which signals do not reach."""
    command = [sys.executable, "-m", "gvfx", "run", "same", "--steps", "50000000", "--seeds", str(seeds), "--workers", "2"]
    target = tmp_path / "out.json"
    environment = {**os.environ, "COLUMNS": "200"}
    if state == "compiling":
        environment["GVFX_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))  # empty, so that there is something to compile
    screen, other = pty.openpty()  # the bar is drawn in a terminal
    with subprocess.Popen([*command, "--json", target], stdout=subprocess.PIPE, stderr=other, env=environment) as process:
        os.close(other)
        shown = b""
        while state.encode() not in shown:
            shown += os.read(screen, 4096)
        process.send_signal(number)
        with contextlib.suppress(OSError):  # the end of the process
            while more := os.read(screen, 4096):
                shown += more
        assert process.wait(timeout=120) == 128 + number
    os.close(screen)
    last = "gvfx: " + shown.decode().replace("\r", "").rpartition("gvfx: ")[2]  # below the bar, which is taken away
    compiler = state == "compiling" and last.startswith(SENTENCES[number])  # which leaves no time to take it away
    assert compiler or re.fullmatch(IN_A_RUN, last), last
    assert not list(tmp_path.iterdir())


def test_a_command_whose_main_thread_has_no_time_ends_all_the_same():
    """By itself; while a step of the user's environment is under way, after a second signal."""
    at_once = f"{stopping.STILL}\ngvfx: interrupted by Ctrl-C.\n"
    for arguments, said in ([], "gvfx: interrupted by Ctrl-C; finished runs are kept.\n"), (["patient"], at_once):
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-c", WITHOUT_TIME, *arguments], capture_output=True, text=True, timeout=50)
        assert (done.returncode, done.stderr) == (130, said) and time.monotonic() - begun < 20


def test_a_signal_ends_worker_processes_and_a_second_one_ends_everything():
    done = subprocess.run([sys.executable, "-c", WITH_A_WORKER], capture_output=True, text=True, timeout=50)
    assert done.stdout == f"{-signal.SIGTERM} terminated by SIGTERM; saved. 143\n"
    assert done.returncode == -signal.SIGTERM


def test_stored_runs_are_mentioned(monkeypatch, tmp_path):
    def stand_in(*arguments, **options):
        raise stopping.Stopped(signal.SIGTERM)

    monkeypatch.setattr("gvfx_paper.cli.stored.run_all", stand_in)
    done = invoke("sweep", "same", "--results", tmp_path)
    assert done.exit_code == 143
    stored = f"finished runs are stored in {tmp_path}, and the same command continues from there"
    assert done.stderr == f"gvfx: terminated by SIGTERM; {stored}.\n"


def test_errors_of_interrupted_libraries_count_as_the_signal(monkeypatch):
    app = typer.Typer(cls=Commands)

    @app.callback()
    def options() -> None:
        pass

    @app.command()
    def fail(received: int = 0) -> None:
        if received:
            monkeypatch.setattr(stopping, "_received", [received])
        raise RuntimeError("the compiler was interrupted")

    failed = CliRunner().invoke(app, ["fail"])
    assert isinstance(failed.exception, RuntimeError)
    stopped = CliRunner().invoke(app, ["fail", "--received", "2"])
    assert stopped.exit_code == 130 and stopped.output == "gvfx: interrupted by Ctrl-C.\n"
    with pytest.raises(stopping.Stopped):
        stopping.raise_if_stopped()


BEFORE_A_COMMAND = """
import os, signal
from gvfx.cli import application

class Early(application.Commands):
    def make_context(self, *given, **extra):
        os.kill(os.getpid(), signal.{0})

application.app.info.cls = Early
application.main()
"""


@pytest.mark.parametrize("number", SENTENCES)
def test_a_signal_before_the_command_begins_is_said_too(number):
    done = subprocess.run([sys.executable, "-c", BEFORE_A_COMMAND.format(number.name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip() + "\n") == (128 + number, SENTENCES[number])
