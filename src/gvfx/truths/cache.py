"""True values stored on disk under a hash of all that they depend on; some files ship with gvfx."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.files import write_whole
from gvfx.tensors import CorruptFile, pack, unpack

Arrays = Mapping[str, np.ndarray]


def kept(cache: Path | None, kind: str, asked: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` computes, from the folder `cache` if they are stored there; a damaged file is computed again.

    cache: None: nothing is stored.  asked: everything that the arrays depend on, as JSON types; its hash is in the file's name.
    """
    if cache is None:
        return make()
    text = json.dumps(asked, sort_keys=True)
    path = Path(cache) / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:20]}.safetensors"
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)  # before the work, so that a wrong folder is reported at once
        with contextlib.suppress(FileNotFoundError, CorruptFile):
            arrays, metadata = unpack(path.read_bytes(), str(path))
            if metadata.get("asked") == text:
                return arrays
    arrays = dict(make())
    write(path, arrays, asked)
    return arrays


def shipped(folder: Path, wanted: Mapping[str, Any]) -> Arrays | None:
    """The arrays of the file in `folder` whose parameters include all of `wanted`, or None."""
    for path in sorted(folder.glob("*.safetensors")):
        arrays, metadata = unpack(path.read_bytes(), str(path))
        if wanted.items() <= json.loads(metadata["asked"]).items():
            return arrays
    return None


def write(path: Path, arrays: Arrays, asked: Mapping[str, Any]) -> None:
    """Write a file of arrays and their parameters `asked`, atomically."""
    with _named_errors(path):
        write_whole(path, pack(arrays, {"asked": json.dumps(asked, sort_keys=True)}))


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cache: cannot use {path} ({error.strerror}); free some space or choose another folder.") from None
