"""Networks on the continuous grid: the whole loop is compiled by JAX."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gvfx
from gvfx.behaviours.wrappers import Calibrated
from gvfx.compilation.networks import named_keys, start_jax
from gvfx.errors import Diverged, InputError
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks.deep_updates import Batch, DeepLearning, DeepUpdates
from gvfx.questions.gvf import GVF, calibrated_weights, question_names
from gvfx.running.drive import Backend, Loop
from gvfx.running.plan import Plan
from gvfx.running.schema import EMPTY, Measurement
from gvfx_paper.truths.lattice import grid_questions, grid_truth
from gvfx_paper.worlds import continuous_grid
from gvfx_paper.worlds.continuous_grid import ContinuousGrid

# --- The scanned loop: act, step, store, sample and update on networks, all inside one compiled JAX loop ------------
# Steps are made in blocks of lcm(p, m) (8 in the paper): the behaviour changes only when M does, once per block, so
# acting is exactly Algorithm 1's.  The block's transitions are written to the replay buffer in one slice, the batches of all
# its updates are gathered in one indexing operation, and then Q is updated block/p times and M block/m times.  Two things are
# shifted by less than a block: Q's first batch may contain transitions of the same block, and target networks are copied at
# the end of the block that contains a multiple of `target_every`.

STREAMS = ("environment", "behaviour", "cumulants", "replay", "networks")


class Trouble(NamedTuple):
    """The first number that was not finite: its step, GVF (or -1), kind and value."""

    step: jax.Array  # [] -1 if there is none
    gvf: jax.Array
    kind: jax.Array  # 0 observation, 1 cumulant, 2 loss of Q, 3 loss of M
    value: jax.Array


class ScanState(NamedTuple):
    """The state of a run, as stored in a checkpoint."""

    t: jax.Array  # [] environment steps done
    keys: jax.Array  # [stream] random keys
    observation: jax.Array
    age: jax.Array  # [] steps in the episode
    episodes: jax.Array
    acting: Any  # the behaviour's state
    learning: DeepLearning
    replay: memory.Replay
    visits: jax.Array  # [cells, actions]
    trouble: Trouble


SIZE = 2  # numbers in an observation


class GridColumns(NamedTuple):
    """The columns of a transition's parts in a replay row."""

    cumulants: slice
    alive: int
    action: int
    width: int
    observation: slice = slice(0, SIZE)
    following: slice = slice(SIZE, 2 * SIZE)


class Engine:
    """The compiled functions of one experiment: begin(*seeds) and advance(state, blocks)."""

    def __init__(
        self,
        world: ContinuousGrid,
        policies: np.ndarray,
        discounts: np.ndarray,
        weights: np.ndarray,
        signals: np.ndarray,
        behaviour: gvfx.Behaviour,
        learner: gvfx.Deep,
        steps: int,
        cells: int = 20,
    ) -> None:
        """policies [gvf, action]: constant target policies; signals [gvf]: the index of each GVF's cumulant."""
        start_jax()
        self.world, self.learner, self.behaviour, self.cells = world, learner, behaviour, cells
        self.pi = jnp.asarray(policies.T)  # [action, gvf]
        self.discounts = jnp.asarray(discounts)
        self.weights = jnp.asarray(weights)
        self.signals = np.asarray(signals)
        self.gvfs, self.actions = policies.shape
        self.rule = behaviour.network_rule()
        alive = 2 * SIZE + self.gvfs
        self.columns = GridColumns(slice(2 * SIZE, alive), alive, alive + 1, alive + 2)
        intrinsic = self.rule.probabilities if behaviour.needs_intrinsic else None
        sizes = (SIZE, self.actions, self.gvfs)
        self.updates = DeepUpdates(learner, sizes, steps, self._parts, behaviour.needs_variance, intrinsic)
        self._warm_up = jax.jit(partial(self._advance, False), donate_argnums=0)
        self._go_on = jax.jit(partial(self._advance, True), donate_argnums=0)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def begin(self, *seeds: int) -> ScanState:
        """The state before the first step; for several seeds every array has a leading seed axis."""
        if len(seeds) == 1:
            return jax.jit(self._begin)(named_keys(seeds[0], STREAMS))
        return jax.jit(jax.vmap(self._begin))(jnp.stack([named_keys(seed, STREAMS) for seed in seeds]))

    def row(self, states: ScanState, k: int) -> ScanState:
        """The state of the k-th seed."""
        return states if states.t.ndim == 0 else jax.tree.map(lambda leaf: leaf[k], states)

    def _begin(self, keys: jax.Array) -> ScanState:
        *fresh, keep = jax.random.split(keys[4], 5)
        first, environment = jax.random.split(keys[0])
        return ScanState(
            t=jnp.zeros((), jnp.int32),
            keys=jnp.stack([environment, keys[1], keys[2], keys[3], keep]),
            observation=continuous_grid.reset(self.world, first),
            age=jnp.zeros((), jnp.int32),
            episodes=jnp.zeros((), jnp.int32),
            acting=self.rule.begin(self.weights),
            learning=self.updates.begin(fresh),
            replay=memory.empty(self.learner.capacity, self.columns.width, self.updates.prioritised),
            visits=jnp.zeros((self.cells * self.cells, self.actions), jnp.int32),
            trouble=Trouble(jnp.full((), -1), jnp.full((), -1), jnp.zeros((), jnp.int32), jnp.zeros(())),
        )

    # --- acting ------------------------------------------------------------------------------------------------------

    def probabilities(self, acting: Any, learning: DeepLearning, t: Any, observation: jax.Array) -> jax.Array:
        """mu [action] at an observation."""
        m = learning.m(observation) if self.behaviour.needs_variance else self.pi
        value = learning.intrinsic.value(observation)[..., 0] if learning.intrinsic is not None else None
        return self.rule.probabilities(acting, t, self.pi, m, value)

    def _step(self, learning: DeepLearning, carry: tuple, chance: tuple) -> tuple[tuple, tuple]:
        """One environment step; its random numbers are drawn beforehand, for all steps of a block at once."""
        t, observation, age, acting, episodes = carry
        u, moving, starting = chance
        mu = self.probabilities(acting, learning, t, observation)
        action = (u >= jnp.cumsum(mu)[:-1]).sum()
        following, cumulants, terminated = continuous_grid.move(self.world, moving, observation, action)
        cumulants = cumulants[self.signals]
        age = age + 1
        truncated = age >= self.world.horizon
        alive = jnp.where(terminated | (truncated & self.world.timeouts_terminate), 0.0, 1.0)
        row = jnp.concatenate([observation, following, cumulants, jnp.stack([alive, action.astype(jnp.float32)])])
        over = terminated | truncated
        acting = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.rule.episode_end(acting), acting)
        present = jnp.where(over, continuous_grid.start(self.world, starting), following)
        return (t + 1, present, jnp.where(over, 0, age), acting, episodes + over), (row, self._cell(observation), action)

    def _cell(self, observation: jax.Array) -> jax.Array:
        column, row = (jnp.clip((observation[k] * self.cells).astype(jnp.int32), 0, self.cells - 1) for k in (0, 1))
        return row * self.cells + column  # in the order of the truth's points: x fastest, from the lower left

    # --- learning ----------------------------------------------------------------------------------------------------

    def _parts(self, batch: jax.Array) -> Batch:
        """The parts of replay rows."""
        c = self.columns
        discounts = batch[:, c.alive, None] * self.discounts
        action = batch[:, c.action].astype(jnp.int32)
        return Batch(batch[:, c.observation], action, batch[:, c.following], batch[:, c.cumulants], discounts, self.pi)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def compile(self, state: ScanState) -> ScanState:
        """The same state, after compiling the loop for it."""
        return self._go_on(self._warm_up(state, 0), 0)

    def advance(self, state: ScanState, blocks: int) -> ScanState:
        """Advance by a number of blocks; learning begins with the block that contains `learning_starts`."""
        done, block = int(self.row(state, 0).t), self.learner.block
        silent = min(blocks, max(0, -(-(self.learner.learning_starts - done) // block) - 1))
        if silent:
            state = self._warm_up(state, silent)
        return self._go_on(state, blocks - silent) if blocks > silent else state

    def _advance(self, learns: bool, state: ScanState, blocks: jax.Array) -> ScanState:
        body = partial(self._block, learns=learns)
        if state.t.ndim:
            body = jax.vmap(body)
        return jax.lax.fori_loop(0, blocks, lambda _, s: body(s), state)

    def _block(self, state: ScanState, learns: bool) -> ScanState:
        block = self.learner.block
        both = jax.vmap(jax.random.split)(state.keys[:4])  # [stream, 2]
        move_key, start_key = jax.random.split(both[0, 1])
        chance = (
            jax.random.uniform(both[1, 1], (block,)),
            jax.random.uniform(move_key, (block, self.world.draws)),
            jax.random.uniform(start_key, (block, self.world.candidates, 2)),
        )
        carry = (state.t, state.observation, state.age, state.acting, state.episodes)
        carry, (rows, cells, actions) = jax.lax.scan(partial(self._step, state.learning), carry, chance)
        t, observation, age, acting, episodes = carry
        replay = memory.write(state.replay, rows)
        learning = state.learning
        losses = (jnp.zeros(self.gvfs), jnp.zeros(self.gvfs))
        if learns:
            learning, replay, losses = self.updates.learn(t, learning, replay, both[3, 1])
            if isinstance(self.behaviour, Calibrated):
                acting = self.behaviour.noted(acting, self.updates.squares(learning, rows), block)
        learning = self.updates.renewed(learning, state.t, t)
        return ScanState(
            t=t,
            keys=jnp.concatenate([both[:, 0], state.keys[4:]]),
            observation=observation,
            age=age,
            episodes=episodes,
            acting=acting,
            learning=learning,
            replay=replay,
            visits=state.visits.at[cells, actions].add(1),
            trouble=self._look(state.trouble, t, rows, losses),
        )

    def _look(self, trouble: Trouble, t: jax.Array, rows: jax.Array, losses: tuple) -> Trouble:
        """Keep the first number that is not finite."""
        c = self.columns
        found = trouble
        kinds = [
            (0, rows[:, c.observation].sum(axis=1, keepdims=True)),
            (1, rows[:, c.cumulants]),
            (2, losses[0][None]),
            (3, losses[1][None]),
        ]
        for kind, values in reversed(kinds):
            bad = ~jnp.isfinite(values)
            first = jnp.argmax(bad.ravel())
            row, gvf = first // values.shape[1], first % values.shape[1]
            step = t - values.shape[0] + 1 + row
            fresh = Trouble(step, jnp.where(kind == 0, -1, gvf), jnp.full((), kind), values.ravel()[first])
            found = jax.tree.map(lambda new, old: jnp.where(bad.any(), new.astype(old.dtype), old), fresh, found)  # noqa: B023
        return jax.tree.map(lambda old, new: jnp.where(trouble.step >= 0, old, new), trouble, found)


KINDS = ("observation", "cumulant", "loss of Q", "loss of M")


class NetworkScanned(Backend):
    """What the seeds share: the compiled loop and the true values."""

    def __init__(
        self,
        world: ContinuousGrid,
        questions: Sequence[GVF],
        behaviour: gvfx.Behaviour,
        learner: gvfx.Deep,
        plan: Plan,
        calibrate: bool = False,
    ) -> None:
        self.world, self.behaviour, self.learner, self.plan = world, behaviour, learner, plan
        self.names = question_names(questions)
        self.weights, self.calibrated = np.array([q.weight for q in questions], dtype=float), calibrate
        policies, discounts, signals = grid_questions(world, questions)
        for stop in plan.stops:
            if stop % learner.block:
                raise InputError(
                    f"steps, evaluate_every: measurements must fall on multiples of {learner.block} steps; {stop} is not one."
                )
        if learner.heads:
            raise InputError("heads: bootstrapped heads are for Gymnasium environments; give heads=0 here.")
        self.truth = grid_truth(world, policies, discounts, signals)
        self.engine = Engine(world, policies, discounts, self.weights, signals, behaviour, learner, plan.steps)
        if calibrate:  # of the errors, against the true values
            self.weights = self.weights * calibrated_weights(self.truth.values, self.truth.evenly())

    def begin(self, *seeds: int) -> ScannedNetwork:
        """The stream of one or several seeds; several run in one compiled loop (`vmap`), for accelerators."""
        return ScannedNetwork(self, seeds)


class ScannedNetwork(Loop):
    """One seed, or several in parallel: the state of the compiled loop."""

    kept: ClassVar = {"now": ":"}

    def __init__(self, run: NetworkScanned, seeds: Sequence[int]) -> None:
        self.run, self.seeds, self.grain = run, tuple(seeds), run.learner.block
        self.now: ScanState = run.engine.begin(*seeds)

    def start(self) -> None:
        self.now = self.run.engine.compile(self.now)

    def advance(self, to: int) -> None:
        self.now = jax.block_until_ready(self.run.engine.advance(self.now, (to - self.t) // self.grain))
        self.t = to

    def _each(self) -> list[ScanState]:
        return [self.run.engine.row(self.now, k) for k in range(len(self.seeds))]

    def check(self) -> None:
        for seed, state in zip(self.seeds, self._each(), strict=True):
            step, gvf = int(state.trouble.step), int(state.trouble.gvf)
            if step >= 0:
                what, name = KINDS[int(state.trouble.kind)], self.run.names[gvf] if gvf >= 0 else None
                raise Diverged(what, float(state.trouble.value), step, seed, name)

    def episodes(self) -> list[int]:
        return [int(state.episodes) for state in self._each()]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        return [self._measured(state, curve, tables) for state in self._each()]

    def _measured(self, state: ScanState, curve: bool, tables: bool) -> Measurement:
        engine, truth = self.run.engine, self.run.truth
        points: Any = np.asarray(truth.points, dtype=np.float32)
        values = np.asarray((engine.pi * state.learning.q(points)).sum(axis=1)).T.astype(float)
        errors = {"mse": truth.mse(values), "mse_outside": truth.mse(values, outside_only=True)} if curve else {}
        if not tables:
            return Measurement(**errors)
        variances = EMPTY
        if engine.behaviour.needs_variance:
            variances = np.asarray((engine.pi * state.learning.m(points)).sum(axis=1)).T.astype(float)
        mu = jax.vmap(lambda o: engine.probabilities(state.acting, state.learning, state.t, o))(points)
        visits = np.asarray(state.visits).astype(np.int64)
        return Measurement(**errors, values=values, variances=variances, visits=visits, behaviour=np.asarray(mu).astype(float))

    def restored(self) -> None:
        self.t = int(self.run.engine.row(self.now, 0).t)

    def outcome(self, k: int) -> dict[str, Any]:
        return {"truth": self.run.truth.values}
