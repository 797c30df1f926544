"""The record of a run that diverged, which a store keeps in the place of its result."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version

from gvfx import __version__
from gvfx.errors import Diverged
from gvfx.tensors import CorruptFile

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

    @classmethod
    def of(cls, experiment: str, error: Diverged) -> Divergence:
        parts = (error.seed, error.what, error.gvf, str(error.value), error.step, error.checkpoint, str(error))
        return cls(experiment, *parts)

    @property
    def said(self) -> str:
        """'the loss of Q of 'left' became nan'."""
        return f"the {self.what}{f' of {self.gvf!r}' if self.gvf else ''} became {self.value}"

    def to_bytes(self) -> bytes:
        """JSON with a checksum."""
        return (json.dumps({**asdict(self), "sha256": _checksum(asdict(self))}, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, raw: bytes, name: str) -> Divergence:
        """The record in a file; raises CorruptFile, which names the file."""
        try:
            fields = json.loads(raw)
            if fields.pop("sha256") != _checksum(fields):
                raise ValueError("checksum")
            if {*fields} != {*KINDS} or not all(type(value) in KINDS[name] for name, value in fields.items()):
                raise ValueError("fields")
            return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CorruptFile(f"{name}: damaged (its checksum does not match); delete it to run the seed again.") from None


KINDS: dict[str, tuple[type, ...]] = {  # of the fields of a record in a file
    "experiment": (str,),
    "seed": (int,),
    "what": (str,),
    "gvf": (str, type(None)),
    "value": (str,),
    "step": (int,),
    "checkpoint": (int, type(None)),
    "message": (str,),
    "versions": (str,),
}


def _checksum(fields: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
