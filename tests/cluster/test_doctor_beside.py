"""What the objects beside a workload need of a cluster: the class of an Ingress, the metrics of an autoscaler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from packager.base.errors import ClusterError
from packager.cluster.doctor.beside import beside
from packager.cluster.doctor.case import Case
from packager.cluster.doctor.demand import demands
from packager.kubectl.client import Kubectl
from packager.kubernetes.manifest import Manifest
from packager.rendering.overlay import RenderedOverlay
from tests.fake_cluster import FakeCluster, item

if TYPE_CHECKING:
    from packager.cluster.manifests import Manifests

INGRESS = item("Ingress", "a", spec={"ingressClassName": "nginx"})
CPU = {"type": "Resource", "resource": {"name": "cpu"}}
AUTOSCALER = item("HorizontalPodAutoscaler", "a", spec={"metrics": [CPU]})


def results(cluster: FakeCluster, *objects: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Return what is found out about objects that would be applied."""
    case = Case(
        "a",
        Kubectl(runner=cluster),
        "team",
        cast("Manifests", SimpleNamespace(objects=objects)),
        cast("Any", None),
        cast("Any", None),
        (),
        cast("Any", None),
    )
    return [(str(result.state), result.message, result.fix) for result in beside(case)]


def test_a_class_that_an_ingress_refers_to() -> None:
    message = "ingress/a refers to the IngressClass nginx, which does not exist"
    assert results(FakeCluster(), INGRESS) == [("fails", message, "kubectl get ingressclasses")]
    there = FakeCluster([item("IngressClass", "nginx")])
    assert results(there, INGRESS) == [("ok", "ingress/a: the IngressClass nginx exists", None)]


def test_an_ingress_that_names_no_class_gets_the_default_one() -> None:
    assert results(FakeCluster(), item("Ingress", "a", spec={})) == []


def test_a_class_that_the_user_may_not_see() -> None:
    with pytest.raises(ClusterError, match="cannot get resource"):
        results(FakeCluster(denied={"get ingressclasses"}), INGRESS)


def test_metrics_that_an_autoscaler_decides_by() -> None:
    message = "horizontalpodautoscaler/a needs metrics.k8s.io, which the cluster does not serve: install metrics-server"
    fix = "kubectl api-resources --api-group=metrics.k8s.io"
    assert results(FakeCluster(), AUTOSCALER) == [("fails", message, fix)]
    served = FakeCluster(served={"metrics.k8s.io/v1beta1": []})
    assert results(served, AUTOSCALER) == [("ok", "horizontalpodautoscaler/a: the cluster serves metrics.k8s.io", None)]


def test_an_autoscaler_that_decides_by_something_else() -> None:
    assert results(FakeCluster(), item("HorizontalPodAutoscaler", "a", spec={"metrics": [{"type": "External"}]})) == []


@pytest.mark.parametrize(("target", "count"), [("a", 3), ("b", 1)])
def test_room_is_looked_for_as_many_pods_as_an_autoscaler_keeps(target: str, count: int) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}
    deployment = {**item("Deployment", "a", spec={"template": template}), "apiVersion": "apps/v1"}
    reference = {"kind": "Deployment", "name": target}
    autoscaler = item("HorizontalPodAutoscaler", "a", spec={"minReplicas": 3, "scaleTargetRef": reference})
    overlay = RenderedOverlay("serving", (Manifest(deployment), Manifest(autoscaler)), cast("Any", None))
    assert [demand.count for demand in demands(overlay)] == [count]
