"""Options of audits: their share of the steps, and what is known about the cumulants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import check_fields, is_real, shown
from gvfx.questions.gvf import GVF, expand, question_names


@dataclass(frozen=True)
class Audit:
    """Audits of values at the start (docs/audits.md).

    share:  of the steps, at least 0 and below 1; None: the default.
    ranges: by question, the least and the largest possible cumulant (with discount 1, return of an episode).  The intervals of
            these questions hold with any number of rollouts, however rare what carries the value is; they are wider.
    """

    share: float | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "audit")
        for name, given in self.ranges.items():
            if not (isinstance(given, tuple | list | np.ndarray) and len(given) == 2 and all(map(is_real, given))):
                raise InputError(f"audit: {shown(given)} is not the range of {name}; give two numbers, (low, high).")

    def on(self, questions: Sequence[GVF]) -> np.ndarray:
        """The ranges of questions, [gvf, 2]; NaN where none is given."""
        asked = expand(questions)
        names = question_names(asked)
        out = np.full((len(names), 2), np.nan)
        for name, given in self.ranges.items():
            if name not in names:
                raise InputError(f"audit: {name!r} is not a question; give ranges for some of {', '.join(names)}.")
            i = names.index(name)
            low, high = map(float, given)
            if low >= high:
                raise InputError(f"audit: ({low:g}, {high:g}) is not the range of {name}; give two numbers, the smaller first.")
            if callable(asked[i].discount):
                raise InputError(f"audit: {name} has a discount that changes, so a range says nothing; leave its range out.")
            out[i] = low, high
        return out
