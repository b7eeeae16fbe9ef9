"""Seconds from `apply` to the first line of rank 0, for an MPIJob of two workers beside a bare pod, and where they go.

    python -m benchmarks.first_line [--rounds N]

Needs a cluster with mpi-operator and the image of hello-mpi: the current context of KUBECONFIG. Both are measured in
turn, in one run; times come from the timestamps of the cluster's logs, so the machine that runs this should keep the
same clock. They are read when all is over: a look at a cluster on the same machine takes time from what is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

QUIET_SECONDS = 6.0
"""Seconds after `apply` in which nothing else is asked of the cluster."""

IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"
JOB = "hello-mpi-multi-node"
BARE_JOB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bare"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": IMAGE, "command": ["echo", "rank 0"]}],
    },
}


def kubectl(*arguments: str, text: str | None = None) -> str:
    """Run kubectl and return its stdout; a failure ends the benchmark."""
    done = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def first_line(pod: str, begin: str) -> float:
    """Wait for the line of `pod`'s log that begins with `begin`, and return when it was written."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done = subprocess.run(["kubectl", "logs", "--timestamps", pod], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            stamp, _, text = line.partition(" ")
            if text.startswith(begin):
                return seconds(stamp)
        time.sleep(0.2)
    sys.exit(f"{pod} did not say {begin!r} in two minutes")


def seconds(stamp: str) -> float:
    """Return a timestamp of Kubernetes, to the nanosecond or to the second, as seconds since 1970."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def bare() -> dict[str, float]:
    """Measure a pod with one container."""
    begin = time.time()
    kubectl("apply", "-f", "-", text=json.dumps(BARE_JOB))
    time.sleep(QUIET_SECONDS)
    first = first_line("bare", "rank 0")
    kubectl("delete", "pod", "bare", "--wait")
    return {"bare pod": first - begin}


def overlay(folder: Path) -> str:
    """Build hello-mpi, and return an overlay of its multi-node overlay that keeps the workers for their logs."""
    build = [sys.executable, "-m", "packager", "build", "hello-mpi", "--format", "dir", "-d", str(folder)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    patch = [{"op": "replace", "path": "/spec/runPolicy/cleanPodPolicy", "value": "None"}]
    kustomization = {
        "resources": ["hello-mpi/quickstart/k8s/mlops/multi-node"],
        "patches": [{"target": {"kind": "MPIJob"}, "patch": json.dumps(patch)}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization), encoding="utf-8")
    return str(folder)


def job(folder: str) -> dict[str, float]:
    """Measure the MPIJob, and where its time goes."""
    begin = time.time()
    kubectl("apply", "-k", folder)
    applied = time.time()
    time.sleep(QUIET_SECONDS)
    while not (launchers := [name for name in kubectl("get", "pods", "-oname").split() if "launch" in name]):
        time.sleep(1)
    workers = [first_line(f"{JOB}-worker-{index}", f"{JOB}-worker-{index}: ready") for index in (0, 1)]
    starting = first_line(launchers[0], "starting 2 ranks")
    first = first_line(launchers[0], "rank 0")
    kubectl("delete", "-k", folder, "--wait")
    while kubectl("get", "pods", "-oname").strip():
        time.sleep(0.2)
    return {
        "MPIJob": first - begin,
        "  apply returns": applied - begin,
        "  both workers listen": max(workers) - begin,
        "  mpirun starts": starting - begin,
    }


def main() -> None:
    """Measure in turn and print medians and the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    results: dict[str, list[float]] = {}
    ratios = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = overlay(Path(temporary))
        for count in range(rounds + 1):
            one: dict[str, Any] = {**bare(), **job(folder)}
            if count == 0:
                continue  # the first warms caches
            ratios.append(one["MPIJob"] / one["bare pod"])
            for name, value in one.items():
                results.setdefault(name, []).append(value)
    for name, values in results.items():
        print(f"{name:<28} {statistics.median(values):6.2f} s   ({min(values):.2f} to {max(values):.2f})")
    print(f"{'ratio MPIJob / bare pod':<28} {statistics.median(ratios):6.2f}     (goal: at most 4)")


if __name__ == "__main__":
    main()
