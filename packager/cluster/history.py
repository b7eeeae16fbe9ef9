"""Lists what is deployed, by labels of the objects: of a package, with its recorded runs, or of all packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, DeniedError, NotServedError, ToolError
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import DEPLOYED_BY, DIGEST, MANAGED_BY, PACKAGE, VERSION
from packager.cluster.record import past_runs
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.objects import annotation, created, labels, name, owners
from packager.kubernetes.snapshot import Snapshot
from packager.package.opened import opened
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from packager.cluster.record import PastRun
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployed workload."""

    package: str | None  # the name of its package
    namespace: str
    workload: str  # kind/name
    digest: str | None  # of its package; None if kubectl itself applied it
    version: str | None  # of that package
    deployed_by: str | None  # user@machine; None if kubectl itself applied it
    created: datetime  # by the server's clock
    ended: str | None  # succeeded or failed; None for a workload that has not ended

    def as_json(self) -> dict[str, Any]:
        """Return the fields for `-o json`."""
        return {
            "package": self.package,
            "namespace": self.namespace,
            "workload": self.workload,
            "digest": self.digest,
            "version": self.version,
            "deployedBy": self.deployed_by,
            "created": self.created.isoformat(),
            "ended": self.ended,
        }


@dataclass(frozen=True, slots=True)
class History:
    """The deployments of a package."""

    package: str  # its name
    digest: str  # of the build that the user named
    deployments: tuple[Deployment, ...]  # of all builds, the newest first
    unseen: Mapping[str, str]  # the cluster's message by resource that the user may not list
    records: tuple[PastRun, ...] = ()  # the runs that were recorded in local folders, the newest first
    error: ClusterError | ToolError | None = None  # hides the deployments; None if the cluster has answered

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "package": self.package,
            "digest": self.digest,
            "deployments": [deployment.as_json() for deployment in self.deployments],
            "unseen": dict(self.unseen),
            "records": [record.as_json() for record in self.records],
            "error": None if self.error is None else str(self.error),
        }


def history(kubectl: Kubectl, path: Path, *, everywhere: bool = False, records: Sequence[Path]) -> History:
    """Return the deployments of the package at `path` that exist, and its recorded runs, also without a cluster."""
    with opened(path) as package:
        runs = [run for folder in records for run in past_runs(folder, package.name)]
        runs.sort(key=lambda run: run.created, reverse=True)
        try:
            rows, unseen = deployments(kubectl, package.name, everywhere=everywhere)
        except (ClusterError, ToolError) as error:
            if not runs:
                raise
            return History(package.name, package.digest, (), {}, tuple(runs), error)
        return History(package.name, package.digest, rows, unseen, tuple(runs))


def deployments(
    kubectl: Kubectl, package: str | None = None, *, everywhere: bool = False
) -> tuple[tuple[Deployment, ...], dict[str, str]]:
    """Return the workloads of a package, or of all, newest first, and the refusals by resource that may not be listed.

    Raises:
        ClusterError: The cluster does not answer; or nothing was found, and the user may not list some resources.
    """
    wanted = {MANAGED_BY: "mlpack", **({PACKAGE: package} if package else {})}
    where = ["--all-namespaces"] if everywhere else []
    items: list[Object] = []
    unseen: dict[str, ClusterError] = {}
    for kind in kinds().values():
        try:
            items += kubectl.items(kind.resource, selector_flag(wanted), *where)
        except NotServedError:
            continue  # a cluster without the operator has none of its workloads
        except DeniedError as error:
            unseen[kind.resource] = error
    if unseen and not items:
        raise next(iter(unseen.values()))
    # Objects that a controller creates for a workload may have a workload's kind and labels, too.
    rows = [_deployment(item) for item in items if not owners(item) and item["kind"] in kinds()]
    rows = [row for row in rows if package or row.digest is not None]  # temporary pods have the first label only
    refusals = {resource: str(error) for resource, error in unseen.items()}
    return tuple(sorted(rows, key=lambda row: row.created, reverse=True)), refusals


def _deployment(item: Object) -> Deployment:
    kind = kinds()[item["kind"]]
    snapshot = Snapshot(item, pods=() if kind.selector(item) else (item,))
    verdict = diagnose(kind, snapshot) if kind.ending(snapshot) else None
    return Deployment(
        labels(item).get(PACKAGE),
        str(item["metadata"]["namespace"]),
        f"{item['kind'].lower()}/{name(item)}",
        annotation(item, DIGEST),
        annotation(item, VERSION),
        annotation(item, DEPLOYED_BY),
        created(item),
        str(verdict.phase) if verdict else None,
    )
