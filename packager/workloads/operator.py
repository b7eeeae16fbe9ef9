"""Operator: the program in a cluster that runs the workloads of a kind. Tests: cluster/test_operator.py."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator at the version that packages are tried with.

    Attributes:
        short: The name in `mlpack operator`.
        name: The name in messages.
        deployment: The name of its Deployment.
        lease: The name of its lease.
        lease_seconds: The seconds that its lease holds if it does not say.
        version: The tag of the release that is installed.
        url: The address of the release's manifest.
        sha256: The manifest's digest.
        kind: The kind of workload that it runs.
        crd: The CRD of that.
        api: Group and version that packages ask for.
        edit_role: The ClusterRole that allows users to edit its objects; None if there is none.
        rival: Another product with a CRD of this name; None if there is none.
        tested: The tag of the release that packages are tried with; None if it is `version`.
    """

    short: str
    name: str
    deployment: str
    lease: str
    lease_seconds: int
    version: str
    url: str
    sha256: str
    kind: str
    crd: str
    api: str
    edit_role: str | None
    rival: str | None
    tested: str | None = None

    def installation(self, flags: Sequence[str] = ()) -> str:
        """Return the command that installs it; `flags` say in which cluster."""
        return shlex.join(["mlpack", "operator", "install", self.short, *flags])
