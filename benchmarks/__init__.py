"""Measurements of speed and accuracy, each with a bar: one per module, made by one harness, `study` (docs/benchmarks.md)."""

from __future__ import annotations

import pkgutil

MOVED = {  # old names, and what measures the same now
    **{name: f"exploring {name}" for name in ("hard", "random_mdps", "own", "mrnas", "ros")},
    **{name: f"speed {name}" for name in ("online", "deep", "mujoco")},
    **{name: f"continuous {name}" for name in ("box_actions", "cartpole")},
    "audits": "coverage audits",
    "audit_logs": "coverage logs",
    "where": "coverage where held",
    "start": "load start",
}


def names() -> list[str]:
    """The names of the benchmarks."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg and m.name not in ("__main__", "study"))
