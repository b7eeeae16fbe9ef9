"""Lists the images, programs, mounts and claims that an edit makes pods use. Tests: verify/test_edits.py."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any

from packager.base.values import Value, replace
from packager.kubernetes.manifest import at, listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.original import Original

_SHOWN = 300

_HOOKS = (
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
)
"""The places where a container has commands beside its program."""

_CONFIG_MAPS = {"configMap", "projected"}
"""The sources of volumes with files of the package."""


class _Usage(Value, frozen=True):
    """An image, program, mount, folder or claim that pods use.

    Attributes:
        noun: The noun for messages, such as "image".
        value: The name of the image, the program, the mount, the folder or the claim.
        manifest: The workload.
        location: The location of the value in the workload.
    """

    noun: str
    value: str
    manifest: Manifest
    location: Location


def notes(overlay: RenderedOverlay, original: Original) -> Iterator[Problem]:
    """Yield a note for each image, program, folder and claim that the overlay uses, and did not use when sealed.

    Raises:
        ToolError: A file cannot be read, or there is no room for a copy.
    """
    if not original.edits.paths:
        return
    before: dict[str, dict[str, None]] = {}
    for use in _uses(original.sealed) if original.sealed else ():
        before.setdefault(use.noun, {})[use.value] = None
    new = {(use.noun, use.value): use for use in _uses(overlay) if use.value not in before.get(use.noun, {})}
    for use in new.values():
        sealed = ", ".join(map(_short, before.get(use.noun, {}))) or "none"
        message = f"an edit changes the {use.noun} of {overlay.name}: {_short(use.value)}; it was sealed with {sealed}"
        yield replace(overlay.problem(use.manifest, use.location, ""), message=message)


def _short(value: str) -> str:
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value):,} characters)"


def _uses(overlay: RenderedOverlay) -> Iterator[_Usage]:
    for pods in overlay.pods:
        config_maps = {text(volume.get("name")) for _, volume in pods.volumes() if _CONFIG_MAPS & volume.keys()}
        for location, container in pods.containers():
            yield from _of_container(pods.manifest, location, container)
            yield from _mounts(pods.manifest, location, container, config_maps)
        for location, volume in pods.volumes():
            yield from _of_volume(pods.manifest, location, volume)


def _of_container(manifest: Manifest, location: Location, container: dict[str, Any]) -> Iterator[_Usage]:
    if container.get("image") is not None:
        yield _Usage("image", text(container["image"]), manifest, (*location, "image"))
    for field in ("command", "args"):
        if words := listing(container.get(field)):
            yield _Usage(field, _listed(words), manifest, (*location, field))
    for place in _HOOKS:
        if words := listing(at(container, (*place, "exec", "command"))):
            yield _Usage(f"command of {place[-1]}", _listed(words), manifest, (*location, *place, "exec", "command"))
    if container.get("workingDir") is not None:
        yield _Usage("working folder", text(container["workingDir"]), manifest, (*location, "workingDir"))


def _mounts(
    manifest: Manifest, location: Location, container: dict[str, Any], config_maps: Collection[str]
) -> Iterator[_Usage]:
    """Yield the mounts of ConfigMaps, whose files programs may load; only the last part of a path is compared.

    Edits of MODEL_DIR, which each user makes, change the other parts.
    """
    for index, mount in enumerate(map(mapping, listing(container.get("volumeMounts")))):
        volume, path = text(mount.get("name")), text(mount.get("mountPath"))
        if volume in config_maps:
            source = "/".join((volume, *([text(mount["subPath"])] if mount.get("subPath") else [])))
            value = f"{source} as {posixpath.basename(path.rstrip('/'))}"
            yield _Usage("mount", value, manifest, (*location, "volumeMounts", index, "mountPath"))


def _listed(words: list[Any]) -> str:
    return json.dumps(words, ensure_ascii=False, default=str)


def _of_volume(manifest: Manifest, location: Location, volume: dict[str, Any]) -> Iterator[_Usage]:
    kinds = ("hostPath", "nfs", "persistentVolumeClaim", "image")
    host, nfs, claim, image = (mapping(volume.get(kind)) for kind in kinds)
    if host:
        yield _Usage("folder of the nodes", text(host.get("path")), manifest, (*location, "hostPath", "path"))
    if nfs:
        place = f"{text(nfs.get('server'))}:{text(nfs.get('path'))}"
        yield _Usage("folder on NFS", place, manifest, (*location, "nfs", "path"))
    if claim:
        name = text(claim.get("claimName"))
        yield _Usage("claim", name, manifest, (*location, "persistentVolumeClaim", "claimName"))
    if image:
        yield _Usage("image volume", text(image.get("reference")), manifest, (*location, "image", "reference"))
