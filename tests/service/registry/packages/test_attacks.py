"""Attacks with hostile content in a package, either sealed or as an edit."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from packager.package.opened import opened
from packager.service.config import PackagesConfig, ProjectConfig
from tests.broken import seal
from tests.service.fake import FakeCluster
from tests.service.page.conftest import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OVERLAY = "quickstart/k8s/mlops/single-node"
SPEC = "    spec:\n"
METADATA = "    metadata:\n"
VOLUMES = "      volumes:\n"
ENV = "          env:\n"

CLONE = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, %s}"
EPHEMERAL = "        - {name: x, ephemeral: {volumeClaimTemplate: {spec: " + CLONE + "}}}\n"
ATTACKS = {
    "priority": (SPEC, "      priorityClassName: system-node-critical\n"),
    "node": (SPEC, "      nodeName: node-1\n"),
    "tolerations": (SPEC, "      tolerations: [{operator: Exists}]\n"),
    "clone": (VOLUMES, EPHEMERAL % "dataSource: {kind: PersistentVolumeClaim, name: others}"),
    "volume": (VOLUMES, EPHEMERAL % "volumeName: others"),
    "csi": (
        VOLUMES,
        "        - {name: x, csi: {driver: secrets-store.csi.k8s.io, volumeAttributes: {secretProviderClass: x}}}\n",
    ),
    "config map": (VOLUMES, "        - {name: x, configMap: {name: others, optional: true}}\n"),
    "projected config map": (
        VOLUMES,
        "        - {name: x, projected: {sources: [{configMap: {name: others, optional: true}}]}}\n",
    ),
    "claim": (VOLUMES, "        - {name: x, persistentVolumeClaim: {claimName: others}}\n"),
    "certificate": (
        VOLUMES,
        "        - {name: x, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519}}]}}\n",
    ),
    "variable of a config map": (
        ENV,
        "            - {name: X, valueFrom: {configMapKeyRef: {name: others, key: x, optional: true}}}\n",
    ),
    "variable of the loader": (ENV, "            - {name: LD_PRELOAD, value: /x.so}\n"),
    "variable of mlpack": (ENV, "            - {name: MLPACK_ENDPOINTS, value: /x}\n"),
    "Kueue's priority": (METADATA, "      labels: {kueue.x-k8s.io/priority-class: high}\n"),
    "Kueue's queue": (METADATA, "      labels: {kueue.x-k8s.io/queue-name: others}\n"),
    "claim of devices": (SPEC, "      resourceClaims: [{name: gpu, resourceClaimTemplateName: eight}]\n"),
    "an end without end": (SPEC, "      terminationGracePeriodSeconds: 2000000000\n"),
    "an hour after the end": (SPEC, "      terminationGracePeriodSeconds: 3600\n"),
    "pull secret": (SPEC, "      imagePullSecrets: [{name: others}]\n"),
    "selector of others": (METADATA, "      labels: {app: others}\n"),
    "name of others": (METADATA, "      labels: {app.kubernetes.io/part-of: others}\n"),
}
PERMITTED = ("pod.spec.imagePullSecrets", "pod.spec.priorityClassName", "pod.spec.tolerations")
"""The fields that the project `open` allows."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, demo_package: Path) -> Path:
    folder = tmp_path_factory.mktemp("attacks")
    shutil.copytree(demo_package, folder / "demo")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Site]:
    cluster = FakeCluster()
    cluster.namespaces = {"strict", "open"}
    site = Site(
        tmp_path_factory.mktemp("server") / "server.db",
        cluster=cluster,
        packages=PackagesConfig(folder=str(folder)),
        projects={
            "strict": ProjectConfig(namespace="strict", max_gpus=4),
            "open": ProjectConfig(namespace="open", allow=list(PERMITTED)),
        },
    )
    with site.client:
        yield site


DEMO = {"source": "file:demo", "options": ["secrets"]}


def test_unchanged_package_is_accepted(site: Site) -> None:
    assert site.post("/v1/definitions", {"name": "unchanged", "package": DEMO}, "developer").status_code == 201


def refusals(site: Site, package: dict[str, Any], **body: Any) -> list[str]:
    prefix = f"{body['project']}." if "project" in body else ""
    body = {"name": f"{prefix}demo", "package": package, **body}
    answer = site.post("/v1/definitions", body, "developer")
    assert answer.status_code == 422, answer.text
    return [error["detail"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "by an edit"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_package_with_an_attack_is_refused(attack: str, site: Site, folder: Path, *, sealed: bool) -> None:
    path = folder / "demo" / OVERLAY / "job.yaml"
    text = path.read_text(encoding="utf-8")
    above, lines = ATTACKS[attack]
    assert text.count(above)
    path.write_text(text.replace(above, above + lines, 1), encoding="utf-8")
    inventory = folder / "demo/manifest.json"
    sealed_before = inventory.read_bytes()
    try:
        if sealed:
            with opened(folder / "demo") as package:
                seal(package)
        assert refusals(site, DEMO)
    finally:
        path.write_text(text, encoding="utf-8")
        inventory.write_bytes(sealed_before)


def test_edited_package_with_a_hostile_value_is_refused(site: Site, folder: Path) -> None:
    """A value of mlops.env becomes the priority class of the pods only when a job is created."""
    overlay = folder / "demo" / OVERLAY
    manifest, kustomization, values = (overlay / name for name in ("job.yaml", "kustomization.yaml", "mlops.env"))
    before = {path: path.read_bytes() for path in (manifest, kustomization, values)}
    target = "{select: {kind: Job}, fieldPaths: [spec.template.spec.priorityClassName]}"
    source = "{kind: ConfigMap, name: demo-fp32-training-env, fieldPath: data.NOTE}"
    text = kustomization.read_text(encoding="utf-8")
    added = f"replacements: [{{source: {source}, targets: [{target}]}}, "
    manifest.write_text(
        manifest.read_text().replace(SPEC, f"{SPEC}      priorityClassName: usual\n", 1), encoding="utf-8"
    )
    kustomization.write_text(text.replace("replacements: [", added, 1), encoding="utf-8")
    values.write_text(values.read_text().replace("NOTE=", "NOTE=usual"), encoding="utf-8")
    body = {"system_values": "env: {NOTE: system-node-critical}", "project": "strict"}
    try:
        details = refusals(site, DEMO, **body)
    finally:
        for path, content in before.items():
            path.write_bytes(content)
    assert [detail.rpartition(": ")[2] for detail in details] == [
        "expected none that begins with system-, found 'system-node-critical'",
        "only the site decides this",
    ]


BY_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("imagePullSecrets", {"options": ["pull-secret"], "site": {"PULL_SECRET": "others"}}),
    ("tolerations", {"options": ["placement"]}),
]


@pytest.mark.parametrize(("field", "package"), BY_OPTIONS, ids=[field for field, _ in BY_OPTIONS])
def test_option_adds_a_pod_field_only_if_the_project_permits_it(
    field: str, package: dict[str, Any], site: Site, folder: Path
) -> None:
    placement = next(folder.glob("demo/quickstart/common/*/k8s/mlops/site/placement.yaml"))
    before = placement.read_text(encoding="utf-8")
    placement.write_text(before.replace("key: node.kubernetes.io/not-ready", "key: dedicated"), encoding="utf-8")
    assert placement.read_text(encoding="utf-8") != before
    named = {"source": "file:demo", **package, "options": ["secrets", *package["options"]]}
    try:
        [refusal] = refusals(site, named, project="strict")
        assert refusal.endswith(f"spec.template.spec.{field}: only the site decides this")
        body = {"name": f"open.{field.lower()}", "package": named, "project": "open"}
        made = site.post("/v1/definitions", body, "developer")
        assert made.status_code == 201, made.text
    finally:
        placement.write_text(before, encoding="utf-8")


def test_package_with_a_queue_is_refused(site: Site) -> None:
    package = {"source": "file:demo", "options": ["secrets", "queue"], "site": {"QUEUE": "others"}}
    refused = refusals(site, package)
    keys = ("kueue.x-k8s.io/queue-name", "mlpack/placing")
    assert len(refused) == len(keys)
    for key, refusal in zip(keys, refused, strict=True):
        assert refusal.endswith(f"metadata.labels.{key}: the queue of the project decides when its jobs start")


def test_package_jobs_count_parts_of_gpus(site: Site, folder: Path) -> None:
    path = folder / "demo" / OVERLAY / "job.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("limits: {}", "limits: {nvidia.com/mig-1g.5gb: 56}"), encoding="utf-8")
    body = {"name": "strict.mig", "package": DEMO, "project": "strict"}
    try:
        assert site.post("/v1/definitions", body, "developer").status_code == 201
    finally:
        path.write_text(text, encoding="utf-8")
    job = site.post("/v1/jobs", {"taskDef": "strict.mig", "project": "strict", "env": {"HF_TOKEN": "x"}}, "developer")
    assert (job.status_code, job.json()["detail"]) == (
        422,
        "the job takes 56 GPUs: max_gpus of the project 'strict' is 4",
    )
