"""Write the errors that `gvfx demo` shows beside its own runs: python tools/headline_errors.py [RESULTS]

They are those of the runs that `gvfx reproduce headline` stored in the folder (default: results).
"""

from __future__ import annotations

import sys
from pathlib import Path

from gvfx.experiments.store import Store
from gvfx_paper.items import ITEMS, Source
from gvfx_paper.items.curves import load_tuned
from gvfx_paper.items.exhibits import Build
from gvfx_paper.items.headline import STORED, errors, write_errors


def main(folder: Path) -> int:
    item = ITEMS["headline"]
    source = Source(Store(folder), None, load_tuned(folder))
    if not item.is_complete(source):
        print(f"{folder}: the runs of `gvfx reproduce headline` are not all there; run it first.", file=sys.stderr)
        return 2
    build = Build(source.of(item), item)
    write_errors(errors(build), build.provenance.versions)
    print(f"wrote {STORED}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("results")))
