"""Images with digests -> files: the digest of an overlay's image is in its mlops.env.

Other images, as those of containers that a site adds, get theirs from a component of the overlay. It is like a site's
own one, so verify shows it as an edit, and upgrade keeps it.

Tests: cli/test_lock.py.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.values import Value, replace
from packager.configure.settings import value
from packager.package import layout
from packager.package.image import IMAGE, REGISTRY, bare, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.configure.settings import Files

_PREFIX = "image-lock-"
_MOST_PLATFORMS = 8

_HEAD = """\
# The images of {overlay} by their digests: a tag that moves in the registry changes nothing here.
# `mlpack lock` writes this file, and `mlpack lock --check` compares it with the registry.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
images:"""


class ImageLock(Value, frozen=True):
    """An image, and the digest that it is locked to."""

    image: str  # the image with its tag, as the overlay renders without a lock
    digest: str
    # the platforms of the index that the digest is of; empty if it is that of one manifest
    platforms: tuple[str, ...] = ()


def path(overlay: str) -> str:
    """Return the path of the component with an overlay's lock."""
    return f"{layout.ADDED}/{_PREFIX}{overlay}/{layout.KUSTOMIZATION}"


def place(files: Files, overlay: str, image: str) -> tuple[str, int]:
    """Return the path and the line where an image of an overlay has its digest, or would have it."""
    keys = {bare(own): key for own, key in _own_images(files, overlay).items()}
    key, env = keys.get(bare(image)), layout.env(overlay)
    if key is None:
        return path(overlay), 0
    return env, next(line.number for line in envfile.lines(files.read(env)) if line.key == key)


def unlock(files: Files, overlay: str) -> None:
    """Take the digests off images that have a tag, and leave the component with a lock out of the kustomization.

    A digest that the package was built with stays.
    """
    env = layout.env(overlay)
    built = {(line.key, line.value) for line in envfile.lines(files.package.sealed(env) or b"")}
    for key in _own_images(files, overlay).values():
        image = parse(value(files, overlay, key) or "")
        if image and image.tag and image.digest and (key, str(image)) not in built:
            files.assign(env, key, str(replace(image, digest="")))
    files.switch(overlay, f"{_PREFIX}{overlay}", on=False)


def lock(files: Files, overlay: str, locks: Sequence[ImageLock]) -> None:
    """Lock the images of an overlay."""
    names: dict[str, ImageLock] = {}
    own = _own_images(files, overlay)
    for entry in locks:
        if key := own.get(entry.image):
            files.assign(layout.env(overlay), key, f"{value(files, overlay, key)}@{entry.digest}")
            continue
        other = names.setdefault(bare(entry.image), entry)
        if other.digest != entry.digest:
            message = f"{overlay} uses {other.image} and {entry.image}: kustomize locks one tag of an image"
            raise UsageError(message, hint="give one of them another repository")
    if names:
        lines = [
            line
            for name, entry in names.items()
            for source in _sources(files, overlay, name)
            for line in _lines(source, entry)
        ]
        content = "\n  ".join([_HEAD.format(overlay=overlay), *lines]) + "\n"
        files.add_component([overlay], f"{_PREFIX}{overlay}", {layout.KUSTOMIZATION: content.encode()})


def overlay_of(place: str) -> str | None:
    """Return the overlay whose lock has this path; None for another file."""
    folder = posixpath.basename(posixpath.dirname(place))
    overlay = folder.removeprefix(_PREFIX)
    return overlay if folder.startswith(_PREFIX) and place == path(overlay) else None


def written(content: bytes) -> set[str]:
    """Return the images in a manifest as they are written there."""
    return {match.decode() for match in re.findall(rb"\bimage: *[\"']?([A-Za-z0-9_.:/@-]+)", content)}


def without_images(overlay: str) -> bytes:
    """Return the content of a lock that locks no image."""
    return f"{_HEAD.format(overlay=overlay)} []\n".encode()


def _own_images(files: Files, overlay: str) -> dict[str, str]:
    """Return the images that an overlay has in its mlops.env, with their registries, each with its key."""
    images = {}
    for key in sorted(files.original.sources(overlay).image_keys):
        registry = value(files, overlay, key.removesuffix(IMAGE) + REGISTRY) or value(files, overlay, REGISTRY)
        images[f"{registry}/{value(files, overlay, key)}"] = key
    return images


def _lines(name: str, entry: ImageLock) -> list[str]:
    listed = ", ".join(entry.platforms[:_MOST_PLATFORMS])
    more = ", ..." if len(entry.platforms) > _MOST_PLATFORMS else ""
    index = f", an index for {listed}{more}" if listed else ""
    return [f"# {entry.image}{index}", f"- name: {name}", f"  digest: {entry.digest}"]


def _sources(files: Files, overlay: str, name: str) -> list[str]:
    """Return the names that an image has in the files of an overlay, where REGISTRY may not be filled in yet."""
    registry = value(files, overlay, REGISTRY)
    replaced = f"{REGISTRY}/{name.removeprefix(f'{registry}/')}"
    names = (replaced, name) if registry and name.startswith(f"{registry}/") else (name,)
    texts = files.sources(overlay).files.values()
    found = [text for text in names if any(text.encode() in content for content in texts)]
    return found or [names[0]]
