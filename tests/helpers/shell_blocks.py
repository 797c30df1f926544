"""The shell blocks of the documentation: their commands, which of them are short, and the files that they read."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from string import Template

import gvfx
from helpers.blocks import Block, blocks, pages
from helpers.command_line import invoke

SHELL = [b for page in pages() for b in blocks(page) if b.language == "sh"]
FEWER = {  # command: options that make it short; they are appended, and the last one counts
    "run": "--steps 2000 --seeds 1 --evaluate-every 1000 --workers 1",
    "evaluate": "--steps 2000",
    "plan": "--pilot 0",
    "truth": "--max-episodes 50",
    "check": "",
    "init": "",
    "list": "",
    "log": "",
    "report": "",
    "cache": "",
}
LONG = ("continuous", "walker", "cheetah", "demo", "bench", "sweep", "reproduce", "--install-completion", "--pilot", "results")
READS_PARQUET = any(find_spec(name) for name in ("polars", "pyarrow", "pandas"))


def commands(block: Block) -> list[str]:
    """The lines of a shell block without comments."""
    lines = re.sub(r"\\\n\s*", " ", block.code).splitlines()
    given: dict[str, str] = {}
    found = []
    for line in lines:
        words = [Template(word).safe_substitute(given) for word in shlex.split(line, comments=True)]
        if len(words) == 1 and (named := re.fullmatch(r"(\w+)=(.*)", words[0])):
            given[named[1]] = named[2]  # a variable of the shell
        elif words:
            found.append(" ".join(words))
    return found


def is_short(arguments: list[str]) -> bool:
    """Whether a command of gvfx is run among the fast tests, with the options of FEWER."""
    unread = any(word.endswith(".parquet") for word in arguments) and not READS_PARQUET
    return arguments[0] in FEWER and not set(arguments) & set(LONG) and not unread


def make_what_is_named(code: str) -> None:
    """Write the files that commands read and do not make themselves."""
    for file in ("my_questions.py", "my_module.py", "questions.toml"):
        if (file in code or f"{Path(file).stem}:make" in code) and f"init {file}" not in code:
            assert invoke("init", file).exit_code == 0
    if "report answers.gvfx" in code and "--save answers.gvfx" not in code:
        gvfx.evaluate("FrozenLake-v1", [gvfx.GVF(gvfx.uniform_policy(), gvfx.Reward(), 0.95)], steps=1_000, save="answers.gvfx")
    if "runs.csv" in code or "runs.parquet" in code:
        rows = ["observation,action,next_observation,terminated,reward", *(f"{s},{s % 4},{s + 1},false,0" for s in range(14))]
        Path("runs.csv").write_text("\n".join(rows) + "\n")
    if "runs.parquet" in code and READS_PARQUET:
        import pandas

        pandas.read_csv("runs.csv").to_parquet("runs.parquet")
