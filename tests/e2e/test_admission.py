"""Tests that doctor and deploy report changes that webhooks make in pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import kinds
from tests.e2e.faults import faulty
from tests.e2e.site import MPI_IMAGE
from tests.e2e.webhook import mutating

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

FIRST = "/spec/containers/0"
SIDECAR = {
    "name": "sidecar",
    "image": MPI_IMAGE,
    "command": ["sh", "-c", "exit 4"],
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def operation(path: str, value: Any, op: str = "add") -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}


def test_doctor_reports_changes_made_by_a_webhook(site: Site) -> None:
    patch = [
        operation(f"{FIRST}/image", "docker.io/evil/mpi-pi:openmpi", "replace"),
        operation("/spec/containers/-", SIDECAR),
        operation(f"{FIRST}/resources/limits/memory", "33Mi"),
        operation("/metadata/labels/app.kubernetes.io~1managed-by", "policy"),
    ]
    findings = {
        f"image: {MPI_IMAGE} -> docker.io/evil/mpi-pi:openmpi; this is not the package's image": "fails",
        f"spec.containers[sidecar]: nothing -> image {MPI_IMAGE}": "note",
        "spec.containers[main].resources.limits.memory: 64Mi -> 33Mi": "note",
        "metadata.labels.app.kubernetes.io/managed-by: mlpack -> policy; the pods are found by this label": "fails",
    }
    package = faulty(site, "none", overlay="single-node")
    with mutating(site, patch):
        examined = package.run("doctor", "-o", "json")
    results = json.loads(examined.out)["findings"]
    for words, state in findings.items():
        found = [(one["check"], one["state"]) for one in results if words in one["message"]]
        assert found == [("admission", state)], results
    assert examined.code == 1


@pytest.mark.thorough
def test_relabelled_pods_of_a_job_end_the_deploy_and_are_left_by_delete(site: Site) -> None:
    """The Job controller does not find relabelled pods, and creates more without end."""
    package = faulty(site, "sleep:300", *kinds.SET, overlay="one-job")
    patch = operation("/metadata/labels/batch.kubernetes.io~1controller-uid", "other", "replace")
    with mutating(site, [patch]):
        deployed = package.run("deploy")
    assert deployed.code == 7, deployed.err
    assert "its controller does not find this pod, and makes others: the cluster has changed batch." in deployed.err
    deleted = package.run("delete")
    assert deleted.code == 7, deleted.err
    assert "left: pod/fault-one-job-" in deleted.err
    released = "its controller has released it, because its labels were changed, and nothing deletes it"
    assert released in deleted.err
    assert deleted.err.endswith("job/fault-one-job is deleted\n")
    assert released in package.run("status").out
    site.run("kubectl delete pods --all --now")
    assert package.run("delete").code == 0
    assert site.left() == []
