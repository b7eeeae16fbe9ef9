from __future__ import annotations

from typing import Any

import pytest

from packager.service.jobs import queues


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Job", {"suspend": True}),
        ("JobSet", {"suspend": True}),
        ("MPIJob", {"runPolicy": {"suspend": True}}),
        ("Pod", {}),
    ],
)
def test_put_labels_and_suspends_a_workload_for_kueue(kind: str, spec: dict[str, Any]) -> None:
    workload: dict[str, Any] = {"kind": kind, "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {}}
    assert queues.of(workload) is None
    queues.put(workload, "gpus")
    assert queues.of(workload) == "gpus"
    assert workload["metadata"]["labels"] == {"a": "b", "kueue.x-k8s.io/queue-name": "gpus"}
    assert workload["spec"] == spec
    assert queues.is_held(workload) == (kind != "Pod")


def test_pod_is_held_by_the_scheduling_gate_of_kueue() -> None:
    pod: dict[str, Any] = {"kind": "Pod", "metadata": {}, "spec": {}}
    assert not queues.is_held(pod)
    pod["spec"] = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    assert queues.is_held(pod)
