"""Questions: general value functions (GVFs), and several of them as arrays over one world."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import is_finite, listed, shown
from gvfx.questions.cumulants import Constant, Cumulant, Drifter
from gvfx.questions.own import OwnPolicy
from gvfx.questions.policies import Policy, PolicyLike, as_policy
from gvfx.questions.signals import Measure, Measured, of_transition, over_outcomes
from gvfx.questions.where import EVERYWHERE, Evaluation, Where, WhereLike, as_evaluation, as_where
from gvfx.types import Function

CumulantLike = Cumulant | float | Function  # what is accepted wherever a cumulant is expected


@dataclass(frozen=True)
class GVF:
    """A predictive question: the expected discounted sum of `cumulant` when `policy` is followed from a state.

    cumulant: a cumulant, a number, or a function of the transition (`gvfx.questions.signals`).
    discount: a number in [0, 1], or a function of the transition.
    weight:   of this question's squared error in the MSE over all questions.
    name:     of the question in results; `gvf1`, `gvf2`, ... by default.
    """

    policy: Policy
    cumulant: Cumulant
    discount: float | Callable[..., float] = 0.99
    weight: float = 1.0
    name: str = ""

    if TYPE_CHECKING:  # what the fields may be given as

        def __init__(
            self,
            policy: PolicyLike,
            cumulant: CumulantLike,
            discount: float | Callable[..., float] = 0.99,
            weight: float = 1.0,
            name: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", as_policy(self.policy))
        if isinstance(self.cumulant, Real):
            if not is_finite(self.cumulant):
                raise InputError(f"cumulant: {shown(self.cumulant)} is not a finite number; give one.")
            object.__setattr__(self, "cumulant", Constant(float(self.cumulant)))
        if isinstance(self.cumulant, type):
            raise InputError(f"cumulant: {self.cumulant.__name__} is a class; write gvfx.{self.cumulant.__name__}(...).")
        if not isinstance(self.cumulant, Cumulant) and callable(self.cumulant):
            object.__setattr__(self, "cumulant", Measure(self.cumulant))
        if not isinstance(self.cumulant, Cumulant):
            raise InputError(
                f"cumulant: {self.cumulant!r:.60} is not a cumulant; use Reward, Info, Constant, Distractor, Drifter, "
                "a function of the transition or a number."
            )
        if callable(self.discount):
            of_transition(self.discount, "discount")
        else:
            _check_discount(self.discount, "discount")
        if not (is_finite(self.weight) and self.weight >= 0):
            raise InputError(f"weight: {shown(self.weight)} must be a finite number of at least 0.")
        if not isinstance(self.name, str | None):
            raise InputError(f"name: {self.name!r:.40} is not a text; give one, such as name='goal'.")


def _check_discount(value: Any, field: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"{field}: {value!r:.40} is {type(value).__name__}, not a number; give one between 0 and 1.")
    if not (is_finite(value) and 0 <= float(value) <= 1):
        raise InputError(f"{field}: {shown(value)} lies outside [0, 1]; give a number between 0 and 1.")
    return float(value)


class Stacked(NamedTuple):
    """Several questions over one MDP, as arrays with the GVFs contiguous (last axis); variables of this type are called `asked`.

    `pi` and `gamma` have one row when they do not depend on the state; `*_stride` (0 or 1) multiplies a row index.
    Few outcomes pay cumulants: `pays` [states, actions, successors] is a row of `mean`, `sd` and `carry` ([rows, gvf]),
    or -1.  A cumulant is mean + sd * N(0, 1) + carry * (present level of the GVF's drift); levels start at `level` [gvf].
    """

    pi: np.ndarray  # [1 or states, actions, gvf]
    pi_stride: int
    gamma: np.ndarray  # [1 or states*actions*successors, gvf]
    gamma_stride: int
    pays: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    carry: np.ndarray
    weights: np.ndarray
    level: np.ndarray
    drift_sd: np.ndarray  # 0 where a GVF does not drift
    drift_on_visit: np.ndarray  # True: the walk advances when paid, not every step
    drift_channel: np.ndarray  # [gvf] GVFs with equal Drifters share one random walk
    names: tuple[str, ...]
    calibrated: bool = False  # whether each squared error is divided by the question's mean squared value
    own: tuple[tuple[int, OwnPolicy], ...] = ()  # GVFs with an OwnPolicy; their columns of `pi` start uniform
    where: Where = EVERYWHERE  # where errors count

    def weigh(self, values: np.ndarray, where: np.ndarray | Evaluation) -> np.ndarray:
        """The weight of each question's squared error, [gvf]; the arguments are those of `calibrated_weights`."""
        return self.weights * calibrated_weights(values, where) if self.calibrated else self.weights

    def only(self, i: int, pi: np.ndarray) -> Stacked:
        """Question i alone, with another policy [state, action]."""
        columns = {name: getattr(self, name)[..., [i]] for name in ("gamma", "mean", "sd", "carry", "weights", "level")}
        columns |= {name: getattr(self, name)[[i]] for name in ("drift_sd", "drift_on_visit")}
        names = (self.names[i],)
        return self._replace(pi=pi[:, :, None], pi_stride=1, drift_channel=np.zeros(1, int), names=names, own=(), **columns)


def calibrated_weights(values: np.ndarray, where: np.ndarray | Evaluation) -> np.ndarray:
    """Weights w_i proportional to 1 / sum_s d(s) V_i(s)^2, with mean 1, [gvf].

    With them the weighted mean squared error is the mean of the relative errors MSE_i / sum_s d(s) V_i(s)^2.  A question
    whose values are all 0 gets weight 0.  values [gvf, state]; where [state] is the evaluation distribution d (of an error at the
    start: 1 / V_i(d)^2).
    """
    square = as_evaluation(where).squares(values)
    weights = np.divide(1.0, square, out=np.zeros(len(square)), where=square > 0)
    return weights / weights.mean() if weights.any() else np.ones(len(values))


def question_names(questions: Sequence[GVF]) -> tuple[str, ...]:
    """The questions' names, `gvf1`, `gvf2`, ... where none is given; raises InputError if two are the same."""
    names = tuple(q.name or f"gvf{i + 1}" for i, q in enumerate(questions))
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(f"name: two questions are called {twice!r}; give each its own name.")
    return names


def expand(questions: Sequence[GVF]) -> list[GVF]:
    """The questions, each about a vector of known size replaced by one per component, `name[0]`, `name[1]`, ..."""
    questions = [questions] if isinstance(questions, GVF) else listed(questions, "questions", "gvfx.GVF(...)")
    for i, q in enumerate(questions):
        if not isinstance(q, GVF):
            raise InputError(f"questions[{i}]: {q!r:.60} is not a GVF; write gvfx.GVF(policy, cumulant, discount).")
    sizes = [q.cumulant.size if isinstance(q.cumulant, Measured) else None for q in questions]
    if not any(sizes):
        return questions
    out: list[GVF] = []
    for name, q, size in zip(question_names(questions), questions, sizes, strict=True):
        if isinstance(q.cumulant, Measured) and size is not None:
            out += [replace(q, cumulant=q.cumulant.component(k), name=f"{name}[{k}]") for k in range(size)]
        else:
            out.append(replace(q, name=name))
    return out


def stack(questions: Sequence[GVF], world: Any, weights: str | None = None, where: WhereLike = None) -> Stacked:
    """The questions as arrays over `world` (an MDP); raises InputError for any mistake in them.

    weights: None: each question's own; "calibrated": divided by the question's mean squared value.
    where:   where errors count (`gvfx.questions.where`).
    """
    if weights not in (None, "calibrated"):
        raise InputError(f"weights: {weights!r:.40} is unknown; give 'calibrated', or None and a weight for each GVF.")
    questions = expand(questions)
    if not questions:
        raise InputError("questions: the list is empty; give at least one GVF.")
    names = question_names(questions)
    shape = (world.states, world.actions, world.successors)

    policies: dict[Policy, np.ndarray] = {}
    for name, q in zip(names, questions, strict=True):
        if isinstance(q.policy, OwnPolicy) and isinstance(q.cumulant, Drifter):
            raise InputError(f"{name}.policy: what is best changes as its cumulant drifts; give a known policy.")
        if isinstance(q.policy, OwnPolicy):
            policies[q.policy] = np.full(shape[:2], 1 / world.actions)
        elif q.policy not in policies:
            policies[q.policy] = q.policy.table(world.states, world.actions, f"{name}.policy")
    tables = [policies[q.policy] for q in questions]
    own = tuple((i, q.policy) for i, q in enumerate(questions) if isinstance(q.policy, OwnPolicy))
    one_row = not own and all(len(t) == 1 for t in tables)
    pi = np.ascontiguousarray(np.stack(tables if one_row else [np.broadcast_to(t, shape[:2]) for t in tables], axis=-1))

    varying = any(callable(q.discount) for q in questions)
    gamma = np.stack([_discounts(q.discount, world, varying, name) for name, q in zip(names, questions, strict=True)], axis=-1)

    parts = [q.cumulant.tables(world) for q in questions]
    pays, rows = _paying_rows(parts, shape)
    drifters = [q.cumulant if isinstance(q.cumulant, Drifter) else None for q in questions]
    return Stacked(
        pi=pi,
        pi_stride=0 if one_row else 1,
        gamma=np.ascontiguousarray(gamma),
        gamma_stride=int(varying),
        pays=pays,
        mean=rows[0],
        sd=rows[1],
        carry=rows[2],
        weights=np.array([q.weight for q in questions], dtype=float),
        level=np.array([d.start if d else 0.0 for d in drifters]),
        drift_sd=np.array([d.sd if d else 0.0 for d in drifters]),
        drift_on_visit=np.array([d is not None and d.advance == "visit" for d in drifters]),
        drift_channel=np.array([drifters.index(d) for d in drifters]),
        names=names,
        calibrated=weights is not None,
        own=own,
        where=as_where(where, world),
    )


def _discounts(discount: Any, world: Any, varying: bool, name: str) -> np.ndarray:
    """Discounts [1] or, if any question's discount varies, [states * actions * successors]."""
    shape = (world.states, world.actions, world.successors)
    if not callable(discount):
        return np.full(math.prod(shape) if varying else 1, float(discount))
    out = over_outcomes(world, of_transition(discount, f"{name}.discount"), f"{name}.discount")
    bad = np.argwhere((out < 0) | (out > 1))
    if bad.size:
        s, a, k = bad[0]
        _check_discount(float(out[s, a, k]), f"{name}.discount({s}, {a}, {world.next[s, a, k]})")
    return out.ravel()


def _paying_rows(parts: Sequence[Any], shape: tuple[int, int, int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """`pays` [state, action, successor] and the distinct rows mean, sd, carry [row, gvf] of `Stacked`."""
    paid = np.zeros(shape, dtype=bool)
    for part in parts:
        paid |= (part.mean != 0) | (part.sd != 0) | (part.carry != 0)
    where = np.flatnonzero(paid.ravel())
    rows = np.stack([[np.broadcast_to(t, shape).ravel()[where] for t in part] for part in parts], axis=-1)  # [3, row, gvf]
    flat = np.ascontiguousarray(np.moveaxis(rows, 0, 1)).reshape(len(where), 3 * len(parts))
    number: dict[bytes, int] = {}
    inverse = [number.setdefault(row.tobytes(), len(number)) for row in flat]
    pays = np.full(paid.size, -1, dtype=np.int32)
    pays[where] = inverse
    distinct = np.array([np.frombuffer(raw) for raw in number]).reshape(len(number), 3, len(parts))
    return pays.reshape(shape), [np.ascontiguousarray(distinct[:, j]) for j in range(3)]
