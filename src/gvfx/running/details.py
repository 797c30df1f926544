"""All that is known about the runs of a result: arrays, description, evidence, and what follows from them directly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import refusal, standard_errors
from gvfx.running.predictor import Predictor, TablePredictor
from gvfx.running.schema import ARRAYS, Array, Named, Snapshot
from gvfx.threads import one_thread
from gvfx.types import Described


@dataclass(frozen=True, eq=False)
class Details(Named):
    """Everything that a result holds (`result.details`); an array that the run does not have is None.

    Arrays of states are those of the last snapshot.  `extra` has by name the levels of drifting cumulants, "levels", and what a
    world adds (`gvfx.running.schema.declare`).
    """

    known: ClassVar[dict[str, Array]] = {each.in_result: each for each in ARRAYS.values() if each.when != "k"}
    names: tuple[str, ...]  # of the questions
    weights: np.ndarray  # [gvf] of the questions
    seeds: tuple[int, ...]  # that were run
    snapshots: tuple[Snapshot, ...]  # at the chosen times; the last is the end of the run
    held: dict[str, np.ndarray]  # the arrays by name; they are attributes
    experiment: Described = field(default_factory=dict)  # how the run was made, and what was found out about it
    made_of: Described | None = None  # the content of the questions' functions (`gvfx.running.checkpoint`), if the run kept it
    models: tuple[Empirical, ...] = ()  # one per seed: the evidence at the end, if the run kept it (not saved)
    predictor: Predictor = field(default_factory=TablePredictor)  # predicts at observations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.snapshots[-1], name) if name in Snapshot.known else super().__getattr__(name)

    def _without(self, missing: Array) -> None:
        return None

    @property
    def points(self) -> np.ndarray | None:
        """For networks: the observations [point, o] at which the tables are given; a "state" is then one of them."""
        return self.predictor.points

    @property
    def standard_errors(self) -> np.ndarray:
        """Of the values (or their spread), [seed, gvf, state]; empty without any."""
        kept: np.ndarray | None = self.snapshots[-1].standard_errors
        if kept is not None:
            return kept
        return np.stack([standard_errors(m) for m in self.models])[..., : self.values.shape[2]] if self.models else np.empty(0)

    @property
    @one_thread()
    def error(self) -> np.ndarray:
        """Weighted mean of the GVFs' squared errors, [seed, t]; plain mean with equal weights."""
        error: np.ndarray = self.mse @ (self.weights / self.weights.sum())
        return error

    @property
    def answers(self) -> np.ndarray:
        """The values [seed, gvf, state] with NaN where no seed ever tried anything (terminal states have a standard error of
        0), and in logs where nothing was tried that a question's policy does."""
        errors = self.snapshots[-1].standard_errors
        if self.points is not None or errors is None:
            return np.asarray(self.values)
        never = (self.visits.sum(axis=(0, 2)) == 0) & np.isinf(errors).all(axis=(0, 1))
        untried = self.snapshots[-1].untried
        return np.where(never if untried is None else never | untried, np.nan, self.values)

    @property
    def diverged(self) -> tuple[int, ...]:
        """The seeds of a stored result whose runs diverged: all their numbers are NaN."""
        return tuple(self.experiment.get("diverged", ()))  # type: ignore[arg-type]

    @property
    def choices(self) -> tuple[str, ...]:
        """The labels of the last axis of `visits`: actions, or with Box actions whose policy was followed."""
        return self.predictor.choices(self.names, self.visits.shape[2])

    def policy(self, name: str, seed: int | None = None) -> np.ndarray:
        """A question's policy at the end [state, action], of one seed or averaged; only if policies were found during the run."""
        policies = self.snapshots[-1].policies
        if policies is None:
            raise InputError("policy: all policies of this run were given; only own_greedy() and own_softmax(...) are found.")
        if name not in self.names:
            raise InputError(f"name: {name!r} is not a question of this run; choose from {', '.join(self.names)}.")
        if seed is not None and seed not in self.seeds:
            raise InputError(f"seed: {seed!r} was not run; choose from {', '.join(map(str, self.seeds))}.")
        each: np.ndarray = policies[:, self.names.index(name)]
        return each.mean(axis=0) if seed is None else each[self.seeds.index(seed)]

    @property
    def collect(self) -> list[Described]:
        """What to collect next, of a log: choices (observation, action), most useful first, how often each was seen, and its
        gain: by how much one more sample would reduce the mean squared error (each counts as seen once more than it was).

        `pandas.DataFrame(result.details.collect)` is a table of them.  With continuous observations a choice is an action around
        an observation.  Empty for other results.
        """
        found: Any = self.experiment.get("collect", [])
        return list(found)

    @property
    def unseen(self) -> np.ndarray | None:
        """Each question's chance to meet a state that was never seen, discounted, over the evaluation states, [gvf].

        Of the seed for which it is largest; None if the run kept no counts.
        """
        chance: Any = self.experiment.get("unseen")
        return np.array([chance[name] for name in self.names]) if chance else None

    @property
    def error_bars(self) -> Literal["posterior", "asymptotic", "half-samples", "spread", "none"]:
        """Of which kind the error bars are.

        posterior (tables), asymptotic (large tables) and half-samples (with continuous observations): intervals;
        spread: the disagreement of networks' heads, which is not an interval; none.
        """
        if self.snapshots[-1].sides is not None:
            return "posterior"
        some = self.snapshots[-1].standard_errors is not None or (bool(self.models) and not any(map(refusal, self.models)))
        return self.predictor.error_bars if some else "none"

    @property
    def has_intervals(self) -> bool:
        """Whether `result.intervals` is available."""
        return self.error_bars in ("posterior", "asymptotic", "half-samples")

    def spread(self, observation: object = None) -> np.ndarray:
        """The standard deviation of the predictions of networks' bootstrapped heads, [gvf] at an observation or [gvf, point].

        A rough idea of what another sample of the transitions would change.  It is not an interval: what all heads miss
        together it does not show.
        """
        if self.error_bars != "spread":
            raise InputError("spread: only networks with bootstrapped heads have one; use gvfx.Deep(heads=5).")
        errors = self.standard_errors
        if observation is not None:
            errors = self.predictor.at(observation, self.values, errors)[1]
        return np.sqrt((errors**2).mean(axis=0))

    def to_json(self) -> Described:
        """The curves and a summary as plain data."""
        error, levels = self.error, self.extra["levels"]
        return {
            "experiment": self.experiment,
            "names": list(self.names),
            "weights": self.weights.tolist(),
            "seeds": list(self.seeds),
            "steps": self.steps.tolist(),
            "mse": self.mse.tolist(),
            "levels": levels.tolist() if levels.any() else None,
            "episodes": self.episodes.tolist(),
            "seconds": self.seconds.tolist(),
            "final": {
                "error": error[:, -1].mean(),
                "standard_error": float(standard_error(error[:, -1])),
                "mse": dict(zip(self.names, self.mse[:, -1].mean(axis=0).tolist(), strict=True)),
            },
        }


def standard_error(samples: np.ndarray) -> Any:
    """Standard error of the mean over seeds (axis 0); 0 for a single seed."""
    if len(samples) < 2:
        return np.zeros(samples.shape[1:])[()]
    return samples.std(axis=0, ddof=1) / len(samples) ** 0.5
