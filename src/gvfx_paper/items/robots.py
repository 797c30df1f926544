"""Walker and Cheetah: errors of every method, at each target's own points and at the other's, and what changes them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import gvfx
from gvfx.errors import require
from gvfx.experiments.specification import Experiment
from gvfx.running.plan import Plan
from gvfx_paper.items.exhibits import AVERAGE, MUJOCO, Build, Exhibit, Items
from gvfx_paper.items.measures import OURS, lowest, mean_or_only
from gvfx_paper.report import statistics
from gvfx_paper.report.maps import Pictures
from gvfx_paper.report.style import colour
from gvfx_paper.settings import domains
from gvfx_paper.settings.domains import DOMAIN_SETTINGS, HELD, SEEDS, STEPS, MujocoCurve, MujocoSetting
from gvfx_paper.truths.trajectories import MujocoTruth, mujoco_truth
from gvfx_paper.worlds.mujoco import Domain, Lockstep, labelled, render, save_film

ITEMS = Items("mujoco")
DEFAULT = (OURS, "RoundRobin")  # of the answers at every point

# --- Stills and films of what the behaviours do on Walker and Cheetah -----------------------------------------------
# They are simulated when they are made: runs store the weights at the end by which the behaviour acts, not what it did.

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
        notes = [STILLS, b.caption.replace("; mean, band: 95 % interval over seeds", "")]
        for preset, label in EXPLORERS.items():
            curve = MujocoCurve(name, OURS, preset)
            result = b.source.finished(curve)
            if not result.details.extra.keys() & {"actor", "critics"}:
                notes.append(f"{label}: left out, its weights are not in the stored run.")
                continue
            first, last = float(result.error[0, 0]), float(result.error[0, -1])
            shown[label] = found = episode(setting.world, as_learned(curve.experiment, result))
            ends = f"{label}: MSE {statistics.short(first)} at the first measurement and {statistics.short(last)} at the end"
            followed = ", ".join(found.followed)
            notes.append(ends + (f"; its actions at the stills are near those of {followed}." if all(found.followed) else "."))
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


def as_learned(experiment: Experiment, result: gvfx.Result) -> Choice:
    """GVFExplorer of the first seed at the end of its run, by the weights of its actor or of M's critics."""
    require("jax", "mujoco")
    from gvfx_paper.loops.critics_lockstep import AsLearned, CriticsLockstep

    e: Any = experiment
    run = CriticsLockstep(e.world, e.questions, e.behaviour, e.learner, Plan.checked(e.steps, e.evaluate_every, ()))
    actor, critics = (result.details.extra[name][0] if name in result.details.extra else None for name in ("actor", "critics"))
    own = run.names if isinstance(getattr(e.behaviour, "behaviour", None), gvfx.MixtureActor) else ("",)
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


PRESETS = {"paper": "as printed", "stabilised": "as printed, sensibly set", "recommended": "recommended"}
AFTER_FIRST = "mean over training"


@cache
def true_values(setting: str) -> MujocoTruth:
    """The Monte Carlo truth that errors are measured against."""
    s = DOMAIN_SETTINGS[setting]
    return mujoco_truth(s.world, [q.policy for q in s.questions])  # type: ignore[misc]


def noise_floor(setting: str) -> float:
    """What a perfect prediction would score against the Monte Carlo truth, averaged over GVFs."""
    return float(true_values(setting).noise_floor.mean())


CONSTANT, ZERO = "Constant", "Zero"
UNLEARNED = (
    f"{CONSTANT} answers with one number per GVF, the mean of its true values, and {ZERO} with 0: a method above {CONSTANT} has "
    "not learned how high the values are, and is not ranked."
)


@cache
def unlearned(setting: str) -> dict[str, Any]:
    """Answers without learning, in the place of a result of one seed: one constant per GVF, and zero."""
    true = true_values(setting).values.T[None]  # [1, gvf, point]
    answers = {CONSTANT: np.broadcast_to(true.mean(axis=2, keepdims=True), true.shape), ZERO: np.zeros_like(true)}
    names, held = [q.name for q in DOMAIN_SETTINGS[setting].questions], SimpleNamespace(truth=true)
    off = {name: np.full((1, 2), ((values - true) ** 2).mean()) for name, values in answers.items()}
    return {k: SimpleNamespace(values=v, details=held, error=off[k], names=names) for k, v in answers.items()}


def ranked(errors: Mapping[str, np.ndarray]) -> str | None:
    """The method with the lowest mean error [seed], unless that is above the constant's."""
    best = min(errors, key=lambda m: statistics.centre(errors[m]))
    return None if best in (CONSTANT, ZERO) else best


# --- measures --------------------------------------------------------------------------------------------------------


def over_training(r: gvfx.Result) -> np.ndarray:
    """The mean error without the first measurement, which is that of networks that have hardly learned, [seed]."""
    return r.error[:, 1:].mean(axis=1)


def at_the_end(r: gvfx.Result) -> np.ndarray:
    return r.error[:, -1]


def squared(r: gvfx.Result) -> np.ndarray:
    """Squared errors at the end, [seed, gvf, point]."""
    return (r.values - r.details.truth) ** 2


def own(r: gvfx.Result, same: bool = True) -> np.ndarray:
    """The error at the end of each GVF at the points of its own target's trajectories (the first target's come first), averaged
    over GVFs, [seed]; NaN for seeds that diverged.  same: False, at those of the other targets."""
    errors = squared(r)
    if not errors.size:  # all of them
        return np.full(len(errors), np.nan)
    gvfs, points = errors.shape[1:]
    parts = [slice(j * points // gvfs, (j + 1) * points // gvfs) for j in range(gvfs)]
    return np.mean([errors[:, i, parts[j]].mean(axis=1) for i, j in np.ndindex(gvfs, gvfs) if (i == j) is same], axis=0)


cross = partial(own, same=False)
Measures = dict[str, Callable[[gvfx.Result], np.ndarray]]
MEASURES: Measures = {
    AFTER_FIRST: over_training,
    "at the end": at_the_end,
    "at the end, own points": own,
    "at the end, the other target's points": cross,
}


# --- figures and tables ----------------------------------------------------------------------------------------------


def _figure(b: Build) -> list[Exhibit]:
    """Every method on both domains: their errors over training, at the end, at own and at other points."""
    preset = b.item.name.removeprefix("mujoco-")
    methods, compared = domains.FIGURE_METHODS[preset], ("RoundRobin", "Uniform", *[HELD] * (preset == "recommended"))
    results = {name: {m: b.source.result(MujocoCurve(name, m, preset)) for m in methods} for name in DOMAIN_SETTINGS}
    curves = [
        b.curves(
            f"{b.item.name}-{name}",
            f"{DOMAIN_SETTINGS[name].title} ({PRESETS[preset]})",
            next(iter(found.values())).steps,
            [b.series(m, r.error, colour("Mixture" if m == HELD else m), dashed=m == HELD) for m, r in found.items()],
            f"{AVERAGE} (50 state-action points)",
            reference=[
                ("noise of the Monte Carlo truth", noise_floor(name)),
                *((f"{m}, without learning", float(r.error[0, 0])) for m, r in unlearned(name).items()),
            ],
        )
        for name, found in results.items()
    ]
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for name, found in results.items():
        for what, pick in MEASURES.items():
            errors = {m: pick(r) for m, r in (found | unlearned(name)).items()}
            if (lowest := ranked(errors)) is not None:
                best.append((len(rows), 2 + methods.index(lowest)))
            said = []
            for m in compared:
                gain, learned = (
                    statistics.improvement(errors[OURS], errors[m]),
                    ranked({k: errors[k] for k in (OURS, m, CONSTANT)}),
                )
                said.append(f"{gain} %" if learned and not gain.diverged else "-")
            rows.append([name, what, *map(mean_or_only, errors.values()), *said])
    columns = ["domain", "MSE", *methods, CONSTANT, ZERO, *(f"{OURS} below {m}" for m in compared)]
    floors = ", ".join(f"{name} {noise_floor(name):.2g}" for name in DOMAIN_SETTINGS)
    note = (
        f"{statistics.MEANS}; the mean over training leaves out the first measurement. Half of the 50 points lie on each "
        f"target's trajectories. {UNLEARNED} Noise of the truth, which no method can go below: {floors}."
    )
    tables = [b.table(b.item.name, b.item.title, columns, rows, note, best)]
    return [*tables, *([_each_gvf(b, results)] if preset == "recommended" else []), *curves]


for _preset, _words in (("recommended", ""), ("stabilised", "Algorithm 2 "), ("paper", "Algorithm 2 ")):
    _title = f"Walker and Cheetah: average MSE, {_words}{PRESETS[_preset]}"
    ITEMS.add(f"mujoco-{_preset}", "fig:mujoco_env", _title, MUJOCO, domains.FIGURES[_preset], SEEDS)(_figure)


def _each_gvf(b: Build, results: dict[str, dict[str, gvfx.Result]]) -> Exhibit:
    """Where the error at the end sits: by GVF, and how much of it the worst points hold."""
    rows = []
    for name, found in results.items():
        for method, r in (found | unlearned(name)).items():
            off = statistics.finished(r.values - r.details.truth)  # [seed, gvf, point]
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


_CHANGED = "Algorithm 2 as printed: what makes it diverge, one change at a time"


@ITEMS.add("mujoco-interventions", "algo:sac_gvf", _CHANGED, MUJOCO, domains.INTERVENTION_CURVES, domains.INTERVENTION_SEEDS)
def _interventions(b: Build) -> list[Exhibit]:
    """Algorithm 2 as printed with one change at a time."""
    rows = []
    for name in DOMAIN_SETTINGS:
        for change in domains.INTERVENTIONS:
            curve = MujocoCurve(name, OURS, "paper", domains.INTERVENTION_STEPS, change)
            r = b.source.result(curve)
            lost = [b.source.store.divergence(curve.experiment, seed) for seed in r.details.diverged]
            when = ", ".join(f"{found.step:,}" for found in lost if found) or "-"
            acts = statistics.finished(r.details.behaviour)  # [seed, point, action]
            cells = (f"{len(lost)} of {len(r.seeds)}", when, str(statistics.mean(at_the_end(r))))
            rows.append([name, change, *cells, f"{100 * (np.abs(acts) > 0.99).mean():.0f} %" if acts.size else "-"])
        rows += [[name, m, "-", "-", mean_or_only(at_the_end(r)), "-"] for m, r in unlearned(name).items()]
    columns = ["domain", "one change", "diverged", "at step", f"MSE after {domains.INTERVENTION_STEPS:,} steps", "saturated"]
    note = (
        "A run is stopped as diverged when a target of Q is beyond 100 times what the cumulants seen so far allow. Saturated: "
        "components of the actor's middle action beyond 0.99 at the 50 points, at the end, in runs that did not diverge. "
        + UNLEARNED
    )
    return [b.table(b.item.name, b.item.title, columns, rows, note)]


_ANSWERS = [MujocoCurve(name, m) for name in DOMAIN_SETTINGS for m in DEFAULT]


@ITEMS.add("mujoco-points", "ours", "Walker and Cheetah: answers at every point", MUJOCO, _ANSWERS, SEEDS)
def _points(b: Build) -> list[Exhibit]:
    """Answers at every point beside the truth, for the GVF with the larger error on each domain."""
    out: list[Exhibit] = []
    for name in DOMAIN_SETTINGS:
        curves = {m: MujocoCurve(name, m) for m in DEFAULT}
        r, _ = (b.source.finished(curve) for curve in curves.values())
        found = {m: b.source.result(curve) for m, curve in curves.items()}
        i = int(squared(r).mean(axis=(0, 2)).argmax())
        order = np.argsort(r.details.truth[0, i])
        lines = [b.series(m, x.values[:, i][:, order], colour(m)) for m, x in found.items()]
        truth = b.series("truth", found[OURS].details.truth[:, i][:, order], "#000000", dashed=True)
        of_other = sum(int(k // (len(order) // len(r.names)) != i) for k in order[: len(order) // 2])
        note = f"Points in the order of the true value; {of_other} of the lower half lie on the other target's trajectories."
        title = f"{name.capitalize()}: answers about {r.names[i]} at the 50 points, after {STEPS:,} steps"
        x, axis = np.arange(1, len(order) + 1), {"x_label": "point, by its true value"}
        level = [(f"{CONSTANT}, without learning", float(r.details.truth[0, i].mean()))]
        out.append(b.curves(f"{b.item.name}-{name}", title, x, [truth, *lines], "Q", note, reference=level, **axis))
    return out


_SHOWN = [MujocoCurve(name, OURS, preset) for name in DOMAIN_SETTINGS for preset in EXPLORERS]
ITEMS.add("mujoco-stills", "Sec. 7.3", "Walker and Cheetah: what the behaviours do", MUJOCO, _SHOWN, 1)(stills)


def _compare(
    b: Build, named: dict[str, dict[str, gvfx.Result]], first: str, note: str, picks: Measures = MEASURES
) -> list[Exhibit]:
    """A table of runs by domain and name."""
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    for domain, found in named.items():
        errors = {name: [pick(r) for pick in picks.values()] for name, r in (found | unlearned(domain)).items()}
        best += lowest([errors[name] for name in found], (len(rows), 2), of_columns=True)
        rows += [[domain, name, *map(mean_or_only, each)] for name, each in errors.items()]
    return [b.table(b.item.name, b.item.title, ["domain", first, *picks], rows, f"{note} {UNLEARNED}", best)]


_CRITICS = "Cheetah: RoundRobin with other options of the critics"


@ITEMS.add("mujoco-options", "ours", _CRITICS, MUJOCO, domains.OPTION_CURVES, domains.OPTION_SEEDS)
def _options(b: Build) -> list[Exhibit]:
    """RoundRobin on Cheetah with other options of the critics."""
    named = zip(("recommended", *domains.OPTIONS), domains.OPTION_CURVES, strict=True)
    note = "RoundRobin follows one target per episode: it never takes the other target's actions where this one leads."
    return _compare(b, {"cheetah": {name: b.source.result(curve) for name, curve in named}}, "critics", note)


_AHEAD = "Walker and Cheetah: answers that look ahead with learned dynamics"


@ITEMS.add("mujoco-lookahead", "ours", _AHEAD, MUJOCO, domains.LOOKAHEAD_CURVES, domains.LOOKAHEAD_SEEDS)
def _lookaheads(b: Build) -> list[Exhibit]:
    """Answers that look ahead with learned dynamics."""
    steps = {f"{h} steps" if h else "none": h for h in domains.LOOKAHEADS}
    named = {d: {k: b.source.result(MujocoCurve(d, OURS, lookahead=h)) for k, h in steps.items()} for d in DOMAIN_SETTINGS}
    note = f"The recommended method, {STEPS:,} steps. Only answers use the model; the actor begins with other random weights."
    return _compare(b, named, "lookahead", note)


@ITEMS.add("mujoco-longer", "ours", "Cheetah: what more steps buy", MUJOCO, domains.LONGER_CURVES, domains.LONGER_SEEDS)
def _longer(b: Build) -> list[Exhibit]:
    """More steps."""
    lengths = {d: (STEPS, *more) for d, more in domains.LONGER.items()}
    named = {d: {f"{n:,}": b.source.result(MujocoCurve(d, OURS, steps=n)) for n in each} for d, each in lengths.items()}
    picks = {k: pick for k, pick in MEASURES.items() if k != AFTER_FIRST}
    return _compare(b, named, "steps", "The recommended method; every length is a run of its own.", picks)
