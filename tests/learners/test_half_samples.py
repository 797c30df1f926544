"""Error bars of means over observations of which some lie away from the data."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.linear import some_transitions

from gvfx.learners.half_samples import OUTSIDE, outside, start_answers, start_joint, start_means
from gvfx.learners.linear import LinearCertaintyEquivalence


@pytest.fixture(scope="module")
def found():
    """Transitions with twelve inputs, and answers from them."""
    data = some_transitions(600, inputs=12)
    learner = LinearCertaintyEquivalence()
    return data, learner.answers(learner.rows(data, learner.choose(data)))


def pi_at(data):
    return lambda points: np.broadcast_to(data.pi[:1][:, :, data.member], (len(points), data.actions, data.gvfs))


def test_a_few_observations_away_from_the_data_widen_a_mean_by_what_is_possible_there(found):
    data, answers = found
    inside = data.observation[answers.covered(data.observation)][:99]
    policies = pi_at(data)
    value, error = start_answers(*answers.means(inside, policies(inside))).T
    some = np.concatenate([inside, np.full((1, 12), 50.0)])
    own, squares = answers.means(some, policies(some))
    wider = np.sqrt(squares.diagonal())
    assert np.isfinite(error).all() and np.isfinite(wider).all()
    for possible in answers.fit.within:  # the value at the last one may be any of these
        assert (np.abs(own - (99 * value + possible) / 100) <= 2 * wider).all()
    added = answers.outside(some, answers.fit.values(some, policies(some)))
    apart = ~np.eye(len(own), dtype=bool)
    assert (added > 0).all() and (squares >= added[:, None] + added)[apart].all() and np.array_equal(squares, squares.T)


def test_a_mean_over_observations_most_of_which_lie_away_from_the_data_has_no_error_bar(found):
    data, answers = found
    inside = data.observation[answers.covered(data.observation)][:10]
    policies = pi_at(data)
    for away, known in ((10 * OUTSIDE / (1 - OUTSIDE), True), (10 * OUTSIDE / (1 - OUTSIDE) + 1, False)):
        some = np.concatenate([inside, np.full((int(away), 12), 50.0)])
        assert np.isfinite(answers.means(some, policies(some))[1].diagonal()).all() == known


def test_starts_away_from_the_data_are_said(found):
    data, answers = found
    said = outside(answers, data)
    starts = data.observation[data.first]
    assert (said == "") == answers.covered(starts).all()
    far = data.part(slice(None))
    far.observation[np.flatnonzero(far.first)[0]] = 50.0
    assert f"of {len(starts):,} lie away from the features' centres" in outside(answers, far)
    means = start_means(answers, far, pi_at(data))
    assert np.isfinite(start_answers(*means)).all()
    assert np.array_equal(start_joint(*means).errors, np.sqrt(means[1]))
