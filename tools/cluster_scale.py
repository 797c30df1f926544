"""The same runs on two local processes and on two Dask workers, side by side: python tools/cluster_scale.py [RUNS]

Prints the seconds of both, starting the local processes included, the size of a stored run, and whether the files are equal.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from distributed import LocalCluster

import gvfx_paper
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all


def main(count: int) -> int:
    experiment = gvfx_paper.paper["distinct"].experiment("GVFExplorer")
    with tempfile.TemporaryDirectory() as scratch:
        local, dask = Path(scratch) / "local", Path(scratch) / "dask"
        run_all(Store(Path(scratch) / "first"), [(experiment, 1)])  # compiles
        begun = time.perf_counter()
        run_all(Store(local), [(experiment, count)], workers=2)
        between = time.perf_counter()
        with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
            started = time.perf_counter()
            run_all(Store(dask), [(experiment, count)], cluster=cluster.scheduler_address)
            ended = time.perf_counter()
        files = sorted(local.rglob("*.safetensors"))
        same = all(file.read_bytes() == (dask / file.relative_to(local)).read_bytes() for file in files)
        print(f"{count} runs of {experiment.steps:,} steps: {between - begun:.0f} s locally, {ended - started:.0f} s with Dask")
        print(f"{files[0].stat().st_size / 1000:.0f} kB per run; {'the same' if same else 'OTHER'} bytes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
