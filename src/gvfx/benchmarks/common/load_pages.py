"""A report page with many figures, and the time until a browser has opened it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from gvfx.report.page import Curves, DataTable, Maps, Page, Panel, Provenance, Section, Series, Summary, render

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MADE = Provenance("gvfx bench load", "0 to 24", "", "0")
COLOURS = ("#c2255c", "#1c7ed6", "#0ca678", "#868e96", "#f08c00", "#5f3dc4")
TIMER = """<script>addEventListener("load", () => requestAnimationFrame(() => setTimeout(() => {
const paint = performance.getEntriesByName("first-contentful-paint")[0];
console.log(`opened ${Math.max(performance.now(), paint ? paint.startTime : 0)}`); })));</script>"""


def page_of_figures(count: int) -> Page:
    """A page of `count` figures: curves, maps and tables in turn, in sections of twenty."""
    random = np.random.default_rng(0)
    x = np.arange(1, 101) * 20_000
    items: list[Curves | Maps | DataTable] = []
    for k in range(count):
        if k % 4 == 3:
            rows = [[f"method {r}", *(f"{v:.3g}" for v in random.random(4))] for r in range(12)]
            items.append(DataTable(f"item-{k}", f"Table {k}", "", ["method", *"abcd"], rows, provenance=MADE))
        elif k % 2:
            panels = [Panel(f"GVF {p}", [random.random(400) for _ in range(4)]) for p in range(2)]
            times = [1, 2, 3, 4]
            items.append(Maps(f"item-{k}", f"Maps {k}", "", 20, 20, [], [(0, 0)], times, panels, False, "error", MADE))
        else:
            means = [np.exp(-x / 5e5) * random.uniform(0.8, 1.2, len(x)) + 0.1 for _ in COLOURS]
            series = [Series(f"method {c}", m, 0.9 * m, 1.1 * m, colour) for c, (m, colour) in enumerate(zip(means, COLOURS))]
            items.append(Curves(f"item-{k}", f"Curves {k}", "", x, series, "error", MADE))
    sections = [Section(f"part-{k}", f"Part {k // 20}", "", tuple(items[k : k + 20])) for k in range(0, count, 20)]
    return Page(f"{count} figures", "", Summary("How long?", "See below."), tuple(sections))


def browser() -> str | None:
    """The path of Chromium, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def seconds_to_open(page: Page, program: str) -> float:
    """The time from the start of the navigation until the page is loaded and painted, in headless Chromium."""
    text = render(page).replace("<style>", f"{TIMER}<style>", 1)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--enable-logging=stderr"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        call = [program, *flags, f"--user-data-dir={folder}/profile", f"--screenshot={folder}/page.png", path.as_uri()]
        done = subprocess.run(call, capture_output=True, text=True, errors="replace", timeout=120)
    found = re.search(r'"opened ([\d.]+)"', done.stderr)
    if found is None:
        raise RuntimeError(f"{program} did not open the page: {done.stderr[-300:]}")
    return float(found[1]) / 1000
