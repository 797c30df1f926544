"""Results as text.  Imported in command bodies only: it needs the library."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from gvfx.cli.terminal import make_table
from gvfx.running.result import Result, standard_error

SHOWN = 12  # GVFs with a row of their own


def mean_and_error(samples: np.ndarray) -> tuple[str, str]:
    """The mean over seeds [seed] and its standard error ("-" for a single seed)."""
    return f"{samples.mean():.4g}", f"± {standard_error(samples):.2g}" if len(samples) > 1 else "-"


def result_table(result: Result, world: Any) -> Table:
    """The errors at the end of the runs: each GVF's, their average, and the one outside the goals where it is measured."""
    table = make_table("GVF", "MSE", "standard error", "value error, mean |V - V̂|")
    live = getattr(world, "live", slice(None))  # the continuous grid is measured on its whole lattice
    gap = abs(result.values - result.truth)[:, :, live].mean(axis=(0, 2))
    for i, name in enumerate(result.names[:SHOWN]):
        table.add_row(name, *mean_and_error(result.mse[:, -1, i]), f"{gap[i]:.4g}")
    if len(result.names) > SHOWN:
        table.add_row(f"... {len(result.names) - SHOWN} more", "", "", "")
    table.add_section()
    table.add_row("average", *mean_and_error(result.error[:, -1]), f"{gap.mean():.4g}", style="bold")
    if result.mse_outside is not None:
        table.add_row("outside the goals", *mean_and_error(result.mse_outside[:, -1].mean(axis=1)), "")
    return table
