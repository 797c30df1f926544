"""Write docs/examples.md: every example with its output.  Run it with `python docs/make_examples.py`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ORDER = (
    "frozen_lake",
    "which_policy",
    "taxi",
    "cartpole",
    "continuous_log",
    "sb3/cartpole",
    "recommender",
    "robot",
    "pendulum",
    "unknown_targets",
    "scales",
    "two_questions",
    "own_behaviour",
    "own_learner",
    "own_intervals",
    "own_world",
    "own_figure",
)


def shown(name: str) -> str:
    """The section of one example: the first line of its docstring, a link to its source, and its output."""
    path = HERE.parent / "examples" / f"{name}.py"
    source = path.read_text()
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    if run.returncode:
        missing = run.stderr.splitlines()[-1]
        print(f"{name}: section unchanged ({missing})")
        return kept(name)
    print(f"{name}: {len(run.stdout.splitlines())} lines")
    title = (ast.get_docstring(ast.parse(source)) or name).splitlines()[0]
    return f"## {name}\n\n{title} [Source](../examples/{name}.py).\n\n```\n{run.stdout.rstrip()}\n```\n"


def kept(name: str) -> str:
    """The section that the page has now; an output may have headings of its own."""
    headings = "|".join(map(re.escape, ORDER))
    parts = re.split(rf"^## (?=(?:{headings})$)", (HERE / "examples.md").read_text(), flags=re.MULTILINE)
    return next((f"## {part.rstrip()}\n" for part in parts if part.startswith(f"{name}\n")), "")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ORDER
    sections = [shown(name) if name in wanted else kept(name) for name in ORDER]
    how = "Written by `python docs/make_examples.py`. Every example is a file of at most 95 lines."
    intro = f"# Examples and their output\n\n{how}\n"
    (HERE / "examples.md").write_text("\n".join([intro, *filter(None, sections)]))
