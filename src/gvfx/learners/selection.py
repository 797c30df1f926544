r"""The choice of features by data: lattice size or kernel length, penalty, sharing between actions, relevance of inputs.

The rule is the same for every world and never sees a true value.  Some candidates are fitted, and the median of their values
$V_{ref}$ gives one fixed target $y = c + \gamma V_{ref}(s')$ per transition and question.  Every candidate then predicts the
targets of a quarter of the transitions, drawn at random, from a regression on the others.  A candidate's score is its mean
squared error there in units of the targets' variance, averaged over questions; the smallest wins.  With targets fixed, a
candidate cannot win by making its own targets easy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gvfx.evidence.transitions import Transitions
from gvfx.features.kernel import Kernel, farthest_points
from gvfx.features.lattice import Lattice
from gvfx.features.relevance import ROUNDS, relevance
from gvfx.features.scaling import Scaling
from gvfx.learners.basis import Basis
from gvfx.learners.least_squares import Back, diagonal
from gvfx.learners.limits import Range, definite
from gvfx.learners.linear_fit import fitted

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
        """The choice that `arrays` described."""
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


# --- lattices --------------------------------------------------------------------------------------------------------


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


# --- kernels ---------------------------------------------------------------------------------------------------------


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
