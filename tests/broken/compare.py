"""Asks other tools about the broken packages, and writes the table of docs/comparison.md.

    python -m tests.broken.compare --kubeconform PROGRAM --schemas WHEEL --crd YAML... -n NAMESPACE >TABLE

PROGRAM is `go install github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0`; WHEEL is that of kubernetes-validate, and
YAML mpi-operator's `manifests/base/kubeflow.org_mpijobs.yaml` or JobSet's release `manifests.yaml`: kubeconform reads
schemas made from these, and downloads none. The cluster has to serve MPIJob and JobSet, whose controllers run. kubectl
and helm are those of `tests.kubectls`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from packager.package.opened import opened
from packager.verify import Checks, verify
from tests import kubectls
from tests.broken import FAULTS, MODELS, Fault, build, make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.problems import Problem

VERSION = kubectls.DEFAULT
KINDS = {
    "Pod": "pod-v1",
    "Job": "job-batch-v1",
    "Deployment": "deployment-apps-v1",
    "PodDisruptionBudget": "poddisruptionbudget-policy-v1",
    "ConfigMap": "configmap-v1",
    "Service": "service-v1",
    "ClusterRoleBinding": "clusterrolebinding-rbac-v1",
}


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools, and the files that they need."""

    kubectl: Path
    helm: Path
    kubeconform: str
    schemas: Path
    cluster: list[str]


@dataclass(frozen=True, slots=True)
class Row:
    """The result of each tool for one package."""

    fault: Fault
    verify: str | None
    kustomize: bool
    kubeconform: bool
    server: bool
    helm: bool


def main() -> int:
    """Print the table; return 1 when `mlpack verify` missed one, or a tool refuses the good package."""
    parser = argparse.ArgumentParser(prog="python -m tests.broken.compare")
    parser.add_argument("--kubeconform", required=True)
    parser.add_argument("--schemas", type=Path, required=True)
    parser.add_argument("--crd", type=Path, nargs="+", required=True)
    parser.add_argument("--context")
    parser.add_argument("-n", "--namespace", required=True)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlpack-compare-") as folder:
        work = Path(folder)
        _write_schemas(asked.schemas, asked.crd, work / "schemas")
        cluster = ["-n", asked.namespace, *([f"--context={asked.context}"] if asked.context else [])]
        tools = Tools(kubectls.kubectl(), kubectls.helm(), asked.kubeconform, work / "schemas", cluster)
        good = {model: build(work / "good" / model, model) for model in MODELS}
        for model, package in good.items():
            nothing = Fault("good", "", lambda _: None, "", "", model=model)
            baseline = _row(nothing, make(package, work / f"copy-of-{model}", nothing), tools, work)
            if any((baseline.verify, baseline.kustomize, baseline.kubeconform, baseline.server, baseline.helm)):
                sys.stderr.write(f"a tool refuses a good package: {baseline}\n")
                return 1
        rows = [_row(fault, make(good[fault.model], work / fault.name, fault), tools, work) for fault in FAULTS]
    sys.stdout.write(_table(rows))
    return 0 if all(row.verify for row in rows) else 1


def _row(fault: Fault, folder: Path, tools: Tools, work: Path) -> Row:
    """Ask every tool about the package in `folder`; what does not render, the last three never see."""
    with opened(folder) as package:
        problems = verify(package, Checks(kubectls=(str(tools.kubectl),))).problems
        overlays = [package.overlay(name) for name in package.overlays]
    sys.stderr.write("".join(f"{fault.name}: {problem}\n" for problem in problems))
    place = _place(fault, folder, problems)
    kustomize = kubeconform = server = helm = False
    for overlay in overlays:
        rendered = _run(str(tools.kubectl), "kustomize", str(overlay))
        if rendered.returncode or rendered.stderr.strip():
            kustomize = True
        if rendered.returncode:
            continue
        kubeconform |= _kubeconform(rendered.stdout, tools)
        server |= _server(overlay, tools)
        helm |= _helm(rendered.stdout, tools, work / "chart")
    return Row(fault, place, kustomize, kubeconform, server, helm)


def _place(fault: Fault, folder: Path, problems: tuple[Problem, ...]) -> str | None:
    """Return the place of the most precise finding; None without findings."""
    at = [problem for problem in problems if problem.file == str(folder / fault.file)] or list(problems)
    if not at:
        return None
    lines = Path(at[0].file).read_text(encoding="utf-8").splitlines()
    best = next((problem for problem in at if problem.line and fault.line in lines[problem.line - 1]), at[0])
    name = Path(best.file).name
    return f"{name}:{best.line}" if best.line else name


def _kubeconform(manifests: str, tools: Tools) -> bool:
    location = f"{tools.schemas}/{{{{.ResourceKind}}}}.json"
    return bool(_run(tools.kubeconform, "-strict", "-schema-location", location, "-", stdin=manifests).returncode)


def _server(overlay: Path, tools: Tools) -> bool:
    done = _run(str(tools.kubectl), *tools.cluster, "apply", "-k", str(overlay), "--dry-run=server")
    return bool(done.returncode or done.stderr.strip())


def _helm(manifests: str, tools: Tools, chart: Path) -> bool:
    """Lint a chart whose only template is what the overlay renders to."""
    (chart / "templates").mkdir(parents=True, exist_ok=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: overlay\nversion: 1.0.0\nicon: https://example.com/i\n")
    escaped = manifests.replace("{{", '{{ "{{" }}')
    (chart / "templates/overlay.yaml").write_text(escaped)
    done = _run(str(tools.helm), "lint", str(chart))
    return bool(done.returncode or "[WARNING]" in done.stdout)


def _run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


def _write_schemas(wheel: Path, crds: Sequence[Path], folder: Path) -> None:
    """Write one strict JSON schema for each kind that the packages hold."""
    folder.mkdir()
    root = f"kubernetes_validate/kubernetes-json-schema/v{VERSION}.0-local-strict"
    with zipfile.ZipFile(wheel) as archive:
        definitions = json.loads(_local(archive.read(f"{root}/_definitions.json")))
        for kind, name in KINDS.items():
            schema = json.loads(_local(archive.read(f"{root}/{name}.json")))
            (folder / f"{kind.lower()}.json").write_text(json.dumps({**schema, "$defs": definitions["$defs"]}))
    manifests = [manifest for crd in crds for manifest in yaml.load_all(crd.read_bytes(), Loader=yaml.CSafeLoader)]
    for crd in (manifest["spec"] for manifest in manifests if manifest["kind"] == "CustomResourceDefinition"):
        schema = _closed(crd["versions"][0]["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        (folder / f"{crd['names']['kind'].lower()}.json").write_text(json.dumps(schema))


def _local(schema: bytes) -> bytes:
    return schema.replace(b"/api/_definitions.json#/", b"#/")


def _closed(schema: Any) -> Any:
    """Return a structural schema that allows no other fields than its own, and a quantity to be a number."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "number", "string"]}
    closed = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-")}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def _table(rows: list[Row]) -> str:
    lines = [
        "| fault | what it would do | `mlpack verify` | `kubectl kustomize` | kubeconform | dry run | helm lint |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        others = " | ".join(map(_mark, (row.kustomize, row.kubeconform, row.server, row.helm)))
        verdict = f"`{row.verify}`" if row.verify else "**no**"
        lines.append(f"| {row.fault.name} | {row.fault.happens} | {verdict} | {others} |")
    sums = [
        sum(bool(getattr(row, tool)) for row in rows)
        for tool in ("verify", "kustomize", "kubeconform", "server", "helm")
    ]
    lines.append(f"| **caught, of {len(rows)}** | | " + " | ".join(f"**{count}**" for count in sums) + " |")
    return "\n".join(lines) + "\n"


def _mark(caught: bool) -> str:  # noqa: FBT001 - a cell of the table
    return "yes" if caught else ""


if __name__ == "__main__":
    sys.exit(main())
