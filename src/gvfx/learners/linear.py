"""LinearCertaintyEquivalence: certainty equivalence for continuous observations, in features chosen from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Literal

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.evidence.transitions import Transitions
from gvfx.features.bases import ROUNDS, Basis, Kernel, Lattice, farthest_points, relevance
from gvfx.features.scaling import Scaling, named
from gvfx.inputs import check_fields
from gvfx.learners.base import Learner, NoValues
from gvfx.learners.half_samples import Answers, CrossFit, Fit, answered, crossfit, fitted, missing, predicted, steadiest
from gvfx.learners.least_squares import BLOCKS, Range, Rows, Sums, blocks, definite, first_of
from gvfx.schedules import growing
from gvfx.threads import one_thread

# --- The choice of features by data: lattice size or kernel length, penalty, sharing between actions, relevance of inputs
# The rule is the same for every world and never sees a true value.  Some candidates are fitted, and the median of their values
# $V_{ref}$ gives one fixed target $y = c + \gamma V_{ref}(s')$ per transition and question.  Every candidate then predicts the
# targets of a quarter of the transitions, drawn at random, from a regression on the others.  A candidate's score is its mean
# squared error there in units of the targets' variance, averaged over questions; the smallest wins.  With targets fixed, a
# candidate cannot win by making its own targets easy.  The penalty of a kernel is chosen once more, on all transitions: the score
# of single steps does not show how far a solution amplifies its errors (`gvfx.learners.half_samples.steadiest`).

SIDES = (4, 6, 8, 11, 16, 23, 32, 45, 64)  # nodes per axis of two-dimensional lattices; squared for one input
STRENGTHS = {"lattice": (0.01, 0.1, 1.0), "kernel": (1e-3, 1e-2, 1e-1)}
MIDDLE = 1e-2  # strength with which lengths of kernels are compared
REFERENCE = 1100  # most nodes of the lattices that are fitted for the targets
PER_NODE = 4  # least transitions per node and action
LENGTHS = (1.0, 2.0, 4.0)  # of kernels, in standard deviations
SHARING = 0.8  # between actions, of kernels
CENTRES, ROOTS, MOST = 400, 4.0, 800  # of kernels: up to 10,000 transitions, per square root of their number beyond, at most
WORK = 1e7  # most products of two features and a policy's action per transition
TRIAL, TRIAL_CENTRES = 20_000, 150  # most transitions and centres with which kernels are compared
PER_CENTRE = 10  # least transitions per centre
ROUGH = 10  # rounds of iterations for targets and relevance, which need not be exact
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


def scores(rows: Rows, bases: Sequence[Basis], targets: np.ndarray) -> list[np.ndarray]:
    """For every basis the mean squared error [gvf] at the transitions of block 1 of a regression of targets [n, gvf] on those of
    block 0, over the targets' variance (1 if a target never varies).

    The bases have the features of the rows, or the first of them.
    """
    actions, gvfs, out, spread = rows.data.actions, targets.shape[1], [], targets.var(axis=0)
    own = (Sums(p.gram(x), [], p.back(x, targets[p.index]).reshape(-1, gvfs)) for p, x in rows if p.block == 0)
    whole, held = reduce(Sums.plus, own), max(1, sum(len(p.data) for p in rows.pieces if p.block == 1))
    for basis in bases:
        total = whole if basis.size == rows.basis.size else whole.among(first_of(basis.size, rows.basis, actions))
        weights = definite(total.gram + basis.prior(actions))(total.paid).reshape(actions, -1, gvfs)
        missed = sum(((targets[p.index] - p.taken(p.each(x, weights))) ** 2).sum(axis=0) for p, x in rows if p.block == 1)
        out.append(np.divide(missed / held, spread, out=np.zeros(len(spread)), where=spread > 0))
    return out


def _reference(trials: Sequence[Rows]) -> np.ndarray:
    """The targets c + gamma V_ref(s') [n, gvf] of the same transitions in several features, V_ref the median over fits."""
    data, within = trials[0].data, Range.of(trials[0].data)
    after = [predicted(rows, [fitted(rows, within, ROUGH)] * rows.count)[1] for rows in trials]
    return np.asarray(data.cumulant + data.discount * np.median(after, axis=0))


def sample(data: Transitions, count: int, rng: np.random.Generator) -> Transitions:
    """A random sample of `count` transitions, or all of them if there are fewer."""
    return data.part(np.sort(rng.permutation(len(data))[:count])) if len(data) > count else data


def _held(count: int, rng: np.random.Generator) -> np.ndarray:
    """1 for the transitions that are held out, int [n]."""
    return (rng.permutation(count) % HELD_OUT == 0).astype(int)


def count_centres(data: Transitions) -> int:
    """The number of centres that the data are enough for, and with which their sums do not take too long."""
    products = 2 + data.pi.shape[2] * (data.actions - 1)
    most = min(max(CENTRES, ROOTS * len(data) ** 0.5), MOST, (WORK / products) ** 0.5)
    return max(1, min(int(most), len(data) // PER_CENTRE))


def _lattice(data: Transitions, scaling: Scaling, rng: np.random.Generator) -> Choice:
    points, held = scaling(data.observation), _held(len(data), rng)
    sides = [s ** (3 - scaling.size) for s in SIDES]
    allowed = [s for s in sides if s**scaling.size * data.actions * PER_NODE <= len(data)] or sides[:1]
    small, middle, large = STRENGTHS["lattice"]

    def trial(side: int) -> Rows:
        return Rows.of(data, Basis(scaling, Lattice.over(points, side), middle, 0.0), held, 2)

    targets = _reference([trial(side) for side in allowed if side**scaling.size <= REFERENCE][-3:])
    tried = {side: scores(rows, [rows.basis], targets)[0] for side, rows in ((s, trial(s)) for s in allowed)}
    side = min(tried, key=lambda one: tried[one].mean())
    rows = trial(side)
    others = [replace(rows.basis, strength=s) for s in (small, large)]
    found = [(rows.basis, tried[side]), *zip(others, scores(rows, others, targets), strict=True)]
    best, own = min(found, key=lambda pair: pair[1].mean())
    coarse = best.halved()
    return Choice(best, own, scores(Rows.of(data, coarse, held, 2), [coarse], targets)[0])


def _kernel(data: Transitions, scaling: Scaling, rng: np.random.Generator) -> Choice:
    few = sample(data, TRIAL, rng)
    held, points = _held(len(few), rng), scaling(few.observation)
    count = max(1, min(TRIAL_CENTRES, len(few) // PER_CENTRE))

    def trials(weights: np.ndarray, lengths: Sequence[float] = LENGTHS) -> list[Rows]:
        """The transitions with kernels of several lengths; weights [d] is the inputs' relevance."""
        centres = points[farthest_points(points * weights, count, rng)]
        kernels = [Kernel.around(centres, length / weights) for length in lengths]
        return [Rows.of(few, Basis(scaling, kernel, MIDDLE, SHARING), held, 2) for kernel in kernels]

    def best(of: Sequence[Rows], targets: np.ndarray) -> tuple[Rows, np.ndarray]:
        return min(((rows, scores(rows, [rows.basis], targets)[0]) for rows in of), key=lambda pair: pair[1].mean())

    def best_of(of: Sequence[Rows], targets: np.ndarray) -> tuple[Rows, Basis, np.ndarray]:
        """The best length, then the best strength and sharing with it."""
        rows = best(of, targets)[0]
        bases = [replace(rows.basis, strength=s, sharing=r) for s in STRENGTHS["kernel"] for r in (SHARING, 0.0)]
        found = zip(bases, scores(rows, bases, targets), strict=True)
        return min(((rows, *pair) for pair in found), key=lambda one: one[2].mean())

    plain = trials(np.ones(scaling.size))
    targets = _reference(plain)
    if scaling.size > 1:
        trial, first = best(plain, targets)
        length = float(trial.basis.features.lengths[0])  # type: ignore[union-attr]
        for _ in range(ROUNDS):
            fit = fitted(trial, rounds=ROUGH)
            weights = relevance(lambda z, fit=fit: fit.at(fit.basis.features(z)), points[:500])  # type: ignore[misc]
            trial = trials(weights, [length])[0]
        relevant = trials(weights)
        if best(relevant, targets)[1].mean() < first.mean():  # better fits give better targets
            targets = _reference(relevant)
    rows, basis, own = best_of(plain, targets)
    if scaling.size > 1 and (other := best_of(relevant, targets))[2].mean() <= KEEP * own.mean():
        rows, basis, own = other
    half = scores(rows, [basis.halved()], targets)[0]
    everything, lengths = scaling(data.observation), basis.features.lengths  # type: ignore[union-attr]
    centres = everything[farthest_points(everything / lengths, count_centres(data), rng)]
    return Choice(replace(basis, features=Kernel.around(centres, lengths)), own, half)


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
            return fitted(Rows.of(data, choice.basis.halved() if halved else choice.basis))

    def rows(self, data: Transitions, choice: Choice, seed: int = 0) -> Rows:
        """Transitions with their features, dealt to blocks; `answers` and `crossfit` share what is computed of them.

        The penalty of kernels is that with which temporal-difference errors add up to least.
        """
        with one_thread():
            rows = Rows.of(data, choice.basis, blocks(data.episode, seed), BLOCKS)
            return steadiest(rows, STRENGTHS["kernel"]) if isinstance(choice.basis.features, Kernel) else rows

    def answers(self, rows: Rows, intervals: bool = True) -> Answers:
        """The answers with chosen features, with error bars if they are wanted and kept."""
        with one_thread():
            return answered(rows, intervals and self.intervals)

    def crossfit(self, rows: Rows) -> CrossFit:
        """Predictions for every transition by a fit to the episodes outside its fold."""
        with one_thread():
            return crossfit(rows)


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
