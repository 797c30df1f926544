"""Questions: general value functions (GVFs), and several of them as arrays over one world."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import types
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import gymnasium
import numpy as np

from gvfx.errors import InputError
from gvfx.inputs import check_fields, is_finite, is_real, listed, shown
from gvfx.questions.policies import OwnPolicy, Policy, PolicyLike, as_policy, steady_table
from gvfx.questions.signals import Constant, Cumulant, Drifter, Measure, Measured, Reward, of_transition, over_outcomes
from gvfx.questions.where import EVERYWHERE, Evaluation, Where, WhereLike, as_evaluation, as_where
from gvfx.types import Function
from gvfx.worlds.spec import around, is_environment

CumulantLike = Cumulant | float | Function  # what is accepted wherever a cumulant is expected


@dataclass(frozen=True)
class GVF:
    """A predictive question: the expected discounted sum of `cumulant` when `policy` is followed from a state.

    cumulant: a cumulant, a number, or a function of the transition.
    discount: a number in [0, 1], or a function of the transition.
    weight:   of this question's squared error in the MSE over all questions.
    name:     in results; `gvf1`, `gvf2`, ... by default.
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
    """Several questions over one MDP, as arrays with the GVFs last; variables of this type are called `asked`.

    `*_stride` (0 or 1) multiplies a row index.  `pays` [states, actions, successors] is a row of `mean`, `sd` and `carry`
    ([rows, gvf]) or -1, and a cumulant is mean + sd * N(0, 1) + carry * (level of the GVF's drift, which starts at `level`).
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
    drifts: np.ndarray  # [gvf] whether its cumulant is a random walk, with steps N(drift_mean, drift_sd^2)
    drift_mean: np.ndarray
    drift_sd: np.ndarray
    drift_on_visit: np.ndarray  # True: the walk advances when its GVF is paid, not every step
    drift_channel: np.ndarray  # [gvf] GVFs with equal Drifters share one random walk
    names: tuple[str, ...]
    calibrated: bool = False  # whether each squared error is divided by the question's mean squared value
    own: tuple[tuple[int, OwnPolicy], ...] = ()  # GVFs with an OwnPolicy; their columns of `pi` start uniform
    where: Where = EVERYWHERE  # where errors count

    def weigh(self, values: np.ndarray, where: np.ndarray | Evaluation) -> np.ndarray:
        """The weight of each question's squared error, [gvf]; the arguments are those of `calibrated_weights`."""
        return self.weights * calibrated_weights(values, where) if self.calibrated else self.weights

    @classmethod
    def of_transitions(cls, questions: Sequence[GVF], rows: int, actions: int, calibrated: bool = False) -> Stacked:
        """Over the rows of a table that stands for observations: policies, cumulants and varying discounts come from
        transitions, and the policies are uniform until then."""
        gvfs = len(questions)
        none, zeros, unset = np.zeros((0, gvfs)), np.zeros(gvfs), np.zeros(gvfs, bool)
        return cls(
            pi=np.full((1, actions, gvfs), 1 / actions),
            pi_stride=0,
            gamma=np.array([[1.0 if callable(q.discount) else float(q.discount) for q in questions]]),
            gamma_stride=0,
            pays=np.full((rows, actions, 1), -1, np.int32),
            mean=none,
            sd=none,
            carry=none,
            weights=np.array([q.weight for q in questions], dtype=float),
            level=zeros,
            drifts=unset,
            drift_mean=zeros,
            drift_sd=zeros,
            drift_on_visit=unset,
            drift_channel=np.zeros(gvfs, int),
            names=question_names(questions),
            calibrated=calibrated,
        )

    def only(self, i: int, pi: np.ndarray) -> Stacked:
        """Question i alone, with another policy [state, action]."""
        columns = {name: getattr(self, name)[..., [i]] for name in ("gamma", "mean", "sd", "carry", "weights", "level")}
        columns |= {name: getattr(self, name)[[i]] for name in ("drifts", "drift_mean", "drift_sd", "drift_on_visit")}
        names = (self.names[i],)
        return self._replace(pi=pi[:, :, None], pi_stride=1, drift_channel=np.zeros(1, int), names=names, own=(), **columns)


def calibrated_weights(values: np.ndarray, where: np.ndarray | Evaluation) -> np.ndarray:
    """Weights w_i proportional to 1 / sum_s d(s) V_i(s)^2 (at the start: 1 / V_i(d)^2), with mean 1, [gvf]; 0 where V_i is 0.

    values [gvf, state]; where: the evaluation distribution d [state].
    """
    square = as_evaluation(where).squares(values)
    weights = np.divide(1.0, square, out=np.zeros(len(square)), where=square > 0)
    return weights / weights.mean() if weights.any() else np.ones(len(values))


def answered_weights(weights: np.ndarray, answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The weights [gvf] divided by the mean square answers in visited states, where the truth is not known.

    answers: of each seed, values [gvf, state] and visits [state, action].
    """
    values = np.concatenate([values for values, _ in answers], axis=1)
    visited = np.concatenate([visits.sum(axis=1) > 0 for _, visits in answers])
    return weights * calibrated_weights(values, visited / max(1, visited.sum()))


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
            policies[q.policy] = steady_table(q.policy, world.states, world.actions, f"{name}.policy")
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
        drifts=np.array([d is not None and (d.sd > 0.0 or d.mean != 0.0) for d in drifters]),
        drift_mean=np.array([d.mean if d else 0.0 for d in drifters]),
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


# --- Which questions can be compared: those about the same signal with the same discount, under different policies --
# Arrays are compared by their numbers, functions by the code that defined them and what they hold.  Policies and signals are
# called after what the names of their questions share: the policy of "careful: goal" and "careful: fall" is "careful".

Key = TypeVar("Key", int, str)

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
        own = _grouped(range(len(self.signals)), self.signals)
        return tuple(Contest(s, tuple(at), tuple(self.policies[i] for i in at)) for s, at in own.items() if s)

    @property
    def note(self) -> dict[str, Any]:
        """What a result keeps of it; empty if nothing can be compared."""
        return {"compared": {"policies": list(self.policies), "signals": list(self.signals)}} if self.contests else {}

    def chosen(
        self, policies: Sequence[str] | None = None, signal: str | None = None, least: int = 2, field: str = "policies"
    ) -> tuple[Contest, ...]:
        """The contests of some policies and one signal, by their names or those of questions; by default all.

        least: the number of policies that a contest needs;  field: the name of the argument that lists them.
        """
        if not self.contests:
            raise InputError(NOTHING)
        known = dict.fromkeys(name for contest in self.contests for name in contest.policies)
        if isinstance(policies, str) or not all(isinstance(name, str) for name in (policies or ())):
            raise InputError(f"{field}: {policies!r:.60} is not a list of names; give one such as {[*known][:2]}.")
        wanted = None if policies is None else {self._found(name, field, known, self.policies) for name in policies}
        signals = dict.fromkeys(contest.signal for contest in self.contests)
        at = None if signal is None else self._found(signal, "signal", signals, self.signals)
        out = []
        for contest in self.contests:
            kept = [(i, name) for i, name in zip(contest.members, contest.policies) if wanted is None or name in wanted]
            if at in (None, contest.signal) and len(kept) >= least:
                out.append(Contest(contest.signal, *zip(*kept)))
        if not out:
            raise InputError(f"{field}: {list(policies or ())} leaves nothing to compare; give two of {', '.join(known)}.")
        return tuple(out)

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
    asked_for = Counter(signal[i] for i in kept)
    kept = [i for i in kept if alone or asked_for[signal[i]] > 1]
    signals = _called(names, signal, kept, [type(q.cumulant).__name__.lower() for q in asked], [""] * len(names))
    policies = _called(names, policy, kept, names, signals)
    return Comparable(names, policies, signals)


def _grouped(members: Iterable[int], keys: Sequence[Key]) -> dict[Key, list[int]]:
    out: dict[Key, list[int]] = {}
    for i in members:
        out.setdefault(keys[i], []).append(i)
    return out


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
    own = _grouped(kept, number)
    words = {n: [WORD.findall(names[i]) for i in each] for n, each in own.items()}
    tried = [{n: alone[each[0]] for n, each in own.items()}, {n: names[each[0]] for n, each in own.items()}]
    rest = {}
    for n, (i, *others) in own.items():
        if not others:
            rest[n] = [word for word in words[n][0] if word not in without[i].split()] or words[n][0]
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
    compared = {*kept}
    return tuple(called[number[i]] if i in compared else "" for i in range(len(names)))


def _shared(each: Sequence[list[str]]) -> list[str]:
    """The words with which all lists begin."""
    same = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*each, strict=False))
    return [words[0] for words in same]


# --- Vector rewards: a question about all of a reward becomes one about each of its components ----------------------
# An environment says how many by `reward_space` (as in MO-Gymnasium) or `reward_dim`, and may name them by `reward_names`.

SCALARISED = ("LinearReward",)  # wrappers of MO-Gymnasium that make one number of the vector
NAMES = ("reward_names", "objective_names")


def reward_names(env: Any) -> tuple[str, ...] | None:
    """A name (or number) for each component of an environment's reward; None unless it says that its reward is a vector."""
    declared: list[Any] = []  # what the layers so far declare, the outermost first
    for layer in around(env):
        if type(layer).__name__ in SCALARISED:
            return None
        says = {**vars(type(layer)), **vars(layer)} if isinstance(layer, gymnasium.Wrapper) else None  # not what is declared
        declared.append(layer if says is None else SimpleNamespace(**says))
        size = _size(declared[-1])
        if size is not None:
            given = (getattr(each, name, None) for each in declared for name in NAMES)
            lists = (each for each in given if isinstance(each, Sequence) and not isinstance(each, str) and len(each) == size)
            return tuple(map(str, next(lists, range(size)))) if size else None
    return None


def _size(layer: Any) -> int | None:
    """How many numbers a layer declares: 0 for a single one, None if it does not say."""
    shape = getattr(getattr(layer, "reward_space", None), "shape", None)
    if shape is None:
        size = getattr(layer, "reward_dim", None)
        return int(size) if isinstance(size, int | np.integer) else None
    return int(shape[0]) if len(shape) == 1 else 0


def on_rewards(questions: Sequence[GVF], world: Any) -> list[GVF]:
    """The questions about an environment, each about the whole of a vector reward replaced by one per component, `name[0]`."""
    return of_components(questions, reward_names(world) if is_environment(world) else None)


def of_components(questions: Sequence[GVF], names: Sequence[str] | None) -> list[GVF]:
    """As `on_rewards`, with a name for each component of the reward; None if it is a single number."""
    questions = [questions] if isinstance(questions, GVF) else questions
    if not isinstance(questions, Iterable) or getattr(questions, "shape", None) == ():  # refused later, in words
        return questions  # type: ignore[return-value]
    questions = list(questions)
    rewards = {i: q.cumulant for i, q in enumerate(questions) if isinstance(q, GVF) and isinstance(q.cumulant, Reward)}
    if names is None or not rewards:
        return questions
    whole = {i for i, reward in rewards.items() if reward.index is None and reward.weights is None}
    out: list[GVF] = []
    for i, q in enumerate(questions):
        name = getattr(q, "name", "") or f"gvf{i + 1}"
        if i in whole:
            called = q.name or ("reward" if len(whole) == 1 else name)
            out += [replace(q, cumulant=Reward(index=k), name=f"{called}[{own}]") for k, own in enumerate(names)]
            continue
        if i in rewards:
            _check_reward(rewards[i], len(names), name)
        out.append(replace(q, name=name) if isinstance(q, GVF) else q)  # keeps its number, if it has no name
    return out


def _check_reward(cumulant: Reward, size: int, name: str) -> None:
    if cumulant.index is not None and not -size <= cumulant.index < size:
        raise InputError(
            f"{name}.cumulant: Reward(index={cumulant.index}) is not one of its {size} components; give 0 to {size - 1}."
        )
    if cumulant.weights is not None and len(cumulant.weights) != size:
        raise InputError(
            f"{name}.cumulant: Reward(weights=...) has {len(cumulant.weights)} weights for {size} components; give one each."
        )


# --- Options of audits: their share of the steps, and what is known about the cumulants -----------------------------


@dataclass(frozen=True)
class Audit:
    """Audits of values at the start (docs/audits.md).

    share:  of the steps, at least 0 and below 1; None: the default.
    ranges: by question, the least and the largest possible cumulant (with discount 1, return of an episode).  Their intervals are
            wider, and hold with any number of rollouts.
    """

    share: float | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "audit")
        for name, given in self.ranges.items():
            if not (isinstance(given, tuple | list | np.ndarray) and len(given) == 2 and all(map(is_real, given))):
                raise InputError(f"audit: {shown(given)} is not the range of {name}; give two numbers, (low, high).")

    def on(self, questions: Sequence[GVF]) -> np.ndarray:
        """The ranges of questions, [gvf, 2]; NaN where none is given."""
        asked = expand(questions)
        names = question_names(asked)
        out = np.full((len(names), 2), np.nan)
        for name, given in self.ranges.items():
            if name not in names:
                raise InputError(f"audit: {name!r} is not a question; give ranges for some of {', '.join(names)}.")
            i = names.index(name)
            low, high = map(float, given)
            if low >= high:
                raise InputError(f"audit: ({low:g}, {high:g}) is not the range of {name}; give two numbers, the smaller first.")
            if callable(asked[i].discount):
                raise InputError(f"audit: {name} has a discount that changes, so a range says nothing; leave its range out.")
            out[i] = low, high
        return out
