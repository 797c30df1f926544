"""Trained target policies for Box actions: clip(actor(s) + N(0, sigma^2), -1, 1), where the actor is a network.

The noise makes them stochastic; the simulator and the trained actors are deterministic (the paper's MuJoCo appendix does
not give sigma).  A target's file holds the network's weights in the layout of `gvfx.tensors`, and facts about its training.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gvfx.errors import InputError, UnknownName
from gvfx.files import write_or_copy, write_whole
from gvfx.inputs import as_path, checked, is_finite, shown, unfit
from gvfx.questions.gaussian import ContinuousPolicy
from gvfx.tensors import fit, misfit, pack, read
from gvfx.types import AnyArray, Observations

SHIPPED = Path(__file__).parent / "trained"
Layers = tuple[tuple[np.ndarray, np.ndarray], ...]  # (weights [in, out], biases [out]) of each layer
SIGMA = 0.2


@dataclass(frozen=True)
class Target(ContinuousPolicy):
    """A target policy by the name of a shipped one ("walker-walk") or the path of a file.

    digest: of the weights, filled in; a stored experiment is refused if its digest differs from the file's.
    """

    name: str
    sigma: float = SIGMA
    digest: str = ""

    def __post_init__(self) -> None:
        if wanted := unfit(self.name, "str"):
            raise InputError(f"policy: Target(name={shown(self.name)}) does not fit; give {wanted}.")
        if not (is_finite(self.sigma) and self.sigma > 0):
            raise InputError(f"sigma: {self.sigma!r} is not a standard deviation; give a number above 0.")
        found = _digest(self.layers)
        if self.digest and self.digest != found:
            raise InputError(f"policy: {self.name!r} has other weights than this experiment; give those of {self.digest}.")
        object.__setattr__(self, "digest", found)

    @classmethod
    @checked
    def shipped(cls, domain: str, task: str, sigma: float = SIGMA) -> Target:
        """The target that ships with gvfx for a task of a domain."""
        return cls(f"{domain}-{task}", sigma)

    @classmethod
    def load(cls, path: str | Path, sigma: float = SIGMA) -> Target:
        """A target from a file written by `gvfx train-targets`."""
        return cls(str(as_path(path, "path")), sigma)

    @property
    def layers(self) -> Layers:
        return read_target(self.name)[0]

    @property
    def facts(self) -> Mapping[str, str]:
        """What the file says about the policy: task, return, its standard deviation, seed, steps and the command to remake it."""
        return read_target(self.name)[1]

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers in an observation and in an action."""
        return len(self.layers[0][0]), len(self.layers[-1][1])

    def act(self, observations: AnyArray) -> AnyArray:
        """The actor's action [..., a] without noise, in NumPy or JAX like the observations [..., o]."""
        return actor(self.layers, observations)

    def middles(self, observations: Observations, shape: tuple[int, ...], field: str = "policy") -> np.ndarray:
        seen = np.asarray(observations)
        if (*seen.shape[1:], *shape) != self.sizes:
            raise InputError(
                f"{field}: {self.name!r} is for observations and actions of sizes {self.sizes}; give one trained for these."
            )
        return self.act(seen)

    def sample(self, observations: AnyArray, noise: np.random.Generator | AnyArray) -> AnyArray:
        """An action [..., a]; noise: a NumPy generator, or standard normal numbers [..., a]."""
        middle: Any = self.act(observations)
        drawn: Any = noise
        if isinstance(noise, np.random.Generator):
            drawn = noise.standard_normal(middle.shape, dtype=np.float32)
        return (middle + self.sigma * drawn).clip(-1, 1)

    def log_prob(self, observations: AnyArray, actions: AnyArray) -> AnyArray:
        """Log-density [...] of actions [..., a] under the Gaussian *before* it is clipped."""
        taken: Any = actions
        away = (taken - self.act(observations)) / self.sigma
        return (-0.5 * away**2 - math.log(self.sigma) - 0.5 * math.log(2 * math.pi)).sum(axis=-1)

    def table(self, states: int, actions: int, field: str = "policy") -> np.ndarray:
        raise InputError(f"{field}: {self.name!r} has continuous actions; give an MDP a policy of action probabilities.")


def actor(layers: Layers, observations: Any) -> Any:
    """tanh of a ReLU network, [..., a]."""
    if isinstance(observations, np.ndarray):
        x, tanh, maximum = observations.astype(np.float32), np.tanh, np.maximum
    else:
        import jax.numpy as jnp

        x, tanh, maximum = observations, jnp.tanh, jnp.maximum  # type: ignore[assignment]
    for weights, biases in layers[:-1]:
        x = maximum(x @ weights + biases, 0)
    return tanh(x @ layers[-1][0] + layers[-1][1])


@lru_cache
def read_target(name: str) -> tuple[Layers, Mapping[str, str]]:
    """The layers and facts of a shipped target, or of a file."""
    path = SHIPPED / f"{name}.safetensors"
    if not path.exists():
        path = Path(name)
    if not path.is_file():
        shipped = sorted(p.stem for p in SHIPPED.glob("*.safetensors"))
        raise UnknownName("target", name, shipped)
    try:
        arrays, facts = read(path)
    except OSError as error:
        raise InputError(f"policy: cannot read {path} ({error.strerror}); give a file that can be read.") from None
    depth = len(arrays) // 2
    axes = {f"weights{k}": f"float32 in{k} in{k + 1}" for k in range(depth)}
    fit(arrays, axes | {f"biases{k}": f"float32 in{k + 1}" for k in range(depth)}, str(path))
    if not depth or len(arrays) % 2:
        raise misfit(str(path), f"it has {len(arrays)} arrays")
    return tuple((arrays[f"weights{k}"], arrays[f"biases{k}"]) for k in range(depth)), facts


def write_target(path: Path, weights: Sequence[Any], biases: Sequence[Any], facts: Mapping[str, str]) -> None:
    """Write a target's file atomically; a copy in the temporary folder if that fails."""
    arrays = {f"weights{k}": np.asarray(w, np.float32) for k, w in enumerate(weights)}
    arrays |= {f"biases{k}": np.asarray(b, np.float32) for k, b in enumerate(biases)}
    write_or_copy(path, lambda place: write_whole(place, pack(arrays, facts)), "target")
    read_target.cache_clear()


def _digest(layers: Layers) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for layer in layers for array in layer)).hexdigest()[:16]
