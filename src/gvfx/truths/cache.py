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
from gvfx.tensors import CorruptFile, fit, misfit, pack, read

Arrays = Mapping[str, np.ndarray]


def kept(
    cache: Path | None, kind: str, asked: Mapping[str, Any], make: Callable[[], Arrays], axes: Mapping[str, str], **sizes: int
) -> Arrays:
    """The arrays that `make` computes, from the folder `cache` if they are stored there; a damaged file is computed again.

    cache: None: nothing is stored.  asked: everything that the arrays depend on, as JSON types; its hash is in the file's name.
    axes:  of every array its type and axes, as in `gvfx.tensors.fit`; sizes: of the axes that are known.
    """
    if cache is None:
        return make()
    text = json.dumps(asked, sort_keys=True)
    path = Path(cache) / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:20]}.safetensors"
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)  # before the work, so that a wrong folder is reported at once
        with contextlib.suppress(FileNotFoundError, CorruptFile):
            arrays, metadata = read(path)
            if metadata.get("asked") == text:
                return fitting(arrays, axes, str(path), sizes)
    arrays = dict(make())
    write(path, arrays, asked)
    return arrays


def shipped(folder: Path, wanted: Mapping[str, Any], axes: Mapping[str, str], **sizes: int) -> Arrays | None:
    """The arrays of the file in `folder` whose parameters include all of `wanted`, or None; axes and sizes as in `kept`."""
    for path in sorted(folder.glob("*.safetensors")):
        with _named_errors(path):
            arrays, metadata = read(path)
        try:
            described = json.loads(metadata["asked"]).items()
        except (KeyError, ValueError, AttributeError, RecursionError):
            raise misfit(str(path), "its parameters are missing") from None
        if wanted.items() <= described:
            return fitting(arrays, axes, str(path), sizes)
    return None


def fitting(arrays: Arrays, axes: Mapping[str, str], name: str, sizes: Mapping[str, int]) -> Arrays:
    """The arrays, if they are all there and fit each other; raises CorruptFile, which names the file."""
    found = fit(arrays, axes, name)
    if {*arrays} != {*axes} or any(found[axis] != n for axis, n in sizes.items()):
        raise misfit(name, "its arrays have other names or sizes")
    return arrays


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
