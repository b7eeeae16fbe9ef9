"""Finds values of mlops.env, of a patch or of an option with which pods would not start, or that have no effect.

Values that the API server refuses are left to it: `kubectl apply` prints its message. Tests: verify/test_runnable.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import units
from packager.base.names import IMAGE
from packager.base.problems import similar
from packager.base.values import replace
from packager.kubernetes.containers import mount_complaint, normalized, references, resource_faults
from packager.kubernetes.manifest import INT32, at, listing, mapping, out_of_range, text
from packager.package.image import REGISTRY, WRITTEN, bare
from packager.rendering.kustomization import IMAGE_HINT
from packager.verify import additions, security, taken
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

_KUBELET_WRITTEN = frozenset(("configMap", "secret", "downwardAPI", "projected"))


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each image, user, amount, key, mount and variable with which pods would not run."""
    yield from _idle_entries(overlay)
    for pods in overlay.pods:
        for location, context in security.contexts(pods):
            for field in ("runAsUser", "runAsGroup", "fsGroup"):
                # pkg/apis/core/validation: an id is an int32 that is not negative.
                if message := out_of_range(context.get(field), (0, INT32)):
                    yield overlay.problem(pods.manifest, (*location, field), message)
        for noun, name, location in taken.fields(pods):
            if noun == taken.CONFIG_MAP:
                yield from _keys(overlay, pods, name, location[:-1])
        for location, container in pods.containers():
            yield from _image(overlay, pods, location, container.get("image"))
            yield from _resources(overlay, pods, (*location, "resources"), mapping(container.get("resources")))
            yield from _user(overlay, pods, location)
            yield from _mounts(overlay, pods, location, container)
            yield from _command(overlay, pods, location, container)


def by_tag(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a problem for each image that is named by its tag."""
    for pods in overlay.pods:
        images = [((*place, "image"), container.get("image"), "mlpack lock") for place, container in pods.containers()]
        for place, volume in pods.volumes():
            hint = "name it by its digest: mlpack configure --set WEIGHTS_IMAGE=NAME@sha256:…"
            images.append(((*place, "image", "reference"), mapping(volume.get("image")).get("reference"), hint))
        for location, image, hint in images:
            if isinstance(image, str) and "@sha256:" not in image:
                message = f"{image} is named by its tag, which may move"
                yield overlay.problem(pods.manifest, location, message, hint)


def _idle_entries(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a problem for each entry of `images` that no image of the pods shows: values of mlops.env are set later."""
    for entry, place in overlay.sources.image_entries:
        end = f"@{entry['digest']}" if entry.get("digest") else f":{entry['newTag']}" if entry.get("newTag") else ""
        expected = f"{entry.get('newName') or entry['name']}{end}"
        ending = expected.removeprefix(REGISTRY) if expected.startswith(f"{REGISTRY}/") else f" {expected}"
        if not any(f" {image if end else bare(image)}".endswith(ending) for image in overlay.images):
            message = f"this entry has no effect: the image is {WRITTEN} of mlops.env"
            yield replace(place, message=message, hint=IMAGE_HINT)


def _image(overlay: RenderedOverlay, pods: Pods, here: Location, image: Any) -> Iterator[Problem]:
    match = re.fullmatch(IMAGE, text(image))
    message = None
    if not match:
        message = "the container has no image" if image is None else f"invalid image {image!r}"
    elif not match["tag"] and not match["digest"]:
        message = f"{image} has no tag or digest, so a later pull may get a different image"
    if message:
        yield overlay.problem(pods.manifest, (*here, "image"), message, "name a tag" if match else None)


def _resources(overlay: RenderedOverlay, pods: Pods, here: Location, given: dict[str, Any]) -> Iterator[Problem]:
    valid: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for part, amounts in valid.items():
        for name, value in mapping(given.get(part)).items():
            try:
                units.parse_quantity(str(value))
                amounts[name] = str(value)
            except ValueError:
                message = f"expected a quantity such as 500m or 4Gi, found {value!r}"
                yield overlay.problem(pods.manifest, (*here, part, name), message)
    for fault in resource_faults(valid["requests"], valid["limits"]):
        yield overlay.problem(pods.manifest, (*here, *fault.location), fault.message, fault.hint, at_key=fault.at_key)


def _user(overlay: RenderedOverlay, pods: Pods, here: Location) -> Iterator[Problem]:
    """Check that no container with `runAsNonRoot` has `runAsUser: 0`: the kubelet would not start it."""
    place, user = security.inherited(pods, (*here, "securityContext"), "runAsUser")
    _, is_not_root = security.inherited(pods, (*here, "securityContext"), "runAsNonRoot")
    if is_not_root is True and user == 0 and user is not False:
        message = "runs as root, which runAsNonRoot forbids: the container would never start"
        yield overlay.problem(pods.manifest, place, message, "choose another user")


def _keys(overlay: RenderedOverlay, pods: Pods, name: str, location: Location) -> Iterator[Problem]:
    """Check that a ConfigMap has the keys that a reference names; `allowed_fields` reports a missing one."""
    reference, config = mapping(at(pods.manifest.data, location)), overlay.named("ConfigMap", name)
    if config is None or reference.get("optional") is True:
        return
    keys = [*mapping(config.data.get("data")), *mapping(config.data.get("binaryData"))]
    named = [((*location, "key"), reference.get("key"))]
    for index, item in enumerate(listing(reference.get("items"))):
        named.append(((*location, "items", index, "key"), mapping(item).get("key")))
    for here, key in named:
        if key is not None and key not in keys:
            message = f"the ConfigMap {name} has no key {key!r}"
            yield overlay.problem(pods.manifest, here, message, similar(str(key), keys))


def _mounts(overlay: RenderedOverlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    volumes = {text(volume.get("name")): volume for _, volume in pods.volumes()}
    mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
    written = [  # the folders that the kubelet fills, in which it creates none for another mount
        normalized(text(mount.get("mountPath")))
        for mount in mounts
        if _KUBELET_WRITTEN & volumes.get(text(mount.get("name")), {}).keys() and not mount.get("subPath")
    ]
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        folder, here = normalized(path), (*location, "volumeMounts", index)
        if name and name not in volumes:
            hint = similar(name, volumes)
            yield overlay.problem(pods.manifest, (*here, "name"), f"volume {name!r} not found", hint)
        complaint = mount_complaint(path)
        if folder in seen:
            complaint = f"two volumes are mounted at {path}"
        elif above := next((other for other in written if folder.startswith(f"{other}/")), None):
            complaint = f"{path} is in {above}, which is mounted from a ConfigMap, and no folder can be created there"
        if complaint:
            yield overlay.problem(pods.manifest, (*here, "mountPath"), complaint)
        seen.add(folder)


def _command(overlay: RenderedOverlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    """Check that the variables of the command exist, unless an object outside of the package has some of them."""
    sources = [mapping(mapping(source).get("configMapRef")).get("name") for source in listing(container.get("envFrom"))]
    if any(overlay.named("ConfigMap", name) is None for name in sources):
        return
    variables = {text(mapping(variable).get("name")) for variable in listing(container.get("env"))}
    variables.update(structures.added_variables(pods.manifest))
    for prefix, manifest in additions.config_maps(overlay, container):
        variables.update(f"{prefix}{key}" for key in mapping(manifest.data.get("data")))
    for field in ("command", "args"):
        for index, argument in enumerate(listing(container.get(field))):
            for name in references(str(argument)):
                if name not in variables:
                    message = f"$({name}) is not a variable of the container and is not expanded"
                    here = (*location, field, index)
                    yield overlay.problem(pods.manifest, here, message, similar(name, variables))
