"""Write the pinned versions of constraints.txt: python tools/constraints.py [--check] [PYTHON]

PYTHON is the interpreter of an environment in which gvfx and its extras are installed (default: this one); every package in it
is pinned, those that others need included.  `make constraints` makes such an environment with the newest versions that
pyproject.toml allows and writes the file.  With --check nothing is written: the exit code is 1 if an installed version is not
the pinned one.  Only names and versions are recorded.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints.txt"
TOOLS = ("gvfx", "pip", "setuptools", "wheel")  # the package itself, and what every environment brings


def canonical(name: str) -> str:
    """A package's name as package indices compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def installed(python: str) -> dict[str, str]:
    """The versions of an environment's packages by name."""
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    found = {canonical(entry["name"]): entry["version"] for entry in json.loads(listed)}
    return {name: found[name] for name in sorted(found) if name not in TOOLS}


def pinned() -> dict[str, str]:
    """The versions in constraints.txt by name."""
    lines = [line.partition("#")[0].strip() for line in FILE.read_text().splitlines()]
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def main(arguments: list[str]) -> int:
    others = [a for a in arguments if a != "--check"]
    found = installed(others[0] if others else sys.executable)
    if "--check" in arguments:
        pins = pinned()
        wrong = [
            f"{name}: {version} is installed, {pins.get(name, 'nothing')} is pinned"
            for name, version in found.items()
            if pins.get(name) != version
        ]
        print("\n".join(wrong) or f"all {len(found)} packages have their pinned versions")
        return 1 if wrong else 0
    FILE.write_text("".join(f"{name}=={version}\n" for name, version in found.items()))
    print(f"pinned {len(found)} packages in {FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
