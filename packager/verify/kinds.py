"""Runs the checks that belong to the kind of a workload. Tests: verify/test_manifests.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.rendering.overlay import RenderedOverlay


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for everything that the controller of a workload would refuse or misinterpret.

    Also yield a finding for each companion object that contradicts the workload.
    """
    for manifest in overlay.manifests:
        for fault in (*structures.faults(manifest), *structures.companion_faults(manifest, overlay.manifests)):
            yield overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)
