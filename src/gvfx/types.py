"""Types that several signatures share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

Row = Sequence[float] | np.ndarray  # one number per action, state or component
Rows = Sequence[Row] | np.ndarray  # as a table of two dimensions, or more where an array is given
Numbers = float | Row | Rows
Function = Callable[..., object]  # of an observation, of a batch of observations or of a transition
Observations = Sequence[object] | np.ndarray  # a batch, the first axis; arrays of JAX have the same methods
Described = dict[str, object]  # data as it is written to JSON files
Info = Mapping[str, object]
