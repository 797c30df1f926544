"""Two questions about a small map, answered while exploring it; prints predictions beside the truth."""

import gvfx

MAP = """
A....#....
.....#....
..........
.....#....
.....#...B
"""

world = gvfx.gridworld(MAP, slip=0.1, horizon=200)
questions = [
    gvfx.GVF([0.1, 0.4, 0.1, 0.4], gvfx.Distractor(10, 2, at="B"), 0.95, name="drifting to B"),
    gvfx.GVF([0.25, 0.25, 0.25, 0.25], gvfx.Constant(1, at="A"), 0.95, name="wandering to A"),
]
behaviour = gvfx.Floor(gvfx.Epsilon(gvfx.GVFExplorer()))
result = gvfx.evaluate(world, questions, behaviour, gvfx.ExpectedSarsa(rate_q=0.05), steps=500_000, seeds=3)

start = world.where((2, 5))[0]  # the doorway
for name, predicted, true in zip(result.names, result.predict(start), result.details.truth[0, :, start], strict=True):
    print(f"{name:>16}: predicted {predicted:7.4f}   true {true:7.4f}")
print(f"mean squared error {result.error[:, -1].mean():.5f}")
