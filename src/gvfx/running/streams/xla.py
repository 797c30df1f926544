"""XLA on the CPU: one thread per process, because seeds run in parallel and results must not depend on threads."""

from __future__ import annotations

import os
from functools import cache

import jax

from gvfx.compilation.networks import keep_networks

FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


@cache
def start_jax() -> None:
    """Start JAX with one thread, unless it is already running or XLA_FLAGS is set; what it compiles is kept on disk.

    Environment variables are restored.
    """
    keep_networks()
    if "XLA_FLAGS" in os.environ:
        return
    os.environ["XLA_FLAGS"] = FLAGS
    try:
        jax.local_devices()  # XLA reads its flags now, and only once
    finally:
        del os.environ["XLA_FLAGS"]
