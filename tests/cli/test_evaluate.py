"""gvfx evaluate and the commands beside it, with environments and questions of one's own: every form of a target."""

from __future__ import annotations

import json
import sys
import textwrap

import gymnasium as gym
import numpy as np
import pytest
from helpers.command_line import cli, invoke

import gvfx
from gvfx.locks import lock

MINE = """
    import gymnasium as gym
    import gvfx

    def act(state):
        return [0.25, 0.25, 0.25, 0.25]

    def still(state, action, following):
        return float(following == state)

    questions = [gvfx.GVF(act, gvfx.Reward(), 0.9, name="goal"), gvfx.GVF(act, still, 0.9, name="still")]

    def make():
        return gym.make("FrozenLake-v1"), questions

    def alone():
        return gym.make("FrozenLake-v1")

    def known():
        return gvfx.gridworld(3, goals={"g": (0, 0)}), [gvfx.GVF(gvfx.uniform_policy(), 1.0, 0.9, name="steps")]

    def raising():
        raise RuntimeError("no motor")

    def needs(argument):
        return None

    def number():
        return 3

    def unhappy():
        return gym.make("FrozenLake-v1"), [3]

    def ending():
        raise SystemExit("gone")

    later = 3
"""
TOML = """
    discount = 0.9
    [policies]
    random = "uniform"
    right = {action = 2}
    [signals]
    goal = "reward"
    time = 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of one's own, in which commands are given."""
    (tmp_path / "pond.py").write_text(textwrap.dedent(MINE))
    (tmp_path / "broken.py").write_text("def make(:\n")
    (tmp_path / "questions.toml").write_text(textwrap.dedent(TOML))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def answers(*arguments):
    """The JSON that `gvfx evaluate` prints, and nothing beside it."""
    done = invoke("evaluate", *arguments, "--steps", "6e2", "--json", "-")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_every_form_of_a_target_asks_the_same(folder):
    sys.path.insert(0, str(folder))
    import pond

    expected = gvfx.evaluate(gym.make("FrozenLake-v1"), pond.questions, steps=600)
    for target in ("pond:make", "pond.py:make", "pond.py", "pond", "pond:alone", folder / "pond.py:make"):
        said = answers(target)
        assert said["target"] == str(target) and said["names"] == ["goal", "still"]
        assert said["start"]["still"]["value"] == pytest.approx(expected.value()["still"].value, abs=1e-12)
        assert [row["prediction"] for row in said["answers"]] == pytest.approx(expected.values.mean(axis=0).ravel().tolist())
        del sys.modules["pond"]


def test_a_gymnasium_name_with_questions_in_a_file(folder):
    said = answers("FrozenLake-v1", "--questions", "questions.toml", "--seed", 3)
    assert said["names"] == ["random: goal", "random: time", "right: goal", "right: time"] and said["seeds"] == [3]
    (folder / "one.toml").write_text('[policies]\na = "uniform"\n[signals]\nr = "reward"\n')
    assert answers("pond:make", "--questions", "one.toml")["names"] == ["a: r"]  # instead of those beside the function


def test_a_world_of_gvfx_can_be_made_too(folder):
    said = answers("pond:known", "--seeds", 2, "--workers", 2, "--behaviour", "uniform", "-l", "ExpectedSarsa")
    assert said["seeds"] == [0, 1] and said["experiment"]["behaviour"] == "Uniform()"
    assert said["experiment"]["learner"].startswith("ExpectedSarsa(") and np.shape(said["mse"])[2] == 1


def test_results_are_saved_tracked_shown_and_continued(folder):
    options = ("--save", "a.gvfx", "--report", "a.html", "--track", "run.jsonl", "--checkpoint", "run", "--steps", 2000)
    options = (*options, "--evaluate-every", "1e3", "--where", "start", "--no-progress", "--checkpoint-every", 0)
    done = invoke("evaluate", "pond:make", *options)
    assert done.exit_code == 0, done.output
    assert "still" in done.stdout and done.stdout.count("wrote ") == 2
    assert gvfx.load("a.gvfx").details.experiment["where"] == "start" and "<html" in (folder / "a.html").read_text()
    assert len((folder / "run.jsonl").read_text().splitlines()) == 3
    assert len(list((folder / "run").glob("seed-0000.?.checkpoint"))) == 2  # one at the end, and at least one before it
    again = invoke("evaluate", "pond:make", *options)  # the finished run is found in the folder
    assert again.exit_code == 0 and len((folder / "run.jsonl").read_text().splitlines()) == 4, again.output
    done = invoke("report", "pond:make", "--steps", 500, "--out", "b.html")
    assert done.exit_code == 0 and (folder / "b.html").exists(), done.output


def test_a_rule_that_is_not_met_is_said_and_exits_with_0(folder):
    options = ("--questions", "questions.toml", "--behaviour", "Uniform", "--until", "1e-9", "--steps", 500)
    done = cli("evaluate", "FrozenLake-v1", *options, cwd=folder)
    assert done.returncode == 0 and "was not reached within 500 steps" in done.stdout
    assert done.stderr.startswith("gvfx: warning: until: 1 of 1 runs ended before") and done.stderr.count("\n") == 1


def test_plan_check_and_truth_take_the_same_targets(folder):
    done = invoke("plan", "FrozenLake-v1", "--questions", "questions.toml", "--error", 0.1, "--json", "plan.json")
    assert done.exit_code == 0 and json.loads((folder / "plan.json").read_text())["target"] == "FrozenLake-v1", done.output
    done = invoke("plan", "pond.py:known", "--error", 0.1, "--json", "-")
    assert done.exit_code == 0 and json.loads(done.stdout)["target"] == "pond.py:known" and "optimum" in done.stderr
    done = invoke("check", "pond.py:make", "--steps", "1e3", "--json", "-")
    assert done.exit_code == 0 and json.loads(done.stdout)["findings"] == [], done.output
    done = invoke("truth", "pond.py", "--max-episodes", 60, "--json", "-")
    assert done.exit_code == 0 and json.loads(done.stdout)["names"] == ["goal", "still"], done.output


REFUSED = [
    (["evaluate", "pond:pool"], "target: pond has no 'pool'; its own functions are act, still, make"),
    (["evaluate", "pool:make"], "target: there is no module 'pool' to import from this folder"),
    (["evaluate", "pool.py:make"], "target: there is no file pool.py; write module:function"),
    (["evaluate", "a.b.c:make"], "target: there is no module 'a.b.c'"),
    (["evaluate", "broken.py:make"], "target: running broken.py raised SyntaxError in broken.py, line 1"),
    (["evaluate", "broken:make"], "target: importing broken raised SyntaxError in broken.py, line 1"),
    (["evaluate", "pond:raising"], "target: pond:raising raised RuntimeError in pond.py, line 23 (no motor)"),
    (["evaluate", "pond:ending"], "target: pond:ending raised SystemExit in pond.py"),
    (["evaluate", "pond:needs"], "target: pond:needs raised TypeError (needs() missing 1 required positional argument"),
    (["evaluate", "pond:number"], "target: pond:number returned int; return an environment"),
    (["evaluate", "pond:later"], "target: pond:later is int; name a function that returns an environment"),
    (["evaluate", "pond:unhappy"], "questions[0]: 3 is not a GVF"),
    (["evaluate", "pond:"], "target: 'pond:' does not name a function"),
    (["evaluate", ""], "target: the text is empty; give a value"),
    (["evaluate", "FrozenPuddle-v1"], "target: Gymnasium cannot make 'FrozenPuddle-v1'"),
    (["evaluate", "FrozenLake-v1"], "questions: there are none"),
    (["truth", "FrozenLake-v1"], "questions: there are none"),
    (["evaluate", "pond:make", "--questions", "no.toml"], "questions: cannot read no.toml"),
    (["evaluate", "pond:make", "--questions", "pond.py"], "questions: pond.py is not TOML"),
    (["evaluate", "pond:make", "--steps", "many"], "--steps: 'many' is not a whole number"),
    (["evaluate", "pond:make", "--steps", "0"], "--steps: 0 is too few"),
    (["evaluate", "pond:make", "--seeds", "0"], "--seeds: 0 is too few"),
    (["evaluate", "pond:make", "--behaviour", "Unform"], "behaviour: 'Unform' is unknown; did you mean 'Uniform'"),
    (["evaluate", "pond:make", "--behaviour", "Blend"], "behaviour: Blend needs arguments; use it from Python"),
    (["evaluate", "pond:make", "--learner", "Sarsa"], "learner: 'Sarsa' is unknown"),
    (["evaluate", "pond:make", "--until", "soon"], "until: 'soon' is not an error"),
    (["evaluate", "pond:make", "--save", "/proc/x/a"], "--save: cannot write /proc/x/a"),
    (["evaluate", "pond:make", "--report", "/proc/x/a"], "--report: cannot write /proc/x/a"),
    (["evaluate", "pond:make", "--track", "/proc/x/a"], "--track: cannot write /proc/x/a"),
    (["plan", "pond:make", "--pilot", "few"], "--pilot: 'few' is not a whole number"),
    (["plan", "distnct"], "setting: 'distnct' is unknown"),
    (["check", "pond:make", "--steps", "-1"], "--steps: -1 is too few"),
    (["report", "pond:pool"], "target: pond has no 'pool'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, sentence, folder):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"gvfx: {sentence}") and done.stderr.count("\n") == 1, done.stderr


def test_what_a_failed_run_has_learned_is_kept(folder):
    failing = """
        import gymnasium as gym
        import gvfx

        class Failing(gym.Wrapper):
            n = 0

            def step(self, action):
                self.n += 1
                if self.n > 300:
                    raise OSError("no motor")
                return self.env.step(action)

        def make():
            question = gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9, name="q")
            return Failing(gym.make("FrozenLake-v1")), [question]
    """
    (folder / "failing.py").write_text(textwrap.dedent(failing))
    done = invoke("evaluate", "failing.py:make", "--save", "a.gvfx")
    assert done.exit_code == 1 and "step raised OSError: no motor" in done.stderr
    assert "gvfx: what was learned so far is in a.gvfx." in done.stderr and gvfx.load("a.gvfx").names == ("q",)


def test_init_writes_files_that_work_as_they_are(folder):
    assert "gvfx evaluate my_questions.py:make" in invoke("init").stdout
    written = (folder / "my_questions.py").read_text()
    assert "gvfx check my_questions.py:make" in written
    again = invoke("init")
    assert again.exit_code == 2 and "exists and is not overwritten" in again.stderr
    assert (folder / "my_questions.py").read_text() == written
    checked = invoke("check", "my_questions.py:make")
    assert (checked.exit_code, checked.output) == (0, "no mistakes found\n")
    assert len(answers("my_questions.py:make")["names"]) == 9
    assert invoke("init", "deep/lake.toml").exit_code == 0
    assert invoke("check", "FrozenLake-v1", "--questions", "deep/lake.toml", "--steps", 4000).output == "no mistakes found\n"
    assert len(answers("FrozenLake-v1", "--questions", "deep/lake.toml")["names"]) == 6
    for name, words in (("a.txt", "ends neither in .py nor in .toml"), ("/proc/x/a.py", "cannot write")):
        refused = invoke("init", name)
        assert refused.exit_code == 2 and words in refused.stderr


def test_two_processes_do_not_share_the_folder_of_checkpoints(folder):
    held = lock(folder / "run" / "seed-0000.claim")
    command = ("evaluate", "pond.py:make", "--steps", 500, "--checkpoint", "run")
    done = invoke(*command)
    assert done.exit_code == 1 and not done.stdout
    assert done.stderr.startswith("gvfx: checkpoint: run is in use by process ") and done.stderr.count("\n") == 1
    held.release()
    assert invoke(*command).exit_code == 0
