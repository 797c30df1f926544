"""gvfx cache: what the folder for compiled code holds, and removing it."""

from __future__ import annotations

import pytest
from helpers.command_line import invoke

from gvfx.compilation import folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("GVFX_CACHE_DIR", str(tmp_path / "cache"))
    return folder.current()


def test_show_and_clear(place):
    place.write("a", "loop", bytes(2_000_000))
    place.write("b", "network", bytes(300_000))
    place.write("c", "network", bytes(400_000))
    shown = invoke("cache", "show")
    assert shown.exit_code == 0 and str(place.path) in shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["loops", "on", "tables", "1", "2.0"] in lines and ["networks", "2", "0.7"] in lines
    cleared = invoke("cache", "clear")
    assert cleared.exit_code == 0 and "removed 3 entries" in cleared.output
    assert place.entries() == []


def test_a_folder_that_cannot_be_used_is_said_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GVFX_CACHE_DIR", str(tmp_path / "file" / "cache"))
    done = invoke("cache", "show")
    assert done.exit_code == 2 and "set GVFX_CACHE_DIR to a new folder of yours" in done.output
