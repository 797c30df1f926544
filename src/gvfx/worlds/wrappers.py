"""Wrappers that carry something from step to step or from episode to episode, and what that does to answers."""

from __future__ import annotations

from typing import Any

from gvfx.worlds.spec import layers

NORMALISED = (
    "its mean and scale change during the run, so that the same observation means different states early and late; freeze it "
    "after a warm-up (wrapper.update_running_mean = False), or leave it out, because gvfx scales observations itself"
)
REWARD = (
    "its scale changes during the run, so that answers about the reward are in no fixed unit; freeze it after a warm-up "
    "(wrapper.update_running_mean = False), or leave it out"
)
STACKED = "an observation is the last frames together, so that answers hold for those frames and result.predict needs all of them"
HIDDEN = "the observation does not show it, so that answers are averages over what it may be"
STATEFUL = {  # by the name of the class
    "NormalizeObservation": NORMALISED,
    "NormalizeReward": REWARD,
    "MONormalizeReward": REWARD,
    "FrameStackObservation": STACKED,
    "FrameStack": STACKED,
    "StickyAction": f"repeats the last action by chance: {HIDDEN}",
    "RepeatAction": f"repeats actions: {HIDDEN}",
    "DelayObservation": f"shows an old observation; what happened since then is hidden: {HIDDEN}",
}


def around(env: Any) -> list[Any]:
    """The wrappers of an environment, outermost first, and the environment; then those of a vector environment's first copy."""
    out = layers(env)
    copies = getattr(out[-1], "envs", None)  # of a vector environment in this process
    return out + (layers(copies[0]) if copies else [])


def stateful(env: Any) -> dict[str, str]:
    """The wrappers with a state of their own, and what each does to the answers; those that were frozen are left out."""
    names = [type(layer).__name__ for layer in around(env) if getattr(layer, "update_running_mean", None) is not False]
    return {name: STATEFUL[name] for name in names if name in STATEFUL}


def drifting(env: Any) -> dict[str, str]:
    """The wrappers whose statistics go on changing over episodes and resets."""
    return {name: effect for name, effect in stateful(env).items() if effect in (NORMALISED, REWARD)}
