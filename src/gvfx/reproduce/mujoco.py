"""Walker and Cheetah: curves with the noise of the truth, tables, and stills of what the behaviours do.

The stills are simulated when they are made: runs store the weights of the behaviour's actor at the end, not what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import numpy as np

from gvfx.behaviours.actor import PAPER
from gvfx.experiments.settings.mujoco import (
    DOMAIN_SETTINGS,
    HELD,
    SEEDS,
    STEPS,
    TRIAL_DOMAIN,
    TRIAL_SEEDS,
    MujocoCurve,
    figure_curves,
    figure_methods,
    trial_curves,
    trial_methods,
)
from gvfx.questions.target_policies import Layers, Target, actor
from gvfx.report import statistics
from gvfx.report.colours import colour
from gvfx.report.page import Pictures
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.measures import OURS
from gvfx.reproduce.sections import MUJOCO
from gvfx.running.result import Result
from gvfx.truths.mujoco import mujoco_truth
from gvfx.worlds.mujoco import Domain, Lockstep
from gvfx.worlds.mujoco_render import render

SHOWN = (10, 60, 110, 160, 210, 260)  # control steps of the stills
Choice = Callable[[np.ndarray, np.random.Generator], np.ndarray]  # actions [1, a] at observations [1, o]


@cache
def noise_floor(setting: str) -> float:
    """What a perfect prediction would score against the Monte Carlo truth, averaged over GVFs."""
    s = DOMAIN_SETTINGS[setting]
    return float(mujoco_truth(s.world, [q.policy for q in s.questions]).noise_floor.mean())  # type: ignore[misc]


def _figure(preset: str) -> Callable[[Build], list[Exhibit]]:
    """Every method on both domains: their errors at the end and over training."""
    methods = figure_methods(preset)

    def make(b: Build) -> list[Exhibit]:
        results = {name: {m: b.result(MujocoCurve(name, m, preset)) for m in methods} for name in DOMAIN_SETTINGS}
        curves = [
            b.curves(
                f"{b.item.name}-{name}",
                f"{DOMAIN_SETTINGS[name].title} ({preset})",
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
            for what, pick in (("mean over training", _over_training), ("at the end", lambda r: r.error[:, -1])):
                errors = {m: pick(r) for m, r in found.items()}
                best.append((len(rows), 2 + int(np.argmin([e.mean() for e in errors.values()]))))
                gain = statistics.improvement(errors[OURS], errors["RoundRobin"])
                rows.append([name, what, *(str(statistics.mean(e)) for e in errors.values()), f"{gain} %"])
        columns = ["domain", "MSE", *methods, "GVFExplorer below RoundRobin"]
        floors = ", ".join(f"{name} {noise_floor(name):.2g}" for name in DOMAIN_SETTINGS)
        note = f"Mean over seeds with a bootstrap 95 % interval. Noise of the truth, which no method can go below: {floors}."
        return [b.table(b.item.name, b.item.title, columns, rows, note, best), *curves]

    return make


def _over_training(r: Result) -> np.ndarray:
    return r.error.mean(axis=1)


def _trials(b: Build) -> list[Exhibit]:
    """Forms of the explorer beside RoundRobin."""
    errors = {m: b.result(MujocoCurve(TRIAL_DOMAIN, m)).error for m in trial_methods()}
    numbers = np.array([(e.mean(), e[:, -1].mean(), e.max(axis=1).mean()) for e in errors.values()])
    rows = [[m, *map(statistics.short, row)] for m, row in zip(errors, numbers.tolist(), strict=True)]
    best = [(int(numbers[:, k].argmin()), 1 + k) for k in (0, 1)]
    note = f"MSE on {TRIAL_DOMAIN} over {STEPS:,} steps; recommended critics. The largest is that of a measurement on the way."
    return [b.table(b.item.name, b.item.title, ["behaviour", "mean over training", "at the end", "largest"], rows, note, best)]


# --- stills ----------------------------------------------------------------------------------------------------------


def _stills(b: Build) -> list[Exhibit]:
    """One episode of each behaviour at the end of learning, first seed."""
    out: list[Exhibit] = []
    for name, setting in DOMAIN_SETTINGS.items():
        targets = [q.policy for q in setting.questions]
        result = b.result(MujocoCurve(name, OURS, "paper"))
        rows = [(who, pictures(setting.world, choice)) for who, choice in behaviours(setting.world, targets, result)]  # type: ignore[arg-type]
        columns = [f"step {t}" for t in SHOWN]
        note = (
            "One episode from the same start. RoundRobin follows one target policy per episode; GVFExplorer is its printed "
            "actor. Episodes are not stored: these are simulated when the figure is made, GVFExplorer's with the stored actor "
            "of the first seed."
        )
        title = f"{name.capitalize()}: what the behaviours do"
        out.append(Pictures(f"{b.item.name}-{name}", title, b.item.label, columns, rows, b.provenance, note))
    return out


def behaviours(domain: Domain, targets: list[Target], result: Result) -> Iterator[tuple[str, Choice]]:
    """Every behaviour by name, as it acts at the end of learning."""

    def follow(target: Target) -> Choice:
        return lambda seen, draws: target.sample(seen, draws)

    for target, task in zip(targets, domain.tasks, strict=True):
        yield f"RoundRobin: {task}", follow(target)
    yield "Mixture", lambda seen, draws: targets[draws.integers(len(targets))].sample(seen, draws)
    yield "Uniform", lambda seen, draws: draws.uniform(-1, 1, (len(seen), domain.action_size))
    if result.actors is not None:
        layers = _layers(domain, result.actors[0])
        yield "GVFExplorer", lambda seen, draws: actor(layers, seen)


def _layers(domain: Domain, weights: np.ndarray, hidden: tuple[int, ...] = PAPER.hidden) -> Layers:
    """The actor's layers from its numbers in one row; of the outputs only the means."""
    sizes = (domain.observation_size, *hidden, 2 * domain.action_size)
    layers, at = [], 0
    for n, m in pairwise(sizes):
        layers.append((weights[at : at + n * m].reshape(n, m), weights[at + n * m : at + n * m + m]))
        at += n * m + m
    w, c = layers[-1]
    return (*layers[:-1], (w[:, : domain.action_size], c[: domain.action_size]))


def pictures(domain: Domain, choice: Choice, seed: int = 0) -> list[np.ndarray]:
    """Stills of one episode at the times SHOWN."""
    draws = np.random.default_rng(seed)
    world = Lockstep(domain, 1)
    seen = world.reset(np.random.default_rng(seed))
    taken = []
    for t in range(SHOWN[-1] + 1):
        if t in SHOWN:
            taken.append(render(domain, world.get_state()[0], 240, 180))
        seen, _ = world.step(np.asarray(choice(seen, draws), float))
    return taken


GROUP = "mujoco"
ITEMS = (
    Item(
        "mujoco-recommended",
        "fig:mujoco_env",
        "Walker and Cheetah: average MSE, recommended",
        lambda tuned: figure_curves("recommended"),
        _figure("recommended"),
        MUJOCO,
        SEEDS,
    ),
    Item(
        "mujoco-paper",
        "fig:mujoco_env",
        "Walker and Cheetah: average MSE, Algorithm 2 as printed",
        lambda tuned: figure_curves("paper"),
        _figure("paper"),
        MUJOCO,
        SEEDS,
    ),
    Item(
        "mujoco-stills",
        "Sec. 7.3",
        "Walker and Cheetah: what the behaviours do",
        lambda tuned: [MujocoCurve(name, OURS, "paper") for name in DOMAIN_SETTINGS],
        _stills,
        MUJOCO,
        SEEDS,
    ),
    Item(
        "mujoco-trials",
        "ours",
        "Cheetah: forms of the explorer",
        lambda tuned: trial_curves(),
        _trials,
        MUJOCO,
        TRIAL_SEEDS,
    ),
)
