"""Runs of the compiled loop and of the defaults, their evidence, and the evidence of what happens on average."""

from __future__ import annotations

import numpy as np

import gvfx
import gvfx_paper
from gvfx.evidence.counts import Empirical, no_evidence
from gvfx.kernel import Sizes
from gvfx.questions.gvf import stack
from gvfx.rng import seed_streams
from gvfx.running.streams.table_compiled import Monitor, cursor, dynamics, make_loop

STEPS = 3000


def compiled_run(world, questions, behaviour, learner, steps=STEPS, seed=3, variance=None):
    asked = stack(questions, world)
    sizes = Sizes(len(asked.names), world.actions)
    acting, learning = behaviour.begin(asked, world), learner.begin(asked, world)
    acting = behaviour.with_table(acting, learning.q)
    at = cursor(world, asked, seed_streams(seed))
    loop = make_loop(
        sizes,
        world.successors,
        behaviour.rule(sizes),
        learner.rule(sizes, behaviour.needs_variance if variance is None else variance),
        learner.needs_next_action,
        world.features is not None,
        bool(asked.carry.any()),
    )
    w = dynamics(world, asked)
    nothing = np.zeros((1, 1))
    for part in (1, 7, steps - 8):  # stopping and going on changes nothing
        loop(w, acting, learning, at, Monitor(nothing, nothing, np.zeros(1, np.int64), nothing), part)
    return asked, acting, learning, at


def compiled_evidence(world, questions, rates=(), steps=STEPS, behaviour=None, seed=3):
    """The evidence of a run, with a pause in the middle."""
    behaviour, learner = behaviour or gvfx.Mixture(), gvfx.CertaintyEquivalence()
    asked = stack(questions, world)
    sizes = Sizes(len(asked.names), world.actions)
    at = cursor(world, asked, seed_streams(seed), no_evidence(world, asked, True, rates))
    flags = (False, world.features is not None, bool(asked.carry.any()), False, True)
    loop = make_loop(sizes, world.successors, behaviour.rule(sizes), learner.rule(sizes, False), *flags)
    nothing = np.zeros((1, 1))
    watch = Monitor(nothing, nothing, np.zeros(1, np.int64), nothing)
    for part in (7, steps - 7):
        loop(dynamics(world, asked), behaviour.begin(asked, world), learner.begin(asked, world), at, watch, part)
    return asked, at


def optimal_run(name, **options):
    """OptimalDesign with certainty equivalence in a setting of the paper."""
    s = gvfx_paper.paper[name]
    return gvfx.evaluate(s.world, s.questions, gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), **options)


def average_evidence(world, asked):
    """What is known after 3,000 tries of every action that turn out as they do on average."""
    evidence = no_evidence(world, asked, kept=True)
    evidence.counts[:] = np.round(3000 * world.prob * ~world.terminal[:, None, None]).reshape(evidence.counts.shape)
    paid = np.flatnonzero(evidence.row.ravel() >= 0)
    evidence.sums[:] = evidence.counts.ravel()[paid, None] * asked.mean[asked.pays.ravel()[paid]]
    return Empirical(world, asked, evidence)
