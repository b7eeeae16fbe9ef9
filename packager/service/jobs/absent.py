"""The cluster of a server without a kubeconfig: each request fails with the reason."""

# ruff: noqa: ARG002 - the arguments are those of a cluster that answers

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UnreachableError
from packager.service.jobs.kube import WHOLE_LOG, Cluster, LogOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from packager.kubernetes.objects import Object


class AbsentCluster(Cluster):
    """A cluster that never answers.

    Attributes:
        reason: The reason why no cluster is configured.
    """

    def __init__(self, reason: str) -> None:
        self.namespace = "default"
        self.reason = reason

    def _refuse(self) -> UnreachableError:
        return UnreachableError(self.reason)

    async def close(self) -> None:
        """Do nothing."""

    async def apply(self, item: Object, namespace: str, *, dry_run: bool = False) -> Object:
        """Raise UnreachableError."""
        raise self._refuse()

    async def create(self, item: Object, namespace: str, *, dry_run: bool = False) -> None:
        """Raise UnreachableError."""
        raise self._refuse()

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Raise UnreachableError."""
        raise self._refuse()

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Raise UnreachableError."""
        raise self._refuse()

    async def list(
        self,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> tuple[list[Object], str]:
        """Raise UnreachableError."""
        raise self._refuse()

    async def watch(
        self,
        kind: str,
        namespace: str,
        version: str,
        labels: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[str, Object]]:
        """Raise UnreachableError."""
        raise self._refuse()
        yield

    async def log(self, pod: str, namespace: str, options: LogOptions = WHOLE_LOG) -> AsyncIterator[str]:
        """Raise UnreachableError."""
        raise self._refuse()
        yield
