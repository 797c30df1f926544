"""What XLA compiles, kept on disk between processes.

JAX has a persistent cache and computes its keys (the program, its options, the versions); it writes its files in place, so a
killed process would leave half a file that JAX never replaces.  Its entries are therefore kept in the folder for compiled
code, where they are checksummed and renamed into place, under keys that also name the CPU.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import jax
from jax._src import compilation_cache
from llvmlite import binding

from gvfx.compilation import folder

KIND = "network"


class NetworkCache:
    """JAX's interface of a cache, on the folder for compiled code."""

    def __init__(self, place: folder.Folder) -> None:
        self._path, self._place = place.path, place

    def get(self, key: str) -> bytes | None:
        return self._place.read(_on_this_cpu(key), KIND)

    def put(self, key: str, value: bytes) -> None:
        self._place.write(_on_this_cpu(key), KIND, value)


@cache
def keep_networks() -> None:
    """Make JAX keep what it compiles, unless its user has chosen a folder for that (jax_compilation_cache_dir)."""
    place = folder.current()
    make_cache = getattr(compilation_cache, "get_file_cache", None)
    if place is None or make_cache is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return

    def get_file_cache(path: str) -> Any:
        return (NetworkCache(place), path) if path == str(place.path) else make_cache(path)

    compilation_cache.get_file_cache = get_file_cache
    jax.config.update("jax_compilation_cache_dir", str(place.path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _on_this_cpu(key: str) -> str:
    return hashlib.sha256(f"{key} {_cpu()}".encode()).hexdigest()


@cache
def _cpu() -> str:
    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
