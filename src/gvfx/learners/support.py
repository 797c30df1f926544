"""What transitions cannot say about a question, however they are fitted; its error bars are then infinite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gvfx.evidence.transitions import Transitions
from gvfx.features.cells import Cells

FEWEST = 16  # transitions from which half-samples say something
CELLS, PER_PAIR = 150, 20  # most cells in which it is looked what was tried, and least transitions per cell and action
SLIGHT = 1e-6  # a discounted number of choices that counts as none


def missing(data: Transitions) -> list[str]:
    """What the transitions lack for each question and what to do about it, or an empty string."""
    tried = np.bincount(data.action, minlength=data.actions) > 0
    untried = np.asarray(data.pi.max(axis=0)[~tried].sum(axis=0)[data.member] > 0)  # [gvf]
    endless, silent = np.asarray(data.discount.min(axis=0) >= 1), ~np.asarray(data.cumulant.any(axis=0))
    out = []
    for i in range(data.gvfs):
        if len(data) < FEWEST:
            out.append(f"there are fewer than {FEWEST} transitions; give more steps")
        elif untried[i]:
            out.append("its policy takes an action that was never tried; let the behaviour try it")
        elif endless[i]:
            out.append("its discount is 1 and no episode terminated; use a discount below 1 or more steps")
        elif silent[i]:
            out.append("its signal was 0 in every transition; give more steps, or a behaviour that finds where it is not")
        else:
            out.append("")
    return out


class Doubt(NamedTuple):
    """What cannot be excluded because it was never tried, by cell: an error that is added to the standard errors.

    With u the discounted number of choices in a cell whose action was never tried there, as the target policy makes them
    in the model of cells, an answer may be wrong by u times the width of the possible range.
    """

    cells: Cells
    error: np.ndarray  # [cell, gvf]
    support: np.ndarray  # [gvf] share of the policy's choices, over the data, whose action was tried in the cell
    tried: np.ndarray  # bool [action] whether it was tried anywhere

    @classmethod
    def of(cls, data: Transitions, pi: np.ndarray, width: np.ndarray) -> Doubt:
        """From transitions, the policies at their observations pi [n, action, policy], and the widths [gvf] of the ranges."""
        cells = Cells.of(data.observation, max(1, min(CELLS, len(data) // (PER_PAIR * data.actions))))
        size, actions = cells.size, data.actions
        here, after = cells(data.observation), cells(data.following)
        pair = here * actions + data.action
        visits = np.bincount(pair, minlength=size * actions)
        untried = (visits == 0).reshape(size, actions).astype(float)
        mean = np.full((size, *pi.shape[1:]), 1 / actions)  # of the policies, over each cell
        seen = np.bincount(here, minlength=size)
        for a, p in np.ndindex(pi.shape[1:]):
            np.divide(np.bincount(here, pi[:, a, p], size), seen, out=mean[:, a, p], where=seen > 0)
        error = np.empty((size, data.gvfs))
        for members in data.groups:
            own = mean[:, :, data.member[members[0]]]
            total = np.bincount(pair * size + after, data.discount[:, members[0]], size * actions * size)
            onward = total.reshape(size, actions, size) / np.maximum(visits, 1).reshape(size, actions, 1)
            flow = np.eye(size) * (1 + SLIGHT) - np.einsum("ca,cad->cd", own, onward)
            met = np.linalg.solve(flow, (own * untried).sum(axis=1))[:, None]
            error[:, members] = np.where(met > SLIGHT, met, 0.0) * np.where(met > SLIGHT, width[members], 0.0)
        tried = 1 - np.einsum("nap,na->p", pi, untried[here]) / len(data)
        return cls(cells, error, tried[data.member], np.bincount(data.action, minlength=actions) > 0)

    def at(self, observations: np.ndarray) -> np.ndarray:
        """The errors [gvf, n] at observations [n, o]."""
        return self.error[self.cells(observations)].T

    def nothing(self, pi: np.ndarray) -> np.ndarray:
        """Whether policies pi [1 or n, action, gvf] take only actions that were never tried, bool [gvf, 1 or n]."""
        return np.zeros((pi.shape[2], 1), bool) if self.tried.all() else pi[:, self.tried].sum(axis=1).T <= 0

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        own = {f"doubt.{name}": getattr(self, name) for name in ("error", "support", "tried")}
        return own | self.cells.arrays("doubt.cells.")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Doubt:
        """The doubt that `arrays` described."""
        tried = arrays.get("doubt.tried", np.ones(1, bool))  # results of older versions did not keep it
        return cls(Cells.from_arrays(arrays, "doubt.cells."), arrays["doubt.error"], arrays["doubt.support"], tried)
