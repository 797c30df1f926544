"""Named arrays as bytes: the safetensors layout plus a checksum, always the same bytes for the same arrays.

Eight bytes of header length, a JSON header (dtype, shape, offsets; `__metadata__` with a SHA-256 of the data), the
data.  Any safetensors reader opens it; `unpack` also detects a single flipped bit.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping

import numpy as np

from gvfx.errors import StoreError

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "BOOL": "|b1"}
NAMES = {np.dtype(text): name for name, text in DTYPES.items()}


class CorruptFile(StoreError):
    """A file whose bytes do not match its checksum, or that is truncated."""


def pack(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The arrays and the metadata (text by name) as bytes."""
    header: dict[str, object] = {}
    chunks, offset = [], 0
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        chunks.append(raw)
        offset += len(raw)
    data = b"".join(chunks)
    described = json.dumps({"header": header, **metadata}, sort_keys=True).encode()
    digest = hashlib.sha256(described + data).hexdigest()
    text = json.dumps({**header, "__metadata__": {**metadata, "sha256": digest}}, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def unpack(raw: bytes, name: str = "file") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata; raises CorruptFile, which names the file."""
    try:
        (size,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + size])
        data = raw[8 + size :]
        metadata = header.pop("__metadata__")
        digest = metadata.pop("sha256")
        described = json.dumps({"header": header, **metadata}, sort_keys=True).encode()
        if hashlib.sha256(described + data).hexdigest() != digest:
            raise ValueError("checksum")
        arrays = {}
        for key, entry in header.items():
            low, high = entry["data_offsets"]
            arrays[key] = np.frombuffer(data[low:high], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        raise CorruptFile(
            f"{name}: damaged (its checksum does not match, or it is truncated); delete it or restore it from a copy."
        ) from None
    return arrays, metadata
