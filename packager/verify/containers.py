"""Containers and ConfigMaps as Kubernetes would take them: images, resources, users, sizes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager import quantity
from packager.verify.overlay import integer, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from packager.problems import Problem
    from packager.verify.overlay import Manifest, Overlay, Pods
    from packager.yamlio import Location

# distribution/reference, reference.go.
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?(?::\d{1,5})?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?P<tag>:[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?"
    r"(?P<digest>@sha256:[0-9a-f]{64})?"
)

# apimachinery, TotalAnnotationSizeLimitB: client-side apply keeps a copy of the object in an annotation.
_APPLY_BYTES = 262_144
# Kubernetes, pkg/apis/core/validation: MaxSecretSize, for ConfigMaps as well.
_MAP_BYTES = 1 << 20

# pkg/apis/core/validation: an id is an int32 that is not negative.
_MAX_ID = (1 << 31) - 1


def check(overlay: Overlay) -> Iterator[Problem]:
    """Yield a finding for every container and ConfigMap that Kubernetes would refuse, or could not start."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            yield from _image(overlay, pods.manifest, (*location, "image"), container.get("image"))
            yield from _resources(overlay, pods.manifest, (*location, "resources"), container.get("resources"))
            yield from _user(overlay, pods, location, container)
        yield from _ids(overlay, pods.manifest, (*pods.location, "spec", "securityContext"), pods.spec)
        yield from _unique(overlay, pods)
    for manifest in overlay.manifests:
        if manifest.kind in ("ConfigMap", "Secret"):
            yield from _size(overlay, manifest)


def _image(overlay: Overlay, manifest: Manifest, here: Location, image: Any) -> Iterator[Problem]:
    if not isinstance(image, str):
        if image is None:
            yield overlay.problem(manifest, here[:-1], "the container has no image")
        return
    match = _IMAGE.fullmatch(image)
    if not match:
        yield overlay.problem(manifest, here, f"{image!r} is no image")
    elif not match["tag"] and not match["digest"]:
        message = f"{image} has neither tag nor digest: tomorrow it is another image"
        yield overlay.problem(manifest, here, message, "name a tag")


def _resources(overlay: Overlay, manifest: Manifest, here: Location, resources: Any) -> Iterator[Problem]:
    found: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    for kind, amounts in found.items():
        for name, value in mapping(mapping(resources).get(kind)).items():
            try:
                amounts[name] = quantity.parse(str(value))
            except ValueError:
                message = f"expected a quantity such as 500m or 4Gi, found {value!r}"
                yield overlay.problem(manifest, (*here, kind, name), message)
            else:
                if amounts[name] < 0:
                    yield overlay.problem(manifest, (*here, kind, name), f"{value} is negative")
    for name, request in found["requests"].items():
        limit = found["limits"].get(name)
        if limit is not None and request > limit:
            given = mapping(resources)
            message = f"requests {given['requests'][name]} of {name}, above its limit of {given['limits'][name]}"
            yield overlay.problem(manifest, (*here, "requests", name), message, "raise the limit, or lower the request")


def _user(overlay: Overlay, pods: Pods, here: Location, container: dict[str, Any]) -> Iterator[Problem]:
    """See that no container has to run as a user that it must not run as: the kubelet would refuse to start it."""
    own, of_pod = mapping(container.get("securityContext")), mapping(pods.spec.get("securityContext"))
    yield from _ids(overlay, pods.manifest, (*here, "securityContext"), container)
    place = (*here, "securityContext") if "runAsUser" in own else (*pods.location, "spec", "securityContext")
    user = own.get("runAsUser", of_pod.get("runAsUser"))
    if own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is True and user == 0 and user is not False:
        message = "runs as root, which runAsNonRoot forbids: the container would never start"
        yield overlay.problem(pods.manifest, (*place, "runAsUser"), message, "choose another user")


def _ids(overlay: Overlay, manifest: Manifest, here: Location, holder: dict[str, Any]) -> Iterator[Problem]:
    context = mapping(holder.get("securityContext"))
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = integer(context.get(field))
        if value is not None and not 0 <= value <= _MAX_ID:
            yield overlay.problem(manifest, (*here, field), f"expected 0 to {_MAX_ID}, found {value}")


def _unique(overlay: Overlay, pods: Pods) -> Iterator[Problem]:
    """A strategic merge takes two of one name for one; a list that is replaced whole can still hold both."""
    seen: set[tuple[str, str]] = set()
    named = [("container", *item) for item in pods.containers()] + [("volume", *item) for item in pods.volumes()]
    for what, location, item in named:
        name = text(item.get("name"))
        if name and (what, name) in seen:
            yield overlay.problem(pods.manifest, (*location, "name"), f"there are two {what}s {name!r}")
        seen.add((what, name))


def _size(overlay: Overlay, manifest: Manifest) -> Iterator[Problem]:
    size = len(json.dumps(manifest.data, ensure_ascii=False).encode())
    values = [*mapping(manifest.data.get("data")).values(), *mapping(manifest.data.get("binaryData")).values()]
    if sum(len(str(value).encode()) for value in values) > _MAP_BYTES:
        yield overlay.problem(manifest, (), f"{size / 1024:.0f} KiB, and Kubernetes takes 1,024 KiB")
    elif size > _APPLY_BYTES:
        message = f"{size / 1024:.0f} KiB, and `kubectl apply` takes {_APPLY_BYTES // 1024} KiB"
        yield overlay.problem(manifest, (), message, "put large files into the image or on storage")
