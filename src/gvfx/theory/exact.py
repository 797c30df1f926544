r"""Closed forms on an MDP, without sampling: the true values of GVFs, and the variances and behaviours of the paper's theory.

Notation.  With target policy $\pi$, discount $\gamma$ and cumulant $c$:

- $V = (I-\gamma P_\pi)^{-1} c_\pi$ and $Q(s,a) = \bar c(s,a) + \gamma\sum_{s'}P(s'|s,a)V(s')$.
- $\sigma^2(s,a) = \mathrm{Var}(c + \gamma V(s') \mid s,a) = \mathbb{E}[\delta^2\mid s,a]$, the noise of one transition.

**Three variance functions** to which the paper's text gives one name (docs/theory.md explains how they differ):

- `expected_sarsa` (Eq. 6), $M=\sigma^2+\gamma^2\sum_{s'}P\sum_{a'}\pi M$: the variance of $\sum_t\gamma^t\delta_t$ under $\pi$;
- `importance_sampling` (Eq. 4), $M=\sigma^2+\gamma^2\sum_{s'}P\sum_{a'}\frac{\pi^2}{\mu} M$: that of
  $\sum_t\gamma^t\rho_{1:t}\delta_t$ under $\mu$;
- `return_variance`, Eq. 6 plus $\gamma^2\mathbb{E}[\mathrm{Var}_{a'\sim\pi}Q(s',a')]$: that of the return $G$ under $\pi$.

All of them reduce to one linear system over states, $m = r + \gamma^2 \bar P m$, solved with a dense LU factorisation below
`DENSE_BELOW` states and with a sparse one above.  GVFs with the same policy and discount share it (`groups`).

Shapes: values [gvf, state]; state-action tables [state, action, gvf], as the learners keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.csgraph
import scipy.sparse.linalg

from gvfx.errors import InputError
from gvfx.inputs import checked, shown, whole
from gvfx.questions.gvf import GVF, Stacked, stack
from gvfx.questions.policies import checked_rows
from gvfx.questions.where import EVERYWHERE, Evaluation
from gvfx.theory.equations import converged_policies, explorer_probabilities, explorer_square, q_target, squared_error
from gvfx.threads import one_thread
from gvfx.worlds.mdp import MDP, reachable

# --- Linear systems over states: transitions weighted by a policy and a discount, and what solves them --------------

DENSE_BELOW = 1500  # states; larger systems are factorised as sparse matrices
DEFINITE = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}  # of splu
Solve = Callable[[np.ndarray], np.ndarray]


def groups(pi: np.ndarray, gamma: np.ndarray) -> list[list[int]]:
    """Lists of GVFs with the same policy and discount, which share one linear system; pi [.., .., gvf], gamma [.., gvf]."""
    members: dict[bytes, list[int]] = {}
    for i in range(pi.shape[2]):
        members.setdefault(pi[:, :, i].tobytes() + gamma[:, i].tobytes(), []).append(i)
    return list(members.values())


def weighted_transitions(world: Any, weight: np.ndarray, discount: np.ndarray) -> sp.csr_array:
    """sum_a weight(s, a) discount(s, a, s') P(s' | s, a) as a sparse matrix [state, state]; world: an MDP or a `Model`."""
    entries = (weight[:, :, None] * discount * world.prob).reshape(world.states, -1)
    rows = np.repeat(np.arange(world.states), entries.shape[1])
    return sp.csr_array(sp.coo_array((entries.ravel(), (rows, world.next.ravel())), shape=(world.states, world.states)))


def factorised(system: sp.sparray) -> Solve:
    """A function that solves system @ x = b for any number of right-hand sides b [state, ...]."""
    if system.shape[0] < DENSE_BELOW:
        factor = scipy.linalg.lu_factor(system.toarray(), check_finite=False)
        return lambda b: scipy.linalg.lu_solve(factor, b, check_finite=False)
    return scipy.sparse.linalg.splu(sp.csc_array(system)).solve


def resolvent(world: Any, pi: np.ndarray, gamma: np.ndarray) -> sp.csr_array:
    """I - gamma P_pi, whose inverse is F; pi [1 or state, action] and gamma as in `Stacked`, world: an MDP or a `Model`."""
    kernel = weighted_transitions(world, np.broadcast_to(pi, world.next.shape[:2]), discounts(world, gamma))
    return sp.csr_array(sp.eye_array(world.states) - kernel)


def discounts(world: Any, gamma: np.ndarray) -> np.ndarray:
    """A GVF's discount of every outcome [state, action, successor]; 0 on termination and in states that are not reached."""
    gamma = gamma.reshape(world.next.shape) if gamma.size > 1 else gamma
    return np.where(world.terminal[world.next] | ~world.going[:, None, None], 0.0, gamma)


def behaviour_rows(behaviour: Any, world: Any, field: str = "behaviour") -> np.ndarray:
    """A behaviour's probabilities as [states, actions], from one row or one per state; world: an MDP or a `Model`."""
    mu = np.atleast_2d(checked_rows(behaviour, field, world.actions))
    if len(mu) not in (1, world.states):
        raise InputError(f"{field}: has {len(mu)} rows but the world has {world.states} states; give one row, or one per state.")
    return np.broadcast_to(mu, (world.states, world.actions))


def ending(kernel: sp.sparray) -> np.ndarray:
    """The states from which the sum of future cumulants ends, [state] bool: those that can reach a row with a sum below 1.

    For a non-negative kernel with row sums of at most 1; if it is all of them, I - kernel is invertible.
    """
    below_one = np.asarray(kernel.sum(axis=1)).ravel() < 1 - 1e-12
    into = sp.csr_array(kernel.T, copy=True)
    into.eliminate_zeros()
    return reachable(below_one, lambda states: into[states].indices)


def spectral_radius(matrix: sp.csr_array) -> float:
    """Spectral radius of a non-negative matrix: the largest over its strongly connected components."""
    if not np.isfinite(matrix.data).all():
        return float("inf")
    matrix = sp.csr_array(matrix)
    matrix.eliminate_zeros()
    count, component = scipy.sparse.csgraph.connected_components(matrix, connection="strong")
    radius = float(matrix.diagonal().max())
    sizes = np.bincount(component, minlength=count)
    for k in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(component == k)
        part = matrix[members][:, members]
        if len(members) < 500:
            found = np.linalg.eigvals(part.toarray())
        else:
            found = scipy.sparse.linalg.eigs(part, k=1, which="LM", v0=np.ones(len(members)), return_eigenvectors=False)
        radius = max(radius, float(np.abs(found).max()))
    return radius


VarianceForm = Literal["expected_sarsa", "importance_sampling", "return_variance"]
Form = TypeVar("Form", bound=Callable[..., Any])


def closed_form(function: Form) -> Form:
    """A function for users: its arguments are checked, and linear algebra has one thread."""
    return one_thread()(checked(function))


@closed_form
def values(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None) -> np.ndarray:
    """True values V [gvf, state]; `levels` [gvf] are the levels of drifting cumulants (default: their start)."""
    asked = asked_of(world, questions)
    base, unit = value_parts(world, asked)
    return base + unit * _levels(asked, levels)[:, None]


def asked_of(world: MDP, questions: Sequence[GVF]) -> Stacked:
    """The questions as arrays; policies by a GVF's own values are replaced by their fixed point in this world."""
    return ideal(world, stack(questions, world))


def ideal(world: MDP, asked: Stacked) -> Stacked:
    """The questions with every OwnPolicy replaced by the optimal policy, or by the fixed point of its softmax."""
    if not asked.own:
        return asked
    tried = np.ones((world.states, world.actions), dtype=bool)

    def action_values(i: int, pi: np.ndarray) -> np.ndarray:
        one = asked.only(i, pi)
        return _action_values(world, one, value_parts(world, one)[0], None)[:, :, 0]

    pi, failed = converged_policies(asked, action_values, tried, within=1e-9)
    if failed:
        raise InputError(
            f"temperature: the softmax policy of {asked.names[failed[0]]!r} by its own values does not converge; raise it."
        )
    return asked._replace(pi=pi)


@one_thread()
def value_parts(world: MDP, asked: Stacked) -> tuple[np.ndarray, np.ndarray]:
    """base and unit [gvf, state] of V = base + level * unit, which is linear in the level of a drifting cumulant."""
    mean, carry = _expected_cumulants(world, asked)
    base, unit = np.zeros((2, len(asked.names), world.states))
    for members in groups(asked.pi, asked.gamma):
        solve = _solver(world, asked, members[0])
        for i in members:
            pi = _policy(world, asked, i)
            base[i] = solve((pi * mean[:, :, i]).sum(axis=1))
            if asked.carry[:, i].any():
                unit[i] = solve((pi * carry[:, :, i]).sum(axis=1))
    return base, unit


@closed_form
def action_values(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None) -> np.ndarray:
    """True action values Q [state, action, gvf]."""
    return _action_values(world, asked_of(world, questions), values(world, questions, levels), levels)


def _action_values(world: MDP, asked: Stacked, v: np.ndarray, levels: np.ndarray | None) -> np.ndarray:
    mean, carry = _expected_cumulants(world, asked)
    cumulants = mean + carry * _levels(asked, levels)
    q = np.empty((world.states, world.actions, len(asked.names)))
    for i in range(q.shape[2]):
        following = (world.prob * discounts(world, asked.gamma[:, i]) * v[i][world.next]).sum(axis=2)
        q[:, :, i] = q_target(cumulants[:, :, i], 1.0, following)  # Eq. 5 (eq:sarsa-q-update) in expectation
    return q


@closed_form
def transition_noise(world: MDP, questions: Sequence[GVF], levels: np.ndarray | None = None) -> np.ndarray:
    """Noise of one transition, sigma^2(s, a) = Var(c + gamma V(s') | s, a) = E[delta^2], [state, action, gvf]."""
    asked = asked_of(world, questions)
    return _transition_noise(world, asked, values(world, questions, levels), levels)


def _transition_noise(world: MDP, asked: Stacked, v: np.ndarray, levels: np.ndarray | None) -> np.ndarray:
    level = _levels(asked, levels)
    out = np.empty((world.states, world.actions, len(asked.names)))
    for i in range(out.shape[2]):
        paid = np.append(asked.mean[:, i] + asked.carry[:, i] * level[i], 0.0)[asked.pays]
        spread = np.append(asked.sd[:, i], 0.0)[asked.pays]
        target = q_target(paid, discounts(world, asked.gamma[:, i]), v[i][world.next])  # Eq. 5 (eq:sarsa-q-update)
        centre = (world.prob * target).sum(axis=2, keepdims=True)
        out[:, :, i] = (world.prob * ((target - centre) ** 2 + spread**2)).sum(axis=2)
    out[world.terminal] = 0.0
    return out


@closed_form
def successor_representation(world: MDP, question: GVF) -> np.ndarray:
    """Expected discounted visits F = (I - gamma P_pi)^-1, [state, state]; columns of terminal states are 0."""
    asked = asked_of(world, [question])
    return _solver(world, asked, 0)(np.diag((~world.terminal).astype(float)))


@dataclass(frozen=True)
class Existence:
    """Whether the variance function of Eq. 4 exists for one GVF under a behaviour (Lemma 5.1).

    condition:       max_s E_mu[rho^2] < 1 / gamma^2, the Lemma's sufficient condition.
    largest_ratio:   max_s gamma^2 E_mu[rho^2], below one when the condition holds.
    spectral_radius: of gamma^2 P-bar; M exists exactly when it is below one.
    """

    condition: bool
    largest_ratio: float
    spectral_radius: float

    @property
    def exists(self) -> bool:
        return self.spectral_radius < 1


@closed_form
def existence(world: MDP, questions: Sequence[GVF], behaviour: np.ndarray) -> list[Existence]:
    """Lemma 5.1's condition and the exact criterion for every question under behaviour mu [1 or states, actions]."""
    asked = asked_of(world, questions)
    out, acting = [], np.flatnonzero(~world.terminal)
    for i in range(len(asked.names)):
        weight, squared = _squared_ratio(world, asked, i, behaviour), discounts(world, asked.gamma[:, i]) ** 2
        ratio = float((squared[acting].max(axis=(1, 2)) * weight[acting].sum(axis=1)).max())
        out.append(Existence(ratio < 1, ratio, spectral_radius(weighted_transitions(world, weight, squared))))
    return out


@closed_form
def variance(
    world: MDP,
    questions: Sequence[GVF],
    form: VarianceForm = "expected_sarsa",
    behaviour: np.ndarray | None = None,
    levels: np.ndarray | None = None,
) -> np.ndarray:
    """The variance function M(s, a) [state, action, gvf] in one of three forms (see the module docstring).

    `behaviour` [1 or states, actions] is used by "importance_sampling" only; M is infinite where it does not exist.
    """
    asked = asked_of(world, questions)
    if not isinstance(form, str) or form not in get_args(VarianceForm):
        raise InputError(f"form: {shown(form)} is unknown; choose {', '.join(get_args(VarianceForm))}.")
    if form == "importance_sampling" and behaviour is None:
        raise InputError("behaviour: the importance-sampling form needs the behaviour's probabilities [states, actions].")
    v = values(world, questions, levels)
    noise = _transition_noise(world, asked, v, levels)
    q = _action_values(world, asked, v, levels) if form == "return_variance" else None
    out = np.empty_like(noise)
    for members in groups(asked.pi, asked.gamma):
        first = members[0]
        pi, squared = _policy(world, asked, first), discounts(world, asked.gamma[:, first]) ** 2
        weight = _weights(world, asked, first, form, behaviour)
        system = weighted_transitions(world, weight, squared)
        if form == "importance_sampling" and spectral_radius(system) >= 1:
            out[:, :, members] = np.inf
            continue
        solve = factorised(sp.eye_array(world.states) - system)
        for i in members:
            own = _weighted(weight, noise[:, :, i])
            if q is not None:
                own += (pi * (q[:, :, i] - v[i][:, None]) ** 2).sum(axis=1)
            m = solve(own)  # Eq. 13 (eq:M_exists), reduced to states
            out[:, :, i] = noise[:, :, i] + (world.prob * squared * m[world.next]).sum(axis=2)
    out[world.terminal] = 0.0
    return out


@closed_form
def state_variance(
    world: MDP,
    questions: Sequence[GVF],
    form: VarianceForm = "expected_sarsa",
    behaviour: np.ndarray | None = None,
    levels: np.ndarray | None = None,
) -> np.ndarray:
    """The variance function per state, M(s) [gvf, state], in one of three forms.

    Eq. 6: sum_a pi M.  Eq. 4: sum_a mu rho^2 M.  Return: sum_a pi M plus the spread of Q over actions.
    """
    m = variance(world, questions, form, behaviour, levels)
    asked = asked_of(world, questions)
    q = action_values(world, questions, levels) if form == "return_variance" else None
    out = np.empty((m.shape[2], world.states))
    for i in range(m.shape[2]):
        out[i] = _weighted(_weights(world, asked, i, form, behaviour), m[:, :, i])
        if q is not None:
            pi = _policy(world, asked, i)
            centre = (pi * q[:, :, i]).sum(axis=1, keepdims=True)
            out[i] += (pi * (q[:, :, i] - centre) ** 2).sum(axis=1)
    out[:, world.terminal] = 0.0
    return out


@closed_form
def explorer_behaviour(world: MDP, questions: Sequence[GVF], m: np.ndarray | None = None) -> np.ndarray:
    """Behaviour proportional to the root of sum_i w_i pi_i^2 M_i (Eq. 3), [state, action]; uniform where every M is 0.

    With Eq. 6's M (the default), which does not depend on the behaviour, this is GVFExplorer's fixed point.
    """
    asked = asked_of(world, questions)
    if m is not None and np.shape(m) != (world.states, world.actions, len(asked.names)):
        shape = [world.states, world.actions, len(asked.names)]
        raise InputError(f"m: expected shape {shape}, [state, action, gvf], but got {list(np.shape(m))}.")
    m = np.maximum(variance(world, questions) if m is None else m, 0.0)  # rounding can leave less
    squares = explorer_square(asked.weights, asked.pi, m)  # Eq. 3 (eq:behavior_update)
    return explorer_probabilities(np.nan_to_num(squares, nan=0.0, posinf=np.finfo(float).max ** 0.5))


@dataclass(frozen=True)
class Iterates:
    """The behaviours of `policy_iteration`, [k][state, action], with their total variances and existence."""

    behaviours: list[np.ndarray]
    totals: np.ndarray  # [k] sum over GVFs and live states of w * M(s)
    existence: list[list[Existence]]


@closed_form
def policy_iteration(world: MDP, questions: Sequence[GVF], updates: int = 10, start: np.ndarray | None = None) -> Iterates:
    """Theorem 4.1's update with the exact M of Eq. 4, from the mixture policy by default; ends early if M ceases to exist.

    Theorem 4.2 says that the totals never rise.  That holds for one GVF and fails for two (docs/theory.md).
    """
    asked, updates = asked_of(world, questions), whole(updates, "updates", least=0, most=1_000_000)
    mixture = np.broadcast_to(asked.pi.mean(axis=2), (world.states, world.actions))
    mu = mixture if start is None else behaviour_rows(start, world, "start")
    behaviours, totals, exist = [], [], []
    for _ in range(updates + 1):
        m = variance(world, questions, "importance_sampling", mu)
        per_state = np.array([_weighted(_squared_ratio(world, asked, i, mu), m[:, :, i]) for i in range(m.shape[2])])
        behaviours.append(np.array(mu))
        totals.append(float((asked.weights[:, None] * per_state)[:, world.live].sum()))  # Eq. 2 (eq:lagrangian)
        exist.append(existence(world, questions, mu))
        if not np.isfinite(totals[-1]):
            break
        mu = explorer_behaviour(world, questions, m)
    return Iterates(behaviours, np.array(totals), exist)


# --- building blocks ---------------------------------------------------------------------------------------------


def _solver(world: MDP, asked: Stacked, i: int) -> Solve:
    """Solves (I - gamma_i P_pi_i) x = b [state, ...]."""
    kernel = weighted_transitions(world, _policy(world, asked, i), discounts(world, asked.gamma[:, i]))
    if not ending(kernel).all():
        raise InputError(
            f"discount: the values of {asked.names[i]!r} do not exist, because a discount of 1 without termination "
            "gives an endless sum; lower the discount or let episodes terminate."
        )
    return factorised(sp.eye_array(world.states) - kernel)


def _policy(world: MDP, asked: Stacked, i: int) -> np.ndarray:
    """pi_i [state, action]."""
    return np.broadcast_to(asked.pi[:, :, i], (world.states, world.actions))


def _expected_cumulants(world: MDP, asked: Stacked) -> tuple[np.ndarray, np.ndarray]:
    """E[c | s, a] without drift, and the expected factor of the drifting level, both [state, action, gvf]."""
    out = []
    for rows in (asked.mean, asked.carry):
        padded = np.vstack([rows, np.zeros((1, rows.shape[1]))])  # row -1: pays nothing
        expected = np.zeros((world.states, world.actions, rows.shape[1]))
        for k in range(world.successors):
            expected += world.prob[:, :, k, None] * padded[asked.pays[:, :, k]]
        expected[world.terminal] = 0.0
        out.append(expected)
    return out[0], out[1]


def _weights(world: MDP, asked: Stacked, i: int, form: VarianceForm, behaviour: np.ndarray | None) -> np.ndarray:
    """How much M at the next action counts, [state, action]."""
    if form == "importance_sampling" and behaviour is not None:
        return _squared_ratio(world, asked, i, behaviour)  # mu rho^2, Eq. 4 (eq:var_s_a)
    return _policy(world, asked, i)  # pi, Eq. 6 (eq:sarsa-m-update)


def _squared_ratio(world: MDP, asked: Stacked, i: int, behaviour: np.ndarray) -> np.ndarray:
    """mu rho^2 = pi^2 / mu [state, action]; 0 where pi is 0, infinite where mu is 0 and pi is not."""
    pi, mu = _policy(world, asked, i), behaviour_rows(behaviour, world)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(pi > 0, pi * pi / mu, 0.0)


def _levels(asked: Stacked, levels: np.ndarray | None) -> np.ndarray:
    """Levels of the drifting cumulants [gvf]: those given, or their start."""
    level = asked.level if levels is None else np.asarray(levels, dtype=float)
    if level.shape != asked.level.shape:
        raise InputError(f"levels: expected one per question, [{len(asked.names)}], but got {list(level.shape)}.")
    return level


def _weighted(weight: np.ndarray, m: np.ndarray) -> np.ndarray:
    """sum_a weight * m [state], with 0 * infinity = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(weight > 0, weight * m, 0.0).sum(axis=1)


# --- Ground truth on an MDP: the evaluation states, their true values, and the error of predictions -----------------


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """True values, V = base + level * unit for drifting cumulants, both [gvf, state], and where errors count."""

    points: np.ndarray  # [point] state indices, every live state
    base: np.ndarray
    unit: np.ndarray
    where: Evaluation | None = None  # None: every live state equally

    @classmethod
    def exact(cls, world: MDP, asked: Stacked) -> GroundTruth:
        """The truth by linear solves."""
        base, unit = value_parts(world, ideal(world, asked))
        where = None if asked.where == EVERYWHERE else asked.where.on(world)
        return cls(np.flatnonzero(world.live), base, unit, where)

    def values(self, level: np.ndarray) -> np.ndarray:
        """V [gvf, state] if drifting cumulants stayed at their present level [gvf]."""
        return self.base + self.unit * level[:, None]

    def mse(self, estimates: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Mean squared error per GVF [gvf] of estimates [gvf, state]: uniform over live states, or where errors count."""
        if self.where is not None:
            return self.where.squares(self.values(level) - estimates)
        errors = squared_error(self.values(level), estimates)  # Eq. 1 (eq:mse) with uniform d(s)
        return errors[:, self.points].mean(axis=1)


def predicted_values(world: MDP, asked: Stacked, q: np.ndarray) -> np.ndarray:
    """V(s) = sum_a pi(a|s) Q(s, a), [gvf, state], from a learner's q [row, action, gvf]."""
    return np.einsum("san,san->ns", np.broadcast_to(asked.pi, (world.states, *asked.pi.shape[1:])), q[world.feature])


__all__ = [
    "Existence", "Iterates", "action_values", "existence", "explorer_behaviour", "policy_iteration", "state_variance",
    "successor_representation", "transition_noise", "values", "variance",
]  # fmt: skip
