"""Checks the image of an overlay as it is written: IMAGE in mlops.env, and what has no effect beside it.

Tests: configure/test_image.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.names import split_registry
from packager.base.problems import Problem, show
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping
from packager.package import image
from packager.rendering.origins import Operations, Written, selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Document, Location
    from packager.rendering.origins import Generated, Origin

_HINT = "mlpack configure --image NAME:TAG, or edit IMAGE in mlops.env"


class ImagesEntry(Value, frozen=True):
    """An entry of `images` in a kustomization."""

    name: str  # the image that it replaces, as the manifests name it
    document: Document  # the kustomization
    location: Location  # the location of the entry


def is_name(target: Mapping[str, Any]) -> bool:
    """Whether a target of a replacement is the part of images that follows the registry."""
    options, paths = mapping(target.get("options")), listing(target.get("fieldPaths"))
    is_second = options.get("delimiter") == "/" and options.get("index") == 1
    return is_second and bool(paths) and all(str(path).endswith(".image") for path in paths)


def check(target: Mapping[str, Any], key: str, values: Generated, origins: Iterable[Origin]) -> Iterator[Problem]:
    """Yield the problems with the image that a replacement puts together."""
    text, place = values.values.get(key, ""), values.keys[key]
    if message := image.complaint(text):
        column = len(key) + 2 + image.first_bad(text)
        yield Problem(place.file, place.line, column, f"{key}: {message}, found {show(text)}")
    select = mapping(target.get("select"))
    for origin in origins:
        if not isinstance(origin, Written) or origin.kind not in ("", select.get("kind")):
            continue
        if origin.name in ("", select.get("name")):
            for path in listing(target.get("fieldPaths")):
                for location, written in selected(str(path), origin.document.data):
                    if written != image.WRITTEN:
                        message = f"expected {image.WRITTEN}, which mlops.env fills in, found {show(written)}"
                        yield origin.document.problem(location, message, hint=_HINT)


def doubts(key: str, values: Generated) -> Iterator[Problem]:
    """Yield a note about an image that begins with what seems to be a registry of its own."""
    place = values.keys[key]
    if registry := split_registry(values.values.get(key, ""))[0]:
        message = f"{key} is below {image.REGISTRY}: {show(registry)} is not the registry, but a part of the name"
        yield Problem(place.file, place.line, len(key) + 2, message, f"set {image.REGISTRY}")


def idle(entries: Iterable[ImagesEntry], origins: Iterable[Origin]) -> Iterator[Problem]:
    """Yield a problem for each entry of `images` that changes no image, as replacements set them later."""
    unchecked = list(entries)
    documents = [origin.document.data for origin in origins if isinstance(origin, Written | Operations)]
    names = {image.bare(text) for text in _images(documents)} - {image.WRITTEN} if unchecked else set()
    for entry in unchecked:
        if entry.name not in names:
            message = f"this entry has no effect: the image is {image.WRITTEN} of mlops.env"
            yield entry.document.problem(entry.location, message, hint=_HINT)


def _images(value: Any) -> Iterator[str]:
    """Yield each text under a key `image`, or in an operation on one."""
    if isinstance(value, dict):
        is_operation = str(value.get("path", "")).endswith("/image")
        for key, inside in value.items():
            if isinstance(inside, str) and (key == "image" or (is_operation and key == "value")):
                yield inside
            else:
                yield from _images(inside)
    elif isinstance(value, list):
        for item in value:
            yield from _images(item)
