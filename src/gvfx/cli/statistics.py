"""Numbers of several runs as text.  Imported in command bodies only: it needs the library."""

from __future__ import annotations

import numpy as np

from gvfx.running.result import standard_error


def mean_and_error(samples: np.ndarray) -> tuple[str, str]:
    """The mean over seeds [seed] and its standard error ("-" for a single seed)."""
    return f"{samples.mean():.4g}", f"± {standard_error(samples):.2g}" if len(samples) > 1 else "-"
