"""Runs with continuous actions: a seed's whole run with measurements, snapshots and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.errors import InputError
from gvfx.learners.networks.twin_critics import TwinCritics
from gvfx.questions.cumulants import Signal
from gvfx.questions.gvf import GVF, question_names
from gvfx.questions.target_policies import Target
from gvfx.running.checkpoint import Checkpoints
from gvfx.running.evaluate import Part, Plan
from gvfx.running.record import Diverged, measured
from gvfx.worlds.control import Domain

if TYPE_CHECKING:
    from gvfx.running.streams.lockstep_loop import Staggered

RECORDED = ("mse", "episodes", "values", "variances", "behaviour")


class Truth(Protocol):
    """State-action points and their true values."""

    @property
    def observations(self) -> np.ndarray: ...  # [point, o]
    @property
    def actions(self) -> np.ndarray: ...  # [point, a]
    @property
    def values(self) -> np.ndarray: ...  # [point, gvf]


class LockstepRunner:
    """Everything that seeds share; calling it with a seed runs that seed."""

    def __init__(
        self,
        world: Domain,
        questions: Sequence[GVF],
        behaviour: Behaviour,
        learner: TwinCritics,
        plan: Plan,
        identity: str = "",
        truth: Truth | None = None,
    ) -> None:
        """truth: by default the domain's own, see `gvfx.truths.control`."""
        import jax

        from gvfx.learners.networks.critic_updates import Question
        from gvfx.running.streams.critic_agent import GVFAgent

        self.world, self.learner, self.plan, self.identity = world, learner, plan, identity
        self.names = question_names(questions)
        self.weights = np.array([q.weight for q in questions], dtype=float)
        targets, discounts, signals = ask(world, questions)
        for stop in plan.stops:
            if stop % learner.worlds:
                raise InputError(f"evaluate_every: measurements and snapshots must fall on multiples of {learner.worlds} steps.")
        self.truth = truth if truth is not None else truth_of(world, targets, discounts, signals)
        asked = Question(_single(discounts), signals, _single([target.sigma for target in targets]))
        self.agent = GVFAgent(world, targets, asked, _single(self.weights), behaviour, learner, plan.steps)
        self.predict = jax.jit(self.agent.predict)

    def __call__(
        self,
        seed: int,
        progress: Callable[[int, int, float], None] | None = None,
        checkpoints: Path | None = None,
        checkpoint_every: float = 60.0,
    ) -> Part:
        """Run a seed; with a folder for checkpoints, go on from the newest one there."""
        from gvfx.running.streams.lockstep_loop import Staggered

        stream = Staggered(self.world, self.agent, seed)
        record: dict[str, list] = {name: [] for name in RECORDED}
        keeper = Checkpoints(checkpoints, f"seed-{seed:04d}", f"{self.identity}/{seed}") if checkpoints else None
        stored = keeper.load() if keeper else None
        if stored:
            stream.restore(stored)
            record = {name: list(stored[f"record:{name}"]) for name in RECORDED}
        seconds, saved = 0.0, time.monotonic()
        for stop in [s for s in self.plan.stops if s > stream.t]:
            begun = time.perf_counter()
            while stream.t < stop:
                rows = stream.advance()
                self._check(stream, rows, seed)
            seconds += time.perf_counter() - begun
            self._measure(stream, stop, record)
            if progress and stop in self.plan.evaluations:
                progress(seed, stop, float(record["mse"][-1] @ self.weights / self.weights.sum()))
            if keeper and time.monotonic() - saved >= checkpoint_every and stop < self.plan.steps:
                tables = {f"record:{name}": np.array(values) for name, values in record.items()}
                keeper.save(stop, stream.arrays() | tables)
                saved = time.monotonic()
        if keeper:
            keeper.clear()
        return self._part(stream, record, seconds)

    def _check(self, stream: Staggered, rows: np.ndarray, seed: int) -> None:
        """Stop at the first number that is not finite."""
        columns = self.agent.columns
        kinds: list[tuple[str, Any, tuple[str, ...]]] = [("transition", rows.sum(), ())]
        if stream.losses is not None:
            losses = stream.losses
            kinds += [
                ("loss of Q", losses.q, self.names),
                ("loss of M", losses.m, self.names),
                ("actor's loss", losses.actor, ()),
            ]
        for what, values, names in kinds:
            values = np.atleast_1d(values)
            if np.isfinite(values).all():
                continue
            k = int(np.argmin(np.isfinite(values)))
            whose = f" of {names[k]!r}" if names else ""
            if what == "transition":
                seen = rows[:, columns.observation]
                what = "cumulant" if np.isfinite(seen).all() else "observation"
            raise Diverged(
                f"run: the {what}{whose} became {float(values[k])} at step {stream.t} (seed {seed}); "
                "lower the learning rate or look at the signal. The last good checkpoint is kept."
            )

    def _measure(self, stream: Staggered, stop: int, record: dict[str, list]) -> None:
        learning = stream.state.learning
        observations, actions = _single(self.truth.observations), _single(self.truth.actions)
        values = np.asarray(self.predict(learning.critics.q, observations, actions)).astype(float)
        if stop in self.plan.evaluations:
            record["mse"].append(((values - self.truth.values) ** 2).mean(axis=0))
            record["episodes"].append(stream.episodes)
        if stop in self.plan.snapshots:
            record["values"].append(values.T)
            keeps = learning.critics.m is not None
            variances = self.predict(learning.critics.m, observations, actions).T if keeps else np.empty(0)
            record["variances"].append(np.asarray(variances, float))
            record["behaviour"].append(self._middle_actions(learning, observations))

    def _middle_actions(self, learning: Any, observations: Any) -> np.ndarray:
        """Where the behaviour's own actor would act at the truth's points, [point, action]; nothing without one."""
        from gvfx.learners.networks.actor_critic import squashed_mean

        if learning.actor is None:
            return np.empty((len(observations), 0))
        return np.asarray(squashed_mean(learning.actor.actor, observations)).astype(float)

    def _part(self, stream: Staggered, record: dict[str, list], seconds: float) -> Part:
        visits = np.zeros((len(self.plan.snapshots), len(self.truth.values), 0), np.int64)
        truth, actor = np.asarray(self.truth.values, float).T, stream.state.learning.actor
        return measured(
            self.plan, record, truth, seconds, visits=visits, actor=np.empty(0) if actor is None else flat(actor.actor)
        )


def _single(numbers: Any) -> Any:
    return np.asarray(numbers, np.float32)


def flat(network: Any) -> np.ndarray:
    """A network's numbers in one row: the weights and biases of each layer in turn."""
    layers = zip(network.weights, network.biases, strict=True)
    return np.concatenate([np.asarray(part, np.float32).ravel() for layer in layers for part in layer])


def ask(world: Domain, questions: Sequence[GVF]) -> tuple[tuple[Target, ...], tuple[float, ...], tuple[int, ...]]:
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


def truth_of(world: Domain, targets: tuple[Target, ...], discounts: tuple[float, ...], signals: tuple[int, ...]) -> Truth:
    """Shipped with gvfx where it has it, else by Monte Carlo (kept in the user's cache folder)."""
    from gvfx.truths.control import control_truth

    if signals != tuple(range(len(world.tasks))) or len(set(discounts)) > 1:
        raise InputError("questions: ask one question per task, in the tasks' order, with one discount.")
    return control_truth(world, targets, discount=discounts[0], cache=Path.home() / ".cache" / "gvfx")
