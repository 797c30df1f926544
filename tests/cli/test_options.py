"""Commands are declared by their signatures and docstrings."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from gvfx.cli.options import Count, Kind, Where, add, described
from gvfx.errors import InputError


@dataclass(frozen=True)
class Greeting:
    """Who is greeted.

    name: The name of
        somebody.
    polite: Bow as well.
    """

    name: str
    _: KW_ONLY
    polite: bool = False


Word = Annotated[str, Kind(lambda text, option: f"{option}:{text}", letter="-w", sentence="A word.")]
passed: dict[str, Any] = {}


def greet(
    greeting: Greeting, *, times: Count = 2, where: Where | None = None, word: Word | None = None, old: Count | None = None
) -> None:
    """Greet somebody.

    Exit codes: 0 always.

    times: How often.
    old: Old name of --times.

        gvfx greet you --times 3
    """
    passed.update(greeting=greeting, times=times, where=where, word=word, old=old)


@pytest.fixture
def command():
    passed.clear()
    app = typer.Typer()
    add(app, greet)
    return app


def test_a_docstring_is_text_sentences_and_examples():
    text, sentences, examples = described(greet)
    assert text == "Greet somebody.\n\nExit codes: 0 always."
    assert sentences == {"times": "How often.", "old": "Old name of --times."} and examples == ["gvfx greet you --times 3"]
    assert described(Greeting)[1] == {"name": "The name of somebody.", "polite": "Bow as well."}


def test_values_are_read_and_groups_are_made(command):
    done = CliRunner().invoke(command, ["you", "--polite", "--times", "1e3", "--where", "3, 17", "-w", "x"])
    assert done.exit_code == 0, done.output
    assert passed == {"greeting": Greeting("you", polite=True), "times": 1000, "where": [3, 17], "word": "--word:x", "old": None}
    assert CliRunner().invoke(command, ["you"]).exit_code == 0
    assert passed == {"greeting": Greeting("you"), "times": 2, "where": None, "word": None, "old": None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["you", "--times", "x"], "--times: 'x' is not a whole number"), (["you", "--word", " "], "--word: the text is empty")],
)
def test_what_cannot_be_read_is_refused_before_the_command(command, arguments, sentence):
    error = CliRunner().invoke(command, arguments).exception
    assert isinstance(error, InputError) and str(error).startswith(sentence) and not passed


def test_help_has_every_sentence(command):
    shown = " ".join(CliRunner().invoke(command, ["--help"], env={"COLUMNS": "200"}).output.split())
    for words in ("The name of somebody.", "Bow as well.", "How often.", "[default: 2]", "A word.", "-w", "Where errors count"):
        assert words in shown
    assert "--old" not in shown and "gvfx greet you --times 3" in shown
