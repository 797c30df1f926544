"""What users give, checked by declared types: one sentence that names the field."""

from __future__ import annotations

import dataclasses
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

import gvfx
from gvfx.errors import error_text
from gvfx.inputs import as_array, check_allowed, checked, is_real, listed, shown, unfit, whole
from gvfx.names import public_classes


@pytest.mark.parametrize(
    ("value", "declared", "fits"),
    [
        (1, "float", True),
        (np.float32(0.5), "float", True),
        (float("inf"), "float", True),
        (float("nan"), "float", False),
        (10**400, "float", False),
        ("1", "float", False),
        (None, "float | None", True),
        (5.0, "int", True),
        (5.5, "int", False),
        (2**63, "int", False),
        (True, "int", False),
        (np.True_, "bool", True),
        (1, "bool", False),
        ("a", "Literal['a', 'b']", True),
        ("c", "Literal['a', 'b']", False),
        (np.zeros(2), "Literal['a', 'b'] | None", False),
        ((64, 64), "tuple[int, ...]", True),
        ((64, 0), "tuple[int, ...]", False),
        (["a"], "Sequence[str] | None", True),
        ("a", "Sequence[str] | None", False),
        ([[1], [1, 2]], "np.ndarray", False),
        ([1.0, float("nan")], "np.ndarray", False),
        (object(), "Environment | str", True),  # not known here
    ],
)
def test_declared_types(value, declared, fits):
    assert (unfit(value, declared) == "") == fits


def test_a_checked_function_names_the_argument():
    @checked
    def half(x: float, name: str = "") -> float:
        return x / 2

    assert half(4) == 2
    with pytest.raises(gvfx.InputError, match=r"x: 'four' does not fit; give a number\."):
        half("four")
    with pytest.raises(TypeError):
        half(4, other=1)


@pytest.mark.parametrize("value", [2**63, 10**400, 1.5, float("nan"), float("inf"), "1", None, True])
def test_counts_that_are_none(value):
    with pytest.raises(gvfx.InputError, match="^n: "):
        whole(value, "n")


def test_a_count_has_a_largest_value():
    assert whole(100, "n", most=100) == 100
    with pytest.raises(gvfx.InputError, match="n: 101 is too large; give at most 100"):
        whole(101, "n", most=100)


def test_huge_integers_are_not_real():
    assert not is_real(10**400)
    assert len(shown(np.ones((9, 9)))) <= 40 and "\n" not in shown(np.ones((9, 9)))


@pytest.mark.parametrize("value", [np.array(0.5), {}, b"x", "x", 5])
def test_what_is_no_list(value):
    with pytest.raises(gvfx.InputError, match="^questions: "):
        listed(value, "questions", "GVFs")


@pytest.mark.parametrize(
    ("value", "dtype"), [("x", float), ([[1], [1, 2]], float), ([1.5], int), ([2], bool), ([None], float), ([10**400], float)]
)
def test_what_is_no_array(value, dtype):
    with pytest.raises(gvfx.InputError, match="^P: "):
        as_array(value, "P", dtype)


def test_errors_are_said_in_one_line():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert error_text(ValueError("a\n  b")) == "ValueError: a b"
    assert error_text(Silent()) == "Silent"
    assert len(error_text(ValueError("x" * 10_000))) < 400


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: gvfx.Actor(alpha="x"), "alpha"),
        (lambda: gvfx.SuccessorRepresentation(choice=np.zeros(3)), "choice"),
        (lambda: gvfx.Floor(gvfx.Uniform), "behaviour"),
        (lambda: gvfx.Deep(hidden="x"), "hidden"),
        (lambda: gvfx.BehaviourPolicySearch(scale=None), "scale"),
        (lambda: gvfx.Geometric(start="x"), "start"),
        (lambda: gvfx.ExpectedSarsa(initial_q=10**400), "initial_q"),
        (lambda: gvfx.Info(5), "key"),
        (lambda: gvfx.Signal(None), "name"),
        (lambda: gvfx.Audit(ranges=[1]), "ranges"),
        (lambda: gvfx.error_below(0.1, each="x"), "each"),
        (lambda: gvfx.decided(best=3), "best"),
        (lambda: gvfx.GVF(int, 1.0), "policy"),
        (lambda: gvfx.GVF([1.0], 10**400), "cumulant"),
        (lambda: gvfx.Constant(10**400), "value"),
        (lambda: gvfx.gridworld(10**9), "size"),
        (lambda: gvfx.gridworld((3, "x")), "size"),
        (lambda: gvfx.gridworld(3, walls=5), "walls"),
        (lambda: gvfx.gridworld(3, goals={"a": 5}), "goals"),
        (lambda: gvfx.gridworld(3, slip="x"), "slip"),
        (lambda: gvfx.gridworld(3, horizon="x"), "horizon"),
        (lambda: gvfx.MDP("x", [[[1.0]]], [1.0], [False]), "next"),
        (lambda: gvfx.MDP.from_matrix([[["x"]]]), "P"),
        (lambda: gvfx.MDP.from_matrix([[[1.0]]], terminal=[2]), "terminal"),
        (lambda: gvfx.MDP.from_matrix([[[1.0]]], reward=[1.0]), "reward"),
        (lambda: gvfx.MDP.from_matrix([[[1.0]]], features=[2**30]), "features"),
        (lambda: gvfx.exact.values("x", []), "world"),
        (lambda: gvfx.gaussian_policy("x", 0.1), "middle"),
        (lambda: gvfx.actions_of(5), "env"),
    ],
)
def test_parts_and_worlds_name_the_field(make, named):
    with pytest.raises(gvfx.InputError, match=named):
        make()


@pytest.mark.parametrize(
    ("interval", "value", "fits"),
    [
        ("[0, 1)", 0, True),
        ("[0, 1)", 1.0, False),
        ("(0, 1]", 0.0, False),
        ("(0, 1]", 1, True),
        ("(0, inf)", math.inf, False),
        ("(0, inf]", math.inf, True),
        ("[1, inf)", np.int64(1), True),
        ("[0, 1]", math.nan, False),
        ("[0, 1]", None, True),  # only numbers have a range
    ],
)
def test_ranges_are_intervals(interval, value, fits):
    part = SimpleNamespace(share=value, allowed={"share": interval})
    if fits:
        check_allowed(part)
    else:
        with pytest.raises(
            gvfx.InputError, match=f"^share: {value!r} lies outside {re.escape(interval)}; give a number within it"
        ):
            check_allowed(part)


def test_every_range_names_fields_of_its_class():
    for base in (gvfx.Behaviour, gvfx.Learner):
        for kind in public_classes(base).values():
            fields = {f.name for f in dataclasses.fields(kind)}
            assert {name for names in kind.allowed for name in names.split()} <= fields, kind
