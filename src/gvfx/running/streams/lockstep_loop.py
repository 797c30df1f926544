"""Staggered worlds in lockstep: one agent acts in all of them and learns, in one compiled call per vector step.

A vector step makes one control step in every world.  The worlds begin at different ages, so that their truncations are
spread evenly; a truncated world is reset, and its last transition bootstraps like all others.  The compiled call writes the
transitions to the replay buffer in one slice, gathers the batches of all updates in one indexing operation, updates, and
chooses the next actions.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.learners.networks import replay as memory
from gvfx.learners.networks import retrace
from gvfx.learners.networks.actor_critic import normals
from gvfx.running.checkpoint import flatten, unflatten
from gvfx.running.streams.xla import start_jax
from gvfx.worlds.mujoco import Domain, Lockstep

STREAMS = ("behaviour", "updates")  # besides "environment" and "networks", which NumPy draws


class Described(Protocol):
    """The options of a learner that the loop reads."""

    @property
    def worlds(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def updates(self) -> int: ...
    @property
    def learning_starts(self) -> int: ...


class LockstepAgent(Protocol):
    """Acts and learns; all functions are pure JAX.

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

    described: Any
    columns: memory.Columns
    act_draws: int
    learn_draws: int

    def begin(self, generator: np.random.Generator) -> Any: ...
    def begin_acting(self) -> Any: ...
    def begin_aims(self) -> retrace.Aims | None: ...
    def prepare(self, learning: Any, rows: np.ndarray) -> Any: ...
    def see(self, learning: Any, rows: jax.Array) -> Any: ...
    def annotate(self, rows: jax.Array, acting: Any) -> jax.Array: ...
    def learn(self, learning: Any, batches: jax.Array, noise: jax.Array) -> tuple[Any, Any]: ...
    def act(
        self, learning: Any, acting: Any, learns: bool, chance: jax.Array, observations: jax.Array, over: jax.Array
    ) -> tuple[Any, jax.Array]: ...


class LockstepState(NamedTuple):
    """The state that the compiled call updates."""

    keys: jax.Array  # [stream] random keys
    learning: Any
    acting: Any
    replay: memory.Replay
    actions: jax.Array  # [world, action] to be taken next
    aims: retrace.Aims | None  # the stored transitions' targets, for agents with `trace`


class Staggered:
    """One seed's stream of experience and what is learned from it."""

    def __init__(self, domain: Domain, agent: LockstepAgent, seed: int) -> None:
        start_jax()
        self.domain, self.agent, self.seed = domain, agent, seed
        described: Described = agent.described
        self.worlds = described.worlds
        self.learning_starts = max(described.learning_starts, 2 * self.worlds)  # scales and targets need stored transitions
        self.simulator = Lockstep(domain, self.worlds)
        self.t = 0  # environment steps done, all worlds together
        self.episodes = 0
        self.ages = np.arange(self.worlds) * domain.horizon // self.worlds
        self.observations = self.simulator.reset(self._generator("environment")).astype(np.float32)
        self.losses: Any = None  # the losses of the last update
        self._silent = _compiled(agent, _store)
        self._learning = _compiled(agent, _store_and_learn)
        learning = jax.tree.map(jnp.array, agent.begin(self._generator("networks")))  # target networks are copies
        replay = memory.empty(described.capacity, agent.columns.width, False)
        unset = jnp.zeros((self.worlds, domain.action_size))
        aims = agent.begin_aims()
        self.state = LockstepState(_named_keys(seed), learning, agent.begin_acting(), replay, unset, aims)
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

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that the rest of the run depends on."""
        return {
            **{f"state:{name}": leaf for name, leaf in flatten(self.state).items()},
            "count": np.array([self.t, self.episodes], np.int64),
            "ages": self.ages,
            "observations": self.observations,
            "simulator": self.simulator.get_state(),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from arrays that `arrays` returned."""
        self.state = unflatten(self.state, {k[6:]: v for k, v in arrays.items() if k.startswith("state:")})
        self.t, self.episodes = (int(n) for n in arrays["count"])
        self.ages, self.observations = arrays["ages"].copy(), arrays["observations"].copy()
        self.simulator.set_state(arrays["simulator"])
        self.refreshed = int(self.state.aims.until) if self.state.aims is not None else 0


def _named_keys(seed: int) -> jax.Array:
    """One key per named stream, from the seed and the stream's name alone."""
    return jnp.stack([jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode())) for name in STREAMS])


def _compiled(agent: LockstepAgent, function: Any) -> Any:
    """A function of an agent and a state, compiled once per agent."""
    known: dict[Any, Any] = agent.__dict__.setdefault("compiled", {})
    if function not in known:
        known[function] = jax.jit(partial(function, agent), donate_argnums=0)
    return known[function]


def _begin(agent: LockstepAgent, state: LockstepState, observations: jax.Array) -> LockstepState:
    """The first actions."""
    keep, (chance, _) = _chance(agent, state.keys)
    over = jnp.zeros(len(observations), bool)
    acting, actions = agent.act(state.learning, state.acting, False, chance, observations, over)
    return state._replace(keys=keep, acting=acting, actions=actions)


def _store(
    agent: LockstepAgent, state: LockstepState, rows: jax.Array, onward: jax.Array, over: jax.Array
) -> tuple[LockstepState, None]:
    """Store the transitions without learning."""
    keep, (chance, _) = _chance(agent, state.keys)
    replay = memory.write(state.replay, agent.annotate(rows, state.acting))
    learning = agent.see(state.learning, rows)
    acting, actions = agent.act(learning, state.acting, False, chance, onward, over)
    return state._replace(keys=keep, learning=learning, acting=acting, replay=replay, actions=actions), None


def _store_and_learn(
    agent: LockstepAgent, state: LockstepState, rows: jax.Array, onward: jax.Array, over: jax.Array
) -> tuple[LockstepState, Any]:
    """Store the transitions, then make all updates."""
    keep, (chance, many) = _chance(agent, state.keys)
    replay = memory.write(state.replay, agent.annotate(rows, state.acting))
    learning, losses = learn_from(agent, agent.see(state.learning, rows), replay, many, state.aims)
    acting, actions = agent.act(learning, state.acting, True, chance, onward, over)
    return state._replace(keys=keep, learning=learning, acting=acting, replay=replay, actions=actions), losses


def _refresh(agent: Any, state: LockstepState) -> LockstepState:
    """Compute the stored transitions' targets anew."""
    assert state.aims is not None
    key = jax.random.fold_in(state.keys[STREAMS.index("updates")], 1)
    critics, worlds = state.learning.critics, agent.described.worlds
    return state._replace(aims=retrace.refreshed(agent.critics, critics, state.replay, state.aims, key, worlds, -1))


def learn_from(agent: Any, learning: Any, replay: memory.Replay, many: jax.Array, aims: retrace.Aims | None) -> tuple[Any, Any]:
    """All updates of a vector step on batches from the replay buffer; many [update, batch, 1 + draw] is uniform in (-1, 1)."""
    chance = 0.5 + 0.5 * many[..., 0].ravel()
    if aims is None:
        index = memory.sample_uniform(replay, chance)
        return agent.learn(learning, replay.rows[index].reshape(*many.shape[:2], -1), normals(many[..., 1:]))
    index = retrace.sample(replay, aims, chance)
    batches, targets = (x[index].reshape(*many.shape[:2], -1) for x in (replay.rows, aims.values))
    return agent.learn_stored(learning, batches, targets, normals(many[..., 1:]))


def _chance(agent: LockstepAgent, keys: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The streams' next keys; uniform numbers in (-1, 1) for acting [world, draw] and updating [update, batch, 1 + draw].

    All of a stream's numbers are drawn at once, because every call of a random function costs a second of compilation.
    """
    keep, used = jax.vmap(jax.random.split, out_axes=1)(keys)
    d = agent.described
    shapes = ((d.worlds, agent.act_draws), (d.updates, d.batch, 1 + agent.learn_draws))
    low = float(np.nextafter(np.float32(-1), np.float32(0)))
    drawn = [jax.random.uniform(key, shape, minval=low, maxval=1.0) for key, shape in zip(used, shapes, strict=True)]
    return keep, (drawn[0], drawn[1])
