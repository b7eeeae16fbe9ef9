"""Creates and removes the control group that contains the pods' groups.

Control groups belong to the machine's kernel, not to the node's namespaces, so they must be removed explicitly.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.testbed.places import NAME

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE = 5.0


def create() -> None:
    """Create the group in every hierarchy, because the kubelet requires that its --cgroup-root exists."""
    for group in _groups():
        group.mkdir(exist_ok=True)


def remove() -> None:
    """Remove the group and all groups below it, whose processes have ended."""
    deadline = time.monotonic() + _PATIENCE
    for group in _groups():
        while group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(group, topdown=False):
                with suppress(OSError):  # the group is busy for a moment after its last process has ended
                    Path(folder).rmdir()


def _groups() -> list[Path]:
    """Return the group's folder in each hierarchy: version 2 has one hierarchy, version 1 one for each resource."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT / NAME]
    hierarchies = {entry.resolve() for entry in _ROOT.iterdir() if (entry / "cgroup.procs").exists()}
    return sorted(hierarchy / NAME for hierarchy in hierarchies)
