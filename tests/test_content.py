"""The identity of functions and objects by their content."""

from __future__ import annotations

import copy
import functools
import logging
import operator
import os
import subprocess
import sys
import textwrap
import threading

import gymnasium as gym
import numpy as np
import pytest

from gvfx.content import Identity, changed_by


def content(thing):
    found = Identity()
    found.add(thing)
    return found.hexdigest()


def unknown(thing):
    found = Identity()
    found.add(thing)
    return found.unknown


def defined(text, name="f", **given):
    """What a text defines, as if it were a module or a notebook cell."""
    home = {"__name__": "__main__", **given}
    exec(compile(textwrap.dedent(text), f"<cell {id(home)}>", "exec"), home)
    return home[name]


POLICY = "def f(s):\n    return [0.5, 0.5]"
ENVIRONMENT = """
import gymnasium
class Env(gymnasium.Env):
    scale = 2.0
    def __init__(self, reward=1.0):
        self.reward, self.table, self.place, self.seen = reward, [1.0, 2.0], 0, []
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}
    def step(self, action):
        self._move(action)
        self.seen.append(self.place)
        return self.place, self.pay(), False, False, {}
    def _move(self, action):
        self.place = (self.place + action) % 2
    def pay(self):
        return self.reward * self.scale * self.table[self.place]
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (POLICY, "def f(s):\n    return [0.4, 0.6]"),
        ("f = lambda s: [0.5, 0.5]", "f = lambda s: [0.4, 0.6]"),
        ("def f(s, k=1): return k", "def f(s, k=2): return k"),
        ("def f(s, *, k=1): return k", "def f(s, *, k=2): return k"),
        ("K = 1\ndef f(s): return K", "K = 2\ndef f(s): return K"),
        ("def g(s): return 1\ndef f(s): return g(s)", "def g(s): return 2\ndef f(s): return g(s)"),
        ("def f(s): return (lambda: 1)()", "def f(s): return (lambda: 2)()"),
        ("def f(s): return abs(s)", "def f(s): return int(s)"),
        ("def m(k):\n    return lambda s: k\nf = m(1)", "def m(k):\n    return lambda s: k\nf = m(2)"),
        ("import functools\ndef g(k, s): return k\nf = functools.partial(g, 1)",) * 1
        + ("import functools\ndef g(k, s): return k\nf = functools.partial(g, 2)",),
        (
            "import numpy as np\nW = np.ones(3)\ndef f(s): return W @ s",
            "import numpy as np\nW = np.zeros(3)\ndef f(s): return W @ s",
        ),
        ("class A:\n    def act(self, s): return 1\nf = A().act", "class A:\n    def act(self, s): return 2\nf = A().act"),
        (
            "class A:\n    def __init__(self, k): self.k = k\n    def __call__(self, s): return self.k\nf = A(1)",
            "class A:\n    def __init__(self, k): self.k = k\n    def __call__(self, s): return self.k\nf = A(2)",
        ),
        ("T = {'a': [1, (2,)]}\ndef f(s): return T", "T = {'a': [1, (3,)]}\ndef f(s): return T"),
        (ENVIRONMENT + "f = Env()", ENVIRONMENT.replace("* self.scale", "+ self.scale") + "f = Env()"),
        (ENVIRONMENT + "f = Env()", ENVIRONMENT.replace("scale = 2.0", "scale = 3.0") + "f = Env()"),
        (ENVIRONMENT + "f = Env()", ENVIRONMENT + "f = Env(reward=3.0)"),
        (
            ENVIRONMENT + "f = gymnasium.wrappers.TimeLimit(Env(), 5)",
            ENVIRONMENT + "f = gymnasium.wrappers.TimeLimit(Env(), 6)",
        ),
        ("import operator\nf = operator.itemgetter(1)", "import operator\nf = operator.itemgetter(2)"),
    ],
)
def test_an_edit_is_seen_and_a_second_definition_is_the_same(before, after):
    assert content(defined(before)) == content(defined("\n\n\n" + before)) != content(defined(after))


@pytest.mark.parametrize(
    "text", ['def f(s):\n    "Some words."\n    return [0.5, 0.5]', "def f(s):\n    # why\n    return [0.5, 0.5]"]
)
def test_words_about_a_function_do_not_count(text):
    assert content(defined(text)) == content(defined(POLICY))


def test_functions_made_in_a_loop_differ_by_what_they_hold():
    made = [lambda s, k=k: k for k in (1, 2, 1)]
    assert content(made[0]) == content(made[2]) != content(made[1])


def test_what_a_run_changes_does_not_count():
    env = defined(ENVIRONMENT, "Env")()
    wrapped = gym.wrappers.TimeLimit(env, 5)
    before = content(wrapped)
    wrapped.reset(seed=1)
    wrapped.step(1)
    assert wrapped.spec is None and env.seen and content(wrapped) == before
    counting = "N = 0\nC = {}\ndef f(s):\n    global N\n    N += 1\n    C[s] = N\n    return C[s]"
    f = defined(counting)
    before = content(f)
    f(3)
    assert content(f) == before


def test_installed_environments_are_the_same_after_steps():
    for name in ("CartPole-v1", "FrozenLake-v1", "Pendulum-v1"):
        env = gym.make(name)
        before = content(env)
        env.reset(seed=1)
        env.step(env.action_space.sample())
        assert env.spec is not None and content(env) == before == content(gym.make(name)) and not unknown(env)
    assert content(gym.make("FrozenLake-v1", is_slippery=False)) != content(gym.make("FrozenLake-v1"))


def test_what_a_function_changes():
    def f(o, self, table, other):
        self.a[o][o + 1] += 1
        self.b[int(abs(o))] = self.c[o]
        self.d.append(o)
        self.e += 1
        local = {}
        local[o] = self.g
        del self.h[self.g]
        self.i[o], local[self.g] = self.g, self.g
        self.g(o).append(o)
        (table.j.update(self.g))

    assert changed_by(f.__code__) == {"a", "b", "d", "e", "h", "i", "j"}


def test_what_functions_import_is_followed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported.py").write_text("K = 1")
    for text in ("from imported import K", "import imported as other; K = other.K"):
        f = defined(f"def f(s):\n    {text}\n    return K")
        before = content(f)
        monkeypatch.setattr(sys.modules["imported"], "K", 2)
        assert content(f) != before and not unknown(f)
        monkeypatch.undo()
        monkeypatch.syspath_prepend(tmp_path)
    assert not unknown(defined("def f(s):\n    import a_package_that_is_not_installed"))


@pytest.mark.parametrize(
    "text",
    [
        "def f(s): return open('weights').read()",
        "import os\ndef f(s): return os.environ['K']",
        "def f(s): return globals()['K']",
        "import numpy\nNET = None\ndef f(s):\n    global NET\n    NET = numpy.load('net.npy')\n    return NET",
        "import numpy\nclass A:\n    def __call__(self, s): return self.net()\n    def net(self): return numpy.load(s)\nf = A()",
    ],
)
def test_what_functions_read_from_outside_is_named(text):
    (what,) = unknown(defined(text))
    assert what.startswith("what ") and " reads by " in what


def test_what_is_read_before_a_run_or_has_such_a_name_is_ordinary():
    text = "import numpy\nclass A:\n    load = 2\n    def read(self): self.w = numpy.load('x')\n"
    assert not unknown(defined(text + "    def __call__(self, s): return self.load\nf = A()"))


def test_copying_an_object_leaves_its_class_the_same():
    f = defined("class A:\n    def __call__(self, s): return 1\nf = A()")
    before = content(f)
    copy.copy(f)
    assert content(f) == before


@pytest.mark.parametrize("thing", [threading.Lock(), sys.stdout, (x for x in "ab")])
def test_what_cannot_be_looked_into_is_named(thing):
    assert len(unknown(lambda s: thing)) == 1


@pytest.mark.parametrize(
    "thing",
    [np.sin, operator.itemgetter(3), logging.getLogger("x"), np.random.default_rng(0), functools.lru_cache(defined(POLICY))],
)
def test_ordinary_things_are_known(thing):
    assert not unknown(thing)


def test_modules_with_cycles_and_deep_objects_end():
    deep = []
    deep.append(deep)
    for _ in range(2000):
        deep = [deep]
    assert unknown(deep)
    assert not unknown(defined("def g(s): return f(s)\ndef f(s): return g(s)"))


def test_another_process_another_hash_seed_and_folder(tmp_path):
    (tmp_path / "own.py").write_text(
        ENVIRONMENT + "S = {'a', 'b', 'c'}\ndef f(s): return s in S and s in {'x', 'y', 'z'}\ne = Env()\n"
    )
    ask = (
        "import sys; sys.path.insert(0, sys.argv[1]); import own; from gvfx.content import Identity\n"
        "for x in (own.f, own.e):\n    i = Identity(); i.add(x); print(i.hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-B", "-c", ask, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, cwd in (("1", "/"), ("2", tmp_path))
    }
    assert len(said) == 1
