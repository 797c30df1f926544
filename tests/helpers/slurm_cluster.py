"""A SLURM cluster of one node on this machine's loopback interface: munged, slurmctld and slurmd in a folder of their own.

It needs the programs of Debian's packages slurm-wlm and munge and no service manager, no control groups and no accounts.  Jobs
get the cores that the configuration says, not those that the machine has, so that several run side by side.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])  # where the daemons are
READY = 60.0  # seconds
CONFIGURATION = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={jobs} RealMemory={memory} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(NamedTuple):
    """A running cluster."""

    folder: Path
    env: dict[str, str]  # of programs that use it

    def __call__(self, *command: str) -> str:
        """What a command of SLURM prints."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60, check=True).stdout

    def running(self) -> list[str]:
        """The jobs that are running, the oldest first."""
        return sorted(self("squeue", "--noheader", "--states=RUNNING", "--format=%i").split(), key=int)

    def submitted(self) -> int:
        """How many jobs were ever submitted."""
        return (self.folder / "slurmctld.log").read_text().count("_slurm_rpc_submit_batch_job: JobId=")


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextmanager
def slurm(jobs: int) -> Iterator[Slurm]:
    """A cluster on which this many jobs of one core and 2 GB run side by side; everything has ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # the path of a socket must be short
    log = folder / "daemons.log"
    started: list[subprocess.Popen] = []
    env = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    controller, node = _free_ports(2)
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    sizes = {"jobs": jobs, "memory": 2048 * jobs, "controller": controller, "node": node}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, user=user, folder=folder, **sizes))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o711)  # munged demands that everybody can reach its socket

    def start(*command: str) -> None:
        with log.open("a") as out:
            started.append(subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True))

    cluster = Slurm(folder, env)
    try:
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid", "log-file": "munge.log"}
        paths = [f"--{option}={folder / name}" for option, name in {**files, "seed-file": "munge.seed"}.items()]
        start("munged", "--foreground", "--num-threads=2", *paths)
        _wait_for((folder / "munge.socket").exists, folder)
        start("slurmctld", "-D", "-i", "-f", env["SLURM_CONF"])
        start("slurmd", "-D", "-f", env["SLURM_CONF"])
        _wait_for(lambda: _is_idle(cluster), folder)
        yield cluster
    finally:
        _end(cluster, started)
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _is_idle(cluster: Slurm) -> bool:
    try:
        return cluster("sinfo", "--noheader", "--format=%T").strip() == "idle"
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False


def _wait_for(ready: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + READY
    while not ready():
        if time.monotonic() > deadline:
            said = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(folder.glob("*.log"))]
            raise RuntimeError("SLURM did not start.\n" + "\n".join(said))
        time.sleep(0.2)


def _end(cluster: Slurm, started: list[subprocess.Popen]) -> None:
    """Cancel the jobs, end the daemons, the last one first, and kill what is left of either."""
    with contextlib.suppress(subprocess.SubprocessError):
        cluster("scancel", f"--user={getpass.getuser()}")
        deadline = time.monotonic() + 20
        while cluster("squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.2)
    for process in reversed(started):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pid in of_the_cluster(cluster.folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def of_the_cluster(folder: Path) -> list[int]:
    """The processes whose environment names a cluster's configuration, which its daemons and jobs have, without this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"SLURM_CONF={folder / 'slurm.conf'}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]
