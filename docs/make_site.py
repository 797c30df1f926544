"""Build the documentation site into site/: Markdown of the repository, made into pages by Zensical (zensical.toml).

    python docs/make_site.py

It works without a network, and its pages open from disk without one.  Pages outside docs/ and the sources of the examples become
pages too; links to other files of the repository become plain text; formulas become MathML, which browsers show by themselves.
"""

from __future__ import annotations

import ast
import html
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).parents[1]
STAGE, SITE = ROOT / ".cache" / "site", ROOT / "site"
ELSEWHERE = {  # pages outside docs/, and their names in the site
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "LICENSE": "license.md",
}
COPIED = (".png", ".gif", ".svg", ".css", ".js", ".json", ".ipynb")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.M | re.S)
NOTE = re.compile(r"^<!-- (?:test|written by|end).*?-->\n", re.M | re.S)  # for tests and generators


def pages() -> dict[str, str]:
    """Every page of the site: its path in the repository -> its path in the site."""
    found = {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    found |= {here: there for here, there in ELSEWHERE.items() if (ROOT / here).exists()}
    for path in (ROOT / "examples").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        found[name] = name.removesuffix(".py") + ".md"
    return found


def outside_code(change: Any, text: str) -> str:
    """The text with a change made everywhere but in fenced blocks."""
    parts, last = [], 0
    for block in FENCED.finditer(text):
        parts += [change(text[last : block.start()]), block.group()]
        last = block.end()
    return "".join([*parts, change(text[last:])])


def relinked(text: str, source: str, where: dict[str, str]) -> str:
    """The text of a page with its links as they are in the site."""
    target_of = {**where, "README.md": "index.md"}

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found.group()
        path, _, anchor = target.partition("#")
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        here = posixpath.dirname(where[source])
        if meant in target_of:
            there = posixpath.relpath(target_of[meant], here or ".")
            return f"[{words}]({there}{'#' + anchor if anchor else ''})"
        if not (ROOT / meant).exists():
            print(f"{source}: {target} does not exist")
            return "" if picture else words
        if meant.startswith("docs/") and meant.endswith(COPIED):
            return f"{picture}[{words}]({posixpath.relpath(meant.removeprefix('docs/'), here or '.')})"
        if meant.endswith(".ipynb"):
            return f"[{words}]({posixpath.relpath(meant, here or '.')})"
        return f"`{meant}`" if words.strip("`") in meant else f"{words} (`{meant}`)"

    return outside_code(lambda part: LINK.sub(link, part), text)


def staged_page(source: str, where: dict[str, str]) -> str:
    text = (ROOT / source).read_text("utf-8")
    if source.endswith(".py"):
        title = (ast.get_docstring(ast.parse(text)) or source).splitlines()[0]
        return f"# {source}\n\n{title}\n\n```python\n{text}```\n"
    if source == "LICENSE":
        return f"# Licence\n\n```text\n{text}```\n"
    return relinked(outside_code(lambda part: NOTE.sub("", part), titled(text, source)), source, where)


def titled(text: str, source: str) -> str:
    """The text of a page with a title: tables begin with a smaller heading, and benchmarks are known by their command."""
    if re.match(r"# |<", text):
        return text
    name = Path(source).stem
    if name.startswith("bench-"):
        made = re.search(r"^`(python -m benchmarks [\w ]+)`", text, re.M)
        return f"# {made[1] if made else name}\n\n{text}"
    return re.sub(r"\A#+ ", "# ", text)


def title_of(page: str) -> str:
    """Its heading."""
    heading = re.search(r"^# (.*)$", (STAGE / "docs" / page).read_text("utf-8"), re.M)
    return heading[1] if heading else Path(page).stem


def navigation(entries: list[Any], there: set[str]) -> list[Any]:
    """The navigation without pages that do not exist, and with the pages that a pattern stands for."""
    named = {text for text in _names(entries) if "*" not in text}

    def kept(entry: Any) -> list[Any]:
        if isinstance(entry, str):
            if "*" not in entry:
                return [entry] if entry in there else []
            fits = [page for page in sorted(there - named) if Path(page).match(entry) and page.count("/") == entry.count("/")]
            return [{title_of(page): page} for page in fits]
        ((title, inner),) = entry.items()
        if isinstance(inner, str):
            return [{title: inner}] if inner in there else []
        below = [one for each in inner for one in kept(each)]
        return [{title: below}] if below else []

    return [one for entry in entries for one in kept(entry)]


def _names(entries: list[Any]) -> list[str]:
    return [
        name
        for entry in entries
        for inner in ([entry] if isinstance(entry, str) else entry.values())
        for name in ([inner] if isinstance(inner, str) else _names(inner))
    ]


def _toml(entry: Any) -> str:
    if isinstance(entry, str):
        return '"' + entry.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(entry, list):
        return "[" + ", ".join(map(_toml, entry)) + "]"
    return "{ " + ", ".join(f"{_toml(key)} = {_toml(value)}" for key, value in entry.items()) + " }"


def stage() -> None:
    """Write the Markdown and the settings that Zensical reads."""
    shutil.rmtree(STAGE, ignore_errors=True)
    where = pages()
    for source, there in where.items():
        path = STAGE / "docs" / there
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(staged_page(source, where), "utf-8")
    for path in [*(ROOT / "docs").rglob("*"), *(ROOT / "examples").rglob("*.ipynb")]:
        if path.suffix in COPIED:
            copy = STAGE / "docs" / path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    settings = (ROOT / "zensical.toml").read_text("utf-8")
    wanted = tomllib.loads(settings)["project"]["nav"]
    in_nav = {page for page in where.values() if not page.startswith("examples/")}
    written = f"nav = {_toml(navigation(wanted, in_nav))}\n"
    (STAGE / "zensical.toml").write_text(re.sub(r"^nav = \[.*?^\]\n", lambda _: written, settings, flags=re.M | re.S), "utf-8")


HOME = re.compile(r'(?<=<a )href="((?:\./)?(?:\.{1,2}(?:/\.\.)*)?)/?"')  # a folder, which a page opened from disk would list
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def with_formulas(page: str) -> str:
    """A page with its formulas as MathML."""

    def formula(found: re.Match[str]) -> str:
        tag, how, latex = found.groups()
        made = convert(html.unescape(latex).strip(), display="block" if how == "[" else "inline")
        return f'<{tag} class="formula">{made}</{tag}>'

    return FORMULA.sub(formula, page)


def build() -> None:
    stage()
    zensical = Path(sys.executable).with_name("zensical")
    command = [zensical, "build", "--clean", "--strict", "-f", STAGE / "zensical.toml"]  # strict: a broken link is an error
    code = subprocess.run(command, env=os.environ | {"NO_COLOR": "1"}).returncode
    if code:
        sys.exit(code)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(STAGE / "site", SITE)
    for path in SITE.rglob("*.html"):
        page = HOME.sub(lambda found: f'href="{found[1] or "."}/index.html"', path.read_text("utf-8"))
        path.write_text(with_formulas(page), "utf-8")
    print(f"{len(list(SITE.rglob('*.html')))} pages: open {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    build()
