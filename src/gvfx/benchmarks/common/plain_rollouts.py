"""Plain Monte Carlo of values at the start: the spread of a return and the steps that it takes, for each policy.

Two kinds: a rollout that stops after each step with probability 1 - gamma and sums its cumulants, and an episode whose
cumulants are discounted, to its end or until what follows counts less than `CUT`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np

import gvfx
from gvfx.evidence.audits import quantile
from gvfx.questions.reader import Gaussians, Reader, Targets
from gvfx.worlds.numbering import spec_of
from gvfx.worlds.spec import BoxActionSpec, DiscreteSpec

CUT = 1e-3  # of a discount's product, where a discounted episode is ended


class Plain(NamedTuple):
    """Of every question, [gvf] each: the standard deviation of a return and the mean steps of a rollout."""

    spread: np.ndarray
    steps: np.ndarray

    def half_widths(self, steps: float, policies: int) -> np.ndarray:
        """Half the width of 95 % intervals if all steps are spent on rollouts, split evenly over policies."""
        n = np.maximum(2.0, steps / policies / self.steps)
        return np.asarray(quantile(n - 1, 0.95) * self.spread / np.sqrt(n))


class Walker:
    """Follows the target policies of questions with one constant discount in a plain environment."""

    def __init__(self, env: Any, questions: list[gvfx.GVF], seed: int) -> None:
        spec = spec_of(env)
        self.env, self.rng, self.spec = env, np.random.default_rng([seed, 0x706C]), spec
        self.reader = Reader(questions, spec if isinstance(spec, DiscreteSpec) else None, seed)
        self.targets: Targets | Gaussians
        if isinstance(spec, BoxActionSpec):
            self.targets = Gaussians(questions, spec)
        else:
            states = spec.skeleton.states if isinstance(spec, DiscreteSpec) else None
            self.targets = Targets(questions, int(env.action_space.n), states)
        self.env.reset(seed=seed)

    def action(self, policy: int, observation: Any) -> Any:
        if isinstance(self.targets, Gaussians):
            return self.targets.sample(policy, observation, self.rng)
        pi = self.targets.each(np.array([observation]))[policy][0]
        return int(np.searchsorted(np.cumsum(pi), self.rng.random() * pi.sum(), side="right"))

    def returns(self, policy: int, gamma: float, stopping: bool) -> tuple[np.ndarray, int]:
        """The return of one rollout [gvf], and its steps."""
        (observation, _), total, weight, steps = self.env.reset(), np.zeros(len(self.reader.names)), 1.0, 0
        while True:
            action = self.action(policy, observation)
            following, reward, terminated, truncated, info = self.env.step(action)
            c, _ = self.reader.transition(observation, action, float(reward), following, bool(terminated), info)
            total, steps, weight = total + weight * c, steps + 1, weight * (1.0 if stopping else gamma)
            if terminated or truncated or (self.rng.random() >= gamma if stopping else weight < CUT):
                return total, steps
            observation = following


def plain(env: gymnasium.Env[Any, Any], questions: list[gvfx.GVF], rollouts: int, stopping: bool, seed: int = 1) -> Plain:
    """Plain Monte Carlo with `rollouts` rollouts of each policy; all questions have the same constant discount."""
    (gamma,) = {float(q.discount) for q in questions}  # type: ignore[arg-type]
    walker, spread, length = Walker(env, questions, seed), np.zeros(len(questions)), np.zeros(len(questions))
    for policy in range(len(walker.targets.distinct)):
        own = walker.targets.member == policy
        found = [walker.returns(policy, gamma, stopping) for _ in range(rollouts)]
        spread[own] = np.std([total for total, _ in found], axis=0, ddof=1)[own]
        length[own] = np.mean([steps for _, steps in found])
    return Plain(spread, length)
