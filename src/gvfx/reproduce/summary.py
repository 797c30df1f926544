"""The report's page: a summary that takes a minute to read, and every item whose runs are in the store.

All numbers come from stored results.  Two figures add simulated episodes, and their notes say so: the trajectories on the
continuous grid and the stills of Walker and Cheetah show what a stored behaviour does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gvfx.experiments.settings import grid
from gvfx.experiments.settings.grid import DeepCurve
from gvfx.experiments.settings.tabular import MAIN, PRESETS, paper
from gvfx.report import statistics
from gvfx.report.page import Page, Section, Summary, write_page
from gvfx.report.statistics import DIVERGED
from gvfx.reproduce.base import Exhibit, Item, build
from gvfx.reproduce.curves import main_curves, tuned_curves
from gvfx.reproduce.items import ITEMS
from gvfx.reproduce.measures import Outcome, Ranking, Verdict, final_errors, ranking, verdict
from gvfx.reproduce.sections import SECTIONS
from gvfx.reproduce.source import VERSIONS, AllDiverged, Source
from gvfx.worlds.mujoco import NoMuJoCo


def available(source: Source) -> dict[str, list[Exhibit]]:
    """The exhibits of every item whose runs are all in the store, by the item's name."""
    found = {}
    for name, item in ITEMS.items():
        if item.is_complete(source):
            try:
                found[name] = build(item, source)
            except (NoMuJoCo, AllDiverged):  # only the stills need the simulator and OpenGL
                continue
    return found


def write_report(path: Path, source: Source) -> list[str]:
    """Write the page of everything that is in the store; returns the names of the items that are not."""
    exhibits = available(source)
    page = Page(
        title="gvfx: many questions, one stream",
        subtitle="The experiments of Adaptive Exploration for Data-Efficient GVF Evaluations (NeurIPS 2024), reproduced",
        summary=summarise(source),
        sections=sections_of(exhibits),
        facts={"versions": VERSIONS, "results": str(source.store.folder.name), "written": time.strftime("%Y-%m-%d %H:%M")},
    )
    write_page(path, page)
    return [name for name in ITEMS if name not in exhibits]


def sections_of(exhibits: Mapping[str, Sequence[Exhibit]]) -> tuple[Section, ...]:
    """The sections that have exhibits; one that several items have (a sweep's surface) is shown once."""
    ranked = sorted((ITEMS[name] for name in exhibits), key=lambda item: item.rank)
    shown: set[str] = set()
    filled = []
    for section in dict.fromkeys([*SECTIONS, *(item.section for item in ranked)]):
        inside: list[Exhibit] = []
        for exhibit in (e for item in ranked if item.section == section for e in exhibits[item.name]):
            if exhibit.id not in shown:
                shown.add(exhibit.id)
                inside.append(exhibit)
        if inside:
            filled.append(replace(section, items=tuple(inside)))
    return tuple(filled)


# --- the summary -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """Who is ahead on one setting, at the published rates and, where they have been run, at tuned ones."""

    setting: str
    published: Ranking
    tuned: Ranking | None

    def __str__(self) -> str:
        tuned = f"; with every method tuned by one protocol {self.tuned.clause}" if self.tuned else ""
        return f"{self.setting}: at the published rates {self.published.clause}{tuned}."


def summarise(source: Source) -> Summary:
    """What was asked, who wins and how surely, and what failed to reproduce."""
    asked = (
        "Does acting in proportion to the return's standard deviation (GVFExplorer) need fewer steps than following the "
        "target policies, acting uniformly, SR or BPS, when many GVFs are learned from one stream?"
    )
    table1 = ITEMS["table1"]
    curves = {name: main_curves(name) for name in MAIN}
    errors = {name: final_errors(source, c, table1.seeds) for name, c in curves.items() if source.has(c, table1.seeds)}
    standings = [Standing(name, ranking(found), _when_tuned(source, table1, name)) for name, found in errors.items()]
    on_networks, off_on_networks = _networks(source)
    close = (line for preset in PRESETS for line in _close_numbers(source, table1, preset))
    failed = [
        *_lost_when_tuned(standings),
        *(line for name, found in errors.items() for line in _far_off(name, found, paper[name].published)),
        *off_on_networks,
        "Theorem 4.2, for two or more GVFs: docs/theory.md has a counterexample with two states.",
    ]
    return Summary(asked, _headline(source, standings), (*map(str, standings), *close, *on_networks), tuple(failed))


def _when_tuned(source: Source, item: Item, setting: str) -> Ranking | None:
    curves = tuned_curves(setting, source.tuned)
    run = bool(curves) and source.has(curves, item.seeds)
    return ranking(final_errors(source, curves, item.seeds)) if run else None


def _headline(source: Source, standings: Sequence[Standing]) -> str:
    if not standings:
        return "No setting has been run yet."
    wins = sum(s.published.outcome is Outcome.HOLDS for s in standings)
    headline = f"With the published learning rates GVFExplorer is clearly ahead in {wins} of {len(standings)} settings"
    if any(tuned_curves(s.setting, source.tuned) for s in standings):
        tuned_wins = sum(s.tuned is not None and s.tuned.outcome is Outcome.HOLDS for s in standings)
        headline += f"; with every method tuned by one protocol, in {tuned_wins} of {len(standings)}"
    return headline + "."


def _lost_when_tuned(standings: Sequence[Standing]) -> list[str]:
    behind = [s.setting for s in standings if s.tuned is not None and s.tuned.outcome is not Outcome.HOLDS]
    return [f"The lead itself, once every method is tuned by one protocol: {', '.join(behind)}."] if behind else []


def _networks(source: Source) -> tuple[list[str], list[str]]:
    """The continuous grid with networks: who is ahead with each replay, and which printed numbers are far off."""
    seeds, said, off = ITEMS["table3"].seeds, [], []
    for replay, words in (("uniform", "replay"), ("prioritised", "PER")):
        curves = [DeepCurve(m, replay) for m in grid.METHODS]
        if source.has(curves, seeds):
            errors = final_errors(source, curves, seeds)
            said.append(f"continuous grid, {words}: at the published rates {ranking(errors).clause}.")
            off += _far_off(f"continuous grid, {words}", errors, grid.PUBLISHED[replay])
    return said, off


def _close_numbers(source: Source, item: Item, preset: str) -> list[str]:
    """How many of our errors are close to the printed ones, in one preset."""
    ratios: list[float] = []
    for name in MAIN:
        curves = [c for c in main_curves(name, preset) if c.method in paper[name].published]
        if source.has(curves, item.seeds):
            errors = final_errors(source, curves, item.seeds)
            ratios += [e.mean() / paper[name].published[m] for m, e in errors.items()]
    close = sum(1 / 1.5 < r < 1.5 for r in ratios)
    return [f"Printed errors: ours are within a factor of 1.5 for {close} of {len(ratios)} (preset {preset})."] if ratios else []


def _far_off(setting: str, errors: Mapping[str, np.ndarray], printed: Mapping[str, float]) -> list[str]:
    """Printed numbers that differ from ours by more than a factor of two and lie outside our interval, in one sentence."""
    off = []
    for method, published in printed.items():
        if method not in errors:
            continue
        ours = statistics.mean(errors[method])
        if verdict(published, ours) is not Verdict.INSIDE and not 0.5 < ours.value / published < 2:
            off.append(f"{method} {published:g} (ours {DIVERGED if ours.diverged else f'{ours.value:.3g}{ours.count}'})")
    return [f"Printed numbers that differ from ours by more than a factor of two, {setting}: {', '.join(off)}."] if off else []
