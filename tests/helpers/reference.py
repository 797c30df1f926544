"""Plain Python, one step at a time, written from the paper: what every compiled loop must equal.

It shares nothing with the compiled code but the random generator (run uncompiled) and the alias tables that turn a
uniform draw into a successor, so that both see the same draws.
"""

from __future__ import annotations

import math

import numpy as np

from gvfx.rng import BEHAVIOUR, CUMULANTS, DRIFT, ENVIRONMENT, REPLAY, seed_streams, uniform
from gvfx.running.streams.table_compiled import dynamics
from gvfx.schedules import Geometric, Linear


class Draws:
    """The named streams, drawn without compilation."""

    def __init__(self, seed: int) -> None:
        self.rng = seed_streams(seed)

    def uniform(self, stream: int) -> float:
        with np.errstate(over="ignore"):
            return float(uniform.py_func(self.rng, stream))

    def normal(self, stream: int) -> float:
        radius = math.sqrt(-2 * math.log(1 - self.uniform(stream)))
        return radius * math.cos(2 * math.pi * self.uniform(stream))


def rate_at(schedule, t):
    if isinstance(schedule, Linear):
        return max(schedule.start + (schedule.end - schedule.start) / schedule.steps * t, schedule.end)
    if isinstance(schedule, Geometric):
        return max(schedule.start * schedule.decay**t, schedule.minimum)
    return schedule.value


class Uniform:
    def probabilities(self, t, s, x, pi, m):
        return np.full(len(pi), 1 / len(pi))

    def observe(self, t, step):
        pass

    def episode_end(self):
        pass


class Mixture(Uniform):
    def probabilities(self, t, s, x, pi, m):
        return pi.mean(axis=1)


class RoundRobin(Uniform):
    turn = 0

    def probabilities(self, t, s, x, pi, m):
        self.gvfs = pi.shape[1]
        return pi[:, self.turn]

    def episode_end(self):
        self.turn = (self.turn + 1) % self.gvfs


class Explorer(Uniform):
    def __init__(self, weights, smallest_m=0.0):
        self.weights, self.smallest_m = weights, smallest_m

    def probabilities(self, t, s, x, pi, m):
        score = np.sqrt((self.weights * pi**2 * np.maximum(m, self.smallest_m)).sum(axis=1))
        return score / score.sum() if score.sum() > 0 else np.full(len(pi), 1 / len(pi))


class Successor(Uniform):
    """One psi per GVF (the questions of the tests have distinct policies)."""

    def __init__(self, rows, actions, gvfs, rate, temperature, discount):
        self.psi = np.zeros((gvfs, rows, actions, rows))
        self.w = np.zeros((rows, actions, gvfs))
        self.value = np.zeros((rows, actions))
        self.rate, self.temperature, self.discount = rate, temperature, discount

    def _choice(self, x):
        v = self.value[x]
        if self.temperature == 0:
            e = (v == v.max()).astype(float)
        else:
            e = np.exp((v - v.max()) / self.temperature)
        return e / e.sum()

    def probabilities(self, t, s, x, pi, m):
        return self._choice(x)

    def observe(self, t, step):
        rate = rate_at(self.rate, t)
        change = 0.0
        for i in range(len(self.psi)):
            onward = step.pi_next[:, i] @ self.psi[i, step.x_next]
            indicator = np.arange(self.psi.shape[1]) == step.x
            delta = rate * (indicator + step.discounts[i] * onward - self.psi[i, step.x, step.a])
            self.psi[i, step.x, step.a] += delta
            change += np.abs(delta).sum()
        self._reward_and_value(step, rate, change)

    def _reward_and_value(self, step, rate, change):
        delta = rate * (step.c - self.w[step.x, step.a])
        self.w[step.x, step.a] += delta
        change += np.abs(delta).sum()
        v = self._choice(step.x_next) @ self.value[step.x_next]
        target = change + step.alive * self.discount * v
        self.value[step.x, step.a] += rate * (target - self.value[step.x, step.a])


class SuccessorEntries(Successor):
    """Only the visited entry psi(s, a, s') moves (the authors' code)."""

    def observe(self, t, step):
        rate = rate_at(self.rate, t)
        change = 0.0
        for i in range(len(self.psi)):
            onward = step.pi_next[:, i] @ self.psi[i, step.x_next].mean(axis=1)
            delta = rate * (1 + step.discounts[i] * onward - self.psi[i, step.x, step.a, step.x_next])
            self.psi[i, step.x, step.a, step.x_next] += delta
            change += abs(delta)
        self._reward_and_value(step, rate, change)


class SuccessorEpisodes(Uniform):
    """The authors' code: after each episode everything is updated in order, then the next episode's policy is computed.

    One psi per GVF, also where policies are equal; `states` gives the reward weights to states instead of pairs, and
    `gvfs` lists the GVFs whose psi counts in the intrinsic reward.
    """

    def __init__(self, asked, rows, actions, rate, temperature, discount, floor, states, gvfs):
        self.psi = np.zeros((len(asked.names), rows, actions, rows))
        self.w = np.zeros((len(asked.names), rows, actions))
        self.value = np.zeros((rows, actions))
        self.policy = np.tile(asked.pi[0].mean(axis=1), (rows, 1))
        self.rate, self.temperature, self.discount, self.floor = rate, temperature, discount, floor
        self.states, self.gvfs, self.path = states, gvfs, []

    def probabilities(self, t, s, x, pi, m):
        return self.policy[x]

    def observe(self, t, step):
        self.path.append((t, step))

    def _next_policy(self):
        if self.temperature:
            chances = np.exp((self.value - self.value.max(axis=1, keepdims=True)) / self.temperature)
        else:
            chances = np.eye(self.value.shape[1])[self.value.argmax(axis=1)]
        chances = chances / chances.sum(axis=1, keepdims=True)
        clipped = np.maximum(chances, self.floor)
        return clipped / clipped.sum(axis=1, keepdims=True)

    def learn(self):
        """The updates for the episode so far."""
        rate = rate_at(self.rate, self.path[0][0]) if self.path else 0.0
        for _, step in self.path:
            s, a, s_next = step.x, step.a, step.x_next
            onward = np.einsum("an,na->n", step.pi_next, self.psi[:, s_next].mean(axis=2))
            delta = 1 + step.discounts * onward - self.psi[:, s, a, s_next]
            self.psi[:, s, a, s_next] += rate * delta
            actions = slice(None) if self.states else a
            error = step.c - (self.w[:, s, 0] if self.states else self.w[:, s, a])
            self.w[:, s, actions] += (rate * error)[:, None] if self.states else rate * error
            reward = np.abs(rate * delta)[self.gvfs].sum() + np.abs(rate * error).sum()
            onward = step.alive * self.discount * self.policy[s_next] @ self.value[s_next]
            self.value[s, a] += rate * (reward + onward - self.value[s, a])
        self.path = []

    def episode_end(self):
        self.learn()
        self.policy = self._next_policy()


class RandomPolicies(Uniform):
    """A fresh random policy every episode, from the behaviour's stream."""

    def __init__(self, states, actions):
        self.table = np.full((states, actions), 1 / actions)

    def probabilities(self, t, s, x, pi, m):
        return self.table[s]

    def episode_end(self):
        drawn = np.array([[self.draws.uniform(BEHAVIOUR) for _ in row] for row in self.table])
        self.table = drawn / drawn.sum(axis=1, keepdims=True)


class Search(Uniform):
    """theta moves by the sum over the episode of grad log mu, mu that of the whole episode; alpha is that of its start."""

    def __init__(self, theta, rate, scale, largest, low, high, ratio=False):
        self.theta, self.rate, self.scale, self.largest, self.low, self.high = theta, rate, scale, largest, low, high
        self.path, self.ratio = [], ratio

    def _mu(self):
        e = self.theta if self.ratio else np.exp(self.theta - self.theta.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def probabilities(self, t, s, x, pi, m):
        return self._mu()[x]

    def observe(self, t, step):
        self.path.append((t, step))

    def episode_end(self):
        gvfs = len(self.path[0][1].c)
        returns, discount, ratio = np.zeros(gvfs), np.ones(gvfs), np.ones(gvfs)
        gradient, mu = np.zeros(self.theta.shape), self._mu()
        for _, step in self.path:
            returns += discount * step.c
            discount *= step.gamma
            ratio *= np.clip(step.pi[step.a] / step.prob, self.low, self.high)
            indicator = 1.0 * (np.arange(len(mu[0])) == step.a)
            gradient[step.x] += indicator * (1 - mu[step.x]) if self.ratio else indicator - mu[step.x]
        alpha = rate_at(self.rate, self.path[0][0]) / self.scale**2
        self.theta += min(alpha * ((returns * ratio) ** 2).sum(), self.largest) * gradient
        self.path = []


class Epsilon:
    def __init__(self, inner, schedule, held=False):
        self.inner, self.schedule, self.held, self.first = inner, schedule, held, None

    def probabilities(self, t, s, x, pi, m):
        self.first = t if self.first is None else self.first  # step of the episode
        epsilon = rate_at(self.schedule, self.first if self.held else t)
        mu = self.inner.probabilities(t, s, x, pi, m)
        return (1 - epsilon) * mu + epsilon / len(mu)

    def observe(self, t, step):
        self.inner.observe(t, step)

    def episode_end(self):
        self.first = None
        self.inner.episode_end()


class Floor(Epsilon):
    def probabilities(self, t, s, x, pi, m):
        above = np.maximum(self.inner.probabilities(t, s, x, pi, m) - self.schedule, 0)
        return self.schedule + (1 - len(above) * self.schedule) * above / above.sum()


class Scales:
    """A running mean of squares, and what M is multiplied by."""

    def __init__(self, gvfs, rate=1e-4):
        self.rate, self.square, self.n = rate, np.zeros(gvfs), 0

    def note(self, squares, steps=1):
        self.n += steps
        self.square = self.square + max(steps / self.n, steps * self.rate) * (squares - self.square)

    def factors(self):
        known = self.square > 0
        return np.array([1 / (x if x > 0 else self.square[known].min()) if known.any() else 1.0 for x in self.square])


class Calibrated(Epsilon):
    """M in units of a running mean of Q(s, a)^2; `run` gives it the table q."""

    def __init__(self, inner, gvfs, rate):
        self.inner, self.scales = inner, Scales(gvfs, rate)

    def probabilities(self, t, s, x, pi, m):
        return self.inner.probabilities(t, s, x, pi, m * self.scales.factors())

    def observe(self, t, step):
        self.inner.observe(t, step)
        self.scales.note(self.q[step.x, step.a] ** 2)

    def episode_end(self):
        self.inner.episode_end()


class Step:
    """One transition and what the updates need to know about it."""


def episode_updates(path, q, m, rate_q, rate_m, smallest_m, variance, draws):
    """After an episode: Q in order, then M in shuffled order with the new Q (the authors' code)."""

    def delta(step):
        return step.c + step.discounts * (step.pi_next * q[step.x_next]).sum(axis=0) - q[step.x, step.a]

    for step in path:
        q[step.x, step.a] += rate_q * delta(step)
    if not variance:
        return
    order = []
    for n in range(len(path)):
        k = int(draws.uniform(REPLAY) * (n + 1))
        order.append(n)
        order[k], order[n] = n, order[k]
    for n in order:
        step = path[n]
        target = delta(step) ** 2 + step.discounts**2 * (step.pi_next * m[step.x_next]).sum(axis=0)
        m[step.x, step.a] = np.maximum(m[step.x, step.a] + rate_m * (target - m[step.x, step.a]), smallest_m)


def run(world, asked, behaviour, learner, steps, seed, sampled=False, ratio=(0.0, 10.0), variance=True, smallest_m=None):
    """Returns q, m, visits, levels, number of episodes after `steps`; learner = (rate_q, rate_m, q, m)."""
    rate_q, rate_m, q, m = learner
    w = dynamics(world, asked)
    draws = behaviour.draws = Draws(seed)
    behaviour.q = q
    path = []  # with smallest_m the updates wait for the end of the episode
    feature = world.feature
    level = asked.level.copy()
    visits = np.zeros((world.states, world.actions), int)
    pi_of = lambda s: asked.pi[s * asked.pi_stride]  # noqa: E731
    episodes, age, chosen, s = 0, 0, None, 0

    def pick(t, s):
        mu = behaviour.probabilities(t, s, feature[s], pi_of(s), m[feature[s]])
        a = int(np.searchsorted(np.cumsum(mu)[:-1], draws.uniform(BEHAVIOUR), side="right"))
        return a, mu[a]

    def alias(threshold, other, u):
        j = int(u * len(threshold))
        return j if u * len(threshold) - j < threshold[j] else other[j]

    for t in range(steps):
        if age == 0:
            s = int(w.starts[alias(w.start_threshold[0], w.start_other[0], draws.uniform(ENVIRONMENT))])
        a, prob = chosen if chosen else pick(t, s)
        pair = s * world.actions + a
        k = alias(w.threshold[pair], w.other[pair], draws.uniform(ENVIRONMENT))
        s_next = int(w.next[pair, k])
        paying = int(w.pays[pair, k])
        c = np.zeros(len(asked.names))
        if paying >= 0:
            for i in range(len(c)):
                c[i] = asked.mean[paying, i]
                if asked.sd[paying, i] > 0:
                    c[i] += asked.sd[paying, i] * draws.normal(CUMULANTS)
                c[i] += asked.carry[paying, i] * level[i]
        for i in range(len(c)):
            if asked.drift_channel[i] < i:
                level[i] = level[asked.drift_channel[i]]
            elif asked.drifts[i] and (not asked.drift_on_visit[i] or (paying >= 0 and asked.carry[paying, i] != 0)):
                level[i] += asked.drift_mean[i] + asked.drift_sd[i] * draws.normal(DRIFT)
        ended = bool(world.terminal[s_next])
        visits[s, a] += 1
        age += 1
        chosen = pick(t, s_next) if sampled else None

        step = Step()
        step.x, step.a, step.x_next, step.c, step.prob = feature[s], a, feature[s_next], c, prob
        step.pi, step.pi_next, step.alive = pi_of(s), pi_of(s_next), 0.0 if ended else 1.0
        step.gamma = asked.gamma[(pair * world.successors + k) * asked.gamma_stride]
        step.discounts = step.alive * step.gamma
        x, x_next = step.x, step.x_next
        if sampled:
            a_next, prob_next = chosen
            rho = np.clip(step.pi_next[a_next] / prob_next, *ratio)
            v, v_m = rho * q[x_next, a_next], rho**2 * m[x_next, a_next]
        else:
            v, v_m = (step.pi_next * q[x_next]).sum(axis=0), (step.pi_next * m[x_next]).sum(axis=0)
        delta = c + step.discounts * v - q[x, a]
        if smallest_m is not None:
            path.append(step)
        else:
            if variance:
                m[x, a] += rate_at(rate_m, t) * (delta**2 + step.discounts**2 * v_m - m[x, a])
            q[x, a] += rate_at(rate_q, t) * delta
        behaviour.observe(t, step)

        s = s_next
        if ended or age >= (world.horizon or math.inf):
            if path:
                now = rate_at(rate_q, t + 1), rate_at(rate_m, t + 1)
                episode_updates(path, q, m, *now, smallest_m, variance, draws)
                path = []
            behaviour.episode_end()
            age, chosen = 0, None
            episodes += 1
    return q, m, visits, level, episodes
