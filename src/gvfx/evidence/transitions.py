"""Transitions kept as columns, for learners that solve for their answers from all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gvfx.evidence.counts import Empirical, empirical, no_outcomes, widened
from gvfx.features.cells import Cells
from gvfx.questions.gvf import Stacked
from gvfx.worlds.mdp import Unseen


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions of one run or log; [n] runs over them in any order.

    Policies are the distinct ones of the questions; `pi` has one row if none of them depends on the observation.
    """

    observation: np.ndarray  # [n, o]
    action: np.ndarray  # int [n]
    following: np.ndarray  # [n, o]
    cumulant: np.ndarray  # [n, gvf]
    discount: np.ndarray  # [n, gvf]; 0 on termination
    episode: np.ndarray  # int [n]
    first: np.ndarray  # bool [n]: whether an episode began with it
    terminated: np.ndarray  # bool [n]: whether an episode ended with it, other than by truncation
    pi: np.ndarray  # [1 or n, action, policy] at `following`
    member: np.ndarray  # int [gvf] each question's policy
    together: list[list[int]] | None = None  # the groups of the transitions that these are a part of

    def __len__(self) -> int:
        return len(self.action)

    @property
    def actions(self) -> int:
        return self.pi.shape[1]

    @property
    def gvfs(self) -> int:
        return len(self.member)

    def part(self, chosen: np.ndarray | slice) -> Transitions:
        """Some of the transitions, by index, mask or slice; the groups stay those of all of them."""
        columns = ("observation", "action", "following", "cumulant", "discount", "episode", "first", "terminated")
        own = {name: getattr(self, name)[chosen] for name in columns}
        return replace(self, **own, together=self.groups, pi=self.pi if len(self.pi) == 1 else self.pi[chosen])

    @cached_property
    def groups(self) -> list[list[int]]:
        """Lists of questions with the same policy and discounts, which share one linear system."""
        if self.together is not None:
            return self.together
        found: dict[tuple[int, bytes], list[int]] = {}
        for i, p in enumerate(self.member.tolist()):
            found.setdefault((p, self.discount[:, i].tobytes()), []).append(i)
        return list(found.values())


# --- The finite model of a continuous world that a behaviour plans on: cells in the place of states -----------------
# Transitions are counted between cells.  The noise of a cell and an action is the mean squared temporal-difference error of the
# learner there: its values tell apart what lies in one cell, which the values of a model of cells cannot, and so they show noise
# also where a rare outcome has not occurred yet.  Cells with few data borrow from those around them.

PRIOR_VISITS = 10.0  # with which the noise around a cell enters its own
AROUND_VISITS = 3.0  # with which the noise of all actions around a cell enters that of one


@dataclass(frozen=True, eq=False)
class CellModel(Empirical):
    """A model whose states are cells, with noise and advice that a table of counts does not have."""

    noise_of_pairs: np.ndarray | None = None  # [state, action, gvf] in place of the counts' own; None: theirs
    share: float = 0.0  # of the actions that had better follow the target policies


def cell_model(
    data: Transitions,
    cells: Cells,
    asked: Stacked,
    rows: int,
    horizon: int | None,
    varying: bool,
    errors: np.ndarray | None = None,
    share: float = 0.0,
) -> CellModel:
    """The model of transitions between cells.

    asked:   the questions over `rows` cells (some may never be used); policies are replaced by their means over each cell.
    varying: whether a discount changes between transitions other than by termination.
    errors:  the learner's temporal-difference errors [n, gvf].
    """
    actions, gvfs = data.actions, data.gvfs
    here, after = cells(data.observation), cells(data.following)
    pair = here * actions + data.action
    outcomes, which, counts = np.unique(
        pair * (rows + 1) + np.where(data.terminated, rows, after), return_inverse=True, return_counts=True
    )
    met = no_outcomes(rows, actions, gvfs, (), capacity=len(outcomes))
    met.pair[:], met.following[:] = np.divmod(outcomes, rows + 1)
    met.used[0] = len(outcomes)
    met.evidence.counts[:, 0] = counts
    for total, amount in ((met.evidence.sums, data.cumulant), (met.evidence.squares, data.cumulant**2)):
        total[:] = _per_row(which, amount, len(outcomes))
    met.discounts[:] = _per_row(which, data.discount, len(outcomes))
    met.evidence.starts[:rows] = np.bincount(here[data.first], minlength=rows)
    model = empirical(met, Unseen(rows, actions, horizon), widened(_averaged(asked, data, after, rows)), varying)
    noise = None
    if errors is not None:
        noise = np.zeros((rows + 1, actions, gvfs))
        near = cells.neighbours()
        n = np.bincount(pair, minlength=cells.size * actions).reshape(-1, actions)
        around = near @ n
        for i in range(gvfs):
            squares = np.bincount(pair, errors[:, i] ** 2, cells.size * actions).reshape(-1, actions)
            beside = near @ squares
            every = beside.sum(axis=1, keepdims=True) / np.maximum(around.sum(axis=1, keepdims=True), 1)
            mean = (beside + AROUND_VISITS * every) / (around + AROUND_VISITS)
            noise[: cells.size, :, i] = (squares + PRIOR_VISITS * mean) / (n + PRIOR_VISITS)
    return CellModel(model.world, model.asked, model.evidence, sampled_start=True, noise_of_pairs=noise, share=share)


def _per_row(which: np.ndarray, amount: np.ndarray, size: int) -> np.ndarray:
    return np.stack([np.bincount(which, amount[:, i], size) for i in range(amount.shape[1])], axis=1)


def _averaged(asked: Stacked, data: Transitions, after: np.ndarray, rows: int) -> Stacked:
    """The questions with each policy's mean over every cell that was reached; uniform in the others."""
    if len(data.pi) == 1:
        return asked._replace(pi=data.pi[:, :, data.member].astype(float), pi_stride=0)
    count = np.bincount(after, minlength=rows)
    pi = np.full((rows, data.actions, data.gvfs), 1 / data.actions)
    for a in range(data.actions):
        for i, p in enumerate(data.member.tolist()):
            total = np.bincount(after, data.pi[:, a, p], rows)
            pi[:, a, i] = np.divide(total, count, out=pi[:, a, i], where=count > 0)
    return asked._replace(pi=pi, pi_stride=1)
