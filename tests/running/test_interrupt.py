"""Ctrl-C and SIGTERM with real signals: what was learned is on the exception and in the file, and a program ends in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.environments import Sound

import gvfx
from gvfx.running import drive
from gvfx.running.drive import AT_ONCE, Interruption

QUESTIONS = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.9, name="reward")]


@pytest.fixture(autouse=True)
def the_usual_handler():
    """As in a program of its own: test runners ignore Ctrl-C in their worker processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def signal_at(step, number):
    return lambda seed, t, error: os.kill(os.getpid(), number) if (seed, t) == (0, step) else None


@pytest.mark.compiled(6)
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_signal_keeps_what_was_learned(number, word, tmp_path):
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    options = {"steps": 40_000, "evaluate_every": 1000, "save": tmp_path / "answers.gvfx", "checkpoint": tmp_path / "run"}
    with pytest.raises(
        gvfx.Interrupted, match=f"^{word} at step .*; the run is kept in {tmp_path}/run; start it again"
    ) as caught:
        gvfx.evaluate(Sound(), QUESTIONS, **options, progress=signal_at(2000, number))
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    result = caught.value.result
    assert caught.value.exit_code == 128 + number and result.steps.tolist() == [1000, 2000]
    assert 2000 <= result.visits.sum() < 40_000 and f"run {word} at step" in result.summary()
    assert np.array_equal(gvfx.load(tmp_path / "answers.gvfx").values, result.values)
    with pytest.warns(UserWarning, match="continues at step"):
        whole = gvfx.evaluate(Sound(), QUESTIONS, **options)
    assert whole.visits.sum() == 40_000 and len(whole.steps) == 40
    assert np.array_equal(gvfx.load(tmp_path / "answers.gvfx").values, whole.values)


@pytest.mark.compiled(2)
def test_seeds_in_threads_are_interrupted_together(tmp_path):
    world = gvfx.gridworld(5, {"goal": (0, 0)})
    questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Constant(1.0, at="goal"), 0.9)]
    options = {"steps": 40_000_000, "evaluate_every": 100_000, "seeds": 3, "workers": 2}
    with pytest.raises(gvfx.Interrupted) as caught:
        gvfx.evaluate(world, questions, **options, progress=signal_at(200_000, signal.SIGINT))
    result = caught.value.result
    assert len(result.seeds) >= 1 and result.values.shape[0] == len(result.seeds) == len(result.details.seconds)


def test_before_the_first_step_there_is_no_result_and_a_second_signal_ends_at_once():
    class Slow(Sound):
        def step(self, action):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.2 * AT_ONCE)
            os.kill(os.getpid(), signal.SIGINT)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt) as caught:
        gvfx.evaluate(Slow(), QUESTIONS, steps=1000)
    assert not isinstance(caught.value, gvfx.Interrupted)


def test_the_same_signal_to_the_process_and_to_its_group_counts_once(monkeypatch):
    monkeypatch.setattr(drive, "AT_ONCE", 60.0)  # however busy the machine is
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert interruption.signum == signal.SIGINT and not interruption.insisted


def test_an_interruption_inside_another_one_is_that_one():
    with Interruption() as outer, Interruption() as inner, ThreadPoolExecutor(1) as pool:
        assert inner is outer
        assert pool.submit(lambda: Interruption().__enter__()).result() is outer
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_itself_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        result = gvfx.evaluate(Sound(), QUESTIONS, steps=2000, progress=signal_at(1000, signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM] and result.visits.sum() == 2000


SCRIPT = """
import gvfx, os, signal, sys
world = gvfx.gridworld(5, {"goal": (0, 0)})
questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Distractor(1.0, 0.1, at="goal"), 0.9)]
kill = lambda seed, t, error: os.kill(os.getpid(), signal.SIGKILL) if t == 3000 and "kill" in sys.argv else None
import gvfx.running.drive as drive
drive.CHECKPOINT_EVERY = 0.0
result = gvfx.evaluate(world, questions, steps=6000, seeds=2, checkpoint=sys.argv[1], progress=kill)
print(result.values.tobytes().hex()[:400], result.steps.tolist()[-1])
"""


@pytest.mark.full
def test_a_process_that_was_killed_continues_to_the_same_bytes(tmp_path):
    def run(folder, *more):
        return subprocess.run([sys.executable, "-c", SCRIPT, folder, *more], capture_output=True, text=True, cwd=tmp_path)

    whole, killed = run("whole"), run("cut", "kill")
    assert whole.returncode == 0 and killed.returncode == -signal.SIGKILL and not killed.stdout
    assert list((tmp_path / "cut").glob("seed-0000.*.checkpoint"))
    assert run("cut").stdout == whole.stdout
