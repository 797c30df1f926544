"""Streams of runs driven by hand, with the plans that their behaviours make."""

from __future__ import annotations

import gvfx
from gvfx.running.backends import open_backend
from gvfx.running.plan import Options, Plan


def planned_state(stream):
    """The state of the behaviour, in a finite world or an environment."""
    agent = stream.agent
    return agent.acting if hasattr(agent, "acting") else agent.arrays.behaviour


def stopped_stream(world, questions, behaviour, steps, seed, before=lambda state: None):
    """The stream of a run after its last step, and the plans that it made; `before` sees the state before every plan."""
    backend = open_backend(
        world, questions, behaviour, gvfx.CertaintyEquivalence(), options=Options(Plan.checked(steps, None, ()))
    )
    stream, plans = backend.begin(seed), {}
    stream.start()
    for stop in sorted(stream.agent.stops):
        stream.advance(stop)
        before(planned_state(stream))
        stream.agent.pause(stop)
        plans[stop] = planned_state(stream).table.copy()
    stream.advance(steps)
    before(planned_state(stream))
    return stream, plans


END = "end"


def edges(search, row, action):
    """What followed a pair in a search, and how often."""
    found, e = {}, search.head[row * search.n.shape[1] + action]
    while e >= 0:
        found[END if search.following[e] < 0 else int(search.following[e])] = int(search.times[e])
        e = search.link[e]
    return found
