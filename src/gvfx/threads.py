"""One thread for linear algebra, so that results do not depend on the number of cores: sums in another order give other digits.

OpenBLAS (of the wheels of NumPy and SciPy, or of the system), MKL and BLIS have a function that sets the number.  Accelerate
(NumPy on macOS) has none: set VECLIB_MAXIMUM_THREADS=1 there before Python starts.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import scipy

OPENBLAS = [
    (f"{prefix}_get_num_threads{suffix}", f"{prefix}_set_num_threads{suffix}")
    for prefix in ("scipy_openblas", "openblas")
    for suffix in ("64_", "")
]
MKL, BLIS = [("MKL_Get_Max_Threads", "MKL_Set_Num_Threads")], [("bli_thread_get_num_threads", "bli_thread_set_num_threads")]
OF_THE_SYSTEM = {  # used if it is loaded already
    "libopenblas.so.0": OPENBLAS,
    "libopenblas64_.so.0": OPENBLAS,
    "libmkl_rt.so.1": MKL,
    "libmkl_rt.so.2": MKL,
    "libblis.so.4": BLIS,
}
Control = tuple[Callable[[], int], Callable[[int], None]]  # reads and sets the number of threads
_lock = threading.Lock()
_inside = 0  # blocks under way
_before: list[int] = []  # numbers of threads before the first of them


@cache
def _controls() -> list[Control]:
    """The functions that read and set the number of threads, of every library for linear algebra that NumPy or SciPy uses."""
    found = []
    for package in (np, scipy):
        home = Path(str(package.__file__)).resolve().parent
        for folder in (home.with_name(f"{package.__name__}.libs"), home / ".dylibs"):
            for path in sorted(folder.glob("*openblas*")):
                found += _in_library(ctypes.CDLL(str(path)), OPENBLAS)
    if hasattr(os, "RTLD_NOLOAD"):
        for name, functions in OF_THE_SYSTEM.items():
            try:
                found += _in_library(ctypes.CDLL(name, mode=os.RTLD_NOLOAD), functions)
            except OSError:
                continue
    return found


def _in_library(library: ctypes.CDLL, functions: list[tuple[str, str]]) -> list[Control]:
    return [(getattr(library, read), getattr(library, change)) for read, change in functions if hasattr(library, change)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra on one thread inside the block, in all threads of the process; also a decorator."""
    global _inside
    with _lock:
        if not _inside:
            _before[:] = [read() for read, _ in _controls()]
            for _, change in _controls():
                change(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                for (_, change), number in zip(_controls(), _before, strict=True):
                    change(number)
