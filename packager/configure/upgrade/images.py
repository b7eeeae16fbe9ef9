"""Moves the image that a user has set or locked in a kustomization to mlops.env, where newer packages have it.

Tests: app/test_upgrade.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.configure import lock
from packager.package import kustomization
from packager.package.image import IMAGE, REGISTRY, ImageName, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

_BELOW_REGISTRY = re.compile(rb"image: *[\"']?REGISTRY/([a-z0-9][A-Za-z0-9_./:@-]*)[\"']?\s")


class Moved(Value, frozen=True):
    """The image of an overlay, and the files without it.

    Attributes:
        image: The name, tag and digest.
        text: The overlay's kustomization.
        locked: The component with its lock; empty if there is none.
    """

    image: ImageName
    text: bytes
    locked: bytes


def delivered(manifests: Iterable[bytes]) -> ImageName | None:
    """Return the image that manifests have below REGISTRY; None if there is none, or not one alone."""
    names = {match.decode() for text in manifests for match in _BELOW_REGISTRY.findall(text)}
    return parse(names.pop()) if len(names) == 1 else None


def with_image(text: bytes, image: ImageName) -> bytes:
    """Return an env file of an earlier package with a line for the image, below that of its registry."""
    rows = text.split(b"\n")
    at = next((line.number for line in envfile.lines(text) if line.key == REGISTRY), 0)
    end = b"\r" if rows[at - 1].endswith(b"\r") else b""
    return b"\n".join([*rows[:at], f"{IMAGE}={image}".encode() + end, *rows[at:]])


def moved(overlay: str, image: ImageName, text: bytes, locked: bytes) -> Moved | None:
    """Return the image that a user has set; None if the user has set none, or it cannot be taken out of the files.

    Args:
        overlay: The name of the overlay.
        image: The image in its manifests.
        text: The overlay's kustomization.
        locked: The component with its lock; empty if there is none.
    """
    name = f"{REGISTRY}/{image.name}"
    try:
        entries = [entry for entry in kustomization.images(text) if entry.name == name]
        components = kustomization.components(text)
        left = kustomization.without_image(text, name) if len(entries) == 1 else text
    except UsageError:
        return None
    own = parse((entries[0].new_name or name).partition("/")[2]) if len(entries) == 1 else image
    if own is None or len(entries) > 1:
        return None
    tag, digest = (entries[0].new_tag, entries[0].digest) if entries else ("", "")
    is_on = any(entry.on and entry.path.endswith(f"/{lock.name(overlay)}") for entry in components)
    digests = {key: value for key, value in lock.locked(locked).items() if key.endswith(f"/{image.name}")}
    if is_on and digests:
        try:
            locked = lock.without(overlay, locked, digests)
        except UsageError:
            return None
        if not (tag or digest):
            tag, digest = image.tag, next(iter(digests.values()))
    if not entries and not digest:
        return None
    result = ImageName(own.name, tag, digest) if tag or digest else ImageName(own.name, image.tag, image.digest)
    return Moved(result, left, locked) if parse(str(result)) else None
