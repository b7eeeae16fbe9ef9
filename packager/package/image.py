"""Reads the image of an overlay: in mlops.env, REGISTRY is its registry, and IMAGE its name, tag and digest there.

The manifests say `REGISTRY/IMAGE`, and replacements put the values there. Tests: configure/test_image.py.
"""

from __future__ import annotations

import re

from packager.base import names
from packager.base.values import Value

REGISTRY = "REGISTRY"
"""The key of the registry."""

IMAGE = "IMAGE"
"""The key of the rest."""

WRITTEN = f"{REGISTRY}/{IMAGE}"
"""The image in the manifests of a package."""

_FORM = re.compile(rf"(?P<name>{names.IMAGE_PATH})(:(?P<tag>{names.TAG}))?(@(?P<digest>sha256:[0-9a-f]{{64}}))?")
_EXPECTED = "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"
_LONGEST = 500


class ImageName(Value, frozen=True):
    """An image without its registry; a tag or a digest that it does not have is an empty text."""

    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.tag and f':{self.tag}'}{self.digest and f'@{self.digest}'}"


def parse(text: str) -> ImageName | None:
    """Return the parts of an image without a registry; None if the text is something else."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    return ImageName(match["name"], match["tag"] or "", match["digest"] or "") if match else None


def complaint(text: str) -> str | None:
    """Return the expected form if a text is no image without a registry; else None."""
    return None if parse(text) else _EXPECTED


def registry_complaint(text: str) -> str | None:
    """Return the expected form of a registry if a text does not have it; else None."""
    is_form = len(text) <= _LONGEST and re.fullmatch(names.REGISTRY, text)
    return None if is_form else "expected a host, optionally with a port and a path"


def first_bad(text: str) -> int:
    """Return the index of the first character that no image has; 0 if only the order of the characters is wrong."""
    match = re.search(r"[^A-Za-z0-9._:@/-]", text)
    return match.start() if match else 0


def bare(image: str) -> str:
    """Return an image without its tag and its digest."""
    name = image.partition("@")[0]
    host, slash, rest = name.rpartition("/")
    return f"{host}{slash}{rest.partition(':')[0]}"
