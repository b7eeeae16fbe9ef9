"""Pod: one process on one node."""

from __future__ import annotations

from packager.kinds.base import Overlay, PodPlace


class Pod(Overlay, frozen=True, tag="Pod"):
    """One process in one Pod, with nothing but Kubernetes itself."""

    readme = "a Pod"
    pods = (PodPlace("spec", "main"),)
