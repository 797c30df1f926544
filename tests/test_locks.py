"""Locks: the system's own, and files with a heartbeat where it has none."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from gvfx import locks
from gvfx.locks import lock, owner, remove_unheld


@pytest.fixture(params=["system", errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def kind(request, monkeypatch):
    """The system's locks, or a file system that has none."""
    if request.param != "system":

        def refuse(handle):
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr(locks, "_lock", refuse)
    return request.param


def test_a_lock_is_exclusive_says_who_has_it_and_leaves_no_file(kind, tmp_path):
    path = tmp_path / "deep" / "a.claim"
    held = lock(path)
    assert held is not None and lock(path) is None
    who = owner(path)
    assert (who.host, who.process) == (socket.gethostname(), os.getpid()) and abs(who.since - time.time()) < 60
    assert str(who).startswith(f"process {os.getpid()} on {socket.gethostname()} since 20")
    held.release()
    held.release()
    assert not [*path.parent.iterdir()] and owner(path) is None
    again = lock(path)
    assert again is not None
    again.release()


HOLD = """
import errno, sys, time
from pathlib import Path
from gvfx import locks

def refuse(handle):
    raise OSError(errno.ENOLCK, "No locks available")

if sys.argv[2] == "without":
    locks._lock = refuse
assert locks.lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["with", "without"])
def test_the_lock_of_a_killed_process_is_free_at_once(how, tmp_path, monkeypatch):
    if how == "without":
        monkeypatch.setattr(locks, "_lock", _no_locks)
    path = tmp_path / "a.claim"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path), how], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "held\n"
        assert lock(path) is None and owner(path).process == child.pid
        remove_unheld(path if how == "with" else path.with_name("a.claim.held"))
        assert lock(path) is None  # the lock of a living process is not swept up
        child.kill()
        child.wait()
    left = [*tmp_path.iterdir()]
    assert left
    for each in left:
        remove_unheld(each)
    assert not [*tmp_path.iterdir()]
    assert lock(path) is not None


def _no_locks(handle):
    raise OSError(errno.ENOLCK, "No locks available")


def test_without_locks_another_host_counts_as_dead_after_a_time_without_heartbeat(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_lock", _no_locks)
    path, held = tmp_path / "a.claim", tmp_path / "a.claim.held"
    held.write_text(json.dumps({"host": "elsewhere", "process": 1, "since": 0.0, "mark": "00000000-1-1"}))
    assert lock(path) is None
    os.utime(held, (time.time() - locks.GRACE - 5,) * 2)
    mine = lock(path)
    assert mine is not None and owner(path).process == os.getpid()
    mine.release()


@pytest.mark.parametrize("text", ["", "{", '{"host": 5}', "[]", "null"])
def test_without_locks_an_odd_file_counts_by_its_age(text, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_lock", _no_locks)
    held = tmp_path / "a.claim.held"
    held.write_text(text)
    assert lock(tmp_path / "a.claim") is None
    os.utime(held, (0, 0))
    assert lock(tmp_path / "a.claim") is not None


def test_without_locks_the_file_is_touched_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_lock", _no_locks)
    monkeypatch.setattr(locks, "BEAT", 0.02)
    mine, held = lock(tmp_path / "a.claim"), tmp_path / "a.claim.held"
    os.utime(held, (0, 0))
    deadline = time.time() + 60
    while held.stat().st_mtime < 1 and time.time() < deadline:
        time.sleep(0.01)
    assert held.stat().st_mtime > 1
    mine.release()
    assert not held.exists()


def test_a_lock_that_was_taken_over_is_not_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_lock", _no_locks)
    mine, held = lock(tmp_path / "a.claim"), tmp_path / "a.claim.held"
    held.unlink()
    held.write_text("another's")
    mine.release()
    assert held.read_text() == "another's"
