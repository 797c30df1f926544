"""Linear algebra on one thread."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from faults.backends import BACKENDS, quiet
from faults.groups.same_bytes import threads as blas_threads

import gvfx
import gvfx_paper
from gvfx import threads


def numbers():
    return [read() for read, _ in threads._controls()]


def test_one_thread_inside_and_as_before_after_it():
    before = numbers()
    with threads.one_thread(), threads.one_thread():
        assert all(n == 1 for n in numbers())
    assert numbers() == before


def test_an_error_restores_the_number_too():
    before = numbers()
    with pytest.raises(ValueError, match="inside"), threads.one_thread():
        raise ValueError("inside")
    assert numbers() == before


def test_as_a_decorator_and_in_several_threads():
    """Blocks that overlap: the number is restored when the last one ends."""
    before = numbers()
    inside = threads.one_thread()(lambda k: numbers())
    with ThreadPoolExecutor(4) as pool:
        assert all(n == 1 for found in pool.map(inside, range(50)) for n in found)
    assert numbers() == before


@pytest.mark.parametrize("name", BACKENDS)
def test_results_do_not_depend_on_the_number_of_threads(name):
    """The number that OMP_NUM_THREADS or the number of cores sets before Python starts is set here for the whole process."""
    with blas_threads(1):
        one = quiet(BACKENDS[name])
    with blas_threads(4):
        assert quiet(BACKENDS[name]) == one
        assert set(numbers()) == {4}


def test_truths_and_plans_do_not_depend_on_the_number_of_threads():
    setting = gvfx_paper.paper["same"]
    world, questions = setting.world, setting.questions

    def numbers_of():
        best = gvfx.design.optimal(world, questions)
        forecast = gvfx.design.forecast(world, questions, best.behaviour, draws=20)
        arrays = [gvfx.exact.values(world, questions), best.behaviour, forecast.ratios]
        return [array.tobytes() for array in arrays] + [repr(gvfx.plan(world, questions, 0.05, draws=20))]

    with blas_threads(1):
        one = numbers_of()
    with blas_threads(4):
        assert numbers_of() == one


FAKE = """
static int threads = 6;
int MKL_Get_Max_Threads(void) { return threads; }
void MKL_Set_Num_Threads(int n) { threads = n; }
"""
WITH_MKL = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
from gvfx.threads import one_thread
with one_thread():
    print(library.MKL_Get_Max_Threads())
print(library.MKL_Get_Max_Threads())
"""


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler")
def test_another_library_that_is_loaded_is_set_too(tmp_path):
    """A stand-in for MKL of the system, found by its name."""
    (tmp_path / "mkl.c").write_text(FAKE)
    library = tmp_path / "libmkl_rt.so.2"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmkl_rt.so.2", "-o", library, tmp_path / "mkl.c"], check=True)
    done = subprocess.run([sys.executable, "-c", WITH_MKL, library], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "6"]
