"""What benchmark unseen measures with: a rule that only watches stops where the rule itself does; its page."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.worlds import small_world, two_questions

import gvfx
from benchmarks import unseen as bench
from benchmarks.common.worlds import HARD, corridor
from benchmarks.unseen import OwnVariance, own_errors
from gvfx.evidence import counts, unseen
from gvfx.running import costs
from gvfx.worlds.conversion import SteppedMDP


@pytest.mark.parametrize("stepped", [False, True])
def test_stops_are_those_of_the_rule_and_errors_are_held_against_its_target(stepped):
    world, questions = corridor(5) if stepped else (small_world(), two_questions())
    source = SteppedMDP(world) if stepped else world
    truth = gvfx.exact.values(world, questions)
    for target in (0.02, 0.002) if stepped else (0.5, 0.05):
        rule = gvfx.error_below(target)
        steps, kept = bench.stops(source, (world, questions), rule, 2, 20_000)
        with pytest.warns(UserWarning, match="^until") if (steps == 0).any() else contextlib.nullcontext():
            r = gvfx.evaluate(source, questions, steps=20_000, seeds=range(5000, 5002), until=rule)
        assert steps.tolist() == np.where(r.reached, r.stopped, 0).tolist() and steps.any()
        assert kept.tolist() == (((r.values - truth)[:, :, world.live] ** 2).mean(axis=(1, 2)) <= target).tolist()
    never, _ = bench.stops(source, (world, questions), gvfx.error_below(1e-9), 1, 1000)
    assert never.tolist() == [0]


def test_own_variances_know_nothing_of_the_unseen():
    world, questions = HARD["current of 20"]()
    r = gvfx.evaluate(SteppedMDP(world), questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=2000)
    (data,) = r.details.models
    acted = data.world.live
    assert (
        np.isfinite(own_errors(data)[:, acted]).any()
        and np.isinf(r.details.snapshots[-1].standard_errors[0][:, acted[:-1]]).all()
    )
    assert OwnVariance(0.1).bound(data, 0)[0] < 0.1 and gvfx.error_below(0.1).bound(data, 0) == (np.inf, False)


def test_outcomes_of_a_world():
    """Four runs of an easy corridor: the counts of stops, and shares between 0 and 1.

    Of 12 runs none stops wrongly, and they take 0.76 of the time.
    """
    asked = corridor(5)
    o = bench.outcome(asked[0], asked, 4, (1000, 4000), compare=True)
    assert o["stopped"].tolist() == [4, 4] and max(o["broken"]) <= 1 and (o["finite"] == 1).all() and o["newly"] == 0
    assert (o["cover"] > 0.6).all() and 0.9 < o["width"] < 1.2 and 0.7 < o["slower"] < 1.3


def test_the_page_names_the_constants_and_has_the_tables():
    page = (Path(__file__).parents[2] / "docs" / "unseen.md").read_text()
    prose = re.sub(r"<!-- test: .*?-->", "", page).split("<!--")[0]
    for number in (unseen.KNOWN_BELOW, unseen.OPEN_BELOW, unseen.STOP_BELOW, unseen.AT_STAKE):
        assert re.search(rf"(above|most|than) {number:g}\b", prose), number
    assert f"{unseen.NEWEST:g} · {unseen.FADING:g}ⁿ" in prose
    assert f"less than {unseen.RARELY:.0%}".replace("%", " %") in prose
    assert f"tried fewer than {unseen.SETTLED} times" in prose
    assert f"tried fewer than {costs.FEW_TRIES} times in more than {costs.FEW_STATES:.0%}".replace("%", " %") in " ".join(
        prose.split()
    )
    assert counts.LEAST_TRIED == 0.5 and "less than half of such a policy" in " ".join(prose.split())
    assert f"seeds from {bench.FIRST_SEED} on" in prose
    for name in (*HARD, *bench.ORDINARY, *bench.FEW_COUNTS):
        assert f"| {name} |" in page, name
