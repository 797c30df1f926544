"""kill -9 at random moments and amid every file operation, on networks, in MuJoCo and in stores: the same bytes in the end."""

from __future__ import annotations

from faults.groups.kills import NETWORKS, killed
from faults.processes import warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 275, 0, 790


def run(trials: Trials) -> None:
    warm_up(jax=True)
    killed(trials, NETWORKS)
