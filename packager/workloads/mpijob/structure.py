"""Manifest of an MPIJob (kubeflow.org/v2beta1, as mpi-operator v0.8 reads it). Tests: verify/test_manifests.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import at, integer, listing, mapping
from packager.workloads.pods import Pods
from packager.workloads.structures import POD_GROUPS, Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest


_REPLICAS: Location = ("spec", "mpiReplicaSpecs")

# quickstart/common/<framework>/k8s/mlops/base/mpi-launcher.sh IMPLEMENTATION PROCESSES|all COMMAND
_LAUNCHER = "mpi-launcher.sh"


class MPIJob(Structure):
    """A launcher and its workers."""

    api = "kubeflow.org/v2beta1"
    counts = ("runPolicy.activeDeadlineSeconds", "slotsPerWorker", "mpiReplicaSpecs.Worker.replicas")
    companion_kinds = POD_GROUPS
    suspend = ("spec", "runPolicy", "suspend")
    setters = ("mpi",)

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the launcher and the workers.

        Labels and defaults are the operator's (mpi-operator, pkg/apis/kubeflow/v2beta1: constants.go, default.go).
        """
        for role, entry in mapping(at(manifest.data, _REPLICAS)).items():
            is_launcher = role == "Launcher"
            count = integer(mapping(entry).get("replicas"))
            yield Pods(
                manifest,
                (*_REPLICAS, role, "template"),
                role,
                int(is_launcher) if count is None else max(count, 0),
                computes=not is_launcher,
                stores=not is_launcher,
                main=is_launcher,
                labels=(("training.kubeflow.org/job-role", role.lower()),),
                workload_label=None if is_launcher else "training.kubeflow.org/job-name",
                port=None if is_launcher else 2222,
                processes=None if is_launcher else ("spec", "slotsPerWorker"),
            )

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield wrong numbers of workers and slots, and numbers of ranks for which there are not enough of these."""
        yield from super().faults(manifest)
        workers = integer(at(manifest.data, (*_REPLICAS, "Worker", "replicas"))) or 0
        slots = integer(manifest.spec.get("slotsPerWorker")) or 1
        for location, container in (entry for pods in self.pods(manifest) if pods.main for entry in pods.containers()):
            words = [str(word) for word in listing(container.get("command"))]
            for index, number in enumerate(words[2:], start=2):
                if words[index - 2].rpartition("/")[2] != _LAUNCHER or number == "all":
                    continue
                place = (*location, "command", index)
                if not number.lstrip("-").isdecimal():
                    yield Fault(place, f"expected a number of processes or 'all', found {show(number)}")
                elif int(number) < 1:
                    yield Fault(place, f"expected at least 1 process, found {number}")
                elif workers and int(number) > workers * slots:
                    message = f"{number} processes, and {workers} workers x {slots} slots hold {workers * slots}"
                    yield Fault(place, message)
