"""Every tabular setting of the paper as data, with the section it comes from.

`paper["distinct"]` has .world and .questions; the learning rates published for each method are in .rates.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.explorer import GVFExplorer
from gvfx.behaviours.fixed import RandomPolicies
from gvfx.behaviours.search import BehaviourPolicySearch
from gvfx.behaviours.successor import SuccessorRepresentation
from gvfx.behaviours.wrappers import Epsilon, Floor
from gvfx.errors import InputError
from gvfx.experiments.settings.choices import behaviours_for, checked, checked_method, learners_for
from gvfx.experiments.specification import Experiment
from gvfx.learners.base import Learner
from gvfx.learners.episodic import EpisodicExpectedSarsa
from gvfx.learners.tabular import ImportanceSampling
from gvfx.questions.cumulants import Constant, Distractor, Drifter
from gvfx.questions.gvf import GVF
from gvfx.questions.policies import constant_policy
from gvfx.schedules import Linear
from gvfx.worlds.gridworld import four_rooms, gridworld
from gvfx.worlds.mdp import MDP

DISCOUNT = 0.99  # Sec. 7.1
PI_1 = constant_policy([0.175, 0.175, 0.25, 0.4])  # Eq. 14 (eq:target_policies), actions L, R, U, D
PI_2 = constant_policy([0.25, 0.15, 0.25, 0.35])
GREEDY_LEFT = constant_policy([0.4, 0.1, 0.4, 0.1])  # Eq. 15 (eq:target_policies_semi_greedy)
GREEDY_RIGHT = constant_policy([0.1, 0.4, 0.4, 0.1])
CARDINAL = {  # App. B.3.5 (eq:target_policies_distinct_GVFs)
    "N": constant_policy([0.1, 0.1, 0.7, 0.1]),
    "E": constant_policy([0.1, 0.7, 0.1, 0.1]),
    "S": constant_policy([0.1, 0.1, 0.1, 0.7]),
    "W": constant_policy([0.7, 0.1, 0.1, 0.1]),
}
FORTY_GOALS = {1: 50, 24: 69, 45: 70, 130: 80, 206: 65, 287: 31, 303: 78, 378: 85, 384: 92, 399: 100}  # state -> value
LEFT, RIGHT = (0, 0), (0, 19)

PRESETS = ("paper", "authors")  # the paper's text; the authors' code where it differs (docs/presets.md)
RATES = (0.1, 0.25, 0.5, 0.8, 0.9, 0.95)  # App. B.3, "Hyperparameter Tuning"
AVERAGE_EPISODES = 500  # the authors' error is a mean over the estimates of the last 500 episodes


def _with_defaults(kind: type[Behaviour]) -> Callable[[float], Behaviour]:
    return lambda rate: kind()


BEHAVIOURS: dict[str, Callable[[float], Behaviour]] = {  # name -> behaviour, given the method's learning rate
    **{name: _with_defaults(kind) for name, kind in behaviours_for("tables").items()},
    "BPS": lambda rate: BehaviourPolicySearch(rate=rate),
    "SR": lambda rate: SuccessorRepresentation(rate=rate),
    "SR-boltzmann": lambda rate: SuccessorRepresentation(rate=rate),  # what SR is in `paper`, not in `authors`
    "SR-epsilon0": lambda rate: SuccessorRepresentation(rate=rate),  # likewise
    "SR-greedy": lambda rate: SuccessorRepresentation(rate=rate, choice="greedy"),
    "SR-1": lambda rate: SuccessorRepresentation(rate=rate, temperature=1.0),
    "SR-10": lambda rate: SuccessorRepresentation(rate=rate, temperature=10.0),
    "SR-1000": lambda rate: SuccessorRepresentation(rate=rate, temperature=1000.0),
}
METHODS = ("BPS", "SR", "Uniform", "RoundRobin", "Mixture", "GVFExplorer")  # the columns of Table 1
_greedy = partial(SuccessorRepresentation, choice="first", update="entries", when="episode", floor=1e-3)
_boltzmann = partial(SuccessorRepresentation, choice="boltzmann", temperature=1.0, update="entries", when="episode")
AUTHORS: dict[str, Callable[[float], Behaviour]] = {  # where the authors' code uses another behaviour
    "GVFExplorer": lambda rate: GVFExplorer(smallest_m=1e-4),
    "BPS": lambda rate: BehaviourPolicySearch(rate, 1.0, 1e300, 1e-3, 1.0, "ratio"),
    "SR": _greedy,
    "SR-greedy": _greedy,
    "SR-epsilon0": _greedy,
    "SR-boltzmann": _boltzmann,
    **{f"SR-{t}": partial(_boltzmann, temperature=float(t)) for t in (1, 10, 1000)},
    "Uniform": lambda rate: RandomPolicies(),
}
LEARNERS = learners_for("tables")
AUTHORS_LEARNERS: dict[str, tuple[type[Learner], dict[str, float]]] = {  # where the authors' code uses another learner
    "ExpectedSarsa": (EpisodicExpectedSarsa, {"smallest_m": 0.0}),
    "ImportanceSampling": (ImportanceSampling, {"ratio_low": 1e-3, "ratio_high": 1.0}),
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
    build: Callable[[], tuple[MDP, list[GVF]]]
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
    def _built(self) -> tuple[MDP, list[GVF]]:
        return self.build()

    @property
    def world(self) -> MDP:
        return self._built[0]

    @property
    def questions(self) -> list[GVF]:
        return self._built[1]

    def behaviour(self, name: str, rate: float | None = None, preset: str = "paper") -> Behaviour:
        """A method's behaviour as the paper runs it: random early on and never below a floor of 0.001, unless it explores
        by itself.  A public behaviour that the paper does not have has its default options."""
        name = checked_method(name, BEHAVIOURS)
        make = AUTHORS.get(name, BEHAVIOURS[name]) if preset == "authors" else BEHAVIOURS[name]
        made = make(rate or self.rate(name))
        if made.explores:
            return made
        if preset == "authors" and isinstance(made, SuccessorRepresentation):  # its floor is its own, inside epsilon
            made = replace(made, weights=self.authors_sr.weights, per=self.authors_sr.per)
            last = 0.0 if name == "SR-epsilon0" else self.authors_sr.epsilon
            return Epsilon(made, Linear(1.0, last, 500), "episode")
        if preset == "authors" and isinstance(made, BehaviourPolicySearch):  # which has no floor there
            return Epsilon(made, Linear(1.0, 0.0, 500), "episode")
        return Floor(Epsilon(made, Linear(1.0, 0.0, 500)))

    def learner(
        self,
        name: str = "ExpectedSarsa",
        rate_q: float | None = None,
        rate_m: float | None = None,
        behaviour: str = "GVFExplorer",
        preset: str = "paper",
    ) -> Learner:
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
            "forgetting": "auto" if any(isinstance(q.cumulant, Drifter) for q in self.questions) else 0.0,
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
        return Experiment(
            world=self.world,
            questions=tuple(self.questions),
            behaviour=self.behaviour(behaviour, rate_q, preset),
            learner=self.learner(learner or "ExpectedSarsa", rate_q, rate_m, behaviour, preset),
            steps=steps,
            evaluate_every=max(1, steps // measurements),
            snapshots=tuple(steps * k // snapshots for k in range(1, snapshots + 1)),
            average_episodes=AVERAGE_EPISODES if preset == "authors" else 0,
        )


def _same() -> tuple[MDP, list[GVF]]:
    world = gridworld(20, {"left": LEFT})
    return world, [GVF(pi, Distractor(100, 5, at="left"), DISCOUNT, name=n) for n, pi in (("pi1", PI_1), ("pi2", PI_2))]


def _distinct(grouping: int = 1) -> tuple[MDP, list[GVF]]:
    world = gridworld(20, {"left": LEFT, "right": RIGHT}, grouping=grouping)
    return world, _left_right(PI_1, PI_2)


def _semi_greedy() -> tuple[MDP, list[GVF]]:
    return _distinct()[0], _left_right(GREEDY_LEFT, GREEDY_RIGHT)


def _left_right(first: object, second: object) -> list[GVF]:
    return [
        GVF(first, Distractor(100, 5, at="left"), DISCOUNT, name="left"),  # type: ignore[arg-type]
        GVF(second, Distractor(50, 5, at="right"), DISCOUNT, name="right"),  # type: ignore[arg-type]
    ]


def _four_rooms(sd: float = 0.5, advance: Literal["step", "visit"] = "step") -> tuple[MDP, list[GVF]]:
    return _rooms(GVF(PI_2, Drifter(sd, 100, at="right", advance=advance), DISCOUNT, name="drifter"))


def _stationary_rooms() -> tuple[MDP, list[GVF]]:
    return _rooms(GVF(PI_2, Distractor(100, 0.5, at="right"), DISCOUNT, name="second"))


def _rooms(second: GVF) -> tuple[MDP, list[GVF]]:
    return four_rooms({"left": LEFT, "right": RIGHT}), [
        GVF(PI_1, Distractor(100, 2, at="left"), DISCOUNT, name="distractor"),
        second,
    ]


def _forty() -> tuple[MDP, list[GVF]]:
    world = gridworld(20, {f"goal{s}": divmod(s, 20) for s in FORTY_GOALS})
    return world, [
        GVF(pi, Constant(value, at=f"goal{state}"), DISCOUNT, name=f"{direction}-{state}")
        for direction, pi in CARDINAL.items()
        for state, value in FORTY_GOALS.items()
    ]


class Settings(Mapping[str, Setting]):
    """The paper's settings by name."""

    def __init__(self, settings: list[Setting]) -> None:
        self._by_name = {s.name: s for s in settings}

    def __getitem__(self, name: str) -> Setting:
        if not isinstance(name, str):
            raise InputError(f"setting: {name!r} is not a name; choose from {', '.join(self._by_name)}.")
        return self._by_name[checked("setting", name, self._by_name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _rates(baselines: float, **others: float) -> dict[str, float]:
    return {"RoundRobin": baselines, "Mixture": baselines, "Uniform": baselines, **others}


def _published(*row: float | None) -> dict[str, float]:
    return {method: value for method, value in zip(METHODS, row, strict=True) if value is not None}


DISTINCT_RATES = _rates(0.8, GVFExplorer=0.1, SR=0.5, BPS=0.8)
FOUR_ROOMS_RATES = _rates(0.8, GVFExplorer=0.5, SR=0.8, BPS=0.8)
FOUR_ROOMS_PUBLISHED = _published(18.57, 1.78, 0.9, 1.28, 1.08, 0.46)
GROUPINGS = (1, 2, 4)
DRIFTS = (0.1, 0.5, 1.0, 2.0)

_MAIN = [
    Setting(
        "same",
        "Two distinct policies, identical cumulant",
        "Sec. 7.1, App. B.3.1",
        _same,
        2_000_000,
        _rates(0.95, GVFExplorer=0.25, SR=0.25, BPS=0.5),
        published=_published(26.13, 2.76, 1.22, 1.15, 1.15, 0.24),
        published_lead=79,
    ),
    Setting(
        "distinct",
        "Two distinct policies, distinct cumulants",
        "Sec. 7.1, App. B.3.2",
        _distinct,
        2_000_000,
        DISTINCT_RATES,
        published=_published(8.2, 4.1, 0.54, 0.47, 0.44, 0.04),
        published_lead=91,
    ),
    Setting(
        "semi-greedy",
        "Semi-greedy policies, distinct cumulants",
        "App. B.3.2",
        _semi_greedy,
        2_000_000,
        _rates(0.95, GVFExplorer=0.5, SR=0.8, BPS=0.9),
    ),
    Setting(
        "fourrooms",
        "FourRooms with a drifting cumulant",
        "Sec. 7.1, App. B.3.4",
        _four_rooms,
        4_000_000,
        FOUR_ROOMS_RATES,
        published=FOUR_ROOMS_PUBLISHED,
        published_lead=48,
    ),
    Setting(  # in the text the walk advances with time; the printed errors fit one that advances only on visits
        "fourrooms-visit",
        "FourRooms, the drift advancing on visits",
        "Sec. 7.1, App. B.3.4",
        partial(_four_rooms, advance="visit"),
        4_000_000,
        FOUR_ROOMS_RATES,
        published=FOUR_ROOMS_PUBLISHED,
        published_lead=48,
    ),
    Setting(
        "forty",
        "Forty GVFs: four policies times ten cumulants",
        "Sec. 7.1, App. B.3.5",
        _forty,
        2_000_000,
        _rates(0.8, GVFExplorer=0.5, SR=0.25, BPS=0.8),
        rate_m=0.95,
        explorer_q=2.0,
        initial_m=0.5,
        published=_published(None, 53.3, 2.66, 2.35, 2.64, 1.66),
        published_lead=29,
        authors_sr=AuthorsSuccessor(0.0, 0.0, "states", "gvf"),
    ),
]
_ABLATIONS = [
    *(
        Setting(f"distinct-x{k}", f"States grouped by {k}", "App. B.3.3", partial(_distinct, k), 2_000_000, DISTINCT_RATES)
        for k in GROUPINGS[1:]
    ),
    *(
        Setting(
            f"fourrooms-{sd:g}", f"Drift of {sd:g} per step", "App. B.3.4", partial(_four_rooms, sd), 4_000_000, FOUR_ROOMS_RATES
        )
        for sd in DRIFTS
        if sd != 0.5
    ),
    Setting(  # the error theory needs stationary cumulants
        "fourrooms-stationary", "FourRooms, both cumulants stationary", "ours", _stationary_rooms, 2_000_000, FOUR_ROOMS_RATES
    ),
]
paper = Settings([*_MAIN, *_ABLATIONS])
MAIN = tuple(setting.name for setting in _MAIN)
