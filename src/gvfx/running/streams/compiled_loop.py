"""The compiled loop: act, step and learn, composed from a world's arrays and the functions of a behaviour and a learner."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gvfx.evidence.counts import Evidence, counting, no_evidence, reach
from gvfx.kernel import BehaviourRule, LearnerRule, Sizes, Transition, piece, whole
from gvfx.questions.gvf import Stacked
from gvfx.rng import BEHAVIOUR, CUMULANTS, DRIFT, ENVIRONMENT, alias_draw, alias_tables, choose, normal, uniform
from gvfx.theory.equations import squared_error
from gvfx.worlds.mdp import MDP


class Dynamics(NamedTuple):
    """A world and its questions as the loop reads them."""

    next: np.ndarray  # [states * actions, successors]
    threshold: np.ndarray  # alias tables of the successors, [states * actions, successors]
    other: np.ndarray
    start_threshold: np.ndarray  # alias tables of the start states, [1, starts]
    start_other: np.ndarray
    starts: np.ndarray
    terminal: np.ndarray  # [states]
    feature: np.ndarray  # [states]
    horizon: int
    pi: np.ndarray
    pi_stride: int
    gamma: np.ndarray
    gamma_stride: int
    pays: np.ndarray  # [states * actions, successors]
    mean: np.ndarray
    sd: np.ndarray
    carry: np.ndarray
    drift_sd: np.ndarray
    drift_on_visit: np.ndarray
    drift_channel: np.ndarray


class Cursor(NamedTuple):
    """The state of a run between calls of the loop."""

    at: np.ndarray  # int64: steps done, state, steps in episode, episodes done, next action (-1: none chosen yet)
    mu: np.ndarray  # [actions] probabilities with which that next action was drawn
    level: np.ndarray  # [gvf] drifting cumulants
    rng: np.ndarray  # uint64 [stream, 2]
    visits: np.ndarray  # int64 [states, actions]
    c: np.ndarray  # [gvf] scratch: the transition's cumulants, zero between transitions
    evidence: Evidence  # read by model-based learners and behaviours between calls of the loop


class Monitor(NamedTuple):
    """Squared errors at the end of recent episodes, for the error that the authors' code reports."""

    base: np.ndarray  # [state, gvf] truth at drift level 0
    unit: np.ndarray  # [state, gvf] truth per unit of drift
    points: np.ndarray  # [point] the evaluation states
    ring: np.ndarray  # [window, gvf] mean squared errors at the end of the last `window` episodes

    def mean(self, episodes: int) -> np.ndarray:
        """The mean over the episodes so far, at most the window, [gvf]."""
        return self.ring[: max(1, min(episodes, len(self.ring)))].mean(axis=0)


NEVER = np.iinfo(np.int64).max


def dynamics(world: MDP, asked: Stacked) -> Dynamics:
    """The arrays of a world and its questions."""
    flat = (world.states * world.actions, world.successors)
    threshold, other = alias_tables(world.prob.reshape(flat))
    starts = np.flatnonzero(world.start)
    start_threshold, start_other = alias_tables(world.start[starts][None] / world.start.sum())
    return Dynamics(
        next=world.next.reshape(flat),
        threshold=threshold,
        other=other,
        start_threshold=start_threshold,
        start_other=start_other,
        starts=starts,
        terminal=world.terminal,
        feature=world.feature,
        horizon=NEVER if world.horizon is None else world.horizon,
        pi=asked.pi,
        pi_stride=asked.pi_stride,
        gamma=asked.gamma,
        gamma_stride=asked.gamma_stride,
        pays=asked.pays.reshape(flat),
        mean=asked.mean,
        sd=asked.sd,
        carry=asked.carry,
        drift_sd=asked.drift_sd,
        drift_on_visit=asked.drift_on_visit,
        drift_channel=asked.drift_channel,
    )


def cursor(world: MDP, asked: Stacked, streams: np.ndarray, evidence: Evidence | None = None) -> Cursor:
    """The state before the first step (0 steps in the episode means "reset first"); keeps no evidence by default."""
    return Cursor(
        at=np.array([0, -1, 0, 0, -1], dtype=np.int64),
        mu=np.zeros(world.actions),
        level=asked.level.copy(),
        rng=streams,
        visits=np.zeros((world.states, world.actions), dtype=np.int64),
        c=np.zeros(len(asked.names)),
        evidence=no_evidence(world, asked, kept=False) if evidence is None else evidence,
    )


Loop = Callable[[Dynamics, Any, Any, Cursor, Monitor, int], None]


@cache
def make_loop(
    sizes: Sizes,
    successors: int,
    behaviour: BehaviourRule,
    learner: LearnerRule,
    needs_next_action: bool,
    aggregated: bool,
    drifting: bool,
    monitored: bool = False,
    counted: bool = False,
) -> Loop:
    """A loop run(dynamics, behaviour state, learner state, cursor, monitor, steps); sizes and flags are compiled in."""
    gvfs, actions = sizes
    probabilities, observe, behaviour_end = behaviour.probabilities, behaviour.observe, behaviour.episode_end
    update, learner_end = learner.update, learner.episode_end
    count = counting(gvfs)

    @piece
    def drift(w, level, rng, paid):
        """Advance the drifting levels; GVFs of one channel share a path that depends on seed and step only."""
        for i in range(gvfs):
            j = w.drift_channel[i]
            if j < i:
                level[i] = level[j]
            elif w.drift_sd[i] > 0.0 and (paid or not w.drift_on_visit[i]):
                level[i] += w.drift_sd[i] * normal(rng, DRIFT)

    @piece
    def pay(w, row, level, rng, c):
        """The cumulants of a paying outcome."""
        for i in range(gvfs):
            c[i] = w.mean[row, i]
            if w.sd[row, i] > 0.0:
                c[i] += w.sd[row, i] * normal(rng, CUMULANTS)
            if drifting:
                c[i] += w.carry[row, i] * level[i]

    @piece
    def record(w, lrn, level, watch, episodes):
        """The squared error at the end of an episode."""
        row = watch.ring[episodes % watch.ring.shape[0]]
        for i in range(gvfs):
            row[i] = 0.0
        share = 1.0 / watch.points.shape[0]
        for k in range(watch.points.shape[0]):
            s = watch.points[k]
            pi = w.pi[s * w.pi_stride]
            q = lrn.q[w.feature[s]]
            base = watch.base[s]
            unit = watch.unit[s]
            for i in range(gvfs):
                estimate = 0.0
                for a in range(actions):
                    estimate += pi[a, i] * q[a, i]
                row[i] += share * squared_error(base[i] + level[i] * unit[i], estimate)  # Eq. 1 (eq:mse)

    @whole
    def run(w, b, lrn, cur, watch, steps):
        rng = cur.rng
        pi = w.pi
        gamma = w.gamma
        level = cur.level
        mu = cur.mu
        c = cur.c
        t, s, age, episodes, action = cur.at[0], cur.at[1], cur.at[2], cur.at[3], cur.at[4]
        for _ in range(steps):
            if age == 0:
                s = (
                    w.starts[alias_draw(w.start_threshold, w.start_other, 0, w.starts.shape[0], uniform(rng, ENVIRONMENT))]
                    & 0x7FFFFFFF
                )
                if counted:
                    cur.evidence.starts[s] += 1
                    reach(cur.evidence, s, t)
            row = s * w.pi_stride
            x = w.feature[s] if aggregated else s
            if not needs_next_action or action < 0:
                probabilities(b, t, s, x, pi[row], lrn.m[x], mu)
                action = choose(mu, actions, uniform(rng, BEHAVIOUR))
            prob = mu[action]

            pair = s * actions + action
            k = alias_draw(w.threshold, w.other, pair, successors, uniform(rng, ENVIRONMENT))
            s_next = w.next[pair, k] & 0x7FFFFFFF
            paying = w.pays[pair, k]
            if paying >= 0:
                pay(w, paying, level, rng, c)
            if drifting:
                drift(w, level, rng, paying >= 0)
            ended = w.terminal[s_next]
            cur.visits[s, action] += 1
            if counted:
                count(cur.evidence, pair, k, c)
                reach(cur.evidence, s_next, t + 1)
            age += 1

            next_row = s_next * w.pi_stride
            next_x = w.feature[s_next] if aggregated else s_next
            next_action = -1
            next_prob = 1.0
            if needs_next_action:
                probabilities(b, t, s_next, next_x, pi[next_row], lrn.m[next_x], mu)
                next_action = choose(mu, actions, uniform(rng, BEHAVIOUR))
                next_prob = mu[next_action]
            tr = Transition(
                row,
                x,
                action,
                prob,
                next_row,
                next_x,
                next_action,
                next_prob,
                (pair * successors + k) * w.gamma_stride,
                0.0 if ended else 1.0,
            )
            update(lrn, t, tr, c, gamma, pi)
            observe(b, t, tr, c, gamma, pi)
            if paying >= 0:
                for i in range(gvfs):
                    c[i] = 0.0
            t += 1
            s = s_next
            action = next_action
            if ended or age >= w.horizon:
                learner_end(lrn, t, rng, pi, gamma)
                behaviour_end(b, t, rng)
                if monitored:
                    record(w, lrn, level, watch, episodes)
                age = 0
                episodes += 1
                action = -1
        cur.at[0], cur.at[1], cur.at[2], cur.at[3], cur.at[4] = t, s, age, episodes, action

    return run


@cache
def make_table(sizes: Sizes, behaviour: BehaviourRule) -> Callable[..., None]:
    """fill(dynamics, behaviour state, learner state, t, out): the behaviour's probabilities in every state."""
    probabilities = behaviour.probabilities

    @whole
    def fill(w, b, lrn, t, out):
        for s in range(out.shape[0]):
            row = s * w.pi_stride
            x = w.feature[s]
            probabilities(b, t, s, x, w.pi[row], lrn.m[x], out[s])

    return fill
