"""A table and a figure of your own from stored runs, made the way gvfx makes those of the paper."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
from gvfx_paper.items import Item, Source, build
from gvfx_paper.items.exhibits import ABLATIONS
from gvfx_paper.items.output import markdown, write_exhibits
from gvfx_paper.report.style import colour

WORLD = gvfx.gridworld(8, {"left": (0, 0)})
QUESTION = gvfx.GVF(gvfx.constant_policy([0.4, 0.1, 0.4, 0.1]), gvfx.Distractor(100, 5, at="left"), 0.95)


@dataclass(frozen=True)
class Curve:
    """One line of the figure: a behaviour in the grid, learning by certainty equivalence."""

    behaviour: gvfx.Behaviour

    @property
    def experiment(self) -> Experiment:
        return Experiment(WORLD, (QUESTION,), self.behaviour, gvfx.CertaintyEquivalence(), 20_000, 2_000)

    @property
    def name(self) -> str:
        return type(self.behaviour).__name__


CURVES = [Curve(gvfx.Uniform()), Curve(gvfx.Mixture()), Curve(gvfx.OptimalDesign())]


def built(b):
    """The item's exhibits, as data: a figure of the error over time and a table of its end."""
    results = {curve.name: b.source.result(curve) for curve in CURVES}
    lines = [b.series(name, result.error, colour(name)) for name, result in results.items()]
    rows = [[name, f"{result.error[:, -1].mean():.3f}"] for name, result in results.items()]
    steps = next(iter(results.values())).steps
    return [b.curves("own-curves", b.item.title, steps, lines), b.table("own", b.item.title, ["behaviour", "MSE"], rows)]


# In gvfx itself `@ITEMS.add(...)` above the builder makes this record; nothing else has to be changed.
ITEM = Item("own", "ours", "Three behaviours in an 8x8 grid", lambda tuned: CURVES, built, ABLATIONS, seeds=5)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        run_all(store, [(curve.experiment, ITEM.seeds) for curve in CURVES])
        exhibits = build(ITEM, Source(store, None, {}))
        print(markdown(exhibits[1]))
        for path in write_exhibits(Path(folder) / "items", ITEM, exhibits):
            print(path.name, path.stat().st_size > 0)
