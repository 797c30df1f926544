"""Ways to damage files: at random, or on purpose with a checksum that is right."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from gvfx.tensors import pack, unpack

# --- at random -------------------------------------------------------------------------------------------------------


def flipped(raw: bytes, rng: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw))]


def zeroed(raw: bytes, rng: random.Random) -> bytes:
    low = rng.randrange(len(raw))
    high = min(len(raw), low + rng.choice((1, 16, 512, 4096)))
    return raw[:low] + bytes(high - low) + raw[high:]


def appended(raw: bytes, rng: random.Random) -> bytes:
    return raw + rng.randbytes(rng.choice((1, 8, 1000)))


def moved(raw: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(raw))
    return raw[:at] + rng.randbytes(rng.choice((1, 8))) + raw[at:]


def lying(raw: bytes, rng: random.Random) -> bytes:
    """Another size of the header."""
    (size,) = struct.unpack("<Q", raw[:8].ljust(8, b"\0"))
    told = rng.choice((0, 1, size - 1, size + 1, size + 8, size // 2, 2**31, 2**40, 2**63, 2**64 - 1))
    return struct.pack("<Q", told % 2**64) + raw[8:]


RANDOM: dict[str, Callable[[bytes, random.Random], bytes]] = {
    f.__name__: f for f in (flipped, cut, zeroed, appended, moved, lying)
}

# --- with a right checksum -------------------------------------------------------------------------------------------


def crafted(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The file with one array or one entry of its metadata dropped, renamed, of another type, shape or text."""
    arrays, metadata = unpack(raw)
    for name, array in arrays.items():
        others = {k: v for k, v in arrays.items() if k != name}
        yield f"drop {name}", pack(others, metadata)
        yield f"rename {name}", pack({**others, f"{name}x": array}, metadata)
        for what, new in altered(array):
            yield f"{what} {name}", pack({**others, name: new}, metadata)
    for name, text in metadata.items():
        rest = {k: v for k, v in metadata.items() if k != name}
        yield f"drop metadata {name}", pack(arrays, rest)
        yield f"rename metadata {name}", pack(arrays, {**rest, f"{name}x": text})
        for new in ("", "7", "null", "[]", "{}", "[" * 5000, text[:-1], f"{text}0"):
            yield f"metadata {name} = {new[:20]!r}", pack(arrays, {**rest, name: new})
        for what, new in described(text):
            yield f"metadata {name}: {what}", pack(arrays, {**rest, name: new})
    yield "no arrays", pack({}, metadata)
    yield "one more array", pack({**arrays, "more": np.zeros(3)}, metadata)


def altered(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """An array of another type or shape with the same numbers, or fewer."""
    with np.errstate(invalid="ignore"):
        yield "retype", array.astype(np.int64 if array.dtype.kind == "f" else np.float64)
        yield "truth values of", array.astype(bool) if array.dtype.kind != "b" else array.astype(np.int32)
    yield "wrap", array[None]
    yield "flatten", array.ravel() if array.ndim != 1 else array.reshape(-1, 1)
    yield "empty", array.ravel()[:0]
    if array.ndim > 1 and len({*array.shape}) > 1:
        yield "transpose", np.ascontiguousarray(array.T)
    for axis in range(array.ndim):
        if array.shape[axis]:
            yield f"shorten axis {axis} of", np.ascontiguousarray(np.delete(array, -1, axis))
        yield f"lengthen axis {axis} of", np.concatenate([array, array[tuple([slice(None)] * axis + [slice(0, 1)])]], axis)


def described(text: str) -> Iterator[tuple[str, str]]:
    """A text of JSON with one entry dropped or replaced, at any depth up to two."""
    try:
        data = json.loads(text)
    except ValueError:
        return
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        yield f"drop {key}", json.dumps({k: v for k, v in data.items() if k != key})
        for new in (None, 7, "x", [], {}, [[]], {"a": 1}, -1.5):
            if new != value:
                yield f"{key} = {new!r}", json.dumps({**data, key: new})
        if isinstance(value, dict):
            for inner, changed in described(json.dumps(value)):
                yield f"{key}: {inner}", json.dumps({**data, key: json.loads(changed)})


def bombs(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Files whose headers ask for too much, or for what is not there."""

    def of(header: str, data: bytes = b"") -> bytes:
        return struct.pack("<Q", len(header)) + header.encode() + data

    entry = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}

    def with_entry(data: bytes = bytes(8), **changes: object) -> bytes:
        return of(json.dumps({"a": {**entry, **changes}, "__metadata__": {"sha256": "0"}}), data)

    yield "nothing", b""
    yield "nested lists", of("[" * 200_000)
    yield "nested tables", of('{"a":' * 100_000)
    yield "a number of a million digits", of("1" * 1_000_000)
    yield "a header of spaces", of(" " * 5_000_000)
    yield "a header that is a list", of("[]")
    yield "a header without metadata", of("{}")
    yield "metadata that is a list", of('{"__metadata__": []}')
    yield "a checksum that is a table", of('{"__metadata__": {"sha256": {}}}')
    yield "a shape beyond memory", with_entry(shape=[2**62, 2**62])
    yield "a negative shape", with_entry(shape=[-1])
    yield "offsets beyond the end", with_entry(data_offsets=[0, 2**60])
    yield "negative offsets", with_entry(data_offsets=[-8, 0])
    yield "offsets that are text", with_entry(data_offsets=["0", "8"])
    yield "one offset", with_entry(data_offsets=[0])
    yield "an unknown type", with_entry(dtype="F8")
    yield "no dtype", of('{"a": 5, "__metadata__": {"sha256": "0"}}')
    yield "not text", struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc"
    yield "JSON alone", json.dumps({"seed": 1}).encode()
    yield "twice", raw + raw


# --- what is no file ---------------------------------------------------------------------------------------------------


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 * 2**30)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _filled(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("x")


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a folder with a file": _filled,
    "a pipe": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "a link to a folder": lambda path: path.symlink_to("/tmp"),
    "40 GB of nothing": _sparse,
    "a socket": _socket,
}
LONGER = "itself and 40 GB of nothing"


def replace(path: Path, kind: str) -> None:
    """Put what is no file in the place of a file; or the file with a long end."""
    if kind == LONGER:
        with path.open("r+b") as file:
            file.truncate(40 * 2**30)
        return
    path.unlink(missing_ok=True)
    IRREGULAR[kind](path)
