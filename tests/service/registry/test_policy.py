"""The objects that a template may create, and the fields that the service adds to them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from packager.kubernetes.podsecurity import Level
from packager.service.registry.policy import Site, accept, with_secrets

RELEASE = "demo-1"
SITE = Site(
    storage_classes={"aws-efs": "shared"},
    node_selectors={"pool=old": {"pool": "new"}, "zone=a": {}},
    project="research",
)

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": RELEASE},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "main", "image": "registry.example.com/x:1", "command": ["true"]}],
                "nodeSelector": {"pool": "old", "zone": "a", "disk": "fast"},
            }
        }
    },
}
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": f"{RELEASE}-data"},
    "spec": {
        "storageClassName": "aws-efs",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def job(**pod: Any) -> dict[str, Any]:
    item = deepcopy(JOB)
    item["spec"]["template"]["spec"].update(pod)
    return item


def container(**fields: Any) -> dict[str, Any]:
    return job(containers=[{**JOB["spec"]["template"]["spec"]["containers"][0], **fields}])


def problems(*items: dict[str, Any], level: Level = Level.restricted) -> list[str]:
    accepted = accept(items, RELEASE, "demo", Site(level=level))
    assert bool(accepted.objects) != bool(accepted.complaints)
    return [f"{item.detail} ({item.hint})" if item.hint else item.detail for item in accepted.complaints]


def test_accept_adds_labels_and_fields_of_pod_security() -> None:
    accepted = accept((JOB, CLAIM), RELEASE, "demo", SITE)
    assert accepted.complaints == ()
    assert [item["kind"] for item in accepted.objects] == ["PersistentVolumeClaim", "Job"]
    labels = {
        "app.kubernetes.io/managed-by": "mlpack",
        "mlpack.dev/server": "default",
        "mlpack.dev/job": RELEASE,
        "mlpack.dev/application": "demo",
        "mlpack.dev/project": "research",
    }
    assert accepted.objects[0]["metadata"]["labels"] == labels
    assert accepted.objects[0]["spec"]["storageClassName"] == "shared"
    template = accepted.workload["spec"]["template"]
    assert template["metadata"]["labels"] == labels
    assert template["spec"] == {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": {"pool": "new", "disk": "fast"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/x:1",
                "command": ["true"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    assert "securityContext" not in JOB["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (job(hostNetwork=True), "spec.template.spec.hostNetwork: shares the node's"),
        (job(volumes=[{"name": "x", "hostPath": {"path": "/"}}]), "a folder of the node"),
        (container(securityContext={"privileged": True}), "has the node's own rights"),
        (container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), "the capability SYS_ADMIN"),
        (job(serviceAccountName="admin"), "runs as the service account 'admin' of the namespace"),
        (job(automountServiceAccountToken=True), "a token of the namespace's service account is mounted"),
        (
            job(volumes=[{"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
            "a token of the namespace's service account is mounted",
        ),
        (
            job(volumes=[{"name": "x", "secret": {"secretName": "others"}}]),
            "reads the Secret 'others' of the namespace",
        ),
        (
            container(env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "others", "key": "x"}}}]),
            "the template has no ConfigMap 'others'",
        ),
        (container(imagPullPolicy="Always"), "unknown field 'imagPullPolicy' (did you mean 'imagePullPolicy'?)"),
        (
            {**JOB, "metadata": {"name": RELEASE, "annotations": {"helm.sh/hook": "x"}}},
            "a template must not have this annotation",
        ),
    ],
)
def test_accept_refuses_forbidden_fields_of_a_job(item: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in problems(item)), problems(item)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (container(image="x"), "x has no tag or digest"),
        (container(resources={"limits": {"cpu": "4Gb"}}), "expected a quantity such as 500m or 4Gi, found '4Gb'"),
    ],
)
def test_only_examples_are_refused_for_values_that_the_api_server_refuses(item: dict[str, Any], message: str) -> None:
    assert problems(item) == []
    assert any(message in found.detail for found in accept((item,), RELEASE, "", SITE, is_example=True).complaints)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((), "expected one Job, JobSet, MPIJob or Pod, found none"),
        ((JOB, {**JOB, "metadata": {"name": f"{RELEASE}-2"}}), "found Job demo-1, Job demo-1-2"),
        (
            ({**JOB, "metadata": {"name": "other"}},),
            "expected the release 'demo-1', or a name that begins with 'demo-1-'",
        ),
        (({**JOB, "metadata": {"name": f"{RELEASE}-/../x"}},), "expected the release 'demo-1'"),
        (
            ({**JOB, "metadata": {"generateName": RELEASE}},),
            "metadata.generateName: a template must not set this field",
        ),
        (({**JOB, "metadata": None},), "Job: expected metadata with a name"),
        (({**JOB, "status": {}},), "status: a template must not set this field"),
        (
            ({**JOB, "kind": "Jobb"},),
            "PersistentVolumeClaim, Secret or Service (did you mean 'Job'?)",
        ),
        (({**JOB, "apiVersion": "batch/v2"},), "Job (batch/v2) is not a kind that a task may create"),
        (({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"},), "ClusterRoleBinding"),
        (
            (
                JOB,
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{RELEASE}-x"}, "stringData": {"a": "b"}},
            ),
            "stringData: a template must not create a Secret from values",
        ),
        (
            (
                JOB,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": f"{RELEASE}-x"},
                    "type": "kubernetes.io/service-account-token",
                },
            ),
            "type: expected Opaque",
        ),
        (
            (JOB, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{RELEASE}-endpoints"}}),
            "the service creates the Secret of this name",
        ),
        (
            (JOB, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": RELEASE}, "spec": {"type": "NodePort"}}),
            "spec.clusterIP: expected None",
        ),
        (
            (JOB, {**CLAIM, "spec": {**CLAIM["spec"], "volumeName": "pv"}}),
            "spec.volumeName: a template must not have this field",
        ),
        *(
            (({**JOB, "metadata": {"name": RELEASE, field: value}},), f"metadata.{field}: a template must not set")
            for field, value in {
                "namespace": "kube-system",
                "ownerReferences": [],
                "finalizers": ["x/y"],
                "managedFields": [],
            }.items()
        ),
    ],
)
def test_accept_refuses_objects_that_a_task_may_not_create(items: tuple[dict[str, Any], ...], message: str) -> None:
    assert any(message in problem for problem in problems(*items)), problems(*items)


def test_weaker_level_allows_root() -> None:
    root = job(securityContext={"runAsUser": 0})
    assert problems(root) != []
    assert problems(root, level=Level.baseline) == []
    assert problems(job(hostNetwork=True), level=Level.baseline) != []


def test_template_reads_only_the_secret_of_its_job() -> None:
    own = container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "demo-1-endpoints", "key": "x"}}}])
    assert problems(own) == []
    crafted = "others the Secret 'demo-1-endpoints' of the namespace"
    assert problems(container(envFrom=[{"secretRef": {"name": crafted}}])) != []


def test_secrets_of_the_service_have_an_owner_and_the_labels_of_the_job() -> None:
    accepted = accept((JOB,), RELEASE, "demo", SITE)
    owner, secret, workload = with_secrets(accepted.objects, RELEASE, {"endpoints": {"dataset.json": "[]"}}, SITE)
    assert (owner["kind"], owner["metadata"]["name"], workload) == (
        "ConfigMap", "demo-1-secrets-owner", accepted.workload,
    )  # fmt: skip
    assert secret["metadata"]["name"] == "demo-1-endpoints"
    assert secret["metadata"]["labels"] == workload["metadata"]["labels"]
    assert secret["stringData"] == {"dataset.json": "[]"}


@pytest.mark.parametrize("value", [None, {"a": []}])
@pytest.mark.parametrize(
    "path", [("spec",), ("spec", "template"), ("spec", "template", "spec"), ("metadata", "labels")]
)
def test_objects_of_any_shape_are_refused_without_an_exception(value: Any, path: tuple[str, ...]) -> None:
    item = deepcopy(JOB)
    holder = item
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    accepted = accept((item,), RELEASE, "demo", SITE)
    assert accepted.complaints or path == ("metadata", "labels")


def pod_metadata(**metadata: Any) -> dict[str, Any]:
    item = job()
    item["spec"]["template"]["metadata"] = metadata
    return item


def volume(**source: Any) -> dict[str, Any]:
    return job(volumes=[{"name": "x", **source}])


@pytest.mark.parametrize(
    "item",
    [
        job(dnsConfig={"nameservers": ["10.6.6.6"]}),
        job(tolerations=[{"operator": "Exists"}]),
        volume(projected={"sources": [{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]}),
        volume(csi={"driver": "secrets-store.csi.k8s.io", "volumeAttributes": {"secretProviderClass": "others"}}),
        volume(configMap={"name": "others", "optional": True}),
        volume(ephemeral={"volumeClaimTemplate": {"spec": {"dataSource": {"kind": "Secret", "name": "a"}}}}),
        volume(ephemeral={"volumeClaimTemplate": {"spec": {"volumeName": "others"}}}),
        pod_metadata(labels={"app": "others"}),
        pod_metadata(annotations={"external-dns.alpha.kubernetes.io/hostname": "bank.example"}),
        pod_metadata(finalizers=["x/y"]),
        {**JOB, "spec": {**JOB["spec"], "managedBy": "example.com/mine"}},
        {**JOB, "spec": {**JOB["spec"], "manualSelector": True, "selector": {"matchLabels": {"app": "others"}}}},
    ],
)
def test_template_needs_the_permission_of_the_site_for_fields_that_reach_others(item: dict[str, Any]) -> None:
    """Every template, also one of an administrator, has such fields only if the site permits them."""
    assert problems(item)


def test_service_selects_only_pods_of_its_job() -> None:
    spec = {"clusterIP": "None", "selector": {"app": "others"}, "ports": [{"port": 80}]}
    accepted = accept(
        (JOB, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": RELEASE}, "spec": spec}), RELEASE, "", SITE
    )
    assert accepted.objects[0]["spec"]["selector"] == {"app": "others", "mlpack.dev/job": RELEASE}
    assert accepted.workload["spec"]["template"]["metadata"]["labels"]["mlpack.dev/job"] == RELEASE


@pytest.mark.parametrize(
    ("word", "item"),
    [
        ("pod.spec.imagePullSecrets", job(imagePullSecrets=[{"name": "registry"}])),
        (
            "label:team",
            {**JOB, "spec": {"template": {**job()["spec"]["template"], "metadata": {"labels": {"team": "x"}}}}},
        ),
        ("annotation:helm.sh/hook", {**JOB, "metadata": {"name": RELEASE, "annotations": {"helm.sh/hook": "x"}}}),
        ("job.spec.managedBy", {**JOB, "spec": {**JOB["spec"], "managedBy": "example.com/mine"}}),
        ("Secret", container(envFrom=[{"secretRef": {"name": "others"}}])),
        ("ServiceAccount", job(serviceAccountName="trainer")),
    ],
)
def test_site_permits_the_field_that_a_hint_names(word: str, item: dict[str, Any]) -> None:
    assert f'(allow: ["{word}"] in server.yaml permits it)' in problems(item)[0]
    assert accept((item,), RELEASE, "", Site(allowed=frozenset((word,)))).complaints == ()
