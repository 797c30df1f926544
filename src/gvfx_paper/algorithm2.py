"""Algorithm 2's actors and critics by preset: as printed, as printed and sensibly set, and as recommended."""

from __future__ import annotations

from dataclasses import replace

import gvfx

_ACTOR = gvfx.Actor(kl_weight=0.1, normalised=False, target_entropy=0.0, alpha=1.0, updates=1)
_CRITICS = gvfx.TwinCritics(
    updates=4,
    aggregate="min",
    entropy_in_target=True,
    target_every=50,
    tau=1.0,
    rate_q=3e-4,
    rate_m=3e-4,
    final_rate=1.0,
    learning_starts=4_000,
    bounded=False,
    trace=0.0,
    scaled=False,
    averaged=False,
)
ACTORS: dict[str, gvfx.Behaviour] = {
    "paper": _ACTOR,
    "stabilised": replace(_ACTOR, kl_weight=10.0, kl_to="each", normalised=True, target_entropy=-6.0, alpha=0.01),
    "recommended": gvfx.Hold(gvfx.MixtureActor()),
}
CRITICS = {
    "paper": _CRITICS,
    "stabilised": replace(_CRITICS, layer_norm=True),
    "recommended": gvfx.TwinCritics(m_every=2),
}
