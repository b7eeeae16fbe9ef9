"""Manifest of a JobSet (jobset.x-k8s.io/v1alpha2, as JobSet v0.12 reads it)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.kubernetes.manifest import INT32, at, listing, mapping, text
from packager.workloads import podgroups
from packager.workloads.indexed import VARIABLE
from packager.workloads.jobset import checks
from packager.workloads.jobset.rendezvous import NAME, NODES, named
from packager.workloads.launchers import PROCESSES, TORCHRUN, says_processes, torchrun_faults, without_meet
from packager.workloads.pods import Pods
from packager.workloads.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.faults import Fault
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest


OPTIONS = "mlpack/options"
"""The annotation of pods that only some options for pods that compute change: `storage`, or `none`."""


class JobSet(Structure):
    """Pods in roles, each an Indexed Job."""

    api = "jobset.x-k8s.io/v1alpha2"
    companion_kinds = podgroups.KINDS
    suspend = ("spec", "suspend")
    maker = "JobSet"
    choices = MappingProxyType(
        {
            "successPolicy.operator": ("All", "Any"),
            "startupPolicy.startupPolicyOrder": ("AnyOrder", "InOrder"),
            "failurePolicy.restartStrategy": ("Recreate", "BlockingRecreate"),
            # Without RestartJob and RestartJobAndIgnoreMaxRestarts, which JobSet refuses unless a feature gate is on.
            "failurePolicy.rules.*.action": ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"),
            "failurePolicy.rules.*.onJobFailureReasons.*": (
                "BackoffLimitExceeded",
                "DeadlineExceeded",
                "FailedIndexes",
                "MaxFailedIndexesExceeded",
                "PodFailurePolicy",
            ),
            "replicatedJobs.*.dependsOn.*.status": ("Ready", "Complete"),
        }
    )
    ranges = MappingProxyType(
        {
            "failurePolicy.maxRestarts": (0, INT32),
            "ttlSecondsAfterFinished": (0, INT32),
            "replicatedJobs.*.replicas": (1, INT32),
            "replicatedJobs.*.template.spec.parallelism": (1, INT32),
            "replicatedJobs.*.template.spec.completions": (1, INT32),
            "replicatedJobs.*.template.spec.backoffLimit": (0, INT32),
            "replicatedJobs.*.template.spec.activeDeadlineSeconds": (1, None),
        }
    )

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods of each role. Defaults are JobSet's: one Job of one pod, and all roles must succeed."""
        targets = listing(at(manifest.spec, ("successPolicy", "targetReplicatedJobs")))
        for index, entry in enumerate(listing(manifest.spec.get("replicatedJobs"))):
            location: Location = ("spec", "replicatedJobs", index, "template", "spec", "template")
            name = str(mapping(entry).get("name"))
            options = mapping(at(manifest.data, (*location, "metadata", "annotations"))).get(OPTIONS)
            yield Pods(
                manifest,
                location,
                name,
                checks.count(entry),
                computes=options not in ("storage", "none"),
                stores=options != "none",
                main=not targets or name in targets,
                labels=(("jobset.sigs.k8s.io/replicatedjob-name", name),),
                workload_label="jobset.sigs.k8s.io/jobset-name",
                processes=_processes(manifest, (*location, "spec", "containers", 0)),
                starts_torchrun=_starts_torchrun(mapping(at(manifest.data, (*location, "spec", "containers", 0)))),
            )

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield errors for JobSet's webhook, and values that fail later."""
        yield from checks.faults(manifest)
        yield from (fault for pods in self.pods(manifest) for fault in torchrun_faults(pods))

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - every Job of a JobSet is Indexed
        """Return the variable with the index."""
        return (VARIABLE,)

    def reserved(self, manifest: Manifest, key: str) -> str | None:
        """Return why `key` must not be set, if the pods find each other by it; None for any other variable."""
        names = {
            text(mapping(variable).get("name"))
            for pods in self.pods(manifest)
            for _, container in pods.containers()
            for variable in listing(container.get("env"))
        }
        return named(names).refused(key) if NAME in names else None

    def longest_name(self, manifest: Manifest) -> str | None:
        """Return the longest name of a pod: of the last one of a role, with five characters of its Job's."""
        jobs = [mapping(entry) for entry in listing(manifest.spec.get("replicatedJobs"))]
        return max((checks.longest_pod(manifest.name, job) for job in jobs), key=len, default=None)

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:
        """Return the Service by which the pods have names, and the Jobs (jobset_controller.go, pkg/util/placement)."""
        subdomain = text(at(manifest.spec, ("network", "subdomain"))) or manifest.name
        jobs = [mapping(entry) for entry in listing(manifest.spec.get("replicatedJobs"))]
        names = [name for job in jobs for name in checks.job_names(manifest.name, job)]
        return ("Service", subdomain), *(("Job", name) for name in names)


def _starts_torchrun(container: dict[str, Any]) -> bool:
    names = {mapping(variable).get("name") for variable in listing(container.get("env"))}
    words = [text(word) for word in listing(container.get("command"))]
    return without_meet(words)[:1] == [TORCHRUN] and NODES in names


def _processes(manifest: Manifest, container: Location) -> Location | None:
    """Return the place of the number of processes in a pod; None if the command of its container says it."""
    if says_processes(map(text, listing(at(manifest.data, (*container, "command"))))):
        return None
    for index, variable in enumerate(listing(at(manifest.data, (*container, "env")))):
        if mapping(variable).get("name") == PROCESSES:
            return (*container, "env", index, "value")
    return None
