"""Names as a terminal may show them."""

from __future__ import annotations

import pickle

import pytest

import gvfx
from gvfx.errors import EnvironmentFailed, UnknownName, printable

HOSTILE = "\x1b]52;c;aGk=\x07a\r\nb\u202ec\u200b\ud800"


@pytest.mark.parametrize("text", ["", "plain", "ünï Ω 漢字 ±", "[bold]x[/]", "a\\x1b"])
def test_what_can_be_seen_stays(text):
    assert printable(text) == text


def test_what_a_terminal_obeys_is_written_out():
    assert printable(HOSTILE) == r"\x1b]52;c;aGk=\x07a\r\nb\u202ec\u200b\ud800"
    assert printable(printable(HOSTILE)) == printable(HOSTILE)
    assert printable("\x9b31m\x7f\u2028\t") == r"\x9b31m\x7f\u2028\t"


def test_errors_are_printable_whatever_they_name():
    for error in (
        gvfx.InputError(f"name: {HOSTILE}"),
        UnknownName("name", HOSTILE, ["a"]),
        EnvironmentFailed(HOSTILE, 1, 2, HOSTILE),
    ):
        assert str(error).isprintable()
        assert str(pickle.loads(pickle.dumps(gvfx.InputError(str(error))))) == str(error)
    assert EnvironmentFailed(HOSTILE, 1, 2, "x").environment == HOSTILE
