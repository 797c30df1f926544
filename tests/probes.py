"""Small worlds whose answers are known by hand, a maker of random ones, and environments that break."""

import gymnasium as gym
import numpy as np

import gvfx


def chain(discount=0.5, horizon=None):
    """0 -> 1 -> end, one action, 1 paid per step.  With discount g: V = (1 + g, 1, 0)."""
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 2] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, False, True], horizon=horizon)
    return world, [gvfx.GVF([1.0], gvfx.Constant(1.0), discount)]


def bandit():
    """One step, two actions: arm 0 pays N(1, 2), arm 1 pays 3; pi = (1/4, 3/4), mu = (1/2, 1/2) for the ratio forms.

    V = 2.5, Q = (1, 3), M = (4, 0) in every form.  Per state: Eq. 6: 1, Eq. 4: (1/16)/(1/2)*4 = 1/2, return: 1 + 3/4.
    """
    P = np.zeros((2, 2, 2))
    P[:, :, 1] = 1
    world = gvfx.MDP.from_matrix(P, terminal=[False, True])
    cumulant = gvfx.table_cumulant([[1, 3], [0, 0]], [[2, 0], [0, 0]])
    return world, [gvfx.GVF([0.25, 0.75], cumulant, 0.9)]


def golden():
    """Two states, two GVFs: the total variance rises under exact policy iteration (facts, section 2)."""
    world = gvfx.MDP.from_matrix([[[0.6, 0.4], [0.8, 0.2]], [[0.2, 0.8], [0.4, 0.6]]])
    questions = [
        gvfx.GVF([[0.5, 0.5], [0.8, 0.2]], gvfx.table_cumulant([[0.7, 1.3], [0.2, -0.4]]), 0.8),
        gvfx.GVF([[0.7, 0.3], [0.2, 0.8]], gvfx.table_cumulant([[0.7, 1.9], [-0.2, -0.1]]), 0.8),
    ]
    return world, questions


def corridor(cells):
    """`cells` states in a row, both actions move right, the last leads to the end: no state ever comes back."""
    right = np.minimum(np.arange(cells + 1) + 1, cells)
    following = np.repeat(right, 2).reshape(cells + 1, 2, 1)
    start = np.append(np.full(cells, 1 / cells), 0.0)
    return gvfx.MDP(following, np.ones(following.shape), start, np.arange(cells + 1) == cells)


def random_mdp(rng, states=4, actions=3, terminal=True):
    """Dense random dynamics from a numpy Generator; with `terminal` the last state ends the episode."""
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    ends = np.zeros(states, bool)
    ends[-1] = terminal
    return gvfx.MDP.from_matrix(P, terminal=ends)


def random_policy(rng, world):
    """A random table policy, every action possible."""
    return 0.9 * rng.dirichlet(np.ones(world.actions), size=world.states) + 0.1 / world.actions


def random_question(rng, world, discount=None, sd=True):
    """A random policy, random cumulant means (and sds) per state and action, and a discount in [0, 0.95]."""
    shape = (world.states, world.actions)
    spread = rng.uniform(0, 1, shape) if sd else np.zeros(shape)
    discount = rng.uniform(0, 0.95) if discount is None else discount
    return gvfx.GVF(random_policy(rng, world), gvfx.table_cumulant(rng.normal(size=shape), spread), discount)


def dense(world):
    """P [state, action, state] rebuilt by loops from the successor lists."""
    P = np.zeros((world.states, world.actions, world.states))
    for (s, a, k), s_next in np.ndenumerate(world.next):
        P[s, a, s_next] += world.prob[s, a, k]
    return P


class Clock(gym.Env):
    """Four ticks, each pays 1; an observation of any kind tells the time; ends by termination or truncation.

    Its actions are the matter of those who use it, and do nothing.
    """

    def __init__(self, terminates=True, kind="box"):
        self.terminates, self.kind = terminates, kind
        place = gym.spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = place if kind == "box" else gym.spaces.Dict({"a": place, "b": gym.spaces.Discrete(4)})

    def look(self):
        place = np.array([self.t / 4], np.float32)
        return place if self.kind == "box" else {"a": place, "b": min(self.t, 3)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        self.t += 1
        done = self.t == 4
        return self.look(), 1.0, done and self.terminates, done and not self.terminates, {"t": self.t}


def broken(kind, after, change):
    """An environment of a kind; what its steps return is changed after so many of them."""

    class Broken(kind):
        count = 0

        def step(self, action):
            self.count += 1
            return change(*super().step(action)) if self.count > after else super().step(action)

    return Broken()


def break_down(*values):
    raise RuntimeError("out of oil")


def not_a_number(observation, *rest):
    return np.array([np.nan], np.float32), *rest


BREAKS = [(break_down, "step raised RuntimeError: out of oil"), (not_a_number, "holds nan or infinity")]
