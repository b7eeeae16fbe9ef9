"""Finds the pod of a workload by the index of a worker, or of a pod of an indexed Job.

Tests: workloads/job/test_array.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UsageError

if TYPE_CHECKING:
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload


def pod_of_index(kind: Workload, snapshot: Snapshot, index: int) -> Object | None:
    """Return the newest pod with this index; None if there is none yet.

    Raises:
        UsageError: The workload has no such index.
    """
    indexes = kind.indexes(snapshot.workload)
    if index not in indexes:
        raise UsageError(f"index {index} not found", hint=f"there are 0 to {indexes[-1]}")
    return kind.indexed(snapshot.pods).get(index)
