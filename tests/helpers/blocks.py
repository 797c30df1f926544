"""The code blocks of the documentation: found, run, and their outputs compared or written anew.

    PYTHONPATH=tests python -m helpers.blocks docs/index.md     # writes the outputs below its Python blocks

A comment above a block says how a test runs it; it is not shown:

    <!-- test: steps=2000 -->             with no more than these steps (any number that gvfx.evaluate and its like take)
    <!-- test: needs pandas -->           only where this package is installed; elsewhere it is compiled
    <!-- test: slow -->                   among the slow tests; in the others it is compiled
    <!-- test: replace /workers=2/workers=1/ -->     with a text replaced
    <!-- test: before                     with this code run before it; may follow the others
    env = ...
    -->
    <!-- test: in docs/examples.md -->    an output that stands in another page too
    <!-- test: not code -->               a sketch that nobody runs

A block without a language or with `text`, directly below a Python block, is its output, and is compared unless the block was cut.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import gvfx

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:^<!-- test: (?P<note>.*?) ?-->\n)?^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```$", re.M | re.S)
CUT = {"evaluate", "plan", "truth_of", "evaluate_log", "check"}  # functions whose options a note may cut


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str  # its path in the repository
    line: int
    language: str
    code: str
    note: str  # what the comment above says
    end: int  # where it ends in the text
    begin: int
    output: Block | None = None  # the block below, if that is its output

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def before(self) -> str:
        """Code of the comment that is run first."""
        return self.note.partition("before\n")[2]

    @property
    def how(self) -> str:
        """The comment without that code."""
        return self.note.partition("before\n")[0]

    @property
    def tested(self) -> str:
        """The code with its replacements."""
        code = self.code
        for old, new in re.findall(r"/([^/]+)/([^/]*)/", self.how):
            assert old in code, f"{self}: {old!r} is not in the block"
            code = code.replace(old, new)
        return code

    @property
    def is_whole(self) -> bool:
        """Whether it runs as it is shown, so that its output can be compared."""
        return not self.cut and self.tested == self.code

    @property
    def cut(self) -> dict[str, float]:
        """The options that a test cuts."""
        return {
            name: float(number)
            for name, number in re.findall(r"(?<![/\w])(\w+)=([\d.e]+)", re.sub(r"/[^/]+/[^/]*/", "", self.how))
        }

    @property
    def missing(self) -> str:
        """A package that it needs and that is not installed."""
        needed = re.findall(r"needs (\w+)", self.how)
        return next((name for name in needed if find_spec(name) is None), "")


def pages() -> list[str]:
    """Every page with blocks: of the repository's root and of docs/."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order, each with its output."""
    text = (ROOT / page).read_text("utf-8")
    found: list[Block] = []
    for m in BLOCK.finditer(text):
        line = text.count("\n", 0, m.start("indent")) + 1
        code = re.sub(rf"^{m['indent']}", "", m["code"], flags=re.M)
        block = Block(page, line, m["language"], code, m["note"] or "", m.end(), m.start())
        above = found[-1] if found else None
        if block.language in ("", "text") and not block.note and above and above.language == "python":
            between = text[above.end : block.begin]
            if not between.strip():
                found[-1] = Block(**{**vars(above), "output": block})
        found.append(block)
    return found


def at_most(function: Any, most: dict[str, float]) -> Any:
    """The function with some of its options cut to at most these numbers."""

    known = inspect.signature(function)

    def called(*arguments: object, **options: Any) -> object:
        given = known.bind(*arguments, **options)
        given.apply_defaults()
        smaller = {k: int(min(given.arguments[k], n)) for k, n in most.items() if given.arguments.get(k) is not None}
        return function(*arguments, **{**options, **smaller})

    return called


@contextlib.contextmanager
def cut_to(most: dict[str, float]) -> Iterator[None]:
    """The functions of gvfx that run something, with smaller numbers."""
    with contextlib.ExitStack() as stack:
        for name in CUT if most else ():
            stack.enter_context(mock.patch.object(gvfx, name, at_most(getattr(gvfx, name), most)))
        yield


def run(block: Block, names: dict[str, Any]) -> str:
    """Run a Python block; what it printed."""
    exec(compile(block.before, f"{block} (before)", "exec"), names)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), cut_to(block.cut):
        exec(compile("\n" * block.line + block.tested, block.page, "exec"), names)
    return printed.getvalue()


def shown_values(code: str, names: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Run a piece of code; for every expression whose comment is a value: the expression, its value and the comment."""
    found = []
    lines = code.splitlines()
    for node in ast.parse(code).body:
        if not isinstance(node, ast.Expr):
            exec(compile(ast.Module([node], []), "<example>", "exec"), names)
            continue
        value = eval(compile(ast.Expression(node.value), "<example>", "eval"), names)
        tail = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
        said = tail.removeprefix("# ")
        if re.match(r"[(\[{'\d]|True|False|array\(", said):
            found.append((ast.unparse(node), repr(value), said))
    return found


def write_outputs(page: str) -> None:
    """Replace the outputs below a page's Python blocks by what the blocks print."""
    text = (ROOT / page).read_text("utf-8")
    names: dict[str, Any] = {}
    changes = []
    for block in blocks(page):
        if block.language == "python" and not block.missing:
            printed = run(block, names)
            if block.output is not None and block.is_whole:
                changes.append((block.output, printed))
    for output, printed in reversed(changes):
        text = f"{text[: output.begin]}```text\n{printed.rstrip()}\n```{text[output.end :]}"
    (ROOT / page).write_text(text, "utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_outputs(name)
