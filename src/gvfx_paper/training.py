"""Training of target policies: TD3 with snapshots, of which a mid-level one is kept (paper, App. MuJoCo).

A snapshot's return is the mean over `EPISODES` episodes of the *noisy* policy; its spread is their standard deviation.
Mid-level is a return of 300 to 600 out of 1000.  Training stops at the first good snapshot, which is mid-level with a spread
of at most `SMALL_SPREAD`, or when two snapshots in a row are above mid-level.  If there is no good snapshot within `longest`
steps, the mid-level snapshot with the smallest spread is kept.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gvfx.errors import InputError, UnknownName
from gvfx.files import check_writable, write_whole
from gvfx.learners.networks.critic_updates import Twins, both, normals, twin_critics
from gvfx.learners.networks.deep_updates import ReplayColumns, columns
from gvfx.learners.networks.heads import Heads
from gvfx.threads import one_thread
from gvfx_paper.loops.critics_lockstep import LockstepAgent, Staggered
from gvfx_paper.targets import SIGMA, Layers, actor, write_target
from gvfx_paper.worlds.mujoco import Domain, Lockstep

# --- TD3 (Fujimoto et al. 2018): trains the target policies of the MuJoCo experiments (paper, App. MuJoCo) ----------
# Twin critics with one output, a deterministic actor tanh(network), noise on the target's action, and an actor that
# is updated every `delay` critic updates.  Episodes never terminate: targets always bootstrap.


class TD3Learning(NamedTuple):
    """The networks, their target networks, and the optimisers' states."""

    actor: Heads
    critics: Twins
    target_actor: Heads
    target_critics: Twins
    adam_actor: Any
    adam_critics: Any


@dataclass(frozen=True)
class TD3:
    """`updates` critic updates per vector step of `worlds` worlds; uniform actions until `learning_starts` steps."""

    hidden: tuple[int, ...] = (128, 128)
    batch: int = 256
    capacity: int = 640_000
    updates: int = 4
    worlds: int = 16
    learning_starts: int = 4_000
    rate: float = 1e-3
    discount: float = 0.99
    tau: float = 0.005
    exploration: float = 0.2  # standard deviation of the noise on the actor's action
    smoothing: float = 0.2  # of the noise on the target's action, clipped at `smoothing_clip`
    smoothing_clip: float = 0.5
    delay: int = 2


class TD3Agent(LockstepAgent):
    """TD3's functions for one task: begin, act and learn."""

    def __init__(self, described: TD3, columns: ReplayColumns, task: int) -> None:
        self.described, self.columns, self.task = described, columns, task
        self.adam = optax.adam(described.rate)
        self.act_draws = self.learn_draws = columns.sizes[1]

    def begin(self, generator: np.random.Generator) -> TD3Learning:
        size, actions = self.columns.sizes
        actor = Heads(generator, size, self.described.hidden, (actions,))
        critics = twin_critics(generator, size + actions, self.described.hidden, 1)
        return TD3Learning(actor, critics, actor, critics, self.adam.init(actor), self.adam.init(critics))

    def act(
        self, learning: TD3Learning, acting: tuple, learns: bool, chance: jax.Array, observations: jax.Array, over: jax.Array
    ) -> tuple[tuple, jax.Array]:
        """The actor with exploration noise; uniform actions before learning starts."""
        if not learns:
            return acting, chance
        noise = self.described.exploration * normals(chance)
        return acting, jnp.clip(jnp.tanh(learning.actor(observations)) + noise, -1, 1)

    def learn(self, learning: TD3Learning, batches: jax.Array, noise: jax.Array) -> tuple[TD3Learning, jax.Array]:
        """Updates on batches [updates, batch, columns] with normal noise; also returns the critics' last loss, []."""
        delay = self.described.delay

        def group(learning: TD3Learning, each: tuple) -> tuple[TD3Learning, jax.Array]:
            rows, noise = each
            for k in range(delay):
                learning, loss = self.update_critics(learning, rows[k], noise[k])
            return self.update_actor(learning, rows[-1]), loss

        groups = (batches.reshape(-1, delay, *batches.shape[1:]), noise.reshape(-1, delay, *noise.shape[1:]))
        learning, losses = jax.lax.scan(group, learning, groups)
        return learning, losses[-1]

    def critic_target(self, learning: TD3Learning, rows: jax.Array, noise: jax.Array) -> jax.Array:
        """c + gamma * min over the twins of Q(s', a'), [batch]; a' is the target actor's action with clipped noise."""
        d, following = self.described, rows[:, self.columns.following]
        noise = jnp.clip(d.smoothing * noise, -d.smoothing_clip, d.smoothing_clip)
        action = jnp.clip(jnp.tanh(learning.target_actor(following)) + noise, -1, 1)
        cumulant = rows[:, self.columns.cumulants][:, self.task]
        return cumulant + d.discount * both(learning.target_critics, following, action).min(axis=0)[:, 0]

    def update_critics(self, learning: TD3Learning, rows: jax.Array, noise: jax.Array) -> tuple[TD3Learning, jax.Array]:
        target = self.critic_target(learning, rows, noise)

        def loss(critics: Twins) -> jax.Array:
            values = both(critics, rows[:, self.columns.observation], rows[:, self.columns.action])[..., 0]
            return ((target - values) ** 2).mean(axis=1).sum()

        value, gradient = jax.value_and_grad(loss)(learning.critics)
        change, adam = self.adam.update(gradient, learning.adam_critics)
        return learning._replace(critics=optax.apply_updates(learning.critics, change), adam_critics=adam), value

    def update_actor(self, learning: TD3Learning, rows: jax.Array) -> TD3Learning:
        observation = rows[:, self.columns.observation]

        def loss(actor: Heads) -> jax.Array:
            x = jnp.concatenate([observation, jnp.tanh(actor(observation))], axis=1)
            return -learning.critics[0](x).mean()

        change, adam = self.adam.update(jax.grad(loss)(learning.actor), learning.adam_actor)
        learning = learning._replace(actor=optax.apply_updates(learning.actor, change), adam_actor=adam)
        tau = self.described.tau
        slow = optax.incremental_update((learning.actor, learning.critics), (learning.target_actor, learning.target_critics), tau)
        return learning._replace(target_actor=slow[0], target_critics=slow[1])


EPISODES = 16
SNAPSHOT_EVERY = 20_000  # environment steps
MID_LEVEL = (300.0, 600.0)
SMALL_SPREAD = 150.0
LONGEST = 640_000


@dataclass(frozen=True)
class PolicySnapshot:
    """A policy during training: its step, the mean and spread of its returns, and its layers."""

    steps: int
    mean: float
    spread: float
    layers: Layers

    @property
    def mid_level(self) -> bool:
        return MID_LEVEL[0] <= self.mean <= MID_LEVEL[1]

    @property
    def good(self) -> bool:
        return self.mid_level and self.spread <= SMALL_SPREAD


@one_thread()
def train_targets(
    domain: Domain,
    task: str,
    seed: int,
    folder: Path,
    progress: Callable[[PolicySnapshot], None] | None = None,
    learner: TD3 | None = None,
    longest: int = LONGEST,
) -> Path:
    """Train a policy for a task and write the chosen snapshot and the learning curve; returns the policy's path.

    <folder>/<domain>-<task>.safetensors is the policy, <domain>-<task>.json the curve of all snapshots.
    """
    if task not in domain.tasks:
        raise UnknownName("task", task, domain.tasks)
    path = folder / f"{domain.name}-{task}.safetensors"
    check_writable(path, "folder")  # before hours of training
    learner = learner or TD3()
    layout = columns(domain.observation_size, domain.action_size, len(domain.tasks))
    stream = Staggered(domain, TD3Agent(learner, layout, domain.tasks.index(task)), seed)
    taken: list[PolicySnapshot] = []
    while stream.t < longest and not _enough(taken):
        stream.advance()
        if stream.t % SNAPSHOT_EVERY == 0:
            net = stream.state.learning.actor
            layers = tuple((np.array(w), np.array(b)) for w, b in zip(net.weights, net.biases, strict=True))
            returns = noisy_returns(domain, layers, seed, EPISODES)[:, domain.tasks.index(task)]
            taken.append(PolicySnapshot(stream.t, float(returns.mean()), float(returns.std(ddof=1)), layers))
            if progress:
                progress(taken[-1])
    candidates = [s for s in taken if s.mid_level]
    if not candidates:
        best = f"best return {max((s.mean for s in taken), default=0.0):.0f}"
        raise InputError(f"task: {task!r} had no mid-level snapshot in {longest} steps ({best}); try another seed.")
    chosen = min(candidates, key=lambda s: s.spread)
    facts = {
        "domain": domain.name,
        "task": task,
        "return": f"{chosen.mean:.1f}",
        "spread": f"{chosen.spread:.1f}",
        "episodes": str(EPISODES),
        "sigma": str(SIGMA),
        "seed": str(seed),
        "steps": str(chosen.steps),
        "command": f"gvfx train-targets {domain.name} {task} --seed {seed}",
    }
    write_target(path, [w for w, _ in chosen.layers], [b for _, b in chosen.layers], facts)
    curve = [{"steps": s.steps, "return": round(s.mean, 1), "spread": round(s.spread, 1)} for s in taken]
    write_whole(path.with_suffix(".json"), (json.dumps({**facts, "curve": curve}, indent=1) + "\n").encode())
    return path


def _enough(taken: list[PolicySnapshot]) -> bool:
    """Whether the last snapshot is good, or the last two are above mid-level and a mid-level one was found before."""
    outgrown = len(taken) > 1 and min(s.mean for s in taken[-2:]) > MID_LEVEL[1]
    return bool(taken) and (taken[-1].good or (outgrown and any(s.mid_level for s in taken)))


@one_thread()
def noisy_returns(domain: Domain, layers: Layers, seed: int, episodes: int, sigma: float = SIGMA) -> np.ndarray:
    """Undiscounted returns [episode, task] of clip(actor + N(0, sigma^2)) over whole episodes."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(b"returns"),)))
    worlds = Lockstep(domain, episodes)
    observations = worlds.reset(generator)
    total = np.zeros((episodes, len(domain.tasks)))
    for _ in range(domain.horizon):
        noise = generator.standard_normal((episodes, domain.action_size))
        observations, cumulants = worlds.step(actor(layers, observations) + sigma * noise)
        total += cumulants
    return total
