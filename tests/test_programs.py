"""What fast tests compile is counted and limited, and the rest runs in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.programs import MOST_STEPS, Programs
from numba import typeof

from gvfx.compilation.loops import stored

pytestmark = [pytest.mark.compiled(2), pytest.mark.networks(1)]  # they stand inside the counting of the conftest


def counter(step):
    @stored()
    def count(x, steps):
        for _ in range(steps):
            x[0] += step

    return count


def test_a_composed_loop_is_plain_unless_it_may_be_compiled():
    x, plain, compiled = np.zeros(1), counter(2.0), counter(3.0)
    with Programs(compiled=False) as programs:
        plain(x, 5)
    assert x[0] == 10 and programs.steps == 5 and not plain.overloads
    programs.check(0, 0)
    with Programs(compiled=True) as programs:
        compiled(x, 5)
        compiled(x, 5)
    assert x[0] == 40 and len(compiled.overloads) == len(programs.loops) == 1
    programs.check(1, 0)
    with pytest.raises(AssertionError, match=r"^compiled\(0\): 1 loops were compiled \(\['counter.<locals>.count"):
        programs.check(0, 0)


def test_an_entry_point_is_plain_too_and_forgotten_afterwards():
    x, count = np.zeros(1), counter(1.0)
    kinds = (typeof(x), typeof(5))
    with Programs(compiled=False):
        count.compile(kinds)
        count.overloads[kinds].entry_point(x, 5)
    assert x[0] == 5 and not count.overloads


def test_long_runs_in_plain_python_are_refused():
    with Programs(compiled=False) as programs, pytest.raises(AssertionError, match=r"^100,000 steps in plain Python"):
        counter(1.0)(np.zeros(1), 2 * MOST_STEPS)
    with pytest.raises(AssertionError, match="mark the test `compiled`"):
        programs.check(9, 0)


def test_large_programs_of_networks_are_counted():
    import jax

    def many(x):
        for k in range(300):
            x = jax.numpy.sin(x + k)
        return x

    with Programs(compiled=False) as programs:
        jax.jit(many)(np.ones(3))
    assert [*programs.networks.values()] == ["@jit_many"]
    with pytest.raises(AssertionError, match=r"^networks\(0\): 1 large programs"):
        programs.check(0, 0)


def test_marks_name_few_programs(request):
    """All fast tests together, but those of compilation itself: compiling takes most of their time."""
    marks = {item.nodeid.partition("[")[0]: item.get_closest_marker("compiled") for item in request.session.items}
    assert sum(mark.args[0] for test, mark in marks.items() if mark and "/compilation/" not in test) <= 340
