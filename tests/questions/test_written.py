"""Questions in TOML files: what each line means, and a sentence for every mistake."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import gvfx
from gvfx.questions.written import questions_in

SIGNALS = '[signals]\nr = "reward"\n'
POLICIES = '[policies]\nu = "uniform"\n'


def read(folder, text, trust=False):
    path = folder / "questions.toml"
    path.write_text(textwrap.dedent(text))
    return questions_in(path, trust)


def test_policies_signals_and_discounts(tmp_path):
    (tmp_path / "parts.py").write_text(
        "import numpy as np\n"
        "def policy(s): return [0.25, 0.75]\n"
        "def act(s): return s % 2\n"
        "def scores(s): return np.array([0.0, np.log(3.0)])\n"
        "def two(s, a, s2): return [s, s2]\n"
    )
    text = f"""
        discount = [0.9, 0.5]
        [policies]
        uniform = "uniform"
        one = {{action = 1}}
        row = [0.1, 0.9]
        given = {{probabilities = [0.3, 0.7]}}
        mine = {{function = "{tmp_path}/parts.py:policy"}}
        act = {{function = "{tmp_path}/parts.py:act", gives = "action"}}
        scores = {{function = "{tmp_path}/parts.py:scores", gives = "logits"}}
        [signals]
        r = "reward"
        half = 0.5
        force = {{info = "force", index = 1, missing = 0.0}}
        both = {{function = "{tmp_path}/parts.py:two", size = 2}}
    """
    questions = read(tmp_path, text, trust=True)
    assert len(questions) == 7 * 4 * 2 and len({q.name for q in questions}) == len(questions)
    assert [q.name for q in questions[:3]] == ["uniform: r, 0.9", "uniform: r, 0.5", "uniform: half, 0.9"]
    rows = {q.name.split(":")[0]: np.broadcast_to(q.policy.table(3, 2), (3, 2)).tolist() for q in questions}
    assert rows["uniform"][0] == [0.5, 0.5] and rows["one"] == [[0, 1]] * 3 and rows["row"][0] == [0.1, 0.9]
    assert rows["given"][2] == [0.3, 0.7] and rows["mine"][1] == [0.25, 0.75] and rows["act"] == [[1, 0], [0, 1], [1, 0]]
    assert rows["scores"][0] == pytest.approx([0.25, 0.75])
    assert [q.cumulant for q in questions[4:6]] == [gvfx.Info("force", index=1, missing=0.0)] * 2
    assert questions[6].cumulant.size == 2 and questions[2].cumulant == gvfx.Constant(0.5)
    box = read(tmp_path, "[policies]\np = {gaussian = [0.5], sigma = 0.2}\n" + SIGNALS)
    assert box == [gvfx.GVF(gvfx.gaussian_policy([0.5], 0.2), gvfx.Reward(), 0.99, name="p: r")]


def test_constant_actions_are_told_apart(tmp_path):
    one, two = read(tmp_path, "[policies]\na = {action = 0}\nb = {action = 1}\n" + SIGNALS)
    assert one.policy != two.policy and repr(one.policy) != repr(two.policy)  # a checkpoint knows its questions by this


def test_listed_questions(tmp_path):
    asked = '[[questions]]\npolicy = "u"\nsignal = "r"\n'
    listed = asked + asked + 'discount = 0.5\nname = "b"\nweight = 2'
    first, second = read(tmp_path, "discount = 0.9\n" + POLICIES + SIGNALS + listed)
    assert (first.name, first.discount, first.weight) == ("u: r", 0.9, 1.0)
    assert (second.name, second.discount, second.weight) == ("b", 0.5, 2)


MISTAKES = [
    ("", "policies: the file has none"),
    (POLICIES, "signals: the file has none"),
    ("gamma = 0.9\n" + POLICIES + SIGNALS, "questions: 'gamma' is unknown"),
    ('[policies]\nu = "unform"\n' + SIGNALS, "policies.u: 'unform' is unknown; give 'uniform', or a table"),
    ("[policies]\nu = {}\n" + SIGNALS, "policies.u: has none of the known keys"),
    ('[policies]\nu = {action = 1, sb3 = "a"}\n' + SIGNALS, "policies.u: has action and sb3"),
    ("[policies]\nu = {action = 1, sigma = 2}\n" + SIGNALS, "policies.u: 'sigma' is unknown"),
    ('[policies]\nu = {action = "left"}\n' + SIGNALS, "policies.u: 'left' is not an action"),
    ("[policies]\nu = [0.5, 0.6]\n" + SIGNALS, "policies.u: row 0 is .* sums to 1.1"),
    ('[policies]\nu = {function = "os:getcwd"}\n' + SIGNALS, "policies.u: 'os:getcwd' is a function or a saved model.*--trust"),
    ('[policies]\nu = {sb3 = "a.zip"}\n' + SIGNALS, "policies.u: 'a.zip' is a function or a saved model.*--trust"),
    (POLICIES + '[signals]\nr = "reard"\n', "signals.r: 'reard' is unknown; give 'reward', a number"),
    (POLICIES + '[signals]\nr = {info = "a", size = 0}\n', "signals.r: give the vector's length"),
    (POLICIES + '[signals]\nr = {function = "os:getcwd"}\n', "signals.r: 'os:getcwd' is a function.*--trust"),
    (POLICIES + '[signals]\nr = {info = "a", size = 1.5}\n', "signals.r.size: 1.5 is not a whole number"),
    (POLICIES + '[signals]\nr = {info = "a", size = 99999999999999999999}\n', "signals.r.size: 9+ is too large"),
    (POLICIES + '[signals]\nr = {info = "a", size = 10001}\n', "signals.r.size: 10001 is too large; give at most 10,000"),
    (
        "discount = [0.5, 0.9]\n" + POLICIES + '[signals]\nr = {info = "a", size = 5001}\n',
        "questions: the file asks 10,002.* at most 10,000",
    ),
    (POLICIES + SIGNALS + '[[questions]]\npolicy = "u"\nsignal = "r"\n' * 10_001, "questions: the file asks 10,001"),
    (POLICIES + '[signals]\nr = {info = "a", missing = 1979-05-27}\n', "signals.r.missing: datetime.* is not a finite number"),
    (POLICIES + "[signals]\nr = nan\n", "signals.r: nan is not a finite number"),
    (POLICIES + f"[signals]\nr = {10**400}\n", "signals.r: 10+ is not a finite number"),
    ("discount = 2\n" + POLICIES + SIGNALS, "discount: 2 lies outside"),
    (f"discount = {10**400}\n" + POLICIES + SIGNALS, "discount: 10+ is not a finite number"),
    ("discount = []\n" + POLICIES + SIGNALS, "discount: the list is empty"),
    ("questions = 3\n" + POLICIES + SIGNALS, r"questions: write each one as \[\[questions\]\]"),
    (POLICIES + SIGNALS + '[[questions]]\nsignal = "r"\n', r"questions\[0\].policy: is missing; name one of u"),
    (POLICIES + SIGNALS + '[[questions]]\npolicy = "x"\nsignal = "r"\n', r"questions\[0\].policy: 'x' is unknown"),
    (POLICIES + SIGNALS + '[[questions]]\npolicy = [1]\nsignal = "r"\n', r"questions\[0\].policy: '\[1\]' is unknown"),
    (POLICIES + SIGNALS + '[[questions]]\npolicy = "u"\nsignal = "r"\nweight = true\n', r"questions\[0\].weight: True is not"),
    (POLICIES + SIGNALS + '[[questions]]\npolicy = "u"\nsignal = "r"\nname = nan\n', r"questions\[0\].name: nan is not a text"),
    (POLICIES + "[signals]\nr = {info = 5}\n", "signals.r.info: 5 is not a text; write it in quotes"),
    ("[policies]\nu = {gaussian = {}}\n" + SIGNALS, "policies.u.gaussian: {} are not finite numbers"),
    ("[policies]\nu = {gaussian = [0.5], sigma = nan}\n" + SIGNALS, "policies.u.sigma: nan are not finite numbers"),
    ("[policies]\nu = {probabilities = [[1], 2]}\n" + SIGNALS, "policies.u.probabilities: .* are not finite numbers"),
    ("discount = 0.9.9", "questions: .* is not TOML"),
    ("discount = " + "[" * 3000 + "]" * 3000, "questions: .* is not TOML"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[words[:30] for _, words in MISTAKES])
def test_every_mistake_is_named(text, words, tmp_path):
    with pytest.raises(gvfx.InputError, match=f"^{words}") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_functions_that_are_not_there_are_named(tmp_path):
    for named, words in (
        ("os:nothing", "os has no 'nothing'"),
        ("os", "does not name a function"),
        ("no.py:f", "there is no file"),
    ):
        with pytest.raises(gvfx.InputError, match=f"^policies.u: .*{words}"):
            read(tmp_path, f'[policies]\nu = {{function = "{named}"}}\n' + SIGNALS, trust=True)
