"""Checks containers and ConfigMaps by Kubernetes' rules: images, resources, sizes. Tests: verify/test_podspec.py."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base import units
from packager.base.names import IMAGE
from packager.kubernetes import configmap, resources
from packager.kubernetes.manifest import INT32, mapping, out_of_range, text

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
    yield from _sizes(overlay)


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
                units.parse_quantity(str(value))
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


# apimachinery, TotalAnnotationSizeLimitB: client-side apply keeps a copy of the object in an annotation.
_APPLY_BYTES = 262_144
# Kubernetes, pkg/apis/core/validation: MaxSecretSize, for ConfigMaps as well.
_MAP_BYTES = 1 << 20

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Go's encoding/json writes these as \\u003c and so on (encoding/json, HTMLEscape): six bytes each.
_FIVE_MORE = "<>&"
_THREE_MORE = "\u2028\u2029"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CONTROL_IN_JSON = re.compile(r"\\[bfu]|[\x7f-\x9f]")  # without a match, no text has a control character
_FILES = ("data", "binaryData", "stringData")

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _sizes(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each object that is too large, and for keys and characters that Kubernetes refuses."""
    for manifest in overlay.manifests:
        copy = _as_json(manifest.data)
        yield from _size(overlay, manifest, copy)
        if manifest.kind in ("ConfigMap", "Secret"):
            yield from _keys(overlay, manifest)
        yield from _characters(overlay, manifest, copy)


def _size(overlay: RenderedOverlay, manifest: Manifest, copy: str) -> Iterator[Problem]:
    size = _annotation_bytes(manifest, copy)
    values = [*mapping(manifest.data.get("data")).values(), *mapping(manifest.data.get("binaryData")).values()]
    if manifest.kind in ("ConfigMap", "Secret") and sum(len(str(value).encode()) for value in values) > _MAP_BYTES:
        yield overlay.problem(manifest, (), f"{size / 1024:.0f} KiB, but Kubernetes accepts at most 1,024 KiB")
    elif size > _APPLY_BYTES:
        message = f"{size / 1024:.0f} KiB, but `kubectl apply` accepts at most {_APPLY_BYTES // 1024} KiB"
        yield overlay.problem(manifest, (), message, "put large files into the image or on storage")


def _annotation_bytes(manifest: Manifest, copy: str) -> int:
    """Return the size of an object's annotations in bytes, including the copy that `kubectl apply` adds."""
    size = len(copy.encode(errors="surrogatepass"))
    size += 5 * sum(map(copy.count, _FIVE_MORE)) + 3 * sum(map(copy.count, _THREE_MORE))
    own = mapping(mapping(manifest.data.get("metadata")).get("annotations"))
    return size + len(_LAST_APPLIED) + sum(len(str(key).encode()) + len(str(own[key]).encode()) for key in own)


def _keys(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    for field in _FILES:
        for key in mapping(manifest.data.get(field)):
            if not configmap.KEY.fullmatch(key):
                message = f"{key!r} is not a valid key of a {manifest.kind}: use at most 253 letters, digits and '-._'"
                yield overlay.problem(manifest, (field, key), message, "rename it", at_key=True)
    for key in mapping(manifest.data.get("binaryData")):
        if key in mapping(manifest.data.get("data")):
            yield overlay.problem(manifest, ("binaryData", key), f"the key {key!r} is also in data", at_key=True)


def _characters(overlay: RenderedOverlay, manifest: Manifest, copy: str) -> Iterator[Problem]:
    """Yield control characters, except tabs, line breaks, and those in the data of a ConfigMap or Secret."""
    fields = manifest.data
    if any(field in fields for field in _FILES):
        fields = {key: value for key, value in fields.items() if key not in _FILES}
        copy = _as_json(fields)
    is_plain = copy.isascii() and "\\" not in copy and "\x7f" not in copy  # many times faster than the pattern
    if is_plain or not _CONTROL_IN_JSON.search(copy):
        return
    for location, value in _texts(fields, ()):
        if control := _CONTROL.search(value):
            message = f"contains the control character U+{ord(control[0]):04X}"
            yield overlay.problem(manifest, location, message, "remove it")


def _texts(value: Any, above: Location) -> Iterator[tuple[Location, str]]:
    """Yield every text below `value`, including keys, and its location."""
    if isinstance(value, str):
        yield above, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield (*above, key), str(key)
            yield from _texts(child, (*above, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _texts(child, (*above, index))
