"""A folder of results: one file per (experiment hash, seed), written atomically, claimed while it is run.

results/<hash>/experiment.json   what was run
results/<hash>/seed-0007.safetensors
results/<hash>/seed-0007.diverged.json   in its place, if the run diverged: step, GVF and value
results/<hash>/seed-0007.claim   locked by the process that runs it; the lock ends with the process
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from gvfx.errors import StoreError
from gvfx.experiments.divergence import Divergence
from gvfx.experiments.specification import Experiment
from gvfx.files import write_whole
from gvfx.locks import Lock, lock
from gvfx.running.record import Part
from gvfx.tensors import CorruptFile, unpack


class Store:
    """Results of experiments in a folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, experiment: Experiment, seed: int) -> Path:
        return self.folder / experiment.hash / f"seed-{seed:04d}.safetensors"

    def prepare(self, experiments: Iterable[Experiment]) -> None:
        """Make the folders and write the experiments, so that a full or read-only disk is noticed before the first step."""
        for experiment in experiments:
            described = self.folder / experiment.hash / "experiment.json"
            if not described.exists():
                self._write(described, experiment.json.encode())

    def has(self, experiment: Experiment, seed: int) -> bool:
        """Whether the run is finished: an undamaged result or the record of its divergence is stored.

        A damaged file is renamed, so that the run is made again.
        """
        path = self.path(experiment, seed)
        for read, file in ((self.load, path), (self.divergence, _diverged(path))):
            try:
                if read(experiment, seed) is not None:
                    return True
            except FileNotFoundError:
                pass
            except CorruptFile:
                with contextlib.suppress(FileNotFoundError):
                    file.replace(file.with_suffix(".damaged"))
        return False

    def is_finished(self, experiment: Experiment, seed: int) -> bool:
        """Whether there is a file of the run's result or divergence, without reading it."""
        path = self.path(experiment, seed)
        return path.exists() or _diverged(path).exists()

    def load(self, experiment: Experiment, seed: int) -> Part:
        """One seed's result; raises CorruptFile if the file is damaged."""
        path = self.path(experiment, seed)
        return Part.from_arrays(unpack(path.read_bytes(), str(path))[0])

    def divergence(self, experiment: Experiment, seed: int) -> Divergence | None:
        """How a run diverged; None if it did not.  A stored result counts more than an older record."""
        path = self.path(experiment, seed)
        if path.exists() or not _diverged(path).exists():
            return None
        return Divergence.from_bytes(_diverged(path).read_bytes(), str(_diverged(path)))

    def save(self, experiment: Experiment, seed: int, raw: bytes) -> None:
        self._write(self.path(experiment, seed), raw)

    def save_divergence(self, experiment: Experiment, divergence: Divergence) -> None:
        self._write(_diverged(self.path(experiment, divergence.seed)), divergence.to_bytes())

    def claim(self, experiment: Experiment, seed: int) -> Lock | None:
        """The right to run this seed, or None while another process has it; ends with `release` or with the process."""
        try:
            return lock(self.path(experiment, seed).with_suffix(".claim"))
        except OSError as error:
            raise self._sentence(error) from None

    def _write(self, path: Path, raw: bytes) -> None:
        try:
            write_whole(path, raw)
        except OSError as error:
            raise self._sentence(error) from None

    def _sentence(self, error: OSError) -> StoreError:
        return StoreError(
            f"results: cannot write to {self.folder} ({error.strerror}); free some space or choose another folder. "
            "Every finished result is kept, and running again does only what is missing."
        )


def _diverged(path: Path) -> Path:
    """The file that stands in the place of a result if the run diverged."""
    return path.with_suffix(".diverged.json")
