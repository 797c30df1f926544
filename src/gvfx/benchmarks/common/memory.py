"""The largest memory that this process has used."""

from __future__ import annotations

import sys
from types import ModuleType

from gvfx.errors import InputError

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None


def check_memory_known() -> None:
    """Refuse to measure memory where the system does not tell it."""
    if resource is None:
        raise InputError("bench: the peak of memory is told by POSIX systems alone; run it on Linux or macOS.")


def peak_megabytes() -> float:
    """The peak of the resident memory so far, in MB (1024 * 1024 bytes)."""
    check_memory_known()
    assert resource is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in kB; on macOS in bytes
    return float(peak) / (1024**2 if sys.platform == "darwin" else 1024)
