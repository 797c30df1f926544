"""Damaged, swapped, crafted and irregular files: noticed in a sentence, made anew, or harmless; no traceback, no hang."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from helpers.experiments import EXPERIMENTS

from faults.containers import Container, copied, indexed, made, outcome, tuned_mutations
from faults.damage import IRREGULAR, LONGER, RANDOM, bombs, crafted, described, replace
from faults.processes import forked, warm_up
from faults.trials import Trials

FULL, FAST, SECONDS = 1500, 60, 200
LIMIT = 90  # seconds of one trial


def run(trials: Trials) -> None:
    warm_up()
    containers = made(trials.folder)
    listed, third = [*_listed(containers)], trials.wanted // 3  # a third is random damage
    crafted_ones, others = ([each for each in listed if (each[0] == "crafted") is which] for which in (True, False))
    chosen = trials.random.sample(others, min(len(others), third))
    chosen += trials.random.sample(crafted_ones, min(len(crafted_ones), 2 * third - len(chosen)))
    trials.note(f"{len(crafted_ones)} crafted files to choose from")
    for kind, detail, container, change in chosen:
        if trials.done:
            return
        _try(trials, kind, detail, container, change)
    while not trials.done:
        container = trials.random.choice(containers)
        how = trials.random.choice([*RANDOM])

        def change(folder: Path, container: Container = container, how: str = how) -> None:
            damaged = RANDOM[how](container.raw, trials.random)
            (folder / container.file).write_bytes(damaged)

        _try(trials, f"random: {container.name.split(' (')[0]}", f"{how}, trial {trials.count}", container, change)


def _listed(containers: list[Container]) -> Iterator[tuple]:
    """The damage that is not random."""
    for c in containers:
        made_up = [*crafted(c.raw), *bombs(c.raw)] if c.packed else []
        made_up += [(what, text.encode()) for what, text in described(c.raw.decode())] if c.is_text else []
        for what, raw in made_up:
            if raw != c.raw:
                yield "crafted", what, c, lambda folder, c=c, raw=raw: (folder / c.file).write_bytes(raw)
        for what in [*IRREGULAR, LONGER]:
            yield "irregular", what, c, lambda folder, c=c, what=what: replace(folder / c.file, what)
    store = containers[0]
    first, second = (e.hash for e in EXPERIMENTS)
    names = [f"{e}/seed-000{k}.safetensors" for e in (first, second) for k in range(3)]
    for a in names:
        for b in names:
            if a != b:
                yield "swapped", f"{a} over {b}", store, lambda folder, a=a, b=b: shutil.copy(folder / a, folder / b)
    for a in names[:3]:
        yield "swapped", f"{a} and the next", store, lambda folder, a=a: _swap(folder / a, folder / names[names.index(a) + 1])
    yield "swapped", "two folders", store, lambda folder: _swap(folder / first, folder / second)
    for what, text in tuned_mutations():
        yield "tuned.json", what, None, lambda folder, text=text: (folder / "tuned.json").write_text(text, encoding="utf-8")


def _swap(a: Path, b: Path) -> None:
    aside = a.with_name("aside")
    a.rename(aside)
    b.rename(a)
    aside.rename(b)


def _try(trials: Trials, kind: str, detail: str, container: Container | None, change) -> None:
    with trials.scratch() as scratch:
        if container is None:
            change(scratch)
            ended = forked("report", scratch, cwd=scratch, timeout=LIMIT)
            good = ended.code == 2 and ended.sentence and "tuned.json" in ended.err and len(ended.err.splitlines()) == 1
            trials.check(kind, good, f"{detail}: {ended}")
            return
        folder = copied(container, scratch)
        if container.name in ("results", "index"):
            indexed(folder)
        change(folder)
        with _alarm():
            try:
                said = outcome(container, folder)
            except TimeoutError:
                said = f"hangs for more than {LIMIT} s"
        trials.check(kind, not said, f"{container.name} ({container.file}), {detail}: {said}")


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Raise TimeoutError after a while."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise BaseTimeout

    class BaseTimeout(BaseException):
        """Not caught as an error of the trial."""

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        yield
    except BaseTimeout:
        raise TimeoutError from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
