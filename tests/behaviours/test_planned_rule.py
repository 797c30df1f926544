"""The compiled search and the rule that follows plans against plain Python, step for step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from helpers import reference
from helpers.environments import Veiled
from helpers.reference_search import NEW_ROWS, RETRY, RULES, UNTRIED, PlainPlanned
from helpers.streams import edges, stopped_stream
from helpers.worlds import random_case, small_world, two_questions

import gvfx
from benchmarks.common.worlds import current, lock, traps
from benchmarks.rules import EVERYTHING, SEARCH, Without
from gvfx.behaviours import directed_search as ds
from gvfx.questions.gvf import stack
from gvfx.rng import BEHAVIOUR
from gvfx.schedules import Fixed
from gvfx.worlds.conversion import SteppedMDP


def absorbing():
    """Six states, any of which one action leaves for a state that is never left again until the episode is cut."""
    rng = np.random.default_rng(1)
    P = np.zeros((7, 3, 7))
    P[:6, :2, :6] = rng.dirichlet(np.full(6, 0.3), (6, 2))
    P[:6, 2] = 0.5 * np.eye(7)[:6] + 0.5 * np.eye(7)[6]
    P[6, :, 6] = 1
    return gvfx.MDP.from_matrix(P, start=np.eye(7)[0], horizon=30), [gvfx.GVF([0.2, 0.4, 0.4], gvfx.Constant(1.0), 0.9)]


def one_policy_only():
    """A grid in which two of the four actions are never taken by the target policies."""
    return small_world(), [gvfx.GVF([0.5, 0.0, 0.5, 0.0], gvfx.Constant(1.0, at="left"), 0.9)]


CASES = {
    "current": lambda: current(12),
    "random": lambda: random_case(3, 9, 3),
    "absorbing": absorbing,
    "traps": lambda: traps(12),
    "lock": lambda: lock(8),
    "groups": lambda: (small_world(grouping=2), two_questions()),
    "grid": lambda: (small_world(), two_questions()),
    "one policy": one_policy_only,
}


def assert_equal_states(state, plain):
    """Every array of the compiled search, and the visits since the last plan."""
    search, expected = state.search, plain.search
    at = search.at[0]
    kinds = (None, NEW_ROWS, UNTRIED, RETRY)
    for x, a in np.ndindex(search.n.shape):
        assert search.n[x, a] == expected.n[x, a]
        assert state.since[x, a] == plain.since[x, a]
        assert edges(search, x, a) == expected.arrivals.get((x, a), {})
    assert search.met[: at.rows].tolist() == expected.met
    assert search.starts.tolist() == [expected.starts[x] for x in range(len(search.starts))]
    assert search.spent.tolist() == [expected.spent[kind] for kind in kinds[1:]]
    assert search.tries.tolist() == [expected.tries[level] for level in range(ds.LEVELS)]
    assert search.finds.tolist() == [expected.finds[level] for level in range(ds.LEVELS)]
    assert kinds[at.sought + 1] == expected.sought
    assert [at.next_look, at.plan] == [expected.next_look, expected.planned]
    assert [a if a >= 0 else None for a in search.way] == [expected.way.get(x) for x in range(len(search.way))]
    np.testing.assert_allclose(search.cost, [expected.cost.get(x, 0.0) for x in range(len(search.cost))], rtol=1e-9)


def plain_run(world, questions, behaviour, plans, steps, seed, tracked=True, rules=RULES):
    """The plain behaviour after the same run, and its visits."""
    asked = stack(questions, world)
    plain = PlainPlanned(world, asked.pi, behaviour.search, behaviour.random, plans, tracked, rules)
    q = np.zeros((world.rows, world.actions, len(questions)))
    return plain, reference.run(world, asked, plain, (Fixed(0.1), Fixed(0.1), q, q.copy()), steps, seed)[2]


@pytest.mark.parametrize("seed", [0, pytest.param(7, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", CASES)
def test_the_compiled_search_equals_plain_python(name, seed):
    world, questions = CASES[name]()
    behaviour = gvfx.OptimalDesign(first=150)
    for steps in (90, 1300):  # before the first plan and after several
        stream, plans = stopped_stream(world, questions, behaviour, steps, seed)
        plain, visits = plain_run(world, questions, behaviour, plans, steps, seed)
        assert np.array_equal(stream.at.visits, visits)
        assert_equal_states(stream.agent.acting, plain)


@pytest.mark.parametrize("rule", [rule for rule in SEARCH if "search for" not in rule and rule != "retries"])
def test_without_a_rule_it_equals_plain_python_without_it(rule):
    """As `python -m benchmarks rules` measures it."""
    world, questions = current(12)
    stream, plans = stopped_stream(world, questions, Without(first=150, switched_off=rule), 1000, 1)
    plain, visits = plain_run(world, questions, gvfx.OptimalDesign(), plans, 1000, 1, rules=SEARCH[rule](RULES))
    assert np.array_equal(stream.at.visits, visits)
    assert_equal_states(stream.agent.acting, plain)


@pytest.mark.parametrize(("rule", "kind"), [("search for new states", 0), ("search for untried pairs", 1), ("retries", 2)])
def test_a_kind_of_pairs_that_is_not_sought(rule, kind):
    world, questions = current(12)
    spent = {}
    for off in (rule, EVERYTHING):
        spent[off] = []
        stopped_stream(
            world,
            questions,
            Without(first=150, switched_off=off),
            1000,
            1,
            lambda state, to=spent[off]: to.append(state.search.spent[kind]),
        )
    assert sum(spent[rule]) == 0 < sum(spent[EVERYTHING])


@pytest.mark.parametrize("options", [{"search": 0.0}, {"random": 0.0}, {"random": 0.5, "search": 0.3}])
def test_other_shares(options):
    world, questions = current(12)
    behaviour = gvfx.OptimalDesign(first=150, **options)
    stream, plans = stopped_stream(world, questions, behaviour, 1000, 1)
    assert np.array_equal(stream.at.visits, plain_run(world, questions, behaviour, plans, 1000, 1)[1]) and len(plans) == 3


@pytest.mark.parametrize("search", [0.0, 0.8])
def test_a_rival_draws_its_actions_from_its_plan_and_may_search(search):
    """Without search its actions are drawn from the plan alone, as they were before there was one."""
    world, questions = current(12)
    behaviour = gvfx.CharacteristicTime(first=150, growth=2.0, search=search)
    stream, plans = stopped_stream(world, questions, behaviour, 1000, 1)
    assert stream.agent.acting.since.size == 0 and len(plans) == 3
    plain, visits = plain_run(world, questions, behaviour, plans, 1000, 1, tracked=False)
    assert np.array_equal(stream.at.visits, visits)
    assert plain.search.n.total() == (1000 if search else 0)


class Told(gym.Wrapper):
    """An environment whose transitions are written down."""

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.log = getattr(self, "log", [])
        self.before = int(observation)
        return observation, info

    def step(self, action):
        out = self.env.step(action)
        self.log.append((self.before, int(action), int(out[0]), bool(out[2]), bool(out[2] or out[3])))
        self.before = int(out[0])
        return out


@pytest.mark.parametrize(
    "make", [lambda: SteppedMDP(current(10)[0]), lambda: Veiled(gym.make("FrozenLake-v1"))], ids=["current", "FrozenLake"]
)
def test_the_search_in_an_environment_equals_plain_python(make):
    env = Told(make())
    questions = [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.9)]
    behaviour, steps = gvfx.OptimalDesign(first=150), 1200
    stream, plans = stopped_stream(env, questions, behaviour, steps, 5)
    plain = PlainPlanned(stream.run.tables, stream.run.asked.pi, behaviour.search, behaviour.random, plans)
    draws, step = reference.Draws(5), reference.Step()
    for t, (s, a, s_next, terminated, ended) in enumerate(env.log[:steps]):
        mu = plain.probabilities(t, s, s, stream.run.asked.pi[s * stream.run.asked.pi_stride], None)
        assert a == int(np.searchsorted(np.cumsum(mu)[:-1], draws.uniform(BEHAVIOUR), side="right")), t
        step.x, step.a, step.x_next, step.alive = s, a, s_next, 0.0 if terminated else 1.0
        plain.observe(t, step)
        if ended:
            plain.episode_end()
    assert len(env.log) == steps
    assert_equal_states(stream.agent.at.behaviour, plain)
