"""Deployment: replicas that serve, run by Kubernetes (apps/v1). Tests: workloads/deployment/test_structure.py."""

from collections.abc import Iterator
from typing import Annotated

from packager.base.values import Meta
from packager.workloads import amounts
from packager.workloads.amounts import Amount
from packager.workloads.program import Run
from packager.workloads.serving import Serving


class Deployment(Serving, frozen=True, kw_only=True, tag="Deployment"):
    """Replicas that serve until they are deleted, behind a Service. Needs no operator."""

    replicas: Annotated[int, Meta(ge=1, le=1_000, description="The number of pods.")] = 1
    surge: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000,
            description="How many more pods there may be while pods are replaced. With 0, an old pod is stopped before "
            "its new one starts, for a cluster whose GPUs are all taken.",
        ),
    ] = 1

    readme = "a Deployment"

    @property
    def traits(self) -> frozenset[str]:
        """The traits of a workload that serves, and whose number of pods an autoscaler can change."""
        return super().traits | {"scales"}

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the number of pods, which the autoscaler decides if the option autoscale is on, and the resources."""
        description = "The number of pods, if the option autoscale is off."
        scaled = "mlpack/autoscale!=cpu"
        yield Amount("REPLICAS", str(self.replicas), description, ("spec.replicas",), selector=scaled)
        yield from amounts.quantities(self.resources, run.containers("spec.template.spec"))
