"""Hostile names of questions, policies, environments and files: no script runs in a page, no terminal obeys them."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from helpers import pages
from helpers.browser import Browser

from faults.malformed import COLUMNS, ROWS, written
from faults.processes import Ended, forked, warm_up
from faults.trials import Trials
from gvfx.experiments.store import Divergence, Store
from gvfx.report.page import write_page
from gvfx_paper.items import ITEMS, curves_with_seeds

FULL, FAST, SECONDS = 130, 4, 150
FIRE = "window.fired=1"
NAMES = [
    f"<script>{FIRE}</script>",
    f"</script><script>{FIRE}</script>",
    f"<img src=x onerror={FIRE}>",
    f"\"><svg/onload='{FIRE}'>",
    f"' onmouseover='{FIRE}' x='",
    f'" onfocus="{FIRE}" autofocus tabindex="1',
    f"javascript:{FIRE}",
    f"<a href=javascript:{FIRE}>x</a>",
    "<iframe src=http://example.invalid/></iframe>",
    "<link rel=stylesheet href=http://example.invalid/a.css>",
    "</style><style>*{background:url(http://example.invalid/b)}",
    "red;background:url(http://example.invalid/c)",
    f"${{{FIRE}}} {{{{{FIRE}}}}} <%= {FIRE} %>",
    f"`${{{FIRE}}}`",
    "$title $data $$ ${css}",
    f"<!-- --!> <![CDATA[ {FIRE} ]]>",
    "__proto__",
    "constructor",
    "\\u003cscript\\u003e \\",
    "\u2028\u2029\x00x",
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]8;;http://example.invalid\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJm\x07 \x1b]0;title\x07",
    "\x9b31m \x90q \x1bPq\x1b\\",
    "back\x08\x08\x08\rover\nline\ttab\x7f",
    "right‮txt.exe‬ ⁦left⁩",
    "zero\u200bwidth\u200d\ufeff\u00ad",
    "n" * 5000,
    "../../x",
    "[bold]x[/] [/] [link=http://example.invalid]y[/link] :smile:",
    "half \ud800 \udfff",
    "🦊👩‍👩‍👧 ünï Ω 漢字 עברית",
    "{0} {name!r} %s %(x)d",
]
WORLD = """
import json
import gymnasium as gym
import gvfx

NAME = json.load(open("name.json"))

class Lake(gym.Wrapper):
    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, NAME: 1.0}

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return observation, {**info, NAME: 1.0}

class Failing(Lake):
    def step(self, action):
        raise RuntimeError(NAME)

def act(state):
    return [0.25, 0.25, 0.25, 0.25]

def other(state):
    return [0.7, 0.1, 0.1, 0.1]

act.__name__ = act.__qualname__ = NAME
questions = [gvfx.GVF(act, gvfx.Info(NAME), 0.9, name=NAME), gvfx.GVF(act, gvfx.Reward(), 0.9, name=NAME + "'"),
             gvfx.GVF(other, gvfx.Reward(), 0.9, name=NAME + '"')]

def made(kind, asked=questions):
    env = gym.make("FrozenLake-v1")
    env.spec.id = NAME.replace("/", "|") or "x"
    return kind(env), asked

def make(): return made(Lake)
def failing(): return made(Failing)
def twice(): return made(Lake, questions * 2)
def absent(): return made(Lake, [gvfx.GVF(act, gvfx.Info(NAME + "?"), 0.9, name=NAME)])
def raising(): raise RuntimeError(NAME)
def negative(): return made(Lake, [gvfx.GVF(act, gvfx.Reward(), 0.9, name=NAME, weight=-1)])
def endless(): return made(Lake, [gvfx.GVF(act, gvfx.Reward(), 1.0, name=NAME)])
def known(): return gvfx.gridworld(3, goals={"g": (0, 0)}), [gvfx.GVF(gvfx.uniform_policy(), 1.0, 0.9, name=NAME)]
"""
LOG = written(COLUMNS[:5], [row[:5] for row in ROWS])
TOML = "discount = 0.9\n[policies]\n{0} = 'uniform'\nright = {{action = 2}}\n[signals]\n{0} = 'reward'\n"
COMMANDS: list[list[str]] = [
    [
        "evaluate",
        "world.py:make",
        "--steps",
        "200",
        "--until",
        "1e-9",
        "--where",
        "start",
        "--save",
        "a.gvfx",
        "--json",
        "NAME.json",
    ],
    ["evaluate", "world.py:endless", "--steps", "200"],
    ["evaluate", "world.py:failing", "--steps", "200"],
    ["evaluate", "world.py:twice"],
    ["evaluate", "world.py:absent", "--steps", "200"],
    ["evaluate", "world.py:raising"],
    ["evaluate", "world.py:negative"],
    ["evaluate", "FrozenLake-v1", "--questions", "q.toml", "--steps", "200", "--until", "decided"],
    ["check", "world.py:make", "--steps", "50"],
    ["check", "world.py:absent", "--steps", "50"],
    ["plan", "world.py:known"],
    ["truth", "world.py:make", "--max-episodes", "20"],
    ["log", "log.csv", "--questions", "q.toml", "--report", "NAME.html"],
    ["report", "a.gvfx", "--out", "NAME.html"],
    ["report", "NAME"],
    ["evaluate", "NAME"],
    ["evaluate", "world.py:NAME"],
    ["evaluate", "world.py:make", "--learner", "NAME"],
    ["evaluate", "world.py:make", "--NAME"],
    ["run", "NAME"],
    ["run", "same", "--where", "NAME", "--steps", "50", "--seeds", "1", "--workers", "1"],
    ["NAME"],
    ["init", "NAME.txt"],
    ["reproduce", "variance", "--seeds", "1", "--workers", "1", "--results", "stored"],
    ["report", "stored"],
]
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
OF_RICH = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK])|\x1b\[2K|\r")  # colours, and the moves of progress bars
TOUCH = """(async () => {
  const pause = () => new Promise((done) => setTimeout(done, 5));
  const each = (what, act) => { for (const part of document.querySelectorAll(what)) act(part); };
  each("details", (part) => { part.open = true; });
  for (const key of ["Enter", " ", "Home", "End", "ArrowRight", "Escape"]) {
    each("button, a, [tabindex], input", (part) => {
      part.focus();
      part.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    });
    await pause();
  }
  each("*", (part) => { for (const kind of ["pointerenter", "pointermove", "mouseover", "mousemove", "focusin"])
    part.dispatchEvent(new PointerEvent(kind, {bubbles: true, clientX: 200, clientY: 200})); });
  each("input", (part) => {
    for (const value of [part.min, part.max]) { part.value = value; part.dispatchEvent(new Event("input", {bubbles: true})); }
  });
  each("button", (part) => part.click());
  each("a", (part) => { if (part.getAttribute("href").startsWith("#")) part.click(); });
  await pause();
  return [window.fired ?? 0, document.querySelectorAll("main section").length, document.scripts.length];
})()"""


def furnish(folder: Path, name: str) -> None:
    """A world, a log and questions whose names are hostile."""
    (folder / "name.json").write_text(json.dumps(name))
    (folder / "world.py").write_text(WORLD)
    (folder / "log.csv").write_text(LOG)
    quoted = json.dumps(name.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
    (folder / "q.toml").write_text(TOML.format(quoted), encoding="utf-8")
    for curve, _ in curves_with_seeds([ITEMS["variance"]], {}, 1):  # a record of a run that anyone can have written
        record = Divergence(curve.experiment.hash, 0, name, name, name, 5, None, name, name)
        Store(folder / "stored").save_divergence(curve.experiment, record)
    (folder / "stored" / "tuned.json").write_text(json.dumps({name: {name: [0.5, 0.5]}, "same": {name: [0.5, 0.5]}}))


def as_argument(text: str, name: str) -> str:
    """NAME in the place of which a command line has the name, as far as one can: without NUL, and in bytes."""
    return text.replace("NAME", name.replace("\x00", "").encode("utf-8", "replace").decode()[:4000])


def in_a_terminal(arguments: list[str], folder: Path) -> Ended:
    """A command whose output is a terminal."""
    master, slave = os.openpty()
    read: list[bytes] = []

    def reader() -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(master, 65536):
                read.append(part)

    thread = threading.Thread(target=reader, daemon=True)
    thread.start()

    def attach() -> None:
        for handle in (0, 1, 2):
            os.dup2(slave, handle)

    ended = forked(*arguments, cwd=folder, timeout=120, before=attach)
    os.close(slave)
    thread.join(5)
    os.close(master)
    return Ended(ended.code, b"".join(read).decode(errors="replace").replace("\r\n", "\n"), ended.err, ended.seconds)


def obeyed(name: str, said: str) -> str:
    """What of a text a terminal would obey; empty if nothing."""
    found = CONTROLS.search(said)
    if found:
        return f"{found.group()!r} at {said[max(0, found.start() - 60) : found.end() + 30]!r}"
    sequences = [part for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]", name) if part in said]
    return f"{sequences[0]!r} of the name" if sequences else ""


def terminal(name: str, folder: Path, tty: bool) -> str:
    """All commands with a name; what went wrong."""
    first = NAMES.index(name) % 3 if tty else NAMES.index(name) % 2  # each name with a part of them
    for command in COMMANDS[first :: 3 if tty else 2]:
        arguments = [as_argument(part, name) for part in command]
        ended = in_a_terminal(arguments, folder) if tty else forked(*arguments, cwd=folder, timeout=120)
        said = ended.out + ended.err
        seen = OF_RICH.sub("", said) if tty else said
        wrong = obeyed(name, seen)
        if tty and not wrong:
            wrong = next((f"{part!r} of the name" for part in re.findall(r"\x1b\[[0-9;]*[A-Zln-z]", name) if part in said), "")
        if wrong or ended.code not in (0, 1, 2) or "Traceback" in said:
            return f"{' '.join(command)}: exit code {ended.code}, {wrong or said[-1500:]}"
    return ""


def touched(browser: Browser, page: Path) -> str:
    """Open a page and touch every control; what went wrong."""
    browser.errors.clear()
    browser.requests.clear()
    browser.open(page)
    fired, sections, scripts = browser.run(TOUCH)
    outside = [url for url in browser.requests if not url.startswith(page.resolve().as_uri())]
    if fired or outside or browser.errors or scripts != 2 or not sections:
        return f"fired: {fired}, requests: {outside}, errors: {browser.errors[:2]}, {scripts} scripts, {sections} sections"
    return ""


def unsafe(page: Path) -> str:
    """What in the text of a page could break out of its data."""
    text = page.read_text(encoding="utf-8")
    data = text.partition('id="data">')[2].partition("</script>")[0]
    if (
        text.count("<script") != 2
        or text.count("</script") != 2
        or set(data) & set("<>&\n")
        or "Content-Security-Policy" not in text
    ):
        return "the page has other elements than its own"
    return ""


def page_of_a_result(name: str, folder: Path, browser: Browser | None) -> str:
    """A result with a hostile name everywhere is saved, and its page written."""
    ended = forked(*COMMANDS[0][:-2], cwd=folder, timeout=120)
    if ended.code == 0:
        ended = forked("report", "a.gvfx", cwd=folder, timeout=120)
    page = folder / "a.html"
    if not page.exists():
        return f"no page: {ended}"
    return unsafe(page) or ("" if browser is None else touched(browser, page))


def page_of_a_folder(name: str, folder: Path, browser: Browser | None) -> str:
    """A results folder in which names are hostile: those of settings are refused, in printable words, and the others shown."""
    ended = forked("report", "stored", "--seeds", "1", cwd=folder, timeout=120)
    if not ended.sentence or any(c != "\n" and not c.isprintable() for c in ended.err):
        return f"hostile names of settings: {ended}"
    (folder / "stored" / "tuned.json").unlink()
    ended = forked("report", "stored", "--seeds", "1", cwd=folder, timeout=120)
    page = folder / "stored" / "report.html"
    if ended.code != 0 or not page.exists():
        return f"no page: {ended}"
    return unsafe(page) or ("" if browser is None else touched(browser, page))


def page_of_every_kind(name: str, folder: Path, browser: Browser | None) -> str:
    """A page with every kind of figure and table, in which each name is hostile."""
    usual, pages.AWKWARD = pages.AWKWARD, name
    try:
        write_page(folder / "b.html", pages.demo())
    finally:
        pages.AWKWARD = usual
    return unsafe(folder / "b.html") or ("" if browser is None else touched(browser, folder / "b.html"))


def run(trials: Trials) -> None:
    warm_up()
    with ExitStack() as stack:
        browser: Browser | None = None
        try:
            browser = stack.enter_context(Browser())
        except RuntimeError as error:
            trials.note(f"pages were read, but not opened in a browser: {error}")
        kinds: dict[str, Callable[[str, Path], str]] = {
            "page of a result": lambda name, folder: page_of_a_result(name, folder, browser),
            "page of a results folder": lambda name, folder: page_of_a_folder(name, folder, browser),
            "page of every kind": lambda name, folder: page_of_every_kind(name, folder, browser),
            "output in a file": lambda name, folder: terminal(name, folder, False),
            "output in a terminal": lambda name, folder: terminal(name, folder, True),
        }
        left = [(kind, name) for name in NAMES for kind in kinds]
        trials.random.shuffle(left)
        for kind, name in left:
            if trials.done:
                break
            with trials.scratch() as folder:
                furnish(folder, name)
                try:
                    wrong = kinds[kind](name, folder)
                except Exception as error:  # of a page that cannot be written, or of the browser
                    wrong = f"{type(error).__name__}: {error}"
                trials.check(kind, not wrong, f"{name[:100]!r}: {wrong}")
