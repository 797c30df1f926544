"""One harness for all benchmarks: cases times methods times seeds are measured, kept, shown as tables and held against bars.

A benchmark is a module with `PARTS`: names of studies, each made by a function of `quick`.  What is measured is kept in
`results/bench-NAME.json` as soon as it is known, so that a benchmark that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gvfx
from gvfx.files import write_whole
from gvfx.running.result import standard_error

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

FOLDER = Path("results")  # of what is kept
Asked = tuple[gvfx.MDP, list[gvfx.GVF]]  # a world and questions about it

# --- a row and its bar -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One measurement; passed is None when it could not be made here, for the reason in the note."""

    case: str
    measured: str
    bar: str
    passed: bool | None
    note: str = ""


def at_least(case: str, value: float, bar: float, note: str = "") -> Row:
    """A ratio that should reach a bar."""
    return Row(case, f"{value:.3g}x", f">= {bar:g}x", bool(value >= bar), note)


def at_most(case: str, value: float, bar: float, unit: str = "", note: str = "") -> Row:
    """A cost that should stay below a bar."""
    return Row(case, f"{value:.3g}{unit}", f"<= {bar:g}{unit}", bool(value <= bar), note)


def share_within(case: str, share: float, low: float, high: float, note: str = "") -> Row:
    """A share that should lie between two bounds, as that of intervals that hold the truth."""
    bar = f">= {low:.0%}" if high >= 1 else f"{low:.0%} to {high:.0%}"
    return Row(case, f"{share:.1%}", bar, bool(low <= share <= high), note)


def with_error(x: Any) -> str:
    """The mean over seeds and its standard error."""
    return f"{np.mean(x):.3g} ± {standard_error(np.asarray(x)):.1g}"


def mean_and_median(x: Any) -> str:
    """Of runs."""
    return f"{np.mean(x):.3g} ({np.median(x):.3g})"


def seeds_from(first: int, count: int) -> range:
    """Seeds that nothing was chosen on."""
    return range(first, first + count)


def at_end(steps: int, **options: Any) -> Any:
    """Options of `gvfx.evaluate`: measured at the end, without a progress bar."""
    return {"steps": steps, "evaluate_every": steps, "progress": False, **options}


def answered(asked: Asked, behaviour: gvfx.Behaviour, steps: int, seeds: Sequence[int] | int, **options: Any) -> gvfx.Result:
    """Runs of certainty equivalence about a world and its questions."""
    return gvfx.evaluate(*asked, behaviour, gvfx.CertaintyEquivalence(), **at_end(steps, seeds=seeds, **options))


@contextmanager
def quietly() -> Iterator[None]:
    """Within it nothing is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def every(policies: Mapping[str, Any], signals: Mapping[str, Any], discount: float) -> list[gvfx.GVF]:
    """Every policy with every signal."""
    return [gvfx.GVF(p, c, discount, name=f"{who}: {what}") for who, p in policies.items() for what, c in signals.items()]


# --- a study ---------------------------------------------------------------------------------------------------------

Found = dict[str, Any]  # by case, and by method if there are some; a list over seeds if the study has seeds
Shown = Table | str


def _nothing(found: Found) -> Iterable[Any]:
    return ()


@dataclass(frozen=True)
class Study:
    """Cases times methods (times seeds, if they are measured one by one), what is shown of them, and their bars.

    measure: numbers, texts, arrays, or lists and dicts of them, of a case, a method and a seed, whichever the study has.
    title: of a table with a row per case and method, whose names are split at ": " for the columns `names`, and a column for
    every measure but those whose names begin with "_"; arrays are shown by `spread`, shares (`covered %`) in percent.
    shows: other tables, or sentences.  stays: measurements are kept after the end, for the next time.
    """

    cases: Mapping[str, Any]
    measure: Callable[..., Any]
    bars: Callable[[Found], Iterable[Row]] = _nothing
    title: str = ""
    names: Sequence[str] = ("case",)
    methods: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    spread: Callable[[Any], str] = with_error
    shows: Callable[[Found], Iterable[Shown]] = _nothing
    stays: bool = False

    def found(self, keep: Callable[[str, Callable[[], Any]], Any] = lambda name, measure: measure()) -> Found:
        """Measure everything; keep(name, measure) measures, or knows."""

        def known(name: str, *given: Any) -> Any:
            numbers = keep(name, lambda: self.measure(*given))
            return _arrays(json.loads(json.dumps(numbers, default=_plain)))  # the same at once and from a file

        def one(name: str, *given: Any) -> Any:
            return [known(f"{name}, {seed}", *given, seed) for seed in self.seeds] if self.seeds else known(name, *given)

        return {
            case: {way: one(f"{case}, {way}", of, by) for way, by in self.methods.items()} if self.methods else one(case, of)
            for case, of in self.cases.items()
        }

    def tables(self, found: Found) -> Iterator[Shown]:
        """What is shown of what was found."""
        if self.title and found:
            rows = each(found) if self.methods else found
            heads = [name for name in next(iter(rows.values())) if not name.startswith("_")]
            cells = ([*name.split(": "), *(self._cell(head, of[head]) for head in heads)] for name, of in rows.items())
            yield table(self.title, (*self.names, *(head.removesuffix(" %") for head in heads)), cells)
        yield from self.shows(found)

    def _cell(self, head: str, x: Any) -> Any:
        if head.endswith(" %"):
            return "-" if np.isnan(x) else f"{x:.1%}"
        return self.spread(x) if isinstance(x, np.ndarray) else x


def each(found: Found) -> Found:
    """What was found of every case and method, by both names."""
    return {f"{case}: {way}": of for case, ways in found.items() for way, of in ways.items()}


def numbers(found: Found, name: str, where: str = "") -> np.ndarray:
    """A measure of all cases, or of those whose names have a part."""
    return np.array([of[name] for case, of in found.items() if where in case])


Part = Callable[[bool], Study]  # of `quick`


def of_rows(cases: Mapping[str, Callable[[], Sequence[Row]]]) -> Study:
    """A study whose cases measure rows with their bars at once, as those of speed do."""

    def bars(found: Found) -> Iterable[Row]:
        return (Row(**row) for rows in found.values() for row in rows)

    return Study(cases, lambda case: [asdict(row) for row in case()], bars)


def sized(make: Callable[..., Study], full: Sequence[Any], quick: Sequence[Any]) -> Part:
    """A part: make(*full), or with --quick make(*quick)."""
    return lambda short: make(*(quick if short else full))


def sized_rows(measure: Callable[..., Sequence[Row]], full: Sequence[Any] = (), quick: Sequence[Any] = ()) -> Part:
    """A part of rows that are measured at once: measure(*full), or with --quick measure(*quick)."""
    return sized(lambda *sizes: of_rows({measure.__name__: partial(measure, *sizes)}), full, quick)


class Kept:
    """What was measured, by name, in one JSON file that belongs to one version of gvfx."""

    def __init__(self, path: Path, made_by: str) -> None:
        self.path, self.made_by, self.before = path, made_by, 0
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.numbers: dict[str, Any] = old.get("numbers", {}) if old.get("made_by") == made_by else {}

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        """What was measured under this name before, or else now."""
        if name in self.numbers:
            self.before += 1
        else:
            self.numbers[name] = measure()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"made_by": self.made_by, "numbers": self.numbers}, indent=1, default=_plain)
            write_whole(self.path, text.encode())
        return self.numbers[name]


def _plain(x: Any) -> Any:
    return x.tolist()  # an array, or a number of NumPy


def _arrays(x: Any) -> Any:
    """Lists of numbers as arrays."""
    if isinstance(x, dict):
        return {name: _arrays(each) for name, each in x.items()}
    if isinstance(x, list) and all(isinstance(each, int | float | list) for each in x):
        return np.array(x)
    return [_arrays(each) for each in x] if isinstance(x, list) else x


def run(console: Console, name: str, parts: Mapping[str, Part], quick: bool = False) -> list[Row]:
    """Measure parts of a benchmark, print their tables as they are known and then all rows, and return the rows."""
    console.print(machine(), highlight=False)
    kept = Kept(FOLDER / f"bench-{name}{'-quick' * quick}.json", f"gvfx {gvfx.__version__}")
    rows: list[Row] = []
    stays = False
    for part, make in parts.items():
        study = make(quick)
        stays |= study.stays
        with console.status(part) as status:

            def keep(what: str, measure: Callable[[], Any], part: str = part, update: Any = status.update) -> Any:
                update(f"{part}: {what}")
                return kept.get(f"{part}: {what}", measure)

            found = study.found(keep)
        for shown in study.tables(found):
            console.print(shown, highlight=False)
        rows += study.bars(found)
    if kept.before:
        console.print(f"{kept.before} measurements were made before; delete {kept.path} to make them again.", highlight=False)
    if not stays:
        kept.path.unlink(missing_ok=True)
    marks = {True: "[green]pass[/green]", False: "[red]FAIL[/red]", None: "[yellow]none[/yellow]"}
    cells = ((row.case, row.measured, row.bar, marks[row.passed], row.note) for row in rows)
    console.print(table(None, ("case", "measured", "bar", "", "note"), cells))
    return rows


# --- tables, and the machine -----------------------------------------------------------------------------------------


def table(title: str | None, heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """A table for a terminal; numbers have three digits, whole and large ones all."""
    out = Table(*heads, title=title, title_justify="left")
    for row in rows:
        out.add_row(*map(_text, row))
    return out


def _text(x: Any) -> str:
    if isinstance(x, str):
        return x
    return "-" if np.isnan(x) else f"{x:,.0f}" if isinstance(x, int) or abs(x) >= 1000 else f"{x:.3g}"


class Recorder(Console):
    """A console that also keeps the tables it prints."""

    def __init__(self, like: Console) -> None:
        super().__init__(width=like.width, file=like.file)
        self.tables: list[Table] = []

    def print(self, *objects: Any, **options: Any) -> None:
        self.tables += [each for each in objects if isinstance(each, Table)]
        super().print(*objects, **options)


def markdown(tables: Sequence[Table], command: str) -> str:
    """Printed tables as Markdown, each followed by the command that prints it and the machine."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(Text.from_markup(cell).plain.replace("|", "\\|") for cell in cells) + " |"

    parts = []
    for each in tables:
        rows = zip(*(map(str, column.cells) for column in each.columns), strict=True)
        heads = [str(column.header) for column in each.columns]
        text = "\n".join([line(heads), line(["---"] * len(heads)), *map(line, rows)])
        parts.append("\n\n".join([*([f"## {each.title}"] if each.title else []), text, f"`{command}`, {machine()}"]))
    return "\n\n".join(parts) + "\n"


def machine() -> str:
    """Processor, cores and versions, in one line."""
    model, info = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        named = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    versions = f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}"
    return f"{model}, {os.cpu_count()} cores; {versions}"


def apart(function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns in a new process, so that the peak of memory is its own."""
    check_memory_known()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def check_memory_known() -> None:
    """Refuse to measure memory where the system does not tell it."""
    if resource is None:
        raise gvfx.InputError("bench: the peak of memory is told by POSIX systems alone; run it on Linux or macOS.")


def peak_megabytes() -> float:
    """The peak of the resident memory of this process so far, in MB (1024 * 1024 bytes)."""
    check_memory_known()
    assert resource is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in kB; on macOS in bytes
    return float(peak) / (1024**2 if sys.platform == "darwin" else 1024)
