"""What a run measures on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.running.evaluate import Part, Plan

EMPTY = np.empty(0)


class Diverged(InputError):
    """A run met a number that is not finite."""


def measured(plan: Plan, record: Mapping[str, Sequence], truth: np.ndarray, seconds: float, **more: Any) -> Part:
    """One seed's share of a result whose truth [gvf, point] is known, from what was recorded by the names of `Part`."""
    tables: dict[str, Any] = {name: np.array(values) for name, values in record.items()}
    return Part(
        steps=np.array(plan.evaluations),
        levels=np.zeros((len(plan.evaluations), len(truth))),
        snapshot_steps=np.array(plan.snapshots),
        snapshot_levels=np.zeros((len(plan.snapshots), len(truth))),
        truth=truth,
        seconds=seconds,
        **tables,
        **more,
    )


class Record:
    """A seed's measurements so far, in an environment whose truth is not known."""

    def __init__(self, gvfs: int, seed: int, progress: Callable[[int, int, float], None] | None, weights: np.ndarray) -> None:
        self.gvfs, self.seed, self.progress, self.weights = gvfs, seed, progress, weights / weights.sum()
        self.steps: list[int] = []
        self.episodes: list[int] = []
        self.expected: list[np.ndarray] = []
        self.snapshots: list[tuple] = []

    def evaluated(self, times: Sequence[int], episodes: int, errors: np.ndarray) -> None:
        """Measurements at these times; errors [gvf, state or point] are the answers' standard errors, or empty."""
        sure = np.isfinite(errors)
        n = np.maximum(sure.sum(axis=-1), 1)
        expected = (np.where(sure, errors, 0.0) ** 2).sum(axis=-1) / n if errors.size else np.full(self.gvfs, np.nan)
        for t in times:
            self.steps.append(t)
            self.episodes.append(episodes)
            self.expected.append(expected)
            if self.progress:
                self.progress(self.seed, t, float(expected @ self.weights))

    def shown(self, times: Sequence[int], tables: tuple[np.ndarray, ...], policies: np.ndarray = EMPTY) -> None:
        """Snapshots at these times: values, variances, visits, behaviour and standard errors, and policies found."""
        self.snapshots += [(t, *tables, policies) for t in times]

    def part(self, seconds: float, answers: Any = None) -> Part:
        """One seed's share of the result."""
        columns = (np.stack(column) for column in zip(*self.snapshots, strict=True))
        steps, values, variances, visits, behaviour, errors, policies = columns
        shape = (len(self.steps), self.gvfs)
        return Part(
            steps=np.array(self.steps, dtype=np.int64),
            mse=np.full(shape, np.nan),
            levels=np.zeros(shape),
            episodes=np.array(self.episodes, dtype=np.int64),
            snapshot_steps=steps,
            values=values,
            variances=variances,
            visits=visits,
            behaviour=behaviour,
            snapshot_levels=np.zeros((len(steps), self.gvfs)),
            truth=np.full(values.shape[1:], np.nan),
            standard_errors=errors,
            policies=policies,
            expected=np.array(self.expected).reshape(shape),
            seconds=seconds,
            answers=answers,
        )
