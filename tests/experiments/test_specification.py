"""Experiments as data: round trips, hashes, and what cannot be stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.experiments import named_discount, small

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx_paper.items import ITEMS


def test_every_curve_of_the_paper_survives_the_round_trip():
    curves = {curve for name, item in ITEMS.items() if name != "headline" for curve in item.needs({})}  # which shares its runs
    assert len(curves) > 300
    hashes = set()
    for curve in curves:
        experiment = curve.experiment
        again = Experiment.from_json(experiment.json)
        assert again.json == experiment.json
        assert again.behaviour == experiment.behaviour and again.learner == experiment.learner
        assert again.questions == experiment.questions
        hashes.add(experiment.hash)
    assert len(hashes) == len(curves)


def changed(**parts):
    return json.dumps({**json.loads(small().json), **parts})


def test_the_hash_sees_every_change():
    base = small()
    assert base.hash == small().hash
    others = [
        small(steps=1001),
        small(evaluate_every=50),
        small(snapshots=(500,)),
        small(average_episodes=5),
        small(until=gvfx.error_below(0.1)),
        small(learner=gvfx.ExpectedSarsa(rate_q=0.2)),
        small(behaviour=gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()), 0.002)),
        small(world=gvfx.gridworld(4, {"left": (0, 0)}, horizon=31)),
    ]
    assert len({e.hash for e in [base, *others]}) == len(others) + 1


def test_a_value_that_changed_its_meaning_is_another_experiment():
    """Stored runs whose drift advanced on other questions' visits must not be taken for those of the present rule."""
    drifting = small(questions=(gvfx.GVF([0.25] * 4, gvfx.Drifter(0.5, at="left", advance="visit"), 0.9),))
    assert Experiment.from_json(drifting.json).questions[0].cumulant.advance == "visit"
    before = drifting.json.replace('"own visit"', '"visit"')
    assert before != drifting.json
    with pytest.raises(gvfx.InputError, match="advance='visit' was written when it meant something else"):
        Experiment.from_json(before)
    assert '"advance":"step"' in small(questions=(gvfx.GVF([0.25] * 4, gvfx.Drifter(0.5, at="left"), 0.9),)).json


def test_worlds_given_by_arrays_are_stored_whole():
    P = np.array([[[0.5, 0.5], [0.1, 0.9]], [[0.0, 1.0], [0.0, 1.0]]])
    world = gvfx.MDP.from_matrix(P, start=[1, 0], terminal=[False, True], horizon=9, places={"end": np.array([1])})
    question = gvfx.GVF([[0.3, 0.7], [0.5, 0.5]], gvfx.table_cumulant([[1, 2], [0, 0]], 0.5), named_discount)
    experiment = small(world=world, questions=(question,))
    again = Experiment.from_json(experiment.json)
    np.testing.assert_array_equal(again.world.matrix.toarray(), world.matrix.toarray())
    assert again.world.horizon == 9 and again.questions[0].discount is named_discount
    np.testing.assert_array_equal(gvfx.exact.values(again.world, again.questions), gvfx.exact.values(world, [question]))


def test_a_function_without_a_name_cannot_be_stored():
    with pytest.raises(gvfx.InputError, match="module:function"):
        _ = small(questions=(gvfx.GVF([0.25] * 4, 1.0, lambda s, a, n: 0.9),)).json


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ('{"format": 999}', "another version"),
        (json.dumps({**json.loads(small().json), "learner": {"@": "os.system"}}), "not a class of gvfx"),
        (json.dumps({**json.loads(small().json), "world": {"@world": "exec", "with": {}}}), "not a known kind of world"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 1, "world": ' + '{"@map": ' * 50_000, "nested too deeply"),
        ("[]", "not that of an experiment"),
        ("7", "not that of an experiment"),
        ('{"format": 1}', "does not describe one"),
        ('{"format": 1, "steps": ' + "1" * 10_000 + "}", "does not describe one"),
        (changed(steps="many"), "steps: 'many' is not a whole number"),
        (changed(evaluate_every=0), "evaluate_every"),
        (changed(snapshots=3), "snapshots"),
        (changed(questions=[]), "questions"),
        (changed(questions=[7]), "questions"),
        (changed(questions=7), "does not describe one"),
        (changed(behaviour={"@": "Constant", "value": 1.0}), "does not"),
        (changed(behaviour=None), "behaviour: None does not fit there"),
        (changed(learner={"@": "ExpectedSarsa", "speed": 1}), "does not describe one"),
        (changed(learner={"@": ["ExpectedSarsa"]}), "not a class of gvfx"),
        (changed(until=0.5), "until: 0.5 does not fit there"),
        (changed(world={"@map": 3}), "does not describe one"),
        (changed(world={"@mdp": {"@map": {"next": 3}}}), "does not describe one"),
        (changed(world={"@array": [1], "dtype": "U1000000000"}), "not a kind of number"),
        (changed(world={"@array": [[1], [1, 2]], "dtype": "int64"}), "does not describe one"),
        (changed(world={"@world": "gridworld", "with": {"@map": {"size": 10**9}}}), "cells are too many"),
        (changed(world={"@world": "gridworld", "with": {"@map": {"size": "x" * 9, "cells": 3}}}), "does not describe one"),
    ],
)
def test_text_that_is_no_experiment_is_refused(text, words):
    with pytest.raises(gvfx.InputError, match=words):
        Experiment.from_json(text)
