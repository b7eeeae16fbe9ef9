"""MPIJob: a launcher and its workers (kubeflow.org/v2beta1, served by mpi-operator and nothing else)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from packager.kinds.base import Complaint, Overlay, PodPlace
from packager.spec.fields import Resources

if TYPE_CHECKING:
    from collections.abc import Iterator


class MPIJob(Overlay, frozen=True, tag="MPIJob"):
    """Ranks on several nodes, started by mpirun from a launcher; needs mpi-operator in the cluster."""

    workers: Annotated[int, Meta(ge=1, le=10_000, description="How many worker pods.")] = 2
    slots_per_worker: Annotated[int, Meta(ge=1, le=1_000, description="How many ranks each worker takes.")] = 1
    processes: Annotated[
        int | None,
        Meta(description="How many ranks to start; without it, as many as there are slots."),
    ] = None
    mpi: Annotated[
        Literal["openmpi", "mpich", "intel"],
        Meta(description="The MPI in the image (Open MPI 4 and 5 alike)."),
    ] = "openmpi"
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How often a failed launcher is started again before the job counts as failed.",
        ),
    ] = 0
    launcher_resources: Annotated[
        Resources,
        Meta(description="Of the launcher, which only starts the ranks and waits."),
    ] = Resources(requests={"cpu": "100m", "memory": "64Mi"})

    readme = "an MPIJob"

    # The labels are the operator's (mpi-operator, pkg/apis/kubeflow/v2beta1/constants.go).
    pods = (
        PodPlace("spec.mpiReplicaSpecs.Launcher.template.spec", "launcher", computes=False),
        PodPlace(
            "spec.mpiReplicaSpecs.Worker.template.spec",
            "worker",
            role=(("training.kubeflow.org/job-role", "worker"),),
            workload="training.kubeflow.org/job-name",
            port=2222,
        ),
    )

    @property
    def implementation(self) -> str:
        """The operator's word for `mpi`; the form of its host file follows it (mpi-operator, v2beta1/types.go)."""
        return {"openmpi": "OpenMPI", "mpich": "MPICH", "intel": "Intel"}[self.mpi]

    def longest_name(self, workload: str) -> str:
        """Return the last worker's name, which the operator validates as a DNS-1035 label."""
        return f"{workload}-worker-{self.workers - 1}"

    def complaints(self) -> Iterator[Complaint]:
        """Yield a complaint when more ranks are asked for than there are slots, or fewer than one."""
        slots = self.workers * self.slots_per_worker
        if self.processes is not None and not 1 <= self.processes <= slots:
            found = f"expected 1 to {slots} processes ({self.workers} workers x {self.slots_per_worker} slots)"
            yield Complaint(("processes",), f"{found}, found {self.processes}", "leave it out to use every slot")
