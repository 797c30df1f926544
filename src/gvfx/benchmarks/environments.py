"""Every environment that is installed, with default settings: which are answered, from what, and what the others are told.

Gymnasium's own environments, and those of MO-Gymnasium and MiniGrid where they are installed, each with two policies times two
signals (the reward, all components of it, and the time) for 2,000 steps.  Only the newest version of an environment counts.
Run it with `gvfx bench environments`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import gvfx
from gvfx.benchmarks.common.rows import Row, as_table, machine
from gvfx.worlds.spec import has_box_actions, spaces_of

STEPS, QUICK = 2_000, 200
PACKAGES = {"Gymnasium": "gymnasium", "MO-Gymnasium": "mo_gymnasium", "MiniGrid": "minigrid"}  # as they are imported
LEARNERS = {
    "CertaintyEquivalence": "tables",
    "LinearCertaintyEquivalence": "linear features",
    "Deep": "networks",
    "TwinCritics": "twin critics",
}
SAMPLE = (  # of MiniGrid, whose environments are many sizes of a few kinds
    "MiniGrid-Empty-5x5-v0",
    "MiniGrid-Empty-Random-6x6-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-FourRooms-v0",
    "MiniGrid-LavaGapS5-v0",
    "MiniGrid-Dynamic-Obstacles-5x5-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
    "MiniGrid-GoToDoor-5x5-v0",
)


@dataclass(frozen=True)
class Tried:
    """What happened in one environment."""

    name: str
    answered: str  # from what; empty if it was not
    questions: int
    sure: int  # questions whose value at the start has a finite interval
    seconds: float  # of processor time
    said: str  # warnings, or the sentence of the refusal
    works: bool | None  # None: refused with a sentence, or not installed; False: any other error


def installed(package: str) -> list[str]:
    """The registered names of a package's environments, the newest version of each."""
    newest: dict[str, tuple[int, str]] = {}
    for name, spec in gym.registry.items():
        home = str(spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", ""))
        own = re.split(r"[.:]", home)[0] == package and not name.startswith(("phys2d/", "tabular/", "GymV"))
        if own and (package != "minigrid" or name in SAMPLE):
            base, _, version = name.rpartition("-v")
            newest[base] = max(newest.get(base, (-1, "")), (int(version), name))
    return [name for _, name in newest.values()]


def questions(env: Any) -> list[gvfx.GVF]:
    """Two policies times two signals."""
    policies: dict[str, Any]
    if has_box_actions(env):
        moves = spaces_of(env)[1]
        low, high = np.nan_to_num(moves.low, neginf=-1.0), np.nan_to_num(moves.high, posinf=1.0)
        middle, width = (low + high) / 2, (high - low) / 2
        policies = {
            "middle": gvfx.gaussian_policy(middle, sigma=0.3 * width),
            "up": gvfx.gaussian_policy(middle + 0.3 * width, sigma=0.3 * width),
        }
    else:
        actions = len(gvfx.actions_of(env))
        policies = {"uniform": np.full(actions, 1 / actions), "first": (np.arange(actions) == 0) * 0.5 + 0.5 / actions}
    signals = {"reward": gvfx.Reward(), "time": gvfx.Constant(1.0)}
    return [gvfx.GVF(p, c, 0.95, name=f"{who}: {what}") for who, p in policies.items() for what, c in signals.items()]


def tried(name: str, steps: int) -> Tried:
    """Evaluate the default questions about one environment, and predict at what it returns."""
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("always")
        try:
            env = gym.make(name, disable_env_checker=True)
        except Exception as error:  # a part of the package that is not installed
            return Tried(name, "", 0, 0, 0.0, f"cannot be made: {first_sentence(str(error))}", None)
        try:
            result = gvfx.evaluate(env, questions(env), steps=steps, progress=False)
            observation, _ = env.reset(seed=1)
            if result.predict(observation).shape != (len(result.names),):
                raise ValueError("predict does not take what the environment returns")
        except gvfx.GvfxError as error:
            return Tried(name, "", 0, 0, time.process_time() - begun, first_sentence(str(error)), None)
        except Exception as error:
            return Tried(name, "", 0, 0, time.process_time() - begun, f"{type(error).__name__}: {error}", False)
        finally:
            env.close()
    learner = str(result.experiment["learner"]).partition("(")[0]
    own = [first_sentence(str(w.message)) for w in caught if w.filename == __file__ and "gymnasium" not in str(w.message)]
    sure = sum(np.isfinite(v.high) for v in result.value().values())
    seconds = time.process_time() - begun
    return Tried(name, LEARNERS.get(learner, learner), len(result.names), int(sure), seconds, "; ".join(own), True)


def first_sentence(text: str) -> str:
    """A sentence in one line, of at most 250 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 250 else line[:247] + "..."


def shown(title: str, done: Sequence[Tried]) -> Table:
    """What was found in the environments of one package."""
    table = Table("environment", "answered from", "questions", "with intervals", "CPU seconds", "said", title=title)
    for one in done:
        answered = one.answered or ("refused" if one.works is None else "ERROR")
        counts = (str(one.questions), str(one.sure)) if one.works else ("", "")
        table.add_row(one.name, answered, *counts, f"{one.seconds:.1f}", escape(one.said))
    return table


def judged(title: str, done: Sequence[Tried]) -> Row:
    """How many environments of a package are answered; any error other than a sentence of gvfx's fails."""
    works, wrong = sum(one.works is True for one in done), sum(one.works is False for one in done)
    note = f"{len(done) - works - wrong} refused or not installed, with a sentence"
    return Row(f"{title}: answered", f"{works} of {len(done)}", "no errors", not wrong, note)


def run(console: Console, quick: bool = False) -> list[Row]:
    """Try every environment; prints one table per package."""
    console.print(machine(), highlight=False)
    rows = []
    for title, package in PACKAGES.items():
        try:
            importlib.import_module(package)
        except ImportError:
            console.print(f"{title} is not installed: pip install {package.replace('_', '-')}")
            continue
        names = installed(package)
        done = []
        with console.status(title) as status:
            for name in names[:4] if quick else names:
                status.update(f"{title}: {name}")
                done.append(tried(name, QUICK if quick else STEPS))
        console.print(shown(title, done))
        rows.append(judged(title, done))
    console.print(as_table(rows))
    return rows
