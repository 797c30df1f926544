"""Behaviours and learners by name: every public class that fits a setting, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping

from gvfx.behaviours.base import Behaviour
from gvfx.errors import UnknownName
from gvfx.learners.base import Learner
from gvfx.names import SHORT_NAMES, as_call, kinds_of, public_classes
from gvfx_paper.authors import EpisodicExpectedSarsa, RandomPolicies, VarianceSoftmax


def behaviours_for(kind: str) -> dict[str, type[Behaviour]]:
    """The public behaviours, and the authors' own, that support a kind of learning and need no arguments, by class name."""
    authors: dict[str, type[Behaviour]] = {"RandomPolicies": RandomPolicies, "VarianceSoftmax": VarianceSoftmax}
    found = public_classes(Behaviour) | authors
    return {name: cls for name, cls in found.items() if kind in kinds_of(cls) and as_call(cls).endswith("()")}


def learners_for(kind: str) -> dict[str, type[Learner]]:
    """The public learners of a kind, and the authors' own, by class name."""
    found: dict[str, type[Learner]] = {**public_classes(Learner), "EpisodicExpectedSarsa": EpisodicExpectedSarsa}
    return {name: cls for name, cls in found.items() if kind in kinds_of(cls)}


def checked(kind: str, name: str, choices: Mapping[str, object]) -> str:
    """The choice with this name (case-insensitive); an unknown name raises an error with the closest ones."""
    spelled = {choice.lower(): choice for choice in choices}
    if name.lower() not in spelled:
        raise UnknownName(kind, name, list(choices))
    return spelled[name.lower()]


def checked_method(name: str, choices: Mapping[str, object]) -> str:
    """The paper's short name of a behaviour: BPS for BehaviourPolicySearch."""
    found = checked("behaviour", name, choices)
    return SHORT_NAMES.get(found, found)
