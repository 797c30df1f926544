"""Compiled code that others may have planted in the cache: a canary that fires when it is unpickled; none may."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from faults.processes import called, warm_up
from faults.trials import Trials
from gvfx.compilation import folder, loops
from gvfx.compilation.folder import Folder

FULL, FAST, SECONDS = 90, 18, 60
FOREIGN = 12345  # a user who is not this one
IS_ROOT = os.geteuid() == 0


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


class Cache:
    """A folder of compiled code below two others, whose entries are canaries."""

    def __init__(self, scratch: Path, canary: Path) -> None:
        self.path = scratch / "above" / "parent" / "cache"
        self.path.mkdir(parents=True, mode=0o700)
        (scratch / "above").chmod(0o755)
        (scratch / "above" / "parent").chmod(0o755)
        self.chosen, self.elsewhere, self.scratch = self.path, scratch / "elsewhere", scratch
        called(lambda: _compile(self.path), cwd=scratch)  # an entry with its own name
        (entry,) = Folder(self.path).entries()
        self.entry = entry.path
        self.planted = folder._sealed(self.entry.stem, pickle.dumps(Canary(canary)))
        self.entry.write_bytes(self.planted)

    def given_away(self, *paths: Path) -> None:
        """To another user; without the rights for that, this user becomes another one when the entry is read."""
        for path in paths:
            if IS_ROOT:
                os.chown(path, FOREIGN, FOREIGN, follow_symlinks=False)

    def moved_behind_link(self) -> None:
        self.entry.rename(self.elsewhere)
        self.entry.symlink_to(self.elsewhere)


def _folder_behind_link(cache: Cache) -> None:
    (cache.scratch / "link").symlink_to(cache.path)
    cache.chosen = cache.scratch / "link"


def _parent_behind_link(cache: Cache) -> None:
    """A link in a folder that others may write."""
    (cache.scratch / "open").mkdir()
    (cache.scratch / "open" / "link").symlink_to(cache.path.parent)
    (cache.scratch / "open").chmod(0o777)
    cache.chosen = cache.scratch / "open" / "link" / "cache"


def _foreign_link(cache: Cache) -> None:
    (cache.scratch / "sticky").mkdir()
    (cache.scratch / "sticky").chmod(0o1777)
    (cache.scratch / "sticky" / "link").symlink_to(cache.path.parent)
    cache.given_away(cache.scratch / "sticky" / "link")
    cache.chosen = cache.scratch / "sticky" / "link" / "cache"


def _pipe(cache: Cache) -> None:
    cache.entry.unlink()
    os.mkfifo(cache.entry)


def _renamed(cache: Cache) -> None:
    """A whole entry of this user, of another key."""
    cache.entry.write_bytes(folder._sealed("0" * 64, cache.planted[len(folder.HEADER) + 32 :]))


def _closed_again(cache: Cache) -> None:
    """What the advice of 0.2.0 led to: planted by others in an open folder, which is then closed."""
    cache.path.chmod(0o777)
    cache.given_away(cache.entry)
    cache.path.chmod(0o700)


PLANTED: dict[str, Callable[[Cache], None]] = {
    "open folder": lambda cache: cache.path.chmod(0o777),
    "group may write to the folder": lambda cache: cache.path.chmod(0o770),
    "entry that the group may write": lambda cache: cache.entry.chmod(0o620),
    "entry that everybody may write": lambda cache: cache.entry.chmod(0o602),
    "link": Cache.moved_behind_link,
    "hard link": lambda cache: cache.elsewhere.hardlink_to(cache.entry),
    "pipe": _pipe,
    "folder behind a link": _folder_behind_link,
    "parent behind a link in an open folder": _parent_behind_link,
    "open parent": lambda cache: cache.path.parent.chmod(0o777),
    "open grandparent": lambda cache: cache.path.parents[1].chmod(0o777),
    "group may write to the grandparent": lambda cache: cache.path.parents[1].chmod(0o775),
    "entry of another key": _renamed,
}
OF_OTHERS: dict[str, Callable[[Cache], None]] = {
    "closed again": _closed_again,
    "entry of another user": lambda cache: cache.given_away(cache.entry),
    "folder of another user": lambda cache: cache.given_away(cache.path),
    "parent of another user": lambda cache: cache.given_away(cache.path.parent),
    "sticky parent of another user": lambda cache: (cache.path.parent.chmod(0o1777), cache.given_away(cache.path.parent))[-1],
    "grandparent of another user": lambda cache: cache.given_away(cache.path.parents[1]),
    "parent behind a link of another user": _foreign_link,
}


def run(trials: Trials) -> None:
    warm_up()
    kinds = {**PLANTED, **OF_OTHERS}
    _sees_a_fault(trials)
    while not trials.done:
        for kind, plant in kinds.items():
            with trials.scratch() as scratch:
                canary = scratch / "fired"
                cache = Cache(scratch, canary)
                plant(cache)
                as_other = kind in OF_OTHERS and not IS_ROOT
                ended = called(lambda cache=cache, other=as_other: _compile(cache.chosen, other), cwd=scratch, timeout=120)
                good = ended.code == 0 and not canary.exists()
                said = kind == "entry of another key" or "GVFX_CACHE_DIR to a new folder" in ended.err
                trials.check(kind, good and said, f"{'fired' if canary.exists() else 'not said'}: {ended}")
                shutil.rmtree(cache.scratch, ignore_errors=True)
            if trials.done:
                break


def _sees_a_fault(trials: Trials) -> None:
    """An entry of this user in a closed folder is trusted, so its canary fires: otherwise this group would find nothing."""
    with trials.scratch() as scratch:
        canary = scratch / "fired"
        cache = Cache(scratch, canary)
        ended = called(lambda: _compile(cache.chosen), cwd=scratch, timeout=120)
        trials.check("control: the user's own entry is run", canary.exists(), f"{ended}")


def _compile(path: Path, as_other: bool = False) -> None:
    """Call a stored function whose code may be in the folder."""
    os.environ["GVFX_CACHE_DIR"] = str(path)
    if as_other:
        os.geteuid = lambda: FOREIGN

    @loops.stored()
    def double(x: Any) -> Any:
        return 2.0 * x

    assert double(np.float64(3.0)) == 6.0
