"""Settings and fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gvfx_paper.targets import Target, write_target

pytest.register_assert_rewrite("helpers")
from helpers.programs import A_NETWORK, Programs  # noqa: E402

PROGRAMS = pytest.StashKey[Programs]()
TOGETHER = ("paper/items/", "report/")  # folders whose tests share something expensive
LONGEST = (
    "running/streams/",
    "evidence/",
    "running/",
    "behaviours/",
    "test_docs.py",
    "test_faults.py",
    "test_testing.py",
)  # first, so that no worker waits at the end
FULL = (  # what is shipped: `make test-full`
    "benchmarks/",
    "cli/test_commands.py",
    "cli/test_stopping.py",
    "experiments/test_sweep.py",
    "paper/items/",
    "paper/loops/",
    "report/test_page_in_browser.py",
    "running/test_installed_environments.py",
    "test_claims.py",
    "test_docs.py",
    "test_docs_commands.py",
    "test_examples.py",
    "test_faults.py",
    "test_platforms.py",
    "test_site.py",
    "test_threads.py",
    "test_wheel.py",
)
ROOT = Path(__file__).parents[1]
os.environ.setdefault("GVFX_CACHE_DIR", str(ROOT / ".cache"))  # compiled code of tests, shared by their processes and runs
os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo is imported: pictures without a screen
with suppress(ImportError):  # environments of their own have no hypothesis; the same examples every time, on any machine
    from hypothesis import HealthCheck, settings

    settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("same")


@pytest.hookimpl(optionalhook=True)  # environments of their own, such as that of make test-sb3, have no pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """The tests of a file, and of the folders in TOGETHER, stay in one process, so that what they compile is compiled once."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((part for part in TOGETHER if nodeid.startswith(f"tests/{part}")), nodeid.split("::")[0])

    config.option.loadscopereorder = False  # the order of collection
    return Together(config, log)


def pytest_collection_modifyitems(items):
    """Mark the tests of `make test-full`; the files that take longest come first."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(FULL):
            item.add_marker("full")
    items.sort(key=lambda item: not item.nodeid.removeprefix("tests/").startswith(LONGEST))


def pytest_collection_finish():
    """Before the first test: JAX with the same settings in every process, so that each finds what another has compiled."""
    if "jax" in sys.modules:
        import_module("gvfx.compilation.networks").start_jax()
    gc.freeze()  # modules stay: the garbage collector need not look at them again
    gc.set_threshold(50_000, 10, 10)  # compilers make many objects that live as long as they do


def marked(item, name, otherwise):
    """The number in a test's mark."""
    mark = item.get_closest_marker(name)
    return mark.args[0] if mark else otherwise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Fast tests run composed loops in plain Python, unless they are marked `compiled` (`helpers.programs`)."""
    if item.get_closest_marker("full") or item.get_closest_marker("slow"):
        return (yield)
    with Programs(compiled=marked(item, "compiled", 0) > 0) as programs:
        item.stash[PROGRAMS] = programs
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A fast test fails if it compiles more than its marks say."""
    done = yield
    if programs := item.stash.get(PROGRAMS, None):
        programs.check(marked(item, "compiled", 0), marked(item, "networks", A_NETWORK))
    return done


@pytest.fixture(scope="session")
def targets(tmp_path_factory):
    """Two target policies for the cheetah with random weights."""
    generator, folder, made = np.random.default_rng(0), tmp_path_factory.mktemp("targets"), []
    for name, sigma in zip(("walk", "run"), np.float32([0.2, 0.3]), strict=True):
        sizes = (17, 8, 6)
        weights = [generator.normal(0, 0.3, (a, b)) for a, b in pairwise(sizes)]
        write_target(folder / f"{name}.safetensors", weights, [np.zeros(b) for b in sizes[1:]], {"task": name})
        made.append(Target.load(folder / f"{name}.safetensors", float(sigma)))
    return tuple(made)
