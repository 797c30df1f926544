"""A small run of networks on the continuous grid."""

from __future__ import annotations

import numpy as np

import gvfx
from gvfx.learners.networks.learners import Deep
from gvfx.running.plan import Plan
from gvfx_paper.loops import network_scanned as scanned
from gvfx_paper.loops.network_scanned import NetworkScanned
from gvfx_paper.worlds.continuous_grid import paper_grid

POLICIES = np.array([[0.175, 0.175, 0.25, 0.4], [0.25, 0.15, 0.25, 0.35]])
SMALL = Deep(hidden=(16, 16), batch=8, capacity=64, learning_starts=32, target_every=20)
BEHAVIOUR = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer(), gvfx.Linear(1.0, 0.1, 100)))


def engine(learner=SMALL, behaviour=BEHAVIOUR, world=None, steps=10_000):
    return scanned.Engine(
        world or paper_grid(), POLICIES, np.array([0.99, 0.9]), np.array([1.0, 2.0]), np.arange(2), behaviour, learner, steps
    )


def questions():
    return [gvfx.GVF(POLICIES[i], gvfx.Signal(name), 0.99, name=name) for i, name in enumerate(("left", "right"))]


def runner(steps=800, learner=SMALL, behaviour=BEHAVIOUR, calibrate=False):
    return NetworkScanned(paper_grid(), questions(), behaviour, learner, Plan.checked(steps, 80, (400,)), calibrate)
