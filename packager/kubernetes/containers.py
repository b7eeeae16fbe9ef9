"""Reads the state of each container from a pod's status. Tests: cluster/test_status.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.kubernetes.objects import container_statuses

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object

_SIGNALS = 128
"""The number that a shell, and a container runtime, add to the signal that ended a program."""

_LAST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, as the kubelet saw it last.

    Attributes:
        name: The name.
        state: "waiting", "running" or "terminated"; None before the kubelet has said so.
        exit_code: The exit code, if it has ended.
        signal: The signal that ended it, if the exit code contains one.
        reason: The reason why it waits or has ended, in the word of Kubernetes.
        started: When it was started the last time, as an RFC 3339 time.
        finished: When it ended.
        restarts: The number of restarts.
    """

    name: str
    state: str | None
    exit_code: int | None
    signal: int | None
    reason: str | None
    started: str | None
    finished: str | None
    restarts: int

    def as_json(self) -> dict[str, Any]:
        """Return the container for `-o json`."""
        return {
            "name": self.name,
            "state": self.state,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "reason": self.reason,
            "started": self.started,
            "finished": self.finished,
            "restarts": self.restarts,
        }


def containers(pod: Object) -> tuple[Container, ...]:
    """Return the pod's containers, init containers first, as far as its status names them."""
    return tuple(_container(status) for status in container_statuses(pod))


def _container(status: Object) -> Container:
    state, facts = next(iter((status.get("state") or {}).items()), (None, None))
    facts = facts or {}
    code = facts.get("exitCode")
    signal = (code or 0) - _SIGNALS
    return Container(
        status["name"],
        state,
        code,
        signal if 0 < signal <= _LAST_SIGNAL else None,
        facts.get("reason"),
        facts.get("startedAt"),
        facts.get("finishedAt"),
        status.get("restartCount", 0),
    )
