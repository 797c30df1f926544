"""check: find mistakes in an environment and its questions before the first run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from time import monotonic
from typing import Any, Literal

import numpy as np

from gvfx.errors import InputError, error_text, install, printable
from gvfx.features.scaling import too_far, unchanging
from gvfx.inputs import is_real, shown, whole
from gvfx.questions.gvf import GVF, expand, on_rewards, question_names
from gvfx.questions.policies import OwnPolicy, is_function, steady_table
from gvfx.questions.reader import Gaussians, Reader, Targets, shifted
from gvfx.questions.signals import Measure, Measured, as_reward
from gvfx.running.backends import as_world, needs_networks
from gvfx.running.endings import REPEATS, Watch
from gvfx.running.summary import unread
from gvfx.types import Environment
from gvfx.worlds.returns import FirstCopy, other_final, truths, wrong_reward
from gvfx.worlds.spaces import count_of, same_observation
from gvfx.worlds.spec import (
    DiscreteSpec,
    box_action_spec,
    discrete_spec,
    drifting,
    has_box_actions,
    is_counted,
    is_environment,
    network_spec,
    random_action,
    stateful,
    time_limit,
)

REPEATED = 20  # steps of an episode that is repeated


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (error) or looks wrong (warning): the field, and a sentence that says how to fix it."""

    severity: Literal["error", "warning"]
    field: str
    sentence: str

    def __str__(self) -> str:
        return printable(f"{self.severity}: {self.field}: {self.sentence}")


class _Findings(list[Finding]):
    """Findings so far, without duplicates."""

    def error(self, field: str, sentence: str) -> None:
        self._add(Finding("error", field, sentence))

    def warning(self, field: str, sentence: str) -> None:
        self._add(Finding("warning", field, sentence))

    def raised(self, error: Exception, field: str, fix: str) -> None:
        """Add an InputError under the field it names, or any other exception under `field`."""
        if isinstance(error, InputError):
            own, _, sentence = str(error).partition(": ")
            self.error(own, sentence)
        else:
            kind, _, text = error_text(error).partition(": ")
            self.error(field, f"raised {kind} ({text}); {fix}.")

    def _add(self, finding: Finding) -> None:
        if finding not in self:
            self.append(finding)


@dataclass(frozen=True)
class _Step:
    """A copy of one transition."""

    observation: Any
    action: Any
    reward: Any
    following: Any
    terminated: Any
    truncated: Any
    info: dict


def check(
    env: Environment | Callable[[], Environment] | str,
    questions: Sequence[GVF] = (),
    steps: int = 1000,
    seed: int = 0,
    seconds: float = 10.0,
) -> list[Finding]:
    """Mistakes in an environment and its questions; an empty list if none was found.

    env:     a Gymnasium environment, a function that makes one (each of the two test runs then has its own), or a registered
             name.  Of a vector environment the first copy is checked, while the others take the same actions.
    steps:   number of random steps to try; signals that never fire and episodes that never end are judged by them.
    seconds: after which no further step is tried; a finding says so.
    """
    steps, seed = whole(steps, "steps", least=1), whole(seed, "seed", least=0)
    if not (is_real(seconds) and seconds > 0):
        raise InputError(f"seconds: {shown(seconds)} is not a time; give a number above 0.")
    found = _Findings()
    tried, again = _two(as_world(env) if isinstance(env, str) else env, found)
    asked: list[tuple[str, GVF]] = []
    try:
        expanded = expand(questions if tried is None else on_rewards(questions, tried))
        asked = list(zip(question_names(expanded), expanded, strict=True))
    except InputError as error:
        found.raised(error, "questions", "")
    if tried is None:
        return list(found)
    try:
        network = network_spec(tried)
    except InputError as error:
        found.raised(error, "env", "")
        return list(found)
    if needs_networks(tried) and find_spec("jax") is None:
        found.error("jax", f"is not installed, but networks are needed here; run {install('deep')}.")
    spec: DiscreteSpec | None = None  # None for other observations: policies are then tried at those seen
    with suppress(InputError):
        spec = None if has_box_actions(tried) else discrete_spec(tried)
    tables = not has_box_actions(tried) and (spec is not None or is_counted(tried))
    if network.left_out:
        found.warning(*unread(network.left_out).split(": ", 1))
    for name, effect in stateful(env if is_environment(env) else tried).items():
        found.warning("env", f"{name}: {effect}.")
    path = _walk(tried, steps, seed, found, seconds)
    _check_policies(tried, network.actions, spec, path, asked, found)
    if path:
        replay = _walk(again, min(len(path), 300), seed, _Findings(), seconds / 2)
        _check_reproducible(path, replay, drifting(tried) if tried is again else {}, found)
        _check_signals(spec, path, asked, len(path) == steps, found)
        _check_episodes(tried, spec or network, path, asked, found)
    if len(path) == steps:
        _check_seeds(tried, path, seed, found)
        vectors = np.array([] if tables else [network.flat(step.observation) for step in path])
        for sentence in filter(None, (too_far(vectors), unchanging(vectors)) if len(vectors) else ()):
            found.warning("observation", sentence)
        _check_endings(tried, path, asked, found)
    elif not any(finding.severity == "error" for finding in found):
        found.warning("env", f"{len(path):,} of {steps:,} steps were tried in {seconds:g} s; give seconds= for more.")
    return sorted(found, key=lambda f: f.severity)


def _two(env: Any, found: _Findings) -> tuple[Any, Any]:
    """Two environments to try: two new ones from a factory, or the same one twice."""
    try:
        made = (env(), env()) if callable(env) and not is_environment(env) else (env, env)
    except Exception as error:
        found.raised(error, "env", "make the function work without arguments")
        return None, None
    if not is_environment(made[0]):
        found.error("env", f"{type(env).__name__} is not a Gymnasium environment; give one, or a function that makes one.")
        return None, None
    if hasattr(made[0], "num_envs"):
        try:
            first = FirstCopy(made[0])
            return first, first if made[1] is made[0] else FirstCopy(made[1])
        except InputError as error:
            found.raised(error, "env", "")
            return None, None
    return made


# --- the environment ---------------------------------------------------------------------------------------------


def _walk(env: Any, steps: int, seed: int, found: _Findings, seconds: float) -> list[_Step]:
    """Copies of transitions with random actions; adds what fails to `found`."""
    rng, end = np.random.default_rng(seed), monotonic() + seconds
    path: list[_Step] = []
    given = _reset(env, {"seed": seed}, found)
    while given is not None and len(path) < steps and (monotonic() < end or not path):
        observation = copy.deepcopy(given)
        action = random_action(env.action_space, rng)
        answer = _step(env, copy.deepcopy(action), len(path), found)
        if answer is None:
            break
        if not same_observation(observation, given) or (answer[0] is given and isinstance(given, np.ndarray)):
            found.error("observation", "is an array that later steps overwrite; return a copy.")
        following, reward, terminated, truncated, info = answer
        path.append(_Step(observation, action, copy.copy(reward), copy.deepcopy(following), terminated, truncated, dict(info)))
        given = _reset(env, {}, found) if terminated or truncated else following
    return path


def _reset(env: Any, options: dict, found: _Findings) -> Any:
    """The first observation of an episode, or None if reset failed."""
    try:
        answer = env.reset(**options)
    except Exception as error:
        found.raised(error, "reset", "make it take seed= and options=" if isinstance(error, TypeError) else "make it work")
        return None
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        found.error("reset", "does not return (observation, info); return both, info as a dict.")
        return None
    return answer[0] if _fits(env, answer[0], "reset", found) else None


def _step(env: Any, action: Any, t: int, found: _Findings) -> tuple | None:
    """The five values of a step, or None if they are invalid."""
    wanted = "return (observation, reward, terminated, truncated, info)."
    try:
        answer = env.step(action)
    except Exception as error:
        if "values to unpack" in error_text(error):  # a wrapper got the four values of old Gym
            found.error("step", f"returns 4 values; {wanted}")
        else:
            found.raised(error, "step", f"it was step {t}, action {action}; make every action possible")
        return None
    if not isinstance(answer, tuple) or len(answer) != 5:
        count = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        found.error("step", f"returns {count}; {wanted}")
        return None
    before = len(found)
    following, reward, terminated, truncated, info = answer
    try:
        own = np.asarray(as_reward(reward), float)
        if own.ndim > 1:
            found.error("reward", f"has shape {list(own.shape)}; return a number, or a vector of them.")
        elif not np.isfinite(own).all():
            found.error("reward", f"is {own[~np.isfinite(own)][0]} at step {t}; return finite numbers.")
        elif own.dtype.kind not in "fiub" or wrong_reward(reward):
            found.error("reward", f"{reward!r:.40} is not a number; return one.")
    except (TypeError, ValueError, OverflowError):
        found.error("reward", f"{reward!r:.40} is not a number; return one.")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if truths(value, ()) is None:
            found.error(name, f"{value!r:.40} is neither True nor False; return a bool.")
    if not isinstance(info, dict):
        found.error("info", f"is {type(info).__name__}; return a dict.")
    return answer if _fits(env, following, f"step {t}", found) and len(found) == before else None


def _fits(env: Any, observation: Any, when: str, found: _Findings) -> bool:
    """Whether an observation is finite and lies in the declared space."""
    space = env.observation_space
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    try:
        array = np.asarray(observation if shape is not None else None)  # entries of a Tuple or Dict are checked by their spaces
        inside = bool(space.contains(observation))
    except Exception as error:
        found.error(
            "observation", f"{observation!r:.60} ({when}) cannot be compared with {space} ({error_text(error)}); return one."
        )
        return False
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        found.error("observation", f"holds NaN or infinity ({when}); return finite numbers.")
    elif shape is not None and array.shape != shape:
        found.error("observation", f"has shape {array.shape} ({when}), but the space says {shape}; make them equal.")
    elif shape and dtype is not None and array.dtype != dtype:
        found.error("observation", f"has type {array.dtype} ({when}), but the space says {dtype}; convert it.")
    elif not inside:
        found.error("observation", f"{observation!r:.60} ({when}) lies outside {space}; widen the space or fix the observation.")
    else:
        return True
    return False


def _check_reproducible(path: list[_Step], replay: list[_Step], drifting: dict[str, str], found: _Findings) -> None:
    """Compare two runs from one seed step by step; drifting: wrappers that make them differ."""
    for t, (one, other) in enumerate(zip(path, replay, strict=False)):
        for field in ("observation", "reward", "following", "terminated", "truncated"):
            if not same_observation(getattr(one, field), getattr(other, field)):
                shown = field.replace("following", "observation")
                fix = "draw from self.np_random, seeded in reset"
                if drifting:
                    fix = (
                        f"{' and '.join(drifting)} keeps its statistics over resets: give the function that makes the environment"
                    )
                found.error("seed", f"two runs from one seed differ in the {shown} at step {t}; {fix}.")
                return


# --- the questions -----------------------------------------------------------------------------------------------


def _check_policies(
    env: Any, actions: int, spec: DiscreteSpec | None, path: list[_Step], asked: list[tuple[str, GVF]], found: _Findings
) -> None:
    """Check every policy at every Discrete state, or at some of the observations seen."""
    seen = [step.observation for step in path[:: max(1, len(path) // 20)]]
    batch = np.stack(seen) if seen and isinstance(seen[0], np.ndarray) else seen
    for name, q in asked:
        field = f"{name}.policy"
        try:
            if has_box_actions(env):
                _check_gaussian(env, batch, name, q, found)
            elif isinstance(q.policy, OwnPolicy) and (spec is not None or is_counted(env)):
                continue
            elif spec is not None:
                steady_table(shifted(q.policy, spec.first_state), spec.skeleton.states, actions, field)
            elif len(batch):
                q.policy.at(batch, actions, field)
                targets = Targets([replace(q, name=name)], actions)
                for k in range(len(batch) if is_function(q.policy) else 0):
                    targets.each(batch[k : k + 1])
        except Exception as error:
            found.raised(error, field, "make it accept every observation")


def _check_gaussian(env: Any, batch: Any, name: str, q: GVF, found: _Findings) -> None:
    """Check a policy for Box actions: shape, numbers, and whether its middle actions lie in the Box."""
    targets = Gaussians([replace(q, name=name)], box_action_spec(env))
    if not len(batch):
        return
    outside = np.mean([(np.abs(targets.each(batch[k : k + 1])) > 1 + 1e-6).any() for k in range(len(batch))])
    if outside > 0.5:
        found.warning(
            f"{name}.policy",
            f"its middle action leaves {env.action_space} at {outside:.0%} of observations, where it is clipped; rescale it.",
        )


def _check_signals(
    spec: DiscreteSpec | None, path: list[_Step], asked: list[tuple[str, GVF]], to_the_end: bool, found: _Findings
) -> None:
    """Check that every question's signals are readable and finite along the path, and that they fire."""
    for name, q in asked:
        try:
            reader = Reader([GVF(q.policy, q.cumulant, q.discount, name=name)], spec)
            fired = False
            for step in path:
                reward = as_reward(step.reward)
                c, _ = reader.transition(step.observation, step.action, reward, step.following, bool(step.terminated), step.info)
                fired = fired or bool(c[0] != 0)
        except Exception as error:
            found.raised(error, f"{name}.cumulant", "make its functions accept every transition")
            continue
        if not fired and to_the_end and isinstance(q.cumulant, Measured):
            found.warning(f"{name}.cumulant", f"never fired in {len(path)} random steps; check that it is the signal you mean.")


def _check_episodes(env: Any, spec: Any, path: list[_Step], asked: list[tuple[str, GVF]], found: _Findings) -> None:
    """Check how episodes begin and end, as in the first episodes of a run."""
    reads_next = any(isinstance(q.cumulant, Measure) or callable(q.discount) for _, q in asked)
    vector = env if isinstance(env, FirstCopy) else None
    watch, begins, age = Watch(1, count_of(env.observation_space) != 1, reads_next), True, 0
    for t, step in enumerate(path):
        end = "terminated" if step.terminated else "truncated" if step.truncated else ""
        if begins:
            known = t == 0 or not (vector and vector.mode == "NEXT_STEP")
            watch.began(0, spec.seen(step.observation), seeded=t == 0, certain=known)
        if end and not vector and (key := other_final(step.info, None, step.following)):
            found.error("step", f"resets the environment at the end of an episode, as info[{key!r}] shows; return the last one.")
        action = step.action if has_box_actions(env) else spec.number_of(step.action)
        watch.moved(0, spec.seen(step.observation), action, spec.seen(step.following), age, end)
        begins, age = bool(end), 0 if end else age + 1
    if vector and vector.autoreset.notice:
        found.warning(*vector.autoreset.notice.split(": ", 1))
    for field, sentence in watch.found().items():
        found.warning(field, sentence)


def _check_seeds(env: Any, path: list[_Step], seed: int, found: _Findings) -> None:
    """Check that episodes that differ with their seeds are not always the same without one."""
    if isinstance(env, FirstCopy) or any(finding.field in ("reset", "seed") for finding in found):
        return
    actions = [step.action for step in path[:REPEATED]]
    with suppress(Exception):  # which the random steps would have met
        walks = [_following(env, actions, options) for k in (1, 2, 3) for options in ({"seed": seed + k}, {})]
        changes = [any(not same_observation(walk, walks[k]) for walk in walks[k::2]) for k in (0, 1)]
        if changes == [True, False]:
            found.warning("reset", REPEATS)


def _following(env: Any, actions: list[Any], options: dict[str, Any]) -> list[Any]:
    """The observations and rewards of an episode with given actions."""
    out: list[Any] = [copy.deepcopy(env.reset(**options)[0])]
    for action in actions:
        following, reward, terminated, truncated, _ = env.step(copy.deepcopy(action))
        out += [copy.deepcopy(following), reward]
        if terminated or truncated:
            break
    return out


def _check_endings(env: Any, path: list[_Step], asked: list[tuple[str, GVF]], found: _Findings) -> None:
    """Check that discounts of 1 have termination, and that episodes end."""
    terminates = any(step.terminated for step in path)
    for name, q in asked:
        if q.discount == 1 and not terminates:
            sum_ = f"no episode terminated in {len(path)} steps, so the sum may be infinite"
            found.error(f"{name}.discount", f"is 1, but {sum_}; use less than 1.")
    if not terminates and not any(step.truncated for step in path) and time_limit(env) is None:
        found.warning("env", f"no episode ended in {len(path)} steps; wrap it in gymnasium.wrappers.TimeLimit.")
