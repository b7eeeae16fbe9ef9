"""Manifest of an MPIJob (kubeflow.org/v2beta1, as mpi-operator v0.8 reads it). Tests: verify/test_manifests.py."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from packager.kubernetes.manifest import INT32, at, integer, mapping
from packager.workloads import podgroups
from packager.workloads.mpijob import checks
from packager.workloads.mpijob.checks import REPLICAS, SLOTS, by_mpi
from packager.workloads.pods import Pods
from packager.workloads.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.faults import Fault
    from packager.kubernetes.manifest import Manifest


class MPIJob(Structure):
    """A launcher and its workers."""

    api = "kubeflow.org/v2beta1"
    defaults = MappingProxyType({"spec.launcherCreationPolicy": "AtStartup", "spec.runLauncherAsWorker": False})
    choices = MappingProxyType(
        {
            "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
            "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
            "runPolicy.cleanPodPolicy": ("None", "Running", "All"),
            "mpiReplicaSpecs.Launcher.restartPolicy": ("Never", "OnFailure"),
            "mpiReplicaSpecs.Worker.restartPolicy": ("Never", "OnFailure"),
        }
    )
    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = MappingProxyType(
        {
            "runPolicy.activeDeadlineSeconds": (1, None),
            "runPolicy.backoffLimit": (0, INT32),
            "runPolicy.ttlSecondsAfterFinished": (0, INT32),
            "slotsPerWorker": (1, INT32),
        }
    )
    companion_kinds = podgroups.KINDS
    suspend = ("spec", "runPolicy", "suspend")
    maker = "mpi-operator"

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the launcher and the workers.

        Labels and defaults are the operator's (mpi-operator, pkg/apis/kubeflow/v2beta1: constants.go, default.go).
        """
        for role, entry in mapping(at(manifest.data, REPLICAS)).items():
            is_launcher = role == "Launcher"
            count = integer(mapping(entry).get("replicas"))
            yield Pods(
                manifest,
                (*REPLICAS, role, "template"),
                role,
                int(is_launcher) if count is None else max(count, 0),
                computes=not is_launcher,
                stores=not is_launcher,
                main=is_launcher,
                labels=(("training.kubeflow.org/job-role", role.lower()),),
                workload_label=None if is_launcher else "training.kubeflow.org/job-name",
                port=None if is_launcher else 2222,
                processes=None if is_launcher else SLOTS,
            )

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield values that mpi-operator would refuse or misinterpret."""
        yield from checks.faults(manifest, tuple(self.pods(manifest)))

    def reserved(self, manifest: Manifest, key: str) -> str | None:  # noqa: ARG002 - every MPIJob has the same
        """Return MPI's reason."""
        return by_mpi(key)

    def longest_name(self, manifest: Manifest) -> str:
        """Return the last worker's name."""
        workers = integer(at(manifest.data, (*REPLICAS, "Worker", "replicas"))) or 1
        return f"{manifest.name}-worker-{max(workers - 1, 0)}"

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:
        """Return the objects that mpi-operator makes for a job beside its pods (mpi_job_controller.go)."""
        name = manifest.name
        objects = ("Secret", f"{name}-ssh"), ("ConfigMap", f"{name}-config"), ("Service", name)
        return (*objects, ("Job", f"{name}-launcher"))

    def makes_object(self, manifest: Manifest, kind: str, name: str) -> bool:
        """Whether mpi-operator makes it: the workers are numbered, and the launcher's pods are its Job's."""
        is_worker = kind == "Pod" and re.fullmatch(rf"{re.escape(manifest.name)}-worker-\d+", name) is not None
        return is_worker or super().makes_object(manifest, kind, name)
