"""The HTML report: one file, safe with any name, and alive in a real browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import Browser

from gvfx.report import page
from gvfx.report.page import Curves, DataTable, Maps, Page, Panel, Provenance, Section, Series, Summary, write_page

AWKWARD = "</script><b>x</b> \"quoted\" & 'single' \u2028 <!-- ünï"


HUES = {
    "GVFExplorer": "#c2255c",
    "RoundRobin": "#1c7ed6",
    "MixturePolicy": "#0ca678",
    "UniformPolicy": "#868e96",
    "SR": "#f08c00",
}


MADE = Provenance(
    "gvfx reproduce fig:grid_simple --seeds 25", "0 to 24", "gvfx 0.1.0, numpy 2.3.1, Python 3.12.3", "9f2c51d7a0be4c1e"
)


def demo() -> Page:
    """A page with every kind of item, gaps in the data and names that try to break out."""
    random = np.random.default_rng(0)
    steps = np.arange(100_000, 2_000_001, 100_000)
    series = []
    for k, (name, hue) in enumerate(HUES.items()):
        mean = 900 * np.exp(-steps / (3e5 + 2e5 * k)) * random.uniform(0.85, 1.15, len(steps)) + 4 + 6 * k
        series.append(Series(name, mean, mean * 0.8, mean * 1.25, hue))
    holes = np.where(np.arange(len(steps)) % 7 == 3, np.nan, 40 + 300 / np.arange(1, len(steps) + 1))
    series.append(Series(AWKWARD, holes, np.where(holes > 60, -np.inf, holes - 45), holes + 30, "#5f3dc4", dashed=True))
    curves = Curves(
        "grid-simple",
        "Distinct goals, Expected Sarsa",
        "fig:grid_simple",
        steps,
        series,
        "MSE, averaged over GVFs",
        MADE,
        "Mean of 25 seeds; the band is a 95 % bootstrap interval.",
        [("lowest error any behaviour can reach", 3.2)],
    )
    near = Curves(
        "near",
        "A measure near one",
        "",
        [1000.0, 2000.0, 3000.0],
        [Series("ratio", [0.98, 1.0, 1.01], [0.95, 0.97, 1.0], [1.0, 1.03, 1.02], "#1c7ed6")],
        "ratio to the optimum",
        MADE,
    )
    size, times = 20, [100_000, 500_000, 1_000_000, 2_000_000]
    rows, columns = np.mgrid[:size, :size]
    walls = [size * 10 + c for c in range(size) if c not in (4, 15)]
    goals = [(0, 0), (0, size - 1)]

    def panel(name: str, rate: float, when: list[int] = times) -> Panel:
        frames = []
        for time in when:
            values = np.exp(-rate * time / 1e6) * (0.2 + np.exp(-np.hypot(rows, columns - 9) / 6)) * 90
            values[(rows == 10) & ~np.isin(columns, (4,))] = np.nan
            frames.append((values * random.uniform(0.8, 1.2, values.shape)).ravel())
        move = np.stack([columns - 9.5, rows - 19.0], axis=-1)
        return Panel(name, frames, [move.reshape(-1, 2)] * len(when))

    errors = Maps(
        "error-maps",
        "Where the error is",
        "fig:value_error",
        size,
        size,
        walls,
        goals,
        times,
        [
            Panel(p.title, p.frames, paths=[[np.array([(3.5, 3.5), (3.5, 0.5), (0.5, 0.5)])]] * len(p.frames))
            for p in (panel("RoundRobin", 0.9), panel("GVFExplorer", 2.2))
        ],
        True,
        "absolute value error",
        MADE,
        "Move the slider to see learning proceed.",
    )
    moves = Maps(
        "moves",
        "Where the behaviour goes",
        "",
        size,
        size,
        walls,
        [(0.5, 0.5), (0.5, size - 1.5)],
        times[-1:],
        [panel(AWKWARD, 1.0, times[-1:])],
        False,
        "visits, %",
        MADE,
        radius=1.0,
        columns=1,
    )
    table = DataTable(
        "final",
        "Error after two million steps",
        "tab:final",
        ["Method", "Distinct goals", "Semi-greedy", "Four rooms", "Forty questions", "Steps to 10 % error", "Verdict"],
        [
            ["GVFExplorer", "4.1 ± 0.3", "2.2 ± 0.1", "10.4 ± 1.2", "7.9 ± 0.4", "410,000", "agrees"],
            ["RoundRobin", "10.2 ± 0.9", "2.9 ± 0.2", "18.8 ± 2.0", "11.3 ± 0.8", "1,200,000", "agrees"],
            [AWKWARD, "16.0 ± 1.1", "–", "9.7 ± 1.0", "15.2 ± 1.5", "not reached", "differs"],
        ],
        [(0, 1), (0, 2), (2, 3), (0, 4)],
        MADE,
    )
    return Page(
        "Many questions, one stream",
        "Six behaviours compared on the paper's settings, with the same learner and the same seeds.",
        Summary(
            "Does a behaviour that minimises the variance of its answers need fewer steps than asking each question in turn?",
            "Yes: GVFExplorer reaches the error of RoundRobin with a third of the steps on three of four settings.",
            (
                "Final error 4.1 against 10.2 on distinct goals; 25 seeds, paired difference 6.1, 95 % interval 5.2 to 7.0.",
                "The lead grows with the number of questions: a factor of 1.3 with two and 2.5 with forty.",
                f"Certainty is low for {AWKWARD}, which has gaps.",
            ),
            ("Four rooms: SR ends below GVFExplorer (9.7 against 10.4), the paper says the opposite.",),
        ),
        (
            Section(
                "curves", "Learning curves", "Every method shares one learner.\n\nOnly the behaviour differs.", (curves, near)
            ),
            Section("maps", "Maps", f"A map per method, named {AWKWARD}.", (errors, moves)),
            Section("tables", AWKWARD, "All numbers in one place.", (table,)),
        ),
        {"gvfx": "0.1.0", "seeds": "0 to 24", "written": "2025-01-01 12:00 UTC", AWKWARD: AWKWARD},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, demo())
    return path


@pytest.fixture(scope="module")
def browser(written):
    with Browser() as shared:
        yield shared


@pytest.fixture
def tab(browser, written):
    browser.errors.clear()
    browser.requests.clear()
    browser.open(written)
    yield browser
    browser.settle()
    assert browser.errors == []


# ---------- the file


def test_one_file_that_asks_for_nothing_else(written):
    text = written.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<)]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\s(src|href)\s*=\s*[\"']?", text.split('<script type="application/json"')[0])
    assert not re.search(r"<link|@import|url\((?!#)|fetch\(|XMLHttpRequest|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text)
    assert list(written.parent.iterdir()) == [written]


def test_no_name_breaks_out_of_the_data(written):
    text = written.read_text(encoding="utf-8")
    assert text.count("</script") == 2 and "<b>" not in text and "\u2028" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1)
    assert not set(data) & set("<>&\n")
    assert json.loads(data)["sections"][2]["title"] == AWKWARD


def test_every_script_is_joined_into_the_page(written):
    text = written.read_text(encoding="utf-8")
    scripts = sorted((Path(page.__file__).parent / "assets").glob("*.js"))
    assert sorted(page.SCRIPTS) == [path.stem for path in scripts]
    assert all(path.read_text(encoding="utf-8") in text for path in scripts)


def test_the_title_is_escaped():
    text = page.render(Page(AWKWARD, "", Summary("", ""), ()))
    assert "<title>&lt;/script&gt;&lt;b&gt;x" in text and "<b>" not in text


def test_gaps_are_null_and_numbers_are_kept():
    data = json.loads(page.to_json(demo()), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    curves = data["sections"][0]["items"][0]
    assert curves["series"][5]["mean"][3] is None and curves["series"][5]["low"][0] is None
    assert curves["steps"][-1] == 2_000_000
    assert page.plain([float("nan"), float("inf"), np.float32(0.5), np.int64(3), 1 / 3]) == [None, None, 0.5, 3, 0.3333333]
    arrows = data["sections"][1]["items"][1]["panels"][0]["arrows"][0]
    assert len(arrows) == 2 * 400 and arrows[:2] == [-9.5, -19]


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    write_page(path, demo())
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(path, demo())
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Series("a", [1], [1], [1], "red; x"), "colour"),
        (lambda: Curves("c", "", "", [1, 2], [Series("a", [1], [1], [1], "red")], "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 2, 2, [], [], [1], [Panel("p", [[1, 2, 3]])], False, "", MADE), "length 3, but 4"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1, 2], [Panel("p", [[1]])], False, "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1], [Panel("p", [[1]], [[1]])], False, "", MADE), "length 1, but 2"),
        (lambda: Maps("m", "", "", 1, 1, [], [], [1], [Panel("p", [[1]], paths=[])], False, "", MADE), "length 0, but 1"),
        (lambda: DataTable("t", "", "", ["a", "b"], [["1"]], None, MADE), "length 1, but 2"),
        (lambda: DataTable("t", "", "", ["a"], [["1"]]), "provenance"),
        (lambda: Page("", "", Summary("", ""), (Section("a", "", ""), Section("a", "", ""))), "already taken"),
    ],
)
def test_what_cannot_be_drawn_is_refused(build, complaint):
    with pytest.raises(ValueError, match=complaint):
        build()


# ---------- in a browser

CURVE = "document.getElementById('grid-simple')"
MAP = "document.getElementById('error-maps')"
TICKS = f"[...{CURVE}.querySelectorAll('.tick.y')].map((t) => t.textContent)"
PIXELS = f"[...{MAP}.querySelectorAll('canvas')].map((c) => c.toDataURL())"
SHOWN = f"{MAP}.querySelector('output').textContent"
LINES = f"[...{CURVE}.querySelectorAll('path.line')].map((p) => Number(p.dataset.series))"
TIP = "document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').innerText"


def hover(tab, selector, across=0.5, down=0.5):
    tab.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
    tab.settle()
    box = tab.run(
        f"(({{x, y, width, height}}) => [x, y, width, height])(document.querySelector({selector!r}).getBoundingClientRect())"
    )
    tab.mouse("mouseMoved", box[0] + across * box[2], box[1] + down * box[3])


def test_it_loads_without_errors_or_requests(tab, written):
    assert tab.run("document.title") == "Many questions, one stream"
    assert tab.run("document.querySelectorAll('figure').length") == 5
    assert [url for url in tab.requests if url != written.resolve().as_uri()] == []
    assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_awkward_names_are_text(tab):
    assert tab.run("document.querySelectorAll('b').length") == 0
    for place in ("section:last-of-type h2", "nav li:last-child a", "tbody tr:last-child th", "footer dl dt:last-of-type"):
        assert tab.run(f"document.querySelector({place!r}).textContent") == AWKWARD
    assert tab.run(f"{CURVE}.querySelector('.legend button:last-child').textContent") == AWKWARD


def test_the_legend_toggles_methods(tab):
    button = f"{CURVE}.querySelectorAll('.legend button')[1]"
    assert tab.run(LINES) == [0, 1, 2, 3, 4, 5]
    tab.run(f"{button}.click()")
    assert tab.run(LINES) == [0, 2, 3, 4, 5] and tab.run(f"{button}.getAttribute('aria-pressed')") == "false"
    tab.run(f"{button}.focus()")
    tab.press("Enter")
    assert tab.run(LINES) == [0, 1, 2, 3, 4, 5] and tab.run(f"{button}.getAttribute('aria-pressed')") == "true"
    tab.press(" ")
    assert tab.run(LINES) == [0, 2, 3, 4, 5]
    tab.run(f"[...{CURVE}.querySelectorAll('.legend button[aria-pressed=true]')].forEach((b) => b.click())")
    assert tab.run(LINES) == [] and "lowest error" in tab.run(f"{CURVE}.querySelector('.plot').textContent")


def test_log_and_linear_have_their_own_ticks(tab):
    log = tab.run(TICKS)
    assert {"10", "100"} <= set(log)
    tab.run(f"{CURVE}.querySelector('button.log').click()")
    linear = tab.run(TICKS)
    assert linear[0] == "0" and linear != log
    across = tab.run(f"[...{CURVE}.querySelectorAll('.tick.x')].map((t) => t.textContent)")
    assert {"500k", "1M", "1.5M", "2M"} <= set(across)
    paths = tab.run(f"[...{CURVE}.querySelectorAll('path')].map((p) => p.getAttribute('d')).join()")
    assert "NaN" not in paths and "Infinity" not in paths
    gaps = tab.run(f"{CURVE}.querySelector('path.line[data-series=\"5\"]').getAttribute('d')")
    assert gaps.count("M") == 4  # three missing steps part the line


def test_curves_tell_their_values(tab):
    hover(tab, "#grid-simple .plot", 0.5)
    text = tab.run(TIP)
    assert re.search(r"Step 1,[01]00,000", text) and "GVFExplorer" in text and " to " in text and AWKWARD[:20] in text
    tab.run(f"{CURVE}.querySelector('.plot').focus()")
    tab.press("Home")
    assert "Step 100,000" in tab.run(TIP)
    tab.press("ArrowRight")
    assert "Step 200,000" in tab.run(TIP)
    tab.run(f"{CURVE}.querySelectorAll('.legend button')[0].click()")
    tab.press("Escape")
    assert tab.run(TIP) == ""
    tab.press("End")
    assert "Step 2,000,000" in tab.run(TIP) and "GVFExplorer" not in tab.run(TIP)


def test_the_slider_moves_time(tab):
    last, step = tab.run(PIXELS), tab.run(SHOWN)
    assert step == "2,000,000" and len(last) == 2
    tab.run(f"{MAP}.querySelector('input').focus()")
    tab.press("Home")
    assert tab.run(SHOWN) == "100,000"
    first = tab.run(PIXELS)
    assert all(a != b for a, b in zip(first, last))
    tab.press("ArrowRight")
    assert tab.run(SHOWN) == "500,000" and tab.run(PIXELS) not in (first, last)
    tab.run(f"{MAP}.querySelector('input').value = 3; {MAP}.querySelector('input').dispatchEvent(new Event('input'))")
    assert tab.run(SHOWN) == "2,000,000" and tab.run(PIXELS) == last
    assert tab.run("document.querySelectorAll('#moves input').length") == 0  # one time, no slider


def test_goals_lie_between_cells_and_paths_start_in_red(tab):
    """A goal of radius 1 at (0.5, 0.5) is centred one cell from both edges."""
    colour = "((id, x, y) => { const c = document.querySelector(id + ' canvas'), s = c.width / 20; "
    colour += "return [...c.getContext('2d').getImageData(Math.round(x * s), Math.round(y * s), 1, 1).data.slice(0, 3)]; })"
    green, red = [0x51, 0xCF, 0x66], [0xFA, 0x52, 0x52]
    for x in (1, 19):
        assert tab.run(f"{colour}('#moves', {x}, 1)") == green  # the centre
        edge = tab.run(f"[1.9, 1.95, 2, 2.05, 2.1].map((y) => {colour}('#moves', {x}, y))")  # of the disc, below the centre
        assert min(np.abs(np.subtract(pixel, green)).max() for pixel in edge) < 60
    assert tab.run(f"{colour}('#moves', 0.5, 0.5)") != green
    assert tab.run(f"{colour}('#error-maps', 3.5, 3.5)") == red
    assert tab.run("['error-maps', 'moves'].map((id) => document.querySelectorAll(`#${id} .keys .start`).length)") == [1, 0]
    assert tab.run("getComputedStyle(document.querySelector('#moves .panels')).display") == "grid"


def test_maps_tell_their_cells(tab):
    hover(tab, "#error-maps canvas", 0.5 / 20, 1.5 / 20)
    text = tab.run(TIP)
    assert "Row 1, column 0" in text and "RoundRobin" in text and "GVFExplorer" in text
    hover(tab, "#error-maps canvas", 0.5 / 20, 10.5 / 20)
    assert "Row 10, column 0: wall" in tab.run(TIP)
    tab.run(f"{MAP}.querySelector('canvas').focus()")
    tab.press("ArrowUp")
    assert "Row 9, column 0" in tab.run(TIP)
    tab.press("ArrowRight")
    assert "Row 9, column 1" in tab.run(TIP)


def test_tables_align_emphasise_and_copy(tab):
    table = "document.getElementById('final')"
    assert tab.run(f"[...{table}.querySelectorAll('thead th')].map((c) => c.className)") == ["", *["number"] * 5, ""]
    assert tab.run(f"[...{table}.querySelectorAll('td strong')].map((c) => c.textContent)")[3] == "9.7 ± 1.0"
    tab.run("window.copied = null; navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    tab.run(f"{table}.querySelector('.copy').focus()")
    tab.press("Enter")
    lines = tab.run("window.copied").split("\n")
    assert lines[1].startswith("GVFExplorer,4.1 ± 0.3,") and '"410,000"' in lines[1]
    assert lines[3].startswith('"' + AWKWARD.replace('"', '""') + '",')


def test_the_keyboard_reaches_every_control(tab):
    seen = set()
    for _ in range(60):
        tab.press("Tab")
        seen.add(tab.run("document.activeElement.className || document.activeElement.tagName"))
    assert {"skip", "A", "log", "copy", "plot", "CANVAS", "INPUT", "SUMMARY", "BUTTON"} <= seen


def test_dark_and_narrow(tab):
    light = tab.run("getComputedStyle(document.body).backgroundColor")
    try:
        tab.look(dark=True, width=420)
        tab.settle()
        assert tab.run("getComputedStyle(document.body).backgroundColor") != light
        assert tab.run("document.documentElement.scrollWidth <= 420")
        assert tab.run(
            "(() => { const s = document.querySelector('.scroll'); return s.scrollWidth > s.clientWidth && s.tabIndex === 0; })()"
        )
    finally:
        tab.look()


def shots(folder: Path) -> None:
    """The demo page and its screenshots: light and dark, wide and narrow."""
    folder.mkdir(parents=True, exist_ok=True)
    write_page(folder / "report.html", demo())
    with Browser() as tab:
        for dark in (False, True):
            for width in (1200, 420):
                tab.look(dark, width)
                tab.open(folder / "report.html")
                tab.screenshot(folder / f"{'dark' if dark else 'light'}-{width}.png")


if __name__ == "__main__":
    shots(Path(sys.argv[1]))
