"""Named arrays as bytes: the safetensors layout plus a checksum, always the same bytes for the same arrays.

Eight bytes of header length, a JSON header (dtype, shape, offsets; `__metadata__` with a SHA-256 of the data), the
data.  Any safetensors reader opens it; `unpack` also detects a single flipped bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gvfx.errors import StoreError
from gvfx.files import LARGEST, Irregular, opened

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "BOOL": "|b1"}
NAMES = {np.dtype(text): name for name, text in DTYPES.items()}
LARGEST_HEADER = 100_000_000  # bytes, as in safetensors
MISTAKES = (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError)

Arrays = dict[str, np.ndarray]


class CorruptFile(StoreError):
    """A file whose bytes do not match its checksum, that is truncated, or whose contents do not fit what it is for."""


def damaged(name: str) -> CorruptFile:
    return CorruptFile(f"{name}: damaged (its checksum does not match, or it is truncated); delete it or restore it from a copy.")


def misfit(name: str, what: str) -> CorruptFile:
    """What is wrong with a file that is whole but does not hold what it should."""
    return CorruptFile(f"{name}: does not hold what it should ({what}); delete it or restore it from a copy.")


def pack(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The arrays and the metadata (text by name) as bytes."""
    header: dict[str, object] = {}
    chunks, offset = [], 0
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + len(raw)]}
        chunks.append(raw)
        offset += len(raw)
    data = b"".join(chunks)
    digest = _digest(header, metadata, data)
    text = json.dumps({**header, "__metadata__": {**metadata, "sha256": digest}}, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def unpack(raw: bytes, name: str = "file") -> tuple[Arrays, dict[str, str]]:
    """The arrays and the metadata; raises CorruptFile, which names the file."""
    try:
        (size,) = struct.unpack("<Q", raw[:8])
        header, metadata = _header(raw[8 : 8 + size] if size <= LARGEST_HEADER else b"", size)
        return _arrays(header, metadata, raw[8 + size :]), metadata
    except MISTAKES:
        raise damaged(name) from None


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """A CorruptFile in the place of what goes wrong while a file is read; OSError stays."""
    try:
        yield
    except Irregular as error:
        raise CorruptFile(f"{path}: cannot be read, it {error.strerror}; put a regular file in its place.") from None
    except MISTAKES:
        raise damaged(str(path)) from None


def read(path: Path, most: int = LARGEST) -> tuple[Arrays, dict[str, str]]:
    """The arrays and the metadata of a file, if its size is the one that its header promises; raises CorruptFile or OSError."""
    with _sentences(path), opened(path, most) as (file, available):
        header, metadata, promised = _header_of(file, available)
        return _arrays(header, metadata, file.read(promised + 1)), metadata


def read_one(path: Path, name: str) -> tuple[np.ndarray, dict[str, str]]:
    """One array and the metadata of a file that is known to be whole: without its checksum, which needs all of its bytes."""
    with _sentences(path), opened(path) as (file, available):
        header, metadata, promised = _header_of(file, available)
        entry, dtype = header[name], np.dtype(DTYPES[header[name]["dtype"]])
        (low, high), start = entry["data_offsets"], available - promised
        file.seek(start + low)
        del metadata["sha256"]
        return np.frombuffer(file.read(high - low), dtype).reshape(entry["shape"]), metadata


def _header_of(file: BinaryIO, available: int) -> tuple[dict[str, Any], dict[str, str], int]:
    """The header and the metadata of a file of a size, and how many bytes of data they promise; raises one of MISTAKES."""
    (size,) = struct.unpack("<Q", file.read(8))
    if size > min(LARGEST_HEADER, available):
        raise ValueError("size of the header")
    header, metadata = _header(file.read(size), size)
    promised = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if available != 8 + size + promised:
        raise ValueError("size")
    return header, metadata, promised


def _header(text: bytes, size: int) -> tuple[dict[str, Any], dict[str, str]]:
    """The descriptions of the arrays and the metadata; raises one of MISTAKES."""
    if len(text) != size:
        raise ValueError("header")
    header = json.loads(text)
    metadata = header.pop("__metadata__")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("metadata")
    return header, metadata


def _arrays(header: dict[str, Any], metadata: dict[str, str], data: bytes) -> Arrays:
    """The arrays, whose bytes follow each other without gaps; takes the checksum out of the metadata."""
    if _digest(header, metadata, data, metadata.pop("sha256")) is None:
        raise ValueError("checksum")
    arrays, end = {}, 0
    for key, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (low, high), shape, dtype = entry["data_offsets"], entry["shape"], np.dtype(DTYPES[entry["dtype"]])
        if not all(type(n) is int and n >= 0 for n in (low, high, *shape)):
            raise ValueError("offsets")
        if low != end or high - low != math.prod(shape) * dtype.itemsize or high > len(data):
            raise ValueError("offsets")
        array = np.frombuffer(data[low:high], dtype).reshape(shape)
        if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise ValueError("truth values")
        arrays[key], end = array, high
    if end != len(data):
        raise ValueError("size")
    return arrays


def _digest(header: Mapping[str, object], metadata: Mapping[str, str], data: bytes, wanted: str | None = None) -> str | None:
    """The checksum of everything; None if it is not the one that is wanted."""
    digest = hashlib.sha256(json.dumps({"header": header, **metadata}, sort_keys=True).encode())
    digest.update(data)
    found = digest.hexdigest()
    return found if wanted is None or wanted == found else None


def fit(arrays: Mapping[str, np.ndarray], wanted: Mapping[str, str], name: str, optional: Container[str] = ()) -> dict[str, int]:
    """The sizes of the axes of arrays that must be there and fit each other; raises CorruptFile, which names the file.

    wanted: of each array the type of its numbers and its axes, "float seed t gvf": axes of one name have one size, and "2" has 2.
    """
    sizes: dict[str, int] = {}
    kinds = {"float": "f", "int": "iu", "bool": "b"}  # or a type's own name
    for key, described in wanted.items():
        kind, *axes = described.split()
        if key not in arrays:
            if key in optional:
                continue
            raise misfit(name, f"{key} is missing")
        dtype, shape = arrays[key].dtype, arrays[key].shape
        if not (dtype.kind in kinds[kind] if kind in kinds else dtype.name == kind):
            raise misfit(name, f"{key} is of type {dtype}")
        known = [int(axis) if axis.isdigit() else sizes.setdefault(axis, n) for axis, n in zip(axes, shape)]
        if len(shape) != len(axes) or known != list(shape):
            raise misfit(name, f"{key} has shape {shape}")
    return sizes
