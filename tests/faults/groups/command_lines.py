"""Malformed command lines, generated from the CLI's own definition, and broken files: a sentence, never a traceback."""

from __future__ import annotations

import ctypes
import io
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from faults import broken_questions
from faults.commands import ALSO, GOOD, LONG_RUNNING, TOO_LONG, commands, is_option, kind_of, with_value
from faults.malformed import BODIES, COLUMNS, MAYBE_BAD, POND, PRINTING, QUESTIONS, ROWS, SOURCES, SURELY_BAD, written
from faults.processes import Ended, forked, warm_up
from faults.trials import Trials
from gvfx.cli import app

FULL, FAST, SECONDS = 1000, 30, 250
CONTROLS, COLOURS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"), re.compile(r"\x1b\[[0-9;]*m")
LIMIT = 90.0  # seconds, after which a command hangs (what a plan needs compiles for twenty)


@dataclass(frozen=True)
class Case:
    """A command line, and what is expected of it."""

    kind: str
    arguments: list[str]
    refused: bool = False  # whether it must be
    words: tuple[str, ...] = ()  # one of which a refusal names
    files: dict[str, str] = field(default_factory=dict)  # in the place of those of `furnish`
    before: Callable[[], Any] = lambda: None
    shell: str = ""  # what a shell does with the output; the command then runs in a new Python
    env: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [a if len(a) < 60 else f"{a[:20]}...({len(a)} letters)" for a in self.arguments]
        files = "".join(f"\n{name}: {text[:600]!r}" for name, text in self.files.items())
        return f"gvfx {' '.join(map(repr, shown))} {self.shell} {self.env or ''}{files}"


def values() -> Iterator[Case]:
    """Every parameter of every command with every bad value of its kind."""
    for command, found in commands():
        for param in found.params:
            kind = kind_of(command, param.name)
            if kind is None or command not in GOOD:
                yield Case("a parameter without bad values", [command, param.name], True)
                continue
            names = (*param.opts, param.name, param.name.replace("_", "-"), *ALSO.get(kind, ()))
            for k, bad in enumerate(["", " ", *SURELY_BAD[kind]] if kind != "flag" else []):
                yield Case(f"bad {kind}", with_value(command, param, bad, k % 2), True, names)
            for value in MAYBE_BAD.get(kind, ()) if command not in LONG_RUNNING else ():
                if (command, param.name, value) not in TOO_LONG:
                    yield Case(f"odd {kind}", with_value(command, param, value))
            if is_option(param):
                yield from usage(command, param, kind == "flag")


def usage(command: str, param: Any, flag: bool) -> Iterator[Case]:
    """Values that are missing, given to a flag, or given twice; options misspelt."""
    good = [*command.split(), *GOOD[command]]
    option = param.opts[0]
    if flag:
        yield Case("a flag with a value", [*good, f"{option}=yes"], True, (option, "value"))
    else:
        yield Case("a missing value", [*good, option], True, (option,))
        if command not in LONG_RUNNING:
            yield Case("given twice", [*good, option, "nosuch", option, "0"])
    yield Case("a misspelt option", [*good, f"{option}x", "1"], True, (f"{option}x",))
    yield Case("an option in capitals", [*good, option.upper(), "1"], True, (option.upper(), "No such"))


def unusual() -> Iterator[Case]:
    """Commands that do not exist, too many arguments, options that do not go together."""
    for name in ("nosuch", "-", "--", "--nosuch", "-x", "\x1b[31m", "‮", "x" * 5000, "ru", "RUN", "run evaluate", "[bold]"):
        for group in ([], ["cache"]):
            yield Case("unknown commands", [*group, name], name != "--")  # with nothing behind it, the help is shown
    for command in GOOD:
        yield Case(
            "too many arguments", [*command.split(), *GOOD[command], "a", "\x1b[31mb"], command not in ("sweep", "reproduce")
        )
        yield Case("help", [*command.split(), "--help"])
        yield Case("an unknown option", [*command.split(), *GOOD[command], "--\x1b[31mx"], True, ("No such option",))
        yield Case("an unknown letter", [*command.split(), *GOOD[command], "-Z"], True, ("-Z",))
    make = ["evaluate", "pond.py:make", "--steps", "50"]
    together = [
        ["--seed", "3", "--seeds", "2"],
        ["--learner", "ExpectedSarsa", "--until", "0.1"],
        ["--behaviour", "Blend"],
        ["--learner", "Deep", "--behaviour", "OptimalDesign"],
        ["--where", "99"],
        ["--until", "decided", "--where", "0"],
        ["--questions", "questions.toml", "--until", "decided", "--where", "1"],
        ["--evaluate-every", "50", "--save", "folder"],
        ["--json", "a.json", "--steps", "0"],
        ["--save", "new/deep/a.gvfx", "--report", "other/b.html", "--behaviour", "nosuch"],
        ["--checkpoint", "new/deep", "--learner", "nosuch"],
        ["--track", "new.jsonl", "--learner", "nosuch"],
        ["--track", "new.jsonl", "--where", "99"],
        ["--save", "a.gvfx", "--track", "new/deep/a.jsonl", "--audit", "0.5", "--where", "99"],
    ]
    for options in together:
        yield Case("options that do not go together", [*make, *options], True)
    for options in (["--every", "5", "--evaluate-every", "10"], ["--preset", "stabilised"], ["--calibrate", "--until", "1e-3"]):
        yield Case("options that may go together", ["run", "same", "--steps", "50", "--seeds", "1", "--workers", "1", *options])
    for more in (
        ["--workers", "2"],
        ["--json", "out.json", "--save", "out.json"],
        ["--json", "-", "--report", "-"],
        ["--save", "pond.py"],
    ):
        yield Case("options that may go together", [*make, *more])


def targets() -> Iterator[Case]:
    """Files of one's own that are broken."""
    forms = {name: POND + f"\ndef make():\n    {body}\n" for name, body in BODIES.items()} | SOURCES
    for (name, text), command in product(forms.items(), ("evaluate", "check", "truth", "plan", "report")):
        target = random.Random(name + command).choice(["pond.py:make", "pond:make", "pond.py"])
        good = [target if a == "pond.py:make" else a for a in GOOD[command]]
        # other findings of `check` than errors are warnings; `truth` needs no signals of states that it does not meet
        yield Case(f"target: {name}", [command, *good], name not in MAY_WORK, (), {"pond.py": text})
    for command in ("evaluate", "check"):
        yield Case("target: prints", [command, *GOOD[command]], files={"pond.py": PRINTING})


MAY_WORK = ("a weight below 0 ", "an environment without questions", "no questions", "other bytes")


def files() -> Iterator[Case]:
    """Broken files of questions and logs."""
    lake = ["evaluate", "FrozenLake-v1", "--questions", "questions.toml", "--steps", "50"]
    for k, (what, text) in enumerate(broken_questions.questions()):
        trust = ["--trust"] * (k % 3 == 0)
        words = (*what.partition(" = ")[0].split(".")[:2], "questions") if " = " in what else ()
        yield Case(
            "questions.toml",
            [*lake, *trust],
            not broken_questions.is_good(what),
            words,
            {"questions.toml": text},
            env={"what": what},
        )
    for what, text, refused in broken_questions.logs():
        yield Case("log.csv", ["log", *GOOD["log"]], refused, ("log", what.split()[0]), {"log.csv": text}, env={"what": what})


def surroundings() -> Iterator[Case]:
    """Senseless variables, streams that are closed or full, folders that may not be written."""
    few = [
        ["list"],
        ["cache", "show"],
        ["run", *GOOD["run"]],
        ["check", *GOOD["check"]],
        ["evaluate", *GOOD["evaluate"]],
        ["--help"],
    ]
    places = ["nosuch/deep", "file", "/dev/null", "/proc/nope", "x" * 5000, "\x1b[31m", "loop", "~nosuch/x", "pipe", "\udcff"]
    variables = [{"GVFX_CACHE_DIR": place} for place in places]
    variables += [{"COLUMNS": size} for size in ("0", "-5", "x", "²", "1", "3", "99999999999", "1e3")]
    variables += [{"TERM": name} for name in ("nosuch", "\x1b", "dumb")] + [
        {"NO_COLOR": ""},
        {"FORCE_COLOR": "x"},
        {"HOME": "/nosuch"},
    ]
    variables += [{"TERMINAL_WIDTH": "x"}, {"LINES": "x"}, {"XDG_CACHE_HOME": "file"}, {"TMPDIR": "/nosuch"}]
    for env, arguments in product(variables, few):
        if arguments[0] in ("run", "evaluate") and env.get("GVFX_CACHE_DIR", "file") != "file":
            continue  # they compile, which takes seconds: once is enough
        yield Case("variables", arguments, env=env, before=lambda env=env: os.environ.update(env))
    for encoding, arguments in product(("ascii", "latin-1", "cp1252", "koi8-r"), few):
        yield Case(
            "encodings", arguments, env={"encoding": encoding}, before=lambda e=encoding: sys.stdout.reconfigure(encoding=e)
        )
    for env in (
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "LANG": "C"},
        {"PYTHONIOENCODING": "ascii:strict", "COLUMNS": "²"},
    ):
        yield Case("encodings", ["list"], env=env, shell=">all.txt")
    for shell in (">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "2>/dev/full", "| true", "| head -c 1"):
        yield Case("streams", ["list"], shell=shell)
        yield Case("streams", ["run", "nosuch"], shell=shell)
    for arguments in few:
        yield Case("streams", arguments, before=lambda: setattr(sys, "stdout", None))
    for option in ("--json", "--save", "--report", "--checkpoint"):
        for path in ("locked/a", "locked/new/a", "read-only", "locked"):
            yield Case("no permission", ["evaluate", *GOOD["evaluate"], option, path], True, (option,), before=without_privileges)
    for command, argument in (
        ("init", "locked/a.py"),
        ("report", "secret"),
        ("log", "secret.csv"),
        ("evaluate", "secret.py:make"),
    ):
        good = ["--questions", "questions.toml"] if command == "log" else []
        yield Case("no permission", [command, argument, *good], True, before=without_privileges)


def without_privileges() -> None:
    """Let the permissions of files count for root too: give up all capabilities (Linux)."""
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")


def furnish(folder: Path, case: Case) -> None:
    """The files that command lines name."""
    (folder / "folder").mkdir()
    (folder / "folder.csv").mkdir()
    kept = {"pond.py": POND, "questions.toml": QUESTIONS, "log.csv": written(COLUMNS, ROWS), "file": "x", "old.x": "old"}
    kept |= {"empty": "", "empty.csv": "", "bytes": "\x80\udcff\x00", "bytes.csv": "\udcff\x00", "bytes.parquet": "\x00"}
    for name, text in (kept | case.files).items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    for name in ("pipe", "pipe.csv", "pipe.py"):
        os.mkfifo(folder / name)
    for name, aim in (("loop", "loop"), ("loop.csv", "loop.csv"), ("link", "old.x"), ("link-folder", "folder")):
        (folder / name).symlink_to(aim)
    if case.kind == "no permission":
        (folder / "locked").mkdir(mode=0o555)
        for name in ("read-only", "secret", "secret.csv", "secret.py"):
            (folder / name).write_text("x")
            (folder / name).chmod(0o444 if name == "read-only" else 0)


def held(folder: Path) -> dict[str, int]:
    """The files and folders below a folder, with their sizes."""
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts and not path.name.startswith(".faults-"))
    return {str(path.relative_to(folder)): path.lstat().st_size if path.is_file() else -1 for path in found}


def tried(case: Case, folder: Path) -> Ended:
    if not case.shell:
        return forked(*case.arguments, cwd=folder, timeout=LIMIT, before=case.before)
    call = " ".join(["exec" * ("|" not in case.shell), '"$0" -m gvfx "$@"', case.shell])
    env = {**os.environ, **case.env}
    done = subprocess.run(
        ["sh", "-c", call, sys.executable, *case.arguments], cwd=folder, env=env, capture_output=True, timeout=60
    )
    (folder / "all.txt").unlink(missing_ok=True)
    return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), 0.0)


def complaint(case: Case, ended: Ended, before: dict[str, int], after: dict[str, int]) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    said = ended.err + (ended.out if case.arguments[0] == "check" else "")  # findings are the output of `check`
    if ended.code is None:
        return f"hangs for more than {LIMIT:g} s"
    if ended.traceback or "Error: " in ended.err.split("gvfx: ")[0] or "Exception ignored" in ended.err:
        return "a traceback"
    if ended.code not in (0, 1, 2):
        return f"exit code {ended.code}"
    if ended.code == 0 and case.refused:
        return "was accepted"
    if ended.code and not said.strip() and "2>" not in case.shell and "|" not in case.shell:
        return "no sentence"
    if ended.code == 2 and case.words and not any(word in re.sub(r"\s*│\s*", "", said) for word in case.words):
        return f"names none of {', '.join(case.words)}"
    if ended.code == 2 and before != after and "no Dask scheduler responds" not in said:  # the experiments are described already
        return f"left behind: {sorted(set(after.items()) ^ set(before.items()))[:5]}"
    if any(name.endswith(".tmp") for name in after):
        return f"left behind: {[name for name in after if name.endswith('.tmp')]}"
    seen = COLOURS.sub("", ended.out + said) if "FORCE_COLOR" in case.env else ended.out + said
    if CONTROLS.search(seen) and case.files.get("pond.py") != PRINTING:  # whose own output it is
        return "a control character in what is printed"
    return ""


def cases(chosen: random.Random) -> list[Case]:
    """All of them, shuffled; a broken file of each kind comes before a second one."""
    found = [*values(), *unusual(), *targets(), *files(), *surroundings()]
    chosen.shuffle(found)
    return found


def run(trials: Trials) -> None:
    warm_up()
    with redirect_stderr(io.StringIO()):
        for command in ("run", "evaluate", "report"):  # imports what they need
            app([command, "nosuch"], standalone_mode=False)
    for case in cases(trials.random):
        if trials.done:
            break
        with trials.scratch() as folder:
            furnish(folder, case)
            before = held(folder)
            ended = tried(case, folder)
            wrong = complaint(case, ended, before, held(folder))
            detail = f"{wrong}: {case}\nexit code {ended.code} after {ended.seconds:.1f} s: {ended.out[-300:]}{ended.err[-1200:]}"
            trials.check(case.kind.partition(":")[0], not wrong, detail)
