"""Alternatives to gvfx: logs and rollouts spend the steps that they are given, and errors are summed up."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from benchmarks import alternatives as bench

CARTPOLE, PENDULUM = bench.cases()


@pytest.mark.parametrize("case", [CARTPOLE, PENDULUM], ids=lambda case: case.name)
def test_a_log_has_the_steps_and_says_how_its_episodes_end(case):
    log = bench.log_of(case, 450, 3)
    assert sum(len(e["actions"]) for e in log) == 450 and all(len(e["observations"]) == len(e["actions"]) + 1 for e in log)
    ends = [(bool(e["terminations"][-1]), bool(e["truncations"][-1])) for e in log]
    assert all(over != cut for over, cut in ends) and not any(e["terminations"][:-1].any() for e in log)
    again = bench.log_of(case, 450, 3)
    np.testing.assert_array_equal(log[0]["observations"], again[0]["observations"])


def test_policies_act_as_the_questions_say():
    rng, seen = np.random.default_rng(0), np.array([[0.0, 0.0, 0.1, 0.2]])
    many = np.repeat(seen, 4000, axis=0)
    for name, policy in CARTPOLE.policies.items():
        assert CARTPOLE.draw[name](many, rng).mean() == pytest.approx(policy(seen[0])[1], abs=0.03)
    pushes = PENDULUM.draw["loose"](np.repeat([[1.0, 0.1, 0.2]], 4000, axis=0), rng)
    assert pushes.shape == (4000, 1) and pushes.mean() == pytest.approx(-0.2 - 0.12, abs=0.03)


def test_rollouts_are_complete():
    answers = bench.measured(CARTPOLE, "rollouts", 4000, 0)[""]["answers"]
    assert 10 < answers["careless"] < answers["balancing"] <= 20


@pytest.mark.parametrize("case", [CARTPOLE, PENDULUM], ids=lambda case: case.name)
def test_episodes_that_are_simulated_at_once_are_those_of_the_environment(case):
    """By the mean return of 60 episodes that Gymnasium steps: within 4 standard errors."""
    env, rng = gym.make(case.environment), np.random.default_rng(5)
    name, draw = next(iter(case.draw.items())) if case is PENDULUM else ("careless", case.draw["careless"])
    returns = np.zeros(60)
    for k in range(60):
        observation, over, t = env.reset(seed=k)[0], False, 0
        while not over and t < bench.LONGEST:
            observation, reward, over, _, _ = env.step(draw(observation[None], rng)[0])
            returns[k], t = returns[k] + bench.DISCOUNT**t * reward, t + 1
    known = bench.truth(case, 4000)
    assert abs(returns.mean() - known["values"][name]) < 4 * returns.std() / np.sqrt(60) + 4 * known["errors"][name]


def test_errors_are_root_mean_squares():
    middle, spread = bench.rms([{"a": 1.0, "b": 3.0}, {"a": 3.0, "b": 3.0}], {"a": 1.0, "b": 1.0})
    assert middle == pytest.approx(np.sqrt((2 + 4) / 2)) and spread == pytest.approx(1 / (2 * middle))


def test_a_line_has_errors_and_seconds_by_steps_and_the_figure_shows_each():
    def runs(error, seconds):
        return [{"few": {"answers": {"a": 1 + error}, "seconds": seconds}}] * 2

    line = bench.summed_up("FQE, defaults", "few", {100: runs(0.5, 1.0), 200: runs(0.25, 3.0)}, {"a": 1.0})
    assert line == ("FQE, defaults, few", (100, 200), (0.5, 0.25), (0.0, 0.0), (1.0, 3.0))
    more = line._replace(name="FQE, defaults, more")
    left, right = bench.draw_alternatives({"CartPole": [line, more]}).axes
    assert [list(drawn.get_xdata()) for drawn in left.lines[:1] + right.lines[:1]] == [[100, 200], [1.0, 3.0]]
    assert len({drawn.get_linestyle() for drawn in left.lines if len(drawn.get_xdata()) == 2}) == 2  # dotted: fewer updates
    row = bench.judged(CARTPOLE, [line._replace(name="gvfx, its own steps"), more], "")
    assert row.measured == "1x" and row.case == "CartPole, 200 steps: gvfx over FQE, defaults, more"


def test_without_d3rlpy_the_benchmark_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    monkeypatch.setattr(bench.fqe, "installed", lambda: False)
    study = bench.alternatives([CARTPOLE], True, (1000,), range(700, 702), 4)
    found = study.found()
    install, shown, wrote = study.tables(found)
    assert "make bench-d3rlpy" in install and list(shown.columns[0].cells) == ["rollouts", bench.OWN, bench.IN_TURN, bench.ON_LOG]
    assert str(tmp_path) in wrote and (tmp_path / "bench-alternatives-quick.png").stat().st_size > 10_000
    (row,) = study.bars(found)
    assert row.passed is None and row.case == "CartPole, 1,000 steps: gvfx over rollouts" and study.stays
