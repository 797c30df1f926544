"""The result of an evaluation: predictions, learning curves and intervals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gvfx.errors import InputError, StoreError, unwritten
from gvfx.files import check_writable, write_whole
from gvfx.inputs import check_level, checked
from gvfx.running.checkpoint import KEPT
from gvfx.running.comparing import Comparison, compared, difference_errors
from gvfx.running.details import Details, standard_error
from gvfx.running.plotting import notebook, plotted
from gvfx.running.predictor import Predictor, TablePredictor
from gvfx.running.record import Part
from gvfx.running.schema import Array, Snapshot, array
from gvfx.running.starts import Check, Value, checks_at_start, start_rows, values_at_start
from gvfx.running.summary import bars_of, leads, summary_of
from gvfx.tensors import pack
from gvfx.threads import one_thread
from gvfx.types import Described

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


FORMAT, VERSION = "gvfx result", "1"  # of saved files
MOVED = {"levels": "levels", "mse_outside": "mse_outside", "actors": "actor", "critics": "critics"}  # into `details.extra`


@dataclass(frozen=True, eq=False)
class Result:
    """Answers of one behaviour and learner to one set of questions, with learning curves, for several seeds."""

    details: Details = field(repr=False)  # all else that is known about the runs (`gvfx.running.details`)
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
        lead = start_rows(self.value()) if leads(self.details) else []
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
        held = details.held | {"weights": details.weights, "differences": difference_errors(details)}
        kept = {"weights", *details.known, *(name for name in details.extra if array(name).in_file)}
        arrays = {name: found for name, found in held.items() if name in kept and found is not None}
        for k, snapshot in enumerate(details.snapshots):
            arrays |= {f"{k}.{name}": found for name, found in snapshot.held.items()}
        arrays |= predictor.arrays()
        if details.points is not None:
            arrays["points"] = details.points
        for k, network in enumerate(getattr(predictor, "networks", ())):
            arrays |= {f"answers.{k}.{name}": array for name, array in network.arrays().items()}
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
    def intervals(
        self,
        observation: object = None,
        level: float = 0.95,
        method: None = None,
    ) -> np.ndarray:
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
            raise InputError(self.details.predictor.no_intervals)
        details, errors = self.details, self.details.standard_errors
        if not errors.size and details.points is None:
            raise InputError(details.predictor.no_intervals)
        sides = details.snapshots[-1].sides
        ends = []
        for k, sign in enumerate((-1, 1)):
            values, away = self.values, errors if sides is None else sides[..., k]
            if observation is not None:
                values, away = details.predictor.at(observation, values, away)
            if not away.size:
                raise InputError(details.predictor.no_intervals)
            away = details.predictor.quantile((1 - level) / 2) * np.sqrt((away**2).sum(axis=0)) / len(self.seeds)
            ends.append(np.where(np.isinf(away), sign * np.inf, values.mean(axis=0) + sign * away))  # also without an answer
        return np.stack(ends, axis=-1)


# --- One result from the parts of its seeds -------------------------------------------------------------------------


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
    rows = [array(name) for name, found in first.held.items() if np.size(found) or not array(name).optional]
    rows = [row for row in rows if row.name != "snapshot_steps" and all(row.name in part.held for part in parts)]

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
