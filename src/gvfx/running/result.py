"""The result of an evaluation: predictions, learning curves and intervals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gvfx.errors import InputError, StoreError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.uncertainty import bootstrap, refusal, standard_errors
from gvfx.files import check_writable, write_whole
from gvfx.inputs import check_level, checked
from gvfx.running.comparing import Comparison, compared, difference_errors
from gvfx.running.plotting import notebook, plotted
from gvfx.running.predictor import Predictor, TablePredictor
from gvfx.running.starts import Check, Value, checks_at_start, start_rows, values_at_start
from gvfx.running.summary import leads, summary_of
from gvfx.tensors import pack
from gvfx.threads import one_thread
from gvfx.types import Described

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FORMAT, VERSION = "gvfx result", "1"  # of saved files
CURVES = ("weights", "steps", "mse", "levels", "episodes", "truth", "seconds", "mse_outside", "expected")
STOPS = ("stopped", "bounds", "reached", "starts", "differences", "audits", "audit_differences", "audit_bounds")  # of some runs
TABLES = ("values", "variances", "visits", "behaviour", "levels", "standard_errors", "policies", "untried")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The tables of a run after `step` steps; the first axis of every array is [seed]."""

    step: int
    values: np.ndarray  # [seed, gvf, state]
    variances: np.ndarray | None  # [seed, gvf, state] sum_a pi M, if the learner kept M
    visits: np.ndarray  # [seed, state, action]; for Box actions [seed, state, question whose policy was followed, or none]
    behaviour: np.ndarray  # likewise
    levels: np.ndarray  # [seed, gvf] drifting cumulants
    standard_errors: np.ndarray | None = None  # [seed, gvf, state] of the values, if the learner has them (or their spread)
    policies: np.ndarray | None = None  # [seed, gvf, state, action] target policies, if some were found during the run
    untried: np.ndarray | None = None  # bool [seed, gvf, state] of a log: nothing that the policy does was tried there


@dataclass(frozen=True, eq=False)
class Result:
    """Learning curves and final tables of one behaviour and learner on one set of questions, for several seeds."""

    names: tuple[str, ...]  # of the questions
    weights: np.ndarray  # [gvf] of the questions
    seeds: tuple[int, ...]  # that were run
    steps: np.ndarray  # [t] evaluation times
    mse: np.ndarray  # [seed, t, gvf] mean squared error of every question
    levels: np.ndarray  # [seed, t, gvf] of drifting cumulants
    episodes: np.ndarray  # [seed, t] ended so far
    snapshots: tuple[Snapshot, ...]  # at the chosen times; the last is the end of the run
    truth: np.ndarray  # [seed, gvf, state] at the end of the run
    seconds: np.ndarray  # [seed] time spent in the loop, compilation excluded
    mse_outside: np.ndarray | None = None  # [seed, t, gvf] continuous grid: cells outside the goals' discs
    actors: np.ndarray | None = None  # [seed, weight] continuous actions: the behaviour's actor at the end (not saved)
    critics: np.ndarray | None = None  # [seed, weight] likewise: the twins of M at the end, if the behaviour chooses by them
    expected: np.ndarray | None = None  # [seed, t, gvf] estimated squared error (squared spread), if the truth is not known
    experiment: Described = field(default_factory=dict)
    models: tuple[Empirical, ...] = ()  # one per seed: the evidence at the end, if the run kept it (not saved)
    stopped: np.ndarray | None = None  # [seed] steps done, with a stopping rule
    bounds: np.ndarray | None = None  # [seed] the rule's upper bound on the error at the end
    reached: np.ndarray | None = None  # [seed] bool: whether that bound was below the target
    starts: np.ndarray | None = None  # [seed, gvf, 3] value at the start, its standard error, and the truth; NaN if not known
    differences: np.ndarray | None = None  # [seed, gvf, gvf] standard errors of differences at the start (`evidence.joint`)
    audits: np.ndarray | None = None  # [seed, gvf, 6] what audits say about the start (`gvfx.evidence.audits.Audit`)
    audit_differences: np.ndarray | None = None  # [seed, gvf, gvf, 2] standard errors of audited differences, and their freedom
    audit_bounds: np.ndarray | None = None  # [seed, gvf, level, 2] intervals by known ranges (`gvfx.evidence.bounded.LEVELS`)
    predictor: Predictor = field(default_factory=TablePredictor)  # predicts at observations

    @property
    def points(self) -> np.ndarray | None:
        """For networks: the observations [point, o] at which the tables are given; a "state" is then one of them."""
        return self.predictor.points

    @property
    def values(self) -> np.ndarray:
        """Predicted values at the end, [seed, gvf, state]."""
        return self.snapshots[-1].values

    @property
    def variances(self) -> np.ndarray | None:
        """Estimated variances at the end, [seed, gvf, state]."""
        return self.snapshots[-1].variances

    @property
    def visits(self) -> np.ndarray:
        """How often each action was taken in each state, [seed, state, action]."""
        return self.snapshots[-1].visits

    @property
    def behaviour(self) -> np.ndarray:
        """The behaviour's probabilities at the end, [seed, state, action]."""
        return self.snapshots[-1].behaviour

    def policy(self, name: str, seed: int | None = None) -> np.ndarray:
        """A question's policy at the end [state, action], of one seed or averaged; only if policies were found during the run."""
        policies = self.snapshots[-1].policies
        if policies is None:
            raise InputError("policy: all policies of this run were given; only own_greedy() and own_softmax(...) are found.")
        if name not in self.names:
            raise InputError(f"name: {name!r} is not a question of this run; choose from {', '.join(self.names)}.")
        if seed is not None and seed not in self.seeds:
            raise InputError(f"seed: {seed!r} was not run; choose from {', '.join(map(str, self.seeds))}.")
        each = policies[:, self.names.index(name)]
        return each.mean(axis=0) if seed is None else each[self.seeds.index(seed)]

    @property
    @one_thread()
    def error(self) -> np.ndarray:
        """Weighted mean of the GVFs' squared errors, [seed, t]; plain mean with equal weights."""
        return self.mse @ (self.weights / self.weights.sum())

    @property
    def diverged(self) -> tuple[int, ...]:
        """The seeds of a stored result whose runs diverged: all their numbers are NaN."""
        return tuple(self.experiment.get("diverged", ()))  # type: ignore[arg-type]

    @property
    def choices(self) -> tuple[str, ...]:
        """The labels of the last axis of `visits`: actions, or with Box actions whose policy was followed."""
        return self.predictor.choices(self.names, self.visits.shape[2])

    @one_thread()
    def predict(self, observation: object, action: object = None) -> np.ndarray:
        """Predictions [gvf] at an observation (or [gvf, ...] at a batch of them), averaged over seeds.

        NaN in a state in which nothing was ever tried, if the learner has standard errors.

        action: for Box actions, a first action (or one per observation) before the questions' policies are followed.
        """
        if action is not None:
            return self.predictor.action_values(observation, action)
        return self.predictor.at(observation, self.answers, np.empty(0))[0].mean(axis=0)

    @property
    def answers(self) -> np.ndarray:
        """The values [seed, gvf, state] with NaN where no seed ever tried anything (terminal states have a standard error of
        0), and in logs where nothing was tried that a question's policy does."""
        errors = self.snapshots[-1].standard_errors
        if self.points is not None or errors is None:
            return self.values
        never = (self.visits.sum(axis=(0, 2)) == 0) & np.isinf(errors).all(axis=(0, 1))
        untried = self.snapshots[-1].untried
        return np.where(never if untried is None else never | untried, np.nan, self.values)

    def value(self, level: float = 0.95) -> dict[str, Value]:
        """The value at the start of every question, by name: value, interval (low, high) and truth.

        The start is the distribution of first states: the world's own where it is known, else that of the episodes of the run,
        whose chance the interval includes.  Low and high are infinite where `intervals` would be, NaN for learners without
        intervals; networks have a spread instead.  In a run with audits, value and interval are those of the audits; in a
        log of states only where they are infinite otherwise.
        """
        own = "audit" not in self.experiment and self.error_bars == "asymptotic"
        return values_at_start(self.names, self.starts, self.predictor, level, self.audits, own, self.audit_bounds)

    def audit(self, level: float = 0.95) -> dict[str, Check]:
        """What the run's audits say about every question's value at the start: by how much the answer is off, with an interval
        (docs/audits.md)."""
        return checks_at_start(self.names, self.starts, self.audits, level, self.audit_bounds)

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
        return compared(self, policies, signal, level, simultaneous, lower_is_better)

    def rows(self) -> list[Described]:
        """One row per question and state (or point): prediction, its standard error over seeds, interval, truth, visits.

        With where="start" the first row of every question is its value at the start.
        """
        lead = start_rows(self.value()) if leads(self) else []
        predicted, error = self.answers.mean(axis=0), standard_error(self.values)
        truth, visits = self.truth.mean(axis=0), self.visits.sum(axis=(0, 2))
        between = self.intervals() if self.has_intervals else np.full((*predicted.shape, 2), np.nan)
        spread = self.spread() if self.error_bars == "spread" else None
        return lead + [
            {
                "question": name,
                "observation": self.predictor.label(s),
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

    @property
    def collect(self) -> list[Described]:
        """What to collect next, of a log: choices (observation, action), most useful first, how often each was seen, and its
        gain: by how much one more sample would reduce the mean squared error (each counts as seen once more than it was).

        `pandas.DataFrame(result.collect)` is a table of them.  With continuous observations a choice is an action around an
        observation.  Empty for other results.
        """
        found: Any = self.experiment.get("collect", [])
        return list(found)

    @property
    def unseen(self) -> np.ndarray | None:
        """Each question's chance to meet a state that was never seen, discounted, over the evaluation states, [gvf].

        Of the seed for which it is largest; None if the run kept no counts.
        """
        told: Any = self.experiment.get("unseen")
        return np.array([told[name] for name in self.names]) if told else None

    @property
    def error_bars(self) -> Literal["asymptotic", "half-samples", "spread", "none"]:
        """Of which kind the error bars are.

        asymptotic and half-samples (with continuous observations): intervals; spread: the disagreement of networks' heads,
        which is not an interval; none.
        """
        some = self.snapshots[-1].standard_errors is not None or (bool(self.models) and not any(map(refusal, self.models)))
        return self.predictor.error_bars if some else "none"

    @property
    def has_intervals(self) -> bool:
        """Whether `intervals` is available."""
        return self.error_bars in ("asymptotic", "half-samples")

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
        held = {name: getattr(self, name) for name in (*CURVES, *STOPS)} | {"differences": difference_errors(self)}
        arrays = {name: array for name, array in held.items() if array is not None}
        for k, snapshot in enumerate(self.snapshots):
            arrays |= {f"{k}.{name}": getattr(snapshot, name) for name in TABLES if getattr(snapshot, name) is not None}
        arrays |= self.predictor.arrays()
        if self.points is not None:
            arrays["points"] = self.points
        for k, network in enumerate(getattr(self.predictor, "networks", ())):
            arrays |= {f"answers.{k}.{name}": array for name, array in network.arrays().items()}
        described = {
            "names": self.names,
            "seeds": self.seeds,
            "snapshots": [snapshot.step for snapshot in self.snapshots],
            "experiment": self.experiment,
            "first_state": self.predictor.first_state,
            **self.predictor.told(),
        }
        metadata = {"format": FORMAT, "version": VERSION, "result": json.dumps(described)}
        try:
            write_whole(path, pack({name: np.asarray(array) for name, array in arrays.items()}, metadata))
        except OSError as error:
            raise StoreError(f"path: cannot write {path} ({error.strerror}); free some space or name another file.") from None

    @one_thread()
    @checked
    def intervals(
        self,
        observation: object = None,
        level: float = 0.95,
        method: Literal["asymptotic", "bootstrap"] = "asymptotic",
        draws: int = 200,
    ) -> np.ndarray:
        """Confidence intervals [gvf, 2] of the predictions at an observation, or [gvf, state, 2] at all states (or points);
        needs CertaintyEquivalence or LinearCertaintyEquivalence.

        asymptotic: the delta method; with continuous observations, half-samples.
        bootstrap: `draws` runs of the estimated world; not available for loaded results.
        Infinite if a prediction depends on an action that was never tried, may rest on states that were never seen
        (docs/unseen.md), or is about a cumulant that has only ever been 0.
        observation "start": of the values at the start, as in `value`; networks have these alone, from audits.
        """
        check_level(level)
        if isinstance(observation, str) and observation == "start":
            return np.array([(v.low, v.high) for v in self.value(level).values()])
        if self.error_bars == "spread":
            raise InputError(self.predictor.no_intervals)
        tail = (1 - level) / 2
        values, errors = self.values, self._standard_errors()
        if observation is not None and (errors.size or self.points is not None):
            values, errors = self.predictor.at(observation, values, errors)
        centre = values.mean(axis=0)
        if not errors.size:
            raise InputError(self.predictor.no_intervals)
        if method == "asymptotic":
            half = self.predictor.quantile(tail) * np.sqrt((errors**2).sum(axis=0)) / len(self.seeds)
            out = np.stack([centre - half, centre + half], axis=-1)
            out[np.isinf(half)] = [-np.inf, np.inf]  # also where there is no answer
        elif method == "bootstrap":
            if not self.models:
                raise InputError("method: the bootstrap needs the counts of a run, which are not saved; use 'asymptotic'.")
            drawn = np.mean([bootstrap(m, draws, k) for k, m in enumerate(self.models)], axis=0)[..., : self.values.shape[2]]
            if observation is not None:
                drawn = self.predictor.at(observation, drawn, np.empty(0))[0]
            out = 2 * centre[..., None] - np.moveaxis(np.quantile(drawn, [1 - tail, tail], axis=0), 0, -1)
            unknown = ~np.isfinite(errors).all(axis=0)
            out[unknown] = [-np.inf, np.inf]
        else:
            raise InputError(f"method: {method!r} is unknown; choose 'asymptotic' or 'bootstrap'.")
        return out

    def spread(self, observation: object = None) -> np.ndarray:
        """The standard deviation of the predictions of networks' bootstrapped heads, [gvf] at an observation or [gvf, point].

        A rough idea of what another sample of the transitions would change.  It is not an interval: what all heads miss
        together it does not show.
        """
        if self.error_bars != "spread":
            raise InputError("spread: only networks with bootstrapped heads have one; use gvfx.Deep(heads=5).")
        errors = self._standard_errors()
        if observation is not None:
            errors = self.predictor.at(observation, self.values, errors)[1]
        return np.sqrt((errors**2).mean(axis=0))

    def _standard_errors(self) -> np.ndarray:
        kept = self.snapshots[-1].standard_errors
        if kept is not None:
            return kept
        if not self.models:
            return np.empty(0)
        return np.stack([standard_errors(m) for m in self.models])[..., : self.values.shape[2]]

    def to_json(self) -> Described:
        """The curves and a summary as plain data."""
        error = self.error
        return {
            "experiment": self.experiment,
            "names": list(self.names),
            "weights": self.weights.tolist(),
            "seeds": list(self.seeds),
            "steps": self.steps.tolist(),
            "mse": self.mse.tolist(),
            "levels": self.levels.tolist() if self.levels.any() else None,
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
