"""Every numbered equation of the paper that gvfx implements has its label on an implementing line of the sources."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import gvfx

SOURCE = Path(gvfx.__file__).parents[1]

NUMBERS = {  # of all labelled equations of the paper
    "eq:mse": 1,
    "eq:lagrangian": 2,
    "eq:behavior_update": 3,
    "eq:var_s_a": 4,
    "eq:sarsa-q-update": 5,
    "eq:sarsa-m-update": 6,
    "eq:lag": 7,
    "eq:inter_lag": 8,
    "eq:inter_inter_lag": 9,
    "eq:behv_update_min": 10,
    "eq:behv_update_min_2": 11,
    "eq:M_exists": 13,
    "eq:target_policies": 14,
    "eq:target_policies_semi_greedy": 15,
}
PROOFS = {"eq:lag", "eq:inter_lag", "eq:inter_inter_lag", "eq:behv_update_min", "eq:behv_update_min_2"}
UNNUMBERED = {"eq:target_policies_distinct_GVFs", "algo:sac_gvf"}  # labels without an equation number

LABELS_OF = {  # the functions of gvfx.theory.equations, and the labels that their callers may carry
    "q_target": ("eq:sarsa-q-update", "algo:sac_gvf"),
    "m_target": ("eq:sarsa-m-update", "algo:sac_gvf"),
    "m_target_sampled": ("eq:var_s_a",),
    "explorer_square": ("eq:behavior_update",),
    "squared_error": ("eq:mse",),
}
CLOSED_FORMS = ("eq:lagrangian", "eq:behavior_update", "eq:var_s_a", "eq:sarsa-q-update", "eq:sarsa-m-update", "eq:M_exists")
OWN = re.compile(r"\(([A-Z]\d+)\)\s*(?:#\s*)?\$\$")  # the label of an equation of gvfx's own, at the end of its formula
ALGORITHMS = ("gvfx/behaviours", "gvfx/learners", "gvfx/theory", "gvfx_paper/truths")


@cache
def labels(path: Path) -> tuple[tuple[int, str, str], ...]:
    """(line, label, the words before it) of the comments behind code: comments on lines of their own do not count."""
    code, comments = set(), []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string))
        elif token.string.strip():
            code.add(token.start[0])
    found = [
        (line, m) for line, text in comments if line in code for m in re.finditer(r"([\w. ]*) \(((?:eq|algo):[\w-]+)\)", text)
    ]
    return tuple((line, m[2], m[1].strip()) for line, m in found)


def calls(path: Path) -> list[tuple[range, str]]:
    """(lines of the innermost function around it, name) of every call of an equation's function."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LABELS_OF:
            spans = [range(f.lineno, f.end_lineno + 1) for f in functions if f.lineno <= node.lineno <= f.end_lineno]
            out.append((min(spans, key=len), node.func.id))
    return out


SOURCES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("label", sorted({*NUMBERS, *UNNUMBERED} - PROOFS))
def test_the_equation_has_an_implementing_line(label):
    assert any(found == label for path in SOURCES for _, found, _ in labels(path))


def test_the_closed_forms_carry_their_labels():
    assert set(CLOSED_FORMS) <= {label for _, label, _ in labels(SOURCE / "gvfx" / "theory" / "exact.py")}


def test_labels_are_those_of_the_paper_and_numbers_are_right():
    for path in SOURCES:
        for line, label, words in labels(path):
            assert label in NUMBERS or label in UNNUMBERED, (path, line, label)
            if label in NUMBERS:
                assert words.endswith(f"Eq. {NUMBERS[label]}"), (path, line, words)


@pytest.mark.parametrize("name", LABELS_OF)
def test_the_function_of_an_equation_carries_its_label(name):
    path = SOURCE / "gvfx" / "theory" / "equations.py"
    (function,) = (f for f in ast.parse(path.read_text()).body if isinstance(f, ast.FunctionDef) and f.name == name)
    lines = range(function.lineno, function.end_lineno + 1)
    assert [label for line, label, _ in labels(path) if line in lines] == [LABELS_OF[name][0]]


ALGORITHM_FILES = [p for room in ALGORITHMS for p in sorted((SOURCE / room).rglob("*.py"))] + [SOURCE / "gvfx_paper/authors.py"]


@pytest.mark.parametrize("path", ALGORITHM_FILES, ids=lambda p: p.stem)
def test_every_use_of_an_equation_carries_its_label(path):
    for (lines, name), count in Counter(calls(path)).items():
        carried = [line for line, label, _ in labels(path) if line in lines and label in LABELS_OF[name]]
        assert len(carried) >= count, f"{path}: {name} in lines {lines.start} to {lines.stop - 1} lacks {LABELS_OF[name][0]}"


def test_every_equation_of_gvfx_has_a_label_of_its_own():
    texts = [path.read_text() for path in SOURCES]
    defined = [label for text in texts for label in OWN.findall(text)]
    assert len(defined) > 10 and len(set(defined)) == len(defined)
    assert {label for text in texts for label in re.findall(r"Eq\. ([A-Z]\d+)", text)} <= {*defined}
