"""Stable-Baselines3 models with Discrete actions as target policies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from gvfx.errors import InputError, install
from gvfx.inputs import checked
from gvfx.questions.policies import Policy, checked_rows


@dataclass(frozen=True, eq=False)
class StableBaselines(Policy):
    """A Stable-Baselines3 model with Discrete actions: one call of its network per batch of observations.

    temperature:   for DQN: probabilities are the softmax of Q / temperature.
    deterministic: the model's best action always.
    """

    model: Any
    temperature: float | None
    deterministic: bool

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        return self.at(np.arange(states), actions, field)

    def at(self, observations: Any, actions: int, field: str = "policy") -> np.ndarray:
        import torch

        if isinstance(observations, list) and isinstance(observations[0], dict):
            observations = {key: np.stack([o[key] for o in observations]) for key in observations[0]}
        policy = self.model.policy
        with torch.no_grad():
            seen, _ = policy.obs_to_tensor(observations)
            if hasattr(policy, "q_net"):
                scores = policy.q_net(seen) / (self.temperature or 1.0)
                rows = torch.softmax(scores.double(), dim=1).cpu().numpy()
            else:
                rows = policy.get_distribution(seen).distribution.probs.double().cpu().numpy()
        if rows.ndim != 2 or rows.shape[1] != actions:
            raise InputError(
                f"{field}: the model has {rows.shape[-1]} actions and the environment {actions}; give one trained on it."
            )
        return np.eye(actions)[rows.argmax(axis=1)] if self.deterministic else checked_rows(rows, field, actions)


@checked
def from_sb3(
    model: object, *, temperature: float | None = None, deterministic: bool = False, algorithm: str = "", trust: bool = False
) -> StableBaselines:
    """A Stable-Baselines3 model (PPO, A2C or DQN with Discrete actions) as a policy.

    model:         the model, or the file it was saved to (then give `algorithm`, such as "PPO", and `trust=True`).
    temperature:   for DQN, which has action values only: the temperature of their softmax (or give deterministic=True).
    deterministic: always the model's best action instead of its probabilities.
    trust:         whether to read a file at all: it contains pickled Python objects, which can run any code when loaded.
    """
    if isinstance(model, str | os.PathLike):
        model = _sb3_file(str(model), algorithm, trust)
    policy = getattr(model, "policy", None)
    if not (hasattr(policy, "q_net") or hasattr(policy, "get_distribution")):
        raise InputError(f"model: {type(model).__name__} has no action probabilities; use PPO, A2C or DQN.")
    if not hasattr(getattr(model, "action_space", None), "n"):
        raise InputError(
            "model: its actions are not Discrete; use a model with Discrete actions, or for Box actions "
            "gvfx.gaussian_policy(lambda o: model.predict(o, deterministic=True)[0], sigma)."
        )
    if hasattr(policy, "q_net") and (temperature is None) != deterministic:
        raise InputError(
            "temperature: DQN has action values, not probabilities; give temperature=1.0 (softmax) or deterministic=True."
        )
    if temperature is not None and not (temperature > 0 and hasattr(policy, "q_net")):
        raise InputError("temperature: give a number above 0, and only for DQN.")
    return StableBaselines(model, temperature, deterministic)


def _sb3_file(path: str, algorithm: str, trust: bool) -> Any:
    if not trust:
        raise InputError(
            f"model: {path} contains pickled Python objects, which can run any code when loaded; "
            "give trust=True if you trust its author, or load it yourself and give the model."
        )
    try:
        import stable_baselines3
    except ImportError:
        raise InputError(f"stable_baselines3: not installed; run {install('sb3')}.") from None
    if algorithm not in ("PPO", "A2C", "DQN"):
        raise InputError(f"algorithm: {algorithm!r} is not supported; give the class that was saved: 'PPO', 'A2C' or 'DQN'.")
    try:
        return getattr(stable_baselines3, algorithm).load(path, device="cpu")
    except (OSError, ValueError) as error:
        raise InputError(f"model: cannot read {path} ({error}); give a file written by model.save.") from None
