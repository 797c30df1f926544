"""Maps of a grid over time, and rows of pictures, as exhibits of a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from gvfx.report.page import Numbers, Provenance, check_length, plain


@dataclass(frozen=True)
class Panel:
    """One map over time: frames[t] holds height * width values, row by row.

    arrows[t], if given, holds one (dx, dy) per cell, dx to the right and dy down; the longest arrow of a figure spans a cell.
    paths[t], if given, holds lines to draw over the map, each a list of (x, y) in cells from the upper left corner.
    """

    title: str
    frames: Sequence[Numbers]
    arrows: Sequence[Sequence[Sequence[float]] | np.ndarray] | None = None
    paths: Sequence[Sequence[np.ndarray]] | None = None

    def drawn(self) -> dict[str, object]:
        """Every frame, its arrows and each of its paths as one list."""
        arrows = None if self.arrows is None else [flat(each) for each in self.arrows]
        paths = None if self.paths is None else [[flat(path) for path in each] for each in self.paths]
        return {"frames": [flat(frame) for frame in self.frames], "arrows": arrows, "paths": paths}


@dataclass(frozen=True)
class Maps:
    """Maps of a grid on one colour scale, with one slider over times[t] if there are several.

    goals: (row, column) of each goal; whole numbers are the centres of cells, so (0.5, 0.5) is a corner that four cells share.
    radius: of the goals' discs, in cells; 0 if a goal is one cell.
    columns: panels in a row; 0 for all of them.
    numbers: whether the values are written into the cells instead of dots at the goals, for maps of a few values.
    early: whether the first time is shown as well, beside the last (in the HTML page beside that of the slider).
    """

    id: str
    title: str
    label: str
    height: int
    width: int
    walls: Sequence[int]
    goals: Sequence[tuple[float, float]]
    times: Sequence[int]
    panels: Sequence[Panel]
    log: bool
    unit: str
    provenance: Provenance
    note: str = ""
    radius: float = 0.0
    columns: int = 0
    numbers: bool = False
    early: bool = False

    def __post_init__(self) -> None:
        cells = self.height * self.width
        for panel in self.panels:
            where = f"of panel {panel.title!r} in {self.id!r}"
            check_length(f"frames {where}", len(panel.frames), len(self.times))
            for frame in panel.frames:
                check_length(f"a frame {where}", np.size(np.asarray(frame, dtype=float)), cells)
            if panel.arrows is not None:
                check_length(f"arrows {where}", len(panel.arrows), len(self.times))
                for arrows in panel.arrows:
                    check_length(f"numbers in the arrows {where}", np.size(np.asarray(arrows, dtype=float)), 2 * cells)
            if panel.paths is not None:
                check_length(f"paths {where}", len(panel.paths), len(self.times))

    def goal_cells(self) -> np.ndarray:
        """Which cells belong to a goal, bool [height * width]: their centres lie in its disc."""
        row, column = np.divmod(np.arange(self.height * self.width), self.width)
        inside = [np.hypot(row - r, column - c) <= self.radius + 1e-9 for r, c in self.goals]
        return np.any(inside, axis=0) if inside else np.zeros(self.height * self.width, dtype=bool)


@dataclass(frozen=True)
class Pictures:
    """Rows of pictures under common headings; a picture is uint8 [height, width, 3].  film: a GIF of the same rows, if any."""

    id: str
    title: str
    label: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[np.ndarray]]]
    provenance: Provenance
    note: str = ""
    film: bytes = b""

    def __post_init__(self) -> None:
        for name, pictures in self.rows:
            check_length(f"row {name!r} of {self.id!r}", len(pictures), len(self.columns))

    def drawn(self) -> dict[str, object]:
        """The pictures as data URLs."""
        film = "data:image/gif;base64," + base64.b64encode(self.film).decode() if self.film else ""
        return {"rows": [(name, [jpeg(picture) for picture in pictures]) for name, pictures in self.rows], "film": film}


def jpeg(picture: np.ndarray) -> str:
    """A picture [height, width, 3] as a data URL."""
    held = io.BytesIO()
    Image.fromarray(picture).save(held, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(held.getvalue()).decode()


def flat(values: object) -> list[object]:
    """Nested lists and arrays as one list."""
    return [part for value in plain(values) for part in (flat(value) if isinstance(value, list) else [value])]
