"""LinearCertaintyEquivalence: certainty equivalence for continuous observations, in features chosen from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.evidence.transitions import Transitions
from gvfx.features.bases import ROUNDS, Kernel, Lattice, farthest_points, relevance
from gvfx.features.scaling import Scaling, named
from gvfx.inputs import check_fields
from gvfx.learners.base import Learner, NoValues
from gvfx.learners.half_samples import Answers, Basis, Fit, answered, fitted, missing
from gvfx.learners.least_squares import Back, Range, definite, diagonal
from gvfx.schedules import growing
from gvfx.threads import one_thread

# --- The choice of features by data: lattice size or kernel length, penalty, sharing between actions, relevance of inputs
# The rule is the same for every world and never sees a true value.  Some candidates are fitted, and the median of their values
# $V_{ref}$ gives one fixed target $y = c + \gamma V_{ref}(s')$ per transition and question.  Every candidate then predicts the
# targets of a quarter of the transitions, drawn at random, from a regression on the others.  A candidate's score is its mean
# squared error there in units of the targets' variance, averaged over questions; the smallest wins.  With targets fixed, a
# candidate cannot win by making its own targets easy.

SIDES = (4, 6, 8, 11, 16, 23, 32, 45, 64)  # nodes per axis of two-dimensional lattices; squared for one input
STRENGTHS = {"lattice": (0.01, 0.1, 1.0), "kernel": (1e-3, 1e-2, 1e-1)}
REFERENCE = 1100  # most nodes of the lattices that are fitted for the targets
REFERRED = 200_000  # transitions that they are fitted to
PER_NODE = 4  # least transitions per node and action
LENGTHS = (1.0, 2.0, 4.0)  # of kernels, in standard deviations
SHARING = 0.8  # between actions, of kernels
CENTRES = 400
TRIAL, TRIAL_CENTRES = 3000, 150  # transitions and centres with which kernels are compared
PER_CENTRE = 10  # least transitions per centre
ROUGH = 20  # rounds of iterations for targets and relevance, which need not be exact
HELD_OUT = 4  # one transition in four is held out
KEEP = 0.9  # relevance is used if it lowers the score at least to this share


@dataclass(frozen=True, eq=False)
class Choice:
    """The features chosen, and how well they predicted what was held out."""

    basis: Basis
    score: np.ndarray  # [gvf] squared error over the variance of the targets
    halved: np.ndarray  # [gvf] the same at half the resolution

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as named arrays."""
        return self.basis.arrays() | {"score": self.score, "halved": self.halved}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Choice:
        return cls(Basis.from_arrays(arrays), arrays["score"], arrays["halved"])


def choose(data: Transitions, kind: str = "auto", seed: int = 0) -> Choice:
    """The features for these transitions; kind: "lattice", "kernel" or "auto" (a lattice for up to two inputs)."""
    scaling = Scaling.of(data.observation)
    rng = np.random.default_rng([seed, len(data)])
    if 0 < scaling.size <= 2 and kind in ("auto", "lattice"):
        return _lattice(data, scaling, rng)
    return _kernel(data, scaling, rng)


def score(data: Transitions, basis: Basis, targets: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Mean squared error [gvf] at the transitions `held` [n] of a regression of targets [n, gvf] on the others, over the
    targets' variance (1 if a target never varies)."""
    here = basis(data.observation)
    back = Back(here, data.action, data.actions, ~held)
    matrix = diagonal(back.gram()) + basis.prior(data.actions)
    right = back.sums(targets).reshape(-1, targets.shape[1])
    weights = definite(matrix)(right).reshape(data.actions, -1, targets.shape[1])
    missed = np.zeros(targets.shape[1])
    for a, w in enumerate(weights):
        rest = np.flatnonzero((data.action == a) & held)
        missed += ((targets[rest] - here[rest] @ w) ** 2).sum(axis=0)
    spread = targets.var(axis=0)
    return np.divide(missed / max(1, held.sum()), spread, out=np.zeros(len(spread)), where=spread > 0)


def _reference(data: Transitions, bases: Sequence[Basis], rng: np.random.Generator) -> np.ndarray:
    """The targets c + gamma V_ref(s') [n, gvf], V_ref the median over fits."""
    within, some = Range.of(data), sample(data, REFERRED, rng)
    after = [fitted(basis.rows(some), basis, within=within, rounds=ROUGH).following(data) for basis in bases]
    return data.cumulant + data.discount * np.median(after, axis=0)


def sample(data: Transitions, count: int, rng: np.random.Generator) -> Transitions:
    """A random sample of `count` transitions, or all of them if there are fewer."""
    return data.part(np.sort(rng.permutation(len(data))[:count])) if len(data) > count else data


def _held(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(count) % HELD_OUT == 0


def _lattice(data: Transitions, scaling: Scaling, rng: np.random.Generator) -> Choice:
    points = scaling(data.observation)
    sides = [s ** (3 - scaling.size) for s in SIDES]
    allowed = [s for s in sides if s**scaling.size * data.actions * PER_NODE <= len(data)] or sides[:1]

    def basis(side: int, strength: float) -> Basis:
        return Basis(scaling, Lattice.over(points, side), strength, 0.0)

    middle = STRENGTHS["lattice"][1]
    referred = [side for side in allowed if side**scaling.size <= REFERENCE]
    targets = _reference(data, [basis(side, middle) for side in referred[-3:]], rng)
    held = _held(len(data), rng)
    tried = {(side, middle): score(data, basis(side, middle), targets, held) for side in allowed}
    side = min(tried, key=lambda one: tried[one].mean())[0]
    tried |= {(side, s): score(data, basis(side, s), targets, held) for s in STRENGTHS["lattice"] if s != middle}
    best = basis(*min(tried, key=lambda one: tried[one].mean()))
    own = tried[side, best.strength]
    return Choice(best, own, score(data, best.halved(), targets, held))


def _kernel(data: Transitions, scaling: Scaling, rng: np.random.Generator) -> Choice:
    few = sample(data, TRIAL, rng)
    held = _held(len(few), rng)
    count = max(1, min(TRIAL_CENTRES, len(few) // PER_CENTRE))
    around = partial(_around, scaling, scaling(few.observation), count)
    middle = STRENGTHS["kernel"][1]

    def lengths(weights: np.ndarray) -> list[Basis]:
        return [around(weights, length, middle, SHARING) for length in LENGTHS]

    def best(bases: Sequence[Basis], targets: np.ndarray) -> tuple[Basis, np.ndarray]:
        return min(((basis, score(few, basis, targets, held)) for basis in bases), key=lambda pair: pair[1].mean())

    def best_of(weights: np.ndarray, targets: np.ndarray) -> tuple[Basis, np.ndarray]:
        """The best length, then the best strength and sharing with it, at a relevance [d] of the inputs."""
        basis = best(lengths(weights), targets)[0]
        return best([replace(basis, strength=s, sharing=r) for s in STRENGTHS["kernel"] for r in (SHARING, 0.0)], targets)

    weights = plain = np.ones(scaling.size)
    targets = _reference(few, lengths(plain), rng)
    if scaling.size > 1:
        trial, first = best(lengths(plain), targets)
        length = float(trial.features.lengths[0])  # type: ignore[union-attr]
        for _ in range(ROUNDS):
            fit = fitted(trial.rows(few), trial, rounds=ROUGH)
            weights = relevance(lambda z, fit=fit: fit.at(fit.basis.features(z)), scaling(few.observation)[:500])  # type: ignore[misc]
            trial = around(weights, length, middle, SHARING)
        if best(lengths(weights), targets)[1].mean() < first.mean():  # better fits give better targets
            targets = _reference(few, lengths(weights), rng)
    basis, own = best_of(plain, targets)
    if scaling.size > 1:
        other, its = best_of(weights, targets)
        if its.mean() <= KEEP * own.mean():
            basis, own = other, its
        else:
            weights = plain
    half = score(few, basis.halved(), targets, held)
    many = max(1, min(CENTRES, len(data) // PER_CENTRE))
    length = float(basis.features.lengths.min()) if scaling.size else 1.0  # type: ignore[union-attr]
    whole = _around(scaling, scaling(data.observation), many, weights, length, basis.strength, basis.sharing)
    return Choice(whole, own, half)


def _around(
    scaling: Scaling, points: np.ndarray, count: int, weights: np.ndarray, length: float, strength: float, sharing: float
) -> Basis:
    """Kernel features with `count` of the points [n, d] as centres; weights [d] is the inputs' relevance."""
    centres = points[farthest_points(points * weights, count)]
    return Basis(scaling, Kernel.around(centres, length / weights), strength, sharing)


# --- The learner ----------------------------------------------------------------------------------------------------

FEATURES = ("auto", "lattice", "kernel")
FIRST, GROWTH = 300, 2.0  # steps before features are first chosen, and the growth of data between two choices
LARGEST = 12  # numbers in an observation up to which this learner is the default
UNRESOLVED = 0.5  # share of the targets' variance that is left, above which finer features matter
SHARPER = 0.9  # of the error at half the resolution: below it, resolution matters


@dataclass(frozen=True)
class LinearCertaintyEquivalence(Learner[NoValues]):
    """Values of all GVFs by linear solves in features of continuous observations (LSTD-Q), all of them chosen from the data.

    features:  "lattice" (piecewise linear, for one or two inputs that vary), "kernel", or "auto": a lattice where it fits.
    capacity:  transitions that are kept; beyond, a random sample of all of them is.
    intervals: whether half-samples are fitted for error bars.
    """

    features: Literal["auto", "lattice", "kernel"] = "auto"
    capacity: int = 1_000_000
    intervals: bool = True

    supports: ClassVar[frozenset[str]] = frozenset({"linear"})

    def __post_init__(self) -> None:
        check_fields(self, "learner")
        if self.features not in FEATURES:
            raise UnknownName("features", str(self.features), FEATURES)
        if not isinstance(self.capacity, int | np.integer) or self.capacity < 100:
            raise InputError(f"capacity: {self.capacity!r} transitions are too few; give at least 100.")

    @property
    def bounds_errors(self) -> bool:  # type: ignore[override]
        return self.intervals

    def stops(self, steps: int) -> Sequence[int]:
        return growing(FIRST, GROWTH, steps)

    def choose(self, data: Transitions, seed: int = 0) -> Choice:
        """The features for these transitions."""
        with one_thread():
            return choose(data, self.features, seed)

    def fit(self, data: Transitions, choice: Choice, halved: bool = False) -> Fit:
        """The fit with chosen features, or with half their resolution."""
        with one_thread():
            basis = choice.basis.halved() if halved else choice.basis
            return fitted(basis.rows(data), basis)

    def answers(self, data: Transitions, choice: Choice, seed: int = 0, intervals: bool = True) -> Answers:
        """The answers with chosen features, with error bars if they are wanted and kept."""
        with one_thread():
            return answered(data, choice.basis, seed, intervals and self.intervals)


def unresolved(data: Transitions, choice: Choice, names: tuple[str, ...]) -> dict[str, str]:
    """The questions that the transitions or the chosen features do not resolve, each with the reason."""
    out = {}
    for name, reason, left, coarse in zip(names, missing(data), choice.score, choice.halved, strict=True):
        if reason:
            out[name] = f"not resolved: {reason}."
        elif left > UNRESOLVED and left < SHARPER * coarse:
            out[name] = (
                f"not resolved: {left:.0%} of what follows a transition is left unexplained, and finer features would explain "
                "more; its intervals may be too narrow; give more steps, fewer inputs or gvfx.Deep()."
            )
    return out


def left_out(choice: Choice, size: int) -> str:
    """Which of the `size` numbers of an observation are not used, in words; empty if all are."""
    scaling = choice.basis.scaling
    if not scaling.size:
        return "no number of an observation ever changed, so every observation has the same answers"
    copies = np.setdiff1d(np.arange(size), np.concatenate([scaling.kept, scaling.still]))
    words = [
        f"without {named(k)}, which {why}" for k, why in ((scaling.still, "never changed"), (copies, "repeat others")) if len(k)
    ]
    return f"{scaling.size} of {size} numbers of an observation ({'; '.join(words)})" if words else ""
