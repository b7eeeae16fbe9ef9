"""Checks that the overlay `workspace` creates only claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.rendering.overlay import RenderedOverlay


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each object of the overlay that is not a claim, and if the package's own claim is missing."""
    if overlay.claim is None:
        return
    for manifest in overlay.manifests:
        if (manifest.data.get("apiVersion"), manifest.kind) != ("v1", "PersistentVolumeClaim"):
            yield overlay.problem(manifest, ("kind",), "this overlay creates claims, and nothing else", at_key=True)
    if overlay.named("PersistentVolumeClaim", overlay.claim) is None:
        message = f"this overlay does not create the claim {overlay.claim!r}, which the package was sealed with"
        yield Problem(*overlay.sources.start, message)
