"""Tests that doctor and deploy report changes that webhooks make in pods."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests import kinds
from tests.e2e.faults import faulty
from tests.e2e.webhook import mutating

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

FIRST = "/spec/containers/0"


def operation(path: str, value: Any, op: str = "add") -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}


def test_doctor_lists_fields_that_a_webhook_changes(site: Site) -> None:
    package = faulty(site, "none", overlay="multi-node")
    patch = [
        operation("/spec/nodeSelector", {"disk": "ssd"}),
        operation(f"{FIRST}/resources/requests/cpu", "900"),
        operation("/metadata/labels/training.kubeflow.org~1job-role", "other"),
    ]
    with mutating(site, patch):
        examined = package.run("doctor", "-o", "json")
    findings = [(one["check"], one["state"], one["message"]) for one in json.loads(examined.out)["findings"]]
    for check, state, words in [
        ("nodes", "fails", "no label disk=ssd"),
        ("admission", "note", "spec.containers[worker].resources.requests.cpu: 10m -> 900"),
        ("admission", "note", "metadata.labels.training.kubeflow.org/job-role: worker -> other"),
    ]:
        assert [finding[:2] for finding in findings if words in finding[2]] == [(check, state)], findings
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
    apply_policy(site, [("spec/nodeSelector", '{"disk": "ssd"}'), ("spec/restartPolicy", '"Always"')])
    try:
        change = "the cluster changes the pods of fault-single-node: spec.restartPolicy: Never -> Always"
        site.until(lambda: change in package.run("doctor").out, "the server to know the policy")
        report = package.run("doctor").out
        assert "even with nothing else running, no node could run pod: node: no label disk=ssd" in report
        assert "kubectl get mutatingwebhookconfigurations,limitranges,mutatingadmissionpolicies" in report
        deploy = package.run("deploy", "--patience", "1s")
        assert (deploy.code, "spec.restartPolicy: Never -> Always" in deploy.err) == (7, True), deploy.err
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
