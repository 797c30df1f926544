"""Cumulants of scales 1 and 1,000: equal weights neglect the small question, calibrated weights count both equally."""

import numpy as np

import gvfx

world = gvfx.gridworld(8, {"near": (0, 0), "far": (7, 7)}, horizon=100)
questions = [
    gvfx.GVF([0.4, 0.1, 0.4, 0.1], gvfx.Distractor(1, 0.1, at="near"), 0.95, name="small"),
    gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Distractor(1000, 100, at="far"), 0.95, name="large"),
]
STEPS, SEEDS = 20_000, 10

for calibrate in (False, True):
    result = gvfx.evaluate(
        world,
        questions,
        gvfx.OptimalDesign(),
        gvfx.CertaintyEquivalence(),
        steps=STEPS,
        seeds=SEEDS,
        evaluate_every=STEPS,
        calibrate=calibrate,
    )
    scale = (result.truth[0][:, world.live] ** 2).mean(axis=1)  # mean square value of each question
    relative = np.sqrt(result.mse[:, -1].mean(axis=0) / scale)
    print(f"calibrate={calibrate}")
    for name, share in zip(result.names, relative, strict=True):
        print(f"  {name}: off by {share:.2%} of its size")

costs = gvfx.plan(world, questions, 1e-4, calibrate=True)  # a relative error of 1 %, each question in its own units
print(f"1 % takes {costs['optimum'].steps:,.0f} steps at best, {costs['GVFExplorer'].steps:,.0f} with GVFExplorer")
