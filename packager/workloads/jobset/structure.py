"""Manifest of a JobSet (jobset.x-k8s.io/v1alpha2, as JobSet v0.12 reads it)."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.problems import Fault, show
from packager.kubernetes.manifest import INT32, at, integer, listing, mapping, text
from packager.workloads.jobset.rendezvous import COUNTS, NAME, NODES, named
from packager.workloads.pods import Pods, number_of_pods
from packager.workloads.program import PROCESSES, TORCHRUN, says_processes, torchrun_faults, without_meet
from packager.workloads.structures import POD_GROUPS, Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.objects import Object


OPTIONS = "mlpack/options"
"""The annotation of pods that only some options for pods that compute change: `storage`, or `none`."""


_POD: Location = ("template", "spec", "template", "spec")

_NUMBER = re.compile("[1-9][0-9]{0,8}")

_MOST_JOBS = 1_000
"""At most this many Job names are predicted; further names are not checked."""

LEAST = "ELASTIC_MIN"
"""The variable with the number of nodes with which torchrun works at least."""


class JobSet(Structure):
    """Pods in roles, each an Indexed Job."""

    api = "jobset.x-k8s.io/v1alpha2"
    companion_kinds = POD_GROUPS
    suspend = ("spec", "suspend")
    maker = "JobSet"
    setters = ("index",)  # every Job of a JobSet is Indexed
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

    def faults(self, manifest: Manifest) -> Iterator[Fault]:
        """Yield wrong numbers of pods and processes, and settings that lose logs."""
        yield from super().faults(manifest)
        jobs = _jobs(manifest)
        counts = {text(job.get("name")): _pods_of_job(job) for job in jobs}
        for index, job in enumerate(jobs):
            for fault in (*_pods(job), *_counts(job, counts)):
                yield fault.below(("spec", "replicatedJobs", index))
        yield from (fault for pods in self.pods(manifest) for fault in torchrun_faults(pods))

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
        names = []
        for job in _jobs(manifest):
            jobs = number_of_pods(job.get("replicas"))
            pods = integer(at(job, ("template", "spec", "completions"))) or _pods_of_job(job)
            names.append(f"{manifest.name}-{job.get('name')}-{max(jobs - 1, 0)}-{max(pods - 1, 0)}-abcde")
        return max(names, key=len, default=None)

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:
        """Return the Service by which the pods have names, and the Jobs (jobset_controller.go, pkg/util/placement)."""
        subdomain = text(at(manifest.spec, ("network", "subdomain"))) or manifest.name
        names = [
            f"{manifest.name}-{job.get('name')}-{index}"
            for job in _jobs(manifest)
            for index in range(min(number_of_pods(job.get("replicas")), _MOST_JOBS))
        ]
        return ("Service", subdomain), *(("Job", name) for name in names)


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


def _pods(job: dict[str, Any]) -> Iterator[Fault]:
    """Yield errors in the number of a role's pods, and in the handling of their failures."""
    job_spec: Location = ("template", "spec")
    spec = mapping(at(job, job_spec))
    if (completions := integer(spec.get("completions"))) != _pods_of_job(job):
        value = "nothing" if completions is None else str(completions)
        message = f"expected as many as parallelism, {_pods_of_job(job)}, found {value}"
        place = (*job_spec, "completions") if completions is not None else job_spec
        yield Fault(place, message, "all pods of a role run at once, and each once")
    policy = at(job, (*_POD, "restartPolicy"))
    if policy != "Never":
        value = "nothing, which means OnFailure" if policy is None else show(policy)
        hint = "else a pod that has failed is deleted, and its log with it"
        yield Fault((*_POD, "restartPolicy"), f"expected Never, found {value}", hint)


def _counts(job: dict[str, Any], counts: dict[str, int]) -> Iterator[Fault]:
    """Check that the variables with numbers of pods are right: they do not follow an edited number."""
    is_counted = False
    for place, variable in _variables(job):
        role = COUNTS.get(text(variable.get("name")))
        expected = counts.get(role or "")
        is_counted |= expected is not None
        if expected is not None and "value" in variable and variable["value"] != str(expected):
            message = f"{variable['name']}: expected {str(expected)!r}, the number of pods of {role}"
            yield Fault((*place, "value"), f"{message}, found {show(variable['value'])}")
        if variable.get("name") == "TF_CONFIG":
            yield from _hosts(place, text(variable.get("value")), counts)
        least, most = text(variable.get("value")), _pods_of_job(job)
        # torch/distributed/run.py: config_from_args
        if variable.get("name") == LEAST and not (_NUMBER.fullmatch(least) and int(least) <= most):
            message = f"{LEAST}: expected a whole number from 1 to {most}, the number of pods, found"
            yield Fault((*place, "value"), f"{message} {show(variable.get('value'))}")
    replicas = number_of_pods(job.get("replicas"))
    if is_counted and replicas > 1:
        hint = "edit parallelism and completions instead: each Job counts its pods from 0 on"
        yield Fault(("replicas",), f"expected 1, found {replicas}", hint)


def _hosts(place: Location, value: str, counts: dict[str, int]) -> Iterator[Fault]:
    """Check that TF_CONFIG has as many hosts of each role as there are pods."""
    try:
        cluster = mapping(json.loads(value.replace("$(TF_TASK_INDEX)", "0"))["cluster"])
    except (ValueError, KeyError, TypeError):
        yield Fault((*place, "value"), "TF_CONFIG: expected JSON with the key 'cluster'")
        return
    for role, hosts in cluster.items():
        if len(listing(hosts)) != counts.get(role):
            message = f"TF_CONFIG: expected {counts.get(role, 0)} hosts of {role}, its number of pods"
            yield Fault((*place, "value"), f"{message}, found {len(listing(hosts))}", "build the package again")


def _variables(job: dict[str, Any]) -> Iterator[tuple[Location, dict[str, Any]]]:
    """Yield the variables of a role's containers, and their locations in the role."""
    for number, container in enumerate(listing(at(job, (*_POD, "containers")))):
        for index, variable in enumerate(listing(mapping(container).get("env"))):
            yield (*_POD, "containers", number, "env", index), mapping(variable)


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
