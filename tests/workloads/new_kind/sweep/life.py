"""Sweep: over when its status says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.kubernetes.objects import created, name, status
from packager.kubernetes.verdict import Phase, Verdict
from packager.workloads.operator import Operator
from packager.workloads.workload import Role, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot

_LABEL = "example.com/sweep"

OPERATOR = Operator(
    short="sweep",
    name="sweep-operator",
    deployment="sweep-operator",
    lease="sweep-operator",
    lease_seconds=15,
    version="v1.0.0",
    url="https://example.com/sweep-operator.yaml",
    sha256="0" * 64,
    kind="Sweep",
    crd="sweeps.example.com",
    api="example.com/v1",
    edit_role="sweeps-edit",
    rival=None,
)


class Sweep(Workload):
    """A workload of as many pods as it has trials."""

    name = "Sweep"
    resource = "sweeps.example.com"
    operator = OPERATOR

    def selector(self, workload: Object) -> Mapping[str, str]:
        """Return the label of its pods."""
        return {_LABEL: name(workload)}

    def pod_labels(self, name: str, role: str) -> dict[str, str]:  # noqa: ARG002 - all pods are alike
        """Return the labels that the operator adds."""
        return {_LABEL: name}

    def role(self, name: str, pod: str) -> Role | None:
        """Return "main" for each trial."""
        return "main" if re.fullmatch(rf"{re.escape(name)}-trial-\d+", pod) else None

    def ending(self, snapshot: Snapshot) -> Verdict | None:
        """Return the verdict from the workload's status."""
        endings = {
            "Done": Verdict(Phase.SUCCEEDED, "all trials have succeeded"),
            "Broken": Verdict(Phase.FAILED, "a trial has failed"),
        }
        return endings.get(str(status(snapshot.workload).get("phase")))

    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the newest trial."""
        return max(pods, key=created, default=None)
