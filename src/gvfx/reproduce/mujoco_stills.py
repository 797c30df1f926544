"""Stills and films of what the behaviours do on Walker and Cheetah.

They are simulated when they are made: runs store the weights at the end by which the behaviour acts, not what it did.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gvfx.behaviours.actor import MixtureActor
from gvfx.errors import require
from gvfx.experiments.settings.mujoco import DOMAIN_SETTINGS, MujocoCurve, MujocoSetting
from gvfx.experiments.specification import Experiment
from gvfx.report import statistics
from gvfx.report.page import Pictures
from gvfx.reproduce.base import Build, Exhibit
from gvfx.reproduce.measures import OURS
from gvfx.running.plan import Plan
from gvfx.running.result import Result
from gvfx.worlds.mujoco import Domain, Lockstep
from gvfx.worlds.mujoco_render import labelled, render, save_film

SHOWN = (10, 60, 110, 160, 210, 260)  # control steps of the stills
FILMED = range(0, 240, 10)  # control steps of the films
EXPLORERS = {  # the explorers of the stills by preset; as printed every run diverges
    "recommended": "GVFExplorer: mixture actor",
    "stabilised": "GVFExplorer: as printed, sensibly set",
}
STILLS = (
    "One episode of each behaviour from the same start, the explorers as at the end of the first seed's run. RoundRobin follows "
    "one target policy per episode. Episodes are not stored: these are simulated when the figure is made."
)
Choice = Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, str]]
"""Actions [1, a] at observations [1, o], and the name of the question whose target policy it follows, if it is one's."""


def stills(b: Build) -> list[Exhibit]:
    """One episode of each behaviour at the end of learning, first seed."""
    out: list[Exhibit] = []
    for name, setting in DOMAIN_SETTINGS.items():
        shown = {who: episode(setting.world, choice) for who, choice in fixed_behaviours(setting)}
        notes = [STILLS]
        for preset, label in EXPLORERS.items():
            curve = MujocoCurve(name, OURS, preset)
            result = b.finished(curve)
            if result.actors is None and result.critics is None:
                notes.append(f"{label}: left out, its weights are not in the stored run.")
                continue
            first, last = float(result.error[0, 0]), float(result.error[0, -1])
            shown[label] = found = episode(setting.world, as_learned(curve.experiment, result))
            told = f"{label}: MSE {statistics.short(first)} at the first measurement and {statistics.short(last)} at the end"
            followed = ", ".join(found.followed)
            notes.append(told + (f"; its actions at the stills are near those of {followed}." if all(found.followed) else "."))
        rows = [(who, found.stills) for who, found in shown.items()]
        columns = [f"step {t}" for t in SHOWN]
        title = f"{name.capitalize()}: what the behaviours do"
        key = f"{b.item.name}-{name}"
        out.append(Pictures(key, title, b.item.label, columns, rows, b.provenance, " ".join(notes), film(shown)))
    return out


def film(shown: dict[str, Episode]) -> bytes:
    """The episodes side by side as a GIF."""
    frames = zip(*(found.frames for found in shown.values()), strict=True)
    held = io.BytesIO()
    save_film(held, (labelled(list(zip(shown, images, strict=True)), 3) for images in frames), 0.08)
    return held.getvalue()


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
    own = run.names if isinstance(getattr(e.behaviour, "behaviour", None), MixtureActor) else ("",)
    behaviour, names = AsLearned(run, actor, critics), [*run.names, *own]

    def choose(seen: np.ndarray, draws: np.random.Generator) -> tuple[np.ndarray, str]:
        actions, which = behaviour.act(seen, draws)
        return actions, names[which[0]]

    return choose


class Episode(NamedTuple):
    """What one episode shows."""

    stills: list[np.ndarray]  # at the times SHOWN
    followed: list[str]  # whose target policy was followed there
    frames: list[np.ndarray]  # at the times FILMED


def episode(domain: Domain, choice: Choice, seed: int = 0) -> Episode:
    """One simulated episode."""
    draws = np.random.default_rng(seed)
    world, found = Lockstep(domain, 1), Episode([], [], [])
    seen = world.reset(np.random.default_rng(seed))
    for t in range(max(SHOWN[-1], FILMED[-1]) + 1):
        actions, whose = choice(seen, draws)
        if t in SHOWN:
            found.stills.append(render(domain, world.get_state()[0], 240, 180))
            found.followed.append(whose)
        if t in FILMED:
            found.frames.append(render(domain, world.get_state()[0], 200, 150))
        seen, _ = world.step(np.asarray(actions, float))
    return found
