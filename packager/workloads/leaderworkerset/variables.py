"""The variables and labels of LeaderWorkerSet. Tests: workloads/leaderworkerset/test_structure.py."""

from __future__ import annotations

VARIABLES = ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")
"""The variables that it adds to every container (LeaderWorkerSet v0.10, pkg/utils/pod: AddLWSVariables)."""

NAME = "leaderworkerset.sigs.k8s.io/name"
"""The label with the name of the set, of its StatefulSets and pods."""

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
"""The label with the index of the group, of its pods and of the StatefulSet of its workers."""

WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
"""The label with the index of a pod in its group; that of the leader is 0."""

REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
"""The label with the revision of the templates; that of the leaders' StatefulSet has the newest."""


def reserved_reason(key: str) -> str | None:
    """Return why the variable `key` must not be set; None if it may be."""
    return "LeaderWorkerSet sets it, in every container" if key in VARIABLES else None
