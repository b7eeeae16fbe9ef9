"""Tests that foreign objects are neither changed nor deleted, and that refusals are reported at once with a fix."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import faulty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

POD = "fault-single-node"
ENV = "fault-env-single-node"
SLEEPER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": POD},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "docker.io/mpioperator/mpi-pi:openmpi",
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "600"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}


def uid(site: Site, what: str) -> str:
    return str(site.get(what)["metadata"]["uid"])


def test_foreign_pod_and_configmap_are_neither_changed_nor_deleted(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    site.apply(SLEEPER)
    site.run(f"kubectl create configmap {ENV} --from-literal=theirs=1")
    before = uid(site, f"pod/{POD}")
    for options in ([], ["--replace", "-y", "--force-conflicts"]):
        deployed = package.run("deploy", *options)
        assert deployed.code == 7
        assert (
            f"objects with these names already exist and belong to others: configmap/{ENV} (managed by kubectl-create)"
            in deployed.err
        )
    assert package.run("status").out.splitlines()[1] == f"note: pod/{POD} does not belong to the package fault"
    deleted = package.run("delete", "-y")
    assert deleted.code == 7
    assert deleted.err.startswith(
        f"error: not deleted, because it does not belong to the package alone: configmap/{ENV} ("
    )
    assert uid(site, f"pod/{POD}") == before
    assert site.get(f"configmap/{ENV}")["data"] == {"theirs": "1"}
    assert sorted(site.left()) == [f"configmap/{ENV}", f"pod/{POD}"]


def test_delete_keeps_a_configmap_with_data_of_others(site: Site) -> None:
    package = faulty(site, "sleep:60", overlay="single-node")
    site.run(f"kubectl create configmap {ENV} --from-literal=theirs=1")
    site.run(f"kubectl apply -k {package.folder}/quickstart/k8s/mlops/single-node")
    deleted = package.run("delete")
    assert deleted.code == 7
    assert f"configmap/{ENV} (kubectl-create has set data.theirs); everything else is deleted" in deleted.err
    assert site.left() == [f"configmap/{ENV}"]


@pytest.mark.thorough
def test_delete_removes_objects_that_kubectl_created_from_the_package(site: Site) -> None:
    package = faulty(site, "sleep:60", overlay="single-node")
    site.run(f"kubectl apply -k {package.folder}/quickstart/k8s/mlops/single-node")
    assert package.run("deploy", "--no-wait", "--force-conflicts").code == 0
    package.delete()


def test_delete_removes_a_job_of_another_user_and_build_only_with_yes(site: Site) -> None:
    bobs = faulty(site, "sleep:60", overlay="single-node")
    assert bobs.run("deploy", "--no-wait").code == 0
    notes = "mlpack/deployed-by=bob@laptop mlpack/digest=sha256:0123456789abcdef"
    site.run(f"kubectl annotate --overwrite pod/{POD} {notes}")
    remark = f"pod/{POD} was deployed by bob@laptop, from another build (0123456789ab)"
    before = uid(site, f"pod/{POD}")
    refused = bobs.run("delete")
    assert (refused.code, refused.err) == (
        9,
        f"error: {remark}; nothing was deleted\nhint: -y deletes it anyway\n",
    )
    assert bobs.run("status").out.splitlines()[1] == f"note: {remark}"
    assert uid(site, f"pod/{POD}") == before
    assert bobs.run("delete", "-y").code == 0
    assert site.left() == []


@contextmanager
def policy(site: Site, label: str) -> Iterator[str]:
    """Deny pods with a label in the site's namespace, and yield the policy's name."""
    name = f"no-{site.namespace}"
    here = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    expression = f"!has(object.metadata.labels) || !('{label}' in object.metadata.labels)"
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule: dict[str, Any] = {
        "matchConstraints": {"resourceRules": rules, "namespaceSelector": here},
        "validations": [{"expression": expression, "message": "such pods are not wanted"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    meta = {"metadata": {"name": name}}
    site.apply({**kind, "kind": "ValidatingAdmissionPolicy", **meta, "spec": rule})
    site.apply({**kind, "kind": "ValidatingAdmissionPolicyBinding", **meta, "spec": binding})
    labelled = {**SLEEPER, "metadata": {"name": "trial", "labels": {label: "1"}}}
    (site.folder / "trial.json").write_text(json.dumps(labelled))
    trial = "kubectl create --dry-run=server -f trial.json"
    try:
        site.until(lambda: "not wanted" in site.shell(trial).stderr, "the policy to be in force")
        yield name
    finally:
        site.run(f"kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding {name}")


def test_deploy_reports_a_policy_on_labels_set_by_the_operator(site: Site) -> None:
    package = faulty(site, "none")
    with policy(site, "training.kubeflow.org/replica-index") as name:
        refused = package.run("deploy")
    why = f"the policy {name} of the cluster denies it: such pods are not wanted"
    assert (refused.code, why in refused.err) == (7, True), refused.err
    assert refused.seconds < 30


def test_deploy_reports_a_full_quota_with_a_hint_and_creates_no_objects(site: Site) -> None:
    package = faulty(site, "none", overlay="single-node")
    site.run("kubectl create quota full --hard=pods=0")
    site.until(lambda: site.get("quota full").get("status"), "the quota to be counted")
    refused = package.run("deploy")
    assert refused.code == 7
    why = "the quota full of the namespace does not allow another pod: asked for pods=1, used pods=0 of pods=0"
    assert f"error: the cluster rejects it: {why}" in refused.err
    assert "hint: request less in the overlay's resources\n" in refused.err
    assert refused.seconds < 30
    assert site.left() == []
