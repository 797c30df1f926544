"""Whole episodes of the target policies in a run, and what they make of the values at the start."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium
import numpy as np

import gvfx
from gvfx.running.whole_episodes import FURTHER, WholeEpisodes, longest

BOX = gymnasium.spaces.Box(-10, 10, (2,), np.float32)


class Drift(gymnasium.Env):
    """A point on a line that actions push by 0.1 with noise, and a number without meaning; ends beyond 1, if it ends."""

    observation_space, action_space = BOX, gymnasium.spaces.Discrete(2)

    def __init__(self, ends: bool = True, hidden: bool = False, paid: bool = True) -> None:
        self.ends, self.hidden, self.paid = ends, hidden, paid
        self.seeds: list[int | None] = []
        self.taken: list[int] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.x, self.speed = float(self.np_random.normal(scale=0.2)), float(self.np_random.choice([-0.2, 0.2]))
        return self.seen(), {}

    def seen(self):
        return np.array([self.x, self.np_random.normal()], np.float32)

    def step(self, action):
        self.taken.append(action)
        self.x += 0.2 * action - 0.1 + 0.05 * float(self.np_random.normal()) + self.hidden * self.speed
        return self.seen(), self.x * self.paid, bool(self.ends and abs(self.x) > 1), False, {}


def ask(discount: float = 0.9) -> list[gvfx.GVF]:
    right = gvfx.deterministic_policy(lambda o: 1 if o[0] < 0.5 else 0)
    return [
        gvfx.GVF(right, gvfx.Reward(), discount, name="right"),
        gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), discount, name="any"),
    ]


def run(env: gymnasium.Env, steps: int = 1500, discount: float = 0.9, **options: object) -> gvfx.Result:
    options = {"where": "start", "progress": False, "evaluate_every": steps, **options}
    return gvfx.evaluate(env, ask(discount), steps=steps, **options)


def test_policies_take_turns_with_the_same_seeds_and_equal_steps():
    env = Drift()
    result = run(env)
    resets = 1500 // FURTHER
    assert env.seeds[0] is not None and env.seeds[1:resets] == [None] * (resets - 1)  # further resets continue one seed
    seeds = env.seeds[resets:]
    assert None not in seeds and seeds[0] == seeds[1] and max(map(seeds.count, seeds)) == 2
    assert "whole episodes" in result.details.experiment["behaviour"]
    value = result.value()
    assert result.intervals("start").tolist() == [[v.low, v.high] for v in value.values()]
    ranked = {r.question: (r.value, r.low, r.high) for r in result.compare().ranking}
    assert all(np.allclose(ranked[name], (v.value, v.low, v.high)) for name, v in value.items())


def test_half_of_the_steps_are_the_behaviours_without_where():
    result = run(Drift(), where=None)
    assert "half of the steps OptimalDesign" in result.details.experiment["behaviour"]
    assert np.isfinite(result.value()["right"].half)


def test_episodes_without_an_end_are_cut_where_little_follows():
    env = Drift(ends=False)
    run(env, 1000)
    many = len([s for s in env.seeds if s is not None])
    assert abs(many - 1000 / longest(0.9)) <= 3


def test_a_discount_of_1_without_an_end_has_no_interval():
    result = run(Drift(ends=False), 400, discount=1.0)
    assert not np.isfinite([v.half for v in result.value().values()]).any()


def test_what_was_never_paid_has_no_interval():
    assert not np.isfinite([v.half for v in run(Drift(paid=False), 500).value().values()]).any()


def test_a_hidden_speed_is_noticed_and_intervals_elsewhere_are_withdrawn():
    result = run(Drift(ends=False, hidden=True), 3000)
    assert "gvfx.history(env)" in str(result.details.experiment["observation"]) and "gvfx.history" in result.summary()
    assert np.isfinite([v.half for v in result.value().values()]).all()
    assert np.isinf(result.intervals(np.array([0.0, 0.0]))).all()
    assert "observation" not in run(Drift(ends=False), 3000).details.experiment


def test_vector_environments_and_few_steps():
    envs = gymnasium.vector.SyncVectorEnv([Drift, Drift, Drift])
    assert np.isfinite([v.half for v in run(envs).value().values()]).all()
    assert np.isnan([v.truth for v in run(Drift(), 5).value().values()]).all()


def test_a_run_continues_from_what_it_kept():
    plan, targets = SimpleNamespace(steps=1000), SimpleNamespace(member=np.array([0, 1]))
    backend, discounts = SimpleNamespace(targets=targets, plan=plan, share=1.0, frozen=False, cut_at=0.01), np.array([0.9, 0.9])
    whole = WholeEpisodes(backend, discounts, 3)
    whole.done, whole.total = [(0, 0, 0, 7), (1, 0, 1, 9), (0, 1, 2, 5)], 25
    whole.schedule.episodes[:] = 3, 1
    again = WholeEpisodes(backend, discounts, 3)
    again.restore(whole.state())
    assert again.done == whole.done and again.followed().steps.tolist() == [7, 9, 5]
    assert again.schedule.steps.tolist() == [12, 9] and again.total == 25
    again.next_reset()
    assert again.coming == (1, 1)
