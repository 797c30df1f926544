"""Every item of the paper and of our own builds from stored results."""

from __future__ import annotations

import json
import re
import shutil
from copy import copy
from dataclasses import replace

import pytest
from helpers.command_line import invoke
from helpers.results import SEEDS
from typer.testing import CliRunner

import gvfx
from gvfx.cli import app
from gvfx.experiments.store import Store
from gvfx.tensors import CorruptFile
from gvfx_paper import items
from gvfx_paper.items import ITEMS, Item, Source, build, chosen_items, curves_with_seeds, gridworlds
from gvfx_paper.items.curves import TUNING_STEPS, Curve, load_tuned, sweep_curves
from gvfx_paper.items.exhibits import ABLATIONS, SECTIONS
from gvfx_paper.items.output import available, sections_of, write_exhibits, write_report


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


def test_every_item_has_a_label_and_unknown_names_suggest_the_nearest():
    assert [item.name for item in chosen_items(["tabular", "deep", "mujoco", "limit"])] == list(ITEMS)
    assert {item.section for item in ITEMS.values()} == set(SECTIONS)
    with pytest.raises(gvfx.InputError, match="table1"):
        chosen_items(["tabel1"])
    done = invoke("reproduce", "sensitvity")
    assert done.exit_code == 2 and "sensitivity" in done.stderr


def test_items_without_runs_need_no_store(tmp_path):
    done = invoke("reproduce", "cumulants", "forty-goals", "--results", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "items" / "forty-goals.png").exists()
    assert "nothing to run" in done.stdout


def test_reproduce_takes_what_is_stored(results):
    done = invoke("reproduce", "table1", "--seeds", SEEDS, "--results", results, "--workers", 1)
    assert done.exit_code == 0, done.stderr
    assert "nothing to run" in done.stdout and "Does the printed number reproduce?" in done.stdout
    assert (results / "items" / "table1.md").read_text().startswith("## Average MSE")


def test_an_item_is_added_in_one_module(little, tmp_path, monkeypatch):
    """It is listed, chosen by its group, built from stored results and shown in its section of the report."""

    def halves(b):
        return [b.table("halves", b.item.title, ["half the error"], [[f"{b.source.result(curve).error[:, -1].mean() / 2:g}"]])]

    curve = Curve("same", "Uniform")
    extra = Item("halves", "ours", "Half of Uniform's error", lambda tuned: [curve], halves, ABLATIONS, seeds=7)
    monkeypatch.setattr(gridworlds, "ITEMS", copy(gridworlds.ITEMS))
    gridworlds.ITEMS.append(extra)  # what a change to that file does
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
    assert [i["id"] for i in section["items"]] == ["lemma", "halves", "cumulants"]  # the others need runs
    assert section["items"][1]["rows"] == [["2.1"]]


def test_two_items_of_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(gridworlds, "ITEMS", copy(gridworlds.ITEMS))
    gridworlds.ITEMS.append(replace(ITEMS["table2"], name="table1"))
    with pytest.raises(ValueError, match="more than one item is called table1"):
        items.registered()


def test_the_items_keep_their_order():
    """The lists of `gvfx list` and of the report's left-out items follow it."""
    assert " ".join(ITEMS) == (
        "table1 table2 same fourrooms fourrooms-visit forty distinct semi-greedy individual-same individual-distinct "
        "individual-semi-greedy sensitivity value-error variance fourrooms-variance forty-goals grouping drift "
        "importance-sampling drift-visit importance-sampling-visit cumulants lemma successor successor-authors "
        "successor-temperature table3 table3-authors continuous individual-continuous "
        "value-error-continuous variance-continuous behaviour-continuous priorities recommended tuning-continuous stabilising "
        "mujoco-recommended mujoco-stabilised mujoco-paper mujoco-interventions mujoco-points mujoco-stills mujoco-options "
        "mujoco-lookahead mujoco-longer limit-main limit-behaviours limit-drift coverage seed-intervals stops"
        " limit-continuous headline"
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
        "table3 continuous recommended table3-authors individual-continuous value-error-continuous behaviour-continuous "
        "variance-continuous priorities tuning-continuous stabilising"
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
        available(Source(little.store, SEEDS, little.tuned))  # which has read nothing yet


def test_table_1_does_without_tuned_rates_that_have_not_been_run(results):
    source = Source(Store(results), SEEDS, {"same": {"Uniform": (0.25, 0.8), "GVFExplorer": (0.25, 0.8)}})
    assert ITEMS["table1"].is_complete(source)
    names = {row[1] for row in build(ITEMS["table1"], source)[0].rows}
    assert names == {"paper, as printed", "ours (paper)", "ours (authors)"}


def test_the_tuning_steps_are_one_number():
    assert TUNING_STEPS == 800_000 and {c.experiment.steps for c in sweep_curves("same")} == {TUNING_STEPS}
