"""Makes findings for containers and processes that were OOMKilled. Tests: diagnosis/test_losses.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object

REASON = "OOMKilled"
"""The reason of these findings, in the word of Kubernetes."""


def killed_container(subject: str, container: str, limit: str | None, log: tuple[str, ...]) -> Finding:
    """Return the finding that a container was killed for its memory use."""
    message = f"container {container} used more memory than its limit{f' of {limit}' if limit else ''}"
    return Finding(REASON, subject, message, Remedy.of(Action.RAISE_MEMORY), log=log, container=container)


def killed_process(subject: str, where: str, limit: str | None, ended: str) -> Finding:
    """Return the finding that a process was killed for its memory use although its workload or container ended well."""
    most = f"the limit of {limit}" if limit else "available"
    message = (
        f"a process in {where} was killed for using more memory than {most}, and {ended} still ended with exit code 0"
    )
    return Finding(REASON, subject, message, Remedy.of(Action.CHECK_RESULT), blocks=False)


def memory_limit(spec: Object, container: str | None = None) -> str | None:
    """Return the memory limit of a container in a pod's spec; of the first one if none is named."""
    specified = [*spec["containers"], *(spec.get("initContainers") or ())]
    for entry in specified:
        if container in (None, entry["name"]):
            limit = ((entry.get("resources") or {}).get("limits") or {}).get("memory")
            return str(limit) if limit else None
    return None
