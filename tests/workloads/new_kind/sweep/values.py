"""Sweep: trials of one program, side by side (example.com/v1)."""

from __future__ import annotations

from typing import Annotated

from packager.base.values import Meta
from packager.workloads.overlay import OverlaySpec


class Sweep(OverlaySpec, frozen=True, tag="Sweep"):
    """Trials of one program, side by side; needs sweep-operator in the cluster."""

    trials: Annotated[int, Meta(ge=1, le=100, description="How many trials.")] = 2

    readme = "a Sweep"
