"""The interactive report: one HTML file that needs no network, no server and no other file.

The data are JSON inside the page; the scripts in `assets` set every string as text, so a name can hold any character.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Protocol, TypeAlias

import numpy as np

from gvfx.files import write_whole
from gvfx.running.summary import IntervalPanel

STEPS = "environment steps"  # the horizontal axis of most figures
SPARE = ["#2b8a3e", "#5f3dc4", "#a61e4d", "#0b7285", "#e67700", "#495057"]  # colours of lines, in this order
Numbers: TypeAlias = Sequence[float] | Sequence[float | None] | np.ndarray  # NaN, infinity and None are gaps
ORDER = "elements numbers frame lazy plot curves scale paint maps tables intervals page"  # of the scripts
SCRIPTS = ORDER.split()
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|[a-zA-Z]+")


@dataclass(frozen=True)
class Provenance:
    """Where a figure comes from: the command that makes it again, its seeds, versions and the hash of its data."""

    command: str
    seeds: str
    versions: str
    hash: str


UNKNOWN = Provenance("", "", "", "")


@dataclass(frozen=True)
class Series:
    """One method's line: mean[t] with a confidence band low[t]..high[t]."""

    name: str
    mean: Numbers
    low: Numbers
    high: Numbers
    colour: str
    dashed: bool = False

    def __post_init__(self) -> None:
        if not COLOUR.fullmatch(self.colour):
            raise ValueError(f"colour: {self.colour!r} of series {self.name!r} is not a colour; write '#rrggbb'.")


@dataclass(frozen=True)
class Curves:
    """Curves over x[t]; `reference` holds (name, value) of dashed horizontal lines.

    x_ticks: the numbers to write on the horizontal axis; round ones are chosen if there are none.
    highlight: the series to draw thick; the PNG file then has logarithmic axes, and names at the ends of lines for a legend.
    """

    id: str
    title: str
    label: str
    x: Numbers
    series: Sequence[Series]
    y_label: str
    provenance: Provenance
    note: str = ""
    reference: Sequence[tuple[str, float]] = ()
    x_label: str = STEPS
    x_ticks: Sequence[float] = ()
    highlight: str = ""

    def __post_init__(self) -> None:
        for series in self.series:
            for name, values in (("mean", series.mean), ("low", series.low), ("high", series.high)):
                check_length(f"{name} of series {series.name!r} in {self.id!r}", len(values), len(self.x))


@dataclass(frozen=True)
class DataTable:
    """A table of ready-made strings; `best` lists the (row, column) to emphasise."""

    id: str
    title: str
    label: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Sequence[tuple[int, int]] | None = None
    provenance: Provenance = UNKNOWN
    note: str = ""

    def __post_init__(self) -> None:
        if self.provenance is UNKNOWN:
            raise ValueError(f"provenance: table {self.id!r} has none; say which command, seeds and data it comes from.")
        for k, row in enumerate(self.rows):
            check_length(f"row {k} of {self.id!r}", len(row), len(self.columns))


@dataclass(frozen=True)
class Intervals:
    """A forest plot: panels side by side where there is room."""

    id: str
    title: str
    label: str
    panels: Sequence[IntervalPanel]
    provenance: Provenance
    note: str = ""


class Exhibit(Protocol):
    """A dataclass that the scripts draw by its class name; `drawn`, if it has that, gives fields in another form."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class Section:
    """A heading, a text (paragraphs separated by empty lines) and its figures and tables."""

    id: str
    title: str
    text: str
    items: tuple[Exhibit, ...] = ()


@dataclass(frozen=True)
class Summary:
    """What was asked, the answer, and what failed or needs a warning: read in a minute."""

    asked: str
    headline: str
    bullets: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    failed_title: str = "Not reproduced"


@dataclass(frozen=True)
class Page:
    """The whole report; `facts` (versions, seeds, time) stand at its end."""

    title: str
    subtitle: str
    summary: Summary
    sections: tuple[Section, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in self.ids():
            if not name or name in seen:
                raise ValueError(f"id: {name!r} is empty or already taken; give every section and figure its own id.")
            seen.add(name)

    def ids(self) -> Iterator[str]:
        """The anchors of the page, its own first."""
        yield from ("summary", "main", "data")
        for section in self.sections:
            yield section.id
            yield from (item.id for item in section.items)


def write_page(path: Path, data: Page) -> None:
    """Write the report as one HTML file; a failed write leaves an existing file as it was."""
    write_whole(path, render(data).encode("utf-8", "xmlcharrefreplace"))  # halves of characters are no UTF-8


def render(data: Page) -> str:
    """The HTML document as text."""
    assets = resources.files("gvfx.report") / "assets"
    css, template, *parts = (
        (assets / name).read_text(encoding="utf-8") for name in ("page.css", "page.html", *(f"{name}.js" for name in SCRIPTS))
    )
    return Template(template).substitute(title=html.escape(data.title), css=css, script="\n".join(parts), data=to_json(data))


def to_json(data: Page) -> str:
    """The page's data as ASCII JSON that is safe inside a script element: without `<`, `>`, `&`, NaN or infinity."""
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plain(value: Any) -> Any:
    """Dataclasses, arrays and numbers as JSON types; numbers that are not finite become None."""
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return short_number(value)
    if dataclasses.is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        changed = value.drawn() if hasattr(value, "drawn") else {}
        return {"kind": type(value).__name__, **plain(parts | changed)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, Iterable):
        return [plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} is not supported in a page")


def short_number(value: float) -> float | int | None:
    """A finite number in short form: integers exactly, others to seven digits; otherwise None."""
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.7g}")


def check_length(what: str, length: int, wanted: int) -> None:
    if length != wanted:
        raise ValueError(f"{what}: has length {length}, but {wanted} is needed.")
