"""What XLA compiles, kept on disk between processes.

JAX computes the keys of its persistent cache, but writes files in place, so that a killed process leaves half a file.  Its
entries are therefore kept in the folder for compiled code, under keys that also name the CPU.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
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


# --- XLA on the CPU: one thread per process, because seeds run in parallel and results must not depend on threads ---

FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


@cache
def start_jax() -> None:
    """Start JAX with one thread, unless it is running already or XLA_FLAGS is set; what it compiles is kept on disk."""
    keep_networks()
    if "XLA_FLAGS" in os.environ:
        return
    os.environ["XLA_FLAGS"] = FLAGS
    try:
        jax.local_devices()  # XLA reads its flags now, and only once
    finally:
        del os.environ["XLA_FLAGS"]


def named_keys(seed: int, streams: Iterable[str]) -> jax.Array:
    """One key per named stream, from the seed and the stream's name alone."""
    return jnp.stack([jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode())) for name in streams])
