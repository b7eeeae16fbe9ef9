"""Lists the deployed workloads of a package and their builds, by labels of the objects. Tests: cli/test_history.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, DeniedError, NotServedError
from packager.cluster.labels import DEPLOYED_BY, DIGEST, VERSION
from packager.diagnosis.diagnose import diagnose
from packager.kubernetes.objects import annotation, created, name, owners
from packager.kubernetes.snapshot import Snapshot
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class Deployment:
    """One workload of the package.

    Attributes:
        namespace: The workload's namespace.
        workload: `kind/name`.
        digest: The digest of the workload's package; None if kubectl itself applied it.
        version: The version of that package; None if it has none.
        deployed_by: The deploying user as user@machine; None if kubectl itself applied it.
        created: The time of creation, by the server's clock.
        ended: `succeeded` or `failed`; None for a workload that has not ended.
    """

    namespace: str
    workload: str
    digest: str | None
    version: str | None
    deployed_by: str | None
    created: datetime
    ended: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the fields for `-o json`."""
        return {
            "namespace": self.namespace,
            "workload": self.workload,
            "digest": self.digest,
            "version": self.version,
            "deployedBy": self.deployed_by,
            "created": self.created.isoformat(),
            "ended": self.ended,
        }


@dataclass(frozen=True, slots=True)
class Deployments:
    """The workloads of a package that are in the cluster.

    Attributes:
        deployments: The workloads, the newest first.
        unseen: The refusals, by the resource that the user may not list.
    """

    deployments: tuple[Deployment, ...]
    unseen: Mapping[str, str]


def history(kubectl: Kubectl, package: str, *, everywhere: bool = False) -> Deployments:
    """Return the workloads of the package that are in the cluster.

    Args:
        kubectl: The user's kubectl.
        package: The package's name.
        everywhere: Whether to look in all namespaces.

    Raises:
        ClusterError: The cluster does not answer; or nothing was found, and the user may not list some resources.
    """
    selector = f"--selector=app.kubernetes.io/managed-by=mlpack,app.kubernetes.io/name={package}"
    where = ["--all-namespaces"] if everywhere else []
    items: list[Object] = []
    unseen: dict[str, ClusterError] = {}
    for kind in kinds().values():
        try:
            items += kubectl.items(kind.resource, selector, *where)
        except NotServedError:
            continue  # a cluster without the operator has none of its workloads
        except DeniedError as error:
            unseen[kind.resource] = error
    if unseen and not items:
        raise next(iter(unseen.values()))
    # Objects that a controller creates for a workload may have a workload's kind and labels, too.
    deployments = sorted(
        (_read(item) for item in items if not owners(item)), key=lambda deployment: deployment.created, reverse=True
    )
    return Deployments(tuple(deployments), {resource: str(error) for resource, error in unseen.items()})


def _read(item: Object) -> Deployment:
    kind = kinds()[item["kind"]]
    snapshot = Snapshot(item, pods=() if kind.selector(item) else (item,))
    verdict = diagnose(kind, snapshot) if kind.ending(snapshot) else None
    return Deployment(
        str(item["metadata"]["namespace"]),
        f"{item['kind'].lower()}/{name(item)}",
        annotation(item, DIGEST),
        annotation(item, VERSION),
        annotation(item, DEPLOYED_BY),
        created(item),
        str(verdict.phase) if verdict else None,
    )
