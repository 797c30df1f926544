"""The HTML report in a real browser: legends, scales, sliders, tooltips, tables and the keyboard."""

from __future__ import annotations

import re

import numpy as np
from helpers.pages import AWKWARD

from benchmarks.load import page_of_figures
from gvfx.report.page import render, write_page

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
    assert tab.run("document.querySelectorAll('figure').length") == 9
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
    assert (
        re.search(r"nvironment steps: 1,[01]00,000", text) and "GVFExplorer" in text and " to " in text and AWKWARD[:20] in text
    )
    tab.run(f"{CURVE}.querySelector('.plot').focus()")
    tab.press("Home")
    assert "steps: 100,000" in tab.run(TIP)
    tab.press("ArrowRight")
    assert "steps: 200,000" in tab.run(TIP)
    tab.run(f"{CURVE}.querySelectorAll('.legend button')[0].click()")
    tab.press("Escape")
    assert tab.run(TIP) == ""
    tab.press("End")
    assert "steps: 2,000,000" in tab.run(TIP) and "GVFExplorer" not in tab.run(TIP)


def test_a_horizontal_axis_has_its_own_label_and_ticks(tab):
    rates = "document.getElementById('rates')"
    ticks = f"[...{rates}.querySelectorAll('.tick.x')].map((t) => t.textContent)"
    assert tab.run(ticks) == ["0.1", "0.25", "0.5", "0.8", "0.9", "0.95"]
    words = tab.run(f"[...{rates}.querySelectorAll('svg text')].map((t) => t.textContent)")
    assert "minimum learning rate of Q" in words and "environment steps" not in words
    assert "environment steps" in tab.run(f"{CURVE}.querySelector('.plot').textContent")
    assert tab.run(f"[{rates}, {CURVE}].map((figure) => figure.querySelectorAll('circle.dot').length)") == [6, 0]  # few points
    hover(tab, "#rates .plot", 0.1)
    assert "inimum learning rate of Q: 0.1" in tab.run(TIP)
    try:
        tab.look(width=420)
        tab.settle()
        narrow = tab.run(ticks)
        assert narrow[:4] == ["0.1", "0.25", "0.5", "0.8"] and "0.95" not in narrow  # its label would touch that of 0.9
    finally:
        tab.look()


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


def test_the_first_time_stays_beside_that_of_the_slider(tab):
    grown = "document.getElementById('grown')"
    titles = f"[...{grown}.querySelectorAll('h4')].map((t) => t.textContent)"
    pixels = f"[...{grown}.querySelectorAll('canvas')].map((c) => c.toDataURL())"
    assert tab.run(titles) == ["M, step 100,000", "M, step 2,000,000"]
    early, late = tab.run(pixels)
    assert early != late
    slider = f"{grown}.querySelector('input')"  # not focused: the page would scroll to it, and scrolling hides the tooltip
    tab.run(f"{slider}.value = 2; {slider}.dispatchEvent(new Event('input'))")
    assert tab.run(titles) == ["M, step 100,000", "M, step 1,000,000"]
    assert tab.run(pixels)[0] == early and tab.run(pixels)[1] not in (early, late)
    hover(tab, "#grown canvas", 0.5 / 20, 1.5 / 20)
    assert "M, step 100,000" in tab.run(TIP) and "M, step 1,000,000" in tab.run(TIP)


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


def test_numbers_in_cells_leave_their_colours_visible(tab):
    """31 and 100 at the goals: the lowest and the highest colour around the figures, and no dots."""
    seen = "(() => { const c = document.querySelector('#written canvas'), s = c.width / 20; const cell = (x) => "
    seen += "{ const d = c.getContext('2d').getImageData(Math.round(x * s), 0, Math.round(s), Math.round(s)).data, found = {}; "
    seen += "for (let i = 0; i < d.length; i += 4) { const k = d.slice(i, i + 3).join(); found[k] = (found[k] || 0) + 1; } "
    seen += "return found; }; return [cell(0), cell(19)]; })()"
    dark, bright = tab.run(seen)
    for cell, own in ((dark, "0,0,4"), (bright, "252,255,164")):
        assert 0.5 < cell[own] / sum(cell.values()) < 0.95 and "81,207,102" not in cell
    assert tab.run("document.querySelectorAll('#written .keys .goal').length") == 0


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


def test_tables_sort_by_a_column_and_back(tab):
    names = "[...document.querySelectorAll('#final tbody tr')].map((row) => row.children[1].textContent)"
    press = "document.querySelectorAll('#final thead button')[{}].click()"
    assert tab.run(names) == ["4.1 ± 0.3", "10.2 ± 0.9", "16.0 ± 1.1"]
    tab.run(press.format(1))
    assert tab.run(names) == ["16.0 ± 1.1", "10.2 ± 0.9", "4.1 ± 0.3"]
    tab.run(press.format(5))
    assert tab.run(names) == ["10.2 ± 0.9", "4.1 ± 0.3", "16.0 ± 1.1"]  # 1,200,000 before 410,000; "not reached" last
    tab.run(press.format(5))
    assert tab.run(names) == ["4.1 ± 0.3", "10.2 ± 0.9", "16.0 ± 1.1"]
    assert tab.run("document.querySelectorAll('#final th')[5].getAttribute('aria-sort')") == "ascending"


def test_intervals_are_drawn_and_read(tab):
    forest = "document.getElementById('forest')"
    assert tab.run(f"{forest}.querySelectorAll('.interval').length") == 4
    assert tab.run(f"{forest}.querySelectorAll('.line.open').length") == 1  # without bounds
    assert tab.run(f"{forest}.querySelectorAll('.truth.missed').length") == 2
    assert tab.run(f"{forest}.querySelectorAll('.zero').length") == 1
    left, right = (f"Number({forest}.querySelector('.interval .line').getAttribute('{end}'))" for end in ("x1", "x2"))
    middle = tab.run(f"Number({forest}.querySelector('.interval .mark').getAttribute('x')) + 4")
    assert abs(tab.run(f"({left} + {right}) / 2") - middle) < 1e-6
    hover(tab, "#forest .plot", down=0.1)
    assert "0.5 to 0.7" in tab.run(TIP) and "outside" in tab.run(TIP)
    tab.run(f"{forest}.querySelector('.plot').focus()")
    tab.press("End")
    tab.press("ArrowUp")
    assert "not sure yet" in tab.run(TIP) and AWKWARD.split("\u2028")[0].strip() in tab.run(TIP)
    tab.press("Escape")
    assert tab.run(TIP) == ""


def test_the_keyboard_reaches_every_control(tab):
    seen = set()
    for _ in range(80):
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


def test_a_long_page_opens_before_all_of_its_figures_are_built(browser, tmp_path):
    path = tmp_path / "long.html"
    write_page(path, page_of_figures(200))
    browser.errors.clear()
    browser.open(path)
    ready = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    assert browser.run(ready) < 2000
    left = "document.querySelectorAll('.waiting').length"
    assert browser.run("document.querySelectorAll('figure').length") == 200 and browser.run(left) > 100
    assert browser.run("document.querySelectorAll('#item-0 path.line').length") == 6
    look = "const look = () => (document.querySelector('.waiting') ? setTimeout(look, 50) : done(1));"
    browser.run(f"new Promise((done) => {{ {look} look(); }})")  # while the browser has nothing to do
    browser.settle()
    assert browser.run("[...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('svg'))")
    assert browser.run("document.querySelector('#item-199').id") == "item-199" and browser.errors == []


def test_a_figure_is_built_when_it_comes_near_and_all_are_before_printing(browser, tmp_path):
    path = tmp_path / "long.html"
    never = "window.requestIdleCallback = () => 0;"
    path.write_text(render(page_of_figures(120)).replace('"use strict";', f'"use strict"; {never}', 1), encoding="utf-8")
    browser.errors.clear()
    browser.open(path)
    assert browser.run("document.querySelector('#item-80').classList.contains('waiting')")
    browser.run("document.querySelector('#item-80').scrollIntoView({block: 'center', behavior: 'instant'})")
    browser.settle()
    assert browser.run("document.querySelectorAll('#item-80 path.line').length") == 6
    assert browser.run("document.querySelector('#item-40').classList.contains('waiting')")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.querySelectorAll('.waiting').length") == 0
    assert browser.run("[...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('svg'))")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.errors == []
