"""Manifest of a JobSet (jobset.x-k8s.io/v1alpha2, as JobSet v0.12 reads it)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import at, listing, mapping, text
from packager.workloads.jobset.rendezvous import NAME, NODES, named
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.program import PROCESSES, TORCHRUN, says_processes, without_meet
from packager.workloads.structures import POD_GROUPS, Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.objects import Object


OPTIONS = "mlpack/options"
"""The annotation of pods that only some options for pods that compute change: `storage`, or `none`."""


_NUMBER = re.compile("[1-9][0-9]{0,8}")

LEAST = "ELASTIC_MIN"
"""The variable with the number of nodes with which torchrun works at least."""


class JobSet(Structure):
    """Pods in roles, each an Indexed Job."""

    api = "jobset.x-k8s.io/v1alpha2"
    companion_kinds = POD_GROUPS
    suspend = ("spec", "suspend")
    setters = ("index",)  # every Job of a JobSet is Indexed
    counts = ("parallelism", "completions", "activeDeadlineSeconds")

    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods of each role. Defaults are JobSet's: one Job of one pod, and all roles must succeed."""
        targets = listing(at(manifest.spec, ("successPolicy", "targetReplicatedJobs")))
        for index, entry in enumerate(listing(manifest.spec.get("replicatedJobs"))):
            location: Location = ("spec", "replicatedJobs", index, "template", "spec", "template")
            name = str(mapping(entry).get("name"))
            options = mapping(at(manifest.data, (*location, "metadata", "annotations"))).get(OPTIONS)
            container = mapping(at(manifest.data, (*location, "spec", "containers", 0)))
            variables = {mapping(variable).get("name") for variable in listing(container.get("env"))}
            words = [text(word) for word in listing(container.get("command"))]
            yield Pods(
                manifest,
                location,
                name,
                number_of_pods(mapping(entry).get("replicas")) * _pods_of_job(mapping(entry)),
                computes=options not in ("storage", "none"),
                stores=options != "none",
                main=not targets or name in targets,
                labels=(("jobset.sigs.k8s.io/replicatedjob-name", name),),
                workload_label="jobset.sigs.k8s.io/jobset-name",
                processes=_processes(manifest, (*location, "spec", "containers", 0)),
                starts_torchrun=without_meet(words)[:1] == [TORCHRUN] and NODES in variables,
            )

    def count_places(self, manifest: Manifest) -> Iterator[Location]:
        """Yield the places of the specs of Jobs."""
        for index, _ in enumerate(_jobs(manifest)):
            yield ("spec", "replicatedJobs", index, "template", "spec")

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield wrong numbers of pods and processes, and of the nodes with which torchrun works at least."""
        yield from super().faults(manifest)
        for pods in self.pods(manifest):
            for place, container in pods.containers():
                for index, variable in enumerate(map(mapping, listing(container.get("env")))):
                    least = text(variable.get("value"))
                    # torch/distributed/run.py: config_from_args
                    if variable.get("name") == LEAST and not (_NUMBER.fullmatch(least) and int(least) <= pods.count):
                        message = f"{LEAST}: expected a whole number from 1 to {pods.count}, the number of pods, found"
                        yield Fault((*place, "env", index, "value"), f"{message} {show(variable.get('value'))}")

    def reserved(self, manifest: Manifest, key: str) -> str | None:
        """Return why `key` must not be set, if the pods find each other by it; None for any other variable."""
        names = {
            text(mapping(variable).get("name"))
            for pods in self.pods(manifest)
            for _, container in pods.containers()
            for variable in listing(container.get("env"))
        }
        return named(names).refused(key) if NAME in names else None


def _processes(manifest: Manifest, container: Location) -> Location | None:
    """Return the place of the number of processes in a pod; None if the command of its container says it."""
    if says_processes(map(text, listing(at(manifest.data, (*container, "command"))))):
        return None
    for index, variable in enumerate(listing(at(manifest.data, (*container, "env")))):
        if mapping(variable).get("name") == PROCESSES:
            return (*container, "env", index, "value")
    return None


def _jobs(manifest: Manifest) -> list[dict[str, Any]]:
    return [mapping(entry) for entry in listing(manifest.spec.get("replicatedJobs"))]


def _pods_of_job(job: dict[str, Any]) -> int:
    return number_of_pods(at(job, ("template", "spec", "parallelism")))


# Where the option elastic lets nodes leave and come back, the Job of a JobSet makes a pod that is gone again by itself
# (backoffLimitPerIndex), and torchrun starts the processes of all nodes again
# (https://docs.pytorch.org/docs/stable/elastic/run.html). The Job is complete when node 0 has succeeded: it has the
# store by which the nodes find each other, and another one may just have come back to find no work.


def replaces_single_pods(jobset: Object) -> bool:
    """Whether the Jobs of a JobSet make single pods again."""
    return any(at(job, ("backoffLimitPerIndex",)) is not None for job in _job_specs(jobset))


def least_nodes(jobset: Object) -> int | None:
    """Return the number of nodes with which a JobSet works at least; None if it needs all of them."""
    for job in _job_specs(jobset):
        for variable in listing(at(job, ("template", "spec", "containers", 0, "env"))):
            value = text(mapping(variable).get("value"))
            if mapping(variable).get("name") == LEAST and value.isdecimal():
                return int(value)
    return None


def _job_specs(jobset: Object) -> Iterator[dict[str, Any]]:
    """Yield the specs of the Jobs that JobSet makes."""
    for entry in listing(at(jobset, ("spec", "replicatedJobs"))):
        yield mapping(at(entry, ("template", "spec")))
