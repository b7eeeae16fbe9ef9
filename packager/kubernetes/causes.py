"""Words the causes for which Kubernetes stops pods, by their names in its objects. Tests: diagnosis/test_losses.py."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE_SILENT = "its node does not answer, or has a taint that it does not tolerate"
_PREEMPTED = "a pod of higher priority preempted it"
_NODE_GONE = "its node no longer exists"

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        # Reasons of the condition DisruptionTarget.
        "DeletionByPodGC": _NODE_GONE,
        "DeletionByTaintManager": _NODE_SILENT,
        "EvictionByEvictionAPI": "it was evicted (a drain of its node, or a request to evict it)",
        "PreemptionByScheduler": _PREEMPTED,
        # Reasons of events.
        "Preempted": _PREEMPTED,
        "TaintManagerEviction": _NODE_SILENT,
        # Reasons of events and of the status of a pod.
        "Evicted": "its node had too little left of something",
        # Reasons of the status of a pod.
        "NodeLost": _NODE_GONE,
        "Preempting": _PREEMPTED,
        "UnexpectedAdmissionError": "its node rejected it",
    }
)
"""The cause of each reason."""
