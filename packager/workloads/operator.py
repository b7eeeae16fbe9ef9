"""Operator: the program in a cluster that runs the workloads of a kind."""

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
        short: What `mlpack operator` calls it.
        name: What people call it.
        deployment: What its Deployment is called.
        lease: What its lease is called.
        lease_seconds: How long its lease holds when it does not say so.
        version: Its tag.
        url: Where upstream keeps the manifest of the release.
        sha256: The manifest's digest.
        kind: What it runs.
        crd: The CRD of that.
        api: Group and version that packages ask for.
        edit_role: The ClusterRole that allows users to edit its objects; None if there is none.
        rival: Another product with a CRD of this name; None if there is none.
        brings: Kind, name and namespace of the objects in the manifest, in the order in which they are deleted.
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
    brings: tuple[tuple[str, str, str], ...]

    def installation(self, flags: Sequence[str] = ()) -> str:
        """Return the command that installs it; `flags` say in which cluster."""
        return shlex.join(["mlpack", "operator", "install", self.short, *flags])
