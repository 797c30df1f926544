"""Faults in file operations of this process: the k-th one below a folder fails with an error, or kills the process.

The operations are intercepted by a small library (shim.c) that must be loaded with LD_PRELOAD (`preloaded`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

KINDS = {"open": 1, "write": 2, "fsync": 4, "rename": 8, "mkdir": 16, "lock": 32, "unlink": 64}
KILL = 0  # in the place of an errno
CHANGES = ("open", "write", "fsync", "rename", "mkdir")


def built(folder: Path) -> Path:
    """The library, compiled into a folder."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("faults: a C compiler is needed to intercept file operations; install gcc or clang.")
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def preloaded(folder: Path) -> dict[str, str]:
    """The environment of a process whose file operations can be made to fail."""
    return {**os.environ, "LD_PRELOAD": str(built(folder))}


def arm(folder: Path | str, k: int, error: int = KILL, lasting: bool = False, kinds: tuple[str, ...] = CHANGES) -> None:
    """From now on the k-th operation of these kinds below the folder fails with this errno, or kills the process.

    lasting: whether all later ones fail too, as on a full disk.
    """
    _shim().faults_arm(str(Path(folder).absolute()).encode(), k, error, int(lasting), sum(KINDS[kind] for kind in kinds))


def count() -> int:
    """How many operations there have been since `arm`; k = 0 only counts."""
    return int(_shim().faults_count())


def disarm() -> None:
    """Let all operations through again."""
    _shim().faults_disarm()


def _shim() -> ctypes.CDLL:
    shim = ctypes.CDLL(None)
    if not hasattr(shim, "faults_arm"):
        raise RuntimeError("this process was started without the library: see `preloaded`")
    shim.faults_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    shim.faults_count.restype = ctypes.c_long
    return shim
