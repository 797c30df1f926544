"""Named random streams from one seed.

A stream is two 64-bit words (xoroshiro128+), derived from the seed and the stream's *name*, so that adding a stream never changes
the others.  The functions also run as plain Python (``uniform.py_func``).
"""

from __future__ import annotations

import math
import zlib

import numpy as np

from gvfx.compilation.loops import inlined, stored

ENVIRONMENT, BEHAVIOUR, CUMULANTS, DRIFT, REPLAY = range(5)
NAMES = ("environment", "behaviour", "cumulants", "drift", "replay")


def seed_streams(seed: int) -> np.ndarray:
    """The streams' initial words for a seed, uint64 [stream, 2]."""
    rows = [np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),)).generate_state(2, np.uint64) for name in NAMES]
    return np.array(rows)


@inlined(callable=True, inline="always")
def uniform(rng, stream):
    """One draw from [0, 1) of a stream; advances rng[stream] in place (xoroshiro128+)."""
    x = rng[stream, 0]
    y = rng[stream, 1]
    out = x + y
    y ^= x
    rng[stream, 0] = ((x << np.uint64(24)) | (x >> np.uint64(40))) ^ y ^ (y << np.uint64(16))
    rng[stream, 1] = (y << np.uint64(37)) | (y >> np.uint64(27))
    return np.int64(out >> np.uint64(11)) * 1.1102230246251565e-16


@inlined(callable=True)
def normal(rng, stream):
    """One standard normal draw (Box-Muller, two uniforms)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(rng, stream)))
    return radius * math.cos(2.0 * math.pi * uniform(rng, stream))


@inlined(callable=True, inline="always")
def choose(mu, actions, u):
    """Index drawn from the probabilities mu[actions] with a uniform u, without branches."""
    cumulative = 0.0
    index = 0
    for a in range(actions - 1):
        cumulative += mu[a]
        index += u >= cumulative
    return index


@inlined(callable=True, inline="always")
def alias_draw(threshold, other, row, size, u):
    """Index drawn by the alias method from row `row` of the tables (threshold, other), each [row, size]."""
    scaled = u * size
    j = int(scaled) & 0x7FFFFFFF
    alias = other[row, j]
    return (alias + (scaled - j < threshold[row, j]) * (j - alias)) & 0x7FFFFFFF


def alias_tables(prob: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker/Vose alias tables of the rows of prob [row, size], each row summing to one."""
    rows, size = prob.shape
    threshold = np.ones((rows, size))
    other = np.tile(np.arange(size, dtype=np.int32), (rows, 1))
    _fill_alias(prob * size, threshold, other)
    return threshold, other


@stored()
def _fill_alias(scaled, threshold, other):
    rows, size = scaled.shape
    small = np.empty(size, np.int32)
    large = np.empty(size, np.int32)
    for r in range(rows):
        n_small = 0
        n_large = 0
        for j in range(size):
            if scaled[r, j] < 1.0:
                small[n_small] = j
                n_small += 1
            else:
                large[n_large] = j
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            low = small[n_small]
            high = large[n_large - 1]
            threshold[r, low] = scaled[r, low]
            other[r, low] = high
            scaled[r, high] -= 1.0 - scaled[r, low]
            if scaled[r, high] < 1.0:
                n_large -= 1
                small[n_small] = high
                n_small += 1
