"""Values that nobody should give, and which of them each kind of parameter may accept.

Every value has a label.  `accepts(annotation)` are the labels of those that a parameter with this annotation may accept without
being wrong; all others must be refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np


def raises(*_: Any) -> Any:
    raise RuntimeError("on purpose")


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "10**18": lambda: 10**18,
    "2**63": lambda: 2**63,
    "10**400": lambda: 10**400,
    "1j": lambda: 1j,
    "'x'": lambda: "x",
    "''": lambda: "",
    "b'x'": lambda: b"x",
    "[]": lambda: [],
    "{}": lambda: {},
    "object()": object,
    "a class": lambda: int,
    "lambda: 0": lambda: lambda: 0,
    "a function that raises": lambda: raises,
    "a function to None": lambda: lambda *_: None,
    "a function to nan": lambda: lambda *_: float("nan"),
    "a function to text": lambda: lambda *_: "text",
    "a function to a wrong shape": lambda: lambda *_: np.ones((7, 3)),
    "[None]": lambda: [None],
    "['x', 1]": lambda: ["x", 1],
    "[[1], [1, 2]]": lambda: [[1], [1, 2]],
    "[nan, 1]": lambda: [float("nan"), 1.0],
    "[2**63]": lambda: [2**63],
    "{'nosuch': 1}": lambda: {"nosuch": 1},
    "{1: None}": lambda: {1: None},
    "array(0.5)": lambda: np.array(0.5),
    "array of nan": lambda: np.full((3, 3), np.nan),
    "array of text": lambda: np.array(["a", "b"]),
    "array of objects": lambda: np.array([None, {}], object),
    "array of shape (2, 3, 4)": lambda: np.ones((2, 3, 4)),
    "array of shape (0,)": lambda: np.empty(0),
    "a generator": lambda: (part for part in ("x", None)),
}
FUNCTIONS = {label for label in VALUES if "function" in label or label == "lambda: 0"}
NUMBERS = {"True", "0", "-1", "1.5", "inf", "10**18", "2**63", "array(0.5)"}
WHOLE = {"True", "0", "-1", "10**18", "2**63"}
EMPTY = {"[]", "array of shape (0,)"}
KINDS: list[tuple[str, set[str]]] = [  # what is found in an annotation -> the labels that may then be accepted
    (r"\bNone\b", {"None"}),
    (r"\bfloat\b|Numbers", NUMBERS),
    (r"\bint\b", WHOLE),
    (r"\bbool\b", {"True", "0"}),
    (r"\bstr\b", {"'x'", "''"}),
    (r"Path", {"'x'"}),
    (r"Mapping|Described", {"{}"}),
    (r"Sequence|Iterable|Collection|tuple\[", EMPTY),
    (
        r"\bRow\b|Rows|ndarray|AnyArray|Numbers",
        {"[]", "array of shape (0,)", "array(0.5)", "[2**63]", "array of shape (2, 3, 4)", *NUMBERS},
    ),
    (r"PolicyLike|CumulantLike|Function|Callable|Report", set()),
    (r"object", set(VALUES)),
]


def accepts(annotation: str) -> set[str]:
    """The labels of what a parameter may accept."""
    plain = re.sub(r"Literal\[.*?\]", "", annotation)
    return set().union(*(labels for pattern, labels in KINDS if re.search(pattern, plain)))
