"""What was never seen: the discovery curve, missing mass and chance of the unseen against plain loops."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from helpers.runs import compiled_evidence
from helpers.worlds import chain, half_in_the_top_row, small_world, two_questions

import gvfx
from benchmarks.common.worlds import corridor, current, traps
from gvfx.evidence import unseen
from gvfx.evidence.counts import Empirical
from gvfx.evidence.unseen import Unseen, discovery
from gvfx.worlds.conversion import SteppedMDP


def plain_curve(outcomes, tries):
    """h at `tries`; outcomes: a dictionary (pair, state) -> count, starts as pair -1."""
    totals, arrivals = {}, {}
    for (pair, state), c in outcomes.items():
        totals[pair] = totals.get(pair, 0) + c * (pair >= 0)
        arrivals[state] = arrivals.get(state, 0) + c
    h, least = [], np.inf
    for j in tries:
        teachers = [p for p, n in totals.items() if n > j and p >= 0]
        total = 1 / (j + 1)
        for (pair, state), c in outcomes.items():
            if pair in teachers:
                n = totals[pair]
                total += comb(n - c, j) / comb(n, j) * c / (n - j) * (1 - j / n) ** (arrivals[state] - c)
        least = min(least, total / (len(teachers) + 1))
        h.append(least)
    return h


def test_the_discovery_curve_equals_plain_sums():
    rng = np.random.default_rng(0)
    seen = {(int(p), int(s)): int(rng.integers(1, 30)) for p, s in rng.integers(0, 9, (25, 2))} | {(-1, 0): 4}
    mine = {key: c for key, c in seen.items() if key[0] >= 0}
    pair, state = np.array(list(mine)).T
    c = np.array(list(mine.values()), float)
    arrivals = {s: sum(n for (_, there), n in seen.items() if there == s) for s in state}
    others = np.array([arrivals[s] for s in state]) - c
    tries, h = discovery(pair, c, np.bincount(pair, c), others)
    assert tries[0] == 0 and (np.diff(tries) > 0).all() and (np.diff(h) <= 0).all() and h[0] > 4 * h[-1]
    np.testing.assert_allclose(h, plain_curve(seen, tries.tolist()), rtol=1e-9)


def test_a_pair_teaches_what_its_thinned_tries_would_have_shown():
    """Two outcomes seen 2 and 1 times, nobody else there: after one of the three tries, the next one is new with 2/3 * 1/2 +
    1/3 * 1; by hand over all orders."""
    orders = list(itertools.permutations("aab"))
    new = np.mean([order[1] != order[0] for order in orders])
    _, h = discovery(np.zeros(2, int), np.array([2.0, 1.0]), np.array([3.0]), np.zeros(2))
    assert h[1] == pytest.approx((new + 1 / 2) / 2)


def evidence_of(steps, questions=None):
    world, questions = small_world(), questions or two_questions()
    asked, at = compiled_evidence(world, questions, steps=steps)
    return Empirical(world, asked, at.evidence)


def plain_chance(data, mass, i):
    """u of question i by repeated substitution."""
    world, asked = data.world, data.asked
    u = np.zeros(world.states)
    for _ in range(250):
        last, u = u, np.zeros(world.states)
        for s, a in np.argwhere(~world.terminal[:, None] & np.ones(world.actions, bool)):
            n = data.counts[s, a]
            g = [asked.gamma[((s * world.actions + a) * world.successors + k) * asked.gamma_stride, i] for k in range(len(n))]
            mean = n @ np.array(g) / n.sum() if n.sum() else asked.gamma[:, i].max()
            onward = sum(n[k] / n.sum() * g[k] * last[world.next[s, a, k]] for k in np.flatnonzero(n))
            u[s] += asked.pi[s * asked.pi_stride, a, i] * (mean * mass[s, a] + (1 - mass[s, a]) * onward)
        u[world.terminal] = 0
    return u


@pytest.mark.parametrize("steps", [60, 2000])
def test_the_chance_of_the_unseen_solves_its_equation(steps):
    data = evidence_of(steps, two_questions(half_in_the_top_row))
    found = Unseen(data)
    untried = (data.visits == 0) & ~data.world.terminal[:, None]
    assert (found.mass[untried] == 1).all() and untried.any() == (steps == 60)
    assert (found.mass[data.world.terminal] == 0).all()
    for i in range(2):
        np.testing.assert_allclose(found.chance[i], plain_chance(data, found.mass, i), atol=1e-8)
    assert (found.chance[:, data.world.live].max() > 0.1) == (steps == 60)


def test_without_a_state_the_chance_is_larger_and_solves_its_equation_too():
    data = without(evidence_of(2000, two_questions(half_in_the_top_row)), 7)
    found = Unseen(data)
    assert 0 < found.mass[data.world.live].min() < found.mass.max() < 1
    for i in range(2):
        np.testing.assert_allclose(found.chance[i], plain_chance(data, found.mass, i), atol=1e-8)


def without(data, *states):
    """The same data if `states` had never been reached."""
    found = data.evidence.found.copy()
    found[list(states)] = 0
    return Empirical(data.world, data.asked, data.evidence._replace(found=found))


@pytest.mark.parametrize(("steps", "state"), [(60, 5), (4000, 5)])
def test_the_state_found_last_is_known_least(steps, state):
    data = without(evidence_of(steps), 3)
    fresh = data.evidence._replace(found=np.where(np.arange(17) == state, steps, data.evidence.found))
    old = data.evidence._replace(found=np.where(np.arange(17) == state, 1, data.evidence.found))
    world = replace(data.world, live=data.world.live & (data.evidence.found > 0))
    moved, found = (Unseen(Empirical(world, data.asked, e)) for e in (fresh, old))
    n = data.visits[state]
    assert moved.newest == state != found.newest and not moved.complete
    floor = np.where(n > 0, unseen.NEWEST * 0.7**n, 1.0)
    np.testing.assert_allclose(moved.mass[state], np.maximum(floor, found.mass[state]))
    assert (moved.mass[state] > found.mass[state]).any() == (steps == 60)
    assert moved.finding and moved.open
    assert found.finding or found.open == (data.visits[found.newest].min() < unseen.SETTLED)


def test_nothing_is_left_to_find_once_every_state_was_reached():
    data = evidence_of(4000)
    found = Unseen(data)
    assert found.complete and found.newest is None and not found.open
    assert data.visits[data.world.live].min() > 0 and not found.mass.any() and not found.chance.any()
    assert Unseen(without(data, 3)).mass[data.world.live].min() > 0


def test_a_log_may_be_of_a_larger_world():
    """The same counts as a run and as a log: a run knows how many states its world has, a log does not."""
    world, questions = current(6)
    data = gvfx.evaluate(SteppedMDP(world), questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=3000).details.models[0]
    told = np.repeat(np.argwhere(data.counts), data.counts[data.counts > 0], axis=0)
    log = gvfx.Log(told[:, 0], told[:, 1], data.world.next[tuple(told.T)], np.zeros(len(told), bool), reward=np.ones(len(told)))
    found = Unseen(gvfx.evaluate_log(log, questions).details.models[0])
    assert Unseen(data).complete and not found.complete and found.mass[:6].min() > 0


def test_an_action_that_never_left_may_be_like_the_others():
    """State 2 holds: action 0 left it in 3 of 120 tries, action 1 in none of 30; in state 4 action 1 runs into a wall."""
    world, questions = traps(12)
    asked, at = compiled_evidence(world, questions, steps=0)
    counts = np.zeros_like(at.evidence.counts).reshape(12, 2, -1)
    for s, a, there, c in ((2, 0, 2, 117), (2, 0, 1, 3), (2, 1, 2, 30), (4, 0, 3, 25), (4, 0, 4, 5), (4, 1, 4, 2)):
        counts[s, a, world.next[s, a].tolist().index(there)] = c
    data = Empirical(world, asked, at.evidence._replace(counts=counts.reshape(24, -1)))
    found = Unseen(data).holding
    q = 3 / 120
    alike = 9 * (1 - q) ** 30
    assert found[2, 1] == pytest.approx(q * alike / (alike + 1)) and found[2, 1] > 0.02 and found[2, 0] == 0
    assert found[4, 1] == 0 and not found[[0, 1, 3]].any()


def test_a_small_chance_of_something_large_is_at_stake():
    """u = 0.01 is below the threshold; but if the best state is worth 50 times the answer, half of it may be missing."""
    data = without(evidence_of(4000), 3)
    found = Unseen(data)
    vars(found).update(chance=np.full(found.chance.shape, 0.01), open=False)
    size, half = np.abs(data.values), np.full(data.values.shape, 0.001)
    assert np.array_equal(found.stake, np.broadcast_to(0.01 * size.max(axis=1, keepdims=True), size.shape))
    expected = 0.01 * size.max(axis=1, keepdims=True) > 0.3 * (size + half)
    none, sides = np.zeros(size.shape, dtype=bool), np.repeat(half[..., None], 2, axis=-1) / 1.96
    bound = found.added(sides, none)
    assert np.array_equal((bound > 0).any(axis=-1), expected) and expected.any() and not expected.all()
    paid = data.means[data.seen.row]
    for i, v in enumerate(data.values):  # what unseen states may be worth, above and below 0
        worth = [max(-v.min(), -paid[:, i].min(), 0), max(v.max(), paid[:, i].max(), 0)]
        np.testing.assert_allclose(bound[i], expected[i][:, None] * 0.01 * np.array(worth) / 1.96)
    assert not found.added(np.full(sides.shape, size.max()), none).any()
    assert np.isinf(found.added(sides, ~none)).all()


def test_terminal_observations_count_as_reached():
    """A corridor whose end was reached has no state left to find; the end is not its newest state."""
    world, questions = corridor(5)
    data = gvfx.evaluate(SteppedMDP(world), questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=2000).details.models[0]
    found = Unseen(data)
    assert data.evidence.found[5] > data.evidence.found[:5].max() and found.complete
    assert found.entered[:5].all() and not found.entered[5:].any()
    assert Unseen(without(data, 5)).newest == int(data.evidence.found[:5].argmax())


def test_states_that_were_never_reached_and_traps_raise_the_missing_mass():
    world, questions = current(20, 0.4, 0.05)
    asked, at = compiled_evidence(world, questions, steps=200, behaviour=gvfx.Uniform())
    data = Empirical(world, asked, at.evidence)
    found = Unseen(data)
    assert found.unreached > 0
    assert (found.mass >= 1 / (data.visits + 2)).all()
    world, questions = traps(24, 0.02)
    asked, at = compiled_evidence(world, questions, steps=40, behaviour=gvfx.Uniform())
    found = Unseen(Empirical(world, asked, at.evidence))
    stuck = np.flatnonzero(found.trapping)
    left = (found.data.counts * (world.next != np.arange(24)[:, None, None])).sum(axis=(1, 2))
    assert stuck.tolist() == np.flatnonzero((left == 0) & (found.data.visits.sum(axis=1) > 0)).tolist() and stuck.size
    total = found.data.visits[stuck].sum(axis=1)
    assert (found.mass[stuck] >= 1 / (total + 2)[:, None]).all()


@pytest.mark.parametrize("steps", [500, 3000])
def test_first_arrivals_are_known_to_both_loops_and_to_logs(steps):
    """The compiled loop and the stepped one, each against the order of a log of the same stream."""
    world, questions = current(6)
    told = []

    class Told(SteppedMDP):
        def step(self, action):
            before = self.at
            out = super().step(action)
            told.append((before, action, out[0], out[1], out[2]))
            return out

    result = gvfx.evaluate(Told(world), questions, gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=steps)
    found = result.details.models[0].evidence.found
    first = {}
    for t, (s, _, s_next, _, _) in enumerate(told[:steps]):
        first.setdefault(s, t + 1)
        first.setdefault(s_next, t + 2)
    assert {s: int(t) for s, t in enumerate(found) if t} == first
    s, a, s_next, reward, ended = (np.array(column) for column in zip(*told[:steps], strict=True))
    log = gvfx.Log(s, a, s_next, ended, reward=reward, states=6, actions=2)
    assert np.array_equal(gvfx.evaluate_log(log, questions).details.models[0].evidence.found, found)
    asked, at = compiled_evidence(world, questions, steps=steps, behaviour=gvfx.Uniform())
    assert at.evidence.found[0] == 1 and (at.evidence.found <= steps + 1).all()
    assert np.array_equal(at.evidence.found > 0, (at.visits.sum(axis=1) > 0) | (np.arange(6) == at.at[1]))


def test_a_question_that_was_never_paid_is_not_answered():
    """Two steps of a chain pay 1 each; the second question is paid nowhere."""
    world, (question,) = chain()
    nothing = gvfx.GVF([1.0], gvfx.Constant(0.0), 0.5, name="nothing")
    result = gvfx.evaluate(world, [question, nothing], gvfx.Uniform(), gvfx.CertaintyEquivalence(), steps=2000)
    assert np.isfinite(result.intervals(0)[0]).all() and np.isinf(result.intervals(0)[1]).all()


@pytest.mark.full
def test_a_chain_against_a_current_is_not_answered_early():
    """In such a Gymnasium chain of 20 states runs used to stop after 100 to 266 steps, with 3 to 6 states seen."""
    world, questions = current(20, 0.4, 0.05)
    for seed in range(2):
        with pytest.warns(UserWarning, match="ended before their error was known"):
            result = gvfx.evaluate(SteppedMDP(world), questions, steps=3000, seed=seed, until=gvfx.error_below(0.01))
        assert result.stopped[0] == 3000
        with pytest.warns(UserWarning, match="never"):
            behaviour = gvfx.OptimalDesign(search=0.0)
            result = gvfx.evaluate(SteppedMDP(world), questions, behaviour, steps=3000, seed=seed, until=gvfx.error_below(0.01))
        assert result.stopped[0] == 3000 and np.isinf(result.intervals(0)).all()
