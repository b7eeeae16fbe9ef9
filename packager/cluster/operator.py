"""Installs the operators that workloads need, at a pinned version, and finds out whether they run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from packager.base.errors import ClusterError, DeniedError, TimedOutError, ToolError, UnreachableError
from packager.base.process import Tell
from packager.cluster.operator_release import OperatorManifests, read_manifests
from packager.cluster.ownership import FIELD_MANAGER
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import Object, condition, moment, name, shown, true_condition
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import Operator, kinds, operators


class Alive(StrEnum):
    """Whether an operator handles the jobs."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The state of an operator."""

    alive: Alive  # whether the operator is running
    evidence: str  # the evidence, in a sentence
    deployment: Object | None = None  # the operator's Deployment; None if none was found

    @property
    def image(self) -> str | None:
        """The image of the operator's Deployment; None without one."""
        if self.deployment is None:
            return None
        return str(self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def check_heartbeat(kubectl: Kubectl, operator: Operator) -> Heartbeat:
    """Return whether an operator is running, in any namespace of the cluster.

    A lease is stronger evidence than a Deployment: an operator may run outside the cluster, and a running pod may be
    idle.
    """
    found: list[list[Object]] = []
    is_refused = False
    for resource, named in (("deployments.apps", operator.deployment), ("leases.coordination.k8s.io", operator.lease)):
        try:
            found.append(kubectl.items(resource, "--all-namespaces", f"--field-selector=metadata.name={named}"))
        except DeniedError:
            found.append([])
            is_refused = True
    deployments, leases = found
    deployment = min(deployments, key=lambda item: not true_condition(item, "Available"), default=None)
    if leases:
        lease = max(leases, key=_renew_time)
        where = f"its lease {lease['metadata']['namespace']}/{name(lease)}"
        if _is_renewed(kubectl, lease, operator.lease_seconds):
            holder = str(lease["spec"].get("holderIdentity")).partition("_")[0]  # host_uuid, by client-go's custom
            return Heartbeat(Alive.YES, f"{where} is renewed by {holder}", deployment)
        return Heartbeat(Alive.NO, f"{where} was last renewed at {_renew_time(lease) or 'no time'}", deployment)
    if deployment is not None:
        where = f"its Deployment {deployment['metadata']['namespace']}/{name(deployment)}"
        if true_condition(deployment, "Available"):
            return Heartbeat(Alive.YES, f"{where} is available", deployment)
        return Heartbeat(Alive.NO, f"{where} is not available", deployment)
    if is_refused:
        return Heartbeat(Alive.UNKNOWN, "you are not allowed to see its Deployment or its lease")
    return Heartbeat(Alive.NO, "it has no Deployment and no lease")


def _is_renewed(kubectl: Kubectl, lease: Object, default: int) -> bool:
    """Whether a lease is renewed: it is fresh, or changes within its duration.

    A lease that was not renewed for a quarter of its duration is watched, since its controller may have stopped, or the
    clocks may differ: of 15 seconds, JobSet and Kueue renew it every 2, and mpi-operator every 3.
    """
    seconds = lease["spec"].get("leaseDurationSeconds") or default
    renewed = _renew_time(lease)
    if not lease["spec"].get("holderIdentity"):
        return False
    if renewed and abs((kubectl.runner.now() - moment(renewed)).total_seconds()) <= seconds / 4:
        return True
    where = f"--namespace={lease['metadata']['namespace']}"
    for _ in range(seconds):
        kubectl.runner.sleep(1)
        again = kubectl.items(f"leases.coordination.k8s.io/{name(lease)}", where)
        if not again or _renew_time(again[0]) != renewed:
            return bool(again)
    return False


def _renew_time(lease: Object) -> str:
    return str(lease["spec"].get("renewTime") or "")


def served(kubectl: Kubectl, operator: Operator) -> tuple[str, ...]:
    """Return the served versions of the operator's kind; none if its CRD is not established."""
    crd = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{operator.crd}")
    if crd is None or not true_condition(crd, "Established"):
        return ()
    return tuple(version["name"] for version in crd["spec"]["versions"] if version.get("served"))


def await_operator(kubectl: Kubectl, manifests: OperatorManifests) -> Iterator[str]:
    """Yield, about once per second, the reason why the operator is not ready, until it is."""
    while True:
        try:
            waiting = _pending(kubectl, manifests)
        except UnreachableError as error:
            waiting = str(error)
        if waiting is None:
            return
        yield waiting
        kubectl.runner.sleep(1)


def _pending(kubectl: Kubectl, manifests: OperatorManifests) -> str | None:
    """Return the reason why the operator is not ready; None if it is."""
    for crd in manifests.of("CustomResourceDefinition"):
        live = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{name(crd)}")
        if live is None or not true_condition(live, "Established"):
            return f"{name(crd)} is not established yet"
    for manifest in manifests.of("Deployment"):
        where = f"--namespace={manifest['metadata'].get('namespace') or 'default'}"
        live = next(iter(kubectl.items(f"deployments.apps/{name(manifest)}", where)), None)
        if live is None:
            return f"{shown(manifest)} does not exist yet"
        refused = condition(live, "ReplicaFailure")
        if refused and refused["status"] == "True":
            raise ClusterError(f"{shown(manifest)} cannot create its pods: {refused.get('message')}")
        if not _is_available(live):
            return f"{shown(manifest)}: not all of its pods are available yet"
    return None


def _is_available(deployment: Object) -> bool:
    """Whether every pod is updated and available, by the rules of `kubectl rollout status`."""
    counts = status_of(deployment)
    is_current = counts.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    updated = counts.get("updatedReplicas", 0)
    is_complete = deployment["spec"].get("replicas", 1) <= updated and counts.get("replicas", 0) <= updated
    return bool(is_current and is_complete and counts.get("availableReplicas", 0) >= updated)


def operator_names() -> dict[str, str]:
    """Return the name of each operator that mlpack can install, by its short name on the command line."""
    return {short: operator.name for short, operator in operators().items()}


@dataclass(frozen=True, slots=True)
class AppliedOperator:
    """An operator that was applied, or would be in a dry run."""

    kubectl: Kubectl  # the client of the cluster
    operator: Operator  # the operator
    manifests: OperatorManifests  # the applied manifests
    output: str  # the output of kubectl for each object

    @property
    def names(self) -> tuple[str, ...]:
        """The applied objects, each as a name for kubectl."""
        return tuple(shown(item) for item in self.manifests.objects)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"operator": self.operator.name, "objects": list(self.names), "images": list(self.manifests.images)}


def install(  # noqa: PLR0913 - an option each
    kubectl: Kubectl, name: str, file: Path | None, *, dry_run: str | None, force_conflicts: bool, tell: Tell
) -> AppliedOperator:
    """Apply the release that mlpack is tested with, or the manifests in `file`, with server-side apply."""
    operator = operators()[name]
    if file is None:
        tell(f"fetching {operator.url}")
    manifests = read_manifests(operator, file)
    if not manifests.is_pinned:
        tell(f"note: {file} differs from upstream's manifest of {operator.version}")
    for image in manifests.images if file else ():
        tell(f"the nodes have to pull {image}, or have it")
    versions = served(kubectl, operator)
    if versions and operator.api.partition("/")[2] not in versions:
        message = f"{operator.crd} already exists and serves {', '.join(versions)}"
        if operator.rival is None:
            raise ClusterError(message, hint=f"packages need {operator.api}: remove the CRD first")
        hint = f"both have a CRD of this name, and a cluster can have only one: remove that of {operator.rival} first"
        raise ClusterError(f"{message}: most likely that of {operator.rival}", hint=hint)
    # kubectl has no client-side dry run of a server-side apply
    server_side = [] if dry_run == "client" else ["--server-side", f"--field-manager={FIELD_MANAGER}"]
    flags = ["--force-conflicts"] * force_conflicts + ([f"--dry-run={dry_run}"] if dry_run else [])
    with manifests.file() as path:
        done = replace(kubectl, namespace="").run("apply", *server_side, *flags, f"--filename={path}")
    if done.returncode != 0:
        raise explained_error(done.stderr)
    return AppliedOperator(kubectl, operator, manifests, str(done.stdout))


def wait_until_ready(applied: AppliedOperator, *, timeout: float, tell: Tell) -> tuple[str, ...]:
    """Wait until the operator serves, report the reasons for waiting, and return the versions that it serves."""
    clock = applied.kubectl.runner.clock
    deadline = clock() + timeout
    last = ""
    for waiting in await_operator(applied.kubectl, applied.manifests):
        if waiting != last:
            tell(f"waiting: {waiting}")
            last = waiting
        if clock() > deadline:
            hint = f"kubectl get pods -A | grep {applied.operator.deployment}"
            raise TimedOutError(f"the operator is not ready after {timeout:g} s: {waiting}", hint=hint)
    return served(applied.kubectl, applied.operator)


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """An operator in a cluster."""

    operator: Operator  # the operator
    served: tuple[str, ...]  # the versions of the operator's kind that the cluster serves; empty without its CRD
    heartbeat: Heartbeat  # whether the operator is running, with the evidence
    running: int  # the number of jobs of the kind, in all namespaces, that still run
    ended: int  # the number of those that have ended

    @property
    def needed(self) -> str:
        """The version that packages need."""
        return self.operator.api.partition("/")[2]

    @property
    def exit_code(self) -> int:
        """0 when packages can run, 7 when they cannot, 6 when that is unknown."""
        if self.heartbeat.alive is Alive.UNKNOWN:
            return ToolError.exit_code
        is_fit = self.heartbeat.alive is Alive.YES and self.needed in self.served
        return 0 if is_fit else ClusterError.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "operator": self.operator.name,
            "crd": self.operator.crd if self.served else None,
            "served": list(self.served),
            "alive": self.heartbeat.alive,
            "evidence": self.heartbeat.evidence,
            "image": self.heartbeat.image,
            "jobs": {"running": self.running, "ended": self.ended},
            "tried": self.operator.version,
        }


def status(kubectl: Kubectl, name: str) -> OperatorStatus:
    """Return whether the operator `name` is installed and running."""
    operator = operators()[name]
    versions = served(kubectl, operator)
    heartbeat = check_heartbeat(kubectl, operator)
    jobs = kubectl.items(operator.crd, "--all-namespaces") if versions else []
    ended = sum(kinds()[operator.kind].ending(Snapshot(job)) is not None for job in jobs)
    return OperatorStatus(operator, versions, heartbeat, len(jobs) - ended, ended)
