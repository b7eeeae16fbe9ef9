"""Installs and checks the operators that workloads need, at a pinned version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, TimedOutError, ToolError, UnreachableError
from packager.cluster.operator_health import Alive, Heartbeat, check_heartbeat
from packager.cluster.operator_release import Bundle, bundle
from packager.cluster.ownership import FIELD_MANAGER
from packager.diagnosis.obstacles import obstacles
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import condition, name, shown, true_condition
from packager.kubernetes.objects import status as status_of
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import kinds, operators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.base.runner import Tell
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Finding
    from packager.workloads.workload import Operator


_IMAGE_HINT = "use --from FILE with a manifest whose image the nodes can pull"


def served(kubectl: Kubectl, operator: Operator) -> tuple[str, ...]:
    """Return the served versions of the operator's kind; none if its CRD is not established."""
    crd = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{operator.crd}")
    if crd is None or not true_condition(crd, "Established"):
        return ()
    return tuple(version["name"] for version in crd["spec"]["versions"] if version.get("served"))


def jobs(kubectl: Kubectl, operator: Operator) -> tuple[list[Object], list[Object]]:
    """Return the jobs in all namespaces that still run, and those that have ended."""
    kind = kinds()[operator.kind]
    running: list[Object] = []
    ended: list[Object] = []
    for job in kubectl.items(operator.crd, "--all-namespaces"):
        (ended if kind.ending(Snapshot(job)) else running).append(job)
    return running, ended


def apply_operator(
    kubectl: Kubectl,
    operator: Operator,
    manifests: Bundle,
    *,
    dry_run: str | None = None,
    force_conflicts: bool = False,
) -> str:
    """Apply the operator with server-side apply, and return kubectl's message about each object."""
    versions = served(kubectl, operator)
    if versions and operator.api.partition("/")[2] not in versions:
        raise _rival_error(operator, versions)
    arguments = ["apply", "--server-side", f"--field-manager={FIELD_MANAGER}"]
    if dry_run == "client":  # kubectl has no client-side dry run of a server-side apply
        arguments = ["apply"]
    arguments += ["--force-conflicts"] if force_conflicts else []
    arguments += [f"--dry-run={dry_run}"] if dry_run else []
    return _run(kubectl, arguments, manifests)


def _rival_error(operator: Operator, versions: Sequence[str]) -> ClusterError:
    message = f"{operator.crd} already exists and serves {', '.join(versions)}"
    if operator.rival is None:
        return ClusterError(message, hint=f"packages need {operator.api}: remove the CRD first")
    hint = f"both have a CRD of this name, and a cluster can have only one: remove that of {operator.rival} first"
    return ClusterError(f"{message}: most likely that of {operator.rival}", hint=hint)


def await_operator(kubectl: Kubectl, manifests: Bundle) -> Iterator[str]:
    """Yield, about once per second, the reason why the operator is not ready, until it is."""
    since: dict[str, float] = {}
    while True:
        try:
            waiting, trouble = _pending(kubectl, manifests)
        except UnreachableError as error:
            waiting, trouble = str(error), None
        if waiting is None:
            return
        if trouble is not None:
            started = since.setdefault(trouble.message, kubectl.runner.clock())
            if kubectl.runner.clock() - started >= trouble.final_after:
                hint = _IMAGE_HINT if trouble.reason == "ErrImagePull" else trouble.hint
                raise ClusterError(f"the operator does not start: {trouble}", hint=hint)
            waiting = str(trouble)
        else:
            since.clear()
        yield waiting
        kubectl.runner.sleep(1)


def _pending(kubectl: Kubectl, manifests: Bundle) -> tuple[str | None, Finding | None]:
    """Return the reason why the operator is not ready (None if it is), and the finding that may explain it."""
    for crd in manifests.of("CustomResourceDefinition"):
        live = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{name(crd)}")
        if live is None or not true_condition(live, "Established"):
            return f"{name(crd)} is not established yet", None
    for manifest in manifests.of("Deployment"):
        where = f"--namespace={manifest['metadata'].get('namespace') or 'default'}"
        live = next(iter(kubectl.items(f"deployments.apps/{name(manifest)}", where)), None)
        if live is None:
            return f"{shown(manifest)} does not exist yet", None
        if _is_available(live):
            continue
        refused = condition(live, "ReplicaFailure")
        if refused and refused["status"] == "True":
            raise ClusterError(f"{shown(manifest)} cannot create its pods: {refused.get('message')}")
        selector = live["spec"]["selector"]["matchLabels"]
        pods = kubectl.items("pods", where, f"--selector={','.join(f'{k}={v}' for k, v in selector.items())}")
        events = kubectl.items("events", where)
        troubles = [finding for pod in pods for finding in obstacles(pod, events) if finding.blocks]
        return f"{shown(manifest)}: not all of its pods are available yet", min(troubles, key=_patience, default=None)
    return None, None


def _patience(finding: Finding) -> float:
    return finding.final_after


def _is_available(deployment: Object) -> bool:
    """Whether every pod is updated and available, by the rules of `kubectl rollout status`."""
    counts = status_of(deployment)
    is_current = counts.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    updated = counts.get("updatedReplicas", 0)
    is_complete = deployment["spec"].get("replicas", 1) <= updated and counts.get("replicas", 0) <= updated
    return bool(is_current and is_complete and counts.get("availableReplicas", 0) >= updated)


def _run(kubectl: Kubectl, arguments: list[str], manifests: Bundle) -> str:
    with manifests.file() as file:
        done = replace(kubectl, namespace="").run(*arguments, f"--filename={file}")
    if done.returncode != 0:
        raise explained_error(done.stderr)
    return str(done.stdout)


def operator_names() -> dict[str, str]:
    """Return the name of each operator that mlpack can install, by its short name on the command line."""
    return {short: operator.name for short, operator in operators().items()}


@dataclass(frozen=True, slots=True)
class AppliedOperator:
    """An operator that was applied, or would be in a dry run."""

    kubectl: Kubectl  # the client of the cluster
    operator: Operator  # the operator
    manifests: Bundle  # the applied manifests
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
    """Apply the release that mlpack is tested with, or the manifests in `file`."""
    operator = operators()[name]
    if file is None:
        tell(f"fetching {operator.url}")
    manifests = bundle(operator, file)
    if not manifests.is_pinned:
        tell(f"note: {file} differs from upstream's manifest of {operator.version}")
    if file is not None:
        for image in manifests.images:
            tell(f"the nodes have to pull {image}, or have it")
    output = apply_operator(kubectl, operator, manifests, dry_run=dry_run, force_conflicts=force_conflicts)
    return AppliedOperator(kubectl, operator, manifests, output)


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
            raise TimedOutError(f"the operator is not ready after {timeout:g} s: {waiting}")
    return served(applied.kubectl, applied.operator)


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """An operator in a cluster."""

    operator: Operator  # the operator
    served: tuple[str, ...]  # the versions of the operator's kind that the cluster serves; empty without its CRD
    heartbeat: Heartbeat  # whether the operator is running, with the evidence
    running: int  # the number of running jobs of the kind
    ended: int  # the number of ended jobs of the kind

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
    running, ended = jobs(kubectl, operator) if versions else ([], [])
    return OperatorStatus(operator, versions, heartbeat, len(running), len(ended))
