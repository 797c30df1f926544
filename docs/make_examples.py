"""Writes docs/examples.md: every example with what it prints.  Run it with `python docs/make_examples.py`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ORDER = (
    "frozen_lake",
    "taxi",
    "cartpole",
    "sb3/cartpole",
    "recommender",
    "robot",
    "pendulum",
    "control",
    "scales",
    "two_questions",
)


def shown(name: str) -> str:
    """An example's first line, its source and its output."""
    path = HERE.parent / "examples" / f"{name}.py"
    source = path.read_text()
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    if run.returncode:
        missing = run.stderr.splitlines()[-1]
        print(f"{name}: left as it is ({missing})")
        return kept(name)
    print(f"{name}: {len(run.stdout.splitlines())} lines")
    title = (ast.get_docstring(ast.parse(source)) or name).splitlines()[0]
    return f"## {name}\n\n{title} [Source](../examples/{name}.py).\n\n```\n{run.stdout.rstrip()}\n```\n"


def kept(name: str) -> str:
    """What the page says now."""
    parts = (HERE / "examples.md").read_text().split("\n## ")
    return next((f"## {part.rstrip()}\n" for part in parts if part.startswith(f"{name}\n")), "")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ORDER
    sections = [shown(name) if name in wanted else kept(name) for name in ORDER]
    how = "Written by `python docs/make_examples.py`; every example is a file of at most 60 lines."
    intro = f"# Examples and what they print\n\n{how}\n"
    (HERE / "examples.md").write_text("\n".join([intro, *filter(None, sections)]))
