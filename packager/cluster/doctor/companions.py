"""Checks the needs of the objects that site options put beside a workload: Ingress classes and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cluster.doctor.case import fails, ok
from packager.kubernetes.manifest import listing
from packager.kubernetes.objects import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.objects import Object

_METRICS = "metrics.k8s.io"


def beside(case: Case) -> Iterator[CheckResult]:
    """Check that the class of each Ingress exists, and that the metrics of each autoscaler are served."""
    for item in case.manifests.objects:
        if item["kind"] == "Ingress" and (ingress_class := item["spec"].get("ingressClassName")):
            if case.kubectl.get(f"ingressclasses.networking.k8s.io/{ingress_class}"):
                yield ok("beside", f"{shown(item)}: the IngressClass {ingress_class} exists")
            else:
                message = f"{shown(item)} refers to the IngressClass {ingress_class}, which does not exist"
                yield fails("beside", message, "kubectl get ingressclasses")
        elif item["kind"] == "HorizontalPodAutoscaler" and _needs_metrics(item):
            if case.versions(_METRICS):
                yield ok("beside", f"{shown(item)}: the cluster serves {_METRICS}")
            else:
                message = f"{shown(item)} needs {_METRICS}, which the cluster does not serve: install metrics-server"
                yield fails("beside", message, f"kubectl api-resources --api-group={_METRICS}")


def _needs_metrics(autoscaler: Object) -> bool:
    """Whether an autoscaler decides by the CPU or memory usage of pods."""
    return any(
        metric.get("type") in ("Resource", "ContainerResource") for metric in listing(autoscaler["spec"].get("metrics"))
    )
