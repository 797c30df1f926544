"""Twin critics in MuJoCo: many worlds stepped together, with one compiled call per vector step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import Diverged, InputError
from gvfx.learners.networks.critic_updates import Critics, Question, Scaling
from gvfx.learners.networks.heads import Heads
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.target_policies import Target
from gvfx.running.drive import Backend, Stream
from gvfx.running.plan import Plan
from gvfx.running.record import EMPTY, Measurement
from gvfx.running.streams.critic_agent import CriticLearning, GVFAgent
from gvfx.running.streams.lockstep_loop import Staggered
from gvfx.running.streams.xla import start_jax
from gvfx.truths.mujoco import mujoco_truth
from gvfx.worlds.mujoco import Domain


class Truth(Protocol):
    """State-action points and their true values."""

    @property
    def observations(self) -> np.ndarray: ...  # [point, o]
    @property
    def actions(self) -> np.ndarray: ...  # [point, a]
    @property
    def values(self) -> np.ndarray: ...  # [point, gvf]


class CriticsLockstep(Backend):
    """What the seeds share: the agent's compiled functions and the true values."""

    def __init__(
        self,
        world: Domain,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: TwinCritics,
        plan: Plan,
        truth: Truth | None = None,
    ) -> None:
        """truth: true values to measure against (default: the domain's, see `gvfx.truths.mujoco`)."""
        self.world, self.behaviour, self.learner, self.plan = world, behaviour, learner, plan
        self.names = question_names(questions)
        self.weights = np.array([q.weight for q in questions], dtype=float)
        targets, discounts, signals = domain_questions(world, questions)
        for stop in plan.stops:
            if stop % learner.worlds:
                raise InputError(f"evaluate_every: measurements and snapshots must fall on multiples of {learner.worlds} steps.")
        self.truth = truth if truth is not None else domain_truth(world, targets, discounts, signals)
        asked = Question(_single(discounts), signals, _single([target.sigma for target in targets]))
        self.agent = GVFAgent(world, targets, asked, _single(self.weights), behaviour, learner, plan.steps)
        self.answers, self.predict = jax.jit(self.agent.answers), jax.jit(self.agent.predict, static_argnums=4)

    def begin(self, seed: int) -> LockstepCritics:
        return LockstepCritics(self, seed)


class LockstepCritics(Stream):
    """One seed: the worlds, and the agent that acts in them."""

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

    def state(self) -> dict[str, np.ndarray]:
        return self.worlds.arrays()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.worlds.restore(dict(arrays))
        self.t = self.worlds.t

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
    return networks, critics._replace(scaling=Scaling(*map(jnp.asarray, np.split(scales.astype(np.float32), ends[:-1]))))


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
            raise InputError(f"{name}.policy: {world.name} has continuous actions; use gvfx.Target.shipped(domain, task).")
        if q.policy.sizes != (world.observation_size, world.action_size):
            raise InputError(f"{name}.policy: {q.policy.name!r} has other sizes, {q.policy.sizes}; train it for {world.name}.")
        if callable(q.discount):
            raise InputError(f"{name}.discount: {world.name} takes a constant discount; give a number.")
        targets.append(q.policy)
        discounts.append(float(q.discount))
        signals.append(world.tasks.index(q.cumulant.name))
    return tuple(targets), tuple(discounts), tuple(signals)


def domain_truth(world: Domain, targets: tuple[Target, ...], discounts: tuple[float, ...], signals: tuple[int, ...]) -> Truth:
    """The true values shipped with gvfx, or else by Monte Carlo (stored in the user's cache folder)."""
    if signals != tuple(range(len(world.tasks))) or len(set(discounts)) > 1:
        raise InputError("questions: give one question per task, in the tasks' order, with one discount.")
    return mujoco_truth(world, targets, discount=discounts[0], cache=Path.home() / ".cache" / "gvfx")
