"""Twin critics in MuJoCo: many worlds stepped together, with one compiled call per vector step."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.compilation.networks import named_keys, start_jax
from gvfx.errors import Diverged, InputError
from gvfx.learners.networks import deep_updates as memory
from gvfx.learners.networks import retrace
from gvfx.learners.networks.critic_updates import CriticQuestions, Critics, NetworkScaling
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.learners import TwinCritics
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.signals import Signal
from gvfx.running.drive import Backend, Loop
from gvfx.running.plan import Plan
from gvfx.running.schema import EMPTY, Measurement
from gvfx.running.streams.critic_agent import CriticLearning, GVFAgent, WorldSizes, learn_from
from gvfx_paper.loops.lookahead import LookingAhead
from gvfx_paper.targets import Target
from gvfx_paper.truths.trajectories import MujocoTruth, mujoco_truth
from gvfx_paper.worlds.mujoco import Domain, Lockstep

# --- Staggered worlds in lockstep: one agent acts in all of them and learns, in one compiled call per vector step ---
# A vector step makes one control step in every world.  The worlds begin at different ages, so that their truncations are
# spread evenly; a truncated world is reset, and its last transition bootstraps like all others.  The compiled call writes the
# transitions to the replay buffer in one slice, gathers the batches of all updates in one indexing operation, updates, and
# chooses the next actions.

STREAMS = ("behaviour", "updates")  # besides "environment" and "networks", which NumPy draws


class LockstepAgent:
    """Acts and learns; all functions are pure JAX.  What is defined here is for one-step targets; any other class may serve too.

    described, columns, act_draws, learn_draws  the learner's options, the columns of a row, and how many numbers are drawn
    begin(generator), begin_acting()          the initial learning state and acting state
    begin_aims()                              room for the stored transitions' targets, or None for one-step targets
    prepare(learning, rows)                   the learning state as learning starts, given the rows stored so far (NumPy)
    see(learning, rows)                       the learning state after rows were stored
    annotate(rows, acting)                    the rows with what is stored beside each transition
    learn(learning, batches, noise)           updates on [updates, batch, columns]; also returns the losses
    learn_stored(learning, batches, aims, noise)  the same towards stored targets, for agents with `trace`
    act(learning, acting, learns, chance, observations, over)
                                              actions in all worlds; `over` marks those that were reset
    noise [updates, batch, learn_draws] is standard normal, chance [world, act_draws] uniform in (-1, 1).
    """

    def begin_acting(self) -> Any:
        return ()

    def begin_aims(self) -> retrace.RetraceTargets | None:
        return None

    def prepare(self, learning: Any, rows: np.ndarray) -> Any:
        return learning

    def see(self, learning: Any, rows: jax.Array) -> Any:
        return learning

    def annotate(self, rows: jax.Array, acting: Any) -> jax.Array:
        return rows


class LockstepState(NamedTuple):
    """The state that the compiled call updates."""

    keys: jax.Array  # [stream] random keys
    learning: Any
    acting: Any
    replay: memory.Replay
    actions: jax.Array  # [world, action] to be taken next
    aims: retrace.RetraceTargets | None  # the stored transitions' targets, for agents with `trace`


class Staggered:
    """One seed's stream of experience and what is learned from it."""

    def __init__(self, domain: Domain, agent: Any, seed: int) -> None:
        start_jax()
        self.domain, self.agent, self.seed = domain, agent, seed
        described = agent.described
        self.worlds = described.worlds
        self.learning_starts = max(described.learning_starts, 2 * self.worlds)  # scales and targets need stored transitions
        self.simulator = Lockstep(domain, self.worlds)
        self.t = 0  # environment steps done, all worlds together
        self.episodes = 0
        self.ages = np.arange(self.worlds) * domain.horizon // self.worlds
        self.observations = self.simulator.reset(self._generator("environment")).astype(np.float32)
        self.losses: Any = None  # the losses of the last update
        self._silent, self._learning = _compiled(agent, _tick, False), _compiled(agent, _tick, True)
        learning = jax.tree.map(jnp.array, agent.begin(self._generator("networks")))  # target networks are copies
        replay = memory.empty(described.capacity, agent.columns.width, False)
        unset = jnp.zeros((self.worlds, domain.action_size))
        aims = agent.begin_aims()
        self.state = LockstepState(named_keys(seed, STREAMS), learning, agent.begin_acting(), replay, unset, aims)
        self.refreshed = 0  # the step at which the stored targets were computed
        self._refresh = _compiled(agent, _refresh)
        self.state = _compiled(agent, _begin)(self.state, self.observations)

    def _generator(self, name: str) -> np.random.Generator:
        """The random generator of this step, derived from the seed, the stream's name and the step."""
        key = (zlib.crc32(name.encode()), self.t)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def advance(self) -> np.ndarray:
        """One vector step; returns its transitions [world, columns]."""
        actions = np.asarray(self.state.actions)
        following, cumulants = self.simulator.step(actions)
        rows = np.concatenate([self.observations, actions, following, cumulants], axis=1, dtype=np.float32, casting="same_kind")
        self.t += self.worlds
        self.ages += 1
        over = self.ages >= self.domain.horizon
        if over.any():
            following = self.simulator.reset(self._generator("environment"), np.flatnonzero(over))
            self.ages[over] = 0
            self.episodes += int(over.sum())
        self.observations = following.astype(np.float32)
        if self.t - self.worlds < self.learning_starts <= self.t:
            stored = np.asarray(self.state.replay.rows[: self.t - self.worlds])
            self.state = self.state._replace(learning=self.agent.prepare(self.state.learning, stored))
        if self.state.aims is not None and self._is_due():
            self.state, self.refreshed = self._refresh(self.state), self.t - self.worlds
        tick = self._learning if self.t >= self.learning_starts else self._silent
        self.state, self.losses = tick(self.state, rows, self.observations, over)
        return rows

    def _is_due(self) -> bool:
        """Whether the stored targets are to be computed again now; first as learning starts."""
        done = self.t - self.worlds
        return self.t >= self.learning_starts and retrace.is_due(self.agent.described, done, self.refreshed)


def _compiled(agent: Any, function: Any, *fixed: Any) -> Any:
    """A function of an agent, something fixed, and a state, compiled once per agent."""
    known: dict[Any, Any] = agent.__dict__.setdefault("compiled", {})
    if (function, *fixed) not in known:
        known[function, *fixed] = jax.jit(partial(function, agent, *fixed), donate_argnums=0)
    return known[function, *fixed]


def _begin(agent: Any, state: LockstepState, observations: jax.Array) -> LockstepState:
    """The first actions."""
    keep, (chance, _) = _chance(agent, state.keys)
    over = jnp.zeros(len(observations), bool)
    acting, actions = agent.act(state.learning, state.acting, False, chance, observations, over)
    return state._replace(keys=keep, acting=acting, actions=actions)


def _tick(
    agent: Any, learns: bool, state: LockstepState, rows: jax.Array, present: jax.Array, over: jax.Array
) -> tuple[LockstepState, Any]:
    """Store the transitions, make all updates if it learns, and act; also returns the updates' losses."""
    keep, (chance, many) = _chance(agent, state.keys)
    replay = memory.write(state.replay, agent.annotate(rows, state.acting))
    learning, losses = agent.see(state.learning, rows), None
    if learns:
        learning, losses = learn_from(agent, learning, replay, many, state.aims)
    acting, actions = agent.act(learning, state.acting, learns, chance, present, over)
    return state._replace(keys=keep, learning=learning, acting=acting, replay=replay, actions=actions), losses


def _refresh(agent: Any, state: LockstepState) -> LockstepState:
    """Compute the stored transitions' targets anew."""
    assert state.aims is not None
    key = jax.random.fold_in(state.keys[STREAMS.index("updates")], 1)
    critics, worlds = state.learning.critics, agent.described.worlds
    return state._replace(aims=retrace.refreshed(agent.critics, critics, state.replay, state.aims, key, worlds, -1))


def _chance(agent: Any, keys: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The streams' next keys; uniform numbers in (-1, 1) for acting [world, draw] and updating [update, batch, 1 + draw].

    All of a stream's numbers are drawn at once, because every call of a random function costs a second of compilation.
    """
    keep, used = jax.vmap(jax.random.split, out_axes=1)(keys)
    d = agent.described
    shapes = ((d.worlds, agent.act_draws), (d.updates, d.batch, 1 + agent.learn_draws))
    low = float(np.nextafter(np.float32(-1), np.float32(0)))
    drawn = [jax.random.uniform(key, shape, minval=low, maxval=1.0) for key, shape in zip(used, shapes, strict=True)]
    return keep, (drawn[0], drawn[1])


class CriticsLockstep(Backend):
    """What the seeds share: the agent's compiled functions and the true values."""

    def __init__(
        self,
        world: Domain,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: TwinCritics,
        plan: Plan,
        truth: MujocoTruth | None = None,
    ) -> None:
        """truth: true values to measure against (default: the domain's, see `gvfx_paper.truths.trajectories`)."""
        self.world, self.behaviour, self.learner, self.plan = world, behaviour, learner, plan
        self.names = question_names(questions)
        self.weights = np.array([q.weight for q in questions], dtype=float)
        targets, discounts, signals = domain_questions(world, questions)
        for stop in plan.stops:
            if stop % learner.worlds:
                raise InputError(f"evaluate_every: measurements and snapshots must fall on multiples of {learner.worlds} steps.")
        self.truth = truth if truth is not None else domain_truth(world, targets, discounts, signals)
        asked = CriticQuestions(_single(discounts), signals, _single([target.sigma for target in targets]))
        sizes = WorldSizes(world.observation_size, world.action_size, world.tasks)
        kind = LookingAhead if learner.lookahead else GVFAgent
        self.agent = kind(sizes, targets, asked, _single(self.weights), behaviour, learner, plan.steps)
        self.answers, self.predict = jax.jit(self.agent.answers), jax.jit(self.agent.predict, static_argnums=4)

    def begin(self, seed: int) -> LockstepCritics:
        return LockstepCritics(self, seed)


class LockstepCritics(Loop):
    """One seed: the worlds, and the agent that acts in them."""

    kept: ClassVar = {
        "worlds.state": "state:",
        ("worlds.t", "worlds.episodes"): "count",
        "worlds.ages": "ages",
        "worlds.observations": "observations",
        "simulator": "simulator",
    }

    def __init__(self, run: CriticsLockstep, seed: int) -> None:
        self.run, self.seeds, self.grain = run, (seed,), run.learner.worlds
        self.worlds = Staggered(run.world, run.agent, seed)
        self.rows = np.zeros((1, run.agent.columns.width), np.float32)  # the last transitions

    def start(self) -> None: ...

    def advance(self, to: int) -> None:
        while self.worlds.t < to:
            self.rows = self.worlds.advance()
            self.t = self.worlds.t
            self.check()

    def check(self) -> None:
        names = self.run.names
        kinds: list[tuple[str, Any, tuple[str, ...]]] = [("transition", self.rows.sum(), ())]
        if self.worlds.losses is not None:
            losses = self.worlds.losses
            kinds += [("loss of Q", losses.q, names), ("loss of M", losses.m, names), ("actor's loss", losses.actor, ())]
            beyond = np.asarray(losses.beyond)
            if beyond.any():  # not infinite yet, but far from any possible value
                k = int(beyond.argmax())
                raise Diverged("target of Q", float(beyond[k]), self.t, self.seeds[0], names[k])
        for what, values, of in kinds:
            values = np.atleast_1d(values)
            if np.isfinite(values).all():
                continue
            k = int(np.argmin(np.isfinite(values)))
            if what == "transition":
                seen = self.rows[:, self.run.agent.columns.observation]
                what = "cumulant" if np.isfinite(seen).all() else "observation"
            raise Diverged(what, float(values[k]), self.t, self.seeds[0], of[k] if of else None)

    def episodes(self) -> list[int]:
        return [self.worlds.episodes]

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        run, learning = self.run, self.worlds.state.learning
        observations, actions = _single(run.truth.observations), _single(run.truth.actions)
        critics = learning.critics
        values = np.asarray(run.answers(critics, observations, actions)).astype(float)
        mse = ((values - run.truth.values) ** 2).mean(axis=0) if curve else EMPTY
        if not tables:
            return [Measurement(mse=mse)]
        m = critics.m
        return [
            Measurement(
                mse=mse,
                values=values.T,
                variances=EMPTY if m is None else np.asarray(run.predict(m, critics, observations, actions, 2).T, float),
                visits=np.zeros((len(values), 0), np.int64),
                behaviour=self._middle_actions(learning, observations),
            )
        ]

    def _middle_actions(self, learning: Any, observations: Any) -> np.ndarray:
        """The middle actions of the behaviour's actor at the truth's points, [point, action]; empty without an actor."""
        if learning.actor is None:
            return np.empty((len(observations), 0))
        agent = self.run.agent
        assert agent.actor is not None
        seen = agent.scaled(learning.critics, jnp.asarray(observations))
        return np.asarray(agent.actor.middle(learning.actor, seen, agent.middles(observations))).astype(float)

    @property
    def simulator(self) -> np.ndarray:
        """The simulator's state."""
        return self.worlds.simulator.get_state()

    @simulator.setter
    def simulator(self, state: np.ndarray) -> None:
        self.worlds.simulator.set_state(state)

    def restored(self) -> None:
        self.t, aims = self.worlds.t, self.worlds.state.aims
        self.worlds.refreshed = int(aims.until) if aims is not None else 0

    def outcome(self, k: int) -> dict[str, Any]:
        critics, actor = self.worlds.state.learning
        scales = [] if critics.scaling is None else [np.asarray(part) for part in critics.scaling]
        if actor is not None:
            own = {"actor": np.concatenate([flat([actor.actor]), *scales])}
        else:
            own = {"critics": np.concatenate([flat(critics.m), *scales]) if critics.m else EMPTY}
        return {"truth": np.asarray(self.run.truth.values, float).T, **own}


class AsLearned:
    """The behaviour of a run at its end, in some worlds: it acts by the stored weights of its actor, or of M's critics."""

    def __init__(self, run: CriticsLockstep, actor: np.ndarray | None, critics: np.ndarray | None, worlds: int = 1) -> None:
        """actor, critics: one seed's row of a result's `actors` or `critics`, whichever the behaviour has."""
        start_jax()
        agent = self.agent = run.agent
        learning = agent.begin(np.random.default_rng(0))
        stored, before = (critics, learning.critics) if learning.actor is None else (actor, learning.critics)
        if before.scaling is not None and stored is not None:
            stored, before = _with_scales(stored, before)
        if learning.actor is not None:
            (own,) = filled([learning.actor.actor], stored)
            learning = CriticLearning(before, learning.actor._replace(actor=own))
        elif before.m is not None:
            one, other = filled(before.m, stored)
            learning = CriticLearning(before._replace(m=(one, other)), None)
        self.worlds, self.learning = worlds, learning
        self.acting = agent.rule.begin(worlds, agent.gvfs)
        self.choose = jax.jit(agent.choose)

    def act(self, observations: np.ndarray, draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions [world, a] at observations [world, o], and the question whose target each world follows [world]; from the
        number of questions on, an action of the behaviour's own."""
        seen = _single(observations)
        edge = 1 - 2.0**-24
        chance = _single(draws.uniform(-edge, edge, (self.worlds, self.agent.act_draws)))
        over = np.zeros(self.worlds, dtype=bool)
        self.acting, actions, which, _ = self.choose(self.learning, self.acting, chance, seen, self.agent.middles(seen), over)
        return np.asarray(actions), np.asarray(which)


def _single(numbers: Any) -> Any:
    return np.asarray(numbers, np.float32)


def flat(networks: Sequence[Heads]) -> np.ndarray:
    """The parameters of networks in one row: of each network, the weights and biases of each layer in turn."""
    layers = [layer for network in networks for layer in zip(network.weights, network.biases, strict=True)]
    return np.concatenate([np.asarray(part, np.float32).ravel() for layer in layers for part in layer]) if layers else EMPTY


def _with_scales(stored: np.ndarray, critics: Critics) -> tuple[np.ndarray, Critics]:
    """The networks' part of a row of a result, and critics with the scales that stand behind it."""
    assert critics.scaling is not None
    ends = np.cumsum([part.size for part in critics.scaling])
    networks, scales = stored[: -ends[-1]], stored[-ends[-1] :]
    return networks, critics._replace(scaling=NetworkScaling(*map(jnp.asarray, np.split(scales.astype(np.float32), ends[:-1]))))


def filled(networks: Sequence[Heads], numbers: np.ndarray | None) -> tuple[Heads, ...]:
    """Networks of the same shapes with the parameters that `flat` gave."""
    if numbers is None or len(numbers) != len(flat(networks)):
        raise InputError("weights: the result has none of this behaviour's networks; run it again with this version of gvfx.")
    out, at = [], 0
    for network in networks:
        new: dict[str, list[Any]] = {"weights": [], "biases": []}
        for layer in zip(network.weights, network.biases, strict=True):
            for name, part in zip(new, layer, strict=True):
                new[name].append(jnp.asarray(numbers[at : at + part.size], jnp.float32).reshape(part.shape))
                at += part.size
        out.append(eqx.tree_at(lambda h: (h.weights, h.biases), network, (new["weights"], new["biases"])))
    return tuple(out)


def domain_questions(world: Domain, questions: Sequence[GVF]) -> tuple[tuple[Target, ...], tuple[float, ...], tuple[int, ...]]:
    """Target policies, discounts and the index of each question's task."""
    targets, discounts, signals = [], [], []
    for name, q in zip(question_names(questions), questions, strict=True):
        if not isinstance(q.cumulant, Signal) or q.cumulant.name not in world.tasks:
            raise InputError(f"{name}.cumulant: {world.name} has the signals {', '.join(world.tasks)}; use gvfx.Signal(name).")
        if not isinstance(q.policy, Target):
            raise InputError(f"{name}.policy: {world.name} has continuous actions; use gvfx_paper.Target.shipped(domain, task).")
        if q.policy.sizes != (world.observation_size, world.action_size):
            raise InputError(f"{name}.policy: {q.policy.name!r} has other sizes, {q.policy.sizes}; train it for {world.name}.")
        if callable(q.discount):
            raise InputError(f"{name}.discount: {world.name} takes a constant discount; give a number.")
        targets.append(q.policy)
        discounts.append(float(q.discount))
        signals.append(world.tasks.index(q.cumulant.name))
    return tuple(targets), tuple(discounts), tuple(signals)


def domain_truth(
    world: Domain, targets: tuple[Target, ...], discounts: tuple[float, ...], signals: tuple[int, ...]
) -> MujocoTruth:
    """The true values shipped with gvfx, or else by Monte Carlo (stored in the user's cache folder)."""
    if signals != tuple(range(len(world.tasks))) or len(set(discounts)) > 1:
        raise InputError("questions: give one question per task, in the tasks' order, with one discount.")
    return mujoco_truth(world, targets, discount=discounts[0], cache=Path.home() / ".cache" / "gvfx")
