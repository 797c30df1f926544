"""kill -9 at random moments and amid every file operation, on tables and linear features: the same bytes in the end.

`kills_networks` does the same on networks, in MuJoCo and in stores of results.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

from faults import own_environments
from faults.killing import Case, Kills
from faults.processes import warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 725, 6, 800
OWN = Path(own_environments.__file__)


def stored(seconds: float = 0, *more: object) -> tuple[object, ...]:
    """Options that keep checkpoints this often, and the result."""
    return ("--checkpoint", "run", "--save", "result.gvfx", "--checkpoint-every", seconds, *more)


def on_tables(
    share: int, setting: str, steps: int, *more: object, seeds: int = 1, stepped: bool = False, **options: object
) -> Case:
    """stepped: whether a world of ours is stepped like an environment, because of audits."""
    arguments = ("run", setting, "--steps", steps, "--seeds", seeds, "--workers", 1, *stored(), *more)
    return Case("tables", "table_gym (audited)" if stepped else "table_compiled", arguments, share, steps, **options)  # type: ignore[arg-type]


def in_grid(kind: str, backend: str, share: int, steps: int, *more: object) -> Case:
    arguments = ("run", "continuous", "--steps", steps, "--seeds", 1, "--workers", 1, *stored(), *more)
    return Case(kind, backend, arguments, share, steps, prepared=kind != "networks")


def own(backend: str, share: int, make: str, steps: int, *more: object, **options: object) -> Case:
    arguments = ("evaluate", f"{OWN}:{make}", "--steps", steps, "--seeds", 1, *stored(), *more)
    return Case("own environments", backend, arguments, share, steps, same=False, **options)  # type: ignore[arg-type]


def in_mujoco(share: int, domain: str, steps: int, *more: object) -> Case:
    arguments = ("run", domain, "--steps", steps, "--seeds", 1, "--workers", 1, *stored(0.2), *more)
    return Case("MuJoCo", "critics_lockstep", arguments, share, steps, prepared=False)


def stores(backend: str, share: int, *arguments: object, **options: object) -> Case:
    """A folder of results, made by one chain of kills."""
    given = (*arguments, "--seeds", 1, "--results", "store", *(() if "--workers" in arguments else ("--workers", 1)))
    return Case("stores", backend, given, share, chain=share, **options)  # type: ignore[arg-type]


def small_store() -> None:
    """In the fork: let `gvfx reproduce` make a few short runs on networks, critics and tables instead of long ones."""
    from dataclasses import replace

    from gvfx.running import drive
    from gvfx_paper import items as reproduce
    from gvfx_paper.settings.runs import find_setting

    drive.CHECKPOINT_EVERY = 0.2
    made = [
        find_setting("continuous").experiment("GVFExplorer", steps=600, measurements=4),
        find_setting("cheetah").experiment("RoundRobin", steps=640, measurements=4),
        find_setting("same").experiment("GVFExplorer", steps=200_000, measurements=4),
    ]
    made = [replace(e, snapshots=()) for e in made]
    curves = [(SimpleNamespace(experiment=e), 1) for e in made]
    reproduce.chosen_items = lambda names: []  # type: ignore[attr-defined]
    reproduce.curves_with_seeds = lambda *_: curves  # type: ignore[attr-defined]


def often() -> None:
    """In the fork: checkpoints of stored runs several times a second."""
    from gvfx.running import drive

    drive.CHECKPOINT_EVERY = 0.05


def own_cache() -> None:
    """In the fork: compiled code is kept beside the results, where it is not there yet."""
    os.environ["GVFX_CACHE_DIR"] = str(Path.cwd() / "cache")


CASES = (
    on_tables(130, "same", 60_000),
    on_tables(60, "distinct", 10_000, "-b", "OptimalDesign", "-l", "CertaintyEquivalence", seeds=2),
    on_tables(40, "forty", 20_000, "-b", "Mixture"),
    on_tables(40, "fourrooms", 8_000, "-b", "SR"),
    on_tables(40, "semi-greedy", 40_000, "-l", "EpisodicExpectedSarsa", "-b", "RoundRobin"),
    on_tables(30, "same", 20_000, "-b", "BPS"),
    on_tables(30, "distinct-x2", 40_000, "-l", "ImportanceSampling", "--calibrate"),
    on_tables(30, "distinct", 20_000, "-b", "OptimalDesign", "-l", "CertaintyEquivalence", "--until", 0.5),
    on_tables(30, "distinct", 10_000, "-b", "OptimalDesign", "-l", "CertaintyEquivalence", "--where", "start"),
    on_tables(20, "same", 4_000, "-b", "RoundRobin", "-l", "CertaintyEquivalence", "--audit", 0.2, same=False, stepped=True),
    on_tables(10, "same", 400_000, "--workers", 2, seeds=3, anew=True),
    in_grid("linear", "linear_compiled", 90, 2_000, "-l", "LinearCertaintyEquivalence", "-b", "OptimalDesign"),
    in_grid("linear", "linear_compiled", 60, 3_000, "-l", "LinearCertaintyEquivalence", "-b", "RoundRobin"),
    own("table_gym", 35, "tables", 4_000, "--track", "log.jsonl"),
    own("table_gym (vector)", 15, "vector", 3_000, "--where", "start", lanes=3),
    own("numbered_gym", 25, "numbered", 3_000),
    own("linear_gym", 25, "points", 2_000, "--until", 0.0001),
    own("linear_gym (vector)", 15, "vector_of_points", 1_500, "--audit", 0.2, lanes=3),
    Case(
        "compiled code",
        "table_compiled",
        (
            "run",
            "same",
            "--steps",
            40_000,
            "--seeds",
            1,
            "--workers",
            1,
            "-b",
            "Uniform",
            *stored(),
        ),  # which no other case compiles
        10,
        40_000,
        prepared=False,
        before=own_cache,
        below="cache",
    ),
)
NETWORKS = (
    own("network_gym", 20, "points", 1_200, "-l", "Deep", prepared=False),
    own("critics_gym", 15, "pushed", 900, prepared=False),
    in_grid("networks", "network_scanned", 70, 1_200),
    in_grid("networks", "network_scanned", 50, 960, "--preset", "recommended"),
    in_mujoco(50, "cheetah", 1_600),
    in_mujoco(30, "walker", 1_280),
    stores("reproduce", 24, "reproduce", "value-error", before=often, prepared=False),
    stores("sweep", 6, "sweep", "same", before=often, prepared=False),
    stores("sweep, two workers", 8, "sweep", "same", "--workers", 2, anew=True),
    stores("store of networks", 12, "reproduce", "continuous", before=small_store, prepared=False),
)


QUICK = (CASES[0], CASES[13])  # the fastest: a table in a world of ours, and in an environment


def run(trials: Trials) -> None:
    fast = trials.wanted <= FAST
    warm_up()
    killed(trials, QUICK if fast else CASES)


def killed(trials: Trials, cases: tuple[Case, ...]) -> None:
    """Kills by each case's share, and after that of the fastest, until enough were made."""
    kills = Kills(trials)
    part = min(1.0, trials.wanted / sum(case.share for case in cases))
    for case in cases:
        if not trials.done:
            kills.chains(case, round(part * case.share))
    while not trials.done:
        kills.chains(trials.random.choice(QUICK), trials.wanted - trials.count)
