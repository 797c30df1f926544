"""Dask clusters: what is warned of, what is kept when the scheduler is gone, and TLS from Dask's own configuration."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import CancelledError

import pytest
from faults.dask_cluster import cluster
from faults.sweeps import stored
from helpers.experiments import EXPERIMENTS, RUNS

import gvfx
from gvfx.experiments import executors as clusters
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all


@pytest.mark.parametrize(
    ("address", "open_to_others"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("localhost:8786", False),
        ("tls://10.0.0.5:8786", False),
        ("inproc://10.0.0.5/77/1", False),
        ("tcp://10.0.0.5:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("ws://cluster.example.org:8786", True),
        ("cluster:8786", True),
    ],
)
def test_addresses_that_others_can_reach_without_encryption(address, open_to_others):
    assert clusters.is_open(address) == open_to_others


def test_errors_of_the_cluster_are_told_from_those_of_runs():
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    assert clusters.is_lost(CancelledError()) and clusters.is_lost(CommClosedError())
    assert clusters.is_lost(KilledWorker("task", "worker", 3))
    assert not clusters.is_lost(gvfx.InputError("steps: ...")) and not clusters.is_lost(ValueError())


def test_all_workers_are_counted(tmp_path, monkeypatch):
    """Also where the description of the scheduler leaves some out, as that of Dask 2025.7 does beyond five."""
    import distributed

    told = distributed.Client.scheduler_info
    monkeypatch.setattr(distributed.Client, "scheduler_info", lambda self: {**told(self), "workers": {}})
    with cluster(tmp_path / "dask", workers=2) as found, clusters.connected(found.address) as (_, size):
        assert size == 2


def test_a_scheduler_that_dies_is_one_sentence_and_keeps_what_is_finished(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(clusters, "PATIENCE", "1s")
    with cluster(tmp_path / "dask", workers=1) as found:

        def kill(tally):
            if tally.done == 2:
                found.kill_scheduler()

        many = [(experiment, 20) for experiment in EXPERIMENTS]
        with pytest.raises(gvfx.RunError, match=r"^cluster: the scheduler at tcp://127.* is gone; start it again. finished runs"):
            run_all(Store(tmp_path / "results"), many, cluster=found.address, report=kill)
    assert capfd.readouterr().err == ""
    assert len(stored(tmp_path / "results")) >= 2
    assert not list(tmp_path.rglob("*.claim"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_tls_as_dask_is_configured(tmp_path, monkeypatch):
    import dask

    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=gvfx"]
    subprocess.run([*making, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = ("--protocol", "tls", "--tls-ca-file", certificate, "--tls-cert", certificate, "--tls-key", key)
    configured = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
    with cluster(tmp_path / "dask", workers=1, more=files) as found:
        assert found.address.startswith("tls://")
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in configured.items()}):
            assert run_all(Store(tmp_path / "tls"), RUNS[:1], cluster=found.address).done == 3
        with pytest.raises(gvfx.InputError, match="cluster: no Dask scheduler responds at tls://"):
            run_all(Store(tmp_path / "none"), RUNS[:1], cluster=found.address)
