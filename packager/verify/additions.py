"""Finds workloads that edits have added to a package since it was sealed.

An overlay may contain as many workloads as it was built with. A workload that an edit adds would run code that was not
sealed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.verify.objects import KIND, allow_word, is_allowed, permits_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.original import Original


def check(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each workload that an edit adds.

    Args:
        overlay: An overlay of the package, with its edits.
        original: The overlay without its edits.
        allowed: The kinds that the user allows.

    Raises:
        ToolError: A file cannot be read, or there is no room for a copy.
    """
    workloads = _workloads(overlay, allowed)
    if len(workloads) < 2 or original.edits.are_expected:
        return
    # If the original does not render, the additions cannot be found; a build makes one workload.
    sealed = _workloads(original.permitted, allowed) if original.permitted else workloads[:1]
    known = {_identity(manifest) for manifest in sealed}
    others = [manifest for manifest in workloads if _identity(manifest) not in known]
    for manifest in others[max(len(sealed) - (len(workloads) - len(others)), 0) :]:
        message = f"an edit adds this workload: the package was sealed with {', '.join(map(str, sealed)) or 'none'}"
        word = allow_word(manifest)
        yield overlay.problem(manifest, ("kind",), message, permits_hint(word)).about(KIND, word)


def _workloads(overlay: RenderedOverlay, allowed: frozenset[str]) -> list[Manifest]:
    """Return the manifests that make pods, except those of a kind that the user allows."""
    makers = {id(pods.manifest): pods.manifest for pods in overlay.pods}
    return [manifest for manifest in makers.values() if not is_allowed(manifest, allowed)]


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.group, manifest.kind, manifest.name
