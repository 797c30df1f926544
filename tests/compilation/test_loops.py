"""Compiled functions on disk: found again when nothing changed, compiled anew when anything did."""

from __future__ import annotations

import shutil
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from gvfx.compilation import folder
from gvfx.compilation.loops import from_python

pytestmark = pytest.mark.compiled(9)
PARTS = """
import math
from typing import NamedTuple
import numpy as np
from gvfx.compilation.loops import formula, inlined, stored
from gvfx.kernel import piece, whole
from gvfx.schedules import Linear, at

SCALE = 3.0
TABLE = np.array([1.0, 2.0])

class Inner(NamedTuple):
    x: np.ndarray
    y: np.ndarray

class Record(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    inner: Inner

class Settings(NamedTuple):
    low: float = 1.0
    high: float = 2.0

@formula
def equation(target, estimate):
    return 2.0 * target - estimate

@piece
def rate(t):
    return max(1.0 - 0.5 * t, 0.25)

def make(k, settings=Settings()):
    @piece
    def step(r, t):
        return equation(r.a[0], r.b[0]) * SCALE + k * TABLE[1] + rate(t) * r.inner.x[0] + settings.low

    @whole
    def run(r, t):
        return step(r, t)

    return run
"""


def load(source=PARTS, name="parts_under_test"):
    """A module made from source, as if it had been imported by a new process."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def call(module, function):
    """The value of a function of the module, and whether it came from the disk."""
    one = np.array([1.0])
    parts = {"a": 5 * one, "b": 7 * one, "inner": {"x": 11 * one, "y": 13 * one}}
    record = module.Record(**{**parts, "inner": module.Inner(**parts["inner"])})
    value = function(record, 1)
    return value, bool(function._cache_hits)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder that holds the code of `PARTS.make(2)`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GVFX_CACHE_DIR", str(tmp_path_factory.mktemp("compiled") / "cache"))
        module = load()
        assert call(module, module.make(2)) == (VALUE, False)
        return folder.current().path


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch, compiled):
    """A copy of that folder."""
    shutil.copytree(compiled, tmp_path / "cache")
    monkeypatch.setenv("GVFX_CACHE_DIR", str(tmp_path / "cache"))
    yield folder.current()
    sys.modules.pop("parts_under_test", None)


VALUE = (2 * 5.0 - 7.0) * 3 + 2 * 2.0 + 0.5 * 11 + 1.0


def test_a_second_start_compiles_nothing():
    module = load()
    assert call(module, module.make(2)) == (VALUE, True)


@pytest.mark.parametrize(
    "old, new, value",
    [
        ("return 2.0 * target - estimate", "return 2.0 * target + estimate", (10.0 + 7) * 3 + 4 + 5.5 + 1),
        ("2.0 * target - estimate", "4.0 * target - estimate", (20.0 - 7) * 3 + 4 + 5.5 + 1),
        ("max(1.0 - 0.5 * t, 0.25)", "max(1.0 - 0.25 * t, 0.25)", VALUE + 0.25 * 11),
        ("max(1.0 - 0.5 * t, 0.25)", "min(1.0 - 0.5 * t, 0.25)", VALUE - 0.25 * 11),
        ("SCALE = 3.0", "SCALE = 4.0", VALUE + 3),
        ("SCALE = 3.0", "SCALE = 3", VALUE),
        ("[1.0, 2.0]", "[1.0, 5.0]", VALUE + 6),
        ("* TABLE[1]", "* TABLE[0]", VALUE - 2),
        ("settings.low", "settings.high", VALUE + 1),
        ("low: float = 1.0", "low: float = 6.0", VALUE + 5),
        ("    a: np.ndarray\n    b: np.ndarray", "    b: np.ndarray\n    a: np.ndarray", VALUE),
        ("    x: np.ndarray\n    y: np.ndarray", "    y: np.ndarray\n    x: np.ndarray", VALUE),
        ("class Settings(NamedTuple):\n    low", "class Settings(NamedTuple):\n    more: int = 9\n    low", VALUE),
        ("+ settings.low", "+ settings.low * math.cos(0.0)", VALUE),
        ("@piece\ndef rate", "@inlined(fastmath=False)\ndef rate", VALUE),
        ("@piece\ndef rate", "@inlined(boundscheck=True)\ndef rate", VALUE),
    ],
)
def test_a_change_is_compiled_anew(old, new, value):
    """An equation, a schedule, a global, a record's fields, an option: anything that the code depends on."""
    assert old in PARTS
    after = load(PARTS.replace(old, new))
    assert call(after, after.make(2)) == (pytest.approx(value), False)


def test_each_composition_has_its_own_entry():
    module = load()
    assert call(module, module.make(3)) == (VALUE + 2, False)
    assert call(module, module.make(2.0)) == (VALUE, False)
    assert call(module, module.make(2)) == (VALUE, True)
    assert call(module, module.make(2, module.Settings(low=6.0))) == (VALUE + 5, False)


def test_types_of_arguments_are_part_of_the_key():
    module = load()
    half = module.Record(*np.float32([[5.0], [7.0]]), module.Inner(np.float32([11.0]), np.float32([13.0])))
    run = module.make(2)
    assert run(half, 1) == pytest.approx(VALUE) and not run._cache_hits
    assert call(module, run) == (VALUE, True)


FIELDS = """
from gvfx.compilation.loops import stored

def make():
    @stored()
    def run(records):
        return records[0].found - records[0].sought

    return run
"""


@pytest.mark.parametrize(("fields", "known"), [(("found", "sought"), True), (("sought", "found"), False)])
def test_functions_of_records_are_stored_too(fields, known):
    """As the directed search takes one; the places of its fields are part of the key."""

    def records(fields):
        return np.array([(9, 4)], np.dtype((np.record, [(name, np.int64) for name in fields]))).view(np.recarray)

    assert load(FIELDS).make()(records(("found", "sought"))) == 5
    again = load(FIELDS).make()
    assert again(records(fields)) == (5 if known else -5) and bool(again._cache_hits) == known


def test_a_global_changed_after_compiling_is_not_stored(own_folder):
    """numba froze the old value in a piece: code that links it must not be stored under the new value."""
    module = load()
    source = "@inlined()\ndef scaled(x):\n    return SCALE * x\n\n@stored()\ndef outer(x):\n    return scaled(x)\n"
    exec(source, module.__dict__)
    assert module.outer(1.0) == 3.0
    module.SCALE = 4.0
    exec("@stored()\ndef outer2(x):\n    return scaled(x)\n", module.__dict__)
    assert module.outer2(1.0) == 3.0  # what numba does in one process
    fresh = load()
    fresh.SCALE = 4.0
    exec(source.replace("outer", "outer2"), fresh.__dict__)
    assert fresh.outer2(1.0) == 4.0


def test_what_cannot_be_known_is_compiled_in_every_process(own_folder):
    source = "from numba.extending import register_jitable\n@register_jitable\ndef helper(x):\n    return x + 1.0\n"
    source += "@stored()\ndef outer(x):\n    return helper(x)\n"
    module = load(PARTS + source)
    assert module.outer(1.0) == 2.0
    assert len(own_folder.entries()) == 1  # make(2), as before


def test_damaged_entries_are_compiled_anew(own_folder):
    module = load()
    for entry in own_folder.entries():
        raw = bytearray(entry.path.read_bytes())
        raw[len(raw) // 2] ^= 1
        entry.path.write_bytes(raw)
    assert call(module, module.make(2)) == (VALUE, False)


def test_an_entry_that_cannot_be_loaded_is_compiled_anew(own_folder):
    module = load()
    (entry,) = own_folder.entries()
    own_folder.write(entry.path.stem, "loop", b"not what was written")
    assert call(module, module.make(2)) == (VALUE, False)


def test_a_function_for_compiled_code_says_how_to_call_it_from_python():
    module = load()
    with pytest.raises(TypeError, match=r"^rate is compiled into other functions; call rate.py_func, or from_python\(rate\)\.$"):
        module.rate(1)
    run = module.make(2)
    call(module, run)  # compiles it
    with pytest.raises(TypeError, match="from_python"):
        module.rate(1)
    assert from_python(module.rate)(1) == module.rate.py_func(1) == 0.5


# --- processes -----------------------------------------------------------------------------------------------------

LONG = "\n".join(f"        x = math.sin({i}.5 * x) + math.exp(-x * x) + math.log(1.0 + abs(x))" for i in range(40))
SCRIPT = f"""
import math
import sys
from typing import NamedTuple
import numpy as np
from gvfx.compilation.loops import inlined, stored

class Mine(NamedTuple):  # a record of a script
    a: np.ndarray

def make(k):
    @inlined()
    def step(x):  # too long to be inlined, so that its symbol remains
{LONG}
        return 0.0 * x + k

    @stored()
    def run(r):
        return step(r.a[0]) + 10 * step(r.a[0] + 1) + 100 * step(r.a[0] + 2)

    return run

def show(k):
    run = make(k)
    print(int(run(Mine(np.array([10.0])))), len(run._cache_hits), flush=True)

for k in map(int, sys.argv[1:]):
    show(k)
"""


def run_script(path, *arguments, source=SCRIPT):
    path.write_text(source)
    done = subprocess.run([sys.executable, path, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_code_of_two_processes_does_not_clash(tmp_path):
    """The first function of each process has the same name and number, but another closure."""
    script = tmp_path / "script.py"
    assert run_script(script, 1) == ["111", "0"]
    assert run_script(script, 2, 1, 2) == ["222", "0", "111", "1", "222", "1"]


def test_forked_processes_get_names_of_their_own(tmp_path):
    forks = "import os\nif os.fork() == 0:\n    show(1)\n    os._exit(0)\nos.wait()\nshow(2)\nshow(1)\n"
    out = run_script(tmp_path / "script.py", source=SCRIPT + forks)
    assert out == ["111", "0", "222", "0", "111", "1"]


def test_two_processes_that_start_together(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    both = [subprocess.Popen([sys.executable, script, "1"], stdout=-1, stderr=-1, text=True) for _ in range(2)]
    for process in both:
        out, err = process.communicate()
        assert (out.split()[0], err) == ("111", "")
    assert run_script(script, 1) == ["111", "1"]
