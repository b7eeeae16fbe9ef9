"""The overlay of four nodes with eight GPUs each, as docs/site.md builds it from flags alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.package.layout import OVERLAYS
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_golden.plugin import GoldenTestFixture

    from tests.conftest import Mlpack

CHECKOUT = Path(__file__).resolve().parent.parent


def fields(workload: Manifest) -> Iterator[tuple[str, Any]]:
    """Yield each field of a JobSet of one role that the documents of other projects show, under a short name."""
    yield from {"apiVersion": workload.api, "kind": workload.kind}.items()
    yield from ((f"labels.{key}", value) for key, value in workload.data["metadata"]["labels"].items())
    [role] = workload.data["spec"]["replicatedJobs"]
    yield from ((f"job.{key}", value) for key, value in role["template"]["spec"].items())
    [pods] = structures.pods(workload)
    yield from ((f"pod.annotations.{key}", value) for key, value in pods.metadata["annotations"].items())
    [container] = pods.spec["containers"]
    yield from ((f"env.{variable['name']}", variable.get("value")) for variable in container["env"])
    yield from ((f"limits.{key}", value) for key, value in container["resources"]["limits"].items())
    yield "capabilities", container["securityContext"]["capabilities"]["add"]
    for kind, entries in (("volumes", pods.spec["volumes"]), ("mounts", container["volumeMounts"])):
        for entry in entries:
            yield f"{kind}.{entry['name']}", {key: value for key, value in entry.items() if key != "name"}


@pytest.mark.thorough
@pytest.mark.golden_test("golden/gpu-cluster.yml")
def test_flags_alone_make_a_job_set_on_four_nodes_with_eight_gpus(
    golden: GoldenTestFixture, mlpack: Mlpack, tmp_path: Path, kubectl: Path
) -> None:
    arguments = shlex.split(" ".join(golden["arguments"]))
    done = mlpack("build", *arguments, "--format", "dir", "--root", "/models")
    assert done.code == 0, done.stderr
    package = tmp_path / "llm-finetune-cuda"
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 0, verified.stdout
    rendering = kustomize(package / OVERLAYS / "multi-node", program=str(kubectl))
    documents, _ = yamlio.load_all(rendering.manifests.encode(), "")
    [workload] = filter(structures.is_workload, (Manifest(document.data) for document in documents))
    rendered = dict(fields(workload))
    for project, expected in golden["fields"].items():
        assert {key: rendered.get(key) for key in expected} == expected, project
    command = " ".join(["mlpack build", *golden["arguments"]])
    text = (CHECKOUT / "docs/site.md").read_text()
    assert command in " ".join(text.replace("\\\n", " ").split())
