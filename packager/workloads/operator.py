"""Operator: the program in a cluster that runs the workloads of a kind. Tests: cluster/test_operator.py."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator at the version that packages are tried with."""

    short: str  # the name in `mlpack operator`
    name: str  # the name in messages
    deployment: str  # the name of its Deployment
    lease: str  # the name of its lease
    lease_seconds: int  # the seconds that its lease holds if it does not say
    version: str  # the tag of the release that is installed
    url: str  # the address of the release's manifest
    sha256: str  # the manifest's digest
    kind: str  # the kind of workload that it runs
    crd: str  # the CRD of that
    api: str  # group and version that packages ask for
    edit_role: str | None  # the ClusterRole that allows users to edit its objects; None if there is none
    rival: str | None  # another product with a CRD of this name; None if there is none
    tested: str | None = None  # the tag of the release that packages are tried with; None if it is `version`

    def installation(self, flags: Sequence[str] = ()) -> str:
        """Return the command that installs it; `flags` say in which cluster."""
        return shlex.join(["mlpack", "operator", "install", self.short, *flags])
