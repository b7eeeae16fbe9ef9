"""Splits the name of an image into the keys of a spec. Tests: modelspec/importers/mxjob/test_read.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.names import IMAGE, IMAGE_PATH, REGISTRY, TAG, split_registry
from packager.base.problems import show
from packager.modelspec.importers.source import decided

if TYPE_CHECKING:
    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Sketch
    from packager.modelspec.importers.source import Ledger, ValueOrigin

_LONGEST = 200
_HINT = "--image REPOSITORY:TAG imports it with another image"


def put_image(
    sketch: Sketch, reference: str, origin: ValueOrigin, ledger: Ledger, place: Location = ("image",)
) -> None:
    """Put an image into the spec, or add a problem at its origin.

    Args:
        sketch: The draft.
        reference: The name of the image: `[registry/]repository[:tag]`.
        origin: The origin of the name.
        ledger: The ledger for the problem, or for the finding about an image without a tag.
        place: The location of the image in the spec.
    """
    form = re.fullmatch(IMAGE, reference)
    if form is None or len(reference) > _LONGEST:
        _add(ledger.problems, origin, f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}", _HINT)
        return
    digest, tag = (form["digest"] or "")[1:], (form["tag"] or "")[1:]
    repository = reference.removesuffix(f"@{digest}") if digest else reference
    repository = repository.removesuffix(f":{tag}") if tag else repository
    named, name = split_registry(repository)
    registry = named or "docker.io"
    if not (re.fullmatch(REGISTRY, registry) and re.fullmatch(IMAGE_PATH, name) and re.fullmatch(TAG, tag or "latest")):
        _add(ledger.problems, origin, f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}", _HINT)
        return
    sketch.put((*place, "registry"), registry, origin if named else decided("the usual one"))
    sketch.put((*place, "name"), name, origin)
    if tag:
        sketch.put((*place, "tag"), tag, origin)
    if digest:
        sketch.put((*place, "digest"), digest, origin)
    elif not tag:
        sketch.put((*place, "tag"), "latest", decided("the usual one"))
        message = f"the image {reference} has no tag: 'latest' may be another image tomorrow"
        _add(ledger.findings, origin, message, "--image REPOSITORY:TAG names one")


def _add(problems: list[Problem], origin: ValueOrigin, message: str, hint: str) -> None:
    problems.append(origin.problem(message, hint))
