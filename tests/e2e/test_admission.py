"""What webhooks and policies change in pods: the doctor foretells it, and deploy and status tell of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

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


@pytest.mark.parametrize(
    ("overlay", "patch", "findings"),
    [
        (
            "single-node",
            operation(f"{FIRST}/image", "docker.io/evil/mpi-pi:openmpi", "replace"),
            {
                (
                    "admission",
                    "fails",
                    f"image: {MPI_IMAGE} -> docker.io/evil/mpi-pi:openmpi; this is not the package's image",
                )
            },
        ),
        (
            "multi-node",
            operation("/spec/nodeSelector", {"disk": "ssd"}),
            {("admission", "note", "spec.nodeSelector.disk: nothing -> ssd"), ("nodes", "fails", "no label disk=ssd")},
        ),
        (
            "multi-node",
            operation(f"{FIRST}/resources/requests/cpu", "900"),
            {
                ("admission", "note", "spec.containers[worker].resources.requests.cpu: 10m -> 900"),
                ("nodes", "fails", "900 requested"),
            },
        ),
        (
            "multi-node",
            operation("/metadata/labels/training.kubeflow.org~1job-role", "other"),
            {
                (
                    "admission",
                    "fails",
                    "metadata.labels.training.kubeflow.org/job-role: worker -> other; the pods are found by this label",
                )
            },
        ),
        (
            "single-node",
            operation("/spec/containers/-", SIDECAR),
            {("admission", "note", f"spec.containers[sidecar]: nothing -> image {MPI_IMAGE}")},
        ),
        (
            "single-node",
            operation(f"{FIRST}/resources/limits/memory", "33Mi"),
            {("admission", "note", "spec.containers[main].resources.limits.memory: 64Mi -> 33Mi")},
        ),
        (
            "single-node",
            operation("/metadata/labels/app.kubernetes.io~1managed-by", "policy"),
            {
                (
                    "admission",
                    "fails",
                    "metadata.labels.app.kubernetes.io/managed-by: mlpack -> policy; the pods are found by this label",
                )
            },
        ),
    ],
    ids=["image", "nodeSelector", "requests", "labels", "sidecar", "limits", "owner"],
)
def test_the_doctor_finds_what_a_webhook_changes(
    site: Site, overlay: str, patch: dict[str, Any], findings: set[tuple[str, str, str]]
) -> None:
    package = faulty(site, "none", overlay=overlay)
    with mutating(site, [patch]):
        examined = package.run("doctor", "-o", "json")
    results = json.loads(examined.out)["findings"]
    for check, state, words in findings:
        assert [(one["check"], one["state"]) for one in results if words in one["message"]] == [(check, state)], results
    fails = any(state == "fails" for _, state, _ in findings)
    assert examined.code == (1 if fails else 0)
