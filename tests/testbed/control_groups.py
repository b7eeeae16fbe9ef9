"""The control group below which the kubelet keeps the pods'.

Control groups belong to the machine's kernel, not to a namespace that ends with the node: they have to be removed.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.testbed.places import NAME

_ROOT = Path("/sys/fs/cgroup")
_PATIENCE = 5.0


def create() -> None:
    """Makes the group in every hierarchy: the kubelet insists on finding its --cgroup-root."""
    for group in _groups():
        group.mkdir(exist_ok=True)


def remove() -> None:
    """Removes the group and all below it; their processes have ended."""
    deadline = time.monotonic() + _PATIENCE
    for group in _groups():
        while group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(group, topdown=False):
                with suppress(OSError):  # busy for a moment after its last process
                    Path(folder).rmdir()


def _groups() -> list[Path]:
    """Version 2 of control groups has a single hierarchy; version 1 has one for each kind of resource."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT / NAME]
    hierarchies = {entry.resolve() for entry in _ROOT.iterdir() if (entry / "cgroup.procs").exists()}
    return sorted(hierarchy / NAME for hierarchy in hierarchies)
