"""Manifests of a Deployment, its Service and its PodDisruptionBudget, and of what options add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_TEMPLATE: Location = ("spec", "template")


class Deployment(Structure):
    """Pods of one template, which ReplicaSets make."""

    api = "apps/v1"
    companion_kinds = (
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "Ingress"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    )

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods; the hash of their template distinguishes the pods of one rollout."""
        count = number_of_pods(manifest.spec.get("replicas"))
        yield Pods(manifest, _TEMPLATE, count=count, workload_label="pod-template-hash")
