"""Pod: one process on one node. Tests: builder/test_targets.py."""

from collections.abc import Iterator
from typing import Annotated

from packager.base.values import Meta
from packager.workloads import amounts
from packager.workloads.amounts import Amount
from packager.workloads.overlay import Deadline, OverlaySpec
from packager.workloads.program import Run


class Pod(OverlaySpec, frozen=True, tag="Pod"):
    """One process in one Pod. Needs no operator."""

    deadline: Annotated[
        Deadline | None,
        Meta(description="The time in seconds after which the Pod is stopped and counts as failed."),
    ] = None

    readme = "a Pod"

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the resources and the deadline."""
        yield from amounts.quantities(self.resources, run.containers("spec"))
        yield from amounts.deadline(self.deadline, "spec.activeDeadlineSeconds")
