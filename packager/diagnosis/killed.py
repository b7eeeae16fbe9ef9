"""Finds processes that were OOMKilled in a workload that ended well. Tests: diagnosis/test_diagnose.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.objects import container_statuses, shown
from packager.kubernetes.pods import killed_process, memory_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Finding


def killed_children(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods in which a process was killed for its memory use although the container ended well."""
    for pod in snapshot.pods:
        for container in container_statuses(pod):
            terminated = container["state"].get("terminated") or {}
            # The runtime says OOMKilled of a container when the kernel has killed any of its processes.
            if terminated.get("reason") == "OOMKilled" and not terminated.get("exitCode"):
                where = f"container {container['name']}"
                limit = memory_limit(pod["spec"], container["name"])
                yield killed_process(shown(pod), where, limit, "the container")
