"""Sets the image of overlays: its name, tag and digest, in mlops.env.

Packages of earlier versions have no line for it there: their kustomizations replace the image.

Tests: configure/test_image.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.names import split_registry
from packager.base.problems import show
from packager.configure import settings
from packager.kubernetes.manifest import mapping, text
from packager.package import image as image_names
from packager.package import kustomization, layout
from packager.package.image import IMAGE, REGISTRY, ImageName, parse
from packager.package.kustomization import ImageEntry
from packager.workloads import structures
from packager.workloads.pods import BUILT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.configure.settings import Files

_PLACEHOLDER = f"{REGISTRY}/"
"""The registry of an image in the manifests and kustomizations of a package; mlops.env has its value."""


def check(image: str, label: str = "--image") -> None:
    """Refuse a text that is no image without a registry."""
    if registry := split_registry(image)[0]:
        hint = f"the registry is REGISTRY in mlops.env: --registry {registry} --image {image.partition('/')[2]}"
        raise UsageError(f"{label} {show(image)}: expected an image without a registry", hint=hint)
    if complaint := image_names.complaint(image):
        raise UsageError(f"{label} {show(image)}: {complaint}")


def assign(files: Files, overlays: Sequence[str], image: str) -> None:
    """Set the image of overlays. Of several overlays, those are left alone whose image is built elsewhere.

    Args:
        files: The files.
        overlays: The names of the overlays.
        image: A name, a tag and a digest; without a tag and a digest, the present ones are kept.
    """
    new = parse(image)
    assert new is not None
    images = {overlay: _images(files, overlay) for overlay in overlays}
    own = {overlay: [name for name, is_own in pairs if is_own] for overlay, pairs in images.items()}
    if not any(own.values()):
        own = {overlay: [name for name, _ in pairs] for overlay, pairs in images.items()}
    if not any(own.values()):
        hint = "their manifests name images with a registry: change these there"
        raise UsageError(f"--image: no image of {', '.join(overlays)} is in REGISTRY of mlops.env", hint=hint)
    for overlay, names in own.items():
        if names and is_in_env(files, overlay):
            files.assign(layout.env(overlay), IMAGE, str(_merged(new, in_env(files, overlay))))
            continue
        path = layout.kustomization(overlay)
        for name in names:
            content, shown = files.read(path), files.package.shown(path)
            files.write(path, kustomization.set_image(content, _entry(name, new, content, shown), shown))


def is_in_env(files: Files, overlay: str) -> bool:
    """Return whether the manifests of an overlay take their image from IMAGE in mlops.env."""
    return IMAGE in files.original.sources(overlay).image_keys


def in_env(files: Files, overlay: str) -> ImageName | None:
    """Return the image in an overlay's mlops.env; None if mlops.env has no valid image."""
    return parse(settings.value(files, overlay, IMAGE) or "")


def _merged(new: ImageName, present: ImageName | None) -> ImageName:
    """Return an image; without a tag and a digest, it gets the present ones."""
    if present is None or new.tag or new.digest:
        return new
    return ImageName(new.name, present.tag, present.digest)


def _entry(name: ImageName, new: ImageName, content: bytes, shown: str) -> ImageEntry:
    """Return the entry of a kustomization for an image of the manifests, which is replaced by a new one."""
    source, new_name = f"{_PLACEHOLDER}{name.name}", f"{_PLACEHOLDER}{new.name}"
    entries = kustomization.images(content, shown)
    present = next((ImageName(name.name, item.new_tag, item.digest) for item in entries if item.name == source), name)
    result = _merged(new, present)
    return ImageEntry(source, "" if new_name == source else new_name, result.tag, result.digest)


def _images(files: Files, overlay: str) -> list[tuple[ImageName, bool]]:
    """Return each image of an overlay that is in REGISTRY, and whether it is built from the package."""
    images = []
    for workload in settings.workloads(files, overlay):
        for pods in structures.pods(workload):
            is_own = BUILT_ELSEWHERE not in mapping(pods.metadata.get("annotations"))
            for _, container in pods.containers():
                image = text(container.get("image"))
                if image == image_names.WRITTEN:
                    images.append((ImageName(IMAGE), is_own))
                elif image.startswith(_PLACEHOLDER) and (name := parse(image.removeprefix(_PLACEHOLDER))):
                    images.append((name, is_own))
    return list(dict.fromkeys(images))
