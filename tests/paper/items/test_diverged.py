"""Runs that diverged are counted in tables and figures, and never averaged silently."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.results import SEEDS, rows_of

from gvfx.errors import Diverged
from gvfx.experiments.store import Divergence, Store
from gvfx_paper.items import ITEMS, Source, build
from gvfx_paper.items.curves import Curve, load_tuned, main_curves, seeds_of
from gvfx_paper.items.exhibits import AllDiverged, Exhibit
from gvfx_paper.items.measures import Outcome, ranking, verdict
from gvfx_paper.items.output import available, markdown, summarise, write_exhibits
from gvfx_paper.items.tables import choose_rates, sweep_errors
from gvfx_paper.report import statistics


def diverging(results, folder, lost):
    """The store of made-up results, with the runs lost[curve] replaced by records of their divergence: 0 is the first seed."""
    store = Store(folder)
    by_hash = {c.experiment.hash: (c.experiment, [seeds_of(c, SEEDS)[k] for k in seeds]) for c, seeds in lost.items()}
    for experiment in results.iterdir():
        if experiment.is_dir() and experiment.name in by_hash:
            (folder / experiment.name).mkdir()
            for path in experiment.iterdir():
                (folder / experiment.name / path.name).symlink_to(path)
        elif experiment.name != "items":
            (folder / experiment.name).symlink_to(experiment)
    for experiment, seeds in by_hash.values():
        for seed in seeds:
            store.path(experiment, seed).unlink()
            error = Diverged("loss of Q", np.nan, 700, seed, "left")
            store.save_divergence(experiment, Divergence.of(experiment.hash, error))
    return Source(store, SEEDS, load_tuned(folder))


@pytest.fixture(scope="module")
def source(results, tmp_path_factory):
    """In `same` all runs of BPS diverged, and one of SR; of the sweep one of Uniform at its best rate, all of Mixture."""
    lost = {Curve("same", "BPS"): (0, 1), Curve("same", "SR"): (1,)}
    sweep = {c: (1,) for c in ITEMS["table2"].needs({}) if (c.setting, c.method, c.rate_q) == ("same", "Uniform", 0.5)}
    sweep |= {c: (0, 1) for c in ITEMS["table2"].needs({}) if (c.setting, c.method) == ("same", "Mixture")}
    return diverging(results, tmp_path_factory.mktemp("diverged"), lost | sweep)


def test_tables_count_the_runs_that_diverged(source):
    table, verdicts, more = build(ITEMS["table1"], source)
    row = rows_of(table)["same", "ours (paper)"]
    assert row["BPS"] == "diverged" and row["SR"] == "3 [3, 3] (1 of 2; 1 diverged)"
    assert "**diverged" not in markdown(table)
    assert row["GVFExplorer against the best baseline"].startswith("holds: 67 % below SR")  # BPS would be the best: 2
    assert row["GVFExplorer against the best baseline"].endswith("(1 of 2; 1 diverged)")
    assert rows_of(verdicts)["same", "ours (paper)"]["BPS"] == "diverged"
    statistics_of = {row[1]: row for row in more.rows if row[0] == "same"}
    assert statistics_of["BPS"][2:] == ["diverged", "diverged", "diverged", "not reached (diverged)"]
    assert all("(1 of 2; 1 diverged)" in cell for cell in statistics_of["SR"][2:])
    assert "diverged: 2 of 2 of BPS on same (seed 0, 1); 1 of 2 of SR on same (seed 1)" in markdown(table)


def test_curves_say_how_many_runs_diverged(source, tmp_path):
    figure = build(ITEMS["same"], source)[0]
    lines = {line.name: line for line in figure.series}
    assert {"BPS (diverged)", "SR (1 of 2; 1 diverged)", "GVFExplorer"} <= set(lines)
    assert np.isnan(lines["BPS (diverged)"].mean).all() and np.isfinite(lines["SR (1 of 2; 1 diverged)"].mean).all()
    assert "2 of 2 of BPS on same" in figure.provenance.seeds
    assert write_exhibits(tmp_path, ITEMS["same"], [figure])[0].stat().st_size > 300


def test_a_rate_at_which_a_run_diverged_is_not_chosen(source):
    surface = sweep_errors(source, "same")
    chosen = choose_rates(surface)
    assert chosen["Uniform"][0] == 0.25 and "Mixture" not in chosen  # without divergence 0.5
    table = next(e for e in build(ITEMS["table2"], source) if e.id == "surface-same")
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows["Mixture"]) == {"diverged"} and rows["Uniform"].count("diverged") == 1 and "Diverged" in table.note


def test_the_summary_says_what_diverged(source):
    said = " ".join(summarise(source).failed)
    assert "BPS 26.13 (ours diverged)" in said


@pytest.fixture(scope="module")
def everything(results):
    """Every curve of every item that can be drawn without a simulator."""
    tuned = load_tuned(results)
    return {name: item.needs(tuned) for name, item in ITEMS.items() if name != "mujoco-stills"}


@pytest.mark.parametrize("seeds", [(1,), (0, 1)], ids=["one", "all"])
def test_every_item_can_be_made_when_runs_diverged(results, everything, seeds, tmp_path):
    lost = {curve: seeds for needed in everything.values() for curve in needed}
    source = diverging(results, tmp_path, lost)
    for name, needed in everything.items():
        item = ITEMS[name]
        assert item.is_complete(source)
        try:
            exhibits: list[Exhibit] = build(item, source)
        except AllDiverged as error:
            assert len(seeds) == SEEDS and "all of its runs diverged" in str(error)
            continue
        for exhibit in exhibits if needed else ():
            assert "diverged: " in exhibit.provenance.seeds
            for row in map(" ".join, getattr(exhibit, "rows", ())):
                assert "diverged" in row or not re.search(r"\d \[|±", row), row  # no mean without the count
                assert not re.search(r"\b(nan|inf)\b", row), row
            for line in getattr(exhibit, "series", ()):
                computed = item.name == "headline" and np.array_equal(line.low, line.high)  # from no run
                assert computed or "diverged" in line.name or np.isnan(line.mean).all(), line.name
            assert all(exhibit.rows[r][c] != "diverged" for r, c in getattr(exhibit, "best", None) or ())
    if len(seeds) == SEEDS:
        assert "value-error" not in available(source)


def test_statistics_leave_out_and_count():
    some, none = np.array([1.0, np.nan, 3.0]), np.full(3, np.nan)
    assert str(statistics.mean(some)).startswith("2 [") and str(statistics.mean(some)).endswith(" (2 of 3; 1 diverged)")
    assert str(statistics.mean(none)) == "diverged" and statistics.centre(none) == np.inf and statistics.centre(some) == 2
    assert statistics.plus_minus(some) == "2 ± 1 (2 of 3; 1 diverged)" and statistics.plus_minus(none) == "diverged"
    assert statistics.count(np.ones(3)) == "" and statistics.short(np.nan) == "diverged"
    gain = statistics.improvement(np.array([1.0, 1.0, np.nan]), np.array([4.0, np.nan, 4.0]))
    assert gain.value == 75 and gain.count == " (1 of 3; 2 diverged)"
    assert statistics.steps_to_reach(np.array([10, 20]), np.array([[1.0, 1.0], [np.nan, np.nan]]), 2.0) == 10
    assert statistics.steps_to_reach(np.array([10, 20]), np.full((2, 2), np.nan), 2.0) is None
    assert verdict(1.0, statistics.mean(none)) == "diverged"


@pytest.mark.parametrize(
    ("explorer", "uniform", "outcome", "detail"),
    [
        ((np.nan, np.nan), (1.0, 1.0), Outcome.DIFFERS, "all runs of GVFExplorer diverged"),
        ((1.0, 1.0), (np.nan, np.nan), Outcome.HOLDS, "all runs of the baselines diverged"),
        ((1.0, np.nan), (np.nan, 1.0), Outcome.UNDECIDED, "no seed finished with both GVFExplorer and Uniform"),
        ((1.0, np.nan), (4.0, 4.0), Outcome.HOLDS, "75 % below Uniform [75, 75] (1 of 2; 1 diverged)"),
    ],
)
def test_a_ranking_with_runs_that_diverged(explorer, uniform, outcome, detail):
    ranked = ranking({"GVFExplorer": np.array(explorer), "Uniform": np.array(uniform), "SR": np.full(2, np.nan)})
    assert (ranked.outcome, ranked.detail) == (outcome, detail) and ranked.baseline == "Uniform"


def test_missing_runs_are_not_taken_for_diverged_ones(results, tmp_path):
    curve = main_curves("same")[0]
    source = diverging(results, tmp_path, {curve: (0,)})
    next(source.store.folder.joinpath(curve.experiment.hash).glob("*.diverged.json")).unlink()
    assert not ITEMS["same"].is_complete(source)
