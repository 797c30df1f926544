"""One thread for linear algebra, so that results do not depend on the number of cores.

OpenBLAS splits a product by the number of its threads, and sums in another order give other last digits.  NumPy and SciPy
bring their own copies of the library, each with a function that sets the number; with another library nothing is changed.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import scipy

PREFIXES, SUFFIXES = ("scipy_openblas", "openblas"), ("64_", "")
_lock = threading.Lock()
_inside = 0  # blocks under way
_before: list[int] = []  # numbers of threads before the first of them


@cache
def _controls() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """The functions that read and set the number of threads, of every copy of OpenBLAS that is loaded."""
    found = []
    for package in (np, scipy):
        folder = Path(str(package.__file__)).resolve().parents[1] / f"{package.__name__}.libs"
        for path in sorted(folder.glob("*openblas*")):
            library = ctypes.CDLL(str(path))
            for prefix in PREFIXES:
                for suffix in SUFFIXES:
                    read = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                    change = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                    if read is not None and change is not None:
                        found.append((read, change))
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra on one thread inside the block, in all threads of the process; the number before is restored after it."""
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
