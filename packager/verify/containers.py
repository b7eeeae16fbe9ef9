"""Checks containers and ConfigMaps by Kubernetes' rules: images, resources, sizes. Tests: verify/test_podspec.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import quantity
from packager.base.names import IMAGE
from packager.kubernetes import resources
from packager.kubernetes.manifest import INT32, mapping, out_of_range, text
from packager.verify import sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every container and ConfigMap that Kubernetes would refuse or could not start."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            yield from _image(overlay, pods.manifest, (*location, "image"), container.get("image"))
            yield from _resources(overlay, pods.manifest, (*location, "resources"), container.get("resources"))
            yield from _user(overlay, pods, location, container)
        yield from _ids(overlay, pods.manifest, (*pods.location, "spec", "securityContext"), pods.spec)
        yield from _unique(overlay, pods)
    yield from sizes.check(overlay)


def by_tag(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a problem for each image that is named by its tag."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            image = container.get("image")
            if isinstance(image, str) and "@sha256:" not in image:
                message = f"{image} is named by its tag, which may move"
                yield overlay.problem(pods.manifest, (*location, "image"), message, "mlpack lock")
        for location, volume in pods.volumes():
            image = mapping(volume.get("image")).get("reference")
            if isinstance(image, str) and "@sha256:" not in image:
                message = f"{image} is named by its tag, which may move"
                hint = "name it by its digest: mlpack configure --set WEIGHTS_IMAGE=NAME@sha256:…"
                yield overlay.problem(pods.manifest, (*location, "image", "reference"), message, hint)


def _image(overlay: RenderedOverlay, manifest: Manifest, here: Location, image: Any) -> Iterator[Problem]:
    if not isinstance(image, str):
        if image is None:
            yield overlay.problem(manifest, here[:-1], "the container has no image")
        return
    match = re.fullmatch(IMAGE, image)
    if not match:
        yield overlay.problem(manifest, here, f"invalid image {image!r}")
    elif not match["tag"] and not match["digest"]:
        message = f"{image} has no tag or digest, so a later pull may get a different image"
        yield overlay.problem(manifest, here, message, "name a tag")


def _resources(overlay: RenderedOverlay, manifest: Manifest, here: Location, given: Any) -> Iterator[Problem]:
    sound: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for part, amounts in sound.items():
        for name, value in mapping(mapping(given).get(part)).items():
            try:
                quantity.parse(str(value))
            except ValueError:
                message = f"expected a quantity such as 500m or 4Gi, found {value!r}"
                yield overlay.problem(manifest, (*here, part, name), message)
            else:
                amounts[name] = str(value)
    for fault in resources.faults(sound["requests"], sound["limits"]):
        yield overlay.problem(manifest, (*here, *fault.location), fault.message, fault.hint, at_key=fault.at_key)


def _user(overlay: RenderedOverlay, pods: Pods, here: Location, container: dict[str, Any]) -> Iterator[Problem]:
    """Check that no container with `runAsNonRoot` has `runAsUser: 0`: the kubelet would not start it."""
    own, of_pod = mapping(container.get("securityContext")), mapping(pods.spec.get("securityContext"))
    yield from _ids(overlay, pods.manifest, (*here, "securityContext"), container)
    place = (*here, "securityContext") if "runAsUser" in own else (*pods.location, "spec", "securityContext")
    user = own.get("runAsUser", of_pod.get("runAsUser"))
    if own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is True and user == 0 and user is not False:
        message = "runs as root, which runAsNonRoot forbids: the container would never start"
        yield overlay.problem(pods.manifest, (*place, "runAsUser"), message, "choose another user")


def _ids(overlay: RenderedOverlay, manifest: Manifest, here: Location, holder: dict[str, Any]) -> Iterator[Problem]:
    context = mapping(holder.get("securityContext"))
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        # pkg/apis/core/validation: an id is an int32 that is not negative.
        if message := out_of_range(context.get(field), (0, INT32)):
            yield overlay.problem(manifest, (*here, field), message)


def _unique(overlay: RenderedOverlay, pods: Pods) -> Iterator[Problem]:
    """Yield duplicate names: a strategic merge joins items of one name, but a list replaced whole may have both."""
    seen: set[tuple[str, str]] = set()
    named = [("container", *item) for item in pods.containers()] + [("volume", *item) for item in pods.volumes()]
    for what, location, item in named:
        name = text(item.get("name"))
        if name and (what, name) in seen:
            yield overlay.problem(pods.manifest, (*location, "name"), f"duplicate {what} {name!r}")
        seen.add((what, name))
