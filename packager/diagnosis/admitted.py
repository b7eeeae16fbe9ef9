"""Finds changes of pods by webhooks and policies, by comparison with the objects that made the pods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.kubernetes.objects import labels, shown
from packager.kubernetes.pods import RELEASED
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.kinds import Workload


_EDITED = re.compile(r"Container (\S+) definition changed")
"""The event of a kubelet about a container whose image was changed (pkg/kubelet/kuberuntime)."""


def changed_images(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each container whose image is in no template for a container of that name."""
    images: dict[str, set[str]] = {}
    for spec in _templates(snapshot):
        for name, image in _images(spec):
            images.setdefault(name, set()).add(image)
    for pod in snapshot.pods:
        for name, image in _images(mapping(pod.get("spec"))):
            if image not in (expected := images.get(name, {image})):
                change = f"the image of container {name}: {' or '.join(sorted(expected))} -> {image}"
                is_edited = bool(_edited(snapshot, pod))
                message = f"a user has changed {change}" if is_edited else f"the cluster has changed {change}"
                remedy = None if is_edited else Remedy.of(Action.INSPECT_MUTATIONS)
                yield Finding("ImageChanged", shown(pod), message, remedy, blocks=False)
        if pod is snapshot.workload or shown(pod) == shown(snapshot.workload):  # its image is compared with itself
            for name in _edited(snapshot, pod):
                message = f"a user has changed the definition of container {name} since it was deployed"
                yield Finding("ImageChanged", shown(pod), message, blocks=False)


def _edited(snapshot: Snapshot, pod: Object) -> list[str]:
    """Return the containers that the kubelet starts again because a user has changed them in the pod."""
    texts = (_EDITED.search(str(event.get("message"))) for event in snapshot.about(pod, "Killing"))
    return list(dict.fromkeys(match[1] for match in texts if match))


def template_containers(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the containers in the templates of the workload's pods."""
    return frozenset(name for spec in _templates(snapshot) for name, _ in _images(spec))


def _templates(snapshot: Snapshot) -> list[Object]:
    specs = [dict(pods.spec) for pods in pods_of(Manifest(snapshot.workload))]
    return [*specs, *(dict(mapping(at(child, ("spec", "template", "spec")))) for child in snapshot.children)]


def _images(spec: Object) -> Iterator[tuple[str, str]]:
    for key in ("initContainers", "containers"):
        for container in map(mapping, listing(spec.get(key))):
            if container.get("image"):
                yield str(container.get("name")), str(container["image"])


def released(pods: Iterable[Object]) -> Iterator[Finding]:
    """Yield a finding for each pod that its controller has released, and that outlives its workload."""
    for pod in pods:
        yield Finding("Relabelled", shown(pod), RELEASED, Remedy.of(Action.DELETE_RELABELLED_PODS), blocks=False)


def relabelled(kind: Workload, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each pod that its controller does not find, so that it creates more and more pods."""
    if not snapshot.strays:
        return
    selectors = [kind.selector(snapshot.workload) or {}]
    items = (snapshot.workload, *snapshot.children)
    selectors += [mapping(at(item, ("spec", "selector", "matchLabels"))) for item in items]
    for pod in snapshot.strays:
        changes = [
            f"{key}={value} to {labels(pod)[key]}" if key in labels(pod) else f"{key}={value} to nothing"
            for selector in selectors
            for key, value in selector.items()
            if labels(pod).get(key) != value
        ]
        if changes:
            message = f"its controller does not find this pod, and makes others: the cluster has changed {changes[0]}"
            yield Finding("Relabelled", shown(pod), message, Remedy.of(Action.DELETE_RELABELLED_PODS), final_after=0)
