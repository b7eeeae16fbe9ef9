"""Lists the objects, addresses and images outside of a package that an overlay uses: claims, queues and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.values import replace
from packager.kubernetes.manifest import at, listing, mapping
from packager.package import layout
from packager.package.image import IMAGE, REGISTRY
from packager.workloads import kueue
from packager.workloads.podgroups import KAI_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods


_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation with the networks to which Multus attaches a pod; one of another namespace is NAMESPACE/NAME."""

_QUEUES = {
    kueue.LABEL: "waits in the queue {!r} of the namespace",
    KAI_QUEUE: "waits in the queue {!r} of KAI",
    kueue.PRIORITY: "has the priority class {!r} of Kueue",
}
"""The messages about labels, to which their values are added."""


def notes(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a note for each claim, class, pull secret, device, network, queue and address, at its first place.

    So is each image of a container that is not the one in mlops.env.

    Raises:
        ToolError: mlops.env cannot be read.
    """
    places: dict[str, tuple[Manifest, Location]] = {}
    for message, manifest, location in (*_images(overlay), *_of_pods(overlay), *_of_companions(overlay)):
        places.setdefault(message, (manifest, location))
    for message, (manifest, location) in places.items():
        yield replace(overlay.problem(manifest, location, ""), message=message)


def _images(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    """Yield each image of a container other than REGISTRY/IMAGE; none if mlops.env has no image."""
    path, sources = layout.env(overlay.name), overlay.sources
    lines = envfile.lines((sources.read(path) if sources.is_file(path) else None) or b"")
    values = {line.key: line.value for line in lines}
    if IMAGE not in values:
        return
    registry = values.get(REGISTRY, "")
    own = {
        f"{values.get(key.removesuffix(IMAGE) + REGISTRY, registry)}/{values.get(key)}" for key in sources.image_keys
    }
    for pods in overlay.pods:
        for location, container in pods.containers():
            image = container.get("image")
            if isinstance(image, str) and image not in own:
                message = f"the pods of {overlay.name} run the image {image!r}, which {layout.ENV} does not name"
                yield message, pods.manifest, (*location, "image")


def _of_pods(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    own_claims = overlay.names("PersistentVolumeClaim")
    for pods in overlay.pods:
        for location, volume in pods.volumes():
            claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
            if claim is not None and claim not in own_claims:
                place = (*location, "persistentVolumeClaim", "claimName")
                yield f"the pods of {overlay.name} mount the claim {claim!r} of the namespace", pods.manifest, place
        priority = pods.spec.get("priorityClassName")
        if priority:
            place = (*pods.location, "spec", "priorityClassName")
            yield f"the pods of {overlay.name} have the priority class {priority!r}", pods.manifest, place
        for index, secret in enumerate(map(mapping, listing(pods.spec.get("imagePullSecrets")))):
            message = f"images of {overlay.name} are pulled with the Secret {secret.get('name')!r} of the namespace"
            yield message, pods.manifest, (*pods.location, "spec", "imagePullSecrets", index, "name")
        networks = mapping(pods.metadata.get("annotations")).get(_NETWORKS)
        if networks is not None:
            place = (*pods.location, "metadata", "annotations", _NETWORKS)
            yield f"the pods of {overlay.name} are attached to the networks {networks!r}", pods.manifest, place
        yield from _devices(overlay, pods)


def _devices(overlay: RenderedOverlay, pods: Pods) -> Iterator[tuple[str, Manifest, Location]]:
    for index, claim in enumerate(map(mapping, listing(pods.spec.get("resourceClaims")))):
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(field) is not None:
                message = f"the pods of {overlay.name} take devices by the {field} {claim[field]!r} of the namespace"
                yield message, pods.manifest, (*pods.location, "spec", "resourceClaims", index, field)
    for location, container in pods.containers():
        for kind in ("limits", "requests"):
            for resource in mapping(at(container, ("resources", kind))):
                if "/" in resource:  # the resources of Kubernetes itself have no domain
                    message = f"the pods of {overlay.name} take {resource!r} of their nodes"
                    yield message, pods.manifest, (*location, "resources", kind, resource)


def _of_companions(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    for manifest in overlay.manifests:
        labels = mapping(at(manifest.data, ("metadata", "labels")))
        for label, message in _QUEUES.items():
            if label in labels:
                place = ("metadata", "labels", label)
                yield f"{overlay.name} {message.format(labels[label])}", manifest, place
        if manifest.kind == "PodGroup" and "queue" in manifest.spec:
            message = f"{overlay.name} waits in the queue {manifest.spec['queue']!r} of Volcano"
            yield message, manifest, ("spec", "queue")
        if manifest.kind == "Ingress":
            for index, rule in enumerate(listing(manifest.spec.get("rules"))):
                host = mapping(rule).get("host")
                message = f"{overlay.name} takes requests to the host {host!r} from outside of the cluster"
                yield message, manifest, ("spec", "rules", index, "host")
        elif manifest.kind == "Service" and at(manifest.data, ("spec", "type")) in ("NodePort", "LoadBalancer"):
            message = f"{overlay.name} takes requests from outside of the cluster, by a {manifest.spec['type']}"
            yield message, manifest, ("spec", "type")
