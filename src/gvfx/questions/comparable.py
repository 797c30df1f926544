"""Which questions can be compared: those about the same signal with the same discount, under different policies.

Policies, cumulants and discounts are compared as they were given: arrays by their numbers, functions by the lines of code that
defined them and what they hold.  A question has one name, so policies and signals are called after what the names of their
questions share: the policy of "careful: goal" and "careful: fall" is "careful", and the signal of "careful: goal" and
"eager: goal" is "goal".
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gvfx.errors import InputError
from gvfx.questions.gvf import GVF, expand, question_names
from gvfx.questions.own import OwnPolicy

WORD = re.compile(r"[^\s\-_/:;,|]+")  # parts of a name
NOTHING = (
    "compare: no two questions ask for the same signal and discount under different given policies, as "
    "gvfx.GVF(a, gvfx.Reward(), 0.99, name='a') and gvfx.GVF(b, gvfx.Reward(), 0.99, name='b') do."
)


@dataclass(frozen=True)
class Contest:
    """Policies that are compared in one signal: the indices of their questions, and the policies' names."""

    signal: str
    members: tuple[int, ...]
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Comparable:
    """The name of every question's policy and signal; the signal is empty where there is nothing to compare with."""

    names: tuple[str, ...]
    policies: tuple[str, ...]
    signals: tuple[str, ...]

    @cached_property
    def contests(self) -> tuple[Contest, ...]:
        """All policies of every signal in which two or more are asked about."""
        own = {s: [i for i, other in enumerate(self.signals) if other == s] for s in dict.fromkeys(self.signals) if s}
        return tuple(Contest(s, tuple(at), tuple(self.policies[i] for i in at)) for s, at in own.items())

    def chosen(
        self, policies: Sequence[str] | None = None, signal: str | None = None, least: int = 2, field: str = "policies"
    ) -> tuple[Contest, ...]:
        """The contests of some policies and one signal, by their names or those of questions; by default all.

        least: the number of policies that a contest needs;  field: the name of the argument that lists them.
        """
        if not self.contests:
            raise InputError(NOTHING)
        if isinstance(policies, str) or not all(isinstance(name, str) for name in (policies or ())):
            raise InputError(f"{field}: {policies!r:.60} is not a list of names; give one such as {list(self._policies)[:2]}.")
        wanted = None if policies is None else {self._found(name, field, self._policies, self.policies) for name in policies}
        at = None if signal is None else self._found(signal, "signal", self._signals, self.signals)
        out = []
        for contest in self.contests:
            kept = [k for k, name in enumerate(contest.policies) if wanted is None or name in wanted]
            if at in (None, contest.signal) and len(kept) >= least:
                members, names = zip(*((contest.members[k], contest.policies[k]) for k in kept), strict=True)
                out.append(Contest(contest.signal, members, names))
        if not out:
            raise InputError(
                f"{field}: {list(policies or ())} leaves nothing to compare; give two of {', '.join(self._policies)}."
            )
        return tuple(out)

    @property
    def _policies(self) -> dict[str, None]:
        return dict.fromkeys(name for contest in self.contests for name in contest.policies)

    @property
    def _signals(self) -> dict[str, None]:
        return dict.fromkeys(contest.signal for contest in self.contests)

    def _found(self, name: str, field: str, known: Mapping[str, None], called: Sequence[str]) -> str:
        """A policy's or signal's name from itself or from that of a question."""
        if name in self.names and name not in known:
            name = called[self.names.index(name)] or name
        if name not in known:
            raise InputError(f"{field}: {name!r:.60} is unknown; choose from {', '.join(known)}.")
        return name


def comparable(questions: Sequence[GVF], alone: bool = False) -> Comparable:
    """What can be compared among questions; a policy that is found during the run has no place in it.

    alone: whether a signal that one policy is asked for counts as well.
    """
    asked = expand(questions)
    names = question_names(asked)
    policy = _numbered([q.policy for q in asked])
    signal = _numbered([(q.cumulant, q.discount) for q in asked])
    first: dict[tuple[int, int], int] = {}
    for i, q in enumerate(asked):
        if not isinstance(q.policy, OwnPolicy):
            first.setdefault((policy[i], signal[i]), i)
    kept = sorted(first.values())
    several = {s for s in signal if alone or sum(signal[i] == s for i in kept) > 1}
    kept = [i for i in kept if signal[i] in several]
    signals = _called(names, signal, kept, [type(q.cumulant).__name__.lower() for q in asked], [""] * len(names))
    policies = _called(names, policy, kept, names, signals)
    return Comparable(names, policies, signals)


def _numbered(things: Sequence[Any]) -> list[int]:
    """A number for every thing, the same for equal ones."""
    seen: dict[Hashable, int] = {}
    return [seen.setdefault(_identity(thing), len(seen)) for thing in things]


def _identity(thing: Any) -> Hashable:
    """Equal for things that are the same: also for functions made by the same lines (as in a loop) that hold the same."""
    if isinstance(thing, tuple):
        return tuple(map(_identity, thing))
    if isinstance(thing, types.FunctionType):
        held = thing.__defaults__, thing.__kwdefaults__, *(_held(cell) for cell in thing.__closure__ or ())
        return thing.__code__, tuple(map(_identity, held))
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        try:
            parts = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.compare}
            if any(isinstance(part, types.FunctionType) for part in parts.values()):
                return type(thing), tuple((name, _identity(part)) for name, part in parts.items())
        except AttributeError:  # a field without a value
            pass
    try:
        hash(thing)
    except TypeError:  # equal to itself only
        return "not hashable", id(thing)
    return thing


def _held(cell: types.CellType) -> object:
    """What a function holds of its surroundings; nothing if that has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _called(
    names: Sequence[str], number: Sequence[int], kept: Sequence[int], alone: Sequence[str], without: Sequence[str]
) -> tuple[str, ...]:
    """A name for each question's policy (or signal): the first words, or else the last, of all questions with its number.

    kept: the questions that are compared; the others get "".  alone: names to use where no words are shared.
    without: words that do not count in the name of a question that is the only one with its number, by question.
    """
    own = {n: [i for i in kept if number[i] == n] for n in dict.fromkeys(number[i] for i in kept)}
    words = {n: [WORD.findall(names[i]) for i in each] for n, each in own.items()}
    tried = [{n: alone[each[0]] for n, each in own.items()}, {n: names[each[0]] for n, each in own.items()}]
    rest = {n: _without(words[n][0], without[each[0]]) for n, each in own.items() if len(each) == 1}
    single = {n: " ".join(each) for n, each in rest.items()}
    if len(single) < len(own):
        first = {n: " ".join(_shared(each)) for n, each in words.items()}
        last = {n: " ".join(_shared([w[::-1] for w in each])[::-1]) for n, each in words.items()}
        tried = [first | single, last | single, *tried]
    elif any(each != words[n][0] for n, each in rest.items()):
        tried = [single, *tried]
    for called in tried:
        if all(called.values()) and len(set(called.values())) == len(called):
            break
    return tuple(called[number[i]] if i in kept else "" for i in range(len(names)))


def _without(words: Sequence[str], left_out: str) -> list[str]:
    """Words without some of them, unless nothing would be left."""
    return [word for word in words if word not in left_out.split()] or [*words]


def _shared(each: Sequence[list[str]]) -> list[str]:
    """The words with which all lists begin."""
    same = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*each, strict=False))
    return [words[0] for words in same]
