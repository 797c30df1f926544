"""Comparing behaviours: a missing extra is named."""

from __future__ import annotations

import sys

import pytest

import gvfx
from gvfx_paper.settings.runs import find_setting, run_behaviour


@pytest.mark.parametrize(("setting", "extra"), [("continuous", "deep"), ("walker", "mujoco")])
def test_a_missing_extra_is_named(monkeypatch, setting, extra):
    monkeypatch.setitem(sys.modules, "jax", None)
    commands = rf"pip install 'gvfx\[{extra}\]' \(in a checkout: pip install -e '\.\[{extra}\]'\)"
    with pytest.raises(gvfx.InputError, match=rf"^jax: not installed; run {commands}\.$"):
        run_behaviour(find_setting(setting), "RoundRobin", steps=3200)
