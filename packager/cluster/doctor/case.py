"""What a check is given, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from packager.cluster.doctor.demand import Demand, demands

if TYPE_CHECKING:
    from packager.cluster.client import Kubectl
    from packager.cluster.manifests import Manifests
    from packager.cluster.objects import Object
    from packager.verify.overlay import Overlay
    from packager.verify.security import Exceeded, Level


class State(StrEnum):
    """What a check has come to."""

    OK = "ok"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What, in a word.
        state: Whether it would fail.
        message: What was found.
        fix: The command that mends it, or that says more.
    """

    check: str
    state: State
    message: str
    fix: str | None = None


@dataclass(frozen=True)
class Case:
    """A package's overlay, and the cluster that it is to run in.

    Attributes:
        source: The package, as the user named it.
        kubectl: The user's, pointed at the namespace.
        namespace: Where it is to run.
        manifests: What would be applied.
        overlay: The same, with its pods.
        level: The Pod Security level that it reaches.
        exceeded: What keeps it from a stricter one.
    """

    source: str
    kubectl: Kubectl
    namespace: str
    manifests: Manifests
    overlay: Overlay
    level: Level
    exceeded: tuple[Exceeded, ...]
    _discovery: dict[str, Object | None] = field(default_factory=dict, repr=False)

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """What the workload's pods ask for."""
        return demands(self.overlay)

    def resource(self, api: str, kind: str) -> str | None:
        """Return the name by which the API serves a kind (`mpijobs`); None when it does not. Raises ClusterError."""
        listed = self._discovered(f"/apis/{api}" if "/" in api else f"/api/{api}")
        for each in (listed or {}).get("resources") or ():
            if each["kind"] == kind and "/" not in each["name"]:
                return str(each["name"])
        return None

    def versions(self, group: str) -> list[str]:
        """Return the versions of an API group that are served. Raises ClusterError."""
        listed = self._discovered(f"/apis/{group}") if group else None
        return [str(each["version"]) for each in (listed or {}).get("versions") or ()]

    def _discovered(self, path: str) -> Object | None:
        if path not in self._discovery:
            self._discovery[path] = self.kubectl.raw(path)
        return self._discovery[path]

    @property
    def here(self) -> str:
        """The flag that points a command of the user's at the namespace."""
        return f"-n {self.namespace}"


def ok(check: str, message: str) -> Finding:
    """Return that nothing is in the way."""
    return Finding(check, State.OK, message)


def fails(check: str, message: str, fix: str | None = None) -> Finding:
    """Return that the package would fail."""
    return Finding(check, State.FAILS, message, fix)


def unknown(check: str, message: str, fix: str | None = None) -> Finding:
    """Return that it could not be found out."""
    return Finding(check, State.UNKNOWN, message, fix)
