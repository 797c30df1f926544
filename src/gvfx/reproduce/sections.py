"""The sections of the report in their order; every item names the one it stands in."""

from __future__ import annotations

from gvfx.report.page import Section
from gvfx.reproduce.curves import TUNING_STEPS

WINNERS = Section(
    "section-summary-tables",
    "Who wins",
    "Error at the end of each setting: as the paper prints it, and ours in both presets.",
)
CURVES = Section(
    "section-curves",
    "Learning curves",
    "Mean over seeds with a bootstrap 95 % band. Click a method to hide it; hover or use the arrow keys for values.",
)
MAPS = Section(
    "section-maps",
    "Where the error lies, and where the behaviours go",
    "Move the slider to see how learning proceeds.",
)
EACH = Section(
    "section-each",
    "Each question on its own",
    "The two GVFs of a setting, shown separately.",
)
TUNING = Section(
    "section-tuning",
    "Learning rates",
    f"One protocol for every method: the minimum learning rate with the lowest error after {TUNING_STEPS:,} steps.",
)
NETWORKS = Section(
    "section-continuous",
    "Networks on the continuous grid",
    "Q and M are networks with one head per GVF, learned from uniform replay and from prioritised replay (PER).",
)
MUJOCO = Section(
    "section-control",
    "Continuous actions: Walker and Cheetah",
    "Twin Q and M critics and a learned behaviour (Algorithm 2), measured against Monte Carlo values at 50 points.",
)
LIMIT = Section(
    "section-limit",
    "How close to the limit",
    "MSE times steps, divided by that of the best possible behaviour, for each behaviour and learner; 1 is the limit.",
)
ABLATIONS = Section(
    "section-ablations",
    "Ablations",
    "What happens when one thing is changed.",
)
SECTIONS = (WINNERS, CURVES, MAPS, EACH, TUNING, NETWORKS, MUJOCO, LIMIT, ABLATIONS)
