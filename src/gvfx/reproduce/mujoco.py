"""Walker and Cheetah: curves with the noise of the truth, tables, and stills of what the behaviours do.

The stills are simulated when they are made: runs store the weights at the end by which the behaviour acts, not what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from gvfx.errors import require
from gvfx.experiments.settings.mujoco import (
    DOMAIN_SETTINGS,
    HELD,
    SEEDS,
    STEPS,
    TRIAL_DOMAIN,
    TRIAL_SEEDS,
    MujocoCurve,
    MujocoSetting,
    figure_curves,
    figure_methods,
    trial_curves,
    trial_methods,
)
from gvfx.experiments.specification import Experiment
from gvfx.report import statistics
from gvfx.report.colours import colour
from gvfx.report.page import Pictures
from gvfx.reproduce.base import AVERAGE, Build, Exhibit, Item
from gvfx.reproduce.measures import OURS
from gvfx.reproduce.sections import MUJOCO
from gvfx.running.plan import Plan
from gvfx.running.result import Result
from gvfx.truths.mujoco import mujoco_truth
from gvfx.worlds.mujoco import Domain, Lockstep
from gvfx.worlds.mujoco_render import render

SHOWN = (10, 60, 110, 160, 210, 260)  # control steps of the stills
EXPLORERS = {  # the explorers of the stills by preset
    "recommended": "GVFExplorer, recommended: follows one target at a time, chosen by M",
    "paper": "GVFExplorer, Algorithm 2 as printed",
}
STILLS = (
    "One episode of each behaviour from the same start, the explorers as at the end of the first seed's run. RoundRobin follows "
    "one target policy per episode. Episodes are not stored: these are simulated when the figure is made."
)
Choice = Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, str]]
"""Actions [1, a] at observations [1, o], and the name of the question whose target policy it follows, if it is one's."""


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
                best.append((len(rows), 2 + int(np.argmin([statistics.centre(e) for e in errors.values()]))))
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
    best = [(int(np.where(np.isnan(numbers[:, k]), np.inf, numbers[:, k]).argmin()), 1 + k) for k in (0, 1)]
    note = f"MSE on {TRIAL_DOMAIN} over {STEPS:,} steps; recommended critics. The largest is that of a measurement on the way."
    return [b.table(b.item.name, b.item.title, ["behaviour", "mean over training", "at the end", "largest"], rows, note, best)]


# --- stills ----------------------------------------------------------------------------------------------------------


def _stills(b: Build) -> list[Exhibit]:
    """One episode of each behaviour at the end of learning, first seed."""
    out: list[Exhibit] = []
    for name, setting in DOMAIN_SETTINGS.items():
        rows = [(who, episode(setting.world, choice)[0]) for who, choice in fixed_behaviours(setting)]
        notes = [STILLS]
        for preset, label in EXPLORERS.items():
            curve = MujocoCurve(name, OURS, preset)
            result = b.finished(curve)
            if result.actors is None and result.critics is None:
                notes.append(f"{label}: left out, its weights are not in the stored run.")
                continue
            first, last = float(result.error[0, 0]), float(result.error[0, -1])
            shown, followed = episode(setting.world, as_learned(curve.experiment, result))
            rows.append((label + (" (diverged)" if last > first else ""), shown))
            told = f"{label}: MSE {statistics.short(first)} at the first measurement and {statistics.short(last)} at the end"
            notes.append(told + (f"; its actions at the stills are those of {', '.join(followed)}." if all(followed) else "."))
        columns = [f"step {t}" for t in SHOWN]
        title = f"{name.capitalize()}: what the behaviours do"
        out.append(Pictures(f"{b.item.name}-{name}", title, b.item.label, columns, rows, b.provenance, " ".join(notes)))
    return out


def fixed_behaviours(setting: MujocoSetting) -> Iterator[tuple[str, Choice]]:
    """The behaviours that do not learn, by name."""
    world, questions = setting.world, setting.questions

    def follow(k: int) -> Choice:
        return lambda seen, draws: (questions[k].policy.sample(seen, draws), questions[k].name)  # type: ignore[attr-defined]

    for k, q in enumerate(questions):
        yield f"RoundRobin: {q.name}", follow(k)
    yield "Mixture", lambda seen, draws: follow(int(draws.integers(len(questions))))(seen, draws)
    yield "Uniform", lambda seen, draws: (draws.uniform(-1, 1, (len(seen), world.action_size)), "")


def as_learned(experiment: Experiment, result: Result) -> Choice:
    """GVFExplorer of the first seed at the end of its run, by the weights of its actor or of M's critics."""
    require("jax", "mujoco")
    from gvfx.running.streams.critics_lockstep import AsLearned, CriticsLockstep

    e: Any = experiment
    run = CriticsLockstep(e.world, e.questions, e.behaviour, e.learner, Plan.checked(e.steps, e.evaluate_every, ()))
    actor, critics = (None if weights is None else weights[0] for weights in (result.actors, result.critics))
    behaviour, names = AsLearned(run, actor, critics), [*run.names, ""]

    def choose(seen: np.ndarray, draws: np.random.Generator) -> tuple[np.ndarray, str]:
        actions, which = behaviour.act(seen, draws)
        return actions, names[which[0]]

    return choose


def episode(domain: Domain, choice: Choice, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Stills of one episode at the times SHOWN, and whose target policy was followed there."""
    draws = np.random.default_rng(seed)
    world = Lockstep(domain, 1)
    seen = world.reset(np.random.default_rng(seed))
    taken, followed = [], []
    for t in range(SHOWN[-1] + 1):
        actions, whose = choice(seen, draws)
        if t in SHOWN:
            taken.append(render(domain, world.get_state()[0], 240, 180))
            followed.append(whose)
        seen, _ = world.step(np.asarray(actions, float))
    return taken, followed


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
        lambda tuned: [MujocoCurve(name, OURS, preset) for name in DOMAIN_SETTINGS for preset in EXPLORERS],
        _stills,
        MUJOCO,
        1,
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
