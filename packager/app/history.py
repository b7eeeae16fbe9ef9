"""Lists what is deployed of a package in a cluster, and from which build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.cluster import history as cluster
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.cluster.history import Deployment
    from packager.kubectl.client import Kubectl


@dataclass(frozen=True, slots=True)
class History:
    """What is deployed of a package.

    Attributes:
        package: Its name.
        digest: Of the build that was asked about.
        deployments: What was deployed of it, of any build, the newest first.
        unseen: Resources that the user may not list, and what the cluster said.
    """

    package: str
    digest: str
    deployments: tuple[Deployment, ...]
    unseen: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return it for `-o json`."""
        return {
            "package": self.package,
            "digest": self.digest,
            "deployments": [deployment.as_json() for deployment in self.deployments],
            "unseen": dict(self.unseen),
        }


def history(kubectl: Kubectl, path: Path, *, everywhere: bool = False) -> History:
    """Return what was deployed of the package at `path` and still exists.

    Args:
        kubectl: The user's.
        path: A folder or an archive.
        everywhere: Whether to look in all namespaces.

    Raises:
        UsageError: There is no such package.
        ClusterError: The cluster cannot say; or there is nothing that the user may see, and there may be more.
    """
    with opened(path) as package:
        past = cluster.history(kubectl, package.name, everywhere=everywhere)
        return History(package.name, package.digest, past.deployments, past.unseen)
