"""What to collect next: the choices of which one more sample would reduce the error of a log's answers most."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gvfx.behaviours.optimal import OptimalDesign
from gvfx.evidence.cell_model import cell_model
from gvfx.evidence.counts import Empirical
from gvfx.evidence.transitions import Transitions
from gvfx.features.cells import Cells
from gvfx.learners.linear import LinearCertaintyEquivalence
from gvfx.learners.selection import Choice
from gvfx.questions.gvf import stack
from gvfx.questions.reader import Reader
from gvfx.questions.where import Where, counted
from gvfx.running.streams.linear_runs import over_cells
from gvfx.types import Described
from gvfx.worlds.spec import skeleton_mdp

MOST = 100  # choices that are listed
CELLS, PER_PAIR = 100, 10  # most cells of continuous observations, and least transitions per cell and action


def worth_collecting(known: Empirical, design: OptimalDesign, label: Callable[[int], object]) -> list[Described]:
    """The choices with the largest gain G / n - G / (n + 1), most useful first; `label` names a row.

    Each counts as tried once more than it was, so that the gain of those never tried is finite.
    """
    smoothed, need = design.needs(known)
    n = smoothed.visits + 1.0
    gain = need / n / (n + 1)
    gain[~smoothed.model.going] = 0.0
    best = np.argsort(gain, axis=None)[::-1][:MOST]
    rows, actions = np.unravel_index(best, gain.shape)
    return [
        {"observation": label(s), "action": a, "seen": int(smoothed.visits[s, a]), "gain": float(gain[s, a])}
        for s, a in zip(rows.tolist(), actions.tolist(), strict=True)
        if gain[s, a] > 0
    ]


def worth_collecting_around(
    data: Transitions,
    reader: Reader,
    learner: LinearCertaintyEquivalence,
    choice: Choice,
    where: Where,
    asked_at: np.ndarray,
) -> list[Described]:
    """The same with continuous observations, in cells of them that are named by the mean of their observations."""
    cells = Cells.of(data.observation, max(1, min(CELLS, len(data) // (PER_PAIR * data.actions))))
    asked = stack(over_cells(reader.questions, reader.names), skeleton_mdp(cells.size, data.actions))
    asked = asked._replace(where=counted(cells(asked_at)) if where.kind == "observations" else where)
    errors = learner.fit(data, choice, halved=True).errors(data)
    varying = any(callable(q.discount) for q in reader.questions)
    model = cell_model(data, cells, asked, cells.size, None, varying, errors)
    here = cells(data.observation)
    count = np.maximum(1, np.bincount(here, minlength=cells.size))
    middle = np.stack([np.bincount(here, column, cells.size) / count for column in data.observation.T], axis=1)
    named = [[float(f"{x:.3g}") for x in row] for row in middle]
    own = worth_collecting(model, OptimalDesign().on_cells(), lambda s: named[s] if s in here else None)
    return [row for row in own if row["observation"] is not None]
