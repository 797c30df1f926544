"""A function that was edited is another question: checkpoints, stored runs and saved results are not mixed with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import gymnasium as gym
import numpy as np
import pytest

import gvfx
import gvfx.running.checkpoint as content
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all, stored_result
from gvfx.locks import lock
from gvfx.running.checkpoint import Checkpoints


def asked(share=0.5, name="mine"):
    return [gvfx.GVF(lambda s: [share, 1 - share], gvfx.Reward(), 0.9, name=name)]


class Coin(gym.Env):
    """Pays for one of two actions."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self, pay=1.0):
        self.pay, self.place = pay, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = 1 - self.place
        return self.place, self.pay * action, bool(self.np_random.random() < 0.1), False, {}


def evaluated(folder, share=0.5, pay=1.0, steps=300, **options):
    return gvfx.evaluate(Coin(pay), asked(share), steps=steps, progress=False, checkpoint=folder, **options)


def test_a_checkpoint_of_an_edited_function_is_refused(tmp_path):
    first = evaluated(tmp_path / "run")
    assert np.array_equal(evaluated(tmp_path / "run").values, first.values)
    with pytest.raises(gvfx.StoreError, match="made before the policy of 'mine' changed; delete the folder"):
        evaluated(tmp_path / "run", share=0.4)
    with pytest.raises(gvfx.StoreError, match="the environment changed"):
        evaluated(tmp_path / "run", pay=2.0)


def test_an_unfinished_run_too(tmp_path):
    def stop(seed, steps, error):
        if steps >= 100:
            raise KeyError("stop")

    with pytest.raises(KeyError):
        gvfx.evaluate(Coin(), asked(), steps=300, evaluate_every=50, checkpoint=tmp_path, checkpoint_every=0, progress=stop)
    assert list(tmp_path.glob("*.checkpoint")) and not list(tmp_path.glob("*.claim"))
    with pytest.raises(gvfx.StoreError, match="the policy of 'mine'"):
        evaluated(tmp_path, share=0.4, evaluate_every=50)
    with pytest.warns(UserWarning, match="continues at step"):
        evaluated(tmp_path, evaluate_every=50)


def test_the_same_environment_after_steps_continues(tmp_path):
    env = Coin()
    for _ in range(2):
        gvfx.evaluate(env, asked(), steps=300, progress=False, checkpoint=tmp_path)


def test_a_checkpoint_without_content_goes_on_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save", lambda self, step, arrays: _saved(self, step, arrays))
    first = evaluated(tmp_path)
    with pytest.warns(UserWarning, match="without comparing policies and signals, because an earlier version of gvfx wrote it"):
        assert np.array_equal(evaluated(tmp_path).values, first.values)


def _saved(keeper, step, arrays, save=Checkpoints.save):
    made, keeper.made = keeper.made, None
    save(keeper, step, arrays)
    keeper.made = made


def test_what_cannot_be_compared_is_said(tmp_path, monkeypatch):
    def signal_with(file):
        return lambda s, a, s2: 0.0 if file is None else 1.0

    questions = [gvfx.GVF([0.5, 0.5], signal_with(sys.stdout), 0.9, name="mine")]
    run = lambda: gvfx.evaluate(Coin(), questions, steps=100, progress=False, checkpoint=tmp_path)  # noqa: E731
    run()
    with pytest.warns(UserWarning, match="goes on without comparing the signal of 'mine': an object of"):
        run()


def test_another_python_and_other_versions_are_said():
    before = content.Made({"f": "1"}, (), {"numpy": "1.0"}, "CPython 3.9")
    now = content.Made({"f": "2"}, (), {"numpy": "2.0"})
    assert not before.changed(now) and "CPython 3.9" in before.not_compared(now)
    before = content.Made({"f": "2"}, (), {"numpy": "1.0"})
    assert not before.changed(now) and before.not_compared(now) == "numpy 1.0 (now 2.0)"
    assert content.Made.read(before.text) == before and content.Made.read("{}") is None


def test_a_saved_result_refuses_other_functions(tmp_path):
    path = tmp_path / "r.gvfx"
    gvfx.evaluate(Coin(), asked(), steps=100, progress=False, save=path)
    assert gvfx.load(path, Coin(), asked()).details.made_of == gvfx.load(path).details.made_of
    with pytest.raises(gvfx.InputError, match="the policy of 'mine' is not as in the run"):
        gvfx.load(path, Coin(), asked(0.4))


PART = "def lean(s):\n    return [{}, 0.25, 0.25, {}]\n"


def test_a_stored_run_of_an_edited_part_is_made_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def experiment(*shares):
        (tmp_path / "edited_part.py").write_text(PART.format(*shares))
        sys.modules.pop("edited_part", None)
        import edited_part

        question = gvfx.GVF(edited_part.lean, gvfx.Constant(1.0, at=8), 0.9)
        return Experiment(gvfx.gridworld(3), (question,), gvfx.Uniform(), gvfx.CertaintyEquivalence(), 200, 100)

    store = Store(tmp_path / "results")
    first = experiment(0.25, 0.25)
    assert run_all(store, [(first, 1)]).done == 1 and run_all(store, [(first, 1)]).found == 1
    old = stored_result(store, first, 1).values
    second = experiment(0.05, 0.45)
    assert second.hash == first.hash
    with pytest.raises(gvfx.GvfxError, match="made before edited_part:lean changed"):
        stored_result(store, second, 1)
    with pytest.warns(UserWarning, match="made before edited_part:lean changed; set aside"):
        assert run_all(store, [(second, 1)]).done == 1
    assert not np.array_equal(stored_result(store, second, 1).values, old)


def test_two_runs_on_one_folder(tmp_path):
    held = lock(tmp_path / "seed-0000.claim")
    with pytest.raises(gvfx.StoreError, match=f"is in use by process {os.getpid()} on .*; wait until it has ended"):
        evaluated(tmp_path)
    held.release()
    evaluated(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_killed_run_leaves_its_folder_free(tmp_path):
    code = """
        import sys, time
        from pathlib import Path
        from gvfx.locks import lock
        held = lock(Path(sys.argv[1]) / "seed-0000.claim")
        print("held", flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(gvfx.StoreError, match=f"process {process.pid}"):
            evaluated(tmp_path)
        process.send_signal(signal.SIGKILL)
    evaluated(tmp_path)
    assert not list(tmp_path.glob("*.claim"))
