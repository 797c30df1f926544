"""Text that a terminal may show."""

from __future__ import annotations


def printable(text: object) -> str:
    """A text on one line, without characters that a terminal obeys or that cannot be seen: those are written as \\x1b or \\u202e.

    These are control characters, line breaks, marks that turn the direction of writing, spaces without width, and halves of
    characters.  Everything else stays, so a text that was made printable does not change again.
    """
    said = str(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in said)
