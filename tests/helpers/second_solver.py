"""A second solver of the best design, which shares nothing with the first: dense matrices, doubling, L-BFGS from the uniform."""

import numpy as np
import scipy.optimize

ENDLESS = 1e-6


def dense_model(model):
    """P [state, action, next], without what follows a terminal state or leads into one."""
    P = np.zeros((model.states, model.actions, model.states))
    for (s, a, k), following in np.ndenumerate(model.next):
        if not (model.terminal[s] or model.terminal[following]):
            P[s, a, following] += model.prob[s, a, k]
    return P


def visits_and_pull(A, start, horizon):
    """d = sum_{t < horizon} (A^T)^t start, and a function from df/dd to df/dA."""
    one = np.eye(len(A))
    if horizon is None:
        inverse = np.linalg.inv(one - (1 - ENDLESS) * A)
        d = start @ inverse
        return d, lambda slope: (1 - ENDLESS) * np.outer(d, inverse @ slope)
    sums, power, trace = np.zeros_like(A), one, []
    for bit in bin(horizon)[2:]:  # sums of 2n and of n + 1 terms from those of n
        trace.append(("double", sums, power))
        sums, power = sums + power @ sums, power @ power
        if bit == "1":
            trace.append(("one more", sums, power))
            sums, power = one + A @ sums, A @ power

    def pull(slope):
        by_sums, by_power, by_A = np.outer(start, slope), np.zeros_like(A), np.zeros_like(A)
        for kind, before, power_before in reversed(trace):
            if kind == "double":
                by_sums, by_power = (
                    by_sums + power_before.T @ by_sums,
                    by_sums @ before.T + by_power @ power_before.T + power_before.T @ by_power,
                )
            else:
                by_A += by_sums @ before.T + by_power @ power_before.T
                by_sums, by_power = A.T @ by_sums, A.T @ by_power
        return by_A

    return start @ sums, pull


def log_error(model, need, P, logits):
    """log sum G / x of softmax(logits) [state, action], and its gradient."""
    mu = np.exp(logits - logits.max(axis=1, keepdims=True))
    mu /= mu.sum(axis=1, keepdims=True)
    d, pull = visits_and_pull(np.einsum("sa,san->sn", mu, P), model.start * ~model.terminal, model.horizon)
    needed = need > 0
    if not (d[:, None] * mu)[needed].all():  # a step so long that a needed pair is never visited
        return 1e3, np.zeros(need.shape)
    parts = np.divide(need, d[:, None] * mu, out=np.zeros(need.shape), where=needed)
    total = parts.sum()
    by_d = 1 / d.sum() - np.divide(parts.sum(axis=1), d, out=np.zeros(len(d)), where=needed.any(axis=1)) / total
    by_mu = np.einsum("sn,san->sa", pull(by_d), P) - np.divide(parts, mu, out=np.zeros(mu.shape), where=mu > 0) / total
    return np.log(d.sum() * total), mu * (by_mu - (mu * by_mu).sum(axis=1, keepdims=True))


def least_error(model, need, starts=1, seed=0, evaluations=400):
    """The least sum G / x found from the uniform behaviour and from random ones."""
    P, rng = dense_model(model), np.random.default_rng(seed)
    found = []
    for k in range(starts):
        first = rng.normal(size=need.size) * (k > 0)

        def slope(flat):
            value, gradient = log_error(model, need, P, flat.reshape(need.shape))
            return value, gradient.ravel()

        options = {"maxfun": evaluations, "maxiter": evaluations, "maxcor": 20, "ftol": 1e-10}
        found.append(np.exp(scipy.optimize.minimize(slope, first, jac=True, method="L-BFGS-B", options=options).fun))
    return min(found)
