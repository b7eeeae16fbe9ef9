"""Checks that a package creates only kinds of object that a build makes, in the namespace that it is applied to.

Everything else is a finding, unless the user names its kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base.names import SUBDOMAIN
from packager.base.problems import Problem
from packager.kubernetes.manifest import mapping
from packager.workloads.structures import companions, structure_of, structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay

MADE = frozenset(
    (
        *((structure.api, kind) for kind, structure in structures().items()),
        ("v1", "ConfigMap"),
        ("v1", "PersistentVolumeClaim"),
        *(pair for structure in structures().values() for pair in structure.companion_kinds),
    )
)
"""The apiVersion and kind of everything that a build makes."""

_ALONE = MADE - {pair for structure in structures().values() for pair in structure.companion_kinds}
"""The same, for objects that belong to workloads of certain kinds only."""

# `kubectl api-resources --namespaced=false` of Kubernetes 1.37.
_CLUSTER_WIDE = frozenset(
    """
    APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle
    ComponentStatus CustomResourceDefinition DeviceClass FlowSchema IPAddress IngressClass MutatingAdmissionPolicy
    MutatingAdmissionPolicyBinding MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass
    PriorityLevelConfiguration ResourceSlice RuntimeClass SelfSubjectReview ServiceCIDR StorageClass
    StorageVersionMigration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    VolumeAttachment VolumeAttributesClass
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)

# What a package has to say of an object; the API server, or a controller, says the rest.
_METADATA = frozenset(("name", "namespace", "labels", "annotations"))

# Who acts on labels and annotations of these domains: with rights that the package does not have itself.
_CONTROLLERS = {
    "helm.sh": "helm",
    "argoproj.io": "Argo",
    "fluxcd.io": "Flux",
    "kubectl.kubernetes.io/last-applied-configuration": "kubectl apply",
    "kubectl.kubernetes.io/restartedAt": "kubectl rollout",
    "config.kubernetes.io": "kustomize",
    "config.k8s.io": "kustomize",
    "applyset.kubernetes.io": "kubectl apply --prune",
    "hashicorp.com": "Vault",
    "amazonaws.com": "the cloud's identity service",
    "gke.io": "the cloud's identity service",
    "cloud.google.com": "the cloud's identity service",
    "azure.workload.identity": "the cloud's identity service",
    "rbac.authorization.kubernetes.io": "the API server",
    "pod-security.kubernetes.io": "the API server",
    "scheduler.alpha.kubernetes.io": "the API server",
    "kubernetes.io/service-account.name": "the API server",
    "kubernetes.io/enforce-mountable-secrets": "the API server",
    "kubernetes.io/config.mirror": "the kubelet",
    "k8s.v1.cni.cncf.io": "Multus",
}

# ConfigMaps that a controller of the cluster puts into every namespace.
_SYSTEM_NAMES = frozenset(("kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert", "istio-ca-crl"))

_ALLOWED = re.compile(rf"[A-Za-z][A-Za-z0-9]*(\.{SUBDOMAIN})?")


@dataclass(frozen=True, slots=True)
class Made:
    """An object that an overlay makes; `namespace` is empty for the one that it is applied to."""

    overlay: str
    api: str
    kind: str
    name: str
    namespace: str

    @property
    def is_usual(self) -> bool:
        """Whether it is of a kind that builds make, and in the namespace that it is applied to."""
        return (self.api, self.kind) in MADE and not self.namespace

    def __str__(self) -> str:
        where = f" in the namespace {self.namespace}" if self.namespace else ""
        core = "" if (self.api, self.kind) in MADE else f" ({self.api})"
        return f"{self.kind} {self.name}{core}{where}"


def is_kind(word: str) -> bool:
    """Whether `word` names a kind as the user may allow it: `Kind`, or `Kind.group`."""
    return _ALLOWED.fullmatch(word) is not None


def made(overlay: RenderedOverlay) -> Iterator[Made]:
    """Yield every object that the overlay makes, in kubectl's order."""
    for manifest in overlay.manifests:
        namespace = str(mapping(manifest.data.get("metadata")).get("namespace") or "")
        yield Made(overlay.name, str(manifest.data.get("apiVersion") or ""), manifest.kind, manifest.name, namespace)


def check(overlay: RenderedOverlay, allowed: frozenset[str], namespace: str | None = None) -> Iterator[Problem]:
    """Yield a finding for every object that no build makes.

    Args:
        overlay: It.
        allowed: The kinds that the user allows; other findings about their objects are still reported.
        namespace: The one that objects may name, besides none.
    """
    for manifest in overlay.manifests:
        if not is_allowed(manifest, allowed):
            yield from _kind(overlay, manifest)
            yield from _namespace(overlay, manifest, namespace)
        yield from _metadata(overlay, manifest)
    yield from _duplicates(overlay)
    is_empty = not overlay.pods and overlay.claim is None
    if is_empty and not any(is_allowed(manifest, allowed) for manifest in overlay.manifests):
        yield Problem(*overlay.sources.start, "the overlay has no workload: nothing would run")
    for pods in overlay.pods:
        if pods.location:
            yield from _controllers(overlay, pods.manifest, (*pods.location, "metadata"), pods.metadata)


def is_allowed(manifest: Manifest, allowed: frozenset[str]) -> bool:
    """Whether the user has named the kind of `manifest`, as `Kind` or as `Kind.group`."""
    group = _group(manifest)
    return manifest.kind in allowed or f"{manifest.kind}.{group}" in allowed


def _group(manifest: Manifest) -> str:
    return str(manifest.data.get("apiVersion") or "").rpartition("/")[0]


def _kind(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    api, kind = str(manifest.data.get("apiVersion") or ""), manifest.kind
    workloads = companions(manifest, overlay.manifests)
    if workloads:
        yield from _beside(overlay, manifest, workloads)
        return
    if (api, kind) in _ALONE:
        return
    if kind in _CLUSTER_WIDE:
        message = f"a {kind} is cluster-scoped, and no build creates one"
    elif any(kind == known for _, known in _ALONE):
        message = f"a {kind} of {api or 'no apiVersion'} is not created by any build"
    else:
        message = f"no build creates a {kind or 'manifest without a kind'}"
    yield overlay.problem(manifest, ("kind",), message, allow_hint(manifest))


def _beside(overlay: RenderedOverlay, manifest: Manifest, workloads: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield what of an object beside a workload no build makes: another one, or more open to others."""
    workload = next((workload for workload in workloads if workload.name == manifest.name), None)
    structure = structure_of(workload) if workload else None
    if structure is None:
        message = f"a build creates one {manifest.kind}, with the name of {workloads[0]}"
        yield overlay.problem(manifest, ("metadata", "name"), message, allow_hint(manifest))
        return
    for fault in structure.exposure_faults(manifest):
        yield overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)


def allow_hint(manifest: Manifest) -> str | None:
    """Return the hint that says how to allow `manifest`; None when it cannot be named."""
    group = _group(manifest)
    word = f"{manifest.kind}.{group}" if group else manifest.kind
    return f"--allow {word} permits it" if is_kind(word) else None


def _namespace(overlay: RenderedOverlay, manifest: Manifest, expected: str | None) -> Iterator[Problem]:
    namespace = mapping(manifest.data.get("metadata")).get("namespace")
    if namespace not in (None, expected):
        message = f"names the namespace {namespace!r}: a package runs in the namespace that it is applied to"
        yield overlay.problem(manifest, ("metadata", "namespace"), message, allow_hint(manifest))


def _metadata(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    metadata = mapping(manifest.data.get("metadata"))
    for field in metadata:
        if field not in _METADATA:
            message = "a package must not set this field: the cluster does"
            yield overlay.problem(manifest, ("metadata", field), message, at_key=True)
    if manifest.data.get("status") is not None:
        yield overlay.problem(manifest, ("status",), "a package must not set this field: the cluster does", at_key=True)
    if manifest.kind == "ConfigMap" and (manifest.name in _SYSTEM_NAMES or manifest.name.startswith("kube-")):
        message = f"{manifest.name!r} is the name of an object that belongs to the cluster"
        yield overlay.problem(manifest, ("metadata", "name"), message, "give it another name")
    yield from _controllers(overlay, manifest, ("metadata",), metadata)


def _controllers(
    overlay: RenderedOverlay, manifest: Manifest, location: Location, metadata: dict[str, Any]
) -> Iterator[Problem]:
    """Yield the labels and annotations by which something else in the cluster would act on the object."""
    for field in ("labels", "annotations"):
        for key in mapping(metadata.get(field)):
            for owner in _owners(key):
                message = f"{owner} uses this key, and a package must not set it"
                yield overlay.problem(manifest, (*location, field, key), message, "remove it", at_key=True)


@lru_cache(maxsize=1024)
def _owners(key: str) -> tuple[str, ...]:
    """Return who acts on a label or an annotation."""
    domain = key.partition("/")[0]
    return tuple(owner for name, owner in _CONTROLLERS.items() if name in (key, domain) or domain.endswith(f".{name}"))


def _duplicates(overlay: RenderedOverlay) -> Iterator[Problem]:
    seen: set[tuple[str, str, str, str]] = set()
    for manifest, item in zip(overlay.manifests, made(overlay), strict=True):
        identity = (_group(manifest), item.kind, item.name, item.namespace)
        if item.name and identity in seen:
            yield overlay.problem(manifest, ("metadata", "name"), f"duplicate object {manifest}", "remove one of them")
        seen.add(identity)
