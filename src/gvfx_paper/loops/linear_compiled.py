"""Linear learning on the continuous grid: acting, moving and keeping transitions in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

import gvfx
from gvfx.kernel import BehaviourRule, Sizes, whole
from gvfx.learners.half_samples import FREEDOM, Answers
from gvfx.questions.gvf import GVF, calibrated_weights
from gvfx.questions.where import EVERYWHERE, START, is_start
from gvfx.rng import CUMULANTS, ENVIRONMENT, normal, uniform
from gvfx.running.drive import Loop
from gvfx.running.plan import Method, Options
from gvfx.running.predictor import TablePredictor
from gvfx.running.schema import EMPTY, Measurement, Part
from gvfx.running.streams.linear import LinearAgent, LinearRuns
from gvfx.running.streams.linear_loop import keep, make_choice, make_watch
from gvfx_paper.truths.lattice import grid_questions, grid_truth
from gvfx_paper.worlds.continuous_grid import MOVES, ContinuousGrid


class GridArrays(NamedTuple):
    """The continuous grid as compiled functions read it, and the age of its episode."""

    centres: np.ndarray  # [disc, 2], goals first
    means: np.ndarray  # [goal]
    sds: np.ndarray  # [goal]
    moves: np.ndarray  # [action, 2]
    signals: np.ndarray  # int64 [gvf] the goal that pays each question
    discounts: np.ndarray  # [gvf]
    noise: float
    radius: float
    horizon: int
    timeouts_terminate: bool
    age: np.ndarray  # int64 [1] steps of the episode; -1: one begins


@cache
def make_loop(
    sizes: Sizes, behaviour: BehaviourRule, counts_cells: bool, goals: int, discs: int, euclidean: bool
) -> Callable[..., None]:
    """advance(agent, grid, steps)."""
    decide, episode_end, gvfs = make_choice(sizes, behaviour), behaviour.episode_end, sizes.gvfs
    watch = make_watch(sizes, behaviour, counts_cells)

    @whole
    def advance(agent, grid, steps):
        reach = grid.radius * grid.radius if euclidean else grid.radius
        for _ in range(steps):
            if grid.age[0] < 0:
                inside = True
                while inside:
                    agent.state[0, 0] = uniform(agent.rng, ENVIRONMENT)
                    agent.state[0, 1] = uniform(agent.rng, ENVIRONMENT)
                    inside = False
                    for k in range(goals):
                        dx = agent.state[0, 0] - grid.centres[k, 0]
                        dy = agent.state[0, 1] - grid.centres[k, 1]
                        inside |= (dx * dx + dy * dy if euclidean else abs(dx) + abs(dy)) <= reach
                grid.age[0] = 0
                agent.number[0] = agent.t[1]
                agent.t[1] += 1
                agent.begins[0] = True
            action = decide(agent, 0)
            agent.action[0] = action
            for i in range(2):
                moved = agent.state[0, i] + grid.moves[action, i] + grid.noise * (2.0 * uniform(agent.rng, ENVIRONMENT) - 1.0)
                agent.following[0, i] = min(max(moved, 0.0), 1.0)
            entered = -1
            for k in range(discs):
                dx = agent.following[0, 0] - grid.centres[k, 0]
                dy = agent.following[0, 1] - grid.centres[k, 1]
                if (dx * dx + dy * dy if euclidean else abs(dx) + abs(dy)) <= reach:
                    entered = k
            paid = 0.0
            if 0 <= entered < goals:
                paid = grid.means[entered] + grid.sds[entered] * normal(agent.rng, CUMULANTS)
            grid.age[0] += 1
            late = grid.age[0] >= grid.horizon
            agent.alive[0] = 0.0 if entered >= 0 or (late and grid.timeouts_terminate) else 1.0
            for i in range(gvfs):
                agent.c[0, i] = paid if grid.signals[i] == entered else 0.0
                agent.gamma[0, i] = grid.discounts[i]
            keep(agent, 0)
            watch(agent, 0)
            agent.begins[0] = False
            agent.t[0] += 1
            if entered >= 0 or late:
                grid.age[0] = -1
                episode_end(agent.behaviour, agent.t[0], agent.rng)
            else:
                agent.state[0, 0] = agent.following[0, 0]
                agent.state[0, 1] = agent.following[0, 1]

    return advance


class LinearCompiled(LinearRuns):
    """What the seeds share: the world's arrays, the compiled loop, the true values."""

    def __init__(self, world: ContinuousGrid, questions: Sequence[GVF], method: Method, options: Options) -> None:
        super().__init__(questions, method, options)
        self.world, self.where = world, START if is_start(options.where) else EVERYWHERE
        if options.where is not None and self.where != START:
            raise gvfx.InputError(
                f"where: {options.where!r:.40} is not supported on the continuous grid; give 'start', or leave it out."
            )
        self.policies, self.discounts, self.signals = grid_questions(world, questions)
        self.truth = grid_truth(world, self.policies, self.discounts, self.signals)
        self.prepare(2, len(MOVES), world.horizon)
        if self.calibrated:  # of the errors, against the true values
            self.weights = self.weights * calibrated_weights(self.truth.values, self.truth.evenly())
        discs, euclidean = len(world.centres), world.distance == "euclidean"
        self.loop = make_loop(self.sizes, self.rule, self.behaviour.counts_cells, len(world.goals), discs, euclidean)
        self.begin(0).advance(0)  # compile before seeds run in parallel

    def begin(self, seed: int) -> CompiledLinear:
        return CompiledLinear(self, seed)

    def predictor(self, parts: list[Part]) -> TablePredictor:
        return TablePredictor(freedom=FREEDOM)


class CompiledLinear(LinearAgent, Loop):
    """One seed."""

    run: LinearCompiled
    kept: ClassVar = {**LinearAgent.kept, "grid.age": "age"}

    def __init__(self, run: LinearCompiled, seed: int) -> None:
        world, gvfs = run.world, len(run.names)
        pi = np.ascontiguousarray(run.policies.T)[None]  # every question has its own column
        self.seeds = (seed,)
        self.open(run, seed, pi, np.arange(gvfs), True, *np.zeros((2, 1, gvfs)))
        self.grid = GridArrays(
            centres=world.centres,
            means=world.means,
            sds=world.sds,
            moves=world.step * np.array(MOVES),
            signals=run.signals.astype(np.int64),
            discounts=run.discounts,
            noise=world.noise,
            radius=world.radius,
            horizon=world.horizon,
            timeouts_terminate=world.timeouts_terminate,
            age=np.full(1, -1),
        )

    def start(self) -> None: ...

    def episodes(self) -> list[int]:
        return [int(self.arrays.t[1])]

    def advance(self, to: int) -> None:
        self.make_room(to - self.t)
        self.run.loop(self.arrays, self.grid, to - self.t)
        self.t = to

    def points_at(self, bounded: bool) -> np.ndarray:
        points = self.run.truth.points.astype(np.float32)
        return points[self.run.truth.outside] if bounded else points  # nobody acts inside the discs

    def policies_at(self, points: np.ndarray) -> np.ndarray:
        return self.run.policies.T[None]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        truth, points = self.run.truth, self.points_at(False)
        values, errors = self.answers(tables, tables)[0].values(points, self.policies_at(points))
        mse = {"mse": truth.mse(values), "mse_outside": truth.mse(values, outside_only=True)} if curve else {}
        if curve and self.run.where == START:
            mse["mse"] = (values - truth.values)[:, truth.outside].mean(axis=1) ** 2
        if not tables:
            return [Measurement(**mse)]
        visits = np.zeros((len(points), len(MOVES)), np.int64)
        side = round(len(points) ** 0.5)
        column, row = np.minimum((self.data.observation * side).astype(int), side - 1).T
        np.add.at(visits, (row * side + column, self.data.action), 1)
        policies = np.broadcast_to(self.run.policies.T, (len(points), *self.run.policies.T.shape))
        mu = self.probabilities(points, policies)
        return [Measurement(**mse, values=values, variances=EMPTY, visits=visits, behaviour=mu, standard_errors=errors)]

    def start_means(self, found: Answers) -> tuple[np.ndarray, np.ndarray]:
        return found.means(self.points_at(True), self.policies_at(EMPTY))  # episodes start anywhere outside the discs

    def outcome(self, k: int) -> dict[str, Any]:
        truth = self.run.truth
        return {"truth": truth.values, **self.found(truth.values[:, truth.outside].mean(axis=1))}

    def check(self) -> None: ...

    def restored(self) -> None:
        self.t = int(self.arrays.t[0])
