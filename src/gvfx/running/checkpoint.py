"""Checkpoints of a run on networks: everything it needs to go on, so that a resumed run gives the same bytes.

Two files take turns, so that a damaged newest one leaves the one before it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.files import write_whole
from gvfx.tensors import CorruptFile, pack, unpack

FORMAT = "3"


class Checkpoints:
    """The checkpoints of one (experiment, seed)."""

    def __init__(self, folder: Path, name: str, identity: str) -> None:
        """identity: what the checkpoint belongs to; one of anything else is refused."""
        self.paths = [folder / f"{name}.{turn}.checkpoint" for turn in "ab"]
        self.identity = identity
        self._turn = 0

    def save(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint whole or not at all, over the older of the two."""
        raw = pack(arrays, {"identity": self.identity, "format": FORMAT, "step": str(step)})
        write_whole(self.paths[self._turn % 2], raw)
        self._turn += 1

    def load(self) -> dict[str, np.ndarray] | None:
        """The newest undamaged checkpoint, or None; one of another experiment or version is refused."""
        found: list[tuple[int, int, dict[str, np.ndarray]]] = []
        for turn, path in enumerate(self.paths):
            with contextlib.suppress(FileNotFoundError, CorruptFile):
                arrays, metadata = unpack(path.read_bytes(), str(path))
                if metadata.get("format") != FORMAT:
                    raise InputError(f"checkpoint: {path} was written by another version of gvfx; delete it to start again.")
                if metadata.get("identity") != self.identity:
                    raise InputError(f"checkpoint: {path} belongs to another experiment; delete it or choose another folder.")
                found.append((int(metadata["step"]), turn, arrays))
        if not found:
            return None
        _, turn, arrays = max(found, key=lambda entry: entry[0])
        self._turn = turn + 1
        return arrays

    def clear(self) -> None:
        """Delete them: the run is finished."""
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """A pytree's leaves by path, as arrays (random keys as their words)."""
    import jax

    def plain(leaf: Any) -> np.ndarray:
        array = np.asarray(_words(leaf))
        return array.astype(np.int64) if array.dtype == np.uint32 else array

    return {jax.tree_util.keystr(path): plain(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def unflatten(like: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The pytree shaped like `like` with the leaves that `flatten` gave; arrays of another shape are refused."""
    import jax
    import jax.numpy as jnp

    def leaf(path: Any, old: Any) -> Any:
        name, words = jax.tree_util.keystr(path), _words(old)
        array = arrays.get(name)
        if array is None or array.shape != words.shape:
            raise InputError(f"checkpoint: {name} does not fit this version of gvfx; delete the checkpoint to start again.")
        if words is not old:
            return jax.random.wrap_key_data(jnp.asarray(array.astype(np.uint32)))
        return jnp.asarray(array, dtype=old.dtype)

    return jax.tree_util.tree_map_with_path(leaf, like)


def _words(leaf: Any) -> Any:
    """A leaf as numbers: a random key as its words, anything else as it is."""
    import jax

    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
