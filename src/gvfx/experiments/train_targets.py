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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.files import check_writable, write_whole
from gvfx.learners.networks.replay import columns
from gvfx.learners.networks.td3 import TD3, TD3Agent
from gvfx.questions.target_policies import SIGMA, Layers, actor, write_target
from gvfx.running.streams.lockstep_loop import Staggered
from gvfx.threads import one_thread
from gvfx.worlds.mujoco import Domain, Lockstep

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
    with suppress(OSError):  # which is named next
        folder.mkdir(parents=True, exist_ok=True)
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
        best = max((s.mean for s in taken), default=0.0)
        raise InputError(
            f"task: {task!r} had no mid-level snapshot in {longest} steps (best return {best:.0f}); try another seed."
        )
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
