"""Walker and Cheetah: errors of every method, at each target's own points and at the other's, and what changes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from gvfx.experiments.settings.mujoco import (
    DOMAIN_SETTINGS,
    HELD,
    INTERVENTION_SEEDS,
    INTERVENTION_STEPS,
    INTERVENTIONS,
    LONGER,
    LONGER_SEEDS,
    LOOKAHEAD_SEEDS,
    LOOKAHEADS,
    OPTION_SEEDS,
    OPTIONS,
    PRINTED,
    SEEDS,
    STEPS,
    MujocoCurve,
    figure_curves,
    figure_methods,
    intervention_curves,
    longer_curves,
    lookahead_curves,
    option_curves,
)
from gvfx.report import statistics
from gvfx.report.colours import colour
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.measures import OURS
from gvfx.reproduce.mujoco_stills import EXPLORERS, stills
from gvfx.reproduce.sections import MUJOCO
from gvfx.running.result import Result
from gvfx.truths.mujoco import mujoco_truth

PRESETS = {"paper": "as printed", "stabilised": "as printed, sensibly set", "recommended": "recommended"}
AFTER_FIRST = "mean over training"


@cache
def noise_floor(setting: str) -> float:
    """What a perfect prediction would score against the Monte Carlo truth, averaged over GVFs."""
    s = DOMAIN_SETTINGS[setting]
    return float(mujoco_truth(s.world, [q.policy for q in s.questions]).noise_floor.mean())  # type: ignore[misc]


# --- measures --------------------------------------------------------------------------------------------------------


def over_training(r: Result) -> np.ndarray:
    """The mean error without the first measurement, which is that of networks that have hardly learned, [seed]."""
    return r.error[:, 1:].mean(axis=1)


def at_the_end(r: Result) -> np.ndarray:
    return r.error[:, -1]


def squared(r: Result) -> np.ndarray:
    """Squared errors at the end, [seed, gvf, point]."""
    return (r.values - r.truth) ** 2


def own(r: Result) -> np.ndarray:
    """The error at the end of each GVF at the points of its own target's trajectories, averaged over GVFs, [seed]."""
    return _at_points(r, lambda gvf, target: gvf == target)


def cross(r: Result) -> np.ndarray:
    """The error at the end of each GVF at the points of the other targets' trajectories, averaged over GVFs, [seed]."""
    return _at_points(r, lambda gvf, target: gvf != target)


def _at_points(r: Result, chosen: Callable[[int, int], bool]) -> np.ndarray:
    """The mean error over the chosen pairs of a GVF and a target's points, [seed]; NaN for seeds that diverged."""
    errors = squared(r)
    if not errors.size:  # all of them
        return np.full(len(errors), np.nan)
    pairs = [(i, points) for i in range(errors.shape[1]) for j, points in enumerate(_parts(errors)) if chosen(i, j)]
    return np.mean([errors[:, i, points].mean(axis=1) for i, points in pairs], axis=0)


def _parts(errors: np.ndarray) -> list[slice]:
    """The points of each target's trajectories; the first target's come first."""
    gvfs, points = errors.shape[1:]
    return [slice(i * points // gvfs, (i + 1) * points // gvfs) for i in range(gvfs)]


MEASURES: dict[str, Callable[[Result], np.ndarray]] = {
    AFTER_FIRST: over_training,
    "at the end": at_the_end,
    "at the end, own points": own,
    "at the end, the other target's points": cross,
}


# --- figures and tables ----------------------------------------------------------------------------------------------


def _figure(preset: str) -> Callable[[Build], list[Exhibit]]:
    """Every method on both domains: their errors over training, at the end, at own and at other points."""
    methods = figure_methods(preset)

    def make(b: Build) -> list[Exhibit]:
        results = {name: {m: b.result(MujocoCurve(name, m, preset)) for m in methods} for name in DOMAIN_SETTINGS}
        curves = [
            b.curves(
                f"{b.item.name}-{name}",
                f"{DOMAIN_SETTINGS[name].title} ({PRESETS[preset]})",
                next(iter(found.values())).steps,
                [b.series(m, r.error, colour("Mixture" if m == HELD else m), dashed=m == HELD) for m, r in found.items()],
                f"{AVERAGE} (50 state-action points)",
                reference=[("noise of the Monte Carlo truth", noise_floor(name))],
            )
            for name, found in results.items()
        ]
        rows: list[list[str]] = []
        best: list[tuple[int, int]] = []
        for name, found in results.items():
            for what, pick in MEASURES.items():
                errors = {m: pick(r) for m, r in found.items()}
                best.append((len(rows), 2 + int(np.argmin([statistics.centre(e) for e in errors.values()]))))
                gains = [_percent(statistics.improvement(errors[OURS], errors[m])) for m in _compared(preset)]
                rows.append([name, what, *(str(statistics.mean(e)) for e in errors.values()), *gains])
        columns = ["domain", "MSE", *methods, *(f"{OURS} below {m}" for m in _compared(preset))]
        floors = ", ".join(f"{name} {noise_floor(name):.2g}" for name in DOMAIN_SETTINGS)
        note = (
            "Mean over seeds with a bootstrap 95 % interval; the mean over training leaves out the first measurement. Half of "
            "the 50 points lie on each target's trajectories. Noise of the truth, which no method can go below: " + floors + "."
        )
        tables = [b.table(b.item.name, b.item.title, columns, rows, note, best)]
        return [*tables, *([_each_gvf(b, results)] if preset == "recommended" else []), *curves]

    return make


def _percent(gain: statistics.Estimate) -> str:
    return "-" if gain.diverged else f"{gain} %"


def _compared(preset: str) -> tuple[str, ...]:
    """The methods that GVFExplorer is compared with."""
    return ("RoundRobin", "Uniform", HELD) if preset == "recommended" else ("RoundRobin", "Uniform")


def _each_gvf(b: Build, results: dict[str, dict[str, Result]]) -> Exhibit:
    """Where the error at the end sits: by GVF, and how much of it the worst points hold."""
    rows = []
    for name, found in results.items():
        for method, r in found.items():
            off = statistics.finished(r.values - r.truth)  # [seed, gvf, point]
            if not off.size:
                rows.append([name, method, "all", statistics.DIVERGED, statistics.DIVERGED, "-"])
                continue
            errors = (off**2).mean(axis=0)
            for i, gvf in enumerate(r.names):
                worst = np.sort(errors[i])[::-1]
                bias = off.mean(axis=0)[i] ** 2
                cells = (errors[i].mean(), bias.mean(), worst[:5].sum() / worst.sum() * 100)
                rows.append([name, method, gvf, *map(statistics.short, cells[:2]), f"{cells[2]:.0f} %"])
    columns = ["domain", "method", "GVF", "MSE at the end", "of the mean of the seeds' answers", "share of the five worst points"]
    note = "What the seeds have in common, the error of their mean answer, is bias; the rest varies between seeds."
    return b.table(f"{b.item.name}-gvfs", "Walker and Cheetah: where the error sits", columns, rows, note)


def _points(b: Build) -> list[Exhibit]:
    """Answers at every point beside the truth, for the GVF with the larger error on each domain."""
    out: list[Exhibit] = []
    for name in DOMAIN_SETTINGS:
        curves = {m: MujocoCurve(name, m) for m in (OURS, "RoundRobin")}
        r, _ = (b.finished(curve) for curve in curves.values())
        found = {m: b.result(curve) for m, curve in curves.items()}
        i = int(squared(r).mean(axis=(0, 2)).argmax())
        order = np.argsort(r.truth[0, i])
        lines = [b.series(m, x.values[:, i][:, order], colour(m)) for m, x in found.items()]
        truth = b.series("truth", found[OURS].truth[:, i][:, order], "#000000", dashed=True)
        of_other = sum(int(k // (len(order) // len(r.names)) != i) for k in order[: len(order) // 2])
        note = f"Points in the order of the true value; {of_other} of the lower half lie on the other target's trajectories."
        title = f"{name.capitalize()}: answers about {r.names[i]} at the 50 points, after {STEPS:,} steps"
        x = np.arange(1, len(order) + 1)
        out.append(b.curves(f"{b.item.name}-{name}", title, x, [truth, *lines], "Q", note, x_label="point, by its true value"))
    return out


def _interventions(b: Build) -> list[Exhibit]:
    """Algorithm 2 as printed with one change at a time."""
    rows = []
    for name in DOMAIN_SETTINGS:
        for change in INTERVENTIONS:
            curve = MujocoCurve(name, OURS, "paper", INTERVENTION_STEPS, change)
            r = b.result(curve)
            lost = [b.source.store.divergence(curve.experiment, seed) for seed in r.diverged]
            when = ", ".join(f"{found.step:,}" for found in lost if found) or "-"
            acts = statistics.finished(r.behaviour)  # [seed, point, action]
            cells = (f"{len(lost)} of {len(r.seeds)}", when, str(statistics.mean(at_the_end(r))))
            rows.append([name, change, *cells, f"{100 * (np.abs(acts) > 0.99).mean():.0f} %" if acts.size else "-"])
    columns = ["domain", "one change", "diverged", "at step", f"MSE after {INTERVENTION_STEPS:,} steps", "saturated"]
    note = (
        "A run is stopped as diverged when a target of Q is beyond 100 times what the cumulants seen so far allow. Saturated: "
        "components of the actor's middle action beyond 0.99 at the 50 points, at the end, in runs that did not diverge."
    )
    return [b.table(b.item.name, b.item.title, columns, rows, note)]


def _compare(
    b: Build,
    named: dict[str, dict[str, Result]],
    first: str,
    note: str,
    picks: dict[str, Callable[[Result], np.ndarray]] = MEASURES,
) -> list[Exhibit]:
    """A table of runs by domain and name."""
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for domain, found in named.items():
        errors = {name: [pick(r) for pick in picks.values()] for name, r in found.items()}
        centres = np.array([[statistics.centre(e) for e in each] for each in errors.values()])
        best += [(len(rows) + int(centres[:, k].argmin()), 2 + k) for k in range(len(picks))]
        rows += [[domain, name, *map(_said, each)] for name, each in errors.items()]
    return [b.table(b.item.name, b.item.title, ["domain", first, *picks], rows, note, best)]


def _said(errors: np.ndarray) -> str:
    """The mean over seeds with its interval, or the number itself if there is one seed."""
    return str(statistics.mean(errors)) if len(errors) > 1 else statistics.short(float(errors[0]))


def _options(b: Build) -> list[Exhibit]:
    """RoundRobin on Cheetah with other options of the critics."""
    named = {"recommended": PRINTED, **{change: change for change in OPTIONS}}
    found = {name: b.result(MujocoCurve("cheetah", "RoundRobin", change=change)) for name, change in named.items()}
    note = "RoundRobin follows one target per episode: it never takes the other target's actions where this one leads."
    return _compare(b, {"cheetah": found}, "critics", note)


def _lookaheads(b: Build) -> list[Exhibit]:
    """Answers that look ahead with learned dynamics."""
    steps = {f"{h} steps" if h else "none": h for h in LOOKAHEADS}
    named = {d: {k: b.result(MujocoCurve(d, OURS, lookahead=h)) for k, h in steps.items()} for d in DOMAIN_SETTINGS}
    return _compare(
        b,
        named,
        "lookahead",
        f"The recommended method, {STEPS:,} steps. Only answers use the model; the actor begins with other random weights.",
    )


def _longer(b: Build) -> list[Exhibit]:
    """More steps."""
    named = {d: {f"{n:,}": b.result(MujocoCurve(d, OURS, steps=n)) for n in (STEPS, *LONGER[d])} for d in LONGER}
    picks = {k: pick for k, pick in MEASURES.items() if k != AFTER_FIRST}
    return _compare(b, named, "steps", "The recommended method; every length is a run of its own.", picks)


GROUP = "mujoco"
ITEMS = (
    *(
        Item(
            f"mujoco-{preset}",
            "fig:mujoco_env",
            f"Walker and Cheetah: average MSE, {'Algorithm 2 ' if preset != 'recommended' else ''}{words}",
            lambda tuned, preset=preset: figure_curves(preset),  # type: ignore[misc]
            _figure(preset),
            MUJOCO,
            SEEDS,
        )
        for preset, words in reversed(PRESETS.items())
    ),
    Item(
        "mujoco-interventions",
        "algo:sac_gvf",
        "Algorithm 2 as printed: what makes it diverge, one change at a time",
        lambda tuned: intervention_curves(),
        _interventions,
        MUJOCO,
        INTERVENTION_SEEDS,
    ),
    Item(
        "mujoco-points",
        "ours",
        "Walker and Cheetah: answers at every point",
        lambda tuned: [MujocoCurve(name, m) for name in DOMAIN_SETTINGS for m in (OURS, "RoundRobin")],
        _points,
        MUJOCO,
        SEEDS,
    ),
    Item(
        "mujoco-stills",
        "Sec. 7.3",
        "Walker and Cheetah: what the behaviours do",
        lambda tuned: [MujocoCurve(name, OURS, preset) for name in DOMAIN_SETTINGS for preset in EXPLORERS],
        stills,
        MUJOCO,
        1,
    ),
    Item(
        "mujoco-options",
        "ours",
        "Cheetah: RoundRobin with other options of the critics",
        lambda tuned: option_curves(),
        _options,
        MUJOCO,
        OPTION_SEEDS,
    ),
    Item(
        "mujoco-lookahead",
        "ours",
        "Walker and Cheetah: answers that look ahead with learned dynamics",
        lambda tuned: lookahead_curves(),
        _lookaheads,
        MUJOCO,
        LOOKAHEAD_SEEDS,
    ),
    Item(
        "mujoco-longer",
        "ours",
        "Cheetah: what more steps buy",
        lambda tuned: longer_curves(),
        _longer,
        MUJOCO,
        LONGER_SEEDS,
    ),
)
