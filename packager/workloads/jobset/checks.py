"""Finds what JobSet's webhook refuses, and what it accepts although the pods would fail or lose their logs.

From JobSet v0.12.0, pkg/webhooks/jobset_webhook.go and the rules in its CRD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.faults import Fault
from packager.base.problems import show, similar
from packager.kubernetes.manifest import at, integer, listing, mapping, text
from packager.kubernetes.ranges import INT32
from packager.workloads.choices import invalid_choices
from packager.workloads.jobset.rendezvous import COUNTS
from packager.workloads.pods import number_of_pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest

_JOBS: Location = ("spec", "replicatedJobs")
_TARGETS: Location = ("spec", "successPolicy", "targetReplicatedJobs")
_POD: Location = ("template", "spec", "template", "spec")

_CHOICES: dict[Location, tuple[str, ...]] = {
    ("spec", "successPolicy", "operator"): ("All", "Any"),
    ("spec", "startupPolicy", "startupPolicyOrder"): ("AnyOrder", "InOrder"),
    ("spec", "failurePolicy", "restartStrategy"): ("Recreate", "BlockingRecreate"),
}

_LABEL_VALUE = 63

_MOST_JOBS = 1_000
"""Whose names are foretold: more are looked up nowhere."""


def faults(jobset: Manifest) -> Iterator[Fault]:
    """Yield everything that is wrong with a JobSet."""
    jobs = [mapping(entry) for entry in listing(at(jobset.data, _JOBS))]
    names = [text(job.get("name")) for job in jobs]
    yield from invalid_choices(jobset, _CHOICES)
    yield from _targets(jobset, names)
    counts = {name: _pods_of_job(job) for name, job in zip(names, jobs, strict=True)}
    for index, job in enumerate(jobs):
        here: Location = (*_JOBS, index)
        if names[index] in names[:index]:
            yield Fault((*here, "name"), f"duplicate role {names[index]!r}", "rename it")
        for fault in (*_pods(job), *_dependencies(jobset, job, names[:index]), *_counts(job, counts)):
            yield fault.below(here)
    yield from _coordinator(jobset, names)


def count(entry: Any) -> int:
    """Return how many pods a role has; what it does not say is one, as JobSet takes it."""
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


def _targets(jobset: Manifest, names: Sequence[str]) -> Iterator[Fault]:
    for index, name in enumerate(listing(at(jobset.data, _TARGETS))):
        if name not in names:
            yield Fault((*_TARGETS, index), f"role {show(name)} not found", _roles(str(name), names))


def _roles(name: str, names: Sequence[str]) -> str:
    return similar(name, names) or f"the roles are: {', '.join(names) or 'none'}"


def _pods(job: dict[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with how many pods a role has, and with what happens when one fails."""
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
        words = "nothing" if completions is None else str(completions)
        message = f"expected as many as parallelism, {_pods_of_job(job)}, found {words}"
        place = (*job_spec, "completions") if completions is not None else job_spec
        yield Fault(place, message, "all pods of a role run at once, and each once")
    policy = at(job, (*_POD, "restartPolicy"))
    if policy != "Never":
        words = "nothing, for which JobSet writes OnFailure" if policy is None else show(policy)
        hint = "else a pod that has failed is deleted, and its log with it"
        yield Fault((*_POD, "restartPolicy"), f"expected Never, found {words}", hint)


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
    for number, container in enumerate(listing(at(job, (*_POD, "containers")))):
        for index, variable in enumerate(listing(mapping(container).get("env"))):
            entry = mapping(variable)
            role = COUNTS.get(text(entry.get("name")))
            expected = counts.get(role or "")
            if expected is not None and "value" in entry and entry["value"] != str(expected):
                place = (*_POD, "containers", number, "env", index, "value")
                message = f"{entry['name']}: expected {str(expected)!r}, the number of pods of {role}"
                message += f", found {show(entry['value'])}"
                yield Fault(place, message)


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
