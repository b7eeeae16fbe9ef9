"""Splits the name of an image into what a spec holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.names import IMAGE, IMAGE_PATH, REGISTRY, TAG
from packager.base.problems import show
from packager.importers.source import decided

if TYPE_CHECKING:
    from packager.base.problems import Problem
    from packager.importers.draft import Sketch
    from packager.importers.source import Ledger, ValueOrigin

_LONGEST = 200
_DIGEST_HINT = "--image REPOSITORY:TAG imports it with another image"


def put_image(sketch: Sketch, reference: str, origin: ValueOrigin, ledger: Ledger) -> None:
    """Put an image into the spec, or add a problem at its origin.

    Args:
        sketch: The draft.
        reference: The image as others name it: `[registry/]repository[:tag]`.
        origin: Where that is.
        ledger: Takes the problem, and a finding for an image without a tag.
    """
    form = re.fullmatch(IMAGE, reference)
    if form is None or len(reference) > _LONGEST:
        _add(ledger.problems, origin, f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}", _DIGEST_HINT)
        return
    if form["digest"]:
        message = f"a spec cannot name an image by its digest, found {show(reference)}"
        _add(ledger.problems, origin, message, _DIGEST_HINT)
        return
    tag = (form["tag"] or "")[1:]
    repository = reference.removesuffix(f":{tag}") if tag else reference
    first, slash, rest = repository.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, name = (first, rest) if has_registry else ("docker.io", repository)
    if not (re.fullmatch(REGISTRY, registry) and re.fullmatch(IMAGE_PATH, name) and re.fullmatch(TAG, tag or "latest")):
        _add(ledger.problems, origin, f"expected an image as REGISTRY/NAME:TAG, found {show(reference)}", _DIGEST_HINT)
        return
    sketch.put(("image", "registry"), registry, origin if has_registry else decided("the usual one"))
    sketch.put(("image", "name"), name, origin)
    if tag:
        sketch.put(("image", "tag"), tag, origin)
    else:
        sketch.put(("image", "tag"), "latest", decided("the usual one"))
        message = f"the image {reference} has no tag: 'latest' may be another image tomorrow"
        _add(ledger.findings, origin, message, "--image REPOSITORY:TAG names one")


def _add(problems: list[Problem], origin: ValueOrigin, message: str, hint: str) -> None:
    problems.append(origin.problem(message, hint))
