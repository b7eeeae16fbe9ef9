"""Case and CheckResult: the input and the output of a check. Tests: cluster/test_doctor.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, MlpackError, ToolError
from packager.base.values import Value
from packager.cluster import apply as deploy
from packager.cluster.admission import Trial, try_pods
from packager.cluster.doctor.demand import Demand, demands
from packager.cluster.ownership import look_up

if TYPE_CHECKING:
    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity, Key
    from packager.cluster.target import Target
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.rendering.overlay import RenderedOverlay


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILS = "fails"
    UNKNOWN = "unknown"
    NOTE = "note"


class CheckResult(Value, frozen=True):
    """One result of a check."""

    check: str  # the name of the check
    state: CheckState  # whether the package would fail
    message: str  # the finding, in a sentence
    fix: str | None = None  # A command that fixes the problem, or that shows more about it


@dataclass(frozen=True)
class Case:
    """A package's overlay, and the cluster that it is to run in."""

    target: Target  # the overlay
    kubectl: Kubectl  # the user's kubectl, set to the namespace
    namespace: str  # the namespace to run in
    manifests: Manifests  # the objects that would be applied
    overlay: RenderedOverlay  # the rendered overlay, with its pods
    identity: Identity  # the user and the build of the package
    _discovery: dict[str, Object | None] = field(default_factory=dict, repr=False)

    @cached_property
    def plan(self) -> tuple[tuple[Object, ...], MlpackError | None]:
        """The objects as the server would store them, or the reason why it refuses a dry run of the manifests."""
        try:
            return tuple(deploy.planned(self.kubectl, self.stamped)), None
        except (ClusterError, ToolError) as error:
            return (), error

    @cached_property
    def stamped(self) -> str:
        """The manifests as JSON, with labels and annotations of a deploy."""
        return self.manifests.stamped("sha256:" + "0" * 64, "mlpack doctor")

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The pods of each template, as the server would create them."""
        return try_pods(self.kubectl, self.manifests, self.overlay.pods, self.identity, self.plan[0])

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """The resources that the workload's pods need, including changes by the cluster's policies."""
        return demands(self.overlay, [trial.spec for trial in self.trials])

    @cached_property
    def live(self) -> dict[Key, Object]:
        """The existing objects with the names of the manifests. Raises ClusterError."""
        return look_up(self.kubectl, self.manifests.objects)

    def resource(self, api: str, kind: str) -> str | None:
        """Return the resource name of a kind in an API (`mpijobs`); None if it is not served. Raises ClusterError."""
        entries = self._discovered(f"/apis/{api}" if "/" in api else f"/api/{api}").get("resources") or ()
        names = (str(entry["name"]) for entry in entries if entry["kind"] == kind)
        return next((name for name in names if "/" not in name), None)

    def versions(self, group: str) -> list[str]:
        """Return the served versions of an API group. Raises ClusterError."""
        entries = self._discovered(f"/apis/{group}").get("versions") if group else None
        return [str(entry["version"]) for entry in entries or ()]

    def _discovered(self, path: str) -> Object:
        if path not in self._discovery:
            self._discovery[path] = self.kubectl.raw(path)
        return self._discovery[path] or {}

    @property
    def namespace_flag(self) -> str:
        """The kubectl flag that selects the namespace."""
        return f"-n {quote(self.namespace)}"


def ok(check: str, message: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(check, CheckState.OK, message)


def fails(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a problem that would make the package fail."""
    return CheckResult(check, CheckState.FAILS, message, fix)


def unknown(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a check that could not be made."""
    return CheckResult(check, CheckState.UNKNOWN, message, fix)


def note(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a remark that does not make the package fail."""
    return CheckResult(check, CheckState.NOTE, message, fix)
