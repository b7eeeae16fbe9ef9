"""What a verb works on: one overlay of a package, rendered, and the cluster it is meant for."""

from __future__ import annotations

import getpass
import platform
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.cli.console import say
from packager.errors import UsageError
from packager.problems import similar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.cluster.client import Kubectl
    from packager.cluster.follow import Update
    from packager.cluster.manifests import Manifests
    from packager.cluster.snapshot import Snapshot
    from packager.package import Package


@dataclass(frozen=True, slots=True)
class Target:
    """One overlay of a package, and a cluster.

    Attributes:
        package: The package.
        overlay: The overlay's name.
        manifests: What it applies.
        kubectl: The user's.
    """

    package: Package
    overlay: str
    manifests: Manifests
    kubectl: Kubectl

    def observe(self, *, events: bool = True) -> Snapshot | None:
        """Return what the cluster knows of the workload. Raises ClusterError."""
        from packager.cluster.observe import observe

        return observe(self.kubectl, self.manifests.engine, self.manifests.name, events=events)

    def follow(self, *, rendered: str | None = None) -> Iterator[Update]:
        """Yield what becomes of the workload; see `packager.cluster.follow`."""
        from packager.cluster.follow import follow

        return follow(self.observe, self.manifests.engine, rendered=rendered)

    @property
    def shown(self) -> str:
        """The workload as kubectl takes it: `mpijob/name`."""
        return f"{self.manifests.engine.kind.lower()}/{self.manifests.name}"

    def command(self, verb: str, *arguments: str) -> str:
        """Return the command line of another verb on the same target."""
        where = {
            "--kubeconfig": self.kubectl.kubeconfig,
            "--context": self.kubectl.context,
            "-n": self.kubectl.namespace,
        }
        options = [part for flag, value in where.items() if value for part in (flag, value)]
        if self.overlay != self.package.overlays[0]:
            options += ["--overlay", self.overlay]
        return shlex.join(["mlpack", verb, str(self.package.source), *arguments, *options])


@contextmanager
def target(path: Path, overlay: str | None, kubectl: Kubectl) -> Iterator[Target]:
    """Open the package at `path` and render its overlay.

    Raises:
        UsageError: There is no such package or overlay.
        RenderError: kubectl cannot render it, or there is no workload in it that mlpack knows.
    """
    from packager.cluster.manifests import load
    from packager.kubectl import kustomize
    from packager.package import opened

    with opened(path) as package:
        name = chosen(package, overlay)[0]
        folder = package.overlay(name)
        kubectl.show([kubectl.program, "kustomize", str(folder)])
        rendered = kustomize(folder, program=kubectl.program)
        for warning in rendered.warnings:
            say(warning)
        yield Target(package, name, load(rendered.manifests, f"{path}, {name}"), kubectl)


def chosen(package: Package, overlay: str | None) -> tuple[str, ...]:
    """Return the overlay that is asked for; all that there are, the default one first, when none is.

    Raises:
        UsageError: There is none, or none of this name.
    """
    if not package.overlays:
        raise UsageError(f"{package.source} has no overlays")
    if overlay is None:
        return package.overlays
    if overlay not in package.overlays:
        there = ", ".join(package.overlays)
        message = f"{package.source} has no overlay {overlay!r}; it has: {there}"
        raise UsageError(message, hint=similar(overlay, package.overlays))
    return (overlay,)


def who() -> str:
    """Return who is at work here, for those who find it in the cluster: user@machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name
        user = "somebody"
    return f"{user}@{platform.node() or 'unknown'}"
