"""Seconds from `apply` to the first line of rank 0, for a Job, a JobSet and an MPIJob beside bare pods, in one run.

    python -m benchmarks.first_line [--rounds N]

Needs a cluster with JobSet, mpi-operator and the image of hello-mpi: the current context of KUBECONFIG. All of them are
measured in turn, in one run. Of the bare pods, one has an init container that ends at once, as ours have one: what
comes after an init container waits for the kubelet, which looks once a second whether a container has ended.

Times come from the timestamps of the cluster's logs, so the machine that runs this should keep the same clock. They are
read when all is over: a look at a cluster on the same machine takes time from what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

QUIET_SECONDS = 6.0
"""Seconds after `apply` in which nothing else is asked of the cluster."""

IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"
BARE = "bare pod"
WITH_INIT = "bare pod with an init container"
GOALS = {"Job": 1.3, "JobSet": 1.8, "MPIJob": 2.0}
"""How many times as long as the bare pod with an init container each may take."""

# The name of node 1, with which the nodes connect, is known to the cluster's DNS a little later than node 0 starts.
SCRIPT = """\
#!/bin/sh
echo "rank ${JOB_COMPLETION_INDEX:-0}"
[ -z "${JOBSET_NAME:-}" ] || [ "$JOB_COMPLETION_INDEX" != 0 ] || {
  until getent hosts "$JOBSET_NAME-node-0-1.$JOBSET_NAME" >/dev/null; do sleep 0.05; done
  echo "node 1 has a name"
}
"""
SPEC = """\
name: first-line
title: First line
framework: sh
image: {name: mpioperator/mpi-pi, tag: openmpi}
files: [run.sh]
overlays:
  job: {kind: Job}
  jobset: {kind: JobSet, rendezvous: none, success: [node], roles: {node: {replicas: 2}}}
variants:
  - {script: run.sh}
"""


def bare_pod(name: str, init: Sequence[str] = ()) -> dict[str, Any]:
    """Return a pod whose one container prints a line, after an init container for each name in `init`."""
    containers = [{"name": entry, "image": IMAGE, "command": ["true"]} for entry in init]
    main = [{"name": "main", "image": IMAGE, "command": ["echo", "rank 0"]}]
    spec = {"restartPolicy": "Never", "initContainers": containers, "containers": main}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


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


def bare(row: str, manifest: dict[str, Any]) -> dict[str, float]:
    """Measure a bare pod, of the name `row` in the table."""
    begin = time.time()
    kubectl("apply", "-f", "-", text=json.dumps(manifest))
    time.sleep(QUIET_SECONDS)
    name = manifest["metadata"]["name"]
    first = first_line(name, "rank 0")
    kubectl("delete", "pod", name, "--wait")
    return {row: first - begin}


def build(model: str, folder: Path) -> None:
    """Build a package into a folder."""
    command = [sys.executable, "-m", "packager", "build", model, "--format", "dir", "-d", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def overlays(folder: Path) -> dict[str, str]:
    """Build what is measured, and return the folder of each kind's overlay; the MPIJob's keeps its workers' logs."""
    model = folder / "model"
    model.mkdir()
    (model / "spec.yaml").write_text(SPEC, encoding="utf-8")
    (model / "run.sh").write_text(SCRIPT, encoding="utf-8")
    (model / "run.sh").chmod(0o755)
    build(str(model), folder)
    build("hello-mpi", folder)
    patch = [{"op": "replace", "path": "/spec/runPolicy/cleanPodPolicy", "value": "None"}]
    kustomization = {
        "resources": ["hello-mpi/quickstart/k8s/mlops/multi-node"],
        "patches": [{"target": {"kind": "MPIJob"}, "patch": json.dumps(patch)}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization), encoding="utf-8")
    ours = f"{folder}/first-line/quickstart/k8s/mlops"
    return {"Job": f"{ours}/job", "JobSet": f"{ours}/jobset", "MPIJob": str(folder)}


def pods(begin: str) -> list[str]:
    """Wait for pods whose names begin with `begin`, and return their names."""
    while not (names := [name for name in kubectl("get", "pods", "-oname").split() if name.startswith(f"pod/{begin}")]):
        time.sleep(1)
    return names


def applied(kind: str, folder: str) -> dict[str, float]:
    """Measure the workload of a kind, and where its time goes."""
    begin = time.time()
    kubectl("apply", "-k", folder)
    moments = {f"{kind}: apply returns": time.time()}
    time.sleep(QUIET_SECONDS)
    if kind == "MPIJob":
        name = "hello-mpi-multi-node"
        [rank_0] = pods(f"{name}-launcher")
        workers = [first_line(f"{name}-worker-{index}", f"{name}-worker-{index}: ready") for index in (0, 1)]
        moments[f"{kind}: both workers listen"] = max(workers)
        moments[f"{kind}: mpirun starts"] = first_line(rank_0, "starting 2 ranks")
    elif kind == "JobSet":
        [rank_0] = pods("first-line-jobset-node-0-0-")
        [rank_1] = pods("first-line-jobset-node-0-1-")
        moments[f"{kind}: first line of node 1"] = first_line(rank_1, "rank 1")
        moments[f"{kind}: node 0 knows node 1's name"] = first_line(rank_0, "node 1 has a name")
    else:
        [rank_0] = pods("first-line-job-")
    moments[kind] = first_line(rank_0, "rank 0")
    kubectl("delete", "-k", folder, "--wait")
    while kubectl("get", "pods", "-oname").strip():
        time.sleep(0.2)
    return {name: moment - begin for name, moment in moments.items()}


def main() -> None:
    """Measure in turn and print medians, ratios and the machine's load."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    results: dict[str, list[float]] = {}
    loads = []
    with tempfile.TemporaryDirectory() as temporary:
        folders = overlays(Path(temporary))
        for count in range(rounds + 1):
            one = {**bare(BARE, bare_pod("bare")), **bare(WITH_INIT, bare_pod("bare-with-init", ["identity"]))}
            for kind, folder in folders.items():
                one |= applied(kind, folder)
            if count == 0:
                continue  # the first warms caches
            loads.append(os.getloadavg()[0])
            for name, value in one.items():
                results.setdefault(name, []).append(value)
    for name, values in results.items():
        print(f"{name:<36} {_summary(values)} s")
    for kind, goal in GOALS.items():
        for base in (WITH_INIT, BARE):
            ratios = [whole / part for whole, part in zip(results[kind], results[base], strict=True)]
            note = f"goal: at most {goal}" if base == WITH_INIT else "no goal"
            print(f"{f'{kind} / {base}':<44} {_summary(ratios)}   {note}")
    print(f"{'load of the last minute':<36} {_summary(loads)}")


def _summary(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
