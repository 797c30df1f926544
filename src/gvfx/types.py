"""Types that several signatures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

Row = Sequence[float] | np.ndarray  # one number per action, state or component
Rows = Sequence[Row] | np.ndarray  # a table: one row per state
Numbers = float | Row | Rows
Function = Callable[..., object]  # of an observation, of a batch of observations or of a transition
Observations = Sequence[object] | np.ndarray  # a batch; the first axis counts observations
Described = dict[str, object]  # data as it is written to JSON files


class HasShape(Protocol):
    """An array of NumPy or JAX."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...


AnyArray = TypeVar("AnyArray", bound=HasShape)  # what is given in one of the two libraries comes back in the same


class Environment(Protocol):
    """A Gymnasium environment, plain or a vector of them."""

    @property
    def observation_space(self) -> object: ...

    @property
    def action_space(self) -> object: ...

    @property
    def reset(self) -> Callable[..., object]: ...

    @property
    def step(self) -> Callable[..., object]: ...


class Columns(Protocol):
    """Columns by name: a dictionary, or a DataFrame of pandas."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> object: ...

    def items(self) -> Iterable[tuple[object, object]]: ...
