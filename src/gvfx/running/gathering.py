"""One result from the parts of its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gvfx.running.predictor import Predictor, TablePredictor
from gvfx.running.record import Part
from gvfx.running.result import Result, Snapshot


def gather(
    names: tuple[str, ...],
    weights: np.ndarray,
    seeds: tuple[int, ...],
    parts: Sequence[Part],
    described: dict[str, Any],
    predictor: Predictor | None = None,
) -> Result:
    """One result from the parts of its seeds."""

    def stacked(field: str, k: int) -> np.ndarray:
        return np.stack([getattr(part, field)[k] for part in parts])

    first = parts[0]
    return Result(
        names=names,
        weights=weights,
        seeds=seeds,
        steps=first.steps,
        mse=np.stack([part.mse for part in parts]),
        levels=np.stack([part.levels for part in parts]),
        episodes=np.stack([part.episodes for part in parts]),
        snapshots=tuple(
            Snapshot(
                step=int(step),
                values=stacked("values", k),
                variances=stacked("variances", k) if first.variances.size else None,
                visits=stacked("visits", k),
                behaviour=stacked("behaviour", k),
                levels=stacked("snapshot_levels", k),
                standard_errors=stacked("standard_errors", k) if first.standard_errors.size else None,
                policies=stacked("policies", k) if first.policies.size else None,
            )
            for k, step in enumerate(first.snapshot_steps)
        ),
        truth=np.stack([part.truth for part in parts]),
        seconds=np.array([part.seconds for part in parts]),
        mse_outside=np.stack([part.mse_outside for part in parts]) if first.mse_outside.size else None,
        actors=np.stack([part.actor for part in parts]) if first.actor.size else None,
        critics=np.stack([part.critics for part in parts]) if first.critics.size else None,
        expected=np.stack([part.expected for part in parts]) if first.expected.size else None,
        experiment=described,
        predictor=predictor or TablePredictor(),
        models=tuple(part.model for part in parts if part.model is not None),
        stopped=np.array([part.stopped for part in parts]) if first.stopped else None,
        bounds=np.array([part.bound for part in parts]) if first.stopped else None,
        reached=np.array([part.reached for part in parts]) if first.stopped else None,
        differences=np.stack([part.differences for part in parts]) if all(part.differences.size for part in parts) else None,
        starts=np.stack([part.start for part in parts]) if all(part.start.size for part in parts) else None,
        audits=np.stack([part.audit for part in parts]) if all(part.audit.size for part in parts) else None,
        audit_differences=np.stack([part.audit_differences for part in parts]) if first.audit_differences.size else None,
        audit_bounds=np.stack([part.audit_bounds for part in parts]) if first.audit_bounds.size else None,
    )
