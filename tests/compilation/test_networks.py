"""Compiled networks on disk: a second process compiles nothing and computes the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

from gvfx.compilation.folder import Folder

PROGRAM = """
import sys
import jax, jax.numpy as jnp
from gvfx.compilation.networks import keep_networks
if len(sys.argv) > 2:
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
keep_networks()
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name.rpartition("/")[2]))
factor = float(sys.argv[1])
out = jax.jit(lambda x: jnp.tanh(factor * x @ x.T).sum())(jnp.arange(6.0).reshape(2, 3) / 10)
print(float(out).hex(), events.count("cache_hits"), events.count("cache_misses"))
"""


def run(place, *arguments):
    env = {**os.environ, "GVFX_CACHE_DIR": str(place)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, env=env)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    value, hits, misses = done.stdout.split()
    return value, int(hits), int(misses)


def test_a_second_start_compiles_nothing(tmp_path):
    place = Folder(tmp_path / "cache")
    value, hits, misses = run(place.path, "2")
    assert hits == 0 and misses > 0
    assert {entry.path.suffix for entry in place.entries()} == {".network"}
    assert run(place.path, "2") == (value, misses, 0)

    other, _, changed = run(place.path, "3")  # another constant
    assert other != value and changed > 0

    for entry in place.entries():
        raw = bytearray(entry.path.read_bytes())
        raw[-1] ^= 1
        entry.path.write_bytes(raw)
    assert run(place.path, "2") == (value, 0, misses)


def test_a_folder_chosen_for_jax_is_kept(tmp_path):
    run(tmp_path / "cache", "2", str(tmp_path / "chosen"))
    assert Folder(tmp_path / "cache").entries() == []
