"""Choosing actions with networks in an environment stepped from Python.

`Decider` makes one numba call per step: M's network, the behaviour's rule for tables, and a draw; a JAX call per step would
cost more than the learning.  `TracedDecider` uses JAX, for behaviours with an intrinsic value on networks
(SuccessorRepresentation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from gvfx.behaviours.base import Behaviour
from gvfx.behaviours.calibrated import Calibrated
from gvfx.kernel import BehaviourRule, Sizes, piece, whole
from gvfx.rng import BEHAVIOUR, choose, uniform
from gvfx.running.checkpoint import fill, flatten, prefixed, tables, unflatten, unprefixed
from gvfx.running.predictor import LIMIT, Scales
from gvfx.worlds.spec import skeleton_mdp


class Shape(NamedTuple):
    """The shape of a network (`gvfx.learners.networks.heads.Heads`) in one array: each layer's weights, then its biases."""

    widths: tuple[int, ...]  # the inputs' and every layer's
    waves: int
    exponential: bool = False

    @classmethod
    def of(cls, network: Any) -> Shape:
        widths = (len(network.weights[0]), *map(len, network.biases))
        return cls(widths, network.frequencies.shape[1], network.exponential)


class Net(NamedTuple):
    """A variance network in the form that compiled functions read."""

    parameters: np.ndarray  # all layers
    frequencies: np.ndarray  # [o, wave]
    scales: np.ndarray  # [2, o] centre and spread
    square: np.ndarray  # [gvf] squares of the units, which convert variances to cumulant units
    layers: np.ndarray  # [2, width] the layers' outputs, alternating


def as_net(network: Any, scales: Scales) -> Net:
    layers = zip(network.weights, network.biases, strict=True)
    return Net(
        parameters=np.concatenate([np.asarray(part).ravel() for layer in layers for part in layer]),
        frequencies=np.array(network.frequencies),
        scales=np.stack([scales.centre, scales.spread]),
        square=scales.unit**2,
        layers=np.zeros((2, max(Shape.of(network).widths)), np.float32),
    )


@cache
def _forward(shape: Shape) -> Callable[..., Any]:
    """Evaluates the network at an observation; the last of its `depth` layers is in layers[depth % 2]."""
    widths, waves, _ = shape
    size, depth = widths[0] - 2 * waves, len(widths) - 1
    ends = np.cumsum([(widths[k] + 1) * widths[k + 1] for k in range(depth)])

    @piece
    def forward(net, observation):
        x, y = net.layers[0], net.layers[1]
        for i in range(size):
            x[i] = min(max((observation[i] - net.scales[0, i]) / net.scales[1, i], -LIMIT), LIMIT)
        for k in range(waves):
            turns = np.float32(0.0)
            for i in range(size):
                turns += x[i] * net.frequencies[i, k]
            x[size + k] = 4 * abs(turns - math.floor(turns) - 0.5) - 1
            turns += np.float32(0.25)
            x[size + waves + k] = 4 * abs(turns - math.floor(turns) - 0.5) - 1
        at = 0
        for k in range(depth):
            bias = ends[k] - widths[k + 1]
            for j in range(widths[k + 1]):
                y[j] = net.parameters[bias + j]
            for i in range(widths[k]):
                for j in range(widths[k + 1]):
                    y[j] += x[i] * net.parameters[at + j]
                at += widths[k + 1]
            at = ends[k]
            if k < depth - 1:
                for j in range(widths[k + 1]):
                    y[j] = max(y[j], np.float32(0.0))
            x, y = y, x

    return forward


@cache
def _compiled(rule: BehaviourRule, sizes: Sizes, shape: Shape | None) -> tuple[Callable[..., int], Callable[..., None]]:
    """The functions `decide` and `episode_end`; shape: of the variance network, if the behaviour uses it."""
    probabilities, end, (gvfs, actions) = rule.probabilities, rule.episode_end, sizes
    forward, depth = (_forward(shape), len(shape.widths) - 1) if shape else (None, 0)
    exponential = shape is not None and shape.exponential

    @whole
    def decide(state, net, t, observation, distinct, member, given, mu, rng):
        pi, m = given[0], given[1]
        for a in range(actions):
            for i in range(gvfs):
                pi[a, i] = distinct[a, member[i]]
        if forward is not None:
            forward(net, observation)
            y = net.layers[depth % 2]
            for a in range(actions):
                for i in range(gvfs):
                    z = y[a * gvfs + i]
                    variance = math.exp(z) if exponential else max(z, 0.0) + math.log1p(math.exp(-abs(z)))  # or softplus
                    m[a, i] = net.square[i] * variance
        probabilities(state, t, 0, 0, pi, m, mu)
        return choose(mu, actions, uniform(rng, BEHAVIOUR))

    @whole
    def episode_end(state, t, rng):
        end(state, t, rng)

    return decide, episode_end


class Decider:
    """Chooses actions by a behaviour, which has its own state in every lane."""

    def __init__(self, behaviour: Behaviour, weights: np.ndarray, actions: int, member: np.ndarray, rng: np.ndarray, lanes: int):
        """member [gvf]: the index of each GVF's policy among the distinct ones."""
        self.behaviour, self.sizes, self.variance = behaviour, Sizes(len(weights), actions), bool(behaviour.needs_variance)
        self.rule, asked = behaviour.rule(self.sizes), cast(Any, SimpleNamespace(weights=weights))
        self.states = [behaviour.begin(asked, skeleton_mdp(1, actions)) for _ in range(lanes)]
        self.member, self.rng, self.mu = member, rng, np.zeros(actions)
        self.given = np.zeros((2, actions, len(weights)))  # pi and M at an observation
        self.net: Net | None = None

    def state(self) -> dict[str, np.ndarray]:
        """What the future depends on, as named arrays."""
        return dict(tables((self.states, self.rng)))

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        fill((self.states, self.rng), arrays)

    def learned(self, learning: Any, scales: Scales) -> None:
        """Use the current networks from now on."""
        if self.net is None or self.variance:
            self.net = as_net(learning.m, scales)
            self.decide, self.end = _compiled(self.rule, self.sizes, Shape.of(learning.m) if self.variance else None)

    def note(self, squares: np.ndarray, steps: int) -> None:
        """Tell a calibrated behaviour the mean square values [gvf] of the last steps."""
        for state in self.states:
            cast(Calibrated, self.behaviour).note(state, squares, steps)

    def act(self, t: int, observations: np.ndarray, pi: np.ndarray, over: np.ndarray, action: np.ndarray) -> None:
        """Write an action [lane] for observations [lane, o] with policies pi [lane, action, policy]; `over` [lane] marks
        episodes that have ended since the last call."""
        for k, state in enumerate(self.states):
            if over[k]:
                self.end(state, t, self.rng)
            action[k] = self.decide(state, self.net, t, observations[k], pi[k], self.member, self.given, self.mu, self.rng)

    def probabilities(self, t: int, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """mu [point, action] of the first lane's behaviour."""
        out, rng = [], self.rng.copy()
        for observation, each in zip(observations, pi, strict=True):
            self.decide(self.states[0], self.net, t, observation, each, self.member, self.given, self.mu, rng)
            out.append(self.mu.copy())
        return np.array(out)


class TracedDecider:
    """The same through JAX, with the intrinsic value."""

    def __init__(self, behaviour: Behaviour, weights: np.ndarray, actions: int, member: np.ndarray, rng: np.ndarray, lanes: int):
        self.behaviour, self.rng, self.member, self.actions = behaviour, rng, member, actions
        rule, needs_variance = behaviour.network_rule(), behaviour.needs_variance
        begun = rule.begin(jnp.asarray(weights, jnp.float32))
        self.acting = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *jnp.shape(leaf))), begun)

        def one(m: Any, value: Any, unit: Any, t: Any, acting: Any, seen: Any, pi: Any, ended: Any) -> Any:
            after = rule.episode_end(acting)
            acting = jax.tree.map(lambda new, old: jnp.where(ended, new, old), after, acting)
            variance = m(seen) * unit**2 if needs_variance else pi
            return acting, rule.probabilities(acting, t, pi, variance, value(seen)[..., 0])

        self.ask = jax.jit(jax.vmap(one, in_axes=(None, None, None, None, 0, 0, 0, 0)))

    def state(self) -> dict[str, np.ndarray]:
        return prefixed("acting", flatten(self.acting)) | {"rng": self.rng}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.acting = unflatten(self.acting, unprefixed("acting", arrays))
        self.rng[...] = arrays["rng"]

    def learned(self, learning: Any, scales: Scales) -> None:
        self.learning, self.scales = learning, scales

    def note(self, squares: np.ndarray, steps: int) -> None:
        given = jnp.asarray(squares, jnp.float32)
        self.acting = jax.vmap(lambda state: cast(Calibrated, self.behaviour).noted(state, given, steps))(self.acting)

    def _asked(self, t: int, acting: Any, observations: np.ndarray, pi: np.ndarray, over: np.ndarray) -> tuple[Any, np.ndarray]:
        m, value = self.learning.m, self.learning.intrinsic.value
        seen = self.scales.scaled(observations)
        acting, mu = self.ask(m, value, self.scales.unit, t, acting, seen, pi[:, :, self.member], over)
        return acting, np.asarray(mu).astype(float)

    def act(self, t: int, observations: np.ndarray, pi: np.ndarray, over: np.ndarray, action: np.ndarray) -> None:
        self.acting, mu = self._asked(t, self.acting, observations, pi, over)
        action[:] = [choose(row, self.actions, uniform(self.rng, BEHAVIOUR)) for row in mu]

    def probabilities(self, t: int, observations: np.ndarray, pi: np.ndarray) -> np.ndarray:
        acting = jax.tree.map(lambda leaf: leaf[:1].repeat(len(pi), axis=0), self.acting)
        return self._asked(t, acting, observations, pi, np.zeros(len(pi), bool))[1]
