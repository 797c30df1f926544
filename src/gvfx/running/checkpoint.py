"""Checkpoints of a run: everything it needs to continue.

Two files alternate, so that the older one remains if the newer one is damaged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gvfx.content import Identity, version_of
from gvfx.errors import GvfxError, InputError, StoreError, printable
from gvfx.files import sweep_up, write_whole
from gvfx.inputs import as_path
from gvfx.locks import Lock, lock, owner
from gvfx.questions.gvf import GVF, question_names
from gvfx.tensors import CorruptFile, misfit, pack, read

# --- What a run was made of: its questions' functions, its environment and method by their content, to be compared later
# A checkpoint, a stored run and a saved result keep it, so that an edited function is another one although its name is the
# same.


KEPT = "made of"  # the name under which files keep it
PYTHON = f"{platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]}{' -O' * bool(sys.flags.optimize)}"
DIGITS = 16  # of a hash
NAMED = 3  # names in a sentence


@dataclass(frozen=True)
class Made:
    """The content of parts, by their names in a sentence."""

    parts: dict[str, str]  # a hash of each
    unknown: tuple[str, ...] = ()  # what could not be looked into
    libraries: dict[str, str] = field(default_factory=dict)  # versions of installed packages that they name
    python: str = PYTHON  # which has its own byte code

    @property
    def text(self) -> str:
        """As JSON, the same for the same content."""
        return json.dumps(self.plain, sort_keys=True)

    @property
    def plain(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "unknown": list(self.unknown)}

    @classmethod
    def read(cls, kept: object) -> Made | None:
        """What was kept, as text or plain data; None if it is not of this kind."""
        try:
            plain: Any = json.loads(kept) if isinstance(kept, str) else kept
            parts, libraries = ({str(k): str(v) for k, v in plain[name].items()} for name in ("parts", "libraries"))
            return cls(parts, tuple(map(str, plain["unknown"])), libraries, str(plain["python"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def changed(self, now: Made) -> str:
        """Which parts are others now, in words; empty if none is, or if that cannot be known."""
        if self.python != now.python:
            return ""
        return _first_of([name for name, own in self.parts.items() if now.parts.get(name, own) != own])

    def not_compared(self, now: Made) -> str:
        """What could not be compared with what there is now, in words; empty if all could be."""
        if self.python != now.python:
            return f"functions, because it was {self.python}" if self.parts else ""
        versions = [
            f"{name} {version} (now {now.libraries[name]})"
            for name, version in sorted(self.libraries.items())
            if now.libraries.get(name, version) != version
        ]
        return _first_of([*now.unknown, *versions])


def made_of(parts: Iterable[tuple[str, object]]) -> Made:
    """The content of named parts."""
    hashes, unknown, libraries = {}, [], set()
    known: dict[object, Identity] = {}
    for name, part in parts:
        key = _key(part)
        if key not in known:
            known[key] = Identity()
            known[key].add(part)
        found = known[key]
        hashes[name] = found.hexdigest()[:DIGITS]
        unknown += [f"{name}: {each}" for each in found.unknown[:1]]
        libraries |= found.libraries
    return Made(hashes, tuple(unknown), {name: version_of(name) for name in sorted(libraries - {""})})


def of_questions(questions: Sequence[GVF]) -> Made:
    """The content of the policies, signals and discounts that are more than numbers."""
    return made_of(_asked(questions))


def _asked(questions: Sequence[GVF]) -> Iterable[tuple[str, object]]:
    for name, q in zip(question_names(questions), questions, strict=True):
        for kind, part in (("policy", q.policy), ("signal", q.cumulant), ("discount", q.discount)):
            if not isinstance(part, float | int):
                yield f"the {kind} of {name!r}", part


def merged(one: Made, other: Made) -> Made:
    """The parts of both."""
    return Made(one.parts | other.parts, one.unknown + other.unknown, one.libraries | other.libraries)


def _key(part: Any) -> object:
    """Equal for parts with the same content because they hold the same objects."""
    if dataclasses.is_dataclass(part) and type(part).__module__.startswith("gvfx."):
        return type(part), *(_value(getattr(part, f.name)) for f in dataclasses.fields(part))
    return id(part)


def _value(value: Any) -> object:
    return (type(value), value) if isinstance(value, int | float | str | None) else id(value)


def _first_of(names: Sequence[str]) -> str:
    """A few names, and how many more there are."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def compared(kept: object, now: Made, warn: Callable[[str], None]) -> str:
    """What has changed, in words; empty if nothing has.  warn: called with what could not be compared."""
    before = Made.read(kept)
    if before is None:
        warn("policies and signals, because an earlier version of gvfx wrote it" if now.parts else "")
        return ""
    changed = before.changed(now)
    warn("" if changed else before.not_compared(now))
    return changed


FORMAT = "4"
NO_LONGER = (".search.evaluated",)  # ends of the names of arrays that runs of 0.2 had
AUDITS = "stream:audits:"  # and the beginning of those of its audits
EPISODES = "stream:whole:"  # arrays that grow with a run; those of older versions may lack what is needed now, and begin anew
SHARED = "stream:points"  # which another seed of the same run may have chosen meanwhile


class Checkpoints:
    """The checkpoints of one (experiment, seed)."""

    def __init__(self, folder: Path, name: str, identity: str, made: Made | None = None, anew: bool = False) -> None:
        """identity: the run that the checkpoints belong to; checkpoints of another run are refused.

        made: the content of its functions, environment and method, which is compared too.
        anew: checkpoints of other content are passed over, and the run begins again.
        """
        self.folder, self.made, self.anew = folder, made, anew
        self.paths = [folder / f"{name}.{turn}.checkpoint" for turn in "ab"]
        self.identity = identity
        self._failed = False  # whether one could not be written
        self._warned = False  # whether there was a warning about what could not be compared
        self._turn = 0

    def save(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Write a checkpoint atomically, over the older of the two."""
        kept = {} if self.made is None else {KEPT: self.made.text}
        raw = pack(arrays, {"identity": self.identity, "format": FORMAT, "step": str(step), **kept})
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
            own = {name: now[name] for name in now if name in stored or name != SHARED}
            fits = same_layout(*({n: a for n, a in each.items() if not n.startswith(EPISODES)} for each in (stored, own)))
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
                if self._is_changed(metadata):
                    continue
                if not metadata.get("step", "").isdecimal():
                    raise misfit(str(path), "its step is missing")
                found.append((int(metadata["step"]), turn, arrays))
        if not found:
            return None
        _, turn, arrays = max(found, key=lambda entry: entry[0])
        self._turn = turn + 1
        return {name: array for name, array in arrays.items() if not (name.endswith(NO_LONGER) or name.startswith(AUDITS))}

    def _is_changed(self, metadata: Mapping[str, str]) -> bool:
        """Whether a checkpoint is to be passed over because its run was of other content; it is refused unless `anew`."""
        if self.made is None:
            return False
        changed = compared(metadata.get(KEPT), self.made, self._warn)
        if changed and not self.anew:
            raise StoreError(
                f"checkpoint: {self.folder} holds a run made before {printable(changed)} changed; delete the folder to start "
                "again, or name another."
            )
        return bool(changed)

    def _warn(self, what: str) -> None:
        """Warn, once, about what could not be compared."""
        if what and not self._warned:
            self._warned = True
            warnings.warn(
                f"checkpoint: the run in {self.folder} goes on without comparing {printable(what)}; if that has changed, delete "
                "the folder.",
                stacklevel=6,
            )

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


def same_layout(stored: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> bool:
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
        yield name, tree if tree.dtype.names is None else tree.view(np.int64, np.ndarray)  # a record of whole numbers
    elif isinstance(tree, tuple | list):
        fields = getattr(tree, "_fields", range(len(tree)))
        for field, value in zip(fields, tree, strict=True):
            yield from tables(value, f"{name}.{field}" if name else str(field))


def fill(tree: Any, stored: Mapping[str, np.ndarray], root: str = "") -> None:
    """Write arrays that `tables` returned into the arrays of a tree of the same shape, in place."""
    for name, array in tables(tree, root):
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


class Stored:
    """Something with a state that a checkpoint holds: `kept` names its attributes (by path), each with the name of its arrays.

    An array is written in place, and so are those of nested tuples, whose paths are added to the name.  A name that ends with
    ":" is that of a JAX pytree, or of something with a state of its own, whose names are added.  Numbers of several attributes
    are one array.  What needs more is a property with a setter, of an array or of a mapping of arrays.
    """

    kept: ClassVar[Mapping[str | tuple[str, ...], str]] = {}
    fit_to: Callable[[Mapping[str, np.ndarray]], None] | None = None  # makes room for arrays that have grown, before the rest
    restored: Callable[[], None] | None = None  # called once they are

    def state(self) -> dict[str, np.ndarray]:
        """Everything that the rest of the run depends on, as named arrays."""
        out: dict[str, np.ndarray] = {}
        for attribute, name in self.kept.items():
            out |= _named(name, _held(self, attribute))
        return out

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from arrays that `state` returned."""
        if self.fit_to is not None:
            self.fit_to(arrays)
        for attribute, name in self.kept.items():
            if isinstance(attribute, tuple):
                for path, number in zip(attribute, arrays[name].tolist(), strict=True):
                    _set(self, path, type(_held(self, path))(number))
            else:
                _restore(self, attribute, name, arrays)
        if self.restored is not None:
            self.restored()


def _held(holder: Any, attribute: str | tuple[str, ...]) -> Any:
    return (
        tuple(attrgetter(path)(holder) for path in attribute) if isinstance(attribute, tuple) else attrgetter(attribute)(holder)
    )


def _set(holder: Any, path: str, value: Any) -> None:
    *before, last = path.split(".")
    setattr(attrgetter(".".join(before))(holder) if before else holder, last, value)


def _named(name: str, value: Any) -> dict[str, np.ndarray]:
    """The arrays of one attribute."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {name + key: array for key, array in value.items()}
    if isinstance(value, np.random.Generator):
        return {name: generator_state(value)}
    if hasattr(value, "restore"):
        return {name + key: array for key, array in value.state().items()}
    if name.endswith(":"):
        return {name.lstrip(":") + key: array for key, array in flatten(value).items()}
    if isinstance(value, bool | int) or (isinstance(value, tuple) and value and isinstance(value[0], bool | int)):
        return {name: np.array(value, np.int64)}
    return dict(tables(value, name))


def _restore(holder: Any, path: str, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Continue one attribute from its arrays."""
    value = _held(holder, path)
    if getattr(getattr(type(holder), path, None), "fset", None) is not None:
        if isinstance(value, Mapping):
            _set(holder, path, {key[len(name) :]: array for key, array in arrays.items() if key.startswith(name)})
        elif name in arrays:
            _set(holder, path, arrays[name].copy())
    elif isinstance(value, np.random.Generator):
        set_generator(value, arrays[name])
    elif hasattr(value, "restore"):
        value.restore({key[len(name) :]: array for key, array in arrays.items() if key.startswith(name)})
    elif name.endswith(":"):
        own = name.lstrip(":")
        _set(holder, path, unflatten(value, {key[len(own) :]: a for key, a in arrays.items() if key.startswith(own)}))
    elif isinstance(value, bool | int):
        _set(holder, path, type(value)(arrays[name]))
    elif isinstance(value, Mapping):
        fill(tuple(value.values()), {str(k): arrays[name + key] for k, key in enumerate(value)})
    elif value is not None:
        fill(value, arrays, name)


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock on a run's checkpoints, which ends with the process; a second run is refused."""
    path, held = folder / f"{name}.claim", Lock(folder, None)
    with contextlib.suppress(OSError):  # a disk that cannot be written is noticed when a checkpoint is due
        taken = lock(path)
        if taken is None:
            by = owner(path) or "another process"
            raise StoreError(f"checkpoint: {folder} is in use by {by}; wait until it has ended, or name another folder.")
        held = taken
    try:
        yield
    finally:
        held.release()


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
