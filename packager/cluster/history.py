"""What of a package is in a cluster, and of which build of it: by the labels that its objects carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.cluster.engines import ENGINES
from packager.cluster.manifests import DEPLOYED_BY, DIGEST
from packager.cluster.objects import annotation, created, name
from packager.cluster.snapshot import Snapshot
from packager.errors import ClusterError, UnreachableError

if TYPE_CHECKING:
    from datetime import datetime

    from packager.cluster.client import Kubectl
    from packager.cluster.objects import Object


@dataclass(frozen=True, slots=True)
class Deployment:
    """One workload of the package.

    Attributes:
        namespace: Where it is.
        workload: `kind/name`.
        digest: Of the package that it came from; None when kubectl itself applied it.
        deployed_by: user@machine; None likewise.
        created: When, by the server's clock.
        ended: `succeeded` or `failed`; None while it is neither.
    """

    namespace: str
    workload: str
    digest: str | None
    deployed_by: str | None
    created: datetime
    ended: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it for `-o json`."""
        return {
            "namespace": self.namespace,
            "workload": self.workload,
            "digest": self.digest,
            "deployedBy": self.deployed_by,
            "created": self.created.isoformat(),
            "ended": self.ended,
        }


def deployments(kubectl: Kubectl, package: str, *, everywhere: bool = False) -> list[Deployment]:
    """Return the workloads of the package that are in the cluster, the newest first.

    Args:
        kubectl: The user's.
        package: The package's name.
        everywhere: Whether to look in all namespaces.

    Raises:
        ClusterError: The cluster cannot say.
    """
    selector = f"--selector=app.kubernetes.io/managed-by=mlpack,app.kubernetes.io/name={package}"
    where = ["--all-namespaces"] if everywhere else []
    found: list[Object] = []
    for engine in ENGINES.values():
        try:
            found += kubectl.items(engine.resource, selector, *where)
        except UnreachableError:
            raise
        except ClusterError as error:
            if "the server doesn't have a resource type" not in str(error):
                raise  # a cluster without the operator has none of its workloads
    return sorted((_read(item) for item in found), key=lambda each: each.created, reverse=True)


def _read(item: Object) -> Deployment:
    ending = ENGINES[item["kind"]].ending(Snapshot(item))
    return Deployment(
        str(item["metadata"]["namespace"]),
        f"{item['kind'].lower()}/{name(item)}",
        annotation(item, DIGEST),
        annotation(item, DEPLOYED_BY),
        created(item),
        str(ending.phase) if ending else None,
    )
