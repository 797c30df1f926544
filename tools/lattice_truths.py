"""Remake the true values of the continuous grid that ship with gvfx, and print how well they are known.

    python tools/lattice_truths.py paper_grid --episodes 100000
    python tools/lattice_truths.py authors_grid --episodes 30000

The files have the same bytes each time.  `--episodes` is per GVF and point; 1,000 take about 12 CPU-seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from lattice_solution import solve

from gvfx.errors import UnknownName
from gvfx_paper.truths.lattice import (
    PAPER_DISCOUNT,
    PAPER_POLICIES,
    SHIPPED,
    as_truth,
    lattice_points,
    parameters,
    simulate,
    write,
)
from gvfx_paper.worlds.continuous_grid import authors_grid, paper_grid


def main(arguments: list[str] | None = None, folder: Path = SHIPPED) -> None:
    """Remake the shipped true values of the continuous grid and print how well they are known."""
    makers = {"paper_grid": paper_grid, "authors_grid": authors_grid}
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("worlds", nargs="*", default=list(makers), help="paper_grid, authors_grid; both unless given")
    parser.add_argument("--episodes", type=int, default=100_000, help="per GVF and point")
    parser.add_argument("--workers", type=int, default=1, help="threads")
    chosen = parser.parse_args(arguments)
    for name in chosen.worlds:
        if name not in makers:
            raise UnknownName("worlds", name, tuple(makers))
        world = makers[name]()
        began = time.perf_counter()
        values, errors = simulate(
            world, PAPER_POLICIES, PAPER_DISCOUNT, lattice_points(), chosen.episodes, workers=chosen.workers
        )
        arrays = {"values": values, "standard_errors": errors}
        asked = {**parameters(world, PAPER_POLICIES, PAPER_DISCOUNT), "episodes": chosen.episodes, "seed": 0}
        write(folder / f"{name}.safetensors", arrays, asked)
        truth = as_truth(world, arrays)
        solved = solve(world, PAPER_POLICIES, PAPER_DISCOUNT, 401)
        zeros = np.zeros_like(values)
        print(f"{name}: {chosen.episodes} episodes a point, {time.perf_counter() - began:.0f} s")
        print(f"  noise of the error (mean squared standard error) {truth.noise.mean():.5f}, per GVF {truth.noise.round(5)}")
        print(f"  zero predictor {truth.mse(zeros).mean():.2f}, outside the discs {truth.mse(zeros, True).mean():.2f}")
        apart = np.abs(values - solved)
        seen = (errors > 0) & (values > 10 * errors)  # elsewhere too few episodes enter the goal for a standard error
        print(f"  against the numerical solution: mean squared difference {(apart**2).mean():.5f}; largest")
        print(f"  {(apart[seen] / errors[seen]).max(initial=0):.2f} standard errors at {seen.sum()} points often paid,")
        print(f"  {apart[~seen].max(initial=0):.4f} at the others")


if __name__ == "__main__":
    main()
