"""Environments whose ends and resets are not what they say, or that overwrite arrays: never a wrong answer without a word.

Vector environments that declare no autoreset mode, another one, or theirs as text; plain ones that reset themselves, return a
time limit as terminated, seed themselves anew, return one array again and again, or write into the action they are given.  On
tables, numbered observations, linear features, networks and Box actions.  The truth is the solution of a linear system; an
answer is silently wrong if it is off by more than 6 % of the largest value and nothing was said.

Seen to fail when the first episodes are not judged.
"""

from __future__ import annotations

import itertools
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import gvfx
from faults.lying import GAMMA, Chain, Chains, Hiding, N, declared, true_values
from faults.processes import warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 240, 24, 200
STEPS, OFF = 6000, 0.06
FORMS = ("tables", "numbered", "linear")
DOES = ("next", "same", "same, no last", "disabled", "disabled, all")
SAYS = ("enum", "name", "value", "nothing", "nonsense", "NEXT_STEP", "SAME_STEP", "DISABLED")
PLAIN = ("resets itself", "resets itself and tells", "limit as terminated", "seeds itself", "seeds itself later")
PLAIN += ("one array", "one info", "writes actions", "")
SIGNALS = ("reward", "next", "table", "info")
NETWORKS = ("networks", "box")


class Trial(NamedTuple):
    form: str
    does: str  # a fault of a plain chain, or what a vector of chains does
    says: str  # what a vector of chains declares; empty for a plain chain
    cut: int
    start: str
    signal: str
    hidden: bool = False
    paid: bool = True


def run(trials: Trials) -> None:
    warm_up(jax=True)
    for trial in _chosen(trials):
        if trials.done:
            break
        kind = "vector" if trial.says else "plain"
        good, said = _tried(trial)
        trials.check(f"{kind} {trial.form}", good, f"{trial}: {said}")


def _chosen(trials: Trials) -> list[Trial]:
    """A sample of all combinations; a tenth of it with networks."""
    cuts, starts = ((2, "anywhere"), (6, "low"), (6, "anywhere")), SIGNALS[:2]
    every = [
        Trial(form, does, says, *cut, signal, hidden, paid)
        for form, does, says, cut, signal, hidden, paid in itertools.product(
            FORMS, DOES, SAYS, cuts, starts, (False, True), (True, False)
        )
        if (paid or signal == "next") and not (hidden and says in SAYS[3:])
    ]
    plain = [
        Trial("listed" if fault == "writes actions" and form == "tables" else form, fault, "", *cut, signal)
        for form, fault, cut, signal in itertools.product(FORMS, PLAIN, cuts, SIGNALS)
        if signal != "table" or form == "tables"
    ]
    nets = [Trial(form, fault, "", 6, "low", "next") for form, fault in itertools.product(NETWORKS, PLAIN)]
    nets += [Trial(form, does, says, 6, "low", "next") for form in NETWORKS for does in DOES for says in SAYS[::3]]
    for listed in (every, plain, nets):
        trials.random.shuffle(listed)
    trials.note(f"{len(every) + len(plain) + len(nets)} combinations")
    tenth = trials.wanted // 10 if trials.wanted >= FULL else 0
    rest = trials.wanted - tenth
    return nets[:tenth] + every[: rest // 2] + plain[: rest - rest // 2]


def _tried(trial: Trial) -> tuple[bool, str]:
    """Whether the answer is right or something was said, and what."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = _answered(trial)
        except gvfx.GvfxError as error:
            return str(error).count("\n") == 0 and trial.does != "", str(error)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"
    said = "; ".join(str(each.message) for each in told)
    if trial.does == "" and said:
        return False, f"warned without cause: {said}"
    net = trial.form in NETWORKS
    truth = _honest(trial.form, bool(trial.says)) if net else true_values(trial.signal == "table")
    wrong = np.abs(found - truth).max() / np.abs(truth).max()
    return bool(wrong <= (3 * OFF if net else OFF) or said), f"off by {wrong:.1%}, {said or 'nothing said'}"


def _answered(trial: Trial) -> np.ndarray:
    """The values [state] that a run finds."""
    form = trial.form
    if trial.says:
        env: Any = Chains(form, trial.does, declared(trial.says, trial.does), trial.cut, trial.start, trial.paid)
        env = Hiding(env) if trial.hidden else env
    else:
        env = Chain(form, trial.does, trial.cut, trial.start)
    half: Any = gvfx.gaussian_policy([0.0], 0.5) if form == "box" else [0.5, 0.5]
    learner = {"linear": gvfx.LinearCertaintyEquivalence(intervals=False), "networks": gvfx.Deep(), "box": None}
    asked = [gvfx.GVF(half, _signal(trial), GAMMA, name="asked")]
    options: dict[str, Any] = {"audit": 0} if form in NETWORKS else {}
    behaviour = None if form == "box" else gvfx.Uniform()
    result = gvfx.evaluate(
        env, asked, behaviour, learner.get(form, gvfx.CertaintyEquivalence()), steps=STEPS, progress=False, **options
    )
    return np.array([float(np.ravel(result.predict(Chain(form).look(s)))[0]) for s in range(N)])


def _signal(trial: Trial) -> Any:
    if trial.signal == "table":
        return gvfx.Constant(1.0, at=2)
    if trial.signal == "info":
        return gvfx.Info("signal")
    return gvfx.Reward() if trial.signal == "reward" else _next_place


def _next_place(s: Any, a: Any, s2: Any) -> float:
    return float(np.ravel(s2)[0]) + float(np.ravel(a)[0] > 0) / 2


@cache
def _honest(form: str, vector: bool) -> np.ndarray:
    """What networks answer without a fault: they learn too slowly here to be compared with the truth."""
    return _answered(Trial(form, "next" if vector else "", "enum" if vector else "", 6, "low", "next"))
