"""What fast tests compile: nothing that is composed for a behaviour, a learner and their sizes, unless a test is marked.

Compiling such a loop takes seconds, a step of it in plain Python 0.2 ms.  So fast tests run loops in plain Python, except those
with the mark `compiled(n)`, which compile n at most.  What XLA makes of networks has no plain form: a test may run one network,
and the mark `networks(n)` names those that ask for more large programs.  `tests/conftest.py` fails a test that compiles more.
Functions of modules are compiled once, whoever calls them, and do not count.
"""

from __future__ import annotations

import sys
from inspect import CO_VARARGS
from types import SimpleNamespace

import numpy as np
from numba.core import sigutils
from numba.core.dispatcher import Dispatcher

from gvfx.compilation.loops import _Stored
from gvfx.testing import in_plain_python

MOST_STEPS = 50_000  # of a loop in plain Python in one test: ten seconds
LONG = f"{{:,}} steps in plain Python; make at most {MOST_STEPS:,}, or mark the test `compiled`."
A_NETWORK = 6  # large programs that the run of one network asks for
LARGE = 40_000  # characters of a program of XLA: an operation on arrays has fewer, an update of networks more


def is_composed(dispatcher):
    """Whether Python calls this function of numba's, and it was made inside another one."""
    return isinstance(dispatcher._cache, _Stored) and "<locals>" in dispatcher.py_func.__qualname__


class Programs:
    """What a test compiles while `with Programs(compiled) as programs:` is under way; loops are plain unless `compiled`."""

    def __init__(self, compiled):
        self.compiled = compiled
        self.loops, self.networks, self.steps = set(), {}, 0
        self._plain, self._added, self._before = {}, [], []

    def plain(self, dispatcher):
        """The function in plain Python, in which whole numbers wrap round as silently as in compiled code."""
        if dispatcher in self._plain:
            return self._plain[dispatcher]
        function, code = in_plain_python(dispatcher), dispatcher.py_func.__code__

        def call(*args):
            if code.co_flags & CO_VARARGS:  # numba hands them over as one tuple
                args = (*args[: code.co_argcount], *args[code.co_argcount])
            self.steps += args[-1] if isinstance(args[-1], int) else 1
            assert self.steps <= MOST_STEPS, LONG.format(self.steps)
            with np.errstate(all="ignore"):
                return function(*args)

        return self._plain.setdefault(dispatcher, call)

    def stays_plain(self, dispatcher):
        return not self.compiled and is_composed(dispatcher)

    def __enter__(self):
        for_arguments, for_signature = Dispatcher._compile_for_args, Dispatcher.compile

        def called(dispatcher, *args, **options):
            if self.stays_plain(dispatcher):
                return self.plain(dispatcher)
            return for_arguments(dispatcher, *args, **options)  # which calls `compile`

        def compiled(dispatcher, signature):
            kinds = tuple(sigutils.normalize_signature(signature)[0])
            if is_composed(dispatcher) and kinds not in dispatcher.overloads:
                if self.stays_plain(dispatcher):
                    dispatcher.overloads[kinds] = SimpleNamespace(entry_point=self.plain(dispatcher))
                    self._added.append((dispatcher, kinds))
                    return dispatcher.overloads[kinds].entry_point
                self.loops.add((dispatcher.py_func.__qualname__, kinds))  # once, also if two threads ask for it together
            return for_signature(dispatcher, signature)

        self._replace(Dispatcher, "_compile_for_args", called)
        self._replace(Dispatcher, "compile", compiled)
        if "jax" in sys.modules:
            from jax._src import compiler

            make = compiler.compile_or_get_cached

            def made(backend, computation, *args, **options):
                if len(text := str(computation)) > LARGE:
                    self.networks[hash(text)] = text.split(maxsplit=2)[1]
                return make(backend, computation, *args, **options)

            self._replace(compiler, "compile_or_get_cached", made)
        return self

    def check(self, loops, networks):
        """Raise AssertionError if more was compiled than a test's marks say, or too much run in plain Python."""
        advice = "run loops in plain Python and shared networks, or see tests/helpers/programs.py"
        names = sorted(name for name, _ in self.loops)
        assert len(names) <= loops, f"compiled({loops}): {len(names)} loops were compiled ({names}); {advice}."
        found = f"{len(self.networks)} large programs of networks were compiled ({[*self.networks.values()]})"
        assert len(self.networks) <= networks, f"networks({networks}): {found}; {advice}."
        assert self.steps <= MOST_STEPS, LONG.format(self.steps)

    def _replace(self, owner, name, new):
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    def __exit__(self, *_):
        for owner, name, before in self._before:
            setattr(owner, name, before)
        for dispatcher, kinds in self._added:
            del dispatcher.overloads[kinds]
