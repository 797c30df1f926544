"""Every item of the paper and of our own builds from stored results."""

from __future__ import annotations

import pytest
from helpers.command_line import cli
from helpers.results import SEEDS

import gvfx
from gvfx.reproduce.items import ITEMS, chosen_items
from gvfx.reproduce.output import write_exhibits
from gvfx.reproduce.summary import SECTIONS
from gvfx.reproduce.tabular import build


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_builds_and_writes_its_files(name, source, tmp_path):
    exhibits = build(ITEMS[name], source)
    paths = write_exhibits(tmp_path, ITEMS[name], exhibits)
    assert paths and all(path.stat().st_size > 300 for path in paths)
    for exhibit in exhibits:
        assert exhibit.label == ITEMS[name].label
        assert exhibit.provenance.command == f"gvfx reproduce {name} --seeds {SEEDS}"


def test_every_item_has_a_label_and_unknown_names_suggest_the_nearest():
    assert [item.name for item in chosen_items(["tabular", "deep", "mujoco", "limit"])] == list(ITEMS)
    assert {name for _, names in SECTIONS.values() for name in names} == set(ITEMS)  # the report leaves none out
    with pytest.raises(gvfx.InputError, match="table1"):
        chosen_items(["tabel1"])
    done = cli("reproduce", "sensitvity")
    assert done.returncode == 2 and "sensitivity" in done.stderr


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
