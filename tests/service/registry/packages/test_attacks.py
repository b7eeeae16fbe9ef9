"""Attacks with hostile content in a package, either sealed or as an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.package.opened import opened
from tests.broken import seal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.page.conftest import Site

pytestmark = pytest.mark.thorough

OVERLAY = "quickstart/k8s/mlops/single-node"
SPEC = "    spec:\n"
VOLUMES = "      volumes:\n"
ENV = "          env:\n"

ATTACKS = {
    "priority": (SPEC, "      priorityClassName: system-node-critical\n"),
    "variable of the loader": (ENV, "            - {name: LD_PRELOAD, value: /x.so}\n"),
}


DEMO = {"source": "file:demo", "options": ["secrets"]}


def test_unchanged_package_is_accepted(site: Site) -> None:
    assert site.post("/v1/definitions", {"name": "unchanged", "package": DEMO}, "developer").status_code == 201


def refusals(site: Site, package: dict[str, Any]) -> list[str]:
    answer = site.post("/v1/definitions", {"name": "demo", "package": package}, "developer")
    assert answer.status_code == 422, answer.text
    return [error["detail"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "by an edit"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_package_with_an_attack_is_refused(attack: str, site: Site, packages_folder: Path, *, sealed: bool) -> None:
    folder = packages_folder
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
