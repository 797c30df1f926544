"""Linear algebra on one thread."""

from __future__ import annotations

import pytest

from gvfx import threads


def numbers():
    return [read() for read, _ in threads._controls()]


def test_one_thread_inside_and_as_before_after_it():
    before = numbers()
    with threads.one_thread(), threads.one_thread():
        assert all(n == 1 for n in numbers())
    assert numbers() == before


def test_an_error_restores_the_number_too():
    before = numbers()
    with pytest.raises(ValueError, match="inside"), threads.one_thread():
        raise ValueError("inside")
    assert numbers() == before
