"""Tests that doctor and deploy report changes that webhooks make in pods."""

from __future__ import annotations

import json
import re
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


@pytest.mark.parametrize(
    ("overlay", "patch", "findings"),
    [
        (
            "single-node",
            [
                operation(f"{FIRST}/image", "docker.io/evil/mpi-pi:openmpi", "replace"),
                operation("/spec/containers/-", SIDECAR),
                operation(f"{FIRST}/resources/limits/memory", "33Mi"),
                operation("/metadata/labels/app.kubernetes.io~1managed-by", "policy"),
            ],
            {
                (
                    "admission",
                    "fails",
                    f"image: {MPI_IMAGE} -> docker.io/evil/mpi-pi:openmpi; this is not the package's image",
                ),
                ("admission", "note", f"spec.containers[sidecar]: nothing -> image {MPI_IMAGE}"),
                ("admission", "note", "spec.containers[main].resources.limits.memory: 64Mi -> 33Mi"),
                (
                    "admission",
                    "fails",
                    "metadata.labels.app.kubernetes.io/managed-by: mlpack -> policy; the pods are found by this label",
                ),
            },
        ),
        (
            "multi-node",
            [
                operation("/spec/nodeSelector", {"disk": "ssd"}),
                operation(f"{FIRST}/resources/requests/cpu", "900"),
                operation("/metadata/labels/training.kubeflow.org~1job-role", "other"),
            ],
            {
                ("admission", "note", "spec.nodeSelector.disk: nothing -> ssd"),
                ("nodes", "fails", "no label disk=ssd"),
                ("admission", "note", "spec.containers[worker].resources.requests.cpu: 10m -> 900"),
                (
                    "admission",
                    "fails",
                    "metadata.labels.training.kubeflow.org/job-role: worker -> other; the pods are found by this label",
                ),
            },
        ),
    ],
    ids=["pod", "mpijob"],
)
def test_doctor_reports_changes_made_by_a_webhook(
    site: Site, overlay: str, patch: list[dict[str, Any]], findings: set[tuple[str, str, str]]
) -> None:
    package = faulty(site, "none", overlay=overlay)
    with mutating(site, patch):
        examined = package.run("doctor", "-o", "json")
    results = json.loads(examined.out)["findings"]
    for check, state, words in findings:
        assert [(one["check"], one["state"]) for one in results if words in one["message"]] == [(check, state)], results
    assert examined.code == 1


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


def test_doctor_reports_changes_made_by_a_mutating_admission_policy(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    apply_policy(site, [("spec/nodeSelector", '{"disk": "ssd"}')])
    try:
        change = "the cluster changes the pods of fault-single-node: spec.nodeSelector.disk: nothing -> ssd"
        site.until(lambda: change in package.run("doctor").out, "the server to know the policy")
        report = package.run("doctor").out
        assert "even with nothing else running, no node could run pod: node: no label disk=ssd" in report
        assert "kubectl get mutatingwebhookconfigurations,limitranges,mutatingadmissionpolicies" in report
        deploy = package.run("deploy", "--patience", "1s")
        assert (deploy.code, "spec.nodeSelector.disk: nothing -> ssd" in deploy.err) == (7, True), deploy.err
    finally:
        site.run(f"kubectl delete mutatingadmissionpolicybinding,mutatingadmissionpolicy {site.namespace}")
    package.delete()


def apply_policy(site: Site, additions: list[tuple[str, str]]) -> None:
    """Apply a policy that adds values, in CEL, to the pods of the site's namespace."""
    versions = re.findall(r"^admissionregistration.k8s.io/(v1\S*)$", site.run("kubectl api-versions"), re.MULTILINE)
    patches = ", ".join(f'JSONPatch{{op: "add", path: "/{path}", value: {value}}}' for path, value in additions)
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"namespaceSelector": here, "resourceRules": [pods]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{patches}]"}}],
    }
    api = f"admissionregistration.k8s.io/{versions[-1]}"
    metadata = {"name": site.namespace}
    site.apply(
        {"apiVersion": api, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": site.namespace},
        },
    )
