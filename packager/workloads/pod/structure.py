"""Manifest of a Pod (v1). Tests: verify/test_runnable.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.workloads.pods import Pods
from packager.workloads.structures import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.manifest import Manifest


class Pod(Structure):
    """One pod, which is the manifest."""

    api = "v1"

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pod."""
        yield Pods(manifest, ())
