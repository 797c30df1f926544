"""Cumulants of very different scales: equal weights neglect some questions, calibrated weights count all of them equally."""

from dataclasses import replace

import numpy as np

import gvfx
import gvfx_paper


def compare(world, questions, behaviour, learner, steps, seeds=10):
    """Print each question's error relative to its size, with equal and with calibrated weights."""
    for calibrate in (False, True):
        result = gvfx.evaluate(
            world, questions, behaviour, learner, steps=steps, seeds=seeds, evaluate_every=steps, calibrate=calibrate
        )
        scale = (result.details.truth[0][:, world.live] ** 2).mean(axis=1)  # mean square value of each question
        relative = np.sqrt(result.mse[:, -1].mean(axis=0) / scale)
        print(f"  calibrate={calibrate}")
        for name, share in zip(result.names, relative, strict=True):
            print(f"    {name}: off by {share:.2%} of its size")


print("OptimalDesign, cumulants of 1 and 1,000")
small_world = gvfx.gridworld(8, {"near": (0, 0), "far": (7, 7)}, horizon=100)
questions = [
    gvfx.GVF([0.4, 0.1, 0.4, 0.1], gvfx.Distractor(1, 0.1, at="near"), 0.95, name="small"),
    gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Distractor(1000, 100, at="far"), 0.95, name="large"),
]
compare(small_world, questions, gvfx.OptimalDesign(), gvfx.CertaintyEquivalence(), 20_000)

print("GVFExplorer in the paper's setting `distinct`, the left cumulant times 100")
setting = gvfx_paper.paper["distinct"]
left, right = setting.questions
left = replace(left, cumulant=gvfx.Distractor(10_000, 500, at="left"))
compare(setting.world, [left, right], setting.behaviour("GVFExplorer"), setting.learner(), setting.steps)

costs = gvfx.plan(small_world, questions, 1e-4, calibrate=True)  # a relative error of 1 %, each question in its own units
print(f"1 % takes {costs['optimum'].steps:,.0f} steps at best, {costs['GVFExplorer'].steps:,.0f} with GVFExplorer")
