"""Bad values for options and arguments, and broken files: what the groups of command lines are made of."""

from __future__ import annotations

LONG = "x" * 5000
HUGE = str(10**400)
CONTROL = "a\x1b[31m\x07\r\tb"
UNICODE = "π‮\u200b🦊"
NO_NUMBERS = ["many", "1,5", "0x10", "--", "1 2", "½", "²", "nan", CONTROL, UNICODE, LONG]
NO_COUNTS = [*NO_NUMBERS, "1.5", "inf", "-inf", "-1", "-1e9", str(10**20), HUGE, "1e308", "1e400"]
TOO_HIGH_OR_LOW = [*NO_NUMBERS, "-1", "0", "inf", "-inf", "1e400", "-1e308", HUGE]
NO_NAMES = ["nosuch", CONTROL, UNICODE, LONG, "0", "None", "../..", "[bold]x[/]", "a,b", "*"]
NO_PATHS = [LONG, "a/" * 3000 + "b", "/proc/nope/a", "/dev/null/a", "folder", "file/below", "/dev/full", "pipe", "loop"]

# surely bad for every parameter of this kind; the kinds themselves are named in `command_lines.KINDS`
SURELY_BAD = {
    "count": ["0", *NO_COUNTS],
    "count from 0": NO_COUNTS,
    "seeds": ["0", "10000000", *NO_COUNTS],
    "seed": [*NO_NUMBERS, "1.5", "inf", "-1", str(2**63), str(10**20), HUGE, "1e308"],
    "positive": TOO_HIGH_OR_LOW,
    "rate": ["1.5", "1e308", *TOO_HIGH_OR_LOW],
    "share": [*NO_NUMBERS, "-0.1", "1", "1.5", "inf", "1e308", HUGE],
    "until": [*NO_NUMBERS, "0", "-1", "inf", "decided:x", "decided:-1", "decided:nan", "decide"],
    "name": NO_NAMES,
    "item": NO_NAMES,
    "where": ["nosuch", "-1", "1.5", "1,", ",", "1,2,99999", "²", HUGE, LONG, CONTROL, UNICODE, "nan"],
    "target": [
        "nosuch",
        "nosuch:make",
        "nosuch.py:make",
        "pond.py:nosuch",
        "pipe.py:make",
        "pond.py:",
        ":make",
        "pond.py:make:make",
        "pond:make()",
        "folder:make",
        "folder",
        "/dev/null:make",
        "FrozenLake-v999",
        "Nosuch-v1",
        "module:FrozenLake-v1",
        "../pond",
        "..:make",
        "a..b:make",
        "os:sep",
        "os:getcwd",
        "gvfx:Uniform",
        "gvfx:nosuch",
        "sys:exit",
        "questions.toml:make",
        CONTROL,
        UNICODE,
        LONG,
        f"{LONG}.py:make",
    ],
    "questions": [
        "nosuch.toml",
        "pipe",
        "/dev/zero",
        "folder",
        "pond.py",
        "log.csv",
        "/dev/null/x",
        "loop",
        "empty",
        "bytes",
        LONG,
        CONTROL,
    ],
    "log": [
        "nosuch.csv",
        "pipe.csv",
        "/dev/zero",
        "folder",
        "folder.csv",
        "pond.py",
        "empty.csv",
        "bytes.csv",
        "loop.csv",
        "bytes.parquet",
        LONG,
    ],
    "output file": [*NO_PATHS, "folder/"],
    "output folder": [path for path in NO_PATHS if path != "folder"] + ["file"],
    "stored runs": ["file", "/dev/full", LONG, "file/below", "loop"],
    "new file": ["pond.py", "nosuch.txt", "folder", "/proc/nope/a.py", f"{LONG}.py", "loop/a.py", "file/a.py"],
    "page of": [
        "nosuch",
        "pipe",
        "/dev/zero",
        "nosuch.gvfx",
        "file",
        "bytes",
        "empty",
        "loop",
        "questions.toml",
        "log.csv",
        "pond.py:nosuch",
        LONG,
    ],
    "tracker": ["folder", "/proc/nope/a", "/dev/null/a", "file/below", "loop", LONG, "tensorboard:", "wandb:"],
    "cluster": ["nosuch", "tcp://", "localhost:99999", "tcp://localhost:99999", "tcp://localhost:x", "tcp://:0", "://", CONTROL],
    "device": ["nosuch", "cpu0", "-1", CONTROL, LONG],
    "flag": [],
}
# may be taken or refused, but never in another way
MAYBE_BAD = {
    "count": ["1", "+7", " 5 ", "2e0", "٣", "007"],
    "seed": ["0", str(2**63 - 1), "+3"],
    "positive": ["1e-308", "1e308", "5e-324"],
    "rate": ["1", "1e-300"],
    "share": ["0", "1e-300", "0.999999"],
    "until": ["1e-300", "1e308", "decided", "decided:0", "decided:1e300"],
    "where": ["start", "0", "0,1", "0,0", "start,1", " 1 "],
    "output file": ["new.x", "new/deep/x", CONTROL, UNICODE, "-", ".", "..", "link", "[bold]x", "~/../x", "--x", "x" * 250],
    "output folder": ["new", "new/deep", CONTROL, UNICODE, ".", "link-folder"],
    "tracker": ["new.jsonl", "new/deep.jsonl", CONTROL, UNICODE, "nosuch:x", "link", "/dev/null"],
    "new file": ["new.py", "new/deep.toml", f"{CONTROL}.py", f"{UNICODE}.toml"],
}

POND = """
import gymnasium as gym
import gvfx

def act(state):
    return [0.25, 0.25, 0.25, 0.25]

questions = [gvfx.GVF(act, gvfx.Reward(), 0.9, name="goal")]

def make():
    return gym.make("FrozenLake-v1"), questions
"""
QUESTIONS = """
discount = 0.9
[policies]
random = "uniform"
right = {action = 2}
[signals]
goal = "reward"
time = 1
"""
COLUMNS = ["observation", "action", "reward", "next_observation", "terminated", "truncated", "behaviour_prob", "policy"]
ROWS = [
    ["0", "1", "0.0", "1", "False", "False", "0.5", "random"],
    ["1", "2", "0.5", "2", "False", "False", "0.5", "random"],
    ["2", "0", "1.0", "3", "True", "False", "0.5", "random"],
    ["0", "2", "0.0", "2", "False", "False", "0.25", "random"],
    ["2", "1", "1.0", "3", "True", "False", "0.25", "random"],
]


def written(columns: list[str], rows: list[list[str]]) -> str:
    """A CSV file."""
    return "\n".join(",".join(line) for line in [columns, *rows]) + "\n"


BODIES = {  # of a function that should return an environment and questions
    "raises": 'raise RuntimeError("no motor")',
    "raises with lines": 'raise RuntimeError("no\\n\\x1b[31mmotor\\r")',
    "raises a bell": 'raise ValueError("\\x07" * 9)',
    "an error without text": "raise KeyError",
    "an error that cannot be told": 'class Odd(Exception):\n        def __str__(self): raise ValueError("x")\n    raise Odd()',
    "asserts": "assert False",
    "exits": "import sys; sys.exit()",
    "exits with 0": "import sys; sys.exit(0)",
    "exits with text": 'import sys; sys.exit("gone")',
    "recurses": "return make()",
    "out of memory": "raise MemoryError",
    "a missing name": "return nosuch",
    "a missing module": "import nosuch_module",
    "nothing": "return None",
    "a number": "return 3",
    "text": 'return "FrozenLake-v1"',
    "a class": "return gym.Env, questions",
    "an environment that is none": "return object(), questions",
    "one in a list": 'return [gym.make("FrozenLake-v1")]',
    "three values": 'return gym.make("FrozenLake-v1"), questions, 3',
    "the wrong way round": 'return questions, gym.make("FrozenLake-v1")',
    "a generator": 'yield gym.make("FrozenLake-v1")',
    "no questions": 'return gym.make("FrozenLake-v1"), []',
    "questions that are none": 'return gym.make("FrozenLake-v1"), [3]',
    "questions as text": 'return gym.make("FrozenLake-v1"), "goal"',
    "questions as a number": 'return gym.make("FrozenLake-v1"), 3',
    "questions of None": 'return gym.make("FrozenLake-v1"), [None]',
    "equal names": 'return gym.make("FrozenLake-v1"), questions * 2',
    "a policy that raises": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(lambda s: 1 / 0, gvfx.Reward(), 0.9)]',
    "a policy of text": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(lambda s: "up", gvfx.Reward(), 0.9)]',
    "a policy of three": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(lambda s: [0.5, 0.5, 0.0], gvfx.Reward(), 0.9)]',
    "a policy that is negative": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(lambda s: [2, -1, 0, 0], gvfx.Reward(), 0.9)]',
    "a policy of NaN": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(lambda s: [float("nan")] * 4, gvfx.Reward(), 0.9)]',
    "a signal that raises": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, lambda s, a, n: 1 / 0, 0.9)]',
    "a signal of text": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, lambda s, a, n: "x", 0.9)]',
    "a signal of NaN": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, lambda s, a, n: float("nan"), 0.9)]',
    "a signal of None": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, lambda s, a, n: None, 0.9)]',
    "a signal without arguments": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, lambda: 1.0, 0.9)]',
    "a discount above 1": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 1.5)]',
    "a discount of text": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), "x")]',
    "a name that is none": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 0.9, name=5)]',
    "a weight below 0": 'return gym.make("FrozenLake-v1"), [gvfx.GVF(act, gvfx.Reward(), 0.9, weight=-1)]',
}
SOURCES = {  # whole files in the place of pond.py
    "a syntax error": "def make(:\n",
    "tabs and blanks": "def make():\n\tif 1:\n        return 1\n",
    "empty": "",
    "not Python": "\x00\x01\x02",
    "other bytes": "# \udcff\n" + POND,
    "raises when imported": 'raise RuntimeError("no motor")\n',
    "exits when imported": "import sys; sys.exit(3)\n",
    "make is a number": POND + "\nmake = 3\n",
    "make needs arguments": POND + "\ndef make(a, b): return a\n",
    "make is a class": POND + "\nclass make:\n    pass\n",
    "make is a coroutine": POND + "\nasync def make(): return 1\n",
    "questions beside it are none": POND.replace("questions = [", "questions = 3 # [").replace(", questions\n", "\n"),
    "questions beside it raise": POND.replace(", questions\n", "\n") + "\ndef questions(): raise ValueError('x')\n",
    "questions beside it need arguments": POND.replace(", questions\n", "\n") + "\ndef questions(x): return []\n",
    "imports itself": "import pond\n" + POND.replace("import gvfx", "import gvfx, pond; pond.nosuch"),
}
PRINTING = POND.replace('    return gym.make("Fr', '    print("\\x1b[31mhello")\n    return gym.make("Fr')  # works, and prints
