"""Your own classes in stored experiments: named, loaded only when the program names them, and swept in worker processes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from helpers.experiments import small

import gvfx
import gvfx_paper
from gvfx.experiments.executors import run_task
from gvfx.experiments.specification import Experiment, imported, known_classes
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx.names import HOME_OF
from gvfx.questions.policies import Policy
from gvfx_paper.settings.choices import behaviours_for, learners_for
from gvfx_paper.settings.tabular import paper

SOURCE = """
from dataclasses import dataclass
import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all

@dataclass(frozen=True)
class Leaning(gvfx.Behaviour):
    share: float = 0.5
    supports = frozenset({"tables"})
    def rule(self, sizes):
        return gvfx.Mixture().rule(sizes)
    def begin(self, asked, world):
        return gvfx.Mixture().begin(asked, world)

def half(state, action, next_state):
    return 0.5

def experiment():
    question = gvfx.GVF([0.25] * 4, gvfx.Distractor(10, 1, at="left"), half)
    world = gvfx.gridworld(4, {"left": (0, 0)}, horizon=30)
    return Experiment(world, (question,), Leaning(0.25), gvfx.ExpectedSarsa(), 500, 100)

if __name__ == "__main__":
    tally = run_all(Store("results"), [(experiment(), 1)], workers=2)
    print(tally.done, experiment().hash)
"""


@dataclass(frozen=True)
class Even(Policy):
    """A policy of the caller's own."""

    actions: int = 4

    def table(self, states, actions, field="policy"):
        return np.full((1, actions), 1 / self.actions)


@dataclass
class Loose(Policy):
    def table(self, states, actions, field="policy"):
        return np.full((1, actions), 1 / actions)


@pytest.fixture
def leaning(tmp_path, monkeypatch):
    """A module of the user with a behaviour and a function."""
    (tmp_path / "leaning_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("leaning_module")
    yield module
    sys.modules.pop("leaning_module", None)


def test_own_classes_and_functions_are_written_as_module_and_name(leaning):
    experiment = leaning.experiment()
    assert json.loads(experiment.json)["behaviour"] == {"@": "leaning_module:Leaning", "share": 0.25}
    assert experiment.own_parts == ("leaning_module:Leaning", "leaning_module:half")
    again = Experiment.from_json(experiment.json)
    assert again.behaviour == experiment.behaviour and again.questions[0].discount is leaning.half
    assert again.hash == experiment.hash
    assert small(questions=(gvfx.GVF(Even(), 1.0),)).own_parts == (f"{__name__}:Even",)


def test_a_text_alone_imports_nothing(leaning):
    text = leaning.experiment().json
    parts = leaning.Leaning, leaning.half
    del sys.modules["leaning_module"]
    with pytest.raises(gvfx.InputError, match=r"leaning_module:Leaning is named by the text but not known to your program"):
        Experiment.from_json(text)
    assert "leaning_module" not in sys.modules
    sys.modules["leaning_module"] = sys.modules[__name__]  # a module of that name that lacks the class
    with pytest.raises(gvfx.InputError, match=r"classes=\[Leaning\]"):
        Experiment.from_json(text)
    module = sys.modules["leaning_module"] = ModuleType("leaning_module")
    module.Leaning, module.half = parts
    assert Experiment.from_json(text, classes=parts).behaviour.share == 0.25


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"discount": {"@function": "shutil:rmtree"}}, "shutil:rmtree is named by the text"),
        ({"discount": {"@function": "os:system"}}, "os:system is named by the text"),
        ({"discount": {"@function": "numpy:nothing"}}, "numpy:nothing is named by the text"),
        ({"discount": {"@function": f"{__name__}:Even"}}, "Even is not a function"),
        ({"policy": {"@": "subprocess:Popen", "args": "true"}}, "subprocess:Popen is named by the text"),
        ({"policy": {"@": f"{__name__}:small"}}, "small is named by the text"),
        ({"discount": {"@function": "gvfx.__main__:main"}}, "gvfx.__main__:main is named by the text"),
        ({"discount": {"@function": "gvfx.files:write_whole"}}, "gvfx.files:write_whole is named by the text"),
        ({"discount": {"@function": "benchmarks.limit:gaps"}}, "benchmarks.limit:gaps is named by the text"),
        ({"discount": {"@function": "gvfx.questionsx:run"}}, "gvfx.questionsx:run is named by the text"),
        ({"discount": {"@function": "gvfx.questions.nowhere:run"}}, "gvfx.questions.nowhere:run is named by the text"),
        ({"discount": {"@function": ["gvfx.questions"]}}, "does not describe one"),
        ({"policy": {"@": "Target", "name": "nowhere"}}, "nowhere"),
        ({"policy": {"@": f"{__name__}:Loose"}}, "Loose is not a frozen dataclass"),
    ],
)
def test_texts_that_name_what_no_experiment_has_are_refused(part, words):
    data = json.loads(small().json)
    data["questions"][0] |= part
    before = {name for name in sys.modules if name.startswith(("benchmarks", "gvfx.__main__"))}
    with pytest.raises(gvfx.InputError, match=words):
        Experiment.from_json(json.dumps(data))
    assert {name for name in sys.modules if name.startswith(("benchmarks", "gvfx.__main__"))} == before


def test_what_cannot_be_named_cannot_be_stored():
    @dataclass(frozen=True)
    class Local(Even):
        pass

    with pytest.raises(gvfx.InputError, match=r"^policy: a class inside a stored experiment must be named module:class; .*Local"):
        _ = small(questions=(gvfx.GVF(Local(), 1.0),)).json
    with pytest.raises(gvfx.InputError, match=r"^policy: Loose cannot be stored; write @dataclass\(frozen=True\)"):
        _ = small(questions=(gvfx.GVF(Loose(), 1.0),)).json
    with pytest.raises(gvfx.InputError, match=r"^experiment: this worker cannot import nowhere:Thing; install its module"):
        imported(["nowhere:Thing"])


def test_a_worker_imports_what_the_caller_named(leaning):
    experiment = leaning.experiment()
    expected = run_task(experiment.json, 0)[0]
    del sys.modules["leaning_module"]
    assert run_task(experiment.json, 0, None, experiment.own_parts)[0] == expected
    assert "leaning_module" in sys.modules


def test_a_sweep_here_runs_own_classes(leaning, tmp_path):
    experiment = leaning.experiment()
    assert run_all(Store(tmp_path / "results"), [(experiment, 2)]).done == 2
    assert run_all(Store(tmp_path / "results"), [(experiment, 2)]).found == 2


def test_a_script_sweeps_its_own_classes_in_worker_processes(leaning, tmp_path):
    out = subprocess.run([sys.executable, "leaning_module.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["1", leaning.experiment().hash]  # the same name whether it is run or imported
    assert Store(tmp_path / "results").has(leaning.experiment(), 0)


def test_no_two_parts_of_gvfx_have_one_name():
    homes = {c.__module__ for c in known_classes().values()}
    found = [c for home in homes for c in vars(sys.modules[home]).values() if isinstance(c, type) and c.__module__ == home]
    parts = [c.__name__ for c in found if dataclasses.is_dataclass(c)]
    assert sorted(parts) == sorted(known_classes())


def test_a_public_behaviour_needs_no_other_list(monkeypatch, leaning):
    """Its own file and its line in __init__.pyi are all: settings and stored experiments find it."""
    module = ModuleType("gvfx.behaviours.leaning")
    module.Leaning = type("Leaning", (leaning.Leaning,), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(HOME_OF, "Leaning", module.__name__)
    known_classes.cache_clear()
    try:
        assert behaviours_for("tables")["Leaning"] is module.Leaning
        assert "Leaning" not in behaviours_for("networks")
        assert json.loads(small(behaviour=module.Leaning()).json)["behaviour"]["@"] == "Leaning"
        assert Experiment.from_json(small(behaviour=module.Leaning()).json).behaviour == module.Leaning()
    finally:
        known_classes.cache_clear()


def test_settings_take_every_public_class_by_its_name():
    same = paper["same"]
    assert same.experiment("SuccessorRepresentation").hash == same.experiment("SR").hash
    assert same.experiment("behaviourpolicysearch").hash == same.experiment("BPS").hash
    assert same.behaviour("RandomPolicies") == gvfx.Floor(gvfx.Epsilon(gvfx_paper.RandomPolicies()))
    assert same.behaviour("CharacteristicTime") == gvfx.CharacteristicTime()
    assert same.learner("EpisodicExpectedSarsa") == gvfx_paper.EpisodicExpectedSarsa(same.rate("GVFExplorer"), same.rate_m)
    for name, cls in behaviours_for("tables").items():
        assert cls.__name__ in repr(same.experiment(name, steps=100).behaviour)
    for name in learners_for("tables"):
        assert type(same.learner(name)).__name__ == name
