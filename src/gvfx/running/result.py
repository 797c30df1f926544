"""The result of an evaluation: predictions, learning curves and intervals; and all else that is known about its runs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from gvfx.errors import InputError, StoreError, unwritten
from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import refusal, standard_errors
from gvfx.evidence.unseen import Unseen, frontier, untried
from gvfx.files import check_writable, write_whole
from gvfx.inputs import check_level, checked
from gvfx.running.checkpoint import KEPT
from gvfx.running.comparing import Comparison, compared, difference_errors
from gvfx.running.predictor import Predictor, TablePredictor
from gvfx.running.schema import ARRAYS, Array, Named, Part, Snapshot, array
from gvfx.running.starts import Check, Value, checks_at_start, start_rows, values_at_start
from gvfx.running.summary import bars_of, notebook, plotted, start_comes_first, summary_of
from gvfx.tensors import pack
from gvfx.threads import one_thread
from gvfx.types import Described

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


FORMAT, VERSION = "gvfx result", "1"  # of saved files
MOVED = {"levels": "levels", "mse_outside": "mse_outside", "actors": "actor", "critics": "critics"}  # into `details.extra`


@dataclass(frozen=True, eq=False)
class Details(Named):
    """Everything that a result holds (`result.details`); an array that the run does not have is None.

    Arrays of states are those of the last snapshot.  `extra` has by name the levels of drifting cumulants, "levels", and what a
    world adds (`gvfx.running.schema.declare`).
    """

    known: ClassVar[dict[str, Array]] = {each.in_result: each for each in ARRAYS.values() if each.when != "k"}
    optional: ClassVar[bool] = True
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
        return self.predictor.bars.kind if some else "none"

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


@dataclass(frozen=True, eq=False)
class Result:
    """Answers of one behaviour and learner to one set of questions, with learning curves, for several seeds."""

    details: Details = field(repr=False)  # all else that is known about the runs
    names: tuple[str, ...] = field(init=False)  # of the questions
    seeds: tuple[int, ...] = field(init=False)  # that were run
    steps: np.ndarray = field(init=False)  # [t] evaluation times
    mse: np.ndarray = field(init=False)  # [seed, t, gvf] mean squared error of every question, NaN if the truth is not known
    values: np.ndarray = field(init=False)  # [seed, gvf, state] predicted values at the end
    visits: np.ndarray = field(init=False)  # [seed, state, action] how often each action was taken in each state
    stopped: np.ndarray | None = field(init=False)  # [seed] steps done, with a stopping rule
    reached: np.ndarray | None = field(init=False)  # [seed] bool: whether the rule's bound on the error was below the target

    def __post_init__(self) -> None:
        for each in fields(self)[1:]:
            object.__setattr__(self, each.name, getattr(self.details, each.name))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What results of earlier versions had themselves."""
            if name == "details" or name.startswith("_") or (not hasattr(self.details, name) and name not in MOVED):
                raise AttributeError(f"a result has no {name!r}")
            place = f"extra[{MOVED[name]!r}]" if name in MOVED else name
            warnings.warn(
                f"result.{name}: is now result.details.{place}; the old name answers until 0.4.",
                DeprecationWarning,
                stacklevel=2,
            )
            return self.details.extra.get(MOVED[name]) if name in MOVED else getattr(self.details, name)

    @property
    def error(self) -> np.ndarray:
        """Weighted mean of the questions' squared errors, [seed, t]; plain mean with equal weights."""
        return self.details.error

    @one_thread()
    def predict(self, observation: object, action: object = None) -> np.ndarray:
        """Predictions [gvf] at an observation (or [gvf, ...] at a batch of them), averaged over seeds.

        NaN in a state in which nothing was ever tried, if the learner has standard errors.

        action: for Box actions, a first action (or one per observation) before the questions' policies are followed.
        """
        if action is not None:
            return self.details.predictor.action_values(observation, action)
        return self.details.predictor.at(observation, self.details.answers, np.empty(0))[0].mean(axis=0)

    def value(self, level: float = 0.95) -> dict[str, Value]:
        """The value at the start of every question, by name: value, interval (low, high) and truth.

        The start is the distribution of first states: the world's own where it is known, else that of the episodes of the run,
        whose chance the interval includes.  Low and high are infinite where `intervals` would be, NaN for learners without
        intervals; networks have a spread instead.  In a run with audits, value and interval are those of the audits; in a
        log of states only where they are infinite otherwise.
        """
        return values_at_start(self.details, level)

    def audit(self, level: float = 0.95) -> dict[str, Check]:
        """What the run's audits say about every question's value at the start: by how much the answer is off, with an interval
        (docs/audits.md)."""
        return checks_at_start(self.details, level)

    @checked
    def compare(
        self,
        policies: Sequence[str] | None = None,
        signal: str | None = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        lower_is_better: bool = False,
    ) -> Comparison:
        """Which policy is better by its value at the start: all pairs of policies per signal, and a ranking.

        policies, signal: names of policies and of one signal, or of their questions; by default all (docs/which-policy.md).
        simultaneous:     widen the intervals so that all of them hold together with probability `level`, not each.
        lower_is_better:  the policy with the smallest value comes first, as for costs, falls or waiting times.
        """
        return compared(self.details, policies, signal, level, simultaneous, lower_is_better)

    def rows(self) -> list[Described]:
        """One row per question and state (or point): prediction, its standard error over seeds, interval, truth, visits.

        With where="start" the first row of every question is its value at the start.
        """
        lead = start_rows(self.value()) if start_comes_first(self.details) else []
        predicted, error = self.details.answers.mean(axis=0), standard_error(self.values)
        truth, visits = self.details.truth.mean(axis=0), self.visits.sum(axis=(0, 2))
        between, spread = bars_of(self)
        between = np.full((*predicted.shape, 2), np.nan) if between is None else between
        return lead + [
            {
                "question": name,
                "observation": self.details.predictor.label(s),
                "prediction": float(predicted[i, s]),
                "standard_error": float(error[i, s]) if len(self.seeds) > 1 else None,
                "low": float(between[i, s, 0]) if np.isfinite(between[i, s, 0]) else None,
                "high": float(between[i, s, 1]) if np.isfinite(between[i, s, 1]) else None,
                "truth": None if np.isnan(truth[i, s]) else float(truth[i, s]),
                "visits": int(visits[s]),
                **({"spread": float(spread[i, s])} if spread is not None else {}),
            }
            for i, name in enumerate(self.names)
            for s in range(predicted.shape[1])
        ]

    def to_dataframe(self) -> pandas.DataFrame:
        """`rows` as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise InputError("pandas: not installed; run pip install pandas, or use result.rows().") from None
        return pandas.DataFrame(self.rows())

    def summary(self) -> str:
        """A few lines of text: the method, the predictions, and how the steps were spent."""
        return summary_of(self)

    def plot(self) -> Figure:
        """A matplotlib figure: the values at the start with intervals and, per signal, the differences between policies.

        Without starts: the predictions of every question.  `result.plot().savefig("answers.png")` writes it.
        """
        return plotted(self)

    def _repr_html_(self) -> str:
        return notebook(self)

    def save(self, path: str | Path) -> None:
        """Write the result to a file atomically (no pickle; versioned, with a checksum); `gvfx.load` reads it."""
        path = check_writable(path, "path")
        details, predictor = self.details, self.details.predictor
        held = details.held | {"weights": details.weights, "differences": difference_errors(details)} | predictor.arrays()
        lost = {name for name in details.extra if not array(name).in_file}
        arrays = {name: found for name, found in held.items() if name not in lost and found is not None}
        for k, snapshot in enumerate(details.snapshots):
            arrays |= {f"{k}.{name}": found for name, found in snapshot.held.items()}
        described = {
            "names": self.names,
            "seeds": self.seeds,
            "snapshots": [snapshot.step for snapshot in details.snapshots],
            "experiment": details.experiment,
            "first_state": predictor.first_state,
            **({} if details.made_of is None else {KEPT: details.made_of}),
            **predictor.metadata(),
        }
        metadata = {"format": FORMAT, "version": VERSION, "result": json.dumps(described)}
        try:
            write_whole(path, pack({name: np.asarray(array) for name, array in arrays.items()}, metadata))
        except OSError as error:
            raise StoreError(f"path: {unwritten(path, error)}") from None

    @one_thread()
    @checked
    def intervals(self, observation: object = None, level: float = 0.95, method: None = None) -> np.ndarray:
        """Intervals [gvf, 2] of the predictions at an observation, or [gvf, state, 2] at all states (or points); needs
        CertaintyEquivalence or LinearCertaintyEquivalence.

        On tables they come from draws of the world given the counts, in very large ones from the delta method; with continuous
        observations from half-samples (`details.error_bars`).
        Infinite if a prediction depends on an action that was hardly tried, may rest on states that were never seen
        (docs/unseen.md), or is about a cumulant that has only ever been 0.
        observation "start": of the values at the start, as in `value`; networks have these alone, from audits.
        """
        check_level(level)
        if method is not None:
            raise InputError("method: the bootstrap is gone, its intervals held less often; leave `method` out.")
        if isinstance(observation, str) and observation == "start":
            return np.array([(v.low, v.high) for v in self.value(level).values()])
        if self.details.error_bars == "spread":
            raise InputError(self.details.predictor.bars.missing)
        details, errors = self.details, self.details.standard_errors
        if not errors.size and details.points is None:
            raise InputError(details.predictor.bars.missing)
        sides = details.snapshots[-1].sides
        ends = []
        for k, sign in enumerate((-1, 1)):
            values, away = self.values, errors if sides is None else sides[..., k]
            if observation is not None:
                values, away = details.predictor.at(observation, values, away)
            if not away.size:
                raise InputError(details.predictor.bars.missing)
            away = details.predictor.quantile((1 - level) / 2) * np.sqrt((away**2).sum(axis=0)) / len(self.seeds)
            ends.append(np.where(np.isinf(away), sign * np.inf, values.mean(axis=0) + sign * away))  # also without an answer
        return np.stack(ends, axis=-1)


# --- One result from the parts of its seeds -------------------------------------------------------------------------


def seen_in(models: Sequence[Empirical], label: Callable[[int], Any] = int) -> dict[str, Any]:
    """What a result says about the unseen: each question's chance of it (of the worst seed), and the first seed's frontier.

    The chance is the root mean square over evaluation states.  Empty if the runs kept no counts that allow intervals.
    """
    if not models or any(map(refusal, models)):
        return {}
    chance = np.max([Unseen(m).over(m.evaluation) for m in models], axis=0)
    unseen = dict(zip(models[0].asked.names, chance.tolist(), strict=True))
    return {"unseen": unseen, "frontier": frontier(models[0]) + untried(models[0], label)}


def gather(
    names: tuple[str, ...],
    weights: np.ndarray,
    seeds: tuple[int, ...],
    parts: Sequence[Part],
    described: dict[str, Any],
    predictor: Predictor | None = None,
    made_of: Described | None = None,
) -> Result:
    """One result from the parts of its seeds."""
    first = parts[0]
    rows = [array(name) for name in first.held if name != "snapshot_steps" and all(name in part.held for part in parts)]

    def stacked(row: Array, k: Any = ()) -> np.ndarray:
        return np.stack([np.asarray(part.held[row.name])[k] for part in parts])

    held = {row.in_result: stacked(row) for row in rows if row.when != "k"}
    held |= {"steps": first.steps, "seconds": np.array([part.seconds for part in parts])}
    snapshots = tuple(
        Snapshot(int(step), **{row.measured: stacked(row, k) for row in rows if row.when == "k"})
        for k, step in enumerate(first.snapshot_steps)
    )
    models = tuple(part.model for part in parts if part.model is not None)
    return Result(Details(names, weights, seeds, snapshots, held, described, made_of, models, predictor or TablePredictor()))
