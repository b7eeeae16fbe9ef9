"""MPIJobs: what mpi-operator's controller judges only after the API server has taken the job, and what it misreads.

From mpi-operator v0.8, pkg/apis/kubeflow/validation/validation.go and pkg/controller/mpi_job_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.problems import similar
from packager.verify.overlay import at, integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.problems import Problem
    from packager.verify.overlay import Manifest, Overlay, Pods
    from packager.yamlio import Location

_REPLICAS: Location = ("spec", "mpiReplicaSpecs")
_CHOICES: dict[Location, tuple[str, ...]] = {
    ("spec", "launcherCreationPolicy"): ("AtStartup", "WaitForWorkersReady"),
    ("spec", "mpiImplementation"): ("OpenMPI", "Intel", "MPICH"),
    ("spec", "runPolicy", "cleanPodPolicy"): ("None", "Running", "All"),
    (*_REPLICAS, "Launcher", "restartPolicy"): ("Never", "OnFailure"),
    (*_REPLICAS, "Worker", "restartPolicy"): ("Never", "OnFailure"),
}
_ROLES = ("Launcher", "Worker")

# What starts ranks, and how it is told how many: mpirun(1) of Open MPI and of MPICH, Intel's mpiexec.hydra.
_STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_COUNTS = ("-np", "-n", "--np", "-c")

# quickstart/common/<framework>/k8s/mlops/base/mpi-launcher.sh IMPLEMENTATION PROCESSES|all COMMAND
_LAUNCHER = "mpi-launcher.sh"


def check(overlay: Overlay) -> Iterator[Problem]:
    """Yield a finding for everything that mpi-operator would refuse, or take for something else."""
    for job in overlay.manifests:
        if job.kind == "MPIJob":
            yield from _replicas(overlay, job)
            yield from _choices(overlay, job)
            yield from _processes(overlay, job)
    for pods in overlay.pods:
        yield from _main_container(overlay, pods)


def _replicas(overlay: Overlay, job: Manifest) -> Iterator[Problem]:
    replicas = mapping(at(job.data, _REPLICAS))
    for role in replicas:
        if role not in _ROLES:
            message = f"there is no role {role!r} in an MPIJob"
            hint = similar(role, _ROLES) or "the roles are Launcher and Worker"
            yield overlay.problem(job, (*_REPLICAS, role), message, hint, at_key=True)
    if "Launcher" not in replicas and not any(role.lower() == "launcher" for role in replicas):
        yield overlay.problem(job, _REPLICAS, "there is no Launcher", at_key=True)
    launchers = mapping(replicas.get("Launcher")).get("replicas")
    if launchers is not None and launchers != 1:
        yield overlay.problem(job, (*_REPLICAS, "Launcher", "replicas"), f"expected 1, found {launchers}")
    for location in ((*_REPLICAS, "Worker", "replicas"), ("spec", "slotsPerWorker")):
        count = integer(at(job.data, location))
        if count is not None and count < 1:
            yield overlay.problem(job, location, f"expected at least 1, found {count}")


def _choices(overlay: Overlay, job: Manifest) -> Iterator[Problem]:
    for location, choices in _CHOICES.items():
        value = at(job.data, location)
        if value is not None and value not in choices:
            message = f"expected {', '.join(choices[:-1])} or {choices[-1]}, found {value!r}"
            yield overlay.problem(job, location, message, similar(str(value), choices))


def _processes(overlay: Overlay, job: Manifest) -> Iterator[Problem]:
    """See that no more ranks are started than there are slots."""
    workers = integer(at(job.data, (*_REPLICAS, "Worker", "replicas"))) or 0
    slots = workers * (integer(job.spec.get("slotsPerWorker")) or 1)
    for pods in overlay.pods:
        if pods.manifest is not job or pods.role != "Launcher":
            continue
        for location, container in pods.containers():
            words = [((*location, field, i), str(word)) for field, i, word in _words(container)]
            for here, count in _counts(words):
                if workers and count > slots:
                    message = f"{count} processes, and {workers} workers x {slots // workers} slots hold {slots}"
                    yield overlay.problem(job, here, message)
                elif count < 1:
                    yield overlay.problem(job, here, f"expected at least 1 process, found {count}")
            yield from _implementation(overlay, job, words)


def _words(container: dict[str, Any]) -> Iterator[tuple[str, int, Any]]:
    for field in ("command", "args"):
        for index, word in enumerate(listing(container.get(field))):
            yield field, index, word


def _counts(words: list[tuple[Location, str]]) -> Iterator[tuple[Location, int]]:
    starts = [index for index, (_, word) in enumerate(words) if word.rpartition("/")[2] in _STARTERS]
    ours = [index for index, (_, word) in enumerate(words) if word.rpartition("/")[2] == _LAUNCHER]
    for index, (_, word) in enumerate(words[:-1]):
        if word in _COUNTS and starts and index > starts[0]:
            yield from _count(words[index + 1])
    for index in ours:
        if index + 2 < len(words):
            yield from _count(words[index + 2])


def _count(word: tuple[Location, str]) -> Iterator[tuple[Location, int]]:
    location, text = word
    if text.lstrip("-").isdecimal():
        yield location, int(text)


def _implementation(overlay: Overlay, job: Manifest, words: list[tuple[Location, str]]) -> Iterator[Problem]:
    """See that the operator writes the host file in the form that the launcher reads."""
    said = job.spec.get("mpiImplementation", "OpenMPI")
    for index, (_, word) in enumerate(words[:-1]):
        location, implementation = words[index + 1]
        if word.rpartition("/")[2] == _LAUNCHER and implementation.lower() != str(said).lower():
            message = f"the launcher runs {implementation!r}, and the job's mpiImplementation is {said!r}"
            yield overlay.problem(job, location, message)


def _main_container(overlay: Overlay, pods: Pods) -> Iterator[Problem]:
    """The operator mounts its key into the first container only, and `kubectl logs` shows the annotated one."""
    name = mapping(pods.metadata.get("annotations")).get("kubectl.kubernetes.io/default-container")
    containers = listing(pods.spec.get("containers"))
    names = [mapping(container).get("name") for container in containers]
    if name is None or not names:
        return
    here = (*pods.location, "metadata", "annotations", "kubectl.kubernetes.io/default-container")
    if name not in names:
        hint = similar(str(name), [str(each) for each in names])
        yield overlay.problem(pods.manifest, here, f"there is no container {name!r}", hint)
    elif pods.manifest.kind == "MPIJob" and names[0] != name:
        place = (*pods.location, "spec", "containers", 0, "name")
        message = f"the main container {name!r} has to be the first: mpi-operator mounts the ssh key there only"
        yield overlay.problem(pods.manifest, place, message)
