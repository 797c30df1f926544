"""Plain versions of linear learning: features and cells from their definitions, dense systems, one transition at a time."""

from __future__ import annotations

import numpy as np


def plain_hats(points, low, high, side):
    """Lattice features [n, side^d] from the definition: products of hats, one per axis."""
    at = (np.clip(points, low, high) - low) / (high - low) * (side - 1)
    out = np.ones((len(points), 1))
    for k in range(points.shape[1]):
        hats = np.maximum(1 - np.abs(at[:, k, None] - np.arange(side)), 0)
        out = (out[:, :, None] * hats[:, None, :]).reshape(len(points), -1)
    return out


def plain_cell(cells, observation):
    """The cell of one observation."""
    z = cells.scaling(np.asarray(observation, float)[None])[0]
    if not cells.side:
        return int(((z - cells.centres) ** 2).sum(axis=1).argmin())
    out = 0
    for k in range(len(z)):
        share = (z[k] - cells.low[k]) / (cells.high[k] - cells.low[k])
        out = out * cells.side + min(max(int(np.floor(share * cells.side)), 0), cells.side - 1)
    return out
