"""Tables in an environment whose observations are numbered as they are met (`gvfx.worlds.numbering`).

Each seed has its own numbers, and room for more states is made as they are found.  At the end the seeds' tables are put into one
order, that of the observations themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gvfx.errors import InputError
from gvfx.evidence.counts import Empirical
from gvfx.evidence.outcomes import empirical, grown
from gvfx.questions.gvf import expand
from gvfx.questions.own import OwnPolicy
from gvfx.questions.reader import Targets
from gvfx.running.checkpoint import prefixed, tables, unprefixed
from gvfx.running.finite import FiniteTables
from gvfx.running.predictor import NumberedPredictor, labels_of
from gvfx.running.record import Measurement, Part, reordered
from gvfx.running.streams.table_agent import TableAgent
from gvfx.running.streams.table_gym import SteppedTable, TableGym
from gvfx.worlds.numbering import MOST_STATES, CountedSpec
from gvfx.worlds.spaces import Key
from gvfx.worlds.spec import DiscreteSpec, skeleton_mdp

FIRST = 64  # room for states at first, and what plans and stopping rules take for their number
RETARGET = 1 / 8  # growth of the states after which a behaviour is told of the new ones' policies


@dataclass(frozen=True)
class Met:
    """The states of one seed at the end: their keys in the order of their numbers, and the evidence for any order of states."""

    stream: NumberedTable | None
    keys: tuple[Key, ...]

    def model(self, order: Sequence[Key]) -> Empirical | None:
        """The evidence with the states in a given order, which includes all of these keys."""
        return self.stream.in_order(order) if self.stream is not None else None


class NumberedGym(TableGym):
    """What the seeds share; each has a copy of it, with its own numbers and room for states."""

    spec: CountedSpec
    tag = "-numbered"

    @property
    def left_out(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.spec.left_out

    def size(self, spec: DiscreteSpec) -> None:
        super().size(spec)
        if not self.asked.pi_stride:  # every state has its own row, because it is filled in when the state is met
            shape = (self.tables.states, *self.asked.pi.shape[1:])
            self.asked = self.asked._replace(pi=np.full(shape, 1 / shape[1]), pi_stride=1)

    def begin(self, seed: int) -> NumberedTable:
        own = copy.copy(self)
        own.size(self.spec.fresh(max(FIRST, 8 * self.spec.lanes)))
        return NumberedTable(own, seed)

    def aligned(self, parts: Sequence[Part]) -> list[Part]:
        order = sorted({key for part in parts for key in part.network.keys})
        place = {key: s for s, key in enumerate(order)}
        out = []
        for part in parts:
            at = np.array([place[key] for key in part.network.keys], int)
            model = part.network.model(order) if part.model is not None else None
            out.append(replace(reordered(part, at, len(order)), network=Met(None, tuple(order)), model=model))
        return out

    def predictor(self, parts: list[Part]) -> NumberedPredictor:
        return NumberedPredictor(actions=labels_of(self.spec.listed), space=self.spec.numbering.space, keys=parts[0].network.keys)


class NumberedTable(SteppedTable):
    """One seed."""

    run: NumberedGym

    def __init__(self, run: NumberedGym, seed: int) -> None:
        super().__init__(run, seed)
        asked = expand(run.questions)
        self.given = [i for i, q in enumerate(asked) if not isinstance(q.policy, OwnPolicy)]
        self.given_targets = Targets([asked[i] for i in self.given], run.spec.skeleton.actions) if self.given else None
        self.told = 0  # states whose policies the behaviour knows
        run.spec.numbering.met = self.new_state

    @property
    def met(self) -> int:
        """How many states were met."""
        return len(self.run.spec.numbering.keys)

    def new_state(self, number: int, observation: Any) -> None:
        """Note the target policies at an observation that is met for the first time."""
        run, agent = self.run, self.agent
        if self.given_targets is not None:
            try:
                agent.pi[number][:, self.given] = self.given_targets(run.spec.together([observation]))[0]
            except Exception as error:
                said = str(error) if isinstance(error, InputError) else _raised(error, observation)
                raise self.stepper.failed(said) if agent.t[0] else InputError(said) from error
        self.crowded = self.crowded or run.spec.skeleton.states - number <= 4 * run.spec.lanes + 4
        if number >= (1 + RETARGET) * self.told:
            self._tell()

    def _tell(self) -> None:
        """Tell the behaviour of the new states' policies."""
        self.told = self.met
        run, asked = self.run, self.run.asked._replace(pi=self.agent.pi)
        run.behaviour.retarget(self.agent.behaviour, Empirical(run.tables, asked, self.agent.outcomes.evidence))

    def pause(self, stop: int) -> None:
        if stop in self.stops:  # not at those of measurements, which must not change a run
            self._tell()
        super().pause(stop)

    # --- room ----------------------------------------------------------------------------------------------------------

    def roomier(self, agent: TableAgent) -> TableAgent:
        if self.crowded:
            self.crowded = False
            return self.resized(min(2 * self.run.spec.skeleton.states, MOST_STATES + 4 * self.run.spec.lanes + 5))
        return super().roomier(agent)

    def resized(self, states: int) -> TableAgent:
        """The agent with room for more states, and everything that it learned."""
        run, old = self.run, self.agent
        before = run.spec.skeleton.states
        run.size(run.spec.sized(states))
        self.stepper.spec = run.spec
        new = self.new_agent()
        while len(new.outcomes.pair) < len(old.outcomes.pair):
            new = new._replace(outcomes=grown(new.outcomes))
        for (_, into), (_, array) in zip(tables(new), tables(old), strict=True):
            if into.flags.writeable:
                into[tuple(slice(n) for n in array.shape)] = array
        evidence = new.outcomes.evidence
        if run.counted:  # termination leads to the state after all others
            new.outcomes.following[new.outcomes.following == before] = states
            for array in (evidence.found, evidence.starts):
                array[states], array[before] = array[before], 0
        self.finite = FiniteTables(run.names, self.seeds[0], new.behaviour)
        self._known = None
        return new

    # --- what is known -------------------------------------------------------------------------------------------------

    def measure(self, curve: bool, tables: bool) -> list[Measurement]:
        (m,) = super().measure(curve, tables)
        n = self.met
        by_state = {name: getattr(m, name)[:, :n] for name in ("values", "variances", "standard_errors", "policies")
                    if getattr(m, name).size}  # fmt: skip
        by_row = {name: getattr(m, name)[:n] for name in ("visits", "behaviour") if getattr(m, name).size}
        return [m._replace(**by_state, **by_row)]

    def outcome(self, k: int) -> dict[str, Any]:
        return super().outcome(k) | {"network": Met(self, tuple(self.run.spec.numbering.keys))}

    def in_order(self, order: Sequence[Key]) -> Empirical:
        """The evidence with the states in a given order, which includes all that were met; the environment may have others."""
        run, outcomes, known = self.run, self.agent.outcomes, self.known
        states, actions, before = len(order), run.spec.skeleton.actions, run.spec.skeleton.states
        place = {key: s for s, key in enumerate(order)}
        at = np.full(before + 1, -1)
        at[: self.met] = [place[key] for key in run.spec.numbering.keys]
        at[before] = states
        used = int(outcomes.used[0])
        pair, following = outcomes.pair[:used], outcomes.following[:used]
        kept = np.flatnonzero(at >= 0)
        evidence = outcomes.evidence
        pi = np.full((states + 1, *known.asked.pi.shape[1:]), 1 / actions)
        pi[at[kept]] = known.asked.pi[kept]
        moved = {name: np.zeros(states + 1, np.int64) for name in ("starts", "found")}
        for name, array in moved.items():
            array[at[kept]] = getattr(evidence, name)[kept]
        pays = np.full((states + 1, *known.asked.pays.shape[1:]), -1, known.asked.pays.dtype)
        model = empirical(
            outcomes._replace(
                evidence=evidence._replace(**moved),
                pair=at[pair // actions] * actions + pair % actions,
                following=at[following],
            ),
            skeleton_mdp(states, actions, run.spec.skeleton.horizon),
            run.asked._replace(pi=pi, pays=pays, weights=self.weights),
            run.varying,
        )
        return replace(model, closed=False)

    def state(self) -> dict[str, np.ndarray]:
        numbers = self.run.spec.numbering.arrays() | {"told": np.array(self.told)}
        return super().state() | prefixed("numbering", numbers)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if len(arrays["visits"]) != self.run.spec.skeleton.states:
            self.agent = self.resized(len(arrays["visits"]))
        numbers = unprefixed("numbering", arrays)
        self.run.spec.numbering.restore(numbers)
        self.told = int(numbers["told"])
        super().restore(arrays)


def _raised(error: Exception, observation: Any) -> str:
    return f"policy: raised {type(error).__name__} ({error}) at {observation!r:.60}; make it accept every observation."
