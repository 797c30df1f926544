"""Spaces of observations and actions: which can be numbered, what learners can read of them, and single ones and batches.

An element of a space whose leaves hold whole numbers has a *key*, the tuple of all its numbers in the order of the space.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from gvfx.errors import InputError

LEAVES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
MOST_INTEGERS = 256  # whole numbers of an observation that is numbered; one with more is read as a vector
MOST_ACTIONS = 1_000  # actions of a space that are numbered
LARGEST_IMAGE = 1_000  # numbers of an image that learners read

Key = tuple[int, ...]


class BadObservation(ValueError):
    """An observation that does not lie in the observation space."""


def parts_of(space: Any) -> list[tuple[Any, Any]]:
    """The entries of a Tuple or Dict space, (index or key in an observation of the environment, space); empty for any other."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    if isinstance(space, _Some):
        return list(zip(space.places, space.spaces, strict=True))
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


# --- what can be read --------------------------------------------------------------------------------------------------


def readable(space: Any) -> tuple[Any, tuple[str, ...]]:
    """The space without the entries that hold no numbers (text, missions, graphs, sequences), and their names."""
    left_out: list[str] = []
    kept = _kept(space, "", left_out)
    if kept is None:
        raise InputError(
            f"observation_space: {type(space).__name__} holds no numbers that can be read; provide Box or Discrete observations "
            "with a wrapper."
        )
    return kept, tuple(left_out)


def _kept(space: Any, name: str, left_out: list[str]) -> Any:
    if isinstance(space, LEAVES):
        if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) > 1:
            _refuse_image(space, name)
        return space
    entries = parts_of(space)
    if not entries:
        left_out.append(name or type(space).__name__)
        return None
    kept = {key: _kept(part, f"{name}.{key}" if name else str(key), left_out) for key, part in entries}
    kept = {key: part for key, part in kept.items() if part is not None}
    if not kept:
        return None
    if len(kept) == len(entries) and all(kept[key] is part for key, part in entries):
        return space
    return spaces.Dict(kept) if isinstance(space, spaces.Dict) else _Some(tuple(kept), tuple(kept.values()))


class _Some(spaces.Tuple):  # type: ignore[type-arg]  # it is not generic in Gymnasium 1.0
    """Some entries of a Tuple space; observations are those of the whole space."""

    def __init__(self, places: tuple[int, ...], parts: tuple[Any, ...]) -> None:
        super().__init__(parts)
        self.places = places


def _refuse_image(space: Any, name: str) -> None:
    size = math.prod(space.shape)
    if size > LARGEST_IMAGE:
        where = f"{name!r} is an image" if name else "an image"
        raise InputError(
            f"observation_space: {where} of {' x '.join(map(str, space.shape))} numbers, more than the {LARGEST_IMAGE:,} that "
            "are read; wrap the environment so that it returns fewer (gymnasium.wrappers.GrayscaleObservation and "
            "ResizeObservation) or features, the output of your own network (gymnasium.wrappers.TransformObservation)."
        )


def reduced(space: Any, observation: Any) -> Any:
    """The entries of an observation that `readable` kept; space is what it returned."""
    if isinstance(space, spaces.Dict):
        return {key: reduced(part, observation[key]) for key, part in space.spaces.items()}
    if isinstance(space, _Some):
        return tuple(reduced(part, observation[place]) for place, part in zip(space.places, space.spaces, strict=True))
    if isinstance(space, spaces.Tuple):
        return tuple(reduced(part, own) for part, own in zip(space.spaces, observation, strict=True))
    return observation


# --- numbers -----------------------------------------------------------------------------------------------------------


def countable(space: Any) -> bool:
    """Whether an observation is a few whole numbers, which can be numbered as they are met."""
    ranges = _ranges(space)
    return ranges is not None and len(ranges) <= MOST_INTEGERS


def key_of(space: Any, observation: Any) -> Key:
    """The key of an observation; raises TypeError, ValueError or LookupError if it has another structure than the space."""
    if isinstance(observation, np.ndarray) and isinstance(space, spaces.Box):
        return tuple(observation.ravel().tolist())
    if isinstance(space, spaces.Discrete):
        return (observation.__index__(),)
    if not parts_of(space):
        return tuple(int(x) for x in np.ravel(observation))
    keys = [key_of(part, observation[place]) for place, part in parts_of(space)]
    return tuple(x for key in keys for x in key)


def observation_of(space: Any, key: Sequence[int]) -> Any:
    """The observation with a key, without the entries that were left out."""
    return _taken(space, list(key))[0]


def _taken(space: Any, rest: list[int]) -> tuple[Any, list[int]]:
    """An element from the first of the numbers, and the others."""
    if isinstance(space, spaces.Discrete):
        return int(rest[0]), rest[1:]
    if not parts_of(space):
        size = math.prod(space.shape)
        return np.array(rest[:size], space.dtype).reshape(space.shape), rest[size:]
    out = {}
    for place, part in parts_of(space):
        out[place], rest = _taken(part, rest)
    return (out if isinstance(space, spaces.Dict) else tuple(out.values())), rest


def label_of(observation: Any) -> Any:
    """An observation as plain data: numbers, lists and dictionaries."""
    if isinstance(observation, dict):
        return {str(key): label_of(value) for key, value in observation.items()}
    if isinstance(observation, tuple | list):
        return [label_of(value) for value in observation]
    return observation.tolist() if hasattr(observation, "tolist") else observation


def same_observation(one: Any, other: Any) -> bool:
    """Whether two observations, or parts of them, are equal."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same_observation(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_observation, one, other))
    return np.array_equal(np.asarray(one), np.asarray(other))


# --- actions -----------------------------------------------------------------------------------------------------------


def count_of(space: Any) -> int | None:
    """How many elements a space has; None if they cannot be counted."""
    ranges = _ranges(space)
    return None if ranges is None else math.prod(r.stop - r.start for r in ranges)


def elements_of(space: Any) -> list[Any]:
    """All elements of a space that can be counted, in order: the last number changes fastest."""
    return [observation_of(space, key) for key in itertools.product(*(_ranges(space) or []))]


def random_element(space: Any, rng: np.random.Generator) -> Any:
    """A uniformly random element of a space that can be counted."""
    return observation_of(space, [r[int(rng.integers(len(r)))] for r in _ranges(space) or []])


def _ranges(space: Any) -> list[range] | None:
    """The values of each number of an element; None if some are not whole numbers."""
    if isinstance(space, spaces.Discrete):
        return [range(int(space.start), int(space.start + space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
        return [range(start, start + n) for start, n in pairs]
    if isinstance(space, spaces.MultiBinary):
        return [range(2)] * math.prod(space.shape)
    if isinstance(space, spaces.Box):
        if space.dtype is None or space.dtype.kind not in "iub":
            return None
        bounds = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
        return [range(int(low), int(high) + 1) for low, high in bounds]
    out: list[range] = []
    for _, part in (parts := parts_of(space)):
        if (own := _ranges(part)) is None:
            return None
        out += own
    return out if parts else None


# --- one observation or a batch ----------------------------------------------------------------------------------------


def fits(space: Any, observation: Any) -> bool:
    """Whether something has the form of one observation; the entries that were left out may be missing from a Dict."""
    if isinstance(space, spaces.Discrete):
        return isinstance(observation, numbers.Integral) or _is_array(observation, (), "iu")
    if isinstance(space, spaces.Dict):
        return isinstance(observation, dict) and all(
            key in observation and fits(part, observation[key]) for key, part in space.spaces.items()
        )
    if isinstance(space, spaces.Tuple):
        places = parts_of(space)
        if not isinstance(observation, tuple | list) or len(observation) <= max(place for place, _ in places):
            return False
        exact = isinstance(space, _Some) or len(observation) == len(places)
        return exact and all(fits(part, observation[place]) for place, part in places)
    return _is_array(observation, space.shape, "biuf")


def batched(space: Any, given: Any) -> tuple[list[Any], bool]:
    """What a user gave as one observation or a batch, as a list of observations, and whether it was a single one.

    A batch is a list, or arrays with one more axis.  The pair that `env.reset()` returns counts as its observation.
    """
    if fits(space, given):
        return [given], True
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict) and not fits(space, given[1]):
        return batched(space, given[0])
    rows = _rows(space, given)
    if rows is not None and all(fits(space, row) for row in rows):
        return rows, False
    start = "; for the value at the start use result.value()" if isinstance(given, str) else ""
    line = " ".join(repr(given).split())  # arrays in one line
    raise InputError(
        f"observation: {line:.60} does not fit its space, {space!s:.120}; give what the environment returns, one observation "
        f"or a list of them{start}."
    )


def _rows(space: Any, given: Any) -> list[Any] | None:
    """The observations of a batch; None if it is not one."""
    if isinstance(given, list) and all(fits(space, row) for row in given):
        return given
    if isinstance(space, spaces.Dict):
        if not isinstance(given, dict) or any(key not in given for key in space.spaces):
            return None
        return _together(space, {key: _rows(part, given[key]) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple) and isinstance(given, tuple):
        if len(given) == len(space.spaces):
            split = {place: _rows(part, given[place]) for place, part in parts_of(space) if place < len(given)}
            return _together(space, split)
        return list(given)
    return list(given) if isinstance(given, list | tuple) or np.ndim(given) else None


def _together(space: Any, columns: dict[Any, list[Any] | None]) -> list[Any] | None:
    """The rows of a batch given as one column per entry."""
    known = [column for column in columns.values() if column is not None]
    if len(known) < len(columns) or len({len(column) for column in known}) != 1:
        return None
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*known, strict=True)]
    return rows if isinstance(space, spaces.Dict) else [tuple(row.values()) for row in rows]


def _is_array(given: Any, shape: tuple[int, ...], kinds: str) -> bool:
    """Whether something is an array of this shape, or lists that make one, of some kinds of numbers."""
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        return False
    return array.shape == shape and array.dtype.kind in kinds


# --- as plain data -----------------------------------------------------------------------------------------------------


def described(space: Any) -> list[Any]:
    """A space of whole numbers as plain data, from which `space_from` makes it again."""
    if isinstance(space, spaces.Discrete):
        return ["Discrete", int(space.n), int(space.start)]
    if isinstance(space, spaces.MultiDiscrete):
        return ["MultiDiscrete", space.nvec.tolist(), space.start.tolist()]
    if isinstance(space, spaces.MultiBinary):
        return ["MultiBinary", list(space.shape)]
    if isinstance(space, spaces.Box):
        return ["Box", list(space.shape), str(space.dtype)]
    if isinstance(space, spaces.Dict):
        return ["Dict", [[key, described(part)] for key, part in space.spaces.items()]]
    return ["Tuple", [[place, described(part)] for place, part in parts_of(space)]]


def space_from(data: Sequence[Any]) -> Any:
    """The space that `described` returned; a Box has the bounds of its type."""
    kind, *rest = data
    if kind == "Discrete":
        return spaces.Discrete(rest[0], start=rest[1])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(rest[0], start=rest[1])
    if kind == "MultiBinary":
        return spaces.MultiBinary(rest[0])
    if kind == "Box":
        dtype = np.dtype(rest[1])
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        return spaces.Box(limits.min if limits else 0, limits.max if limits else 1, tuple(rest[0]), dtype.type)
    if kind == "Dict":
        return spaces.Dict({key: space_from(part) for key, part in rest[0]})
    places, parts = zip(*((place, space_from(part)) for place, part in rest[0]), strict=True)
    return spaces.Tuple(parts) if places == tuple(range(len(places))) else _Some(places, parts)
