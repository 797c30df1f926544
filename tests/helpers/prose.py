"""The prose of the results pages: its sentences, its numbers, the tables that it links to, and the numbers in those tables.

A number of a sentence is *held* if a cell of a linked table rounds to it.  Tables have hundreds of numbers, so that by chance
many would fit; therefore a cell counts only if it is about what is said about the number: its row and column must name a
setting (and a preset) of the sentence, and the method that the sentence names last before the number or directly after it (or,
if it names none, those of the last sentence of the paragraph that does).  Numbers in brackets are the ends of intervals, and
others are not; numbers in a table's headings and labels must be the same, and so must, nearly, a number of one digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGES = (
    "README.md",
    "continuous.md",
    "limit.md",
    "mujoco.md",
    "rivals.md",
)  # written by hand; the others are made by `gvfx reproduce`

NUMBER = re.compile(
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<power>e[+-]?\d+)?(?P<million> ?M\b|k\b)?"
)
POWER_OF_TEN = re.compile(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
INTERVAL = re.compile(r"\[-?[\d.,e+]+, -?[\d.,e+]+\]")
CODE = re.compile(r"`[^`]*`")
TARGET = re.compile(r"\]\(([^)]*)\)")
REFERENCE = re.compile(
    r"\b(?:Theorem|Thm\.|Tables?|Figures?|Fig\.|Sections?|Sec\.|Eqs?\.|Algorithm|App\.|Appendix|[Pp]oints?)"
    r"\s+(?:[A-Z]\.)?\d+(?:\.\d+)*(?:(?:, | and | to )(?:[A-Z]\.)?\d+(?:\.\d+)*(?![\d,]))*"
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b(?!,)")
LIST = re.compile(r"(?:'s)?[\s,*]*(?:and|or|to)?[\s,*]*")  # between the names of a list
DIRECTLY = re.compile(r"(?: %)?(?: \[[^\]]*\])?[^\d.;]{0,24}")  # between a number and a name that follows it
SENTENCE_END = re.compile(r"(?<=[.!?])\*{0,2}\s+(?=[A-Z*\[`(])")

COUNT = re.compile(r"\s+(?:seeds|episodes|worlds|GVFs|goals)\b")  # after a number that is no result
SEEDS = re.compile(r"seeds (\d+)")  # below a generated table
COUNTED = re.compile(r"(\d[\d,]*) (steps|seeds|worlds)")  # in its title
SETTINGS = {  # a setting of a table: how the prose names it
    "average": r"[Aa]verage (?:ratio )?(?:of|over)",
    "same": r"`same`",
    "distinct": r"`distinct`",
    "semi-greedy": r"[Ss]emi-greedy",
    "fourrooms": r"FourRooms|`fourrooms`",
    "fourrooms-visit": r"FourRooms|`fourrooms-visit`",
    "fourrooms-stationary": r"FourRooms",
    "forty": r"`forty`|[Ff]orty GVFs",
    "walker": r"Walker",
    "cheetah": r"Cheetah",
}
METHODS = {
    **{
        name: rf"\b{name}\b"
        for name in (
            *("GVFExplorer", "RoundRobin", "Uniform", "SR", "BPS", "OptimalDesign"),
            *("SecondMoment", "CharacteristicTime", "RobustSampling"),
        )
    },
    "Mixture": r"\bMixture\b",
    "Explorer+Uniform": r"\bmixture\b|half GVFExplorer|[Hh]alf explorer",
    "actor": r"\bactor\b",
}
VARIANTS = {  # rows of Tables 1 and 3
    "as printed": r"[Pp]rint|the paper (?:finds|has)",
    "(paper)": r"`paper`",
    "(authors)": r"`authors`|[Aa]uthors' (?:code|form)|the authors run",
    "tuned": r"[Tt]un(?:ed|ing)|protocol",
    "stabilised": r"[Ss]tabilised",
}
KINDS = (SETTINGS, METHODS, VARIANTS)


@dataclass(frozen=True)
class Shown:
    """A number as the prose shows it."""

    text: str
    value: float
    unit: float  # of the last digit shown
    start: int = 0  # where it stands in the text
    bound: bool = False  # the end of an interval, in brackets

    def rounds(self, number: float) -> bool:
        """Whether a number, rounded to the digits shown, is this one; within 2.5 % if only one digit is shown."""
        one_digit = round(self.value / self.unit) < 10
        return abs(number - self.value) <= min(0.5 * self.unit, 0.025 * self.value if one_digit else np.inf) + 1e-9 * self.value


@dataclass(frozen=True)
class Cell:
    """A number of a generated table, and the settings and methods that its row and column name."""

    value: float
    bound: bool  # the end of an interval
    names: tuple[frozenset[str], ...]  # by kind
    label: bool = False  # in a heading or a label: an option, not a result
    word: str = ""  # that must stand in the sentence

    def fits(self, shown: Shown) -> bool:
        return abs(self.value - shown.value) <= 1e-9 * self.value if self.label else shown.rounds(self.value)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph or an item of a list, without code blocks, tables and headings."""

    page: str
    section: str  # the heading that it stands under
    line: int
    text: str

    @property
    def links(self) -> list[str]:
        """The files of this folder that it links to."""
        return [name for name in TARGET.findall(self.text) if "/" not in name]

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Every sentence and where it begins."""
        start = 0
        for end in [m.end() for m in SENTENCE_END.finditer(self.text)] + [len(self.text)]:
            yield start, self.text[start:end]
            start = end


def paragraphs(page: str, text: str) -> list[Paragraph]:
    """The paragraphs and list items of a page."""
    found: list[Paragraph] = []
    kept: list[str] = []
    begun, code, section = 0, False, ""

    def close() -> None:
        if kept:
            found.append(Paragraph(page, section, begun, "\n".join(kept)))
            kept.clear()

    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        code ^= fence
        item = re.match(r"\s*(?:\d+\.|[-*])\s", line)
        if fence or code or not line.strip() or line.startswith(("#", "|")) or item:
            close()
        if line.startswith("#") and not code:
            section = line
        if not (fence or code or not line.strip() or line.startswith(("#", "|"))):
            if not kept:
                begun = number
            kept.append(" " * item.end() + line[item.end() :] if item else line)
    close()
    return found


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda m: re.sub(r"\S", " ", m.group()), text)


def numbers(text: str) -> list[Shown]:
    """The numbers of a text that speak of results: without code, links, years and the numbers of sections, equations, ..."""
    for pattern in (CODE, TARGET, REFERENCE, YEAR):
        text = _blank(pattern, text)
    found = []
    for m in POWER_OF_TEN.finditer(text):
        value = 10.0 ** int(m[1].translate(RAISED))
        found.append(Shown(m.group(), value, value, m.start()))
    text = _blank(POWER_OF_TEN, text)
    inside = [range(*m.span()) for m in INTERVAL.finditer(text)]
    for m in NUMBER.finditer(text):
        digits, scale = m["digits"].replace(",", ""), float("1" + m["power"]) if m["power"] else 1.0
        scale *= {" M": 1e6, "M": 1e6, "k": 1e3}.get(m["million"] or "", 1.0)
        decimals = len(digits.partition(".")[2])
        bound = any(m.start() in span for span in inside)
        found.append(Shown(m.group(), float(digits) * scale, 10.0**-decimals * scale, m.start(), bound))
    return sorted(found, key=lambda shown: shown.start)


def groups(text: str, kind: Mapping[str, str]) -> list[tuple[int, int, frozenset[str]]]:
    """Where a sentence names settings or methods: begin, end and names; those of a list ("`same` and `distinct`") together."""
    found = sorted((m.start(), m.end(), name) for name, pattern in kind.items() for m in re.finditer(pattern, text))
    out: list[tuple[int, int, frozenset[str]]] = []
    for start, end, name in found:
        if out and (start <= out[-1][1] or LIST.fullmatch(text[out[-1][1] : start])):
            start, _, names = out.pop()
            out.append((start, end, names | {name}))
        else:
            out.append((start, end, frozenset({name})))
    return out


def all_named(text: str, kind: Mapping[str, str]) -> frozenset[str]:
    return frozenset().union(*(names for _, _, names in groups(text, kind)))


def spoken_of(text: str, shown: Shown, kind: Mapping[str, str]) -> frozenset[str]:
    """The settings and presets of a sentence; of its methods those named last before the number, and those directly after it."""
    if kind is not METHODS:
        return all_named(text, kind)
    found = groups(text, kind)
    after = shown.start + len(shown.text)
    before = [names for start, _, names in found if start < shown.start][-1:]
    directly = [names for start, _, names in found if start >= after and DIRECTLY.fullmatch(text[after:start])]
    return frozenset().union(*before, *directly) or all_named(text, kind)


# --- tables ------------------------------------------------------------------------------------------------------


def _labels(text: str) -> tuple[frozenset[str], ...]:
    """The settings and methods in the text of a table's cell or heading."""
    found = []
    for kind in KINDS:
        names = sorted(kind, key=len, reverse=True)
        pattern = "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names)
        found.append(frozenset(re.findall(pattern, text)))
    return tuple(found)


def _joined(*labels: tuple[frozenset[str], ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset().union(*each) for each in zip(*labels, strict=True))


NOBODY = tuple(frozenset() for _ in KINDS)


@cache
def table_cells(name: str) -> tuple[Cell, ...]:
    """Every number in the tables of a generated page, and its numbers of seeds; none if the page is written by hand."""
    path = RESULTS / name
    text = path.read_text() if path.suffix == ".md" and path.exists() else ""
    return cells_of(text)


def cells_of(text: str) -> tuple[Cell, ...]:
    if not re.search(r"^`(?:gvfx reproduce |python -m benchmarks |make test-faults)", text, re.M):
        return ()
    found: list[Cell] = []
    heads: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            heads = []
            if line.startswith("`gvfx "):
                found += [Cell(float(m[1]), False, NOBODY, True, "seed|runs") for m in SEEDS.finditer(line)]
            if line.startswith("## "):
                found += [Cell(float(m[1].replace(",", "")), False, NOBODY, True, m[2]) for m in COUNTED.finditer(line)]
            continue
        cells = [cell.strip().replace("**", "") for cell in line.strip("|").split(" | ")]
        if not heads:
            heads = cells
            found += [Cell(shown.value, shown.bound, _labels(cell), label=True) for cell in cells for shown in numbers(cell)]
            continue
        row = _joined(NOBODY, *(_labels(cell) for k, cell in enumerate(cells) if not k or not re.search(r"\d", cell)))
        for k, (head, cell) in enumerate(zip(heads, cells, strict=False)):
            names = _joined(row, _labels(head), _labels(cell))
            found += [Cell(shown.value, shown.bound, names, label=not k) for shown in numbers(cell)]
    return tuple(found)


# --- checking ----------------------------------------------------------------------------------------------------

Constants = Mapping[str, frozenset[float]]  # a word that must stand in the sentence: the values of the code


@dataclass(frozen=True)
class Claim:
    """A number of the prose, with what is known about it."""

    page: str
    line: int
    shown: Shown
    sentence: str
    cells: tuple[Cell, ...]  # those that the sentence can speak of
    constants: frozenset[float]

    def is_held(self, shown: Shown | None = None) -> bool:
        """Whether a table or a setting holds the number (or another in its place)."""
        shown = shown or self.shown
        if any(abs(value - shown.value) <= 1e-9 * value for value in self.constants):
            return True
        if POWER_OF_TEN.fullmatch(shown.text):
            return any(shown.value <= cell.value < 10 * shown.value for cell in self.cells)
        return any(cell.fits(shown) for cell in self.cells)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.shown.text} in {' '.join(self.sentence.split())!r}"


def claims(page: str, text: str, constants: Constants) -> Iterator[Claim]:
    """Every number in the prose of a page, with the cells of the tables that its paragraph links to, or else its section,
    or else the page."""
    everything = paragraphs(page, text)
    for paragraph in everything:
        section = [p for p in everything if p.section == paragraph.section]
        for near in ([paragraph], section, everything):
            cells = [c for name in dict.fromkeys(link for p in near for link in p.links) for c in table_cells(name)]
            if cells:
                break
        context = list(NOBODY)
        for start, sentence in paragraph.sentences():
            known = frozenset(v for word, values in constants.items() if re.search(word, sentence) for v in values)
            for shown in numbers(sentence):
                about = [spoken_of(sentence, shown, kind) or c for kind, c in zip(KINDS, context, strict=True)]
                counts = COUNT.match(sentence, shown.start + len(shown.text))
                fits = tuple(
                    c
                    for c in cells
                    if c.bound == shown.bound
                    and (c.label or not counts)
                    and re.search(c.word, sentence)
                    and all(not n or not k or n & k for n, k in zip(about, c.names, strict=True))
                )
                line = paragraph.line + paragraph.text[: start + shown.start].count("\n")
                yield Claim(page, line, shown, sentence, fits, known)
            context = [all_named(sentence, kind) or before for kind, before in zip(KINDS, context, strict=True)]


def altered(shown: Shown) -> list[Shown]:
    """The same number a few percent larger and smaller, with as many digits; none of a number of one digit."""
    if POWER_OF_TEN.fullmatch(shown.text):
        return [Shown(shown.text, shown.value * factor, shown.unit * factor) for factor in (0.1, 10.0)]
    if round(shown.value / shown.unit) < 10:
        return []
    step = max(1, round(0.05 * shown.value / shown.unit)) * shown.unit
    return [Shown("", value, shown.unit) for value in (shown.value + step, shown.value - step)]
