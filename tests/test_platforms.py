"""Modules that POSIX alone has are hidden: everything can still be imported, files are locked, and what is missing says so."""

from __future__ import annotations

import subprocess
import sys

from gvfx.compilation.folder import unsafe
from gvfx.locks import lock

HIDDEN = ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "posix", "readline")
NAMES = ("fork", "forkpty", "geteuid", "getuid", "getegid", "getgid", "getppid", "sched_getaffinity", "uname", "killpg", "setsid")
ELSEWHERE = """
import importlib, os, pkgutil, signal, sys, types
import concurrent.futures, ctypes, distributed, equinox, gymnasium, jax, matplotlib.pyplot, multiprocessing.connection, mujoco
import numba, numba.core.compiler, numpy, optax, rich.progress, scipy.sparse.linalg, tempfile, typer, typer.core

for name in {hidden!r}:
    sys.modules[name] = None
for name in {names!r}:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "setitimer", "alarm"):
    if hasattr(signal, name):
        delattr(signal, name)
held = set()

def locking(handle, mode, size):
    file = os.fstat(handle).st_ino
    if file in held:
        raise PermissionError(13, "Permission denied")
    held.add(file)

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)

import gvfx

found = [m.name for m in pkgutil.walk_packages(gvfx.__path__, "gvfx.") if not m.name.endswith("__main__")]
for name in found:
    importlib.import_module(name)
print(len(found))
"""


def elsewhere(code: str, *arguments: str) -> str:
    """What a program prints that begins by hiding what POSIX alone has."""
    program = ELSEWHERE.format(hidden=HIDDEN, names=NAMES) + code
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


USED = """
from pathlib import Path
from benchmarks.study import peak_megabytes
from gvfx.compilation.folder import unsafe
from gvfx.locks import lock

place = Path(sys.argv[1]) / "deep" / "a.claim"
first = lock(place)
print(lock(place), place.exists())
held.clear()  # Windows forgets the lock when the file is closed
first.release()
print(place.exists(), lock(place) is not None)
try:
    peak_megabytes()
except gvfx.InputError as error:
    print(error)
Path.home = classmethod(lambda cls: Path(sys.argv[1]))
print(repr(unsafe(place.parent)), repr(unsafe(Path("/"))))
"""


def test_every_module_can_be_imported_and_used_without_posix(tmp_path):
    number, taken, freed, said, folders = elsewhere(USED, str(tmp_path)).splitlines()
    assert int(number) > 120
    assert (taken, freed) == ("None True", "False True")
    assert said == "bench: the peak of memory is told by POSIX systems alone; run it on Linux or macOS."
    assert folders == "'' 'it is outside your own folders'"


def test_a_lock_is_exclusive_and_leaves_no_file(tmp_path):
    held = lock(tmp_path / "a.claim")
    assert held is not None and lock(tmp_path / "a.claim") is None
    held.release()
    assert not any(tmp_path.iterdir())
    again = lock(tmp_path / "a.claim")
    assert again is not None
    again.release()


def test_the_mode_of_a_folder_counts_on_posix(tmp_path):
    tmp_path.chmod(0o755)
    assert "other users may enter it" in unsafe(tmp_path)
