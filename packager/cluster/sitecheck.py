"""Checks that a cluster has the objects and node labels that a site's file names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, MlpackError, NotServedError, ToolError, UnreachableError
from packager.base.values import Value
from packager.package.options import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.site.read import SetValue, SiteSettings

_RESOURCES = {
    "queue": "localqueues.kueue.x-k8s.io",
    "pullSecret": "secrets",
    "CLAIM_CLASS": "storageclasses",
    "SERVICE_ACCOUNT": "serviceaccounts",
    **dict.fromkeys(CLAIMS, "persistentvolumeclaims"),
}
"""The resource of the object that a value names, by the last part of the value's key."""

_MADE_BY_PACKAGES = ("options.pvc-create", "OUTPUT_CLAIM")
"""The option with which packages create the claim for results themselves, and the key of that claim."""


class NamedState(StrEnum):
    """Whether the cluster has what a site's file names."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


class SiteCheck(Value, frozen=True):
    """The result of one check."""

    state: NamedState  # whether the cluster has it
    subject: str  # the object, as `kubectl get` takes it, or the labels of nodes
    place: str  # the file and the line that name it
    message: str = ""  # the reason why it is unknown; empty for the other states


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
        UnreachableError: The cluster did not answer.
    """
    namespace = kubectl.default_namespace()
    return CheckedSite(site.path, namespace, tuple(checks(site, replace(kubectl, namespace=namespace))))


def checks(site: SiteSettings, kubectl: Kubectl) -> Iterator[SiteCheck]:
    """Yield the result for each object, and each set of node labels, that a site's file names."""
    values = site.entries
    option, claim = _MADE_BY_PACKAGES
    has_own_claim = any(value.key == option for value in values)
    checked = set()
    for value in values:
        name = value.key.rpartition(".")[2]
        if name == "nodeSelector":
            subject = "nodes with " + ",".join(f"{key}={label}" for key, label in value.value.items())
        elif name in _RESOURCES and not (has_own_claim and name == claim):
            subject = f"{_RESOURCES[name]}/{value.value}"
        else:
            continue
        if subject not in checked:
            checked.add(subject)
            yield _checked(value, subject, kubectl)


def _checked(value: SetValue, subject: str, kubectl: Kubectl) -> SiteCheck:
    try:
        if value.key == "nodeSelector":
            labels = subject.removeprefix("nodes with ")
            exists = bool(kubectl.items("nodes", f"--selector={labels}"))
        else:
            exists = kubectl.get(subject) is not None
    except UnreachableError:
        raise
    except NotServedError as error:
        return SiteCheck(NamedState.MISSING, subject, value.place, str(error))
    except ClusterError as error:
        return SiteCheck(NamedState.UNKNOWN, subject, value.place, str(error))
    return SiteCheck(NamedState.OK if exists else NamedState.MISSING, subject, value.place)
