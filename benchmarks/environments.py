"""Every environment that is installed, with default settings: which are answered, from what, and what the others are told.

Gymnasium's own environments, and those of MO-Gymnasium and MiniGrid where they are installed, each with two policies times two
signals (the reward, all components of it, and the time) for 2,000 steps.  Only the newest version of an environment counts.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from rich.markup import escape

import gvfx
from benchmarks.study import Found, Part, Row, Study, every, sized
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


class Tried(NamedTuple):
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
    return every(policies, {"reward": gvfx.Reward(), "time": gvfx.Constant(1.0)}, 0.95)


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
    learner = str(result.details.experiment["learner"]).partition("(")[0]
    own = [first_sentence(str(w.message)) for w in caught if w.filename == __file__ and "gymnasium" not in str(w.message)]
    sure = sum(np.isfinite(v.high) for v in result.value().values())
    seconds = time.process_time() - begun
    return Tried(name, LEARNERS.get(learner, learner), len(result.names), int(sure), seconds, "; ".join(own), True)


def first_sentence(text: str) -> str:
    """A sentence in one line, of at most 250 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 250 else line[:247] + "..."


def environments(title: str, package: str, most: int | None, steps: int) -> Study:
    """The environments of one package; any error other than a sentence of gvfx's fails."""
    try:
        importlib.import_module(package)
    except ImportError:
        missing = f"{title} is not installed: pip install {package.replace('_', '-')}"
        return Study({}, tried, shows=lambda found: [missing])

    def measure(name: str) -> dict[str, Any]:
        one = tried(name, steps)
        answered = one.answered or ("refused" if one.works is None else "ERROR")
        counts = (
            {"questions": one.questions, "with intervals": one.sure} if one.works else {"questions": "", "with intervals": ""}
        )
        said = {"CPU seconds": f"{one.seconds:.1f}", "said": escape(one.said)}
        return {"answered from": answered, **counts, **said, "_works": str(one.works)}

    def bars(found: Found) -> Iterator[Row]:
        works = [of["_works"] for of in found.values()]
        good, refused = works.count("True"), works.count("None")
        note = f"{refused} refused or not installed, with a sentence"
        yield Row(f"{title}: answered", f"{good} of {len(works)}", "no errors", good + refused == len(works), note)

    return Study({name: name for name in installed(package)[:most]}, measure, bars, title, ("environment",))


PARTS: dict[str, Part] = {
    package: sized(partial(environments, title, package), (None, STEPS), (4, QUICK)) for title, package in PACKAGES.items()
}
