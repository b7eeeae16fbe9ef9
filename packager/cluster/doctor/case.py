"""Case and CheckResult: the input and the output of a check."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, ToolError
from packager.cluster import deploy
from packager.cluster.doctor.demand import Demand, demands
from packager.cluster.ownership import look_up
from packager.cluster.trial import Trial, try_pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.errors import MlpackError
    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity, Key
    from packager.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.podsecurity import Level
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.security import Exceeded


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILS = "fails"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was checked.

    Attributes:
        check: What, in a word.
        state: Whether it would fail.
        message: What was found.
        fix: The command that mends it, or that says more.
    """

    check: str
    state: CheckState
    message: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedObjects:
    """The server's answer to a dry run.

    Attributes:
        objects: The objects as it would store them.
        error: Why it would not.
    """

    objects: tuple[Object, ...] = ()
    error: MlpackError | None = None


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
        identity: Who works here, with which build.
        creating: The commands that create claims which the overlay mounts and does not contain, by the claim.
    """

    source: str
    kubectl: Kubectl
    namespace: str
    manifests: Manifests
    overlay: RenderedOverlay
    level: Level
    exceeded: tuple[Exceeded, ...]
    identity: Identity
    creating: Mapping[str, str] = field(default_factory=dict)
    _discovery: dict[str, Object | None] = field(default_factory=dict, repr=False)

    @cached_property
    def plan(self) -> PlannedObjects:
        """What the server would store of what would be applied, or why it would not."""
        try:
            return PlannedObjects(tuple(deploy.planned(self.kubectl, self.stamped)))
        except (ClusterError, ToolError) as error:
            return PlannedObjects(error=error)

    @cached_property
    def stamped(self) -> str:
        """What would be applied, as JSON."""
        return self.manifests.stamped("sha256:" + "0" * 64, "mlpack doctor")

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The pods of each template, as the server would create them."""
        return try_pods(self.kubectl, self.manifests, self.overlay.pods, self.identity, self.plan.objects)

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """What the workload's pods ask for, with what the cluster's policies make of it."""
        return demands(self.overlay, [trial.spec for trial in self.trials])

    @cached_property
    def live(self) -> dict[Key, Object]:
        """What is in the cluster under the names of what would be applied. Raises ClusterError."""
        return look_up(self.kubectl, self.manifests.objects)

    def resource(self, api: str, kind: str) -> str | None:
        """Return the name by which the API serves a kind (`mpijobs`); None when it does not. Raises ClusterError."""
        listed = self._discovered(f"/apis/{api}" if "/" in api else f"/api/{api}")
        for entry in (listed or {}).get("resources") or ():
            if entry["kind"] == kind and "/" not in entry["name"]:
                return str(entry["name"])
        return None

    def versions(self, group: str) -> list[str]:
        """Return the versions of an API group that are served. Raises ClusterError."""
        listed = self._discovered(f"/apis/{group}") if group else None
        return [str(entry["version"]) for entry in (listed or {}).get("versions") or ()]

    def _discovered(self, path: str) -> Object | None:
        if path not in self._discovery:
            self._discovery[path] = self.kubectl.raw(path)
        return self._discovery[path]

    @property
    def namespace_flag(self) -> str:
        """The flag that points a command of the user's at the namespace."""
        return f"-n {quote(self.namespace)}"


def ok(check: str, message: str) -> CheckResult:
    """Return the result that there is no problem."""
    return CheckResult(check, CheckState.OK, message)


def fails(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return the result that the package would fail."""
    return CheckResult(check, CheckState.FAILS, message, fix)


def unknown(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return the result that the check could not be made."""
    return CheckResult(check, CheckState.UNKNOWN, message, fix)


def note(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a remark that the user should know, although nothing fails because of it."""
    return CheckResult(check, CheckState.NOTE, message, fix)
