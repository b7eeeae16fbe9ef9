"""MPIJob: a launcher and its workers (kubeflow.org/v2beta1, of mpi-operator). Tests: builder/test_targets.py."""

from collections.abc import Iterator
from typing import Annotated, Literal

from packager.base.fields import Resources
from packager.base.problems import Fault
from packager.base.values import Meta
from packager.base.yamlio import Location
from packager.workloads import amounts
from packager.workloads.amounts import PER_GPU, Amount
from packager.workloads.overlay import Deadline, OverlaySpec, TimeToLive
from packager.workloads.program import Run


class MPIJob(OverlaySpec, frozen=True, tag="MPIJob"):
    """Ranks on several nodes, started by mpirun in a launcher. Needs mpi-operator in the cluster."""

    workers: Annotated[int, Meta(ge=1, le=10_000, description="The number of worker pods.")] = 2
    slots_per_worker: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | Literal["per-gpu"],
        Meta(description="The number of ranks for each worker; `per-gpu` for one for each GPU, or 1 without GPUs."),
    ] = PER_GPU
    processes: Annotated[
        int | None,
        Meta(description="The number of ranks to start; one for each slot, if it is not set."),
    ] = None
    mpi: Annotated[
        Literal["openmpi", "mpich", "intel"],
        Meta(description="The MPI implementation in the image; openmpi is Open MPI 4 or 5."),
    ] = "openmpi"
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How often a failed launcher is started again before the job counts as failed.",
        ),
    ] = 0
    deadline: Annotated[
        Deadline | None,
        Meta(description="The time in seconds after which the job is stopped and counts as failed."),
    ] = None
    ttl: Annotated[
        TimeToLive | None,
        Meta(description="The time in seconds after its end when the launcher is deleted, and its log with it."),
    ] = None
    launcher_resources: Annotated[
        Resources,
        Meta(description="The resources of the launcher, which only starts the ranks and waits."),
    ] = Resources(requests={"cpu": "100m", "memory": "64Mi"})

    readme = "an MPIJob"
    setters = ("mpi",)
    unproven = "that the program uses MPI is not checked: without it, each rank works alone"

    @property
    def gang_key(self) -> str:
        """The key of the workers; a launcher only waits for them."""
        return "WORKERS"

    @property
    def implementation(self) -> str:
        """The operator's word for `mpi`; the form of its host file follows it (mpi-operator, v2beta1/types.go)."""
        return {"openmpi": "OpenMPI", "mpich": "MPICH", "intel": "Intel"}[self.mpi]

    @property
    def slots(self) -> int:
        """The number of slots of each worker, as built."""
        return self.slots_per_worker if isinstance(self.slots_per_worker, int) else amounts.gpus(self.resources) or 1

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the number of workers, of slots and of ranks, the resources of each worker, and the deadline."""
        workers = ("spec.mpiReplicaSpecs.Worker.replicas",)
        yield Amount("WORKERS", str(self.workers), "The number of worker pods.", workers)
        description = "The slots of each worker: the places of ranks; per-gpu: one for each GPU, or 1 without GPUs."
        slots = ("spec.slotsPerWorker",)
        number = str(self.slots_per_worker)
        yield Amount("SLOTS_PER_WORKER", number, description, slots, may_be_per_gpu=True)
        launcher = "spec.mpiReplicaSpecs.Launcher.template.spec.containers.[name=^launcher$]"
        ranks = "The number of ranks to start; all: one for each slot."
        yield Amount("PROCESSES", str(self.processes or "all"), ranks, (f"{launcher}.command.3",))
        worker = "spec.mpiReplicaSpecs.Worker.template.spec"
        yield from amounts.quantities(self.resources, run.containers(worker, "[name=^worker$]"), processes=slots)
        yield from amounts.deadline(self.deadline, "spec.runPolicy.activeDeadlineSeconds")

    def containers(self) -> Iterator[tuple[Location, Resources]]:
        """Yield the resources of the workers and of the launcher."""
        yield ("resources",), self.resources
        yield ("launcher_resources",), self.launcher_resources

    def longest_name(self, workload: str) -> str:
        """Return the last worker's name, which the operator validates as a DNS-1035 label."""
        return f"{workload}-worker-{self.workers - 1}"

    def program_faults(self, run: Run) -> Iterator[Fault]:
        """Yield a fault when mpirun has nothing to start: it cannot find out the image's own entrypoint."""
        if not run.scripts and not self.command:
            message = "mpirun needs a script or a command to start, found neither"
            yield Fault(("command",), message, "set `script` in the variant, or `command` here")

    def faults(self) -> Iterator[Fault]:
        """Yield faults of the numbers of ranks, slots and workers."""
        if self.slots_per_worker == PER_GPU:
            yield from amounts.gpu_faults(self.resources, ("resources",), "slots_per_worker")
        slots = self.workers * self.slots
        if self.processes is not None and not 1 <= self.processes <= slots:
            expected = f"expected 1 to {slots} processes ({self.workers} workers x {self.slots} slots)"
            yield Fault(("processes",), f"{expected}, found {self.processes}", "leave it out to use every slot")
