"""Names that Kubernetes, or an operator in it, would refuse: those written, and those made of them later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.verify.overlay import integer, listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.problems import Problem
    from packager.verify.overlay import Manifest, Overlay
    from packager.yamlio import Location

# apimachinery, pkg/util/validation/validation.go.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LETTER_FIRST = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

# A Job's name becomes a label's value on its pods, a CronJob adds a time of eleven characters, a Service is a host.
_MOST = {"Pod": 63, "Job": 63, "CronJob": 52, "Service": 63, "MPIJob": 63, "JobSet": 63}


def check(overlay: Overlay) -> Iterator[Problem]:
    """Yield a finding for every name that something would refuse."""
    for manifest in overlay.manifests:
        yield from _own(overlay, manifest)
        yield from _labels(overlay, manifest)
        longest = _longest(manifest)
        if longest and (len(longest) > 63 or not _LETTER_FIRST.fullmatch(longest)):
            message = f"makes the name {longest!r}: {len(longest)} characters, at most 63 fit, from a letter on"
            yield overlay.problem(manifest, ("metadata", "name"), message, "shorten the name")
        if manifest.kind == "MPIJob":
            yield from _taken(overlay, manifest)


def _own(overlay: Overlay, manifest: Manifest) -> Iterator[Problem]:
    most = _MOST.get(manifest.kind, 253)
    pattern = _SUBDOMAIN if most == 253 else _LETTER_FIRST if manifest.kind == "Service" else _LABEL
    name = manifest.name
    if not pattern.fullmatch(name):
        message = f"{name!r} is no name: lower-case letters, digits and '-', beginning and ending with one of the first"
        yield overlay.problem(manifest, ("metadata", "name"), message)
    elif len(name) > most:
        yield overlay.problem(manifest, ("metadata", "name"), f"{len(name)} characters, and at most {most} fit")


def _longest(manifest: Manifest) -> str | None:
    """Return the longest name that a pod of `manifest` gets; None when nothing is put behind its name."""
    if manifest.kind == "MPIJob":
        worker = mapping(mapping(manifest.spec.get("mpiReplicaSpecs")).get("Worker"))
        return f"{manifest.name}-worker-{max((integer(worker.get('replicas')) or 1) - 1, 0)}"
    if manifest.kind == "StatefulSet":
        return f"{manifest.name}-{max((integer(manifest.spec.get('replicas')) or 1) - 1, 0)}"
    if manifest.kind == "JobSet":
        names = [_jobset_pod(manifest.name, mapping(job)) for job in listing(manifest.spec.get("replicatedJobs"))]
        return max(names, key=len, default=None)
    return None


def _jobset_pod(name: str, job: dict[str, object]) -> str:
    """`<jobset>-<replicatedJob>-<jobIndex>-<podIndex>-` and five characters (jobset, pkg/util/placement)."""
    replicas = integer(job.get("replicas")) or 1
    spec = mapping(mapping(job.get("template")).get("spec"))
    pods = integer(spec.get("completions")) or integer(spec.get("parallelism")) or 1
    return f"{name}-{job.get('name')}-{max(replicas - 1, 0)}-{max(pods - 1, 0)}-xxxxx"


def _taken(overlay: Overlay, job: Manifest) -> Iterator[Problem]:
    """Names that mpi-operator gives to what it makes for a job (mpi-operator, pkg/controller/mpi_job_controller.go)."""
    for kind, name in (("Secret", f"{job.name}-ssh"), ("ConfigMap", f"{job.name}-config"), ("Service", job.name)):
        if other := overlay.named(kind, name):
            message = f"mpi-operator makes a {kind} of this name for the MPIJob"
            yield overlay.problem(other, ("metadata", "name"), message, "give it another name")


def _labels(overlay: Overlay, manifest: Manifest) -> Iterator[Problem]:
    holders: list[tuple[Location, object]] = [((), manifest.data.get("metadata"))]
    holders += [(pods.location, pods.metadata) for pods in overlay.pods if pods.manifest is manifest and pods.location]
    for location, metadata in holders:
        for key, value in mapping(mapping(metadata).get("labels")).items():
            if isinstance(value, str) and (len(value) > 63 or not _LABEL_VALUE.fullmatch(value)):
                message = f"{value!r} is no label's value: at most 63 letters, digits and '-_.', not at its ends"
                yield overlay.problem(manifest, (*location, "metadata", "labels", key), message)
