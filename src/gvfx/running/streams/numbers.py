"""Observations that are numbered as they are met: what a seed keeps of them beside its tables, whose rows grow with them.

Each seed has its own numbers; at the end the seeds' tables are put into the order of the observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical, empirical
from gvfx.questions.gvf import expand
from gvfx.questions.policies import OwnPolicy
from gvfx.questions.reader import Targets
from gvfx.questions.where import WhereLike, is_start
from gvfx.running.checkpoint import Stored
from gvfx.running.earlier import Earlier, Recorded
from gvfx.running.schema import Part
from gvfx.worlds.mdp import Unseen
from gvfx.worlds.returns import copied
from gvfx.worlds.spaces import Key, batched, key_of, observation_of

FIRST_STATES = 64  # for which there is room at first; plans and stopping rules take it for the number of states
RETARGET = 1 / 8  # growth of the states after which a behaviour learns of the new ones' policies


def numbered_where(where: WhereLike, space: Any) -> list[Any]:
    """The observations at which errors count, if some were given: they get the first numbers."""
    if where is None or is_start(where):
        return []
    try:
        rows = batched(space, where)[0]
    except InputError as error:
        reason = str(error).removeprefix("observation: ").rstrip(".")
        raise InputError(f"where: {reason}; give 'start', or a list of observations.") from None
    own = list({key_of(space, row): row for row in rows}.values())
    if not 0 < len(own) <= FIRST_STATES // 2:
        raise InputError(f"where: {len(own)} observations are none or too many; give 1 to {FIRST_STATES // 2}.")
    return own


def aligned(parts: Sequence[Part]) -> list[Part]:
    """The seeds' parts with the states in the order of the observations that any of them has met."""
    order = sorted({key for part in parts for key in part.met.keys})
    place = {key: s for s, key in enumerate(order)}
    out = []
    for part in parts:
        at = np.array([place[key] for key in part.met.keys], int)
        model = part.met.model(order) if part.model is not None else None
        out.append(part.reordered(at, len(order)).replaced(met=Met(None, tuple(order)), model=model))
    return out


@dataclass(frozen=True)
class Met:
    """The numbered states of one seed at the end: their keys in the order of their numbers, and the evidence in any order."""

    numbers: Numbers | None
    keys: tuple[Key, ...]

    def model(self, order: Sequence[Key]) -> Empirical | None:
        """The evidence with the states in a given order, which includes all of these keys."""
        return self.numbers.in_order(order) if self.numbers is not None else None


class Numbers(Stored):
    """The numbers of one seed's observations."""

    kept: ClassVar = {"retargeted": "told"}

    def __init__(self, agent: Any) -> None:
        """agent: that of the seed's tables (`gvfx.running.streams.table_gym.SteppedTables`)."""
        self.agent, asked = agent, expand(agent.run.questions)
        self.given = [i for i, q in enumerate(asked) if not isinstance(q.policy, OwnPolicy)]
        self.policies = Targets([asked[i] for i in self.given], agent.run.sizes.actions) if self.given else None
        self.retargeted = 0  # states whose policies the behaviour knows
        self.shown: dict[int, Any] = {}  # the observations by number, as far as they were met in this process
        self.recorded = Recorded()
        agent.spec.numbering.met = self.met

    def recording(self, learn: Callable[[Any], None]) -> Callable[[Any], None]:
        """A function that learns, and notes the transitions."""
        add = self.recorded.add

        def noted(at: Any) -> None:
            add(at)
            learn(at)

        return noted

    def observation(self, number: int) -> Any:
        """The numbered observation; one that was met before a checkpoint without the entries that are not read."""
        numbering = self.agent.spec.numbering
        return self.shown[number] if number in self.shown else observation_of(numbering.space, numbering.keys[number])

    def met(self, number: int, observation: Any) -> None:
        """Note the target policies at an observation that is met for the first time."""
        agent, spec = self.agent, self.agent.spec
        self.shown[number] = copied(observation)
        if self.policies is not None:
            try:
                agent.arrays.pi[number][:, self.given] = self.policies(spec.together([observation]))[0]
            except Exception as error:
                raised = f"policy: raised {type(error).__name__} ({error}) at {observation!r:.60}"
                what = str(error) if isinstance(error, InputError) else f"{raised}; make it accept every observation."
                raise agent.source.failed(what) if agent.arrays.t[0] else InputError(what) from error
        if spec.skeleton.states - number <= 4 * spec.lanes + 4:
            agent.room = 0
        if number >= (1 + RETARGET) * self.retargeted:
            self.retarget()

    def retarget(self) -> None:
        """Have the behaviour know the policies of all numbered states."""
        agent = self.agent
        self.retargeted = agent.met
        known = Empirical(agent.tables, agent.asked._replace(pi=agent.arrays.pi), agent.arrays.outcomes.evidence)
        agent.run.behaviour.retarget(agent.arrays.behaviour, known)

    def of(self, log: Earlier) -> tuple[np.ndarray, np.ndarray]:
        """The states in which the transitions of a log begin and end, numbered in the order in which they are met."""
        rows = np.stack(log.columns, axis=1).reshape(2 * len(log), -1)
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        number = np.empty(len(first), np.int64)
        for k in np.argsort(first):
            if not self.agent.room:
                self.agent.grow()
            number[k] = self.agent.spec.seen((log.after if first[k] % 2 else log.here)[first[k] // 2])
        here, after = number[which.ravel()].reshape(-1, 2).T
        return here, after

    def in_order(self, order: Sequence[Key]) -> Empirical:
        """The evidence with the states in a given order, which includes all met; the environment may have others."""
        agent, run, outcomes, known = self.agent, self.agent.run, self.agent.arrays.outcomes, self.agent.known
        states, actions, before = len(order), run.sizes.actions, agent.spec.skeleton.states
        place = {key: s for s, key in enumerate(order)}
        at = np.full(before + 1, -1)
        at[: agent.met] = [place[key] for key in agent.spec.numbering.keys]
        at[before] = states
        used = int(outcomes.used[0])
        pair, following = outcomes.pair[:used], outcomes.following[:used]
        kept, evidence = np.flatnonzero(at >= 0), outcomes.evidence
        pi = np.full((states + 1, *known.asked.pi.shape[1:]), 1 / actions)
        pi[at[kept]] = known.asked.pi[kept]
        moved = {name: np.zeros(states + 1, np.int64) for name in ("starts", "found")}
        for name, array in moved.items():
            array[at[kept]] = getattr(evidence, name)[kept]
        where = agent.asked.where
        if where.kind == "states":
            where = replace(where, states=tuple(at[list(where.states)].tolist()))
        pays = np.full((states + 1, *known.asked.pays.shape[1:]), -1, known.asked.pays.dtype)
        model = empirical(
            outcomes._replace(
                evidence=evidence._replace(**moved),
                pair=at[pair // actions] * actions + pair % actions,
                following=at[following],
            ),
            Unseen(states, actions, agent.spec.skeleton.horizon),
            agent.asked._replace(pi=pi, pays=pays, where=where),
            run.varying,
        )
        return replace(model, closed=False)
