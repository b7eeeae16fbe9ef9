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
    "claim": (VOLUMES, "        - {name: x, persistentVolumeClaim: {claimName: others}}\n"),
    "variable of the loader": (ENV, "            - {name: LD_PRELOAD, value: /x.so}\n"),
    "an end without end": (SPEC, "      terminationGracePeriodSeconds: 2000000000\n"),
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


def test_package_with_a_queue_is_refused(site: Site) -> None:
    package = {"source": "file:demo", "options": ["secrets", "queue"], "site": {"QUEUE": "others"}}
    refused = refusals(site, package)
    keys = ("kueue.x-k8s.io/queue-name", "mlpack/placing")
    assert len(refused) == len(keys)
    for key, refusal in zip(keys, refused, strict=True):
        assert refusal.endswith(f"metadata.labels.{key}: the queue of the project decides when its jobs start")
