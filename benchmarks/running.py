"""A task service with 1,000 running jobs: its memory, its watches, and how soon it tells of a change in the cluster.

`python -m benchmarks running`. `mlpack serve` is a process of its own, on one core if there are several; the API server
is the one of the tests, in this process, with pods as large as a real one's.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Result, cpu_seconds, with_children
from benchmarks.service import DIGITS
from tests.service.apiserver import KUBECONFIG, ApiServer, served

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 1_000
ENDED = 100
_SETTLED = 45.0
"""Seconds after the last job runs: longer than any round of the service."""


class _Cluster(ApiServer):
    """Jobs run until they are ended."""

    def __init__(self) -> None:
        super().__init__()
        self.log = b'{"step": 1, "loss": 0.5}\n'
        with self.changed:
            self.put("storageclasses", {"metadata": {"name": "aws-efs"}})
            self.put("nodes", {"metadata": {"name": "n1", "labels": {"kops.k8s.io/ml-instance": "true"}}})

    def run_job(self, job: dict[str, Any]) -> None:
        """Let a Job run; the lock is held."""
        self._put_pod(job, "Running", {"running": {"startedAt": "2026-11-22T10:00:01Z"}})
        self.put("jobs", {**job, "status": {"active": 1, "ready": 1, "startTime": "2026-11-22T10:00:00Z"}})

    def end(self, name: str) -> None:
        """Let a Job succeed."""
        with self.changed:
            job = self.objects["jobs", name]
            ended = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-22T10:00:01Z"}
            self._put_pod(job, "Succeeded", {"terminated": ended})
            self.put("jobs", {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})

    def _put_pod(self, job: dict[str, Any], phase: str, state: dict[str, Any]) -> None:
        template, name = job["spec"]["template"], job["metadata"]["name"]
        container, digest = template["spec"]["containers"][0], "0" * 64
        status = {
            "name": container["name"], "image": container["image"], "imageID": f"{container['image']}@sha256:{digest}",
            "containerID": f"containerd://{digest}", "ready": phase == "Running", "restartCount": 0, "state": state,
        }  # fmt: skip
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        fields: dict[str, Any] = {f"f:{key}": {"f:value": {".": {}}} for key in range(80)}  # 2 KiB, as a kubelet's are
        metadata = {
            "name": f"{name}-x2x9p",
            "labels": {**template["metadata"]["labels"], "job-name": name},
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        }
        self.put(
            "pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {**template["spec"], "nodeName": "n1", "schedulerName": "default-scheduler"},
                "status": {
                    "phase": phase,
                    "conditions": [{"type": kind, "status": "True", "lastProbeTime": None} for kind in kinds],
                    "containerStatuses": [status],
                },
            },
        )


class _Service:
    """`mlpack serve` in a folder."""

    def __init__(self, folder: Path, cluster: _Cluster) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        (folder / "kubeconfig").write_text(KUBECONFIG.format(port=cluster.server_port), encoding="utf-8")
        argv = [sys.executable, "-m", "packager", "serve", "--insecure-no-auth", f"--database={folder / 's.db'}"]
        environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*argv, f"--listen=127.0.0.1:{self.port}"], env=environment, stdout=log, stderr=log
            )

    def end(self) -> None:
        """Let it end."""
        self.process.terminate()
        self.process.wait(30)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status < 300, content
            return json.loads(content)
        finally:
            connection.close()

    def wait(self) -> None:
        """Wait until it answers."""
        while True:
            with suppress(OSError):
                self.call("GET", "/healthz")
                return
            time.sleep(0.1)

    def follow(self, seen: dict[tuple[str, str], float]) -> None:
        """Note when each release has got each status, until the service ends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream"})
            answer = connection.getresponse()
            while line := answer.readline():
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    seen.setdefault((event["release"], event["status"]), time.monotonic())

    def memory(self) -> tuple[int, int]:
        """Return how many KiB the service and the programs that it has started hold, and held at most."""
        processes = with_children(self.process.pid)
        now, most = (sum(_kib(process, key) for process in processes) for key in ("VmRSS", "VmHWM"))
        return now, most


def _kib(process: int, key: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)


def measure(folder: Path) -> Iterator[Result]:
    """Yield the goals: 256 MiB, 2 seconds, 5 watches."""
    seen: dict[tuple[str, str], float] = {}
    with served(_Cluster) as cluster:
        service = _Service(folder, cluster)
        try:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(service.process.pid, cores[:1])
            service.wait()
            service.call("POST", "/v1/definitions", DIGITS)
            threading.Thread(target=service.follow, args=(seen,), daemon=True).start()
            filled = {"taskDef": "digits", "process": {"train": {"steps": 3}}}
            with ThreadPoolExecutor(4) as clients:
                jobs = clients.map(lambda _: service.call("POST", "/v1/jobs", filled), range(JOBS))
                releases = [job["release"] for job in jobs]
            _until(lambda: all((release, "running") in seen for release in releases))
            begun, cpu = time.monotonic(), cpu_seconds(service.process.pid)
            time.sleep(_SETTLED)
            busy = (cpu_seconds(service.process.pid) - cpu) / (time.monotonic() - begun)
            watches = cluster.watching
            seconds = _ends(cluster, releases[:: JOBS // ENDED], seen)
            now, most = service.memory()
            service.end()
            service = _Service(folder, cluster)
            service.wait()
            time.sleep(_SETTLED)
            _, restarted = service.memory()
        finally:
            service.end()
    yield Result("1,000 running jobs: memory", (now / 1024,), "MiB", 256)
    yield Result("the same, the most it has been", (most / 1024,), "MiB", 256)
    yield Result("the same, the most after a restart", (restarted / 1024,), "MiB", 256)
    yield Result("the same: CPU time while nothing changes", (100 * busy,), "%")
    yield Result("the same: watches", (watches,), "", 5)
    yield Result("the same: a change is told after", tuple(seconds), "s")
    yield Result("the same, the latest of 100", (max(seconds),), "s", 2)


def _ends(cluster: _Cluster, releases: list[str], seen: dict[tuple[str, str], float]) -> list[float]:
    """Return the seconds after which the end of each job is reported."""
    begun = {}
    for release in releases:
        begun[release] = time.monotonic()
        cluster.end(release)
        time.sleep(0.1)
    _until(lambda: all((release, "succeeded") in seen for release in releases))
    return [seen[release, "succeeded"] - begun[release] for release in releases]


def _until(is_true: Any) -> None:
    end = time.monotonic() + 600
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)
