"""The paper's settings by name."""

import pytest

import gvfx
import gvfx_paper


@pytest.mark.parametrize(("name", "near"), [("sames", "'same'"), ("distint", "'distinct'"), ("four-rooms", "'fourrooms'")])
def test_an_unknown_setting_offers_the_nearest(name, near):
    with pytest.raises(gvfx.InputError, match=rf"^setting: '{name}' is unknown; did you mean .*{near}"):
        gvfx_paper.paper[name]


def test_a_setting_like_no_other_lists_the_choices():
    with pytest.raises(gvfx.InputError, match=r"^setting: 'zzz' is unknown; choose from same, distinct, .*forty"):
        gvfx_paper.paper["zzz"]


def test_settings_are_found_in_any_case():
    assert gvfx_paper.paper["Semi-Greedy"].name == "semi-greedy"


def test_asking_whether_a_setting_exists_answers_no():
    assert "same" in gvfx_paper.paper
    assert "zzz" not in gvfx_paper.paper
    assert gvfx_paper.paper.get("zzz") is None


def test_questions_of_the_forty():
    questions = gvfx_paper.paper["forty"].questions
    assert len(questions) == 40
    assert len({q.policy for q in questions}) == 4
    assert len({q.cumulant for q in questions}) == 10
    assert {q.cumulant.value for q in questions} == {50, 69, 70, 80, 65, 31, 78, 85, 92, 100}
