"""Errors that a user can cause; each says in one sentence which field is wrong and how to mend it."""

from importlib.util import find_spec


class InputError(ValueError):
    """Bad input: one sentence that names the field and the fix."""


class UnknownName(InputError, KeyError):
    """A name that is not in a list of choices; the sentence offers the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its repr

    def __init__(self, kind: str, name: str, choices: list[str] | tuple[str, ...]) -> None:
        import difflib

        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(repr(c) for c in near)}?" if near else f"choose from {', '.join(choices)}."
        super().__init__(f"{kind}: {name!r} is unknown; {hint}")


def require(module: str, extra: str) -> None:
    """Refuse to go on without a module that comes with an extra of this package."""
    if find_spec(module) is None:
        raise InputError(f"{module}: not installed; run pip install 'gvfx[{extra}]'.")
