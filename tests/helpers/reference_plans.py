"""Plain Python for the compiled loops over the steps of an episode: visits, best plans and derivatives."""

import numpy as np


def dense_pairs(transitions, actions):
    """A sparse matrix [states * actions, next] as [state, action, next]."""
    return transitions.toarray().reshape(-1, actions, transitions.shape[1])


def summed(P, mu, start, horizon):
    """Expected visits of every state in an episode of the stationary behaviour mu."""
    visits, now = np.zeros(len(start)), start
    for _ in range(horizon):
        visits, now = visits + now, np.einsum("s,sa,san->n", now, mu, P)
    return visits


def planned(P, reward, going, horizon):
    """Total reward and length of an episode under the best plan, and the plan [time, state]."""
    states = len(reward)
    value, length, choices = np.zeros(states), np.zeros(states), np.zeros((horizon, states), int)
    for t in reversed(range(horizon)):
        q = P @ value + reward
        best = q.argmax(axis=1)
        onward = P @ length
        value = np.array([q[s, best[s]] if going[s] else 0.0 for s in range(states)])
        length = np.array([1 + onward[s, best[s]] if going[s] else 0.0 for s in range(states)])
        choices[t] = best
    return value, length, choices


def followed(P, start, choices):
    """Visits of every pair in an episode that takes the actions choices [time, state]."""
    visits, now = np.zeros(P.shape[:2]), start
    for chosen in choices:
        after = np.zeros(len(start))
        for s, a in enumerate(chosen):
            visits[s, a] += now[s]
            after += now[s] * P[s, a]
        now = after
    return visits


def slopes(P, mu, start, h, horizon):
    """The derivative of sum_t <h, d_t> by every mu(s, a), as if the others stayed, by differences; exact mean length."""
    out = np.zeros(mu.shape)
    for s, a in np.ndindex(mu.shape):
        moved = [mu + size * (np.arange(mu.size) == s * mu.shape[1] + a).reshape(mu.shape) for size in (1e-6, -1e-6)]
        up, down = (h @ summed(P, each, start, horizon) for each in moved)
        out[s, a] = (up - down) / 2e-6
    return out, summed(P, mu, start, horizon).sum()
