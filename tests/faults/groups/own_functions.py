"""Policies, signals and discounts that reuse or change arrays, are random, remember, or change later: no wrong answer unsaid.

Each stands between two innocent questions, whose answers must be right too.  On tables, numbered observations, linear features,
vector environments, known MDPs, logs, networks and Box actions.  The truth is the solution of a linear system; an answer is
silently wrong if it is off by more than 6 % of the largest value and nothing was said.  A function that only reuses or changes
arrays is not refused: its answers must be right, and with networks those of the honest function.

Seen to fail, by family, when in gvfx: what policies answer is not copied (reuses), nor what they are given (in place), nor what
signals are given (signal); policies and discounts are not asked again (mood, discount), or always in the same order (mood, with
memories); cumulants by table forget that they read observations, or environments get the action itself (world).
"""

from __future__ import annotations

import itertools
import warnings
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import gvfx
from faults import moody
from faults.lying import GAMMA, LANES, UP, Chain, N, true_values
from faults.moody import RIGHT, STEEP, Mood, Time
from faults.processes import warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 360, 12, 180
STEPS, OFF = 6000, 0.06
NETWORKS = ("networks", "box")
FORMS = (
    "tables",
    "listed",
    "numbered",
    "linear",
    "vector tables",
    "vector numbered",
    "vector linear",
    "known",
    "log",
    "log linear",
)
ARRAYS = ("array", "part", "0-d")
PLACES = ("normalises", "spoils")
MOODS = ("sampled", "noise", "rare", "last", "turns", "seventh", "drifts", "later", "trained")
WAYS = ("function", "softmax", "mixture", "predict")
SIGNALS = ("observation", "action", "next", "info", "in info", "0-d", "vector", "noise")
DISCOUNTS = ("observation", "action", "next", "0-d", "noise", "sampled", "turns", "later")
BY_TABLE = "one array, by a table"  # the signal is 1 in state 2
WORLDS = ("one array", "one info", "writes actions", BY_TABLE)
FAMILIES = {"reuses": ARRAYS, "in place": PLACES, "mood": MOODS, "signal": SIGNALS, "discount": DISCOUNTS, "world": WORLDS}
LATE = (40, 700, 2500, 4200)  # calls or steps after which a function is another one


class Trial(NamedTuple):
    form: str
    family: str
    kind: str
    way: str = "function"
    batch: bool = False
    late: int = 700
    seed: int = 0


def run(trials: Trials) -> None:
    warm_up(jax=True)
    for trial in _chosen(trials):
        if trials.done:
            break
        good, said = _tried(trial)
        trials.check(f"{trial.family}, {trial.form}", good, f"{trial}: {said}")


def _chosen(trials: Trials) -> list[Trial]:
    """A sample of all combinations, every family in turn; a tenth of it with networks."""
    by_family: dict[str, list[Trial]] = {}
    nets: list[Trial] = []
    for family, kinds in FAMILIES.items():
        ways, lates = (WAYS, LATE) if family == "mood" else (("function",), LATE if family == "discount" else LATE[:1])
        every = itertools.product((*FORMS, *NETWORKS), kinds, ways, (False, True), lates)
        found = [Trial(form, family, *rest) for form, *rest in every if _applies(form, family, *rest)]
        found = [trial._replace(seed=trials.random.randrange(1000)) for trial in found]
        trials.random.shuffle(found)
        by_family[family] = [trial for trial in found if trial.form not in NETWORKS]
        nets += [trial for trial in found if trial.form in NETWORKS][: 12 if family == "mood" else 8]
    trials.note(f"{sum(map(len, by_family.values())) + len(nets)} combinations")
    trials.random.shuffle(nets)
    turns = [trial for each in itertools.zip_longest(*by_family.values()) for trial in each if trial is not None]
    return (nets[: trials.wanted // 10] if trials.wanted >= FULL else []) + turns


def _applies(form: str, family: str, kind: str, way: str, batch: bool, late: int) -> bool:
    """Whether a combination makes sense, and is not one of several equal ones."""
    whole = form in ("tables", "listed", "vector tables", "known", "log")  # observations are numbers
    if batch and (whole or family not in ("reuses", "in place", "mood") or kind == "0-d" or way == "predict"):
        return False
    if form in NETWORKS and kind == "vector":
        return False  # a network of another size
    if form == "box" and ((kind == "0-d" and family == "reuses") or way != "function"):
        return False
    if family == "in place" and whole:
        return False
    if kind == BY_TABLE:
        return form == "tables"
    if family == "world":
        return form in ("tables", "numbered", "linear", *NETWORKS) or (kind == "writes actions" and form == "listed")
    if family in ("signal", "discount") and (form == "known" or form.startswith("log")) and kind in ("info", "in info"):
        return False
    if kind == "noise" and family != "mood" and form == "known":
        return False  # is refused, with the advice to let the environment be stepped
    if family == "mood" and way == "predict":
        return kind == "sampled" and late == LATE[0]
    if kind == "trained" and (form == "known" or form.startswith("log")):
        return False
    return kind in ("later", "drifts", "trained") or late == LATE[0]


def _tried(trial: Trial) -> tuple[bool, str]:
    """Whether the answers are right or something was said, and what."""
    may_say = trial.family == "mood" or (trial.family == "discount" and trial.kind in DISCOUNTS[4:])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = _answered(trial)
        except gvfx.GvfxError as error:
            return may_say and "guilty." in str(error) and "\n" not in str(error), str(error)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"
    said = "; ".join(str(each.message) for each in told)
    if said:
        return may_say and "guilty." in said, said
    off = {name: [_off(values, truth) for truth in _truths(trial, name)] for name, values in found.items()}
    worst = max(min(each, default=np.inf) for each in off.values())
    return bool(worst <= _bar(trial, may_say)), f"off by {worst:.2%}, nothing said"


def _off(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(values - truth).max() / np.abs(truth).max())


def _bar(trial: Trial, may_say: bool) -> float:
    """How far answers may be off; networks learn too slowly here to be compared with anything but the same network."""
    if trial.form not in NETWORKS:
        return OFF
    return 3 * OFF if may_say or trial.kind == "noise" else 1e-5


def _truths(trial: Trial, name: str) -> list[np.ndarray]:
    """The values [state] of what a question may be taken for; none if its function has a memory."""
    guilty = name.startswith("guilty")
    if trial.form in NETWORKS:
        return [] if guilty and trial.kind in ("last", "turns") else [_by_network(trial.form, _is_greedy(trial))[name]]
    if not guilty or trial.family == "world":
        return [true_values(trial.kind == BY_TABLE, right=RIGHT)]
    if trial.family == "mood":
        share = moody.HONEST if trial.way == "mixture" else 0.0
        return [true_values(right=right + share * (RIGHT - right)) for right in _mood(trial, Time(0)).mixed()]
    if trial.family == "discount" and trial.kind in ("turns", "later"):
        return [] if trial.kind == "turns" else [true_values(right=RIGHT, discount=each) for each in (GAMMA, STEEP * GAMMA)]
    if _is_greedy(trial):
        return [true_values(right=RIGHT > 0.5)]
    return [true_values(right=RIGHT)]


def _is_greedy(trial: Trial) -> bool:
    return trial.family == "reuses" and trial.kind == "0-d"


def _mood(trial: Trial, time: Time) -> Mood:
    return Mood(trial.form, trial.kind, trial.late, time, trial.seed, trial.batch)


def _answered(trial: Trial) -> dict[str, np.ndarray]:
    """The values [state] that a run finds, by question."""
    time = Time(trial.late)
    policy, signal, discount = moody.honest(trial.form), moody.signal_of(""), moody.discount_of("", 0, 0)
    if trial.family == "reuses":
        policy = moody.reused(trial.form, trial.batch, trial.kind)
    elif trial.family == "in place":
        policy = moody.in_place(trial.form, trial.batch, trial.kind)
    elif trial.family == "mood":
        policy = moody.moody(trial.form, _mood(trial, time), trial.way)
    elif trial.family == "signal":
        signal = moody.signal_of(trial.kind, trial.seed)
    elif trial.family == "discount":
        discount = moody.discount_of(trial.kind, trial.late, trial.seed)
    if trial.kind == BY_TABLE:
        return _asked(trial, [gvfx.GVF(policy, gvfx.Constant(1.0, at=2), GAMMA, name="guilty")], time)
    asked = [_question("before", trial.form), gvfx.GVF(policy, signal, discount, name="guilty"), _question("after", trial.form)]
    if trial.form in ("tables", "numbered", "linear", "listed") and trial.family in ("signal", "world"):
        asked.append(gvfx.GVF(moody.honest(trial.form), gvfx.Info("signal"), GAMMA, name="info"))
    return _asked(trial, asked, time)


def _question(name: str, form: str) -> gvfx.GVF:
    return gvfx.GVF(moody.honest(form), moody.signal_of(""), moody.discount_of("", 0, 0), name=name)


def _asked(trial: Trial, asked: list[gvfx.GVF], time: Time) -> dict[str, np.ndarray]:
    form = {"log": "tables", "known": "tables"}.get(trial.form, trial.form.split()[-1])
    options: dict[str, Any] = {"progress": False}
    behaviour: Any = gvfx.Uniform()
    learner: Any = gvfx.LinearCertaintyEquivalence(intervals=False) if form == "linear" else gvfx.CertaintyEquivalence()
    steps = STEPS
    if form in NETWORKS:
        behaviour, steps, options["audit"] = None, 1000, 0.0
        small = {"capacity": 1008, "learning_starts": 100}
        learner = gvfx.Deep(**small) if form == "networks" else gvfx.TwinCritics(hidden=(16, 16), batch=16, updates=1, **small)
    if trial.form.startswith("log"):
        result = gvfx.evaluate_log(_columns(form, trial.seed), asked)
    else:
        result = gvfx.evaluate(_world(trial, form, time), asked, behaviour, learner, steps=steps, **options)
    seen = [Chain(form).look(s) for s in range(N)]
    values = np.array([np.ravel(result.predict(each)) for each in seen])
    return {name: values[:, k] for k, name in enumerate(result.names)}


class Clocked(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the environment's steps where a function sees them."""

    def __init__(self, env: Any, time: Time) -> None:
        super().__init__(env)
        self.time = time

    def step(self, action: Any) -> Any:
        self.time.steps += 1
        return super().step(action)


def _world(trial: Trial, form: str, time: Time) -> Any:
    fault = trial.kind.split(",")[0] if trial.family == "world" else ""

    def chain() -> Any:
        return Clocked(Chain(form, fault, 6, "anywhere"), time)

    if trial.form == "known":
        return _known()
    return gym.vector.SyncVectorEnv([chain] * LANES) if trial.form.startswith("vector") else chain()


@cache
def _known() -> gvfx.MDP:
    P = np.zeros((N, 2, N))
    for s, (a, up) in itertools.product(range(N), enumerate(UP)):
        P[s, a, (s + 1) % N] += up
        P[s, a, max(0, s - 1)] += 1 - up
    return gvfx.MDP.from_matrix(P)


def _columns(form: str, seed: int) -> dict[str, np.ndarray]:
    """A log of actions taken by halves."""
    env = Chain(form, "", 6, "anywhere")
    rng, made = np.random.default_rng(seed), []
    observation, _ = env.reset(seed=seed)
    for _ in range(STEPS):
        action = int(rng.integers(2))
        following, reward, terminated, truncated, _ = env.step(action)
        made.append((observation, action, reward, following, terminated, truncated))
        observation = env.reset()[0] if truncated else following
    names = ("observation", "action", "reward", "next_observation", "terminated", "truncated")
    return {name: np.array(column) for name, column in zip(names, zip(*made, strict=True), strict=True)}


@cache
def _by_network(form: str, greedy: bool = False) -> dict[str, np.ndarray]:
    """What the network answers for honest functions, by question."""
    guilty = _question("guilty", form)
    if greedy:
        best = gvfx.deterministic_policy(lambda o: int(RIGHT[moody.place(o)] > 0.5))
        guilty = gvfx.GVF(best, moody.signal_of(""), moody.discount_of("", 0, 0), name="guilty")
    asked = [_question("before", form), guilty, _question("after", form)]
    return _asked(Trial(form, "", ""), asked, Time(0))
