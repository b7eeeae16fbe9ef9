"""Lists the deployments of a package in a cluster, with the build of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, ToolError
from packager.cluster import deployed as cluster
from packager.cluster.record import past_runs
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.cluster.deployed import Deployment
    from packager.cluster.record import PastRun
    from packager.kubernetes.kubectl.client import Kubectl


@dataclass(frozen=True, slots=True)
class History:
    """The deployments of a package.

    Attributes:
        package: The name of the package.
        digest: The digest of the build that the user named.
        deployments: The deployments of all builds of the package, the newest first.
        unseen: The resources that the user may not list, each with the cluster's message.
        records: The runs that were recorded in local folders, the newest first.
        error: The error that hides the deployments, although there are records; None if the cluster has answered.
    """

    package: str
    digest: str
    deployments: tuple[Deployment, ...]
    unseen: Mapping[str, str]
    records: tuple[PastRun, ...] = ()
    error: ClusterError | ToolError | None = None

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
    """Return the deployments of the package at `path` that still exist, and its recorded runs.

    Recorded runs are returned without a cluster, too.

    Args:
        kubectl: The client of the cluster.
        path: A folder or an archive.
        everywhere: Whether to look in all namespaces.
        records: The folders of recorded runs; they may be missing.

    Raises:
        UsageError: There is no such package.
        ClusterError: There is no recorded run, and the cluster does not answer, or the user may not list any of the
            resources.
        ToolError: There is no recorded run, and kubectl cannot be run.
    """
    with opened(path) as package:
        runs = [run for folder in records for run in past_runs(folder, package.name)]
        runs.sort(key=lambda run: run.created, reverse=True)
        try:
            past = cluster.history(kubectl, package.name, everywhere=everywhere)
        except (ClusterError, ToolError) as error:
            if not runs:
                raise
            return History(package.name, package.digest, (), {}, tuple(runs), error)
        return History(package.name, package.digest, past.deployments, past.unseen, tuple(runs))
