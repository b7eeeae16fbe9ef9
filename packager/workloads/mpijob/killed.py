"""Finds worker processes that were OOMKilled, in the launcher's message. Tests: workloads/mpijob/test_templates.py."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.kubernetes.objects import container_statuses, main_container
from packager.kubernetes.oomkilled import killed_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Finding

_IN_WORKERS = re.compile(
    r"processes were killed for taking more memory than their worker may, in:"
    r"(?P<workers>(?: [a-z0-9-]{1,63}){1,20})(?:, and (?P<more>\d{1,6}) more)?\s*"
)
"""The message of mpi-launcher.sh in the status of its pod; the workers are stopped when the launcher ends."""


def killed_in_workers(launcher: Object, limit: str | None, is_worker: Callable[[str], bool]) -> Iterator[Finding]:
    """Yield the workers in which a process was killed for its memory use although the job ended well.

    Args:
        launcher: The launcher's pod.
        limit: The memory that each worker may take.
        is_worker: Whether the job has a worker of this name: the launcher's program may have written anything.
    """
    match = _IN_WORKERS.fullmatch(_termination_message(launcher))
    if match is None:
        return
    unnamed_workers = int(match["more"] or 0)
    for worker in filter(is_worker, match["workers"].split()):
        yield replace(killed_process(f"pod/{worker}", "it", limit, "the job"), others=unnamed_workers)
        unnamed_workers = 0


def _termination_message(pod: Object) -> str:
    """Return the message that the pod's main container left in its status when it succeeded."""
    for container in container_statuses(pod):
        terminated = container["state"].get("terminated") or {}
        if container["name"] == main_container(pod) and terminated and not terminated.get("exitCode"):
            return str(terminated.get("message") or "")
    return ""
