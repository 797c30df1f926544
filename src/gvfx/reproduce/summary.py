"""The report's page: a summary that reads in a minute, and every item whose runs are in the store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gvfx.experiments.settings import grid as continuous
from gvfx.experiments.settings.grid import DeepCurve
from gvfx.experiments.settings.tabular import MAIN, PRESETS, paper
from gvfx.report import statistics
from gvfx.report.page import Page, Section, Summary, write_page
from gvfx.reproduce.items import ITEMS, Curve, Item, main_curves, tuned_curves
from gvfx.reproduce.source import VERSIONS, Exhibit, Source
from gvfx.reproduce.tables import final_errors, ranking, verdict
from gvfx.reproduce.tabular import build
from gvfx.worlds.control import NoMuJoCo

SECTIONS = {
    "summary-tables": ("Who wins", ["table1"]),
    "curves": ("Learning curves", ["same", "distinct", "semi-greedy", "fourrooms", "fourrooms-visit", "forty"]),
    "maps": (
        "Where the error lies, and where the behaviours go",
        ["value-error", "variance", "fourrooms-variance", "forty-goals"],
    ),
    "each": ("Each question on its own", ["individual-same", "individual-distinct", "individual-semi-greedy"]),
    "tuning": ("Learning rates", ["sensitivity", "table2"]),
    "continuous": (
        "Networks on the continuous grid",
        [
            "table3",
            "continuous",
            "recommended",
            "individual-continuous",
            "value-error-continuous",
            "behaviour-continuous",
            "variance-continuous",
            "priorities",
            "tuning-continuous",
        ],
    ),
    "control": (
        "Continuous actions: Walker and Cheetah",
        ["mujoco-recommended", "mujoco-paper", "mujoco-stills", "mujoco-trials"],
    ),
    "limit": ("How close to the limit", ["limit-main", "limit-behaviours", "limit-drift", "coverage", "stops"]),
    "ablations": ("Ablations", ["grouping", "drift", "importance-sampling", "successor", "successor-temperature", "cumulants"]),
}
TEXTS = {
    "summary-tables": "Error at the end of each setting: as the paper prints it, and ours in both presets.",
    "curves": "Mean over seeds with a bootstrap 95 % band. Click a method to hide it; hover or use the arrow keys for values.",
    "maps": "Move the slider to watch learning go on.",
    "each": "The two GVFs of a setting apart.",
    "tuning": "One protocol for every method: the minimum learning rate with the lowest error after 800,000 steps.",
    "continuous": "Q and M as networks with one head per GVF; solid lines: replay, dashed: prioritised replay.",
    "control": "Twin Q and M critics and a behaviour that learns (Algorithm 2), against Monte Carlo values at 50 points.",
    "limit": "MSE times steps over that of the best behaviour there can be: behaviours and learners apart; 1 is the limit.",
    "ablations": "What happens when one thing is changed.",
}


def available(source: Source, wanted: list[Item] | None = None) -> dict[str, list[Exhibit]]:
    """The exhibits of every item whose runs are all in the store."""
    found = {}
    for item in wanted or list(ITEMS.values()):
        try:
            found[item.name] = build(item, source)
        except (FileNotFoundError, NoMuJoCo):
            continue
    return found


def write_report(path: Path, source: Source) -> list[str]:
    """Write the page of everything that is in the store; returns the names of the items that are not."""
    exhibits = available(source)
    sections: list[Section] = []
    for key, (title, names) in SECTIONS.items():
        items = tuple(e for name in names for e in exhibits.get(name, []) if not e.id.startswith("surface-same-"))
        if items:
            sections.append(Section(f"section-{key}", title, TEXTS[key], _distinct(items, sections)))
    page = Page(
        title="gvfx: many questions, one stream",
        subtitle="The experiments of Adaptive Exploration for Data-Efficient GVF Evaluations (NeurIPS 2024), reproduced",
        summary=summarise(source),
        sections=tuple(sections),
        facts={"versions": VERSIONS, "results": str(source.store.folder.name), "written": time.strftime("%Y-%m-%d %H:%M")},
    )
    write_page(path, page)
    return [name for name in ITEMS if name not in exhibits]


def _distinct(items: tuple[Exhibit, ...], earlier: list[Section]) -> tuple[Exhibit, ...]:
    """Exhibits whose id no earlier section or item has."""
    seen = {e.id for section in earlier for e in section.items}
    out = []
    for e in items:
        if e.id not in seen:
            seen.add(e.id)
            out.append(e)
    return tuple(out)


def summarise(source: Source) -> Summary:
    """What was asked, who wins, how surely, and what failed to reproduce."""
    asked = (
        "Does acting in proportion to the return's standard deviation (GVFExplorer) need fewer steps than following the "
        "target policies, acting uniformly, SR or BPS, when many GVFs are learnt from one stream?"
    )
    item = ITEMS["table1"]
    bullets, behind, failed, wins, tuned_wins = [], [], [], 0, 0
    settings = [name for name in MAIN if _complete(source, main_curves(name), item)]
    for name in settings:
        errors = final_errors(source, main_curves(name), item)
        words, gain = ranking(errors)
        wins += gain.low > 0
        line = f"{name}: at the published rates {_lead(words)}"
        tuned = tuned_curves(name, source.tuned)
        if tuned and _complete(source, tuned, item):
            words, gain = ranking(final_errors(source, tuned, item))
            tuned_wins += gain.low > 0
            line += f"; tuned alike {_lead(words)}"
            if gain.low <= 0:
                behind.append(name)
        bullets.append(line + ".")
        failed += _far_off(name, errors, paper[name].published)
    for preset in PRESETS:
        bullets += _close_numbers(source, item, preset)
    on_networks, off = _continuous(source)
    bullets += on_networks
    failed += off
    if behind:
        failed.insert(0, f"The lead itself, once every method is tuned by one protocol: {', '.join(behind)}.")
    failed.append("Theorem 4.2, for two or more GVFs: docs/theory.md has a counterexample with two states.")
    headline = f"With the published learning rates GVFExplorer is clearly ahead in {wins} of {len(settings)} settings"
    if any(tuned_curves(name, source.tuned) for name in settings):
        headline += f"; with every method tuned by one protocol, in {tuned_wins} of {len(settings)}"
    return Summary(asked, headline + "." if settings else "No setting has been run yet.", tuple(bullets), tuple(failed))


def _continuous(source: Source) -> tuple[list[str], list[str]]:
    """The continuous grid with networks: who is ahead with each replay, and which printed numbers are far off."""
    item, said, off = ITEMS["table3"], [], []
    for replay, words in (("uniform", "replay"), ("prioritised", "PER")):
        curves = [DeepCurve(m, replay) for m in continuous.METHODS]
        if _complete(source, curves, item):
            errors = final_errors(source, curves, item)
            said.append(f"continuous grid, {words}: at the published rates {_lead(ranking(errors)[0])}.")
            off += _far_off(f"continuous grid, {words}", errors, continuous.PUBLISHED[replay])
    return said, off


def _close_numbers(source: Source, item: Item, preset: str) -> list[str]:
    """How many printed numbers ours come close to, in one preset."""
    ratios = []
    for name in MAIN:
        curves = [c for c in main_curves(name, preset) if c.method in paper[name].published]
        if _complete(source, curves, item):
            errors = final_errors(source, curves, item)
            ratios += [e.mean() / paper[name].published[m] for m, e in errors.items()]
    close = sum(1 / 1.5 < r < 1.5 for r in ratios)
    return [f"Printed errors: ours are within a factor of 1.5 for {close} of {len(ratios)} (preset {preset})."] if ratios else []


def _lead(words: str) -> str:
    """'holds: 90 % below Mixture [86, 92]' as part of a sentence."""
    kind, rest = words.split(": ", 1)
    return {"holds": f"GVFExplorer is {rest}", "differs": rest, "undecided": f"undecided ({rest})"}[kind]


def _complete(source: Source, curves: Sequence[Curve | DeepCurve], item: Item) -> bool:
    """Whether there are curves, and every seed of them is in the store."""
    seeds = range(source.seeds or item.seeds)
    return bool(curves) and all(source.store.path(c.experiment, s).exists() for c in curves for s in seeds)


def _far_off(setting: str, errors: dict[str, np.ndarray], printed: Mapping[str, float]) -> list[str]:
    """Printed numbers that are more than twice off ours and outside our interval, in one sentence."""
    off = []
    for method, published in printed.items():
        if method not in errors:
            continue
        ours = statistics.mean(errors[method])
        if verdict(published, ours) != "inside CI" and not 0.5 < ours.value / published < 2:
            off.append(f"{method} {published:g} (ours {ours.value:.3g})")
    return [f"Printed numbers more than twice off ours, {setting}: {', '.join(off)}."] if off else []
