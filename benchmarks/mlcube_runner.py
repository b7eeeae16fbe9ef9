"""Runs cubes with MLCube's own runner for Kubernetes and with `mlpack run`, on one cluster, and prints what both say.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install mlcube==0.0.9 mlcube-k8s==0.0.9 setuptools==68.2.2
    python -m benchmarks.mlcube_runner /tmp/reference/bin/mlcube [--write docs/comparison.md]

Needs the image of hello-mpi on the nodes: the current context of KUBECONFIG. Each case has a namespace of its own for
either program, and a claim on a folder of a node. A program that does not end is stopped after PATIENCE seconds, or
after LONG seconds where a Job is tried five times, as the reference asks for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 90.0
LONG = 400.0

CUBE = """\
name: {name}
docker: {{image: docker.io/mpioperator/mpi-pi:openmpi}}
tasks:
  "false": {{parameters: {{outputs: {{out: {{type: directory, default: out}}}}}}}}
  "true": {{parameters: {{outputs: {{out: {{type: directory, default: out}}}}}}}}
"""
"""The image has no entrypoint: it runs /bin/true and /bin/false, which take no notice of arguments."""

NODE = "/var/tmp"  # noqa: S108 - the node's
"""The folder on the node with the folders of claims."""

BEGIN, END = "<!-- mlcube: begin -->\n", "<!-- mlcube: end -->\n"


@dataclass(frozen=True)
class Case:
    """A case of the comparison.

    Attributes:
        words: The description for the table.
        tasks: The tasks, in order.
        name: The cube's name.
        level: The Pod Security level of the namespace.
        has_claim: Whether the claim exists.
        patience: Seconds after which a program is stopped.
    """

    words: str
    tasks: tuple[str, ...] = ("true",)
    name: str = "hello"
    level: str = "privileged"
    has_claim: bool = True
    patience: float = PATIENCE


CASES = (
    Case("a task that succeeds"),
    Case("a task that fails, and another one after it", ("false", "true"), patience=LONG),
    Case("a cube called `hello_world`", name="hello_world"),
    Case("a namespace that enforces restricted", level="restricted"),
    Case("a claim that does not exist", has_claim=False),
)


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Return the output of kubectl."""
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, check=True)
    return done.stdout


def make_site(case: Case, namespace: str) -> None:
    """Make a namespace, and a claim on a folder of the node."""
    labels = {"pod-security.kubernetes.io/enforce": case.level}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}},
    ]
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"hostPath": {"path": f"{NODE}/{namespace}", "type": "DirectoryOrCreate"}, "capacity": {"storage": "1Gi"}}
    claim = {"volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}}
    if case.has_claim:
        metadata = {"name": "workspace", "namespace": namespace}
        objects += [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace}, "spec": common | volume},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": common | claim},
        ]
    kubectl("apply", "--server-side", "-f", "-", stdin="\n".join(map(json.dumps, objects)))
    if case.has_claim:
        open_folder(namespace)


def open_folder(namespace: str) -> None:
    """Let everybody write to the folder of the claim, which the kubelet makes as root's."""
    container = {
        "name": "main",
        "image": "docker.io/mpioperator/mpi-pi:openmpi",
        "command": ["chmod", "777", "/folder"],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
    }
    folder = {"name": "folder", "hostPath": {"path": f"{NODE}/{namespace}", "type": "DirectoryOrCreate"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [folder]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": namespace, "namespace": "default"}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps(pod))
    kubectl("wait", "-n", "default", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{namespace}", "--timeout=120s")
    kubectl("delete", "pod", "-n", "default", namespace, "--wait=false")


def run(argv: list[str], folder: Path, patience: float) -> str:
    """Return how a program has ended, and the last thing that it said."""
    begin = time.monotonic()
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    with subprocess.Popen(
        argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        try:
            output, _ = child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            child.terminate()
            output, _ = child.communicate()
            return f"had not ended after {patience:g} s; {_last(output)}"
    return f"exit code {child.returncode} after {time.monotonic() - begin:.0f} s; {_last(output)}"


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("hint: ")]
    # The reference prints the answer of the API server as one line, with its body somewhere in it.
    answer = re.compile(r'"message[\\"]*:[\\"]*(.*?)[\\"]*,[\\"]*reason')
    lines = [re.sub(r"\\", "", match[1]) if (match := answer.search(line)) else line for line in lines]
    important = [line for line in lines if re.search(r"^error: |Job (is|has) |Invalid value|has succeeded", line)]
    line = (important or lines or ["nothing"])[-1]
    return f"`{re.sub(r'mlc-[0-9a-f]+-[a-z]+', 'NAMESPACE', line)[:200]}`".replace("|", "\\|")


def jobs(namespace: str) -> str:
    """Return the Jobs in a namespace, in the order in which they were made, with the conditions that hold."""
    items = json.loads(kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
    items.sort(key=lambda item: item["metadata"]["creationTimestamp"])
    states = []
    for item in items:
        held = [entry["type"] for entry in item["status"].get("conditions", ()) if entry["status"] == "True"]
        task = item["spec"]["template"]["spec"]["containers"][0]["args"][0]
        states.append(f"{task}: {', '.join(held) or 'no condition'}")
    return "; ".join(states) or "none"


def measure(case: Case, reference: str) -> list[str]:
    """Return the row of a case."""
    token = secrets.token_hex(3)
    cells = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cube").mkdir()
        (folder / "cube/mlcube.yaml").write_text(CUBE.format(name=case.name), encoding="utf-8")
        tasks = ",".join(case.tasks)
        for program in ("reference", "mlpack"):
            namespace = f"mlc-{token}-{program}"
            make_site(case, namespace)
            try:
                if program == "reference":
                    options = [f"--task={tasks}", "-Prunner.pvc=workspace", f"-Prunner.namespace={namespace}"]
                    argv = [reference, "run", "--mlcube=cube", "--platform=k8s", *options]
                else:
                    options = ["--task", tasks, "--claim", "workspace", "-n", namespace, "--patience", "30s"]
                    argv = [str(Path(sys.executable).parent / "mlpack"), "run", "cube", *options]
                cells += [run(argv, folder, case.patience), jobs(namespace)]
            finally:
                kubectl("delete", "namespace", namespace, "--wait=false")
                kubectl("delete", "pv", namespace, "--ignore-not-found", "--wait=false")
    return [case.words, *cells]


def main() -> None:
    """Try all cases side by side, and print or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mlcube_runner", description=__doc__)
    parser.add_argument("reference", metavar="MLCUBE", help="the program mlcube, with mlcube-k8s beside it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the table in this document")
    options = parser.parse_args()
    with ThreadPoolExecutor(len(CASES)) as pool:
        rows = list(pool.map(lambda case: measure(case, options.reference), CASES))
    headings = ["case", "mlcube-k8s 0.0.9", "its Jobs", "`mlpack run`", "its Jobs"]
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, ["---"] * len(headings), *rows)]
    table = "\n".join(lines) + "\n"
    if options.write is None:
        sys.stdout.write(table)
        return
    before, _, rest = options.write.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    options.write.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
