"""Every tabular setting of the paper as data, with the section it comes from.

`paper["distinct"]` has .world and .questions; the learning rates published for each method are in .rates.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import gvfx
from gvfx.experiments.specification import Experiment
from gvfx.questions.signals import Cumulant
from gvfx_paper.authors import EpisodicExpectedSarsa, RandomPolicies
from gvfx_paper.settings.choices import behaviours_for, checked, checked_method, learners_for

DISCOUNT = 0.99  # Sec. 7.1
PI_1 = gvfx.constant_policy([0.175, 0.175, 0.25, 0.4])  # Eq. 14 (eq:target_policies), actions L, R, U, D
PI_2 = gvfx.constant_policy([0.25, 0.15, 0.25, 0.35])
GREEDY_LEFT = gvfx.constant_policy([0.4, 0.1, 0.4, 0.1])  # Eq. 15 (eq:target_policies_semi_greedy)
GREEDY_RIGHT = gvfx.constant_policy([0.1, 0.4, 0.4, 0.1])
CARDINAL = {  # App. B.3.5 (eq:target_policies_distinct_GVFs)
    "N": gvfx.constant_policy([0.1, 0.1, 0.7, 0.1]),
    "E": gvfx.constant_policy([0.1, 0.7, 0.1, 0.1]),
    "S": gvfx.constant_policy([0.1, 0.1, 0.1, 0.7]),
    "W": gvfx.constant_policy([0.7, 0.1, 0.1, 0.1]),
}
FORTY_GOALS = {1: 50, 24: 69, 45: 70, 130: 80, 206: 65, 287: 31, 303: 78, 378: 85, 384: 92, 399: 100}  # state -> value
LEFT, RIGHT = (0, 0), (0, 19)

Build = Callable[[], tuple[gvfx.MDP, list[gvfx.GVF]]]
PRESETS = ("paper", "authors")  # the paper's text; the authors' code where it differs (docs/presets.md)
RATES = (0.1, 0.25, 0.5, 0.8, 0.9, 0.95)  # App. B.3, "Hyperparameter Tuning"
AVERAGE_EPISODES = 500  # the authors' error is a mean over the estimates of the last 500 episodes

BEHAVIOURS: dict[str, Callable[[float], gvfx.Behaviour]] = {  # name -> behaviour, given the method's learning rate
    **{name: lambda rate, kind=kind: kind() for name, kind in behaviours_for("tables").items()},  # type: ignore[misc]
    "BPS": lambda rate: gvfx.BehaviourPolicySearch(rate=rate),
    **dict.fromkeys(("SR", "SR-boltzmann", "SR-epsilon0"), gvfx.SuccessorRepresentation),  # the last two differ in `authors`
    "SR-greedy": partial(gvfx.SuccessorRepresentation, choice="greedy"),
    **{f"SR-{t}": partial(gvfx.SuccessorRepresentation, temperature=float(t)) for t in (1, 10, 1000)},
}
METHODS = ("BPS", "SR", "Uniform", "RoundRobin", "Mixture", "GVFExplorer")  # the columns of Table 1
_greedy = partial(gvfx.SuccessorRepresentation, choice="first", update="entries", when="episode", floor=1e-3)
_boltzmann = partial(gvfx.SuccessorRepresentation, choice="boltzmann", temperature=1.0, update="entries", when="episode")
AUTHORS: dict[str, Callable[[float], gvfx.Behaviour]] = {  # where the authors' code uses another behaviour
    "GVFExplorer": lambda rate: gvfx.GVFExplorer(smallest_m=1e-4),
    "BPS": lambda rate: gvfx.BehaviourPolicySearch(rate, 1.0, 1e300, 1e-3, 1.0, "ratio"),
    "SR": _greedy,
    "SR-greedy": _greedy,
    "SR-epsilon0": _greedy,
    "SR-boltzmann": _boltzmann,
    **{f"SR-{t}": partial(_boltzmann, temperature=float(t)) for t in (1, 10, 1000)},
    "Uniform": lambda rate: RandomPolicies(),
}
LEARNERS = learners_for("tables")
AUTHORS_LEARNERS: dict[str, tuple[type[gvfx.Learner], dict[str, float]]] = {  # where the authors' code uses another learner
    "ExpectedSarsa": (EpisodicExpectedSarsa, {"smallest_m": 0.0}),
    "ImportanceSampling": (gvfx.ImportanceSampling, {"ratio_low": 1e-3, "ratio_high": 1.0}),
}


class AuthorsSuccessor(NamedTuple):
    """What the authors' code for a setting chooses for SR: where epsilon ends, the initial Q, and options of the behaviour."""

    epsilon: float = 0.1
    initial_q: float = 1.0
    weights: Literal["pairs", "states"] = "pairs"
    per: Literal["policy", "gvf"] = "policy"


@dataclass(frozen=True)
class Setting:
    """One experimental setting: a world, its questions, its length and the published learning rates."""

    name: str
    title: str
    section: str
    build: Build
    steps: int
    rates: Mapping[str, float]  # minimum learning rate alpha_Q per method, Table 2 (tab:hyperparameters)
    rate_m: float = 0.8  # alpha_M of GVFExplorer
    initial_q: float = 1.0
    explorer_q: float = 1.0  # initial Q of GVFExplorer
    initial_m: float = 5.0
    published: Mapping[str, float] = field(default_factory=dict)  # MSE in Table 1 (tab:summary_tabular_perf)
    published_lead: float | None = None  # and its last column: by how many percent GVFExplorer is below the best baseline
    authors_sr: AuthorsSuccessor = AuthorsSuccessor()

    @cached_property
    def _built(self) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
        return self.build()

    @property
    def world(self) -> gvfx.MDP:
        return self._built[0]

    @property
    def questions(self) -> list[gvfx.GVF]:
        return self._built[1]

    def behaviour(self, name: str, rate: float | None = None, preset: str = "paper") -> gvfx.Behaviour:
        """A method's behaviour as the paper runs it: random early on and never below a floor of 0.001, unless it explores
        by itself.  A public behaviour that the paper does not have has its default options."""
        name = checked_method(name, BEHAVIOURS)
        make = AUTHORS.get(name, BEHAVIOURS[name]) if preset == "authors" else BEHAVIOURS[name]
        made = make(rate or self.rate(name))
        if made.explores:
            return made
        if preset == "authors" and isinstance(made, gvfx.SuccessorRepresentation):  # its floor is its own, inside epsilon
            made = replace(made, weights=self.authors_sr.weights, per=self.authors_sr.per)
            last = 0.0 if name == "SR-epsilon0" else self.authors_sr.epsilon
            return gvfx.Epsilon(made, gvfx.Linear(1.0, last, 500), "episode")
        if preset == "authors" and isinstance(made, gvfx.BehaviourPolicySearch):  # which has no floor there
            return gvfx.Epsilon(made, gvfx.Linear(1.0, 0.0, 500), "episode")
        return gvfx.Floor(gvfx.Epsilon(made, gvfx.Linear(1.0, 0.0, 500)))

    def learner(
        self,
        name: str = "ExpectedSarsa",
        rate_q: float | None = None,
        rate_m: float | None = None,
        behaviour: str = "GVFExplorer",
        preset: str = "paper",
    ) -> gvfx.Learner:
        """A learner with this setting's initial tables; rates default to the behaviour's published ones.

        Every public learner can be named: it receives the options that are among its fields.
        """
        name = checked("learner", name, LEARNERS)
        kind, others = AUTHORS_LEARNERS.get(name, (LEARNERS[name], {})) if preset == "authors" else (LEARNERS[name], {})
        options: dict[str, Any] = {
            "rate_q": rate_q or self.rate(behaviour),
            "rate_m": rate_m or self.rate_m,
            "initial_q": self._initial_q(behaviour, preset),
            "initial_m": self.initial_m,
            "forgetting": "auto" if any(isinstance(q.cumulant, gvfx.Drifter) for q in self.questions) else 0.0,
            **others,
        }
        return kind(**{name: options[name] for name in inspect.signature(kind).parameters if name in options})

    def _initial_q(self, behaviour: str, preset: str) -> float:
        if preset == "authors" and behaviour.startswith("SR"):
            return self.authors_sr.initial_q
        return self.explorer_q if behaviour == "GVFExplorer" else self.initial_q

    def rate(self, behaviour: str) -> float:
        """The published learning rate of a method (the explorer's if none is published)."""
        return self.rates.get(behaviour.split("-")[0], self.rates["GVFExplorer"])

    def experiment(
        self,
        behaviour: str,
        preset: str = "paper",
        learner: str | None = None,
        rate_q: float | None = None,
        rate_m: float | None = None,
        steps: int | None = None,
        measurements: int = 100,
        snapshots: int = 0,
    ) -> Experiment:
        """One curve of this setting as data; `snapshots` is the number of equally spaced snapshots to keep."""
        behaviour = checked_method(behaviour, BEHAVIOURS)
        preset = checked("preset", preset, dict.fromkeys(PRESETS))
        steps = self.steps if steps is None else steps
        learns = self.learner(learner or "ExpectedSarsa", rate_q, rate_m, behaviour, preset)
        kept = tuple(steps * k // snapshots for k in range(1, snapshots + 1))
        averaged = AVERAGE_EPISODES if preset == "authors" else 0
        method = self.behaviour(behaviour, rate_q, preset), learns
        every = max(1, steps // measurements)
        return Experiment(self.world, tuple(self.questions), *method, steps, every, kept, averaged)


def _same() -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    world = gvfx.gridworld(20, {"left": LEFT})
    return world, [gvfx.GVF(pi, gvfx.Distractor(100, 5, at="left"), DISCOUNT, name=n) for n, pi in (("pi1", PI_1), ("pi2", PI_2))]


def _distinct(grouping: int = 1) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    world = gvfx.gridworld(20, {"left": LEFT, "right": RIGHT}, grouping=grouping)
    return world, _left_right(PI_1, PI_2)


def _semi_greedy() -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    return _distinct()[0], _left_right(GREEDY_LEFT, GREEDY_RIGHT)


def _left_right(*policies: Any) -> list[gvfx.GVF]:
    signals = gvfx.Distractor(100, 5, at="left"), gvfx.Distractor(50, 5, at="right")
    return [gvfx.GVF(pi, c, DISCOUNT, name=name) for pi, c, name in zip(policies, signals, ("left", "right"), strict=True)]


def _four_rooms(sd: float = 0.5, advance: Literal["step", "visit"] = "step") -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    return _rooms(gvfx.Drifter(sd, 100, at="right", advance=advance), "drifter")


def _rooms(second: Cumulant, name: str) -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    first = gvfx.GVF(PI_1, gvfx.Distractor(100, 2, at="left"), DISCOUNT, name="distractor")
    return gvfx.four_rooms({"left": LEFT, "right": RIGHT}), [first, gvfx.GVF(PI_2, second, DISCOUNT, name=name)]


def _forty() -> tuple[gvfx.MDP, list[gvfx.GVF]]:
    world = gvfx.gridworld(20, {f"goal{s}": divmod(s, 20) for s in FORTY_GOALS})
    return world, [
        gvfx.GVF(pi, gvfx.Constant(value, at=f"goal{state}"), DISCOUNT, name=f"{direction}-{state}")
        for direction, pi in CARDINAL.items()
        for state, value in FORTY_GOALS.items()
    ]


class Settings(Mapping[str, Setting]):
    """The paper's settings by name."""

    def __init__(self, settings: list[Setting]) -> None:
        self._by_name = {s.name: s for s in settings}

    def __getitem__(self, name: str) -> Setting:
        if not isinstance(name, str):
            raise gvfx.InputError(f"setting: {name!r} is not a name; choose from {', '.join(self._by_name)}.")
        return self._by_name[checked("setting", name, self._by_name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


GROUPINGS = (1, 2, 4)
DRIFTS = (0.1, 0.5, 1.0, 2.0)
# (tab:summary_tabular_perf) MSE in the order of METHODS; by how many percent GVFExplorer is below the best baseline
TABLE_1: dict[str, tuple[float | None, ...]] = {
    "same": (26.13, 2.76, 1.22, 1.15, 1.15, 0.24, 79),
    "distinct": (8.2, 4.1, 0.54, 0.47, 0.44, 0.04, 91),
    **dict.fromkeys(("fourrooms", "fourrooms-visit"), (18.57, 1.78, 0.9, 1.28, 1.08, 0.46, 48)),
    "forty": (None, 53.3, 2.66, 2.35, 2.64, 1.66, 29),
}
TABLE_2 = {  # (tab:hyperparameters) minimum learning rates of BPS, SR, the other baselines, and GVFExplorer
    "same": (0.5, 0.25, 0.95, 0.25),
    "distinct": (0.8, 0.5, 0.8, 0.1),
    "semi-greedy": (0.9, 0.8, 0.95, 0.5),
    "fourrooms": (0.8, 0.8, 0.8, 0.5),
    "forty": (0.8, 0.25, 0.8, 0.5),
}


def _setting(name: str, title: str, section: str, build: Build, steps: int, like: str = "", **options: Any) -> Setting:
    """A setting with the published rates of its own name or of the one that it is `like`, and its own published errors."""
    bps, sr, baselines, explorer = TABLE_2[like or name]
    rates = dict(zip(METHODS, (bps, sr, baselines, baselines, baselines, explorer), strict=True))
    *errors, lead = TABLE_1.get(name, (None,))
    published = {method: error for method, error in zip(METHODS, errors, strict=False) if error is not None}
    return Setting(name, title, section, build, steps, rates, published=published, published_lead=lead, **options)


_FORTY: dict[str, Any] = {
    "rate_m": 0.95,
    "explorer_q": 2.0,
    "initial_m": 0.5,
    "authors_sr": AuthorsSuccessor(0.0, 0.0, "states", "gvf"),
}
_VISIT = partial(_four_rooms, advance="visit")  # in the text the walk advances with time; the printed errors fit this one
_ADVANCING = "fourrooms-visit", "FourRooms, the drift advancing on visits", "Sec. 7.1, App. B.3.4", _VISIT
_MAIN = [
    _setting("same", "Two distinct policies, identical cumulant", "Sec. 7.1, App. B.3.1", _same, 2_000_000),
    _setting("distinct", "Two distinct policies, distinct cumulants", "Sec. 7.1, App. B.3.2", _distinct, 2_000_000),
    _setting("semi-greedy", "Semi-greedy policies, distinct cumulants", "App. B.3.2", _semi_greedy, 2_000_000),
    _setting("fourrooms", "FourRooms with a drifting cumulant", "Sec. 7.1, App. B.3.4", _four_rooms, 4_000_000),
    _setting(*_ADVANCING, 4_000_000, "fourrooms"),
    _setting("forty", "Forty GVFs: four policies times ten cumulants", "Sec. 7.1, App. B.3.5", _forty, 2_000_000, **_FORTY),
]
_GROUPED = [(f"distinct-x{k}", f"States grouped by {k}", "App. B.3.3", partial(_distinct, k)) for k in GROUPINGS if k != 1]
_WALKS: tuple[tuple[str, Literal["step", "visit"]], ...] = (("", "step"), ("-visit", "visit"))
_DRIFTING = [
    (f"fourrooms{name}-{sd:g}", f"Drift of {sd:g} per {when}", "App. B.3.4", partial(_four_rooms, sd, when))
    for name, when in _WALKS
    for sd in DRIFTS
    if sd != 0.5
]
_STILL = partial(_rooms, gvfx.Distractor(100, 0.5, at="right"), "second")
_STATIONARY = "fourrooms-stationary", "FourRooms, both cumulants stationary", "ours", _STILL  # for the error theory
_ABLATIONS = [
    *(_setting(*each, 2_000_000, "distinct") for each in _GROUPED),
    *(_setting(*each, 4_000_000, "fourrooms") for each in _DRIFTING),
    _setting(*_STATIONARY, 2_000_000, "fourrooms"),
]
paper = Settings([*_MAIN, *_ABLATIONS])
MAIN = tuple(setting.name for setting in _MAIN)
