"""Broken files of questions and broken logs, derived from working ones: every key and every column with bad values."""

from __future__ import annotations

from collections.abc import Iterator

from faults.malformed import COLUMNS, LONG, QUESTIONS, ROWS, written

VALUES = ['""', "-1", "1.5", "nan", "inf", "-inf", "1e400", "[]", "{}", "true", "[[1]]", "1979-05-27", '"nosuch"', "[nan]"]
VALUES += ["99999999999999999999", "1" + "0" * 400, '"\\u001b[31m"', '[1, "x"]', "{nosuch = 1}"]
GOOD = {  # values of the list above that a key takes
    "discount": ("[nan]",),
    "signals.goal": ("-1", "1.5", "99999999999999999999"),
    "goal.info": ('"nosuch"', '""', '"\\u001b[31m"'),
    "questions.name": ('""', '"nosuch"', '"\\u001b[31m"'),
    "questions.weight": ("1.5", "99999999999999999999"),
    "goal.missing": ("-1", "1.5", "99999999999999999999"),
    "goal.size": (),
}


def questions() -> Iterator[tuple[str, str]]:
    """What is broken, and the file."""
    for value in VALUES:
        yield f"discount = {value}", QUESTIONS.replace("discount = 0.9", f"discount = {value}")
        yield f"policies.right = {value}", QUESTIONS.replace("right = {action = 2}", f"right = {value}")
        yield f"signals.goal = {value}", QUESTIONS.replace('goal = "reward"', f"goal = {value}")
        yield f"policies = {value}", f"policies = {value}\n[signals]\ngoal = 'reward'\n"
        yield f"signals = {value}", f"signals = {value}\n[policies]\nrandom = 'uniform'\n"
        yield f"questions = {value}", f"questions = {value}\n{QUESTIONS}"
        for key in ("action", "probabilities", "function", "sb3", "gaussian"):
            yield f"policies.right.{key} = {value}", QUESTIONS.replace("{action = 2}", f"{{{key} = {value}}}")
        yield f"policies.right.sigma = {value}", QUESTIONS.replace("{action = 2}", f"{{gaussian = [0.5], sigma = {value}}}")
        for key in ("info", "function"):
            yield f"signals.goal.{key} = {value}", QUESTIONS.replace('"reward"', f"{{{key} = {value}}}")
        for key in ("index", "size", "missing"):
            yield f"signals.goal.{key} = {value}", QUESTIONS.replace('"reward"', f'{{info = "prob", {key} = {value}}}')
        for key in ("policy", "signal", "discount", "weight", "name"):
            row = {"policy": '"right"', "signal": '"goal"', key: value}
            yield f"questions.{key} = {value}", QUESTIONS + "[[questions]]\n" + "".join(f"{k} = {v}\n" for k, v in row.items())
    yield "cut short", QUESTIONS[:40]
    yield "an unknown key", f"nosuch = 1\n{QUESTIONS}"
    yield "a key twice", f"discount = 0.5\n{QUESTIONS}"
    yield "no policies", "[signals]\ngoal = 'reward'\n"
    yield "no signals", "[policies]\nrandom = 'uniform'\n"
    yield "nested deeply", "discount = " + "[" * 3000 + "]" * 3000
    yield "a long name", QUESTIONS.replace("right =", f"{LONG} =")


def is_good(what: str) -> bool:
    """Whether the file may be accepted, with the action space of a table of four actions."""
    key, _, value = what.partition(" = ")
    taken = {
        "policies.right": (),
        "questions": (),
        "signals": ("{nosuch = 1}",),
        **{f"policies.right.{k}": () for k in ("action", "probabilities", "function", "sb3", "gaussian", "sigma")},
        "signals.goal": GOOD["signals.goal"],
        "signals.goal.info": GOOD["goal.info"],
        "signals.goal.missing": GOOD["goal.missing"],
        "questions.name": GOOD["questions.name"],
        "questions.weight": GOOD["questions.weight"],
        "a long name": ("",),
    }
    return value in taken.get(key, ())


ENTRIES = ["", "nan", "inf", "-1", "1.5", "x", "1e400", "99999999999999999999", "None", "2", "True", "\x1b[31m", LONG]
SURELY_BAD_ENTRIES = {
    "observation": {"", "nan", "inf", "1e400", "99999999999999999999"},
    "action": {"", "nan", "inf", "-1", "1.5", "1e400", "99999999999999999999"},
    "reward": {"nan", "inf", "x", "1e400", "\x1b[31m", LONG},
    "next_observation": {"nan", "inf", "1e400", "99999999999999999999"},
    "terminated": {"", "nan", "inf", "-1", "1.5", "x", "1e400", "None", "2", "99999999999999999999", "\x1b[31m", LONG},
    "truncated": {"nan", "inf", "-1", "1.5", "x", "1e400", "2", "99999999999999999999", "\x1b[31m", LONG},
    "behaviour_prob": {"inf", "-1", "1.5", "x", "1e400", "99999999999999999999", "2", "\x1b[31m", LONG},
    "policy": set(),
}
NEEDED = ("observation", "action", "next_observation", "terminated")


def logs() -> Iterator[tuple[str, str, bool]]:
    """What is broken, the file, and whether it must be refused."""
    for j, column in enumerate(COLUMNS):
        for entry in ENTRIES:
            for rows in ((1,), range(len(ROWS))):
                broken = [[entry if (i in rows and k == j) else x for k, x in enumerate(row)] for i, row in enumerate(ROWS)]
                everywhere = len(rows) > 1
                surely = entry in SURELY_BAD_ENTRIES[column] and not (everywhere and entry in ("", "nan", "None"))
                where = "in every line" if everywhere else "in line 3"
                yield f"{column} {entry[:20]!r} {where}", written(COLUMNS, broken), surely
        left = [[x for k, x in enumerate(row) if k != j] for row in ROWS]
        names = [name for name in COLUMNS if name != column]
        yield f"without {column}", written(names, left), column in NEEDED
        yield f"{column} twice", written([*COLUMNS, column], [[*row, row[j]] for row in ROWS]), False
        yield f"{column} misspelt", written([c[::-1] if c == column else c for c in COLUMNS], ROWS), column in NEEDED
    whole = written(COLUMNS, ROWS)
    yield "a line too short", whole + "1,2\n", True
    yield "a line too long", whole + "1," * 20 + "\n", True
    yield "no lines", written(COLUMNS, []), True
    yield "no names", written([], ROWS), True
    yield "one line", written(COLUMNS, ROWS[:1]), False
    yield "quotes that do not end", whole + '"', True
    yield "NUL", whole.replace("random", "\x00"), False
    yield "other bytes", whole.replace("random", "\udcff"), True
    yield "only newlines", "\n" * 50, True
