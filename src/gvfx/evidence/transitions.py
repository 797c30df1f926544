"""Transitions kept as columns, for learners that solve for their answers from all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions of one run or log; [n] runs over them in any order.

    Policies are the distinct ones of the questions; `pi` has one row if none of them depends on the observation.
    """

    observation: np.ndarray  # [n, o]
    action: np.ndarray  # int [n]
    following: np.ndarray  # [n, o]
    cumulant: np.ndarray  # [n, gvf]
    discount: np.ndarray  # [n, gvf]; 0 on termination
    episode: np.ndarray  # int [n]
    first: np.ndarray  # bool [n]: whether an episode began with it
    terminated: np.ndarray  # bool [n]: whether an episode ended with it, other than by truncation
    pi: np.ndarray  # [1 or n, action, policy] at `following`
    member: np.ndarray  # int [gvf] each question's policy
    together: list[list[int]] | None = None  # the groups of the transitions that these are a part of

    def __len__(self) -> int:
        return len(self.action)

    @property
    def actions(self) -> int:
        return self.pi.shape[1]

    @property
    def gvfs(self) -> int:
        return len(self.member)

    def part(self, chosen: np.ndarray | slice) -> Transitions:
        """Some of the transitions, by index, mask or slice; the groups stay those of all of them."""
        columns = ("observation", "action", "following", "cumulant", "discount", "episode", "first", "terminated")
        own = {name: getattr(self, name)[chosen] for name in columns}
        return replace(self, **own, together=self.groups, pi=self.pi if len(self.pi) == 1 else self.pi[chosen])

    @cached_property
    def groups(self) -> list[list[int]]:
        """Lists of questions with the same policy and discounts, which share one linear system."""
        if self.together is not None:
            return self.together
        found: dict[tuple[int, bytes], list[int]] = {}
        for i, p in enumerate(self.member.tolist()):
            found.setdefault((p, self.discount[:, i].tobytes()), []).append(i)
        return list(found.values())
