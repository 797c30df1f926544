r"""OptimalDesign: visit the pairs that reduce the error of the answers fastest, estimating the world during the run.

The error of certainty equivalence after n(s, a) visits is about sum G / n (`gvfx.design`).  Each time the data have grown by a
fixed factor, the behaviour estimates the world and G, and follows the behaviour that minimises sum G / (n + m x) over the visits
x that the estimated world allows.  Against estimates from few visits,

- every pair has `prior` further visits in which the action did what the state's actions did on average: a pair whose rare
  outcomes have not occurred yet looks certain, is visited less and stays wrong (Nie et al. 2018).  With `where`, the target
  policies' ways from there have only `NEAR_PRIOR` of them, so that a question about a part does not need the whole world;
- no pair's importance is below a share `floor` of a typical one, and a share `random` of the actions stays random.

Between two plans a directed search tries what has hardly been tried, and each state takes the action that lags furthest behind
its share of the plan.  A pair that probably has no chance in it (`gvfx.evidence.smoothing`) needs neither prior nor many visits.
docs/behaviours.md has the details.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from gvfx.behaviours import directed_search
from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.directed_search import NOTHING, Search, begin_search, mark_wanted, plan_made, postpone, recount
from gvfx.evidence.counts import Empirical
from gvfx.evidence.smoothing import Smoothed, determinism
from gvfx.evidence.transitions import CellModel
from gvfx.kernel import BehaviourRule, Sizes, piece
from gvfx.questions.gvf import Stacked
from gvfx.questions.where import EVERYWHERE
from gvfx.schedules import growing
from gvfx.theory.importance import importance
from gvfx.theory.optimum import remaining_design
from gvfx.worlds.mdp import TableRows

NEAR_PRIOR = 5.0  # prior visits of the ways that target policies take from where errors count
ON_CELLS = {"growth": 1.5, "prior": 10.0, "search": 0.0}  # other defaults on cells


class PlannedState(NamedTuple):
    table: np.ndarray  # [row, action]
    share: np.ndarray  # [1] of the actions that follow the target policies, blended with uniform; 0 on tables
    since: np.ndarray  # int64 [row, action] visits since the last plan; no rows: actions are drawn at random
    search: Search


class Planning(Behaviour[PlannedState]):
    """A behaviour that searches at first and then follows plans made on the evidence, each time the data grow by `growth`."""

    first: int | None  # steps before the first plan; None: three per state and action
    growth: float
    prior: float
    random: float  # share of random actions
    search: float
    tracked: ClassVar[bool]  # whether visits follow the plan's shares instead of being drawn

    explores: ClassVar[bool] = True
    allowed: ClassVar = {"first": "[1, inf)", "growth": "(1, inf]", "prior": "(0, inf)", "random": "[0, 1]", "search": "[0, 1)"}

    def rule(self, sizes: Sizes) -> BehaviourRule:
        return planned_rule(sizes.actions, self.search > 0, self.tracked, self.random)

    def begin(self, asked: Stacked, world: TableRows) -> PlannedState:
        shape = (world.rows, world.actions)
        since = np.zeros(shape if self.tracked else (0, world.actions), np.int64)
        return PlannedState(np.full(shape, 1 / world.actions), np.zeros(1), since, begin_search(self.search, world, asked.pi))

    def retarget(self, state: PlannedState, model: Empirical) -> None:
        mark_wanted(state.search, model.world, model.asked.pi)

    def shown(self, state: PlannedState) -> PlannedState:
        """The state without search and with the plan's probabilities instead of the action that is due."""
        at = state.search.at.copy()
        at[0].sought = NOTHING
        return state._replace(since=np.full_like(state.since, -1), search=state.search._replace(at=at))

    def stops(self, steps: int, world: TableRows) -> Sequence[int]:
        return growing(self.first or 3 * world.rows * world.actions, self.growth, steps)

    def follow(self, state: PlannedState, mu: np.ndarray) -> None:
        """Follow a plan mu [row, action] from now on, with random actions."""
        state.table[:] = (1 - self.random) * mu + self.random / mu.shape[1]
        state.since[:] = 0
        plan_made(state.search)


@dataclass(frozen=True)
class OptimalDesign(Planning):
    """The behaviour that minimises the predicted error of all answers, replanned each time the data grow by `growth`.

    first:  steps before the first plan (default: three per state and action).
    growth: factor by which the data grow between two plans.
    ahead:  planning horizon, as a multiple of the data so far.
    prior:  number of prior visits in which an action does what the state's actions did on average.
    floor:  the smallest importance of a pair, relative to a typical one.
    random: share of random actions.
    search: largest share of the steps since the last plan for the search for new states, and again for untried pairs; 0: none.

    With continuous observations a row is a cell of them.  Default `growth`, `prior` and `search` are then 1.5, 10 and 0, actions
    are drawn from the plan, and where the features' resolution limits the answers rather than chance, a share of the actions
    follows the target policies, blended half with uniform.
    """

    first: int | None = None
    growth: float = 2.0
    ahead: float = 1.0
    prior: float = 60.0
    floor: float = 0.03
    random: float = 0.02
    search: float = field(default=0.8, metadata={"before": 0.0})

    supports: ClassVar[frozenset[str]] = frozenset({"tables", "linear"})
    tracked: ClassVar[bool] = True
    allowed: ClassVar = Planning.allowed | {"ahead floor": "(0, inf]"}

    def after_log(self, steps: int, logged: int) -> OptimalDesign:
        return replace(self, ahead=min(self.ahead, steps / logged))

    def on_cells(self) -> OptimalDesign:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return _OnCells(**{name: ON_CELLS.get(name, v) if v == getattr(OptimalDesign, name) else v for name, v in given.items()})

    @property
    def counts_cells(self) -> bool:  # type: ignore[override]
        return self.on_cells().search > 0

    def refresh(self, state: PlannedState, model: Empirical) -> None:
        known, need = self.needs(model)
        steps = known.visits.sum()
        routes = known.model if isinstance(model, CellModel) else known.routes()
        mu = remaining_design(routes, need, known.visits, self.ahead * steps)
        self.follow(state, mu)
        if isinstance(model, CellModel):
            state.share[:] = model.share
            recount(state.search, model)

    def needs(self, model: Empirical) -> tuple[Smoothed, np.ndarray]:
        """The smoothed model, and every pair's importance G [row, action]: n visits leave an error of about G / n."""
        if isinstance(model, CellModel) or model.world.features is not None:
            known = Smoothed(model, self.prior)
        else:
            found = determinism(model)
            known = Smoothed(model, self.prior, 1 - found.sure, 1 - found.share)
        noise = known.noise
        if isinstance(model, CellModel) and model.noise_of_pairs is not None:
            noise = model.noise_of_pairs
        ways = known.model
        if model.asked.where != EVERYWHERE and not isinstance(model, CellModel):
            ways = known.joined_by(min(self.prior, NEAR_PRIOR))
        need = importance(ways, known.pi, known.gamma, noise, known.weights, known.where)
        going = known.model.going
        typical = np.sqrt(need[going]).mean() ** 2 if going.any() else 0.0
        return known, np.maximum(need, self.floor * typical if typical > 0 else 1.0) * known.chance


@dataclass(frozen=True)
class _OnCells(OptimalDesign):
    """OptimalDesign whose rows are cells: actions are drawn, and nothing is searched until the first plan says what they are."""

    tracked: ClassVar[bool] = False

    def begin(self, asked: Stacked, world: TableRows) -> PlannedState:
        state = super().begin(asked, world)
        postpone(state.search)
        return state


@cache
def planned_rule(actions: int, searching: bool, tracked: bool, random: float) -> BehaviourRule:
    """Follow a plan; searching, tracked: see `PlannedState`;  random: share of actions that are not the one due."""
    follow, count, search_end = directed_search.follow, directed_search.observe, directed_search.episode_end

    @piece
    def probabilities(state, t, s, x, pi, m, mu):
        if searching and follow(state.search, x, pi, mu, random):
            return
        for a in range(actions):
            mu[a] = state.table[x, a]
        if state.share[0] > 0.0:
            gvfs = pi.shape[1]
            for a in range(actions):
                mean = 0.0
                for i in range(gvfs):
                    mean += pi[a, i]
                mu[a] += state.share[0] * (0.5 * (mean / gvfs + 1.0 / actions) - mu[a])
        if tracked and state.since[x, 0] >= 0:
            visits = 1
            for a in range(actions):
                visits += state.since[x, a]
            due = 0
            for a in range(actions):
                if mu[a] * visits - state.since[x, a] > mu[due] * visits - state.since[x, due]:
                    due = a
            for a in range(actions):
                mu[a] *= random
            mu[due] += 1.0 - random

    @piece
    def observe(state, t, tr, c, gamma, pi):
        if tracked:
            state.since[tr.x, tr.action] += 1
        if searching:
            count(state.search, t, tr)

    @piece
    def episode_end(state, t, rng):
        if searching:
            search_end(state.search)

    return BehaviourRule(probabilities, observe, episode_end)
