"""Check that the fast tests notice a wrong number: change the sources in one place, and see the tests that hold it fail.

    python tools/mutations.py                    # all; exits with 1 if a change is not noticed, with 2 if a text is not found
    python tools/mutations.py --only tabular     # by a part of the file's name or of the new text
    python tools/mutations.py --share 0.1        # a random tenth, as `make test-mutations` does; another one when sources change
    python tools/mutations.py --list             # what would be changed

The sources are copied to a temporary folder and changed there, one mutation at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import math
import os
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from mutation_list import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
PACKAGES = ("scipy.sparse.linalg", "numba", "gymnasium", "jax.numpy", "optax", "equinox", "mujoco")  # loaded once for all tests
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
sys.dont_write_bytecode = True


def changed(source: str, mutation: Mutation) -> str:
    """The file's text after the mutation; raises ValueError unless the old text occurs exactly once."""
    if (count := source.count(mutation.old)) != 1:
        raise ValueError(f"{mutation.file}: {mutation.old!r} occurs {count} times; update this list.")
    return source.replace(mutation.old, mutation.new)


def of_sources() -> str:
    """A seed that is the same for the same sources, so that a share in which one is not noticed can be run again."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))).hexdigest()


def outcome(tests: str, copy: Path, log: str = os.devnull) -> int:
    """Pytest's exit code for tests of the sources in `copy`, in a process of its own that has the other packages already.

    log: a file for what pytest says.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 3
    try:
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(ROOT)
        sys.path.insert(0, str(copy))
        plain = ("-x", "-m", "not slow", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        code = int(pytest.main([*plain, tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def is_noticed(mutation: Mutation, copy: Path) -> bool:
    """Whether the tests fail with the mutation in a copy of the sources, which is as before afterwards."""
    path = copy / mutation.file
    source = path.read_text()
    try:
        path.write_text(changed(source, mutation))
        return outcome(mutation.tests, copy) != 0
    finally:
        path.write_text(source)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutations whose file or new text contains this")
    parser.add_argument("--share", type=float, default=1.0, help="a random share of them, such as 0.1")
    parser.add_argument("--list", action="store_true", help="only list them")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if options.only in m.file or options.only in m.new]
    chosen = random.Random(of_sources()).sample(chosen, math.ceil(options.share * len(chosen)))
    missing = [m for m in chosen if (ROOT / "src" / m.file).read_text().count(m.old) != 1]
    found = [m for m in chosen if m not in missing]
    for m in missing:
        print(f"not found once: {m.file}: {m.old!r}")
    if options.list:
        print("\n".join(f"{m.file}: {m.old!r} -> {m.new!r} ({m.tests})" for m in found))
        return 2 if missing else 0
    for name in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        for tests in sorted({m.tests for m in found}):
            if outcome(tests, copy, f"{folder}/log"):
                print(f"{Path(folder, 'log').read_text()}\n{tests} fails without any change; mend it first.")
                return 2
        for k, m in enumerate(found, 1):
            caught = is_noticed(m, copy)
            survived += not caught
            print(f"{k}/{len(found)} {'caught  ' if caught else 'SURVIVED'} {m.file}: {m.new!r}", flush=True)
    print(f"{len(found) - survived} of {len(found)} caught, {len(missing)} not found")
    return 1 if survived else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
