"""What a run is given by default, and the sentences that refuse what does not fit."""

from __future__ import annotations

import pytest

import gvfx
import gvfx_paper
from gvfx.kernel import KINDS
from gvfx.names import kinds_of, public_classes
from gvfx.running.backends import RUNS, choose_method
from gvfx_paper.loops.opening import GRID, MUJOCO

QUESTIONS = [gvfx.GVF([0.5, 0.5], 1.0)]


@pytest.mark.parametrize(
    ("kind", "behaviour", "learner"),
    [
        ("tables", gvfx.OptimalDesign(), gvfx.CertaintyEquivalence()),
        (
            "networks",
            gvfx.Blend(gvfx.GVFExplorer(), gvfx.Uniform(), 0.5),
            gvfx.Deep(3e-3, 3e-3, m_every=16, final_rate=0.03, capacity=2512, learning_starts=250, heads=5),
        ),
        ("box_actions", gvfx.Hold(gvfx.GVFExplorer()), gvfx.TwinCritics(refresh_every=4, capacity=2512, learning_starts=250)),
        (GRID, gvfx.GVFExplorer(), gvfx.Deep()),
        (MUJOCO, gvfx.Hold(gvfx.Mixture()), gvfx.TwinCritics(m_every=2)),
    ],
)
def test_defaults(kind, behaviour, learner):
    assert choose_method(kind, QUESTIONS, None, None, 2500) == (behaviour, learner)


def test_long_runs_keep_at_most_200_000_transitions():
    assert choose_method("networks", QUESTIONS, None, None, 10**6)[1].capacity == 200_000
    assert choose_method("box_actions", QUESTIONS, None, None, 10**6)[1].capacity == 200_000


def test_tables_forget_where_a_cumulant_drifts():
    drifting = [*QUESTIONS, gvfx.GVF([0.5, 0.5], gvfx.Drifter(0.5, 100), name="drifter")]
    assert choose_method("tables", drifting, None, None, 100)[1] == gvfx.CertaintyEquivalence(forgetting="auto")


def test_what_is_given_and_fits_is_kept():
    given = gvfx.Floor(gvfx.GVFExplorer()), gvfx.Deep(hidden=(8,))
    assert choose_method(GRID, QUESTIONS, *given, 100) == given


@pytest.mark.parametrize("kind", RUNS)
def test_every_public_class_is_taken_or_refused_with_names_that_fit(kind):
    for field, base in (("behaviour", gvfx.Behaviour), ("learner", gvfx.Learner)):
        for name, cls in public_classes(base).items():
            given = {gvfx.Follow: ([0.5, 0.5],), gvfx.Blend: (gvfx.Uniform(), gvfx.Mixture())}.get(cls)
            wraps = (gvfx.Uniform(),) if cls in (gvfx.Alternate, gvfx.Epsilon, gvfx.Floor, gvfx.Hold) else ()
            made = cls(*(given or wraps))
            parts = {"behaviour": None, "learner": None, field: made}
            if RUNS[kind].supports in kinds_of(cls):
                assert made in choose_method(kind, QUESTIONS, **parts, steps=100)
            else:
                with pytest.raises(gvfx.InputError, match=rf"^{field}: {name}.* gvfx\.\w+"):
                    choose_method(kind, QUESTIONS, **parts, steps=100)


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        (gvfx.Uniform, "behaviour: Uniform is a class; write gvfx.Uniform()."),
        (gvfx.Floor, "behaviour: Floor is a class; write gvfx.Floor(...)."),
        ("uniform", "behaviour: 'uniform' is a string; write gvfx.Uniform()."),
        ("GVFExplorer", "behaviour: 'GVFExplorer' is a string; write gvfx.GVFExplorer()."),
        ("optimaldesing", "behaviour: 'optimaldesing' is a string; write gvfx.OptimalDesign()."),
        (gvfx.ExpectedSarsa(), "behaviour: ExpectedSarsa is a learner; give it as learner=gvfx.ExpectedSarsa()."),
        (gvfx.Deep, "behaviour: Deep is a learner; give it as learner=gvfx.Deep()."),
        (
            gvfx.constant_policy([1, 0]),
            "behaviour: ConstantPolicy(probabilities=(1.0, 0.0)) is a policy; write gvfx.Follow(policy) to act by it.",
        ),
        ([0.5, 0.5], "behaviour: [0.5, 0.5] is a policy; write gvfx.Follow(policy) to act by it."),
    ],
)
def test_wrong_behaviours(behaviour, sentence):
    with pytest.raises(gvfx.InputError) as refused:
        choose_method("tables", QUESTIONS, behaviour, None, 100)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("learner", "sentence"),
    [
        (gvfx.ExpectedSarsa, "learner: ExpectedSarsa is a class; write gvfx.ExpectedSarsa()."),
        ("deep", "learner: 'deep' is a string; write gvfx.Deep()."),
        (gvfx.Uniform(), "learner: Uniform is a behaviour; give it as behaviour=gvfx.Uniform()."),
        (3, "learner: 3 is not a learner; choose gvfx.CertaintyEquivalence, "),
    ],
)
def test_wrong_learners(learner, sentence):
    with pytest.raises(gvfx.InputError) as refused:
        choose_method("tables", QUESTIONS, None, learner, 100)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("kind", "parts", "words"),
    [
        (
            "networks",
            {"behaviour": gvfx.OptimalDesign()},
            "OptimalDesign runs on tables and linear features only; for networks choose gvfx.GVFE",
        ),
        (
            "box_actions",
            {"behaviour": gvfx.OptimalDesign()},
            "OptimalDesign does not support continuous actions; choose gvfx.Actor",
        ),
        ("tables", {"behaviour": gvfx.Hold(gvfx.Uniform())}, r"Hold\(Uniform\) runs on Box actions only; for tables choose"),
        ("tables", {"behaviour": gvfx.Hold(gvfx_paper.RandomPolicies())}, r"Hold\(RandomPolicies\) combines parts that"),
        ("networks", {"learner": gvfx.ExpectedSarsa()}, r"ExpectedSarsa needs Discrete observations; use gvfx.Deep\."),
        ("box_actions", {"learner": gvfx.Deep()}, r"Deep needs Discrete actions; use gvfx.TwinCritics\."),
        ("networks", {"learner": gvfx.TwinCritics()}, "TwinCritics needs Box actions; use gvfx.Deep"),
        (MUJOCO, {"learner": gvfx.Deep()}, "Deep does not fit a MuJoCo world; use gvfx.TwinCritics"),
        (
            "tables",
            {"learner": gvfx.Deep()},
            "Deep does not fit a finite world; use gvfx.CertaintyEquivalence, gvfx.Exp",
        ),
    ],
)
def test_methods_of_another_kind(kind, parts, words):
    with pytest.raises(gvfx.InputError, match=words):
        choose_method(kind, QUESTIONS, **{"behaviour": None, "learner": None, **parts}, steps=100)


def test_a_wrapper_supports_what_it_wraps():
    assert gvfx.Floor(gvfx.Follow([0.5, 0.5])).supports == {"tables"}
    assert gvfx.Blend(gvfx.GVFExplorer(), gvfx.RoundRobin()).supports == {"tables", "linear", "networks"}
    assert gvfx.Blend(gvfx.GVFExplorer(), gvfx.SuccessorRepresentation()).supports == {"tables"}  # networks keep one rule's value
    assert gvfx.Hold(gvfx.Actor()).supports == {"box_actions"}
    assert gvfx.Hold(gvfx.Floor(gvfx.Uniform())).supports == set()
    assert all(kinds_of(cls) <= set(KINDS) for base in (gvfx.Behaviour, gvfx.Learner) for cls in public_classes(base).values())


def test_a_class_that_does_not_say_what_it_supports_cannot_be_built():
    class Silent(gvfx.Behaviour):
        pass

    with pytest.raises(TypeError, match="supports"):
        Silent()
