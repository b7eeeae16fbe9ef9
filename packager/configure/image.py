"""Sets the image of overlays: its name, tag and digest in their kustomizations. Tests: configure/test_image.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.names import IMAGE_PATH, TAG
from packager.base.problems import show
from packager.configure import settings
from packager.kubernetes.manifest import mapping, text
from packager.package import kustomization, layout
from packager.package.kustomization import ImageEntry
from packager.workloads import structures
from packager.workloads.pods import BUILT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.configure.settings import Files

_PLACEHOLDER = "REGISTRY/"
"""The registry of an image in the manifests and kustomizations of a package; mlops.env has its value."""

_FORM = re.compile(rf"(?P<name>{IMAGE_PATH})(:(?P<tag>{TAG}))?(@(?P<digest>sha256:[0-9a-f]{{64}}))?")
_LONGEST = 500


def check(image: str) -> None:
    """Refuse a text that is no image without a registry.

    Raises:
        UsageError: The text is something else, or begins with a registry.
    """
    first, slash, rest = image.partition("/")
    if slash and (first == "localhost" or set(first) & set(".:")):
        hint = f"the registry is REGISTRY in mlops.env: --registry {first} --image {rest}"
        raise UsageError(f"--image {show(image)}: expected an image without a registry", hint=hint)
    if len(image) > _LONGEST or not _FORM.fullmatch(image):
        raise UsageError(f"--image {show(image)}: expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag")


def assign(files: Files, overlays: Sequence[str], image: str) -> None:
    """Set the image of overlays. Of several overlays, those are left alone whose image is built elsewhere.

    Args:
        files: The files.
        overlays: The names of the overlays.
        image: A name, a tag and a digest; without a tag and a digest, the present ones are kept.

    Raises:
        UsageError: No overlay has an image that can be changed, or a kustomization cannot be edited.
    """
    names = {overlay: list(_images(files, overlay)) for overlay in overlays}
    own = {overlay: [entry for entry, is_own in listed if is_own] for overlay, listed in names.items()}
    if not any(own.values()):
        own = {overlay: [entry for entry, _ in listed] for overlay, listed in names.items()}
    if not any(own.values()):
        hint = "their manifests name images with a registry: change these there"
        raise UsageError(f"--image: no image of {', '.join(overlays)} is in REGISTRY of mlops.env", hint=hint)
    for overlay, entries in own.items():
        path = layout.kustomization(overlay)
        for entry in dict.fromkeys(entries):
            content, shown = files.read(path), files.package.shown(path)
            files.write(path, kustomization.set_image(content, _changed(entry, image, content, shown), shown))


def _changed(entry: ImageEntry, image: str, content: bytes, shown: str) -> ImageEntry:
    """Return the entry for an image of the manifests that replaces it by `image`."""
    match = _FORM.fullmatch(image)
    assert match is not None
    new_name = f"{_PLACEHOLDER}{match['name']}"
    tag, digest = match["tag"] or "", match["digest"] or ""
    if not tag and not digest:
        present = next((item for item in kustomization.images(content, shown) if item.name == entry.name), entry)
        tag, digest = present.new_tag, present.digest
    return ImageEntry(entry.name, "" if new_name == entry.name else new_name, tag, digest)


def _images(files: Files, overlay: str) -> Iterator[tuple[ImageEntry, bool]]:
    """Yield an entry that changes nothing for each image of an overlay, and whether it is built from the package."""
    for workload in settings.workloads(files, overlay):
        for pods in structures.pods(workload):
            is_own = BUILT_ELSEWHERE not in mapping(pods.metadata.get("annotations"))
            for _, container in pods.containers():
                image = text(container.get("image"))
                if image.startswith(_PLACEHOLDER) and (match := _FORM.fullmatch(image.removeprefix(_PLACEHOLDER))):
                    yield (
                        ImageEntry(f"{_PLACEHOLDER}{match['name']}", "", match["tag"] or "", match["digest"] or ""),
                        is_own,
                    )
