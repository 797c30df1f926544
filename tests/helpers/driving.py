"""Runs driven by hand: what `gvfx.evaluate` and sweeps do for a seed."""

from __future__ import annotations

from gvfx.running.checkpoint import Checkpoints
from gvfx.running.drive import drive
from gvfx.running.tracking import Calls, Listeners


def driven(backend, *seeds, progress=None, folder=None, every=0.0, keep_last=False):
    """One part per seed; `progress` hears every measurement, checkpoints go to `folder` after every stop."""
    listeners = Listeners(Calls(progress)) if progress else Listeners()
    keep = Checkpoints(folder, "seed", "test") if folder else None
    stream = backend.begin(*seeds)
    return drive(backend, stream, listeners=listeners, checkpoints=keep, checkpoint_every=every, keep_last=keep_last)
