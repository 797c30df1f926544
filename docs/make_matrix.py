"""Writes the tables of docs/behaviours.md that say which behaviour and learner runs where.

Run it with `python docs/make_matrix.py`; a test fails while the page differs from what it writes.
"""

from __future__ import annotations

from pathlib import Path

from gvfx.behaviours.base import Behaviour
from gvfx.kernel import KINDS
from gvfx.learners.base import Learner
from gvfx.names import kinds_of, public_classes, wraps_others

PAGE = Path(__file__).with_name("behaviours.md")
BEGIN, END = "<!-- written by docs/make_matrix.py -->\n", "<!-- end -->\n"
BEHAVIOUR_NEEDS = {
    "needs_variance": "variance",
    "needs_intrinsic": "intrinsic value",
    "needs_actor": "actor",
    "stops": "evidence",
}
LEARNER_NEEDS = {"needs_evidence": "evidence", "needs_next_action": "next action"}


def needs(cls: type, base: type, words: dict[str, str]) -> str:
    """What a class needs of the run: flags that are set, and stops of its own at which it plans from the evidence."""
    if wraps_others(cls):
        return "what it wraps needs"
    own = {flag: getattr(cls, flag) for flag in words}
    return ", ".join(word for flag, word in words.items() if own[flag] is not getattr(base, flag))


def table(base: type, first: str, words: dict[str, str]) -> str:
    """One line per public class, one column per kind of learning that some learner supports."""
    offered = frozenset().union(*(kinds_of(learner) for learner in public_classes(Learner).values()))
    kinds = [kind for kind in KINDS if kind in offered]
    lines = [
        [first, *(KINDS[kind] for kind in kinds), "needs"],
        ["---", *(":-:" for _ in kinds), "---"],
    ]
    for name, cls in sorted(public_classes(base).items()):
        mark = "if what it wraps does" if wraps_others(cls) else "yes"
        lines.append([f"`{name}`", *(mark if kind in kinds_of(cls) else "" for kind in kinds), needs(cls, base, words)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def matrix() -> str:
    """Both tables."""
    return f"\n{table(Behaviour, 'behaviour', BEHAVIOUR_NEEDS)}\n{table(Learner, 'learner', LEARNER_NEEDS)}\n"


def written(page: str) -> str:
    """The page with the tables as they should be."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{matrix()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
