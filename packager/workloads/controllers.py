"""Checks that the controllers of kube-controller-manager share. Tests: workloads/deployment/test_life.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.objects import events_about, shown, status
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

CONTROLLER_SILENCE = 8.0
"""Seconds in which a running controller has acted on its objects; it usually takes less than one."""

SILENT = "ControllerSilent"
"""The reason of a finding that a controller has not acted on its object."""

START_CONTROLLER = Remedy.of(
    Action.START_CONTROLLER, controller="kube-controller-manager", pods="--namespace=kube-system"
)

_MAX_PREFIX = 58
"""Characters that are left of a name before five are put behind it (k8s.io/apiserver, names.SimpleNameGenerator)."""


def generated_prefix(prefix: str, index: str = "") -> str:
    """Return a generated name without its last five characters: the beginning of `prefix`, and the whole index.

    Args:
        prefix: The beginning that the controller asks for.
        index: The part behind it, which is never cut (Kubernetes, pkg/controller/job: podGenerateNameWithIndex).
    """
    return f"{prefix[: _MAX_PREFIX - len(index)]}{index}"


def ignored_by_controller(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding if the controller of the workload's kind has not acted on it; a running one does at once."""
    workload = snapshot.workload
    is_known = status(workload) or snapshot.pods or snapshot.children or events_about(snapshot.events, workload)
    if is_known or snapshot.age < CONTROLLER_SILENCE:
        return
    message = f"no controller has reacted: the {workload['kind']} controller is not running"
    yield Finding(SILENT, shown(workload), message, START_CONTROLLER)


def ignored_change(workload: Object, seconds: float) -> Iterator[Finding]:
    """Yield a finding if the controller of the workload's kind has not acted on a change for `seconds`."""
    if seconds < CONTROLLER_SILENCE:
        return
    message = f"the {workload['kind']} controller has not acted on the change for more than {CONTROLLER_SILENCE:g} s"
    yield Finding(SILENT, shown(workload), message, START_CONTROLLER)
