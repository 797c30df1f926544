"""The same bytes: BLAS threads, workers, a Dask cluster, resuming, measurement times, command line and Python, caches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.processes import called, command, forked, warm_up
from faults.sweeps import stored
from faults.trials import Trials

FULL, FAST, SECONDS = 68, 0, 250

Variants = dict[str, dict[str, str]]


def run(trials: Trials) -> None:
    warm_up()
    from faults.backends import BACKENDS, COMPILED, LOGS, NETWORKS, STEPPED

    small = [*COMPILED, *LOGS, *STEPPED]
    for trial in (_threads_of_a_sweep, _command_line_and_python):
        trial(trials)
    if trials.wanted >= FULL:
        for trial in (_workers_and_cluster, _caches):
            trial(trials)
    for name in small if trials.wanted < FULL else BACKENDS:
        if trials.done:
            return
        _backend(trials, name, BACKENDS[name], jax=name in NETWORKS)


# --- every backend ---------------------------------------------------------------------------------------------------


def _backend(trials: Trials, name: str, make: Callable[..., Any], jax: bool) -> None:
    """One process makes the run as it is by default, another one all variants."""
    from faults.backends import KNOWN_WORLDS, LOGS, NOT_COMPARED, quiet

    given: dict[str, Any] = {"seeds": (0, 3)} if name in KNOWN_WORLDS else {}
    variants: dict[str, Callable[[Path], dict[str, str]]] = {
        "1 thread": lambda folder: _on_threads(1, lambda: quiet(make, **given)),
        "2 threads": lambda folder: _on_threads(2, lambda: quiet(make, **given)),
        "4 threads": lambda folder: _on_threads(4, lambda: quiet(make, **given)),
    }
    if name not in LOGS:
        variants["measured once"] = lambda folder: quiet(make, evaluate_every=10**6, **given)
        variants["measured more often"] = lambda folder: quiet(make, evaluate_every=160, **given)
    if name in KNOWN_WORLDS:
        variants["seeds in 2 threads"] = lambda folder: quiet(make, workers=2, **given)
        variants["resumed"] = lambda folder: _resumed(make, folder)
    base = "as by default"
    first = _in_a_process(trials, {base: lambda folder: quiet(make, **given)})
    if isinstance(first, str):
        trials.failed(name, f"{name}, {base}: {first}")
        return
    wanted = first[base]
    got = _in_a_process(trials, variants)
    if isinstance(got, str):
        trials.failed(name, f"{name}, variants: {got}")
        return
    for variant, digests in got.items():
        left_out = NOT_COMPARED.get(name, ()) if variant.startswith("measured") else ()
        common = [key for key in wanted if key in digests and not (left_out and key.startswith(left_out))]
        differing = [key for key in common if digests[key] != wanted[key]]
        trials.check(name, len(common) > 2 and not differing, f"{name}, {variant}: differs from the default in {differing}")
    if jax:
        for label, before in (("XLA_FLAGS of the user", _own_flags), ("JAX started by the user", _own_jax)):
            found = _in_a_process(trials, {label: variants["1 thread"]}, before)
            differing = ["all"] if isinstance(found, str) else [k for k, v in found[label].items() if wanted[k] != v]
            said = found if isinstance(found, str) else ""
            trials.check(name, not differing, f"{name}, {label}: differs from the default in {differing} {said}")


def _in_a_process(
    trials: Trials, variants: dict[str, Callable[[Path], dict[str, str]]], before: Callable[[], None] = lambda: None
) -> Variants | str:
    """The digests of runs made in one new process, or what went wrong."""
    with trials.scratch() as folder:

        def all_of_them() -> None:
            before()
            made = {}
            for label, variant in variants.items():
                own = folder / label.replace(" ", "-")
                own.mkdir()
                made[label] = variant(own)
            (folder / "digests.json").write_text(json.dumps(made))

        ended = called(all_of_them, cwd=folder, timeout=240)
        if ended.code != 0:
            return f"ended with {ended.code}: {ended.err[-1500:]}"
        found: Variants = json.loads((folder / "digests.json").read_text())
        return found


def _on_threads(number: int, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """A run with this number of BLAS threads, as OPENBLAS_NUM_THREADS would set it."""
    with threads(number):
        return make()


@contextmanager
def threads(number: int) -> Iterator[None]:
    from gvfx.threads import _controls

    before = [read() for read, _ in _controls()]
    for _, change in _controls():
        change(number)
    assert all(read() == number for read, _ in _controls()) and before
    try:
        yield
    finally:
        for (_, change), count in zip(_controls(), before, strict=True):
            change(count)


def _resumed(make: Callable[..., Any], folder: Path) -> dict[str, str]:
    """A run that is interrupted by a signal in the middle, and continued from its checkpoint."""
    import gvfx
    from faults.backends import quiet

    heard = []

    def interrupt(seed: int, step: int, error: float) -> None:
        if not heard:
            heard.append(step)
            os.kill(os.getpid(), signal.SIGINT)

    try:
        quiet(make, seeds=(0, 3), checkpoint=folder / "run", progress=interrupt)
    except gvfx.Interrupted:
        pass
    else:
        raise AssertionError("the run was not interrupted")
    assert list((folder / "run").glob("*.checkpoint"))
    return quiet(make, seeds=(0, 3), checkpoint=folder / "run")


def _own_flags() -> None:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=true"


def _own_jax() -> None:
    import jax
    import jax.numpy as jnp

    jnp.ones((300, 300)) @ jnp.ones((300, 300))
    assert jax.devices()


# --- stored runs and the command line --------------------------------------------------------------------------------


def _threads_of_a_sweep(trials: Trials) -> None:
    """The fault that was found: other bytes of a stored run with OMP_NUM_THREADS=1."""
    with trials.scratch() as one, trials.scratch() as two:
        for folder, env in ((one, {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}), (two, {})):
            cleared = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "")
            ended = _started(_small_sweep(folder), folder, cleared | env)
            if ended:
                trials.failed("stored runs", f"{env}: {ended}")
                return
        trials.check("stored runs", len(stored(one)) == 4 and stored(one) == stored(two), "1 thread and default threads differ")


def _small_sweep(folder: Path, **options: Any) -> str:
    """A script that makes four runs into `folder`."""
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"""
import gvfx
import gvfx_paper
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all
if __name__ == "__main__":
    setting = gvfx_paper.paper["same"]
    runs = [(setting.experiment(b, steps=20_000, measurements=4), 2) for b in ("GVFExplorer", "Mixture")]
    run_all(Store({str(folder / "results")!r}), runs, {given})
"""


def _started(script: str, folder: Path, env: dict[str, str]) -> str:
    """Run a script as a program of its own; empty, or how it failed."""
    path = folder / "script.py"
    path.write_text(script)
    inherited = {name: value for name, value in os.environ.items() if not (name in env and not env[name])}
    given = {name: value for name, value in env.items() if value}
    done = subprocess.run([sys.executable, path], env=inherited | given, cwd=folder, capture_output=True, text=True, timeout=240)
    return "" if done.returncode == 0 else done.stderr[-1500:]


def _command_line_and_python(trials: Trials) -> None:
    """`gvfx run --save` writes what gvfx.evaluate returns."""
    import gvfx
    from faults.backends import digests
    from gvfx_paper.settings.runs import find_setting, run_behaviour

    with trials.scratch() as folder:
        line = ("run", "distinct", "-b", "GVFExplorer", "--steps", 20_000, "--seeds", 2, "--save", folder / "cli.gvfx")
        ended = [forked(*line, "--workers", 1, cwd=folder), forked(*line[:-1], folder / "two.gvfx", "--workers", 2, cwd=folder)]
        if any(end.code != 0 for end in ended):
            trials.failed("command line", f"{ended}")
            return

        def in_python() -> None:
            run_behaviour(find_setting("distinct"), "GVFExplorer", steps=20_000, seeds=2, save=folder / "python.gvfx")

        called(in_python, cwd=folder)
        results = {name: digests(gvfx.load(folder / f"{name}.gvfx")) for name in ("cli", "two", "python")}
        trials.check("command line", results["cli"] == results["python"], "gvfx run and Python differ")
        trials.check("command line", results["cli"] == results["two"], "gvfx run with 1 and 2 workers differ")


def _workers_and_cluster(trials: Trials) -> None:
    """Two local processes, and a Dask cluster of nannies, which set one BLAS thread, give what this process gives."""
    from faults.dask_cluster import cluster

    with trials.scratch() as one, trials.scratch() as two, trials.scratch() as three:
        told = [_started(_small_sweep(one), one, {}), _started(_small_sweep(two, workers=2), two, {})]
        trials.check("workers", not any(told) and len(stored(one)) == 4 and stored(one) == stored(two), f"2 workers: {told}")
        with cluster(three, workers=2) as found:
            said = _started(_small_sweep(three, cluster=found.address), three, {})
        trials.check("cluster", not said and stored(one) == stored(three), f"a Dask cluster with nannies: {said}")


def _caches(trials: Trials) -> None:
    """Compiled anew, or loaded from the cache."""
    with trials.scratch() as one, trials.scratch() as two:
        line = ("run", "same", "-b", "Mixture", "--steps", 5000, "--seeds", 1, "--workers", 1, "--save")
        env = {"GVFX_CACHE_DIR": str(one / "cache")}
        ends = [
            command(*line, one / "a.gvfx", cwd=one, env=env, timeout=200),
            command(*line, two / "a.gvfx", cwd=two, env=env, timeout=200),
        ]
        shutil.rmtree(one / "cache", ignore_errors=True)
        from faults.backends import digests
        from gvfx import load

        good = all(end.code == 0 for end in ends) and digests(load(one / "a.gvfx")) == digests(load(two / "a.gvfx"))
        trials.check("cache", good, f"an empty and a full cache: {ends}")
