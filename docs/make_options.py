"""Writes docs/options.md: which option works with which kind of learner, and why not where it does not.

Run it with `python docs/make_options.py`.  `tests/running/test_options_matrix.py` runs every combination of the same table.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("options.md")
KINDS = {  # of learning, with what it is for
    "finite": "finite worlds: `gvfx.MDP`, grid worlds, environments that show their table",
    "tables": "counts in an environment with Discrete observations (`CertaintyEquivalence`)",
    "updates": "one-step updates of tables (`ExpectedSarsa`)",
    "numbered": "tables of observations of a few whole numbers, numbered as they are met",
    "linear": "linear features (`LinearCertaintyEquivalence`)",
    "networks": "networks (`Deep`)",
    "critics": "Box actions (`TwinCritics`)",
    "rollouts": "whole episodes of the policies, nothing learned (`Rollouts`)",
}
OPTIONS = {  # with how they are written
    "start": '`where="start"`',
    "states": "`where=[observation]`",
    "audit": "`audit=0.3`",
    "log": "`log=`",
    "calibrate": "`calibrate=True`",
    "own": "`own_greedy`",
    "until": "`until=`",
    "decided": "`until=` at the start",
    "checkpoint": "`checkpoint=`",
    "vector": "vector environment",
    "workers": "`workers=2`",
}
STEPPED = "the seeds step the one environment that is given, in turn"
MAXIMUM = "the maximum over fitted answers is biased towards errors, and its policy changes with them"
EVERYWHERE = "without `where` it bounds the error everywhere; the spread of networks is no such bound"
FITTED = "one network answers everywhere; its loss has no weights by observation that a design could lower"
REFUSED = {  # the beginning of the sentence, and the reason
    ("updates", "until"): ("until: the error of this learner", "updates keep no counts, so that nothing says how far they are"),
    ("networks", "until"): ("until: the error of this learner", EVERYWHERE),
    ("critics", "until"): ("until: the error of this learner", EVERYWHERE),
    ("networks", "states"): ("where: networks learn everywhere", FITTED),
    ("critics", "states"): ("where: networks learn everywhere", FITTED),
    ("linear", "own"): ("policy: own_greedy and own_softmax need Discrete", MAXIMUM),
    ("networks", "own"): ("policy: own_greedy and own_softmax need Discrete", MAXIMUM),
    ("critics", "own"): (".*policy: ", "there is no maximum over a continuum of actions"),
    ("rollouts", "states"): ("where: rollouts have values at the start alone", "episodes begin where the environment resets"),
    ("rollouts", "audit"): ("learner: rollouts take no log", "every episode is one already"),
    ("rollouts", "log"): ("learner: rollouts take no log", "returns of other policies say nothing without a model"),
    ("rollouts", "calibrate"): ("learner: rollouts take no log", "nothing is weighed: every policy's returns are their own"),
    ("rollouts", "own"): (".*policy: ", "a policy that is found needs answers that are learned"),
    ("rollouts", "vector"): ("world: rollouts step plain", "lanes whose episodes end first would count more often"),
    ("finite", "vector"): (None, "its loop is compiled, without an environment"),
} | {
    (kind, "workers"): ("workers: must be 1", STEPPED)
    for kind in ("tables", "updates", "numbered", "linear", "networks", "critics", "rollouts")
}
HEAD = """# Which options work where

Every option of `gvfx.evaluate` works with every kind of learner, or is refused before the first step with one sentence, for a
reason that is mathematical. A test runs every combination of this table.

"""


def page() -> str:
    """The page."""
    reasons: dict[str, int] = {}
    lines = [["", *OPTIONS.values()], ["---", *(":-:" for _ in OPTIONS)]]
    for kind in KINDS:
        cells = []
        for option in OPTIONS:
            if (kind, option) not in REFUSED:
                cells.append("yes")
                continue
            number = reasons.setdefault(REFUSED[kind, option][1], len(reasons) + 1)
            cells.append(f"no ({number})")
        lines.append([kind, *cells])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    kinds = "".join(f"- **{kind}**: {what}.\n" for kind, what in KINDS.items())
    why = "".join(f"{number}. {reason[0].upper()}{reason[1:]}.\n" for reason, number in reasons.items())
    return f"{HEAD}{table}\n{kinds}\n**Why not:**\n\n{why}"


if __name__ == "__main__":
    PAGE.write_text(page())
