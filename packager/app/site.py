"""Creates, shows and finds a site's defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.base import atomic
from packager.base.errors import MlpackError, ToolError, reason
from packager.cluster import sitecheck
from packager.cluster.sitecheck import NamedState
from packager.configure.site import example
from packager.configure.site.defaults import defaults
from packager.configure.site.read import parsed
from packager.configure.site_answers import labels
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.cluster.sitecheck import SiteCheck
    from packager.configure.site.defaults import SetValue
    from packager.configure.site.read import SiteSettings
    from packager.kubernetes.kubectl.client import Kubectl

QUESTIONS = example.QUESTIONS


@dataclass(frozen=True, slots=True)
class ShownSite:
    """The values that a site sets."""

    path: Path  # the site's file
    package: str | None  # the name of the package that it is shown for; None for every package
    entries: tuple[SetValue, ...]  # the values that are in effect
    overrides: int  # the number of overrides in the file that were not taken into account; 0 for a package

    def as_json(self) -> dict[str, Any]:
        """Return the values for `-o json`."""
        return {
            "file": str(self.path),
            "package": self.package,
            "values": [entry.as_json() for entry in self.entries],
            "overrides": self.overrides,
        }


@dataclass(frozen=True, slots=True)
class CheckedSite:
    """The results of checking a site's file against a cluster."""

    path: Path  # the site's file
    namespace: str  # the namespace of the objects
    checks: tuple[SiteCheck, ...]  # the results

    @property
    def exit_code(self) -> int:
        """1 when something is missing, 6 when something could not be checked, else 0."""
        states = {result.state for result in self.checks}
        if NamedState.MISSING in states:
            return MlpackError.exit_code
        return ToolError.exit_code if NamedState.UNKNOWN in states else 0

    def as_json(self) -> dict[str, Any]:
        """Return the results for `-o json`."""
        checks = [
            {"state": result.state, "subject": result.subject, "from": result.place, "message": result.message}
            for result in self.checks
        ]
        return {"file": str(self.path), "namespace": self.namespace, "checks": checks, "exit_code": self.exit_code}


def check(site: SiteSettings, kubectl: Kubectl) -> CheckedSite:
    """Ask a cluster whether it has the objects and the node labels that a site's file names.

    Raises:
        ClusterError: The cluster does not answer.
        ToolError: kubectl is missing.
    """
    namespace = kubectl.default_namespace()
    return CheckedSite(site.path, namespace, tuple(sitecheck.check(site, replace(kubectl, namespace=namespace))))


def create(path: Path, values: Mapping[str, str], *, force: bool) -> None:
    """Write a new, commented file; the folder is created.

    Raises:
        UsageError: The file exists, and `force` is not set; or a value is invalid.
        ToolError: The file cannot be written.
    """
    content = example.text(values).encode()
    parsed(path, content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{path.parent} cannot be created: {reason(error)}") from None
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        stream.write(content)


def show(site: SiteSettings, package: Path | None) -> ShownSite:
    """Return the values that a site sets for a package, or for every package.

    Raises:
        UsageError: There is no such package.
        VerificationError: The path is not a package.
        ToolError: The package cannot be read.
    """
    if package is None:
        return ShownSite(site.path, None, defaults(site, None).entries, len(site.config.overrides))
    with opened(package) as opened_package:
        return ShownSite(site.path, opened_package.name, defaults(site, labels(opened_package)).entries, 0)
