"""Every command without a network: none tries to reach one, and none needs it."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

from faults.malformed import COLUMNS, POND, QUESTIONS, ROWS, written
from faults.processes import called, forked, warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 18, 6, 30
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
FORBIDDEN = ("connect", "bind", "getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo", "sendto", "sendmsg")
TRIED = 99  # exit code of a command that tried to reach the network
SAVED = ["evaluate", "pond.py:make", "--steps", "200", "--save", "a.gvfx", "--report", "a.html", "--track", "a.jsonl"]
COMMANDS: list[list[str]] = [
    ["--help"],
    SAVED,
    ["run", "same", "--steps", "200", "--seeds", "2", "--workers", "1", "--json", "run.json"],
    ["log", "log.csv", "--questions", "questions.toml", "--report", "log.html"],
    ["plan", "distinct", "--error", "0.05"],
    ["report", "a.gvfx", "--out", "b.html"],
    ["reproduce", "forty-goals", "cumulants", "--results", "results"],
    ["report", "results"],
    ["run", "same", "--steps", "200", "--seeds", "2", "--workers", "2"],
    ["demo", "--steps", "200", "--seeds", "1", "--workers", "1", "--no-picture"],
    ["check", "pond.py:make", "--steps", "50"],
    ["truth", "pond.py:make", "--max-episodes", "20"],
    ["evaluate", "FrozenLake-v1", "--questions", "questions.toml", "--steps", "200", "--until", "decided"],
    ["list"],
    ["init"],
    ["cache", "show"],
    ["reproduce", "variance", "--seeds", "1", "--workers", "1", "--results", "results"],
]


def forbid() -> None:
    """End this process when it looks a name up or connects to a host; take away its network where that is allowed."""
    sys.addaudithook(_hook)
    ctypes.CDLL(None).unshare(NEW_NETWORK)


def _hook(event: str, given: tuple[object, ...]) -> None:
    kind, _, what = event.partition(".")
    local = event in ("socket.connect", "socket.bind") and isinstance(given[1], str | bytes)  # a socket in the file system
    if (kind == "socket" and what in FORBIDDEN and not local) or event == "urllib.Request":
        os.write(2, f"tried to reach the network: {event} {given[1:]}\n".encode())
        os._exit(TRIED)


def outside(folder: Path) -> list[str]:
    """What the pages in a folder would ask other hosts for."""
    asks = re.compile(r"(?:src|href)\s*=\s*[\"']?\w+://|url\(\s*[\"']?\w+://|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon")
    return [
        f"{page.name}: {found}" for page in folder.rglob("*.html") for found in asks.findall(page.read_text(encoding="utf-8"))
    ]


def lookup() -> None:
    """What must be noticed."""
    import socket

    forbid()
    socket.create_connection(("example.invalid", 80), timeout=1)


def run(trials: Trials) -> None:
    warm_up()
    with trials.scratch() as folder:
        ended = called(lookup, cwd=folder)
        trials.check("the check itself", ended.code == TRIED, f"a connection was not noticed: {ended}")
        for name, text in (("pond.py", POND), ("questions.toml", QUESTIONS), ("log.csv", written(COLUMNS, ROWS))):
            (folder / name).write_text(text)
        for command in COMMANDS:
            if trials.done:
                break
            ended = forked(*command, cwd=folder, before=forbid, timeout=120)
            trials.check(command[0], ended.code == 0, f"gvfx {' '.join(command)}: {ended}")
        pages = outside(folder)
        if pages:
            trials.failed("pages", "; ".join(pages))
