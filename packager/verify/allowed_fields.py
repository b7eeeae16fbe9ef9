"""Checks that objects contain only the fields, labels and annotations that builds, options and kinds make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.problems import show, similar
from packager.kubernetes.allowed.judge import Judge, lists
from packager.kubernetes.allowed.table import Facts
from packager.kubernetes.manifest import at, dotted
from packager.package import layout
from packager.package.options import PLACEMENT
from packager.verify import options
from packager.verify.objects import MADE, allow_word, is_allowed, permits_hint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packager.base.problems import Problem
    from packager.kubernetes.allowed.judge import Unlisted
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay

FIELD = "field"
"""The kind of the problems with unlisted fields, labels and annotations."""


def check(
    overlay: RenderedOverlay, allowed: Collection[str], elsewhere: Collection[tuple[str, str]] = frozenset()
) -> Iterator[Problem]:
    """Yield a finding for each unlisted field, label and annotation, unless it, or a part of it, is in `elsewhere`.

    Args:
        overlay: The overlay.
        allowed: The words of `--allow`.
        elsewhere: The manifests and the paths of fields that other checks report.
    """
    known = facts(overlay)
    reported = {(name, field[: end.start()]) for name, field in elsewhere for end in re.finditer(r"[.\[]|$", field)}
    for manifest in overlay.manifests:
        for unlisted in judged(overlay, manifest, known, allowed):
            if (str(manifest), dotted(unlisted.location)) not in reported:
                yield _problem(overlay, manifest, unlisted)


def judged(
    overlay: RenderedOverlay,
    manifest: Manifest,
    known: Facts,
    allowed: Collection[str],
    kinds: Collection[tuple[str, str]] = MADE,
) -> Iterator[Unlisted]:
    """Yield each unlisted part of an object; if its kind is not in `kinds`, only those in its metadata and its pods."""
    judge = Judge(known, manifest, frozenset(allowed))
    yield from judge.metadata()
    is_known = (manifest.api, manifest.kind) in kinds and lists(manifest)
    if is_known and (manifest.kind == "Pod" or not is_allowed(manifest, frozenset(allowed))):
        yield from judge.fields()
        return
    for pods in overlay.pods:
        if pods.manifest is manifest and pods.location:
            yield from judge.template({"metadata": pods.metadata, "spec": pods.spec}, pods.location)


def facts(overlay: RenderedOverlay) -> Facts:
    """Return the options, site values and names of an overlay that the table's rules refer to."""
    on = {*options.switched_on(overlay.sources)}
    if any(folder.startswith(f"{layout.ADDED}/") for folder, _ in overlay.sources.components):
        on.add(PLACEMENT)  # a component that a site has added may place pods
    site = options.site_values(overlay.sources)
    package = overlay.sources.declared.name
    return Facts(
        frozenset(on),
        site,
        frozenset(overlay.names("ConfigMap")),
        options.claims(overlay.sources).union(overlay.names("PersistentVolumeClaim")),
        (package, f"{package}-{overlay.name}") if package else (),
    )


def _problem(overlay: RenderedOverlay, manifest: Manifest, unlisted: Unlisted) -> Problem:
    word = (allow_word(manifest) if not unlisted.location else unlisted.word) or ""
    message, hint = unlisted.message, permits_hint(word)
    if unlisted.missing:
        names, value = overlay.names(unlisted.missing), at(manifest.data, unlisted.location)
        message = f"the overlay has no {unlisted.missing} {show(value)}"
        fix = similar(str(value), names) or f"the {unlisted.missing}s are: {', '.join(names) or 'none'}"
        hint = f"{fix}; or {hint}" if hint else fix
    elif len(unlisted.options) == 1 and hint:
        hint = f"switch on the option {unlisted.options[0]}; or {hint}"
    location = unlisted.location or ("kind",)
    return overlay.problem(manifest, location, message, hint, at_key=unlisted.at_key).about(FIELD, word)
