"""A folder of results: one file per (experiment hash, seed), written atomically, claimed while it is run.

results/<hash>/experiment.json   what was run
results/<hash>/seed-0007.safetensors
results/<hash>/seed-0007.diverged.json   in its place, if the run diverged: step, GVF and value
results/<hash>/seed-0007.claim   locked by the process that runs it; the lock ends with the process
results/<hash>/seed-0007.damaged   set aside: a damaged file, or one of another run
results/<hash>/index.json   which files were found whole, so that they need not be read again
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np

from gvfx import __version__
from gvfx.errors import Diverged, StoreError, printable
from gvfx.experiments.specification import Experiment
from gvfx.files import Irregular, read_whole, sweep_up, write_whole
from gvfx.inputs import as_path
from gvfx.locks import Lock, Owner, lock, owner, remove_unheld
from gvfx.running.checkpoint import KEPT, Made, compared
from gvfx.running.plan import Plan
from gvfx.running.schema import Part
from gvfx.tensors import CorruptFile, misfit, read, read_one
from gvfx.worlds.mdp import MDP

# --- Which files of an experiment's folder were found whole, so that they need not be read again: `index.json` in that folder
# A file is known by its size, its inode and the times of its last changes.  What these do not show, such as a bit that a disk has
# lost, is noticed by the checksum when the file is used, or with `gvfx reproduce --verify`.


NAME = "index.json"
LARGEST = 100_000_000  # bytes
RECENT = 2.0  # seconds; a file could change again without a new time, where clocks of file systems are coarse

Seen = tuple[int, int, int, int]  # size, times of the last changes of contents and of status in nanoseconds, inode


def seen(status: os.stat_result) -> Seen:
    """How a file looks without reading it."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class Index:
    """The files of one experiment that were found whole."""

    def __init__(self, folder: Path, experiment: str) -> None:
        """experiment: its hash; the index of another one, in a folder that was renamed, knows nothing."""
        self.path, self.experiment = folder / NAME, experiment
        self._whole, self._changed = self._read(), False

    def knows(self, name: str, status: os.stat_result) -> bool:
        return self._whole.get(name) == seen(status)

    def add(self, name: str, status: os.stat_result) -> None:
        """Note that a file was found whole; status: from before it was read.  One that has just changed is left out."""
        changed = max(status.st_mtime_ns, status.st_ctime_ns) / 1e9
        if changed < time.time() - RECENT:
            self._whole[name], self._changed = seen(status), True

    def forget(self, name: str) -> None:
        if self._whole.pop(name, None) is not None:
            self._changed = True
            self.save(frozenset({name}))

    def clear(self) -> None:
        self._whole, self._changed = {}, True

    def save(self, without: Set[str] = frozenset()) -> None:
        """Write what is new, beside what other processes have written meanwhile, if the folder can be written."""
        if not self._changed:
            return
        self._whole = {name: each for name, each in self._read().items() if name not in without} | self._whole
        files = {name: list(each) for name, each in sorted(self._whole.items())}
        with suppress(OSError):
            write_whole(self.path, (json.dumps(self._sealed(files)) + "\n").encode(), sync=False)
        self._changed = False

    def _sealed(self, files: dict[str, list[int]]) -> dict[str, object]:
        text = json.dumps([self.experiment, files], sort_keys=True)
        return {"experiment": self.experiment, "files": files, "sha256": hashlib.sha256(text.encode()).hexdigest()}

    def _read(self) -> dict[str, Seen]:
        try:
            kept = json.loads(read_whole(self.path, LARGEST))
            if kept != self._sealed(kept["files"]):
                return {}
            return {name: (each[0], each[1], each[2], each[3]) for name, each in kept["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return {}


# --- The record of a run that diverged, which a store keeps in the place of its result ------------------------------


VERSIONS = f"gvfx {__version__}, numba {version('numba')}, numpy {version('numpy')}, Python {platform.python_version()}"


@dataclass(frozen=True)
class Divergence:
    """A run in which a number became infinite or NaN: what stopped it, and when."""

    experiment: str  # hash
    seed: int
    what: str  # the number that is not finite: "loss of Q", "table of M", ...
    gvf: str | None  # whose it is; None if it is no single GVF's
    value: str  # "nan", "inf" or "-inf"
    step: int
    checkpoint: int | None  # the step of the last good checkpoint; None if there is none
    message: str
    versions: str = VERSIONS
    made_of: str = ""  # the content of the caller's own classes and functions; left out if there are none

    @classmethod
    def of(cls, experiment: str, error: Diverged, made: Made | None = None) -> Divergence:
        parts = (error.seed, error.what, error.gvf, str(error.value), error.step, error.checkpoint, str(error))
        return cls(experiment, *parts, made_of="" if made is None else made.text)

    @property
    def sentence(self) -> str:
        """'the loss of Q of 'left' became nan'."""
        return f"the {self.what}{f' of {self.gvf!r}' if self.gvf else ''} became {self.value}"

    def to_bytes(self) -> bytes:
        fields = {name: value for name, value in asdict(self).items() if name != "made_of" or value}
        return (json.dumps({**fields, "sha256": _checksum(fields)}, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, raw: bytes, name: str) -> Divergence:
        """The record in a file; raises CorruptFile, which names the file."""
        try:
            fields = json.loads(raw)
            if fields.pop("sha256") != _checksum(fields):
                raise ValueError("checksum")
            if {*fields, "made_of"} != {*KINDS} or not all(type(value) in KINDS[name] for name, value in fields.items()):
                raise ValueError("fields")
            return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CorruptFile(f"{name}: damaged (its checksum does not match); delete it to run the seed again.") from None


KINDS = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(Divergence).items()}  # of the fields in a file


def _checksum(fields: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


DESCRIBED = "experiment.json"
LARGEST_RECORD = 1_000_000  # bytes of a record of divergence
DIVERGED = ".diverged.json"
CLAIMS = (".claim", ".claim.held")
AGAIN = "Every finished result is kept, and running again does only what is missing."


class Store:
    """Results of experiments in a folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = as_path(folder, "folder")
        self._indices: dict[str, Index] = {}
        self._plans: dict[str, Plan] = {}
        self._uncompared: list[str] = []  # what is not known of stored runs
        self._aside: list[str] = []  # what was wrong with files that were set aside, since `warn` last named them

    def path(self, experiment: Experiment, seed: int) -> Path:
        return self.folder / experiment.hash / _name(seed)

    def prepare(self, experiments: Iterable[Experiment], verify: bool = False) -> None:
        """Make the folders and write the experiments, so that a full or read-only disk is noticed before the first step.

        A broken experiment.json, or another experiment's, is written anew.
        verify: read every stored file again, also those that were found whole before.
        """
        for experiment in {e.hash: e for e in experiments}.values():
            index = self._index(experiment)
            if verify:
                index.clear()
            folder = self.folder / experiment.hash
            self._describe(folder / DESCRIBED, experiment, index)
            sweep_up(folder)
            for claim in [each for each in _listed(folder) if each.endswith(CLAIMS)]:
                remove_unheld(folder / claim)

    def _describe(self, path: Path, experiment: Experiment, index: Index) -> None:
        """Write experiment.json, unless it is there and right."""
        wanted = experiment.json.encode()
        try:
            status = path.stat()
            if index.knows(DESCRIBED, status):
                return
            if status.st_size == len(wanted) and read_whole(path) == wanted:
                index.add(DESCRIBED, status)
                return
        except OSError:  # there is none, or it cannot be read
            pass
        if path.is_symlink() or (path.exists() and not path.is_file()):
            self._set_aside(path, f"{path}: is no file")
        self._write(path, wanted)

    def has(self, experiment: Experiment, seed: int) -> bool:
        """Whether an undamaged result, or the record of a divergence, is stored; other files are renamed, and `warn` says so."""
        path, index = self.path(experiment, seed), self._index(experiment)
        readers: tuple[tuple[Path, Callable[[Experiment, int], object]], ...]
        readers = ((path, self.load), (_diverged(path), self.divergence))
        for file, reader in readers:
            try:
                status = file.stat()
                if index.knows(file.name, status):
                    return True
                if reader(experiment, seed) is not None:
                    index.add(file.name, status)
                    return True
            except FileNotFoundError:
                if file.is_symlink():
                    self._set_aside(file, f"{file}: is a link to nothing")
            except CorruptFile as error:
                self._set_aside(file, str(error))
            except OSError as error:
                if not file.is_symlink():
                    raise self._unreadable(file, error) from None
                self._set_aside(file, f"{file}: {error.strerror}")
        return False

    def save_indices(self) -> None:
        for index in self._indices.values():
            index.save()

    def warn(self) -> None:
        """Say which files were set aside since the last time, and what could not be compared."""
        if self._uncompared:
            what = ", ".join(self._uncompared)
            self._uncompared.clear()
            warnings.warn(
                f"results: stored runs in {self.folder} are used without comparing {printable(what)}; if it has changed since, "
                "delete them.",
                stacklevel=3,
            )
        if not self._aside:
            return
        count, first = len(self._aside), self._aside[0].rpartition("; ")[0] or self._aside[0]
        more = f", and {count - 1} more" if count > 1 else ""
        self._aside.clear()
        warnings.warn(f"results: {first}{more}; set aside with the ending .damaged, to be run again.", stacklevel=3)

    def unfinished(self, experiment: Experiment, seeds: Iterable[int]) -> list[int]:
        """The seeds among these of which there is neither a result nor a record of divergence, without reading files."""
        names = {*_listed(self.folder / experiment.hash)}
        return [seed for seed in seeds if names.isdisjoint((_name(seed), _name(seed, DIVERGED)))]

    def diverged(self, experiment: Experiment, seeds: Iterable[int]) -> list[int]:
        names = {*_listed(self.folder / experiment.hash)}
        lost = [seed for seed in seeds if _name(seed, DIVERGED) in names and _name(seed) not in names]
        return [seed for seed in lost if self.divergence(experiment, seed) is not None]

    def load(self, experiment: Experiment, seed: int) -> Part:
        """One seed's result; raises CorruptFile if the file is damaged or of another run, FileNotFoundError without one."""
        path = self.path(experiment, seed)
        try:
            arrays, metadata = read(path)
            self._check_run(path, experiment, seed, metadata)
            return self._checked(experiment, Part.from_arrays(arrays, str(path)), str(path))
        except CorruptFile:
            self._index(experiment).forget(path.name)
            raise
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unreadable(path, error) from None

    def mse(self, experiment: Experiment, seed: int) -> np.ndarray:
        """The errors [t, gvf] of one seed; of a file that was found whole and has not changed since, no more is read."""
        path = self.path(experiment, seed)
        if not self._index(experiment).knows(path.name, path.stat()):
            return self.load(experiment, seed).mse
        mse, metadata = read_one(path, "mse")
        self._check_run(path, experiment, seed, metadata)
        return mse

    def _check_run(self, path: Path, experiment: Experiment, seed: int, metadata: Mapping[str, str]) -> None:
        """Refuse the file of another run, or of one made before the caller's own classes and functions were edited."""
        if {k: v for k, v in metadata.items() if k != KEPT} != {"experiment": experiment.hash, "seed": str(seed)}:
            raise _another(path, str(metadata.get("experiment")), str(metadata.get("seed")))
        made, uncompared = experiment.made_of, list[str]()
        if made is None:
            return
        if changed := compared(metadata.get(KEPT), made, uncompared.append):
            raise CorruptFile(f"{path}: was made before {changed} changed; delete it to run the seed again.")
        self._uncompared += [each for each in uncompared if each and each not in self._uncompared]

    def _checked(self, experiment: Experiment, part: Part, name: str) -> Part:
        """The part, if it has the measurements and the sizes of its experiment."""
        if experiment.hash not in self._plans:
            self._plans[experiment.hash] = experiment.plan
        plan = self._plans[experiment.hash]
        if tuple(part.steps.tolist()) != plan.evaluations or tuple(part.snapshot_steps.tolist()) != plan.snapshots:
            raise misfit(name, "the times of its measurements are others than the experiment's")
        if part.mse.shape[1] != len(experiment.questions):
            raise misfit(name, f"it has {part.mse.shape[1]} questions, not {len(experiment.questions)}")
        world = experiment.world
        if isinstance(world, MDP) and {part.visits.shape[1:], part.behaviour.shape[1:]} != {(world.states, world.actions)}:
            raise misfit(name, f"it has other states or actions than the {world.states} and {world.actions} of the world")
        return part

    def divergence(self, experiment: Experiment, seed: int) -> Divergence | None:
        """How a run diverged; None if it did not.  A stored result counts more than an older record."""
        path = self.path(experiment, seed)
        file = _diverged(path)
        if path.exists() or not file.exists():
            return None
        try:
            record = Divergence.from_bytes(read_whole(file, LARGEST_RECORD), str(file))
        except Irregular as error:
            raise CorruptFile(f"{file}: {error.strerror}; delete it to run the seed again.") from None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(file, error) from None
        if (record.experiment, record.seed) != (experiment.hash, seed):
            raise _another(file, record.experiment, str(record.seed))
        self._check_run(file, experiment, seed, {"experiment": experiment.hash, "seed": str(seed), KEPT: record.made_of})
        return record

    def save(self, experiment: Experiment, seed: int, raw: bytes) -> None:
        self._write(self.path(experiment, seed), raw)

    def save_divergence(self, experiment: Experiment, divergence: Divergence) -> None:
        self._write(_diverged(self.path(experiment, divergence.seed)), divergence.to_bytes())

    def claim(self, experiment: Experiment, seed: int, steal: bool = False) -> Lock | None:
        """The right to run this seed, or None while another process has it; ends with `release` or with the process.

        steal: have it also while another process has it: both may finish, with the same bytes.
        """
        path = self.path(experiment, seed).with_suffix(CLAIMS[0])
        try:
            return lock(path) or (Lock(path, None) if steal else None)
        except OSError as error:
            raise self._sentence(error) from None

    def claimed_by(self, experiment: Experiment, seed: int) -> Owner | None:
        return owner(self.path(experiment, seed).with_suffix(CLAIMS[0]))

    def _index(self, experiment: Experiment) -> Index:
        made = experiment.made_of
        run = experiment.hash if made is None else f"{experiment.hash}/{hashlib.sha256(made.text.encode()).hexdigest()}"
        if run not in self._indices:
            self._indices[run] = Index(self.folder / experiment.hash, run)
        return self._indices[run]

    def _set_aside(self, file: Path, why: str) -> None:
        """Rename a file that is not what its name says."""
        number, place = 1, file.with_suffix(".damaged")
        while os.path.lexists(place):
            number, place = number + 1, file.with_suffix(f".damaged-{number + 1}")
        try:
            file.rename(place)
        except FileNotFoundError:  # another process has done it
            return
        except OSError as error:
            raise self._sentence(error) from None
        self._aside.append(why)

    def _write(self, path: Path, raw: bytes) -> None:
        try:
            write_whole(path, raw)
        except OSError as error:
            raise self._sentence(error) from None

    def _sentence(self, error: OSError) -> StoreError:
        return StoreError(
            f"results: cannot write to {self.folder} ({error.strerror}); free some space or choose another folder. {AGAIN}"
        )

    def _unreadable(self, path: Path, error: OSError) -> StoreError:
        return StoreError(f"results: cannot read {path} ({error.strerror}); make it readable, or delete it to run it again.")


def _name(seed: int, ending: str = ".safetensors") -> str:
    return f"seed-{seed:04d}{ending}"


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _diverged(path: Path) -> Path:
    """The file that stands in the place of a result if the run diverged."""
    return path.with_suffix(DIVERGED)


def _another(path: Path, experiment: str, seed: str) -> CorruptFile:
    return CorruptFile(f"{path}: belongs to another run (experiment {experiment:.40}, seed {seed:.20}); delete it or rename it.")
