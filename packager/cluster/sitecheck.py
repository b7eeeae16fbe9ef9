"""Checks that a cluster has the objects and node labels that a site's file names."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, NotServedError, UnreachableError
from packager.base.values import Value
from packager.configure.site.defaults import everything
from packager.package.options import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.configure.site.defaults import SetValue
    from packager.configure.site.read import SiteSettings
    from packager.kubernetes.kubectl.client import Kubectl

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


def check(site: SiteSettings, kubectl: Kubectl) -> Iterator[SiteCheck]:
    """Yield the result for each object, and each set of node labels, that a site's file names.

    Raises:
        UnreachableError: The cluster did not answer.
        ToolError: kubectl is missing.
        UsageError: There is no such context.
    """
    values = list(everything(site))
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
