"""Checkpoints of a run: everything it needs to continue.

Two files alternate, so that the older one remains if the newer one is damaged.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import GvfxError, InputError, StoreError
from gvfx.files import sweep_up, write_whole
from gvfx.inputs import as_path
from gvfx.tensors import CorruptFile, misfit, pack, read

FORMAT = "4"
SHARED = "stream:points"  # which another seed of the same run may have chosen meanwhile


class Checkpoints:
    """The checkpoints of one (experiment, seed)."""

    def __init__(self, folder: Path, name: str, identity: str) -> None:
        """identity: the run that the checkpoints belong to; checkpoints of another run are refused."""
        self.folder = folder
        self.paths = [folder / f"{name}.{turn}.checkpoint" for turn in "ab"]
        self.identity = identity
        self._failed = False  # whether one could not be written
        self._turn = 0

    def save(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint atomically, over the older of the two."""
        raw = pack(arrays, {"identity": self.identity, "format": FORMAT, "step": str(step)})
        write_whole(self.paths[self._turn % 2], raw)
        self._turn += 1

    def keep(self, step: int, arrays: dict[str, np.ndarray]) -> bool:
        """Write a checkpoint, and whether that worked: a disk that fails is one warning, and the run continues."""
        try:
            self.save(step, arrays)
            return True
        except OSError as error:
            if not self._failed:
                what = f"checkpoint: cannot write to {self.folder} ({error.strerror}); the run continues without it."
                warnings.warn(what, stacklevel=3)
            self._failed = True
            return False

    def restore(self, take: Callable[[dict[str, np.ndarray]], None], state: Callable[[], dict[str, np.ndarray]]) -> bool:
        """Let a run take the newest checkpoint, and whether there is one; after it, `state` must look as it did before."""
        stored = self.load()
        if stored is None:
            return False
        try:
            take(stored)
            now = state()
            fits = alike_arrays(stored, {name: now[name] for name in now if name in stored or name != SHARED})
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, GvfxError):
                raise
            fits = False
        if not fits:
            raise StoreError(f"checkpoint: what is in {self.folder} does not fit this run; delete it to start again.")
        return True

    def load(self) -> dict[str, np.ndarray] | None:
        """The newest undamaged checkpoint, or None; one of another experiment or version is refused."""
        found: list[tuple[int, int, dict[str, np.ndarray]]] = []
        for turn, path in enumerate(self.paths):
            with contextlib.suppress(FileNotFoundError, CorruptFile), _named_errors(path):
                arrays, metadata = read(path)
                if metadata.get("format") != FORMAT:
                    raise StoreError(f"checkpoint: {path} was written by another version of gvfx; delete it to start again.")
                if metadata.get("identity") != self.identity:
                    raise StoreError(f"checkpoint: {path} belongs to another experiment; delete it or choose another folder.")
                if not metadata.get("step", "").isdecimal():
                    raise misfit(str(path), "its step is missing")
                found.append((int(metadata["step"]), turn, arrays))
        if not found:
            return None
        _, turn, arrays = max(found, key=lambda entry: entry[0])
        self._turn = turn + 1
        return arrays

    def clear(self) -> None:
        """Delete the checkpoints; the run is finished and its result is stored."""
        for path in self.paths:
            with contextlib.suppress(OSError):  # they are in nobody's way
                path.unlink()


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(
            f"checkpoint: cannot read {path} ({error.strerror}); make it readable, or delete it to start again."
        ) from None


# --- states as named arrays ------------------------------------------------------------------------------------------


def alike_arrays(stored: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> bool:
    """Whether the arrays of a checkpoint have the names, types and shapes of those that the run has after taking them."""
    own = {name: np.asarray(array) for name, array in own.items()}
    return {n: (a.dtype, a.shape) for n, a in stored.items()} == {n: (a.dtype, a.shape) for n, a in own.items()}


def prefixed(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with a prefix before their names; `unprefixed` removes it."""
    return {f"{name}:{key}": array for key, array in arrays.items()}


def unprefixed(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, without it."""
    return {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}:")}


def tables(tree: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of nested tuples by path; plain numbers are constants of the run and are left out."""
    if isinstance(tree, np.ndarray):
        yield name, tree
    elif isinstance(tree, tuple | list):
        fields = getattr(tree, "_fields", range(len(tree)))
        for field, value in zip(fields, tree, strict=True):
            yield from tables(value, f"{name}.{field}" if name else str(field))


def fill(tree: Any, stored: Mapping[str, np.ndarray]) -> None:
    """Write arrays that `tables` returned into the arrays of a tree of the same shape, in place."""
    for name, array in tables(tree):
        if name not in stored or stored[name].shape != array.shape or stored[name].dtype != array.dtype:
            raise StoreError(f"checkpoint: {name} does not fit this run; delete the checkpoint to start again.")
        if array.flags.writeable:
            array[...] = stored[name]


def generator_state(generator: np.random.Generator) -> np.ndarray:
    """A generator's state as bytes."""
    return np.frombuffer(json.dumps(generator.bit_generator.state).encode(), np.uint8).astype(np.int32)


def set_generator(generator: np.random.Generator, state: np.ndarray) -> None:
    """Continue a generator from its state."""
    generator.bit_generator.state = json.loads(state.astype(np.uint8).tobytes())


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """A JAX pytree's leaves by path, as arrays (random keys as their words)."""
    import jax

    def plain(leaf: Any) -> np.ndarray:
        array = np.asarray(_words(leaf))
        return array.astype(np.int64) if array.dtype == np.uint32 else array

    return {jax.tree_util.keystr(path): plain(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def unflatten(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The pytree shaped like `like` with the leaves that `flatten` returned; arrays of another shape are refused."""
    import jax
    import jax.numpy as jnp

    def leaf(path: Any, old: Any) -> Any:
        name, words = jax.tree_util.keystr(path), _words(old)
        array = arrays.get(name)
        if array is None or array.shape != words.shape:
            raise StoreError(f"checkpoint: {name} does not fit this version of gvfx; delete the checkpoint to start again.")
        if words is not old:
            return jax.random.wrap_key_data(jnp.asarray(array.astype(np.uint32)))
        return jnp.asarray(array, dtype=old.dtype)

    return jax.tree_util.tree_map_with_path(leaf, like)


def _words(leaf: Any) -> Any:
    """A leaf as numbers: a random key as its words, anything else unchanged."""
    import jax

    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def folder_for(checkpoint: str | Path) -> Path:
    """A folder for checkpoints; an InputError if it cannot be written to."""
    folder = as_path(checkpoint, "checkpoint")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".writable", b"")
        (folder / ".writable").unlink()
        sweep_up(folder)
    except OSError as error:
        raise InputError(f"checkpoint: cannot write to {folder} ({error.strerror}); name another folder.") from None
    return folder
