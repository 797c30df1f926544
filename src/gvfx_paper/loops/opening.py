"""The backends of the paper's two kinds of world, and their default methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import gvfx
from gvfx.errors import InputError, require
from gvfx.learners.networks.learners import Deep
from gvfx.questions.gvf import GVF, question_names
from gvfx.running.backends import NO_WHERE, RUNS, Run, method_for
from gvfx.running.drive import Backend
from gvfx.running.plan import Method, Options
from gvfx_paper.algorithm2 import CRITICS
from gvfx_paper.loops.linear_compiled import LinearCompiled
from gvfx_paper.truths.lattice import grid_questions
from gvfx_paper.worlds.continuous_grid import ContinuousGrid, ContinuousGridEnv
from gvfx_paper.worlds.mujoco import Domain

GRID = Run("networks", gvfx.GVFExplorer, lambda questions, steps: Deep(), "the continuous grid")
MUJOCO = Run("box_actions", lambda: gvfx.Hold(gvfx.Mixture()), lambda questions, steps: CRITICS["recommended"], "a MuJoCo world")


def open_grid(world: ContinuousGrid, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
    """Linear features if the method is one of them, otherwise the paper's networks."""
    decided = isinstance(method.learner, gvfx.Learner) or not method.allows("networks")
    if method.allows("linear") and decided:
        return LinearCompiled(world, questions, method_for(RUNS["linear"], questions, method, options), options)
    if options.where is not None:
        raise InputError(NO_WHERE)
    behaviour, learner = method_for(GRID, questions, method, options)
    require("jax", "deep")
    from gvfx_paper.loops.network_scanned import NetworkScanned

    return NetworkScanned(world, questions, behaviour, learner, options.plan, options.calibrate)


def stepped_grid(world: ContinuousGrid, questions: Sequence[GVF]) -> tuple[ContinuousGridEnv, list[GVF]]:
    """The grid as an environment, and its questions there."""
    signals = grid_questions(world, questions)[2].tolist()
    named = zip(questions, signals, question_names(questions), strict=True)
    return ContinuousGridEnv(world), [replace(q, cumulant=gvfx.Info("cumulants", index=k), name=name) for q, k, name in named]


def open_domain(world: Domain, questions: Sequence[GVF], method: Method, options: Options) -> Backend:
    """Twin critics in worlds that run in lockstep."""
    if options.where is not None:
        raise InputError(NO_WHERE)
    if options.calibrate:
        raise InputError("calibrate: the critics of a MuJoCo world have the paper's weights; give each question its own weight.")
    behaviour, learner = method_for(MUJOCO, questions, method, options)
    require("jax", "mujoco")
    from gvfx_paper.loops.critics_lockstep import CriticsLockstep

    return CriticsLockstep(world, questions, behaviour, learner, options.plan)
