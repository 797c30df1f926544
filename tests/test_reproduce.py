"""Tables, figures and the report, from a store of made-up results with known errors."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from browser import Browser
from test_cli import cli
from typer.testing import CliRunner

import gvfx
from gvfx.cli import app
from gvfx.experiments.settings.grid import DeepCurve
from gvfx.experiments.settings.limit import LimitCurve, optimum
from gvfx.experiments.settings.mujoco import HELD, TRIALS, ControlCurve
from gvfx.experiments.settings.tabular import METHODS
from gvfx.experiments.store import Store
from gvfx.report.page import DataTable
from gvfx.report.statistics import Estimate
from gvfx.reproduce import ITEMS, Item, Source, ablations, build, chosen_items, curves_with_seeds, items
from gvfx.reproduce.curves import TUNING_STEPS, Curve, load_tuned, sweep_curves
from gvfx.reproduce.measures import Outcome, Verdict, ranking, verdict
from gvfx.reproduce.mujoco import noise_floor
from gvfx.reproduce.output import markdown, write_exhibits
from gvfx.reproduce.sections import ABLATIONS, SECTIONS
from gvfx.reproduce.summary import available, sections_of, write_report
from gvfx.reproduce.tables import choose_rates, sweep_errors
from gvfx.running.evaluate import Part
from gvfx.tensors import CorruptFile, pack

SEEDS = 2
ASKED = {name: [q.name for q in gvfx.paper[name].questions] for name in ("same", "distinct", "semi-greedy")}
TUNED = {"same": {"Uniform": [0.1, 0.8], "GVFExplorer": [0.1, 0.8]}}


def made_up_error(curve, seed):
    """GVFExplorer 1, the others 2, 3, ... in the order of Table 1; tuned Uniform 0.5; the second seed a tenth more."""
    if isinstance(curve, LimitCurve) and curve.setting != "fourrooms":  # at the end: OptimalDesign at the limit, others 4 times
        level = optimum(curve.setting) / curve.experiment.steps
        return level * (1 if curve.method == "OptimalDesign" else 4) * (1 + 0.1 * seed)
    if isinstance(curve, LimitCurve):
        return 0.01 * (1 + 0.1 * seed)
    if isinstance(curve, ControlCurve) and curve.method in (HELD, *TRIALS):
        return 1 + [*TRIALS, HELD].index(curve.method)
    base = "GVFExplorer" if curve.method.startswith("Explorer") else curve.method.split("-")[0]
    level = 1.0 if base == "GVFExplorer" else 2.0 + METHODS.index(base)
    if isinstance(curve, DeepCurve | ControlCurve):
        return level * (1 + 0.1 * seed)
    if curve.steps is not None:
        level *= 1 + abs(curve.rate_q - 0.5) + abs((curve.rate_m or 0.9) - 0.9)
    elif curve.method == "Uniform" and curve.rate_q == 0.1:
        level = 0.5
    return level * (1 + 0.1 * seed)


def made_up_part(curve, seed):
    e = curve.experiment
    deep = isinstance(curve, DeepCurve)
    control = isinstance(curve, ControlCurve)
    gvfs, states, actions = len(e.questions), 400 if deep else 50 if control else e.world.states, 6 if control else 4
    actor = [e.world.observation_size, 64, 64, 2 * e.world.action_size] if control else []
    steps = np.arange(e.evaluate_every, e.steps + 1, e.evaluate_every)
    times = np.array(sorted({*e.snapshots, e.steps}))
    k = len(times)
    decay = np.linspace(10, 1, len(steps))[:, None]
    return Part(
        steps=steps,
        mse=made_up_error(curve, seed) * decay * np.ones((1, gvfs)),
        levels=np.full((len(steps), gvfs), 100.0),
        episodes=steps // 500,
        snapshot_steps=times,
        values=np.linspace(2, 1, k)[:, None, None] * np.ones((1, gvfs, states)),
        variances=np.ones((k, gvfs, states)) if e.behaviour.needs_variance else np.empty((k, 0)),
        visits=np.ones((k, states, actions), dtype=np.int64),
        behaviour=np.full((k, states, actions), 0.25),
        snapshot_levels=np.full((k, gvfs), 100.0),
        truth=np.zeros((gvfs, states)),
        mse_outside=np.ones((len(steps), gvfs)) if deep else np.empty(0),
        actor=np.zeros(sum((n + 1) * m for n, m in pairwise(actor)), np.float32),
        standard_errors=made_up_certainty(curve, states) if isinstance(curve, LimitCurve) else np.empty(0),
    )


def made_up_certainty(curve, states):
    """Everything is 2 off the truth: a half of the states know that, a quarter do not, an eighth are sure, the rest unknown."""
    kinds = np.repeat([2.0, 2.0, 2.0, 2.0, 0.1, 0.1, 0.0, np.inf], -(-states // 8))[:states]
    return np.broadcast_to(kinds, (1, len(curve.experiment.questions), states)).copy()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    (folder / "tuned.json").write_text(json.dumps(TUNED))
    store = Store(folder)
    tuned = load_tuned(folder)
    for curve, seeds in curves_with_seeds(list(ITEMS.values()), tuned, SEEDS):
        for seed in range(seeds):
            raw = pack(made_up_part(curve, seed).arrays(), {"experiment": curve.experiment.hash, "seed": str(seed)})
            store.save(curve.experiment, seed, raw)
    return folder


@pytest.fixture(scope="module")
def source(results):
    return Source(Store(results), SEEDS, load_tuned(results))


@pytest.fixture(scope="module")
def built(source):
    """The exhibits of every item."""
    return available(source)


@pytest.fixture
def little(results, tmp_path):
    """A store with the runs of one setting at the published rates, and none at the tuned rates."""
    for experiment in {c.experiment.hash for c in ITEMS["same"].needs({})}:
        shutil.copytree(results / experiment, tmp_path / "little" / experiment)
    return Source(Store(tmp_path / "little"), SEEDS, load_tuned(results))


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_builds_and_writes_its_files(name, built, tmp_path):
    exhibits = built[name]
    paths = write_exhibits(tmp_path, ITEMS[name], exhibits)
    assert paths and all(path.stat().st_size > 300 for path in paths)
    for exhibit in exhibits:
        assert exhibit.label == ITEMS[name].label
        assert exhibit.provenance.command == f"gvfx reproduce {name} --seeds {SEEDS}"


def rows_of(table: DataTable) -> dict[tuple[str, str], dict[str, str]]:
    return {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_table_1_shows_the_papers_number_ours_and_a_verdict(source):
    table, verdicts, more = build(ITEMS["table1"], source)
    rows = rows_of(table)
    assert rows["same", "paper, as printed"]["GVFExplorer"] == "0.24"
    assert rows["same", "ours (paper)"]["GVFExplorer"].startswith("1.05 [")
    assert rows["same", "ours (paper)"]["GVFExplorer against the best baseline"].startswith("holds: 50 % below BPS")
    assert rows["same", "ours (paper, tuned)"]["GVFExplorer against the best baseline"].startswith("differs: Uniform is lower")
    assert rows["forty", "ours (authors)"]["BPS"] == "-"
    assert rows_of(verdicts)["same", "ours (paper)"]["BPS"] == "better"
    assert rows_of(verdicts)["same", "ours (paper)"]["GVFExplorer"] == "worse"
    assert "**1.05 [1, 1.1]**" in markdown(table)
    assert any(row[:2] == ["distinct", "SR"] and row[2] == "3.15 ± 0.15" for row in more.rows)


def test_the_limit_tables_show_ratios_to_the_optimum_and_steps_to_a_common_error(source):
    ratios, steps, *curves = build(ITEMS["limit-behaviours"], source)
    cells = {tuple(row[:3]): row[3:] for row in ratios.rows}
    assert cells["same", "OptimalDesign", "CE"][2] == "1.05 [1, 1.1]" and cells["same", "OptimalDesign", "CE"][3] == "1"
    assert cells["forty", "Mixture", "CE"][2] == "4.2 [4, 4.4]" and cells["forty", "Mixture", "CE"][3] == "6.5"
    assert cells["average of 4", "GVFExplorer", "Expected Sarsa"][2] == "4.2 [4, 4.4]"
    reached = {tuple(row[:1] + row[2:4]): row[4:] for row in steps.rows}
    assert reached["distinct", "GVFExplorer", "Expected Sarsa"] == ["2,000,000", "1/1"]
    soon = reached["distinct", "OptimalDesign", "CE"]
    assert 1_300_000 < int(soon[0].replace(",", "")) < 1_400_000  # the made-up error falls from ten times to one in equal parts
    assert len(curves) == 5 and all(np.isfinite(s.mean).all() for c in curves for s in c.series)


def test_the_drift_table_counts_from_the_papers_best_method(source):
    table = build(ITEMS["limit-drift"], source)[0]
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["OptimalDesign", "CE"][2] == "100" and rows["GVFExplorer", "Expected Sarsa"][2] == "1"


def test_the_control_tables_compare_with_round_robin_and_name_the_truths_noise(source):
    table, *curves = build(ITEMS["mujoco-recommended"], source)
    rows = rows_of(table)
    assert rows["walker", "at the end"]["GVFExplorer"] == "1.05 [1, 1.1]"
    assert rows["cheetah", "mean over training"]["GVFExplorer below RoundRobin"] == "80 [80, 80] %"
    assert "cheetah 0.27" in table.note
    assert [c.reference[0][1] for c in curves] == pytest.approx([noise_floor("walker"), noise_floor("cheetah")])
    trials = build(ITEMS["mujoco-trials"], source)[0]
    assert trials.best == [(3, 1), (3, 2)]  # the first trial has the smallest made-up error; three others stand above it


def test_coverage_counts_the_intervals_that_hold_the_truth(source):
    (table,) = build(ITEMS["coverage"], source)
    rows = {(row[0], row[1]): row[3:] for row in table.rows}
    assert set(rows) == {(s, g) for s in ("same", "distinct", "semi-greedy") for g in ("all", *ASKED[s])}
    runs, inside, endless = rows["distinct", "all"]
    assert runs == "2" and 70 < float(inside.split()[0]) < 73  # (4 + 1) of the 7 eighths that are not sure; 401 states
    assert 12 < float(endless.split()[0]) < 15


def test_stops_count_the_errors_that_are_below_the_target(source):
    (table,) = build(ITEMS["stops"], source)
    assert [row[2] for row in table.rows] == ["2 of 2"] * 3  # the made-up visits are fewer than the steps
    assert {row[3].split()[0] for row in table.rows} == {"100"}


def test_verdicts():
    ours = Estimate(1.0, 0.8, 1.2)
    assert [verdict(p, ours) for p in (0.5, 1.1, 2.0)] == ["worse", "inside CI", "better"]
    even = {"GVFExplorer": np.array([1.0, 3.0, 2.0]), "Uniform": np.array([2.0, 1.0, 3.0])}
    assert str(ranking(even)).startswith("undecided") and ranking(even).outcome is Outcome.UNDECIDED
    assert verdict(0.5, ours) is Verdict.WORSE


@pytest.mark.parametrize(
    ("explorer", "uniform", "outcome", "cell", "clause"),
    [
        (1.0, 4.0, Outcome.HOLDS, "holds: 75 % below Uniform [75, 75]", "GVFExplorer is 75 % below Uniform [75, 75]"),
        (4.0, 1.0, Outcome.DIFFERS, "differs: Uniform is lower, by 75 %", "Uniform is lower, by 75 %"),
        (1.0, 1.0, Outcome.UNDECIDED, "undecided: 0 % against Uniform [0, 0]", "undecided (0 % against Uniform [0, 0])"),
    ],
)
def test_a_ranking_is_told_in_a_table_and_in_a_sentence(explorer, uniform, outcome, cell, clause):
    ranked = ranking({"GVFExplorer": np.full(3, explorer), "Uniform": np.full(3, uniform), "SR": np.full(3, 9.0)})
    assert (ranked.baseline, ranked.outcome, str(ranked), ranked.clause) == ("Uniform", outcome, cell, clause)


def test_the_sweep_chooses_the_lowest_error(source):
    chosen = choose_rates(sweep_errors(source, "distinct", ITEMS["table2"]))
    assert chosen["GVFExplorer"] == (0.5, 0.9)
    assert chosen["RoundRobin"][0] == 0.5


def test_every_item_has_a_label_and_unknown_names_suggest_the_nearest():
    assert [item.name for item in chosen_items(["tabular", "deep", "mujoco", "limit"])] == list(ITEMS)
    assert {item.section for item in ITEMS.values()} == set(SECTIONS)
    with pytest.raises(gvfx.InputError, match="table1"):
        chosen_items(["tabel1"])
    done = cli("reproduce", "sensitvity")
    assert done.returncode == 2 and "sensitivity" in done.stderr


def test_an_item_is_added_in_one_module(little, tmp_path, monkeypatch):
    """It is listed, chosen by its group, built from stored results and shown in its section of the report."""

    def halves(b):
        return [b.table("halves", b.item.title, ["half the error"], [[f"{b.result(curve).error[:, -1].mean() / 2:g}"]])]

    curve = Curve("same", "Uniform")
    extra = Item("halves", "ours", "Half of Uniform's error", lambda tuned: [curve], halves, ABLATIONS, seeds=7)
    monkeypatch.setattr(ablations, "ITEMS", (*ablations.ITEMS, extra))  # what a change to that file does
    monkeypatch.setitem(ITEMS, "halves", items.registered()["halves"])
    done = CliRunner().invoke(app, ["list"])
    assert done.exit_code == 0 and "Half of Uniform's error" in done.output
    assert extra in chosen_items(["tabular"]) and chosen_items(["halves"]) == [extra]
    assert list(curves_with_seeds([extra], {}, None)) == [(curve, 7)]
    assert build(extra, little)[0].rows == [["2.1"]]  # Uniform's made-up errors are 4 and 4.4
    page = tmp_path / "report.html"
    assert "halves" not in write_report(page, little)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))
    section = next(s for s in data["sections"] if s["title"] == "Ablations")
    assert [(i["id"], i.get("rows")) for i in section["items"]] == [("halves", [["2.1"]]), ("cumulants", None)]


def test_two_items_of_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(ablations, "ITEMS", (*ablations.ITEMS, replace(ITEMS["table2"], name="table1")))
    with pytest.raises(ValueError, match="more than one item is called table1"):
        items.registered()


def test_the_items_keep_their_order():
    """The lists of `gvfx list` and of the report's left-out items follow it."""
    assert " ".join(ITEMS) == (
        "table1 table2 same fourrooms fourrooms-visit forty distinct value-error sensitivity individual-same "
        "individual-distinct variance semi-greedy individual-semi-greedy grouping fourrooms-variance drift forty-goals "
        "importance-sampling cumulants successor successor-temperature table3 continuous individual-continuous "
        "value-error-continuous variance-continuous behaviour-continuous priorities tuning-continuous recommended "
        "mujoco-recommended mujoco-paper mujoco-stills mujoco-trials limit-main limit-behaviours limit-drift coverage stops"
    )


def test_the_report_has_every_exhibit_in_the_order_of_the_sections(built):
    sections = sections_of(built)
    assert [(s.id, s.title, s.text) for s in sections] == [(s.id, s.title, s.text) for s in SECTIONS]
    first = {e.id: name for name in reversed(built) for e in built[name]}  # an exhibit of two items counts as the first's
    assert sorted(e.id for s in sections for e in s.items) == sorted(first)
    order = {s.id.removeprefix("section-"): list(dict.fromkeys(first[e.id] for e in s.items)) for s in sections}
    assert order["curves"] == ["same", "distinct", "semi-greedy", "fourrooms", "fourrooms-visit", "forty"]
    assert order["maps"] == ["value-error", "variance", "fourrooms-variance", "forty-goals"]
    assert " ".join(order["continuous"]) == (
        "table3 continuous recommended individual-continuous value-error-continuous behaviour-continuous "
        "variance-continuous priorities tuning-continuous"
    )
    assert order["ablations"][-1] == "cumulants" and order["tuning"][0] == "sensitivity"


def test_what_is_missing_is_asked_of_the_store(little):
    """Curves at tuned rates are optional, every other run is required; a damaged file isn't taken for a missing one."""
    found = available(little)
    assert {"same", "individual-same", "cumulants"} <= set(found) and "distinct" not in found
    assert [e.id for e in found["same"]] == ["same"]  # not same-tuned
    path = little.store.path(Curve("same", "SR").experiment, 1)
    raw = path.read_bytes()
    path.unlink()
    assert "same" not in available(little)
    path.write_bytes(raw[:-1] + b"?")
    with pytest.raises(CorruptFile):
        available(little)


def test_table_1_does_without_tuned_rates_that_have_not_been_run(results):
    source = Source(Store(results), SEEDS, {"same": {"Uniform": (0.25, 0.8), "GVFExplorer": (0.25, 0.8)}})
    assert ITEMS["table1"].is_complete(source)
    names = {row[1] for row in build(ITEMS["table1"], source)[0].rows}
    assert names == {"paper, as printed", "ours (paper)", "ours (authors)"}


def test_the_tuning_steps_are_one_number():
    assert TUNING_STEPS == 800_000 and {c.experiment.steps for c in sweep_curves("same")} == {TUNING_STEPS}


def test_items_without_runs_need_no_store(tmp_path):
    done = cli("reproduce", "cumulants", "forty-goals", "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "items" / "forty-goals.png").exists()
    assert "nothing to run" in done.stdout


def test_reproduce_takes_what_is_stored(results):
    done = cli("reproduce", "table1", "--seeds", SEEDS, "--results", results, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "nothing to run" in done.stdout and "Does the printed number reproduce?" in done.stdout
    assert (results / "items" / "table1.md").read_text().startswith("## Average MSE")


def test_the_report_opens_and_works(results, tmp_path):
    page = tmp_path / "report.html"
    done = cli("report", results, "--seeds", SEEDS, "--out", page)
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stdout
    with Browser() as browser:
        browser.open(page)
        text = browser.run("document.body.innerText")
        assert browser.errors == []
        assert "gvfx reproduce table1" in browser.run("document.body.textContent")
        assert "Theorem 4.2, for two or more GVFs" in text
        assert browser.run("document.querySelectorAll('svg path').length") > 50
        assert browser.run("document.querySelectorAll('canvas').length") >= 5


def test_the_report_of_an_empty_folder_says_what_is_missing(tmp_path):
    done = cli("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "left out: table1" in done.stdout
    assert cli("report", tmp_path / "nowhere").returncode == 2
