"""Pod: one process on one node."""

from __future__ import annotations

from packager.workloads.overlay import OverlaySpec


class Pod(OverlaySpec, frozen=True, tag="Pod"):
    """One process in one Pod. Needs no operator."""

    readme = "a Pod"
