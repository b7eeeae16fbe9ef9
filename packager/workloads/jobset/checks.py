"""Finds errors for JobSet's webhook, and settings that it accepts although the pods would fail or lose their logs.

From JobSet v0.12.0, pkg/webhooks/jobset_webhook.go and the rules in its CRD.

Tests: workloads/jobset/test_structure.py.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import INT32, at, integer, listing, mapping, text
from packager.workloads.jobset.elastic import LEAST
from packager.workloads.jobset.rendezvous import COUNTS, NAME
from packager.workloads.pods import number_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_JOBS: Location = ("spec", "replicatedJobs")
_TARGETS: Location = ("spec", "successPolicy", "targetReplicatedJobs")
_RULES: Location = ("spec", "failurePolicy", "rules")
_NETWORK: Location = ("spec", "network")
_POD: Location = ("template", "spec", "template", "spec")

_CONTAINERS = ("initContainers", "containers")

_RULE_NAME = re.compile(r"(?=.{1,128}\Z)[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")

_NUMBER = re.compile("[1-9][0-9]{0,8}")

_LABEL_VALUE = 63

_MOST_JOBS = 1_000
"""At most this many Job names are predicted; further names are not checked."""


def faults(jobset: Manifest) -> Iterator[Fault]:
    """Yield everything that is wrong with a JobSet."""
    jobs = [mapping(entry) for entry in listing(at(jobset.data, _JOBS))]
    names = [text(job.get("name")) for job in jobs]
    yield from _roles_of(_TARGETS, at(jobset.data, _TARGETS), names)
    yield from _rules(jobset, names)
    yield from _network(jobset, jobs)
    counts = {name: _pods_of_job(job) for name, job in zip(names, jobs, strict=True)}
    for index, job in enumerate(jobs):
        location: Location = (*_JOBS, index)
        if names[index] in names[:index]:
            yield Fault((*location, "name"), f"duplicate role {names[index]!r}", "rename it")
        for fault in (*_pods(job), *_dependencies(jobset, job, names[:index]), *_counts(job, counts)):
            yield fault.below(location)
    yield from _coordinator(jobset, names)


def count(entry: Any) -> int:
    """Return the number of pods of a role; JobSet's default is one."""
    return number_of_pods(mapping(entry).get("replicas")) * _pods_of_job(mapping(entry))


def job_names(jobset: str, job: dict[str, Any]) -> list[str]:
    """Return the names of a role's Jobs (pkg/util/placement: GenJobName)."""
    number = min(number_of_pods(job.get("replicas")), _MOST_JOBS)
    return [f"{jobset}-{job.get('name')}-{index}" for index in range(number)]


def longest_pod(jobset: str, job: dict[str, Any]) -> str:
    """Return the longest name of a role's pods: `<jobset>-<role>-<job>-<pod>-` and five characters."""
    jobs = number_of_pods(job.get("replicas"))
    pods = integer(at(job, ("template", "spec", "completions"))) or _pods_of_job(job)
    return f"{jobset}-{job.get('name')}-{max(jobs - 1, 0)}-{max(pods - 1, 0)}-abcde"


def _pods_of_job(job: dict[str, Any]) -> int:
    return number_of_pods(at(job, ("template", "spec", "parallelism")))


def _roles_of(place: Location, roles: Any, names: Sequence[str]) -> Iterator[Fault]:
    for index, name in enumerate(listing(roles)):
        if name not in names:
            yield Fault((*place, index), f"role {show(name)} not found", _roles(str(name), names))


def _rules(jobset: Manifest, names: Sequence[str]) -> Iterator[Fault]:
    """Check the rules for failed Jobs."""
    rules = [mapping(entry) for entry in listing(at(jobset.data, _RULES))]
    rule_names = [text(rule.get("name")) for rule in rules]
    for index, rule in enumerate(rules):
        location: Location = (*_RULES, index)
        name = rule_names[index]
        if name in rule_names[:index] and name:
            yield Fault((*location, "name"), f"duplicate rule {show(name)}", "rename it")
        elif name and not _RULE_NAME.fullmatch(name):
            message = "expected at most 128 letters, digits and _ , : that start with a letter and end with none of , :"
            yield Fault((*location, "name"), f"{message}, found {show(name)}")
        yield from _roles_of((*location, "targetReplicatedJobs"), rule.get("targetReplicatedJobs"), names)


def _network(jobset: Manifest, jobs: Sequence[dict[str, Any]]) -> Iterator[Fault]:
    """Check that the pods have the names by which the others find them, if any variable contains one."""
    values = [text(variable.get("value")) for job in jobs for _, variable in _variables(job)]
    if not any(f".$({NAME})" in value for value in values):
        return
    if at(jobset.data, (*_NETWORK, "enableDNSHostnames")) is False:
        hint = "without it, the pods have no names, by which they look for each other"
        yield Fault((*_NETWORK, "enableDNSHostnames"), "expected true, found false", hint)
    subdomain = at(jobset.data, (*_NETWORK, "subdomain"))
    if subdomain not in (None, "", jobset.name):
        message = f"expected the JobSet's name or nothing, found {show(subdomain)}"
        hint = "the pods look for each other below the JobSet's name"
        yield Fault((*_NETWORK, "subdomain"), message, hint)


def _roles(name: str, names: Sequence[str]) -> str:
    return similar(name, names) or f"the roles are: {', '.join(names) or 'none'}"


def _pods(job: dict[str, Any]) -> Iterator[Fault]:
    """Yield errors in the number of a role's pods, and in the handling of their failures."""
    job_spec: Location = ("template", "spec")
    spec = mapping(at(job, job_spec))
    if count(job) > INT32:
        message = f"replicas x parallelism is {count(job)}, the limit is {INT32}"
        yield Fault(("replicas",) if "replicas" in job else ("name",), message)
    mode = spec.get("completionMode")
    if mode not in (None, "Indexed"):
        hint = "only pods with an index have names by which others find them"
        yield Fault((*job_spec, "completionMode"), f"expected Indexed, found {show(mode)}", hint)
    elif (completions := integer(spec.get("completions"))) != _pods_of_job(job):
        value = "nothing" if completions is None else str(completions)
        message = f"expected as many as parallelism, {_pods_of_job(job)}, found {value}"
        place = (*job_spec, "completions") if completions is not None else job_spec
        yield Fault(place, message, "all pods of a role run at once, and each once")
    policy = at(job, (*_POD, "restartPolicy"))
    if policy != "Never":
        value = "nothing, for which JobSet writes OnFailure" if policy is None else show(policy)
        hint = "else a pod that has failed is deleted, and its log with it"
        yield Fault((*_POD, "restartPolicy"), f"expected Never, found {value}", hint)
    yield from _exit_codes(job)


def _exit_codes(job: dict[str, Any]) -> Iterator[Fault]:
    """Check that rules for exit codes name containers of the pods, or the API server refuses the Job."""
    rules: Location = ("template", "spec", "podFailurePolicy", "rules")
    containers = [mapping(entry) for key in _CONTAINERS for entry in listing(at(job, (*_POD, key)))]
    names = [text(container.get("name")) for container in containers]
    for index in range(len(listing(at(job, rules)))):
        place: Location = (*rules, index, "onExitCodes", "containerName")
        name = at(job, place)
        if name is not None and name not in names:
            hint = similar(str(name), names) or f"the containers are: {', '.join(names) or 'none'}"
            yield Fault(place, f"container {show(name)} not found", hint)


def _dependencies(jobset: Manifest, job: dict[str, Any], earlier: Sequence[str]) -> Iterator[Fault]:
    """Check that a role waits only for existing earlier roles, and that nothing else orders them."""
    depends = listing(job.get("dependsOn"))
    for index, entry in enumerate(depends):
        name = mapping(entry).get("name")
        if name not in earlier:
            hint = f"earlier roles are: {', '.join(earlier)}" if earlier else "the first role depends on nothing"
            yield Fault(("dependsOn", index, "name"), f"{show(name)} is not an earlier role", hint)
    order = at(jobset.data, ("spec", "startupPolicy", "startupPolicyOrder"))
    if depends and order == "InOrder":
        yield Fault(("dependsOn",), "dependsOn and startupPolicy InOrder cannot be combined", "remove one", at_key=True)


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
        if variable.get("name") == LEAST:
            yield from _least(place, variable.get("value"), _pods_of_job(job))
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


def _least(place: Location, value: Any, most: int) -> Iterator[Fault]:
    """Check that torchrun takes the least number of nodes (torch/distributed/run.py: config_from_args)."""
    if not _NUMBER.fullmatch(text(value)) or int(value) > most:
        message = f"{LEAST}: expected a whole number from 1 to {most}, the number of pods, found {show(value)}"
        yield Fault((*place, "value"), message)


def _variables(job: dict[str, Any]) -> Iterator[tuple[Location, dict[str, Any]]]:
    """Yield the variables of a role's containers, and their locations in the role."""
    for number, container in enumerate(listing(at(job, (*_POD, "containers")))):
        for index, variable in enumerate(listing(mapping(container).get("env"))):
            yield (*_POD, "containers", number, "env", index), mapping(variable)


def _coordinator(jobset: Manifest, names: Sequence[str]) -> Iterator[Fault]:
    """Check that a coordinator's address, which packages do not need, fits into a label."""
    place: Location = ("spec", "coordinator")
    coordinator = mapping(at(jobset.data, place))
    if not coordinator:
        return
    role = text(coordinator.get("replicatedJob"))
    if role not in names:
        yield Fault((*place, "replicatedJob"), f"role {show(role)} not found", _roles(role, names))
    indices = [integer(coordinator.get(key)) or 0 for key in ("jobIndex", "podIndex")]
    subdomain = text(at(jobset.spec, ("network", "subdomain"))) or jobset.name
    address = f"{jobset.name}-{role}-{indices[0]}-{indices[1]}.{subdomain}"
    if len(address) > _LABEL_VALUE:
        message = f"its address {address!r} becomes a label's value: {len(address)} characters, the limit is 63"
        yield Fault(place, message, "remove it: the pods find each other without", at_key=True)
