"""Pod: one process on one node. Tests: builder/test_targets.py."""

from typing import Annotated

from packager.base.values import Meta
from packager.workloads.overlay import Deadline, OverlaySpec


class Pod(OverlaySpec, frozen=True, tag="Pod"):
    """One process in one Pod. Needs no operator."""

    deadline: Annotated[
        Deadline | None,
        Meta(description="The time in seconds after which the Pod is stopped and counts as failed."),
    ] = None

    readme = "a Pod"
