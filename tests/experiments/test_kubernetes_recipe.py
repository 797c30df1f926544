"""The recipe for Kubernetes in docs/cluster.md: the manifest fits together, and its commands run as they are written.

There is no Kubernetes here.  The slow test does what it would do: it makes the image by the lines of the Dockerfile, in a virtual
environment, and starts the containers' commands in a network of their own, in which the service's name leads to the scheduler.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from faults.sweeps import runs, stored
from helpers.blocks import ROOT, blocks

import gvfx
from gvfx.experiments.store import Store
from gvfx.experiments.sweep import run_all

PAGE = "docs/cluster.md"
PATIENCE = 120.0  # seconds that anything may take, but for installing
KNOWN = ("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER")  # instructions that `built` carries out or checks


def block(language: str, part: str = "") -> str:
    (found,) = [b.code for b in blocks(PAGE) if b.language == language and part in b.code]
    return found


def manifest() -> dict[tuple[str, str], dict]:
    """The objects by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(block("yaml"))}


def pods() -> dict[str, dict]:
    """The pods of the deployments: labels and the only container."""
    found = {}
    for (kind, name), each in manifest().items():
        if kind == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            found[name] = {"labels": each["spec"]["template"]["metadata"]["labels"], **container}
    return found


def instructions() -> list[tuple[str, str]]:
    """The lines of the Dockerfile."""
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in block("dockerfile").splitlines() if line]


def selects(selector: dict, labels: dict) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def test_the_service_leads_to_the_scheduler_alone_and_the_workers_to_the_service():
    scheduler, worker = pods()["dask-scheduler"], pods()["dask-worker"]
    (service,) = [each for (kind, _), each in manifest().items() if kind == "Service"]
    selector = service["spec"]["selector"]
    assert selects(selector, scheduler["labels"]) and not selects(selector, worker["labels"])
    (port,), (listening,) = service["spec"]["ports"], scheduler["ports"]
    assert port.get("targetPort", port["port"]) == listening["containerPort"] == 8786  # where Dask listens unless it is told
    assert "--port" not in scheduler["command"]
    assert scheduler["readinessProbe"]["tcpSocket"]["port"] == 8786
    assert f"tcp://{service['metadata']['name']}:{port['port']}" in worker["command"]
    (forwarded,) = re.findall(r"kubectl port-forward service/(\S+) (\d+)", block("sh", "kubectl"))
    assert forwarded == (service["metadata"]["name"], str(port["port"]))
    assert f"--cluster tcp://127.0.0.1:{port['port']}" in block("sh", "kubectl")


def test_deployments_select_their_own_pods_and_the_policy_all_of_them():
    for name, pod in pods().items():
        selector = manifest()["Deployment", name]["spec"]["selector"]["matchLabels"]
        assert selects(selector, pod["labels"])
        assert not any(selects(selector, other["labels"]) for key, other in pods().items() if key != name)
    (policy,) = [each["spec"] for (kind, _), each in manifest().items() if kind == "NetworkPolicy"]
    ((source,),) = [rule["from"] for rule in policy["ingress"]]
    assert policy["policyTypes"] == ["Ingress"] and [*source] == ["podSelector"]
    for pod in pods().values():
        assert selects(policy["podSelector"]["matchLabels"], pod["labels"])
        assert selects(source["podSelector"]["matchLabels"], pod["labels"])
    assert f"`{'`, `'.join(f'{k}: {v}' for k, v in source['podSelector']['matchLabels'].items())}`" in (ROOT / PAGE).read_text()


def test_the_image_is_the_one_that_is_built_and_of_this_version():
    made = re.findall(r"docker (?:build -t|push) (\S+)", block("sh", "kubectl"))
    images = {pod["image"] for pod in pods().values()}
    assert len(made) == 2 and {*made} == images and next(iter(images)).endswith(f":{gvfx.__version__}")


def test_the_dockerfile_copies_what_exists_and_installs_what_the_project_has():
    lines = instructions()
    assert {name for name, _ in lines} <= {*KNOWN} and lines[0][0] == "FROM"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (base,) = [value for name, value in lines if name == "FROM"]
    (version,) = re.findall(r"^python:(3\.\d+)-slim$", base)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    copied = {part for name, value in lines if name == "COPY" for part in value.split()[:-1]}
    assert all((ROOT / part).exists() for part in copied)
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= copied  # what the package is built from
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", " ".join(value for name, value in lines if name == "RUN"))
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}
    assert dict(lines)["USER"].isdecimal() and dict(lines)["USER"] != "0"  # a number, so that runAsNonRoot can be checked


@pytest.mark.slow
def test_the_manifest_has_the_fields_that_kubernetes_knows():
    validate = pytest.importorskip("kubernetes_validate", reason="make test-clusters installs kubernetes-validate")
    for version in ("1.30", "1.33", validate.latest_version()):
        for each in manifest().values():
            validate.validate(each, version, strict=True)


# --- the containers as processes ---------------------------------------------------------------------------------


def built(folder: Path) -> dict[str, str]:
    """Carry out the Dockerfile with a virtual environment in place of its base image; the environment of its processes."""
    (here := folder / "workdir").mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    env = {"PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.defpath}", "HOME": str(folder), "TMPDIR": str(folder)}
    for name, value in instructions():
        if name == "COPY":
            *sources, target = value.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, here / target)
        elif name == "RUN":
            done = subprocess.run(["sh", "-c", value], cwd=here, env=os.environ | env, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        elif name == "ENV":
            variable, _, given = value.partition("=")
            env[variable] = re.sub(r"^/tmp\b", str(folder), given)
    return env


def links(service: str, port: int) -> dict[str, str]:
    """The variables with which Kubernetes describes a service to every pod; Dask reads those that begin with DASK_."""
    host, name = "10.96.0.17", service.upper().replace("-", "_")
    each = {"SERVICE_HOST": host, "SERVICE_PORT": port, "PORT": f"tcp://{host}:{port}", f"PORT_{port}_TCP_ADDR": host}
    return {f"{name}_{key}": str(value) for key, value in each.items()}


class Network:
    """A network of its own, with the loopback interface alone, in which names lead to it."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.started = folder, []
        (folder / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename} {' '.join(names)}\n")
        inside = (
            f"mount --bind {shlex.quote(str(folder / 'hosts'))} /etc/hosts && ip link set lo up && echo ready && exec sleep 900"
        )
        call = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", inside]
        self.holder = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.holder.stdout.readline() if self.holder.stdout else ""
        if said.strip() != "ready":
            self.end()
            pytest.skip(f"this system makes no networks for a test: {said.strip()}")

    def start(self, command: list[str], env: dict[str, str], log: str) -> subprocess.Popen:
        enter = ["nsenter", f"--target={self.holder.pid}", "--user", "--net", "--mount", "--preserve-credentials"]
        program = shutil.which(command[0], path=env["PATH"])
        assert program, f"the image has no {command[0]}"
        with (self.folder / log).open("a") as out:
            process = subprocess.Popen(
                [*enter, f"--wd={self.folder}", program, *command[1:]], env=env, stdout=out, stderr=out, start_new_session=True
            )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.holder.kill()
        self.holder.communicate()


@contextmanager
def network(folder: Path, names: list[str]) -> Iterator[Network]:
    made = Network(folder, names)
    try:
        yield made
    finally:
        made.end()
        print("\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in folder.glob("*.log")))


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("unshare", "nsenter", "ip"))), reason="needs unshare, nsenter and ip of Linux")
def test_the_commands_of_the_pods_run_and_store_the_bytes_of_a_local_run(tmp_path):
    """Workers may start before the scheduler, and a pod that is lost is replaced."""
    env = built(tmp_path)
    (service,) = [each for (kind, _), each in manifest().items() if kind == "Service"]
    env |= links(service["metadata"]["name"], service["spec"]["ports"][0]["port"])
    (command,) = [line for line in block("sh", "kubectl").splitlines() if line.startswith("gvfx ")]
    assert " tabular " in command
    small = shlex.split(command.replace(" tabular ", " value-error --seeds 40 "))
    with network(tmp_path, [service["metadata"]["name"]]) as inside:
        worker = pods()["dask-worker"]["command"]
        first, _ = inside.start(worker, env, "first.log"), inside.start(worker, env, "second.log")
        inside.start(pods()["dask-scheduler"]["command"], env, "scheduler.log")
        deadline = time.monotonic() + PATIENCE
        while not all("Registered to:" in (tmp_path / f"{name}.log").read_text() for name in ("first", "second")):
            assert time.monotonic() < deadline, "the workers do not reach the scheduler"
            time.sleep(0.1)
        program = inside.start(small, env, "command.log")
        while len(stored(tmp_path / "results")) < 5:
            assert time.monotonic() < deadline and program.poll() is None, (tmp_path / "command.log").read_text()
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)
        inside.start(worker, env, "third.log")
        assert program.wait(PATIENCE) == 0, (tmp_path / "command.log").read_text()
    run_all(Store(tmp_path / "here"), runs(40), workers=1)
    found = stored(tmp_path / "results")
    assert len(found) == 80 and found == stored(tmp_path / "here")
    assert not list(tmp_path.rglob("*.checkpoint"))
