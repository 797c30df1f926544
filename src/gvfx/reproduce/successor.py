"""The SR baseline: what it is depends on the choice of actions, which the text and the authors' launchers give differently."""

from __future__ import annotations

from gvfx.experiments.settings.tabular import AVERAGE_EPISODES, paper
from gvfx.report import statistics
from gvfx.reproduce.base import Build, Exhibit, Item
from gvfx.reproduce.curves import ABLATION_SEEDS, Curve
from gvfx.reproduce.measures import spare_series
from gvfx.reproduce.sections import ABLATIONS

SETTINGS = ("same", "distinct", "semi-greedy")
TEMPERATURES = {"SR-1": 1, "SR-10": 10, "SR": 100, "SR-1000": 1000}
CHOICES = {"SR": "Boltzmann", "SR-greedy": "greedy"}
AUTHORS_SETTINGS = ("same", "distinct", "semi-greedy", "fourrooms-visit", "forty")
AUTHORS = {"SR": "SR, as launched", "SR-epsilon0": "SR, epsilon to 0", "SR-boltzmann": "SR, Boltzmann"}


def _choices(b: Build) -> list[Exhibit]:
    """Boltzmann against greedy, by the text's algorithm: curves and errors at the end."""
    figures: list[Exhibit] = []
    rows = []
    for setting in SETTINGS[:2]:
        results = {name: b.result(Curve(setting, m)) for m, name in CHOICES.items()}
        steps = results["greedy"].steps
        figures.append(b.curves(f"successor-{setting}", f"{b.item.title}: {setting}", steps, spare_series(b, results)))
        finals = {name: r.error[:, -1] for name, r in results.items()}
        gain = statistics.improvement(finals["Boltzmann"], finals["greedy"])
        cells = [str(statistics.mean(e)) for e in finals.values()]
        printed = f"{paper[setting].published['SR']:g}"
        rows.append([setting, *cells, statistics.DIVERGED if gain.diverged else f"{gain} %", printed])
    columns = ["setting", *(f"SR, {name}" for name in CHOICES.values()), "Boltzmann below greedy", "paper, as printed"]
    note = (
        f"MSE at {int(steps[-1]):,} steps, mean over seeds with a bootstrap 95 % interval, at the published learning rates "
        f"(preset paper); the temperature is {TEMPERATURES['SR']}."
    )
    return [b.table("successor", b.item.title, columns, rows, note), *figures]


def _as_authors(setting: str, method: str) -> Curve:
    """A variant in the preset `authors`; where epsilon falls to 0 as launched, that variant is SR itself."""
    launched = method == "SR-epsilon0" and paper[setting].authors_sr.epsilon == 0
    return Curve(setting, "SR" if launched else method, "authors")


def _authors(b: Build) -> list[Exhibit]:
    """The authors' SR as their launchers run it, with epsilon falling to 0, and by a Boltzmann policy as their text says."""
    rows = []
    for setting in AUTHORS_SETTINGS:
        printed = paper[setting].published.get("SR")
        cells = []
        for method in AUTHORS:
            final = statistics.mean(b.result(_as_authors(setting, method)).error[:, -1])
            cells += [str(final), "-" if printed is None or final.diverged else f"{final.value / printed:.2g}"]
        rows.append([setting, "-" if printed is None else f"{printed:g}", *cells])
    columns = ["setting", "paper, as printed", *(head for name in AUTHORS.values() for head in (name, f"{name}: times printed"))]
    note = (
        f"MSE at the end (averaged over {AVERAGE_EPISODES} episodes), mean over seeds with a bootstrap 95 % interval, and how "
        "many times the printed error it is; preset authors. As launched: the first of the best actions, no probability below "
        "0.001, epsilon falling to 0.1 (with forty GVFs to 0, so that the second column has the same runs there). "
        "Boltzmann: temperature 1."
    )
    return [b.table("successor-authors", b.item.title, columns, rows, note)]


def _temperature(b: Build) -> list[Exhibit]:
    rows = [
        [setting, *(str(statistics.mean(b.result(Curve(setting, m)).error[:, -1])) for m in TEMPERATURES)] for setting in SETTINGS
    ]
    columns = ["setting", *(f"temperature {t}" for t in TEMPERATURES.values())]
    return [b.table("successor-temperature", b.item.title, columns, rows, "MSE at the end, at the published learning rates.")]


GROUP = "tabular"
ITEMS = (
    Item(
        "successor",
        "App. B.1 (3)",
        "SR, Boltzmann against greedy",
        lambda tuned: [Curve(s, m) for s in SETTINGS[:2] for m in CHOICES],
        _choices,
        ABLATIONS,
    ),
    Item(
        "successor-authors",
        "App. B.1 (3)",
        "SR as the authors' code runs it",
        lambda tuned: [_as_authors(s, m) for s in AUTHORS_SETTINGS for m in AUTHORS],
        _authors,
        ABLATIONS,
    ),
    Item(
        "successor-temperature",
        "App. B.1 (3)",
        "SR: how much depends on the temperature",
        lambda tuned: [Curve(s, m) for s in SETTINGS for m in TEMPERATURES],
        _temperature,
        ABLATIONS,
        ABLATION_SEEDS,
    ),
)
