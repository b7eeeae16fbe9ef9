"""Finds values that mpi-operator's controller rejects after the API server has accepted a job, or misreads.

From mpi-operator v0.8, pkg/apis/kubeflow/validation/validation.go and pkg/controller/mpi_job_controller.go.

Tests: verify/test_manifests.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import at, integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.workloads.pods import Pods


REPLICAS: Location = ("spec", "mpiReplicaSpecs")
SLOTS = ("spec", "slotsPerWorker")

# Kubernetes, pkg/apis/core/validation: MaxSecretSize, for ConfigMaps as well.
_MAP_BYTES = 1 << 20
_ROLES = ("Launcher", "Worker")

# Programs that start ranks, and their options for the number: mpirun(1) of Open MPI and MPICH, Intel's mpiexec.hydra.
_STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_COUNTS = ("-np", "-n", "--np", "-c")

# quickstart/common/<framework>/k8s/mlops/base/mpi-launcher.sh IMPLEMENTATION PROCESSES|all COMMAND
_LAUNCHER = "mpi-launcher.sh"


def faults(job: Manifest, pods: tuple[Pods, ...]) -> Iterator[Fault]:
    """Yield everything of an MPIJob with these pods that mpi-operator would refuse or misinterpret."""
    yield from _replicas(job)
    yield from _processes(job, pods)
    yield from _hosts(job)
    for template in pods:
        yield from _main_container(template)


def _replicas(job: Manifest) -> Iterator[Fault]:
    replicas = mapping(at(job.data, REPLICAS))
    for role in replicas:
        if role not in _ROLES:
            message = f"unknown role {role!r} in an MPIJob"
            hint = similar(role, _ROLES) or "the roles are Launcher and Worker"
            yield Fault((*REPLICAS, role), message, hint, at_key=True)
    if "Launcher" not in replicas and not any(role.lower() == "launcher" for role in replicas):
        yield Fault(REPLICAS, "the Launcher is missing", at_key=True)
    launchers = mapping(replicas.get("Launcher")).get("replicas")
    if launchers is not None and launchers != 1:
        yield Fault((*REPLICAS, "Launcher", "replicas"), f"expected 1, found {launchers}")
    workers = integer(mapping(replicas.get("Worker")).get("replicas"))
    if workers is not None and workers < 1:
        yield Fault((*REPLICAS, "Worker", "replicas"), f"expected at least 1, found {workers}")


def _workers(job: Manifest) -> int:
    return integer(at(job.data, (*REPLICAS, "Worker", "replicas"))) or 0


def _processes(job: Manifest, pods: tuple[Pods, ...]) -> Iterator[Fault]:
    """Check that no more ranks are started than there are slots."""
    workers = _workers(job)
    slots = workers * (integer(job.spec.get("slotsPerWorker")) or 1)
    for launcher in (template for template in pods if template.main):
        for location, container in launcher.containers():
            words = [((*location, field, index), str(word)) for field, index, word in _words(container)]
            for place, count in _counts(words):
                if workers and count > slots:
                    message = f"{count} processes, and {workers} workers x {slots // workers} slots hold {slots}"
                    yield Fault(place, message)
                elif count < 1:
                    yield Fault(place, f"expected at least 1 process, found {count}")
            yield from _implementation(job, words)
            yield from _number(words)


def _hosts(job: Manifest) -> Iterator[Fault]:
    """Check that the ConfigMap in which the operator lists the workers' hosts is not too large for Kubernetes."""
    workers = _workers(job)
    line = len(f"{job.name}-worker-{workers}.{job.name}.NAMESPACE.svc slots=1\n")
    if workers * line > _MAP_BYTES:
        message = f"the list of {workers} hosts takes more than the 1,024 KiB of a ConfigMap"
        yield Fault((*REPLICAS, "Worker", "replicas"), message, "run more processes on fewer workers")


def _words(container: dict[str, Any]) -> Iterator[tuple[str, int, Any]]:
    for field in ("command", "args"):
        for index, word in enumerate(listing(container.get(field))):
            yield field, index, word


def _counts(words: list[tuple[Location, str]]) -> Iterator[tuple[Location, int]]:
    starts = [index for index, (_, word) in enumerate(words) if word.rpartition("/")[2] in _STARTERS]
    launchers = [index for index, (_, word) in enumerate(words) if word.rpartition("/")[2] == _LAUNCHER]
    for index, (_, word) in enumerate(words[:-1]):
        if word in _COUNTS and starts and index > starts[0]:
            yield from _count(words[index + 1])
    for index in launchers:
        if index + 2 < len(words):
            yield from _count(words[index + 2])


def _count(word: tuple[Location, str]) -> Iterator[tuple[Location, int]]:
    location, text = word
    if text.lstrip("-").isdecimal():
        yield location, int(text)


def _number(words: list[tuple[Location, str]]) -> Iterator[Fault]:
    """Check that the number of ranks, an argument of the launcher's script, is a number or `all`."""
    for index, (_, word) in enumerate(words[:-2]):
        location, number = words[index + 2]
        if word.rpartition("/")[2] == _LAUNCHER and number != "all" and not number.lstrip("-").isdecimal():
            yield Fault(location, f"expected a number of processes or 'all', found {show(number)}")


def _implementation(job: Manifest, words: list[tuple[Location, str]]) -> Iterator[Fault]:
    """Check that the operator writes the host file in the form that the launcher reads."""
    expected = job.spec.get("mpiImplementation", "OpenMPI")
    for index, (_, word) in enumerate(words[:-1]):
        location, implementation = words[index + 1]
        if word.rpartition("/")[2] == _LAUNCHER and implementation.lower() != str(expected).lower():
            message = f"the launcher runs {implementation!r}, and the job's mpiImplementation is {expected!r}"
            yield Fault(location, message)


def _main_container(pods: Pods) -> Iterator[Fault]:
    """The operator mounts its key into the first container only, and `kubectl logs` shows the annotated one."""
    name = pods.default_container
    names = [mapping(container).get("name") for container in listing(pods.spec.get("containers"))]
    if name in names and names[0] != name:
        place = (*pods.location, "spec", "containers", 0, "name")
        message = f"the main container {name!r} must be the first: mpi-operator mounts the ssh key only there"
        yield Fault(place, message)


_RANK = "mpirun sets it for each rank"
_BY_LAUNCHER = "the launcher sets it, to reach the workers"

# Beginnings of names: OMPI_MCA_plm_rsh_a is for ..._agent and ..._args.
_PREFIXES = {
    # Open MPI 4 and 5, PMIx, and the Hydra of MPICH and Intel.
    "OMPI_COMM_WORLD_": _RANK,
    "PMIX_RANK": _RANK,
    "PMIX_NAMESPACE": _RANK,
    "PMIX_SERVER_": _RANK,
    "PMI_": _RANK,
    "MPI_LOCAL": _RANK,
    # mpi-launcher.sh and mpi-operator (pkg/controller/mpi_job_controller.go).
    "OMPI_MCA_plm_rsh_a": _BY_LAUNCHER,
    "OMPI_MCA_plm_rsh_no_tree_spawn": _BY_LAUNCHER,
    "PRTE_MCA_plm_ssh_a": _BY_LAUNCHER,
    "PRTE_MCA_plm_ssh_no_tree_spawn": _BY_LAUNCHER,
    "OMPI_MCA_orte_default_hostfile": _BY_LAUNCHER,
    "OMPI_MCA_orte_keep_fqdn_hostnames": _BY_LAUNCHER,
    "HYDRA_HOST_FILE": _BY_LAUNCHER,
    "HYDRA_LAUNCH": _BY_LAUNCHER,
    "I_MPI_HYDRA_BOOTSTRAP": _BY_LAUNCHER,
    "I_MPI_HYDRA_HOST_FILE": _BY_LAUNCHER,
    "K_MPI_JOB_ROLE": "mpi-operator sets it, to the pod's role",
}


def by_mpi(key: str) -> str | None:
    """Return why `key` must not be set for an MPIJob; None if it may be."""
    return next((reason for prefix, reason in _PREFIXES.items() if key.startswith(prefix)), None)
