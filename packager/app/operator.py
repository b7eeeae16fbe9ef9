"""Installs and shows the operator that a kind of workload needs, once per cluster.

Tests: cluster/test_operator.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, TimedOutError, ToolError
from packager.cluster import operator as cluster
from packager.cluster.operator_health import Alive, Heartbeat, check_heartbeat
from packager.cluster.operator_release import Bundle, bundle
from packager.kubernetes.objects import shown
from packager.workloads.kinds import operators

if TYPE_CHECKING:
    from pathlib import Path

    from packager.app.progress import Tell
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.workloads.operator import Operator


def operator_names() -> dict[str, str]:
    """Return the name of each operator that mlpack can install, by its short name on the command line."""
    return {short: operator.name for short, operator in operators().items()}


@dataclass(frozen=True, slots=True)
class AppliedOperator:
    """An operator that was applied, or would be in a dry run.

    Attributes:
        kubectl: The client of the cluster.
        operator: The operator.
        manifests: The applied manifests.
        output: The output of kubectl for each object.
    """

    kubectl: Kubectl
    operator: Operator
    manifests: Bundle
    output: str

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
    """Apply the release that mlpack is tested with, or the manifests in `file`.

    Args:
        kubectl: The client of the cluster.
        name: One of `operator_names`.
        file: A file that replaces upstream's manifests; None for upstream's.
        dry_run: `client` or `server` for a dry run on this side; None to apply.
        force_conflicts: Whether to take over fields that another field manager has set.
        tell: Receives notes for the user.

    Raises:
        ToolError: The manifest cannot be fetched or read.
        UsageError: The file contains no manifests.
        ClusterError: The cluster refuses the objects, or a CRD of this name from another owner exists.
    """
    operator = operators()[name]
    if file is None:
        tell(f"fetching {operator.url}")
    manifests = bundle(operator, file)
    if not manifests.is_pinned:
        tell(f"note: {file} differs from upstream's manifest of {operator.version}")
    if file is not None:
        for image in manifests.images:
            tell(f"the nodes have to pull {image}, or have it")
    output = cluster.install(kubectl, operator, manifests, dry_run=dry_run, force_conflicts=force_conflicts)
    return AppliedOperator(kubectl, operator, manifests, output)


def wait_until_ready(applied: AppliedOperator, *, timeout: float, tell: Tell) -> tuple[str, ...]:
    """Wait until the operator serves, report the reasons for waiting, and return the versions that it serves.

    Raises:
        TimedOutError: The operator does not serve within `timeout` seconds.
        ClusterError: The operator cannot become ready.
    """
    clock = applied.kubectl.runner.clock
    deadline = clock() + timeout
    last = ""
    for waiting in cluster.wait_until_ready(applied.kubectl, applied.manifests):
        if waiting != last:
            tell(f"waiting: {waiting}")
            last = waiting
        if clock() > deadline:
            raise TimedOutError(f"the operator is not ready after {timeout:g} s: {waiting}")
    return cluster.served(applied.kubectl, applied.operator)


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """An operator in a cluster.

    Attributes:
        operator: The operator.
        served: The versions of the operator's kind that the cluster serves; empty without its CRD.
        heartbeat: Whether the operator is running, with the evidence.
        running: The number of running jobs of the kind.
        ended: The number of ended jobs of the kind.
    """

    operator: Operator
    served: tuple[str, ...]
    heartbeat: Heartbeat
    running: int
    ended: int

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
    """Return whether the operator `name` is installed and running.

    Raises:
        ClusterError: The cluster does not answer, or refuses to.
    """
    operator = operators()[name]
    versions = cluster.served(kubectl, operator)
    heartbeat = check_heartbeat(kubectl, operator)
    running, ended = cluster.jobs(kubectl, operator) if versions else ([], [])
    return OperatorStatus(operator, versions, heartbeat, len(running), len(ended))
