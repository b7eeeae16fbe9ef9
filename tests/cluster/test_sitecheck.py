"""Tests of `packager.cluster.sitecheck`: what a site's file names, and whether the cluster has it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from packager.base.errors import DeniedError, NotServedError, UnreachableError
from packager.cluster.sitecheck import checks
from packager.kubernetes.kubectl.client import Kubectl  # noqa: TC001 - named in casts
from packager.site.read import parsed
from tests.site.test_read import COMPLETE


@dataclass
class Cluster:
    """A cluster with some objects, and an error for others."""

    existing: set[str]
    errors: dict[str, Exception] = field(default_factory=dict)

    def get(self, what: str) -> dict[str, Any] | None:
        if what in self.errors:
            raise self.errors[what]
        return {"kind": "Any"} if what in self.existing else None

    def items(self, *what: str) -> list[dict[str, Any]]:
        return [{}] if " ".join(what) in self.existing else []


def states(text: str, cluster: Cluster) -> dict[str, str]:
    results = checks(parsed(Path("site.yaml"), text.encode()), cast("Kubectl", cluster))
    return {f"{result.subject} {result.place}": result.state for result in results}


def test_check_asks_for_objects_of_the_file() -> None:
    existing = {
        "persistentvolumeclaims/results",
        "localqueues.kueue.x-k8s.io/user-queue",
        "nodes --selector=pool=train",
    }
    assert states(COMPLETE, Cluster(existing)) == {
        "persistentvolumeclaims/results site.yaml:5": "ok",
        "persistentvolumeclaims/dataset site.yaml:5": "missing",
        "localqueues.kueue.x-k8s.io/user-queue site.yaml:6": "ok",
        "secrets/registry site.yaml:7": "missing",
        "nodes with pool=train site.yaml:8": "ok",
    }


def test_check_leaves_out_claim_that_packages_create() -> None:
    text = "storage: {output-pvc: {OUTPUT_CLAIM: a}}\noptions: {pvc-create: {CLAIM_CLASS: fast}}\n"
    assert states(text, Cluster(set())) == {"storageclasses/fast site.yaml:2": "missing"}


def test_check_distinguishes_missing_from_unknown() -> None:
    cluster = Cluster(
        set(),
        {
            "secrets/a": DeniedError("no", verb="get", resource="secrets", is_cluster_wide=False),
            "localqueues.kueue.x-k8s.io/b": NotServedError("b"),
        },
    )
    assert states("pullSecret: a\nqueue: b\n", cluster) == {
        "localqueues.kueue.x-k8s.io/b site.yaml:2": "missing",
        "secrets/a site.yaml:1": "unknown",
    }


def test_check_ends_if_the_cluster_does_not_answer() -> None:
    with pytest.raises(UnreachableError):
        states("queue: b\n", Cluster(set(), {"localqueues.kueue.x-k8s.io/b": UnreachableError("x")}))
