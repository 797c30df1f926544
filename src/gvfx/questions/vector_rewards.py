"""Vector rewards: a question about the reward of an environment that returns several numbers becomes one about each of them.

An environment says how many by `reward_space` (as in MO-Gymnasium) or `reward_dim`, and may name them by `reward_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF
from gvfx.questions.signals import Reward
from gvfx.worlds.spec import is_environment
from gvfx.worlds.wrappers import around

SCALARISED = ("LinearReward",)  # wrappers of MO-Gymnasium that make one number of the vector
NAMES = ("reward_names", "objective_names")


def reward_names(env: Any) -> tuple[str, ...] | None:
    """A name for each component of an environment's reward, its number where the environment does not name it.

    None if the environment does not say that its reward is a vector.  The outermost wrapper that says something counts, and one
    may name what an inner one declares.
    """
    told: list[Any] = []
    for layer in around(env):
        if type(layer).__name__ in SCALARISED:
            return None
        says = {**vars(type(layer)), **vars(layer)} if isinstance(layer, gymnasium.Wrapper) else None  # not what is inside
        told.append(layer if says is None else SimpleNamespace(**says))
        size = _size(told[-1])
        if size is not None:
            return _named(told, size) if size else None
    return None


def _size(layer: Any) -> int | None:
    """How many numbers a layer declares: 0 for a single one, None if it does not say."""
    shape = getattr(getattr(layer, "reward_space", None), "shape", None)
    if shape is None:
        size = getattr(layer, "reward_dim", None)
        return int(size) if isinstance(size, int | np.integer) else None
    return int(shape[0]) if len(shape) == 1 else 0


def _named(told: Sequence[Any], size: int) -> tuple[str, ...]:
    for layer in told:
        for name in NAMES:
            given = getattr(layer, name, None)
            if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == size:
                return tuple(map(str, given))
    return tuple(map(str, range(size)))


def on_rewards(questions: Sequence[GVF], world: Any) -> list[GVF]:
    """The questions about an environment, each about the whole of a vector reward replaced by one per component.

    They are called after the question and the component, `name[0]`, or `reward[0]` if the only such question has no name.
    Raises InputError for an index or weights that do not fit the reward.
    """
    return of_components(questions, reward_names(world) if is_environment(world) else None)


def of_components(questions: Sequence[GVF], names: Sequence[str] | None) -> list[GVF]:
    """As `on_rewards`, with a name for each component of the reward; None if it is a single number."""
    questions = [questions] if isinstance(questions, GVF) else questions
    if not isinstance(questions, Iterable) or getattr(questions, "shape", None) == ():  # refused later, in words
        return questions  # type: ignore[return-value]
    questions = list(questions)
    about = [isinstance(q, GVF) and isinstance(q.cumulant, Reward) for q in questions]
    if names is None or not any(about):
        return questions
    whole = [a and _is_whole(q.cumulant) for a, q in zip(about, questions, strict=True)]
    out: list[GVF] = []
    for i, (q, its, all_of_it) in enumerate(zip(questions, about, whole, strict=True)):
        name = q.name or f"gvf{i + 1}" if isinstance(q, GVF) else ""
        if not its:
            out.append(replace(q, name=name) if isinstance(q, GVF) else q)  # keeps its number, if it has no name
        elif not all_of_it:
            _check(q.cumulant, len(names), name)
            out.append(replace(q, name=name))
        else:
            called = q.name or ("reward" if sum(whole) == 1 else name)
            out += [replace(q, cumulant=Reward(index=k), name=f"{called}[{own}]") for k, own in enumerate(names)]
    return out


def _is_whole(cumulant: Any) -> bool:
    return cumulant.index is None and cumulant.weights is None


def _check(cumulant: Any, size: int, name: str) -> None:
    """Refuse an index or weights that do not fit a reward of `size` numbers."""
    if cumulant.index is not None and not -size <= cumulant.index < size:
        raise InputError(
            f"{name}.cumulant: Reward(index={cumulant.index}) is not one of its {size} components; give 0 to {size - 1}."
        )
    if cumulant.weights is not None and len(cumulant.weights) != size:
        raise InputError(
            f"{name}.cumulant: Reward(weights=...) has {len(cumulant.weights)} weights for {size} components; give one each."
        )
