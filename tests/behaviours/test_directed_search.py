"""Directed search: what it finds, when it gives up, how much memory it takes, and that a run with it repeats."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.driving import driven
from helpers.runs import compiled_run
from helpers.streams import edges, stopped_stream
from helpers.worlds import random_case, small_world, two_questions

import gvfx
from benchmarks.common.worlds import current, lock
from gvfx.behaviours import directed_search as ds
from gvfx.evidence.counts import Empirical
from gvfx.questions.gvf import stack
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan
from gvfx.tensors import pack, read
from gvfx.worlds.conversion import SteppedMDP

DESIGN = gvfx.OptimalDesign()
SURE = gvfx.CertaintyEquivalence()


def acted(world, behaviour, steps, seeds=3):
    """How many states were acted in, on average over seeds."""
    world, questions = world
    return (gvfx.evaluate(world, questions, behaviour, SURE, steps=steps, seeds=seeds).visits.sum(axis=2) > 0).sum(axis=1).mean()


@pytest.mark.parametrize(
    ("world", "steps", "seeds", "ratio"),
    [
        pytest.param(current(30), 3000, 1, 2, id="current"),
        pytest.param(lock(16, 4), 2000, 3, 1.4, id="lock", marks=pytest.mark.full),
    ],
)
def test_far_states_are_found_sooner(world, steps, seeds, ratio):
    """A chain of 30 states against a current, and a lock of 16 digits."""
    found = acted(world, DESIGN, steps, seeds)
    assert found > 0.7 * world[0].live.sum() and found > ratio * acted(world, gvfx.OptimalDesign(search=0.0), steps, seeds)


@pytest.mark.parametrize("behaviour", [gvfx.CharacteristicTime, pytest.param(gvfx.SecondMoment, marks=pytest.mark.full)])
def test_rivals_may_search_too(behaviour):
    world = current(40)
    assert acted(world, behaviour(search=0.8), 3000, 1) > 1.4 * acted(world, behaviour(), 3000, 1)


@pytest.mark.full
@pytest.mark.compiled(2)
def test_evaluation_states_that_cannot_be_reached_are_given_up():
    """A ring of 8 states and one that is reached with a chance of 1e-12: four times the steps, about twice the search."""
    P = np.zeros((9, 2, 9))
    for s in range(8):
        P[s, 0, (s - 1) % 8] = P[s, 1, (s + 1) % 8] = 1 - 1e-12
        P[s, :, 8] = 1e-12
    P[8, :, 8] = 1
    world = gvfx.MDP.from_matrix(P, start=np.eye(9)[0], horizon=50)
    questions = [gvfx.GVF([0.5, 0.5], gvfx.Constant(1.0, at=3), 0.9)]
    effort = []
    for steps in (10_000, 40_000, 160_000):
        spent = []
        stream, _ = stopped_stream(
            world, questions, DESIGN, steps, 0, lambda state, spent=spent: spent.append(state.search.spent.copy())
        )
        assert stream.at.visits[8].sum() == 0 and stream.at.visits[:8].sum(axis=1).all()
        effort.append(sum(spent)[ds.NEW_ROWS])
    assert effort[0] > 0 and effort[1] < 3 * effort[0] and effort[2] < 3 * effort[1] and effort[2] < 0.15 * 160_000


def stays():
    """Nothing leads out of state 0; as an environment, two further states look possible."""
    P = np.repeat(np.eye(3)[:, None], 2, axis=1)
    world = gvfx.MDP.from_matrix(P, start=np.eye(3)[0], horizon=20, live=np.eye(3)[0] > 0)
    reward = np.zeros(world.next.shape)
    reward[0, 1] = 1
    return gvfx.MDP(world.next, world.prob, world.start, world.terminal, 20, world.live, reward=reward)


def ends_at_once():
    """Either action ends the episode."""
    P = np.zeros((2, 2, 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, start=[1, 0], terminal=[False, True])
    return gvfx.MDP(world.next, world.prob, world.start, world.terminal, reward=np.array([[[0.0], [1.0]], [[0.0], [0.0]]]))


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("make", [stays, ends_at_once])
def test_a_start_from_which_nothing_is_reached(make, stepped):
    world = make()
    questions = [gvfx.GVF([0.5, 0.5], gvfx.Reward(), 0.5)]
    result = gvfx.evaluate(SteppedMDP(world) if stepped else world, questions, gvfx.OptimalDesign(first=50), SURE, steps=2000)
    visits = result.visits[0]
    assert visits[0].sum() == 2000 and visits[0].min() > 500 and visits[1:].sum() == 0
    assert result.values[0, 0, 0] == pytest.approx(0.5 if make is ends_at_once else 1.0, abs=0.01)


def test_with_little_room_for_edges_it_still_searches(monkeypatch):
    """Room for 20 of the about 85 transitions of the chain; what finds no room counts as tries that led nowhere."""
    monkeypatch.setattr(ds, "EDGES", 20)
    world, questions = current(30)
    search = stopped_stream(world, questions, DESIGN, 6000, 0)[0].acting.search
    assert search.at[0].edges == len(search.link) == 20 and search.times.sum() < 6000 == search.n.sum()
    for x, a in np.ndindex(search.n.shape):
        assert sum(edges(search, x, a).values()) <= search.n[x, a]


def test_worlds_of_a_hundred_thousand_pairs_fit_into_memory():
    """25,000 states with 4 actions: below 20 MB; however large a world, the edges take at most 12 bytes each."""
    states = 25_000
    following = (np.arange(states)[:, None] + np.array([1, -1, 160, -160])) % states
    world = gvfx.MDP(following[:, :, None], np.ones((states, 4, 1)), np.eye(1, states)[0], np.zeros(states, bool))
    question = gvfx.GVF([0.25] * 4, gvfx.Constant(1.0, at=9), 0.9)
    state = DESIGN.begin(stack([question], world), world)
    size = sum(part.nbytes for part in state.search if isinstance(part, np.ndarray))
    assert size < 20e6
    assert state.search.link.nbytes + state.search.times.nbytes + state.search.following.nbytes <= 12 * ds.EDGES
    assert DESIGN.begin(stack([question], world), world).search.link.size == 800_000 < ds.EDGES
    acting = compiled_run(world, [question], DESIGN, SURE, steps=3000)[1]
    assert acting.search.at[0].rows > 1500  # most tries lead on
    assert sum(part.size for part in gvfx.OptimalDesign(search=0.0).begin(stack([question], world), world).search[:9]) == 0


class Stop(Exception):
    """The run is gone."""


RIVAL = pytest.param(gvfx.CharacteristicTime(first=150, search=0.8), marks=pytest.mark.full)


@pytest.mark.parametrize("behaviour", [gvfx.OptimalDesign(first=150), RIVAL])
def test_resumed_it_gives_the_same_bytes(behaviour, tmp_path):
    world, questions = current(30)

    def backend():
        return open_backend(world, questions, behaviour, SURE, options=Options(Plan.checked(2000, 100, ())))

    def stop(seed, t, error):
        if t == 1100:
            raise Stop

    (whole,) = driven(backend(), 3)
    with pytest.raises(Stop):
        driven(backend(), 3, progress=stop, folder=tmp_path)
    for path in tmp_path.glob("*.checkpoint"):  # of 0.2, which had one array more
        arrays, metadata = read(path)
        (name,) = (name for name in arrays if name.endswith(".search.at"))
        assert arrays[name].shape == (14,)
        path.write_bytes(pack({**arrays, name.replace(".at", ".evaluated"): np.ones(30, bool)}, metadata))
    (part,) = driven(backend(), 3, folder=tmp_path)
    assert all(array.tobytes() == part.arrays()[name].tobytes() for name, array in whole.arrays().items())


def test_retarget_changes_what_is_wanted():
    world = small_world()
    asked, other = (stack([gvfx.GVF(pi, gvfx.Constant(1.0), 0.9)], world) for pi in ([1, 0, 0, 0], [0, 0, 0.5, 0.5]))
    stream, _ = stopped_stream(world, two_questions(), DESIGN, 100, 0)
    state = DESIGN.begin(asked, world)
    assert state.search.wanted.tolist() == [[True, False, False, False]] * 17
    DESIGN.retarget(state, Empirical(world, other, stream.at.evidence))
    assert state.search.wanted.tolist() == [[False, False, True, True]] * 17


def test_a_row_of_several_states_wants_what_any_of_them_wants():
    world = small_world(grouping=2)
    pi = np.tile([1.0, 0, 0, 0], (17, 1))
    pi[5] = [0, 0, 0, 1.0]
    wanted = DESIGN.begin(stack([gvfx.GVF(pi, gvfx.Constant(1.0), 0.9)], world), world).search.wanted
    assert (wanted[:, 0] | (np.bincount(world.feature)[:] == 1)).all() and not wanted[:, 1:3].any()
    assert np.flatnonzero(wanted[:, 3]).tolist() == [world.feature[5]]


@pytest.mark.parametrize("share", [-0.1, 1.0, 2, np.nan])
@pytest.mark.parametrize("behaviour", [gvfx.OptimalDesign, gvfx.CharacteristicTime])
def test_a_share_outside_its_range_is_refused(behaviour, share):
    with pytest.raises(gvfx.InputError, match=r"search\b.*(outside \[0, 1\); give a number within|does not fit; give a number)"):
        behaviour(search=share)


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(gvfx.Epsilon(DESIGN), marks=pytest.mark.full),
        pytest.param(gvfx.Floor(DESIGN, 0.01), marks=pytest.mark.full),
        pytest.param(gvfx.Blend(DESIGN, gvfx.Uniform(), 0.9), marks=pytest.mark.full),
        gvfx.Blend(gvfx.Uniform(), DESIGN, 0.1),
    ],
    ids=["Epsilon", "Floor", "Blend", "second"],
)
def test_wrapped_it_searches_too(wrapped):
    """Without search 7 states are acted in."""
    assert acted(current(30), wrapped, 3000, 2) > 15


@pytest.mark.parametrize(
    "wrap", [lambda inner: inner, lambda inner: gvfx.Floor(inner, 0.001), lambda inner: gvfx.Blend(inner, inner, 0.5)]
)
def test_results_show_the_plan(wrap):
    """Not the action that is due or on the way at the last step, which would have probability 0.98 or more."""
    world, questions = random_case(3, 9, 3)
    plan = list(stopped_stream(world, questions, gvfx.OptimalDesign(first=150), 1000, 0)[1].values())[-1]
    assert plan.min() > 0.05 and plan.max() < 0.95
    shown = gvfx.evaluate(world, questions, wrap(gvfx.OptimalDesign(first=150)), SURE, steps=1000).details.behaviour[0]
    if isinstance(wrap(DESIGN), gvfx.OptimalDesign):
        assert np.array_equal(shown, plan)
    assert shown.max() < 0.97


def test_a_search_begun_again_from_counts_knows_the_same():
    """As cells need it when their rows change: against the search that saw the transitions one by one."""
    world, questions = lock(6)
    stream, _ = stopped_stream(SteppedMDP(world), questions, gvfx.OptimalDesign(first=100), 900, 0)
    whole, model = stream.agent.at.behaviour.search, stream.agent.known
    search = ds.begin_search(0.8, stream.run.tables, stream.run.asked.pi)
    ds.recount(search, model)
    assert np.array_equal(search.n, whole.n) and np.array_equal(search.starts, whole.starts) and whole.starts.sum() > 10
    for x, a in np.ndindex(whole.n.shape):
        assert edges(search, x, a) == edges(whole, x, a)
    now, before = search.at[0], whole.at[0]
    assert [now.edges, now.rows] == [before.edges, before.rows]
    assert set(search.met[: now.rows]) == set(whole.met[: now.rows])
    assert np.array_equal(search.place > 0, whole.place > 0)
    for place, x in enumerate(search.met[: now.rows]):
        assert search.place[x] == place + 1
    assert now.sought == ds.NOTHING and now.next_look == 0
