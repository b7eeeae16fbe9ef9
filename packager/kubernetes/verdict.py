"""Verdict: the phase of a workload, and the findings that explain it. Tests: diagnosis/test_diagnose.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from packager.kubernetes.remedy import Remedy


class Phase(StrEnum):
    """The phase of a workload."""

    ABSENT = "absent"
    PENDING = "pending"
    RUNNING = "running"
    SERVING = "serving"
    STUCK = "stuck"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether the phase is final."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def is_good(self) -> bool:
        """Whether the workload has reached its goal: it has succeeded, or it serves."""
        return self in (Phase.SUCCEEDED, Phase.SERVING)

    @property
    def is_reached(self) -> bool:
        """Whether the workload has reached its goal, or never will: it is over, or it serves."""
        return self.is_over or self is Phase.SERVING


NEVER = math.inf

RETRIED = "Retried"
"""The reason of a failure after which the controller of the workload has tried again, or will."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the workload from the cluster, for the user."""

    reason: str  # one word, Kubernetes' own where there is one: OOMKilled, Unschedulable
    subject: str  # the object that it concerns: `pod/x`
    message: str  # the error
    remedy: Remedy | None = None  # the fix, if it is known
    blocks: bool = True  # whether the workload cannot go on because of it
    final_after: float = NEVER  # seconds after which it can be expected to stay; NEVER if it may pass at any time
    log: tuple[str, ...] = ()  # the last lines that the container wrote
    others: int = 0  # the number of other objects with the same finding
    container: str | None = None  # the container whose log may say more, if the pod's status contains none of it
    # the earliest time at which a controller or a kubelet tries again what failed; None if it is unknown
    next_try: datetime | None = None

    def __str__(self) -> str:
        more = f" (and {self.others} more)" if self.others else ""
        return f"{self.subject}{more}: {self.message}"

    @property
    def hint(self) -> str | None:
        """The remedy in words for the owner of a package; None if there is none."""
        return None if self.remedy is None else self.remedy.hint

    def as_json(self) -> dict[str, Any]:
        """Return the finding for `-o json`."""
        fields = {"reason": self.reason, "subject": self.subject, "message": self.message, "hint": self.hint}
        next_try = None if self.next_try is None else f"{self.next_try:%Y-%m-%dT%H:%M:%SZ}"
        return {**fields, "blocks": self.blocks, "others": self.others, "log": list(self.log), "nextTry": next_try}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The phase of a workload, in a few words, and why."""

    phase: Phase
    summary: str
    findings: tuple[Finding, ...] = ()


def grouped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with those that say the same of several objects as one."""
    groups: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.reason, finding.message.replace(finding.subject.partition("/")[2], ""))
        earlier = groups.get(key)
        groups[key] = replace(earlier, others=earlier.others + 1 + finding.others) if earlier else finding
    return tuple(groups.values())
